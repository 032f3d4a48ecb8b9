"""Gates: bounds on what was measured, by --max and --min or by a project file, and the exit code that they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import common
from calibrant.errors import InvalidInputError, unknown_name

if TYPE_CHECKING:
    from calibrant.results import Score


@dataclass(frozen=True, slots=True)
class Gate:
    """A metric must be at most (`max`) or at least (`min`) a limit; a metric that is not defined fails."""

    metric: str
    bound: str
    limit: float

    def passes(self, value: float) -> bool:
        """Say whether a value keeps the bound."""
        return value <= self.limit if self.bound == "max" else value >= self.limit

    def result(self, scores: Mapping[str, Score]) -> dict[str, Any]:
        """Return how the gate ended, as plain values."""
        value = scores[self.metric].value
        return {**asdict(self), "value": value, "passed": self.passes(value)}

    def describe(self, scores: Mapping[str, Score]) -> str:
        """Return a line that says how the gate ended."""
        value = scores[self.metric].value
        if math.isnan(value):
            return f"Gate failed: {self.metric} is not defined on these rows ({self.bound} {self.limit:g})"
        how = "passed" if self.passes(value) else "failed"
        sign = {("max", True): "<=", ("max", False): ">", ("min", True): ">=", ("min", False): "<"}
        return f"Gate {how}: {self.metric} {value:.6g} {sign[self.bound, self.passes(value)]} {self.limit:g}"


def gate_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of what is measured, of gates, and --json."""
    options = [
        click.option(
            "--evaluated-on",
            default="given data",
            show_default=False,
            metavar="TEXT",
            help='What the rows are, such as "held-out, May".',
        ),
        click.option("--max", "at_most", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is above."),
        click.option("--min", "at_least", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is below."),
        common.json_option,
    ]
    return common.with_options(options)(command)


def parse_gates(at_most: Sequence[str], at_least: Sequence[str]) -> list[Gate]:
    """Parse the texts NAME=VALUE of --max and --min."""
    gates = []
    for bound, text in [*(("max", text) for text in at_most), *(("min", text) for text in at_least)]:
        name, _, value = text.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if not name.strip() or math.isnan(limit):
            raise InvalidInputError(f"--{bound} {text!r} is not NAME=VALUE. Write it so: --{bound} ece=0.02.")
        gates.append(Gate(name.strip(), bound, limit))
    return gates


def check_gates(gates: Sequence[Gate], scores: Mapping[str, Score]) -> None:
    """Raise UnknownNameError if a gate names no metric that was measured."""
    for gate in gates:
        if gate.metric not in scores:
            raise unknown_name("metric", gate.metric, scores)


def gate_results(gates: Sequence[Gate], scores: Mapping[str, Score]) -> dict[str, Any]:
    """Return how the gates ended as a member of a document; nothing where there are none."""
    return {"gates": [gate.result(scores) for gate in gates]} if gates else {}


def judge(gates: Sequence[Gate], scores: Mapping[str, Score], *, as_json: bool) -> int:
    """Say how the gates ended; return the exit code."""
    passed = [gate.passes(scores[gate.metric].value) for gate in gates]
    for gate, is_passed in zip(gates, passed, strict=True):
        if not is_passed or not as_json:
            common.echo(gate.describe(scores), err=not is_passed)
    return 0 if all(passed) else 1
