"""Interleaved timing of rivals, the ratios between them, and the tables that show both."""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import calibrant

RESULTS = Path(__file__).parent / "results"
#: What long benchmarks have measured so far, a file for each case.
KEPT = Path(__file__).parent / ".kept"
#: Parts of the package that show what others find.
_SHOWN_BY = ("cli", "displays", "report")
_PACKAGES = ("calibrant", "numpy", "numba", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Rounds:
    """Seconds that one rival took in each round: on the wall's clock, and of processor time."""

    wall_s: list[float]
    cpu_s: list[float]


@dataclass(frozen=True)
class Figure:
    """A number with a goal: a ratio of times, or a difference of results.

    Of a ratio, `value` is the median over rounds of the processor times' ratio, `low` and `high` its extremes, and
    `wall` the median by the wall's clock.
    """

    case: str
    claim: str
    value: float
    unit: str = "x"
    low: float | None = None
    high: float | None = None
    wall: float | None = None
    goal: str = ""
    is_met: bool | None = None


@dataclass
class Results:
    """All that one benchmark measured."""

    title: str
    timings: list[dict[str, Any]] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def race(self, case: str, rivals: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, Rounds]:
        """Run all rivals in turn, round after round, and note the medians."""
        return self.note(case, race(rivals, rounds=rounds))

    def note(self, case: str, measured: dict[str, Rounds]) -> dict[str, Rounds]:
        """Add the median times of each rival to the table."""
        for name, times in measured.items():
            wall_ms, cpu_ms = (1e3 * statistics.median(t) for t in (times.wall_s, times.cpu_s))
            self.timings.append({"case": case, "what": name, "wall_ms": wall_ms, "cpu_ms": cpu_ms})
        return measured

    def ratio(
        self,
        case: str,
        claim: str,
        numerator: Rounds,
        denominator: Rounds,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Add how many times longer the numerator took, and whether that meets the goal."""
        by_round = [a / b for a, b in zip(numerator.cpu_s, denominator.cpu_s, strict=True)]
        wall = statistics.median(a / b for a, b in zip(numerator.wall_s, denominator.wall_s, strict=True))
        self._judge(
            Figure(case, claim, statistics.median(by_round), low=min(by_round), high=max(by_round), wall=wall),
            at_least,
            at_most,
        )

    def difference(self, case: str, claim: str, value: float, *, at_most: float) -> None:
        """Add the largest difference between two results, and whether that meets the goal."""
        self.share(case, claim, value, at_most=at_most)

    def share(self, case: str, claim: str, value: float, *, at_most: float | None) -> None:
        """Add a share of cases, and whether that meets the goal, where there is one."""
        self._judge(Figure(case, claim, value, unit=""), None, at_most)

    def spread(self, case: str, claim: str, value: float, low: float, high: float) -> None:
        """Add a median with the tenths of cases below and above."""
        self._judge(Figure(case, claim, value, unit="", low=low, high=high), None, None)

    def _judge(self, figure: Figure, at_least: float | None, at_most: float | None) -> None:
        goal, is_met = "", None
        if at_least is not None:
            goal, is_met = f">= {at_least:g}", figure.value >= at_least
        if at_most is not None:
            goal, is_met = f"<= {at_most:g}", figure.value <= at_most
        self.figures.append(Figure(**{**asdict(figure), "goal": goal, "is_met": is_met}))

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        RESULTS.mkdir(exist_ok=True)
        facts = machine_facts()
        parts = [self.title, table(("", ""), list(facts.items())), self._figures_table()]
        text = "\n\n".join([*parts, self._timings_table()] if self.timings else parts)
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        document = {
            "title": self.title,
            "machine": facts,
            "figures": [asdict(figure) for figure in self.figures],
            "timings": self.timings,
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return text

    def _figures_table(self) -> str:
        rows = []
        for f in self.figures:
            value = f"{f.value:.3g} {f.unit}".strip()
            spread = "" if f.low is None or f.high is None else f"{f.low:.3g} to {f.high:.3g}"
            outcome = {None: "", True: "met", False: "MISSED"}[f.is_met]
            wall = "" if f.wall is None else f"{f.wall:.3g} {f.unit}"
            rows.append((f.case, f.claim, value, spread, wall, f.goal, outcome))
        return table(("case", "claim", "value", "over rounds", "by the clock", "goal", "result"), rows, right=(2, 3, 4))

    def _timings_table(self) -> str:
        rows = [(t["case"], t["what"], f"{t['wall_ms']:.2f}", f"{t['cpu_ms']:.2f}") for t in self.timings]
        return table(("case", "what", "clock ms", "CPU ms"), rows, right=(2, 3))


@dataclass
class Tables:
    """What a benchmark by simulation found: tables, and figures with goals."""

    title: str
    tables: list[dict[str, Any]] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)

    def add(self, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.tables.append({"caption": caption, "header": list(header), "rows": [list(row) for row in rows]})

    def goal(self, claim: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        """Add a figure, and whether it meets its goal."""
        is_met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        self.goals.append({"claim": claim, "value": value, "is_met": is_met})

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        RESULTS.mkdir(exist_ok=True)
        goals = [(g["claim"], f"{g['value']:.4g}", "met" if g["is_met"] else "MISSED") for g in self.goals]
        tables = [f"{t['caption']}\n{table(t['header'], t['rows'], right=range(2, 20))}" for t in self.tables]
        reached = [table(("goal", "value", "result"), goals, right=(1,))] if goals else []
        text = "\n\n".join([self.title, *reached, *tables])
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        document = {"title": self.title, "machine": machine_facts(), "goals": self.goals, "tables": self.tables}
        (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return text


def race(rivals: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, Rounds]:
    """Time each rival once per round, in turn, after one round that doesn't count.

    What slows the machine down for a while so slows all rivals down, and a ratio within a round stays what it is.
    """
    measured: dict[str, Rounds] = {name: Rounds([], []) for name in rivals}
    for function in rivals.values():
        function()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, function in rivals.items():
                wall, cpu = time.perf_counter(), time.process_time()
                result = function()
                measured[name].cpu_s.append(time.process_time() - cpu)
                measured[name].wall_s.append(time.perf_counter() - wall)
                del result
    finally:
        gc.enable()
    return measured


def kept(measure: Callable[[Any], Any], case: Any, *, of: object) -> Any:
    """Return what a function measures of a case, as JSON has it; kept on disk as long as the code stays the same.

    `of` are the settings that are no part of the case. A benchmark of hours can be cut off and begun again.
    """
    source = inspect.getsource(inspect.getmodule(measure) or measure)
    key = f"{case!r} {of!r} {measure.__name__} {source} {_code_digest()}"
    path = KEPT / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    if not path.exists():
        KEPT.mkdir(exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(measure(case)), encoding="utf-8")
        new.replace(path)
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _code_digest() -> str:
    """Return what tells this code, of which no measure of rows depends on what only shows it, from any other."""
    source = Path(calibrant.__file__).parent
    files = [file for file in source.rglob("*.py") if file.relative_to(source).parts[0] not in _SHOWN_BY]
    found = hashlib.sha256()
    for file in [*sorted(files), Path(__file__).with_name("simulated_rows.py")]:
        found.update(file.read_bytes())
    return found.hexdigest()


def machine_facts() -> dict[str, str]:
    """Return what a reader needs to know of the machine; never its name."""
    facts = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "OMP threads": os.environ.get("OMP_NUM_THREADS", "as each library chooses"),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:  # run from the source tree without an install
            continue
    return facts


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Lay rows out in columns; those named in `right` are aligned to the right."""
    lines = [header, *rows] if any(header) else list(rows)
    widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
    sides: list[Literal["<", ">"]] = [">" if j in right else "<" for j in range(len(header))]
    text = ["  ".join(f"{cell:{side}{w}}" for cell, side, w in zip(line, sides, widths, strict=True)) for line in lines]
    if any(header):
        text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in text)
