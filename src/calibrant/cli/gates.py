"""Gates: bounds on metrics that make a command fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.errors import InvalidInputError, unknown_name
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
        return {
            "metric": self.metric,
            "bound": self.bound,
            "limit": self.limit,
            "value": value,
            "passed": self.passes(value),
        }

    def describe(self, scores: Mapping[str, Score]) -> str:
        """Return a line that says how the gate ended."""
        value = scores[self.metric].value
        if math.isnan(value):
            return f"Gate failed: {self.metric} is not defined on these rows ({self.bound} {self.limit:g})"
        how = "passed" if self.passes(value) else "failed"
        sign = {("max", True): "<=", ("max", False): ">", ("min", True): ">=", ("min", False): "<"}
        return f"Gate {how}: {self.metric} {value:.6g} {sign[self.bound, self.passes(value)]} {self.limit:g}"


def parse_gates(bound: str, texts: Sequence[str]) -> list[Gate]:
    """Parse NAME=VALUE texts."""
    gates = []
    for text in texts:
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
