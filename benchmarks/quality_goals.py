"""The goals of the benchmark of quality, each with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks._harness import table
from benchmarks.quality_methods import AUTO
from benchmarks.quality_table import Quality

#: Mean log loss of `auto` at each size, in multiples of the best method's.
WITHIN = 1.01
MOST_HARM = {"binary": 0.15, "multi-class": 0.09}
#: The strongest method of more than two classes that a peer has.
SMS = "probmetrics SMS"
_SHOWN = 4
Goal = tuple[str, str, bool]


def goals_text(quality: Quality) -> str:
    """Return the goals of `auto` as a table."""
    rows = [(goal, "met" if is_met else "MISSED", figures) for goal, figures, is_met in _goals(quality)]
    return table(("goal of auto", "result", "figures"), rows)


def _goals(quality: Quality) -> Iterator[Goal]:
    rows = {str(row["method"]): row for row in quality.summary()}
    auto = rows.pop(AUTO)
    mixed = {name: row for name, row in rows.items() if name.startswith("X ")}
    single = {name: row for name, row in rows.items() if name not in mixed}
    yield _least("lowest mean log loss of all single methods and peers", auto, single, "mean")
    if mixed:
        yield _least("lower mean log loss than every row X", auto, mixed, "mean")
    name = max(rows, key=lambda name: float(rows[name]["win log loss"]))
    yield (
        "higher log-loss win rate than every other row",
        f"{auto['win log loss']:.3f} against {rows[name]['win log loss']:.3f} ({name})",
        float(auto["win log loss"]) > float(rows[name]["win log loss"]),
    )
    for n in quality.mean_by_size(AUTO):
        best = _best(single, f"n={n}")
        ratio = float(auto[f"n={n}"]) / float(single[best][f"n={n}"])
        yield f"within 1% of the best at n = {n:,}", f"{100 * (ratio - 1):+.2f}% to {best}", ratio <= WITHIN
    lost = quality.losses_to_none()
    n_cells = len({(run["set"], run["n"]) for run in quality.runs})
    shown = "; ".join(f"{name} n={n}: {mean:+.4f} (s.e. {error:.4f})" for name, n, mean, error in lost[:_SHOWN])
    figures = f"{len(lost)} of {n_cells} sets and sizes" + (f": {shown}" if lost else "")
    yield "never loses to leaving alone by more than noise", figures, not lost
    most = MOST_HARM[quality.kind]
    yield f"harm in fewer than {most:.0%} of runs", f"{float(auto['harm']):.1%}", float(auto["harm"]) < most
    if SMS in rows:
        yield _least(f"mean log loss below that of {SMS}", auto, {SMS: rows[SMS]}, "mean")


def _least(goal: str, auto: dict[str, float | str], others: dict[str, dict[str, float | str]], key: str) -> Goal:
    best = _best(others, key)
    mine, other = float(auto[key]), float(others[best][key])
    return goal, f"{mine:.4f} against {other:.4f} ({best})", mine < other


def _best(rows: dict[str, dict[str, float | str]], key: str) -> str:
    """Name the method of least `key` among those that were run everywhere."""
    return min((name for name, row in rows.items() if not np.isnan(float(row[key]))), key=lambda n: float(rows[n][key]))
