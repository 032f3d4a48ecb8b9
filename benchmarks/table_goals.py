"""The rows and the goals of one part of the benchmark of tables, such as the plain models of one half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.quality_measures import clustered_mean
from benchmarks.quality_methods import AUTO, UNCALIBRATED
from benchmarks.quality_table import NEGLIGIBLE, NOISE, SIZES, TIE, wins
from benchmarks.table_measures import Measures
from benchmarks.table_runs import ALL

LABELS = (*(str(n) for n in SIZES), ALL)
LEAST_WIN = {"binary": 0.78, "multiclass": 0.85}
#: Shares of runs, of plain models and of good ones.
MOST_HARM_BEYOND_NOISE, MOST_HARM, MOST_HARM_OF_GOOD = 0.02, 0.08, 0.05
MOST_EXCESS = 0.05
#: Rows of combinations, which no package ships, begin so.
COMBINED = "X "


@dataclass(frozen=True)
class Part:
    """The runs of one part, for example the plain models of half A, with what is asked of every method."""

    kind: str
    name: str
    measures: Measures

    @property
    def methods(self) -> list[str]:
        """Names of the methods."""
        return [method.name for method in self.measures.methods]

    @property
    def losses(self) -> np.ndarray:
        """Log losses, shape (runs, methods)."""
        return self.measures.of("log_loss")

    @property
    def tables(self) -> np.ndarray:
        """The table of each run, by which standard errors are clustered."""
        return np.array([run.experiment.dataset for run in self.measures.runs])

    @property
    def sizes(self) -> np.ndarray:
        """The size of each run."""
        return np.array([run.size for run in self.measures.runs])

    @property
    def is_exchangeable(self) -> np.ndarray:
        """Which runs are of tables without groups."""
        return np.array([not run.is_grouped for run in self.measures.runs])

    def of(self, method: str) -> np.ndarray:
        """Return the log losses of a method, shape (runs,)."""
        return np.asarray(self.losses[:, self.methods.index(method)])

    def win(self, method: str) -> tuple[float, float]:
        """Return the share of other methods with a higher log loss, ties half, with its standard error."""
        won = wins(self.losses, self.methods.index(method))
        is_run = np.isfinite(won).any(axis=1)
        return clustered_mean(np.nanmean(won[is_run], axis=1), self.tables[is_run])

    def phi(self, method: str) -> tuple[float, float]:
        """Return the mean of (loss before - loss after) / loss before, with its standard error."""
        before = self.of(UNCALIBRATED)
        phi = np.divide(before - self.of(method), before, out=np.zeros_like(before), where=before > 0.0)
        return clustered_mean(phi, self.tables)

    def harm(self, method: str) -> tuple[float, float]:
        """Return the shares of runs in which the log loss rises, and rises by more than noise."""
        rise = self.of(method) - self.of(UNCALIBRATED)
        error = self.measures.of("error")[:, self.methods.index(method)]
        ran = np.isfinite(rise)
        beyond = rise[ran] > NOISE * error[ran] + NEGLIGIBLE
        return float((rise[ran] > TIE).mean()), float(beyond.mean())

    def worst_excess(self, method: str) -> float:
        """Return the largest log loss above that of the run's best single method, on exchangeable rows."""
        single = [j for j, name in enumerate(self.methods) if name != AUTO and not name.startswith(COMBINED)]
        excess = self.of(method) - np.nanmin(self.losses[:, single], axis=1)
        known = excess[self.is_exchangeable & np.isfinite(excess)]
        return float(known.max()) if known.size else float("nan")

    def mean(self, method: str, size: str | None = None) -> float:
        """Return the mean log loss over all runs or at one size; NaN where the method missed a run."""
        losses = self.of(method)
        return float((losses if size is None else losses[self.sizes == size]).mean())

    def less_auto(self, method: str, size: str | None = None) -> tuple[float, float]:
        """Return the mean log loss of a method less that of `auto` over the runs of both, with its standard error."""
        chosen = np.isfinite(self.of(method)) & np.isfinite(self.of(AUTO))
        if size is not None:
            chosen &= self.sizes == size
        if not chosen.any():
            return float("nan"), float("nan")
        return clustered_mean((self.of(method) - self.of(AUTO))[chosen], self.tables[chosen])

    def sizes_run(self) -> list[str]:
        """Name the sizes that there are runs of."""
        return [size for size in LABELS if (self.sizes == size).any()]

    def header(self) -> list[str]:
        """Return the columns of `rows`."""
        fixed = ("method", "win", "s.e.", "PHI", "s.e.", "harm", "beyond noise", "worst excess")
        return [*fixed, *(f"n={size}" for size in self.sizes_run()), "mean", "less auto", "s.e.", "seconds", "failed"]

    def rows(self) -> list[list[str]]:
        """Return a line per method, highest win rate first."""
        ran = [name for name in self.methods if np.isfinite(self.of(name)).any()]
        rows = {name: (self.win(name)[0], self._row(name)) for name in ran}
        return [row for _, row in sorted(rows.values(), key=lambda each: -each[0])]

    def _row(self, method: str) -> list[str]:
        j = self.methods.index(method)
        harm, beyond = self.harm(method)
        means = [self.mean(method, size) for size in (*self.sizes_run(), None)]
        return [
            method,
            *(f"{value:.3f}" for value in self.win(method)),
            *(f"{value:+.4f}" for value in self.phi(method)),
            f"{harm:.1%}",
            f"{beyond:.1%}",
            f"{self.worst_excess(method):.3f}",
            *("-" if np.isnan(value) else f"{value:.4f}" for value in means),
            *(f"{value:+.5f}" for value in self.less_auto(method)),
            f"{np.nanmedian(self.measures.of('seconds')[:, j]):.3f}",
            f"{np.nansum(self.measures.of('is_failed')[:, j]):.0f}",
        ]

    def goals(self) -> Iterator[tuple[str, float, dict[str, Any]]]:
        """Yield each goal of `auto` with its figure and its bound."""
        if self.name.startswith("good"):
            yield from self._goals_of_good()
            return
        harm, beyond = self.harm(AUTO)
        yield "win rate", self.win(AUTO)[0], {"at_least": LEAST_WIN[self.kind]}
        for size in self.sizes_run():
            yield self._goal_of_mean(size)
        yield "harm by more than noise", beyond, {"at_most": MOST_HARM_BEYOND_NOISE}
        if self.kind == "binary":
            yield "harm by mean", harm, {"at_most": MOST_HARM}
            yield "worst excess over the best single method", self.worst_excess(AUTO), {"at_most": MOST_EXCESS}

    def _goals_of_good(self) -> Iterator[tuple[str, float, dict[str, Any]]]:
        yield "mean PHI", self.phi(AUTO)[0], {"at_least": 0.0}
        yield "harm by mean", self.harm(AUTO)[0], {"at_most": MOST_HARM_OF_GOOD}

    def _goal_of_mean(self, size: str) -> tuple[str, float, dict[str, Any]]:
        """Compare with every other method of two classes, and with every peer of more."""
        rivals = [m.name for m in self.measures.methods if m.name != AUTO and (self.kind == "binary" or m.is_peer)]
        ahead = {name: self.less_auto(name, size) for name in rivals}
        ahead = {name: value for name, value in ahead.items() if np.isfinite(value[0])}
        if not ahead:
            return f"mean log loss at n = {size} less the best other's", float("nan"), {"at_most": 0.0}
        best = min(ahead, key=lambda name: ahead[name][0])
        claim = f"mean log loss at n = {size} less that of {best} (s.e. {ahead[best][1]:.5f})"
        return claim, -ahead[best][0], {"at_most": 0.0}
