"""What each method did in each run of the benchmark of tables, kept in a file per method."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.calarena import losses_of
from benchmarks.calarena_calibrators import in_columns
from benchmarks.quality import predict
from benchmarks.quality_measures import difference_error
from benchmarks.quality_methods import UNCALIBRATED, Method, log_losses
from benchmarks.table_runs import Run

#: What is kept of a method in a run: `error` is the standard error of its log loss less that of the scores as they are,
#: over held-out rows or their groups.
FIGURES = ("log_loss", "brier", "error", "seconds", "is_failed")


@dataclass(frozen=True)
class Measures:
    """Figures of shape (runs, methods, figures), NaN where a method was not run."""

    runs: list[Run]
    methods: list[Method]
    figures: np.ndarray

    def of(self, figure: str) -> np.ndarray:
        """Return one figure, shape (runs, methods)."""
        return np.asarray(self.figures[:, :, FIGURES.index(figure)])

    def take(self, chosen: np.ndarray) -> Measures:
        """Return some of the runs."""
        return Measures(
            [run for run, is_in in zip(self.runs, chosen, strict=True) if is_in], self.methods, self.figures[chosen]
        )


def measure_all(runs: list[Run], methods: list[Method], kept: Path, *, fresh: tuple[str, ...] = ()) -> Measures:
    """Measure the methods named in `fresh` anew and take the others as they were kept; without names, what is missing.

    A method is kept in its own file, with the runs by name, so that a comparison can be cut off and taken up again. The
    scores as they are, which every method is compared with, are measured wherever they are missing.
    """
    figures = np.full((len(runs), len(methods), len(FIGURES)), np.nan)
    for j, method in enumerate(methods):
        is_kept_only = bool(fresh) and method.name != UNCALIBRATED
        of_runs = _measured(method, runs, kept, is_fresh=method.name in fresh, is_kept_only=is_kept_only)
        figures[:, j] = [of_runs.get(run.key, (np.nan,) * len(FIGURES)) for run in runs]
    return Measures(runs, methods, figures)


def _measured(
    method: Method, runs: list[Run], kept: Path, *, is_fresh: bool, is_kept_only: bool
) -> dict[str, tuple[float, ...]]:
    path = kept / f"{re.sub(r'[^a-z0-9]+', '-', method.name.lower())}.json"
    known = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    if is_kept_only and not is_fresh:
        return known
    able = [run for run in runs if _is_able(method, run)]
    if is_fresh:
        for run in able:
            known.pop(run.key, None)
    missing = [run for run in able if run.key not in known]
    if not missing:
        return known
    begun = time.perf_counter()
    try:
        for run in missing:
            known[run.key] = measure_run(method, run)
    finally:
        _keep(path, {"method": method.name, "figures": FIGURES, "runs": known})
    print(f"{method.name}: {len(missing):,} runs in {time.perf_counter() - begun:.0f} s", flush=True)
    return known


def _is_able(method: Method, run: Run) -> bool:
    return run.experiment.n_classes <= method.most_classes and run.n <= method.most_rows


def measure_run(method: Method, run: Run) -> tuple[float, ...]:
    """Fit and measure one method in one run; where it fails, the scores stay as they are."""
    split = run.split()
    begun = time.perf_counter()
    found = predict(method, split)
    seconds = time.perf_counter() - begun
    held_out = split.held_out
    q = held_out.p if found is None else found
    error = difference_error(q, held_out.p, held_out)
    brier = losses_of(in_columns(q), held_out.y)[1]
    figures = (float(log_losses(q, held_out.y).mean()), brier, error, seconds, float(found is None))
    return tuple(float(f"{figure:.9g}") for figure in figures)


def _keep(path: Path, document: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    partial.replace(path)
