"""The runs of one kind of problem, their table, and the goals of the table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from benchmarks._harness import table
from benchmarks.quality_measures import clustered_mean
from benchmarks.quality_methods import AUTO, UNCALIBRATED

SIZES = (100, 300, 1_000, 3_000, 10_000)
TIE = 1e-9
#: Standard errors that count as noise.
NOISE = 2.0
#: What the clip of a probability of 0 that is left alone may cost.
NEGLIGIBLE = 1e-6


@dataclass
class Quality:
    """Held-out figures of every method in every run: `figures` has shape (runs, methods, figures).

    A figure is NaN where a method was not run, because it would take too long there.
    """

    kind: str
    figure_names: tuple[str, ...]
    methods: list[str]
    rivals: dict[str, str]
    runs: list[dict[str, object]] = field(default_factory=list)
    rows: list[list[list[float]]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def figures(self) -> np.ndarray:
        """All figures."""
        return np.array(self.rows)

    @property
    def log_loss(self) -> np.ndarray:
        """The log losses, shape (runs, methods)."""
        return np.asarray(self.figures[:, :, 0])

    def of(self, method: str) -> np.ndarray:
        """Return the log losses of a method, shape (runs,)."""
        return np.asarray(self.log_loss[:, self.methods.index(method)])

    @property
    def sizes(self) -> np.ndarray:
        """The number of calibration rows of each run."""
        return np.array([run["n"] for run in self.runs])

    @property
    def sets(self) -> np.ndarray:
        """The name of the score set of each run."""
        return np.array([run["set"] for run in self.runs])

    def mean_by_size(self, method: str) -> dict[int, float]:
        """Return the mean log loss at each size; NaN where the method missed a run."""
        losses = self.of(method)
        return {n: float(losses[self.sizes == n].mean()) for n in SIZES if (self.sizes == n).any()}

    def summary(self) -> list[dict[str, float | str]]:
        """Return a row per method, highest win rate first."""
        log_loss, figures = self.log_loss, self.figures
        best, none = np.nanmin(log_loss, axis=1), self.of(UNCALIBRATED)
        rows: list[dict[str, float | str]] = []
        for j, name in enumerate(self.methods):
            row: dict[str, float | str] = {"method": name}
            row |= {f"win {figure}": win_rate(figures[:, :, k], j) for k, figure in enumerate(self.figure_names)}
            row["excess"], row["error"] = clustered_mean(log_loss[:, j] - best, self.sets)
            row |= {f"n={n}": mean for n, mean in self.mean_by_size(name).items()}
            row["mean"] = float(log_loss[:, j].mean())
            ran = np.isfinite(log_loss[:, j])
            row["harm"] = float((log_loss[ran, j] > none[ran] + TIE).mean())
            row["failed"] = float(self.failures[name])
            rows.append(row)
        return sorted(rows, key=lambda row: -float(row["win log loss"]))

    def text(self) -> str:
        """Return the table of all methods."""
        sizes = [f"n={n}" for n in SIZES if (self.sizes == n).any()]
        wins = [f"win {figure}" for figure in self.figure_names]
        header = (
            "method",
            "win log loss",
            *self.figure_names[1:],
            "excess",
            "s.e.",
            *sizes,
            "mean",
            "harm %",
            "failed",
        )
        rows = []
        for row in self.summary():
            cells = [f"{row[key]:.3f}" for key in wins] + [f"{row[key]:.4f}" for key in ("excess", "error")]
            cells += ["-" if np.isnan(float(row[key])) else f"{row[key]:.4f}" for key in (*sizes, "mean")]
            rows.append((str(row["method"]), *cells, f"{100 * float(row['harm']):.0f}", f"{row['failed']:.0f}"))
        counts = f"{len(self.runs)} runs on {np.unique(self.sets).size} score sets"
        return f"{self.kind}: {counts}\n\n" + table(header, rows, right=range(1, len(header)))

    def pairs(self) -> str:
        """Return, for each peer's method that is one of ours, the difference of the log losses."""
        rows = []
        for peer, ours in self.rivals.items():
            if ours not in self.methods:
                continue
            mean, error = clustered_mean(self.of(ours) - self.of(peer), self.sets)
            verdict = "met" if mean <= TIE else "met within noise" if mean <= NOISE * error else "MISSED"
            rows.append((ours, peer, f"{mean:+.5f}", f"{error:.5f}", verdict))
        header = ("ours", "theirs", "log loss, ours less theirs", "s.e.", "at least as good")
        return table(header, rows, right=(2, 3))

    def losses_to_none(self) -> list[tuple[str, int, float, float]]:
        """Return set, size, mean difference of `auto` to leaving alone and its error, where it is more than noise.

        The error is that of the held-out rows, or their groups, and of the draws together.
        """
        difference = self.of(AUTO) - self.of(UNCALIBRATED)
        held_out = np.array([run["auto_error"] for run in self.runs], dtype=np.float64)
        found = []
        for name in np.unique(self.sets):
            for n in np.unique(self.sizes[self.sets == name]):
                cell = (self.sets == name) & (self.sizes == n)
                d = difference[cell]
                between = d.var(ddof=1) / d.size if d.size > 1 else 0.0
                error = float(np.sqrt((held_out[cell] ** 2).mean() + between))
                if d.mean() > NOISE * error + NEGLIGIBLE:
                    found.append((str(name), int(n), float(d.mean()), error))
        return sorted(found, key=lambda cell: -cell[2])

    def document(self) -> dict[str, object]:
        """Return the summary, and the log loss of each method in each run, as plain data."""
        runs = [
            {**run, "log_loss": [None if np.isnan(x) else float(f"{x:.6g}") for x in losses]}
            for run, losses in zip(self.runs, self.log_loss, strict=True)
        ]
        summary = [{key: None if value != value else value for key, value in row.items()} for row in self.summary()]
        return {"methods": self.methods, "summary": summary, "runs": runs}


def win_rate(losses: np.ndarray, j: int) -> float:
    """Return the share of (run, other method) pairs that method `j` wins, ties half; only pairs that were run."""
    return float(np.nanmean(wins(losses, j)))


def wins(losses: np.ndarray, j: int) -> np.ndarray:
    """Return 1 for each other method that method `j` beats in a run, 1/2 for a tie, NaN where one was not run."""
    others, mine = np.delete(losses, j, axis=1), losses[:, [j]]
    won = (mine < others - TIE) + 0.5 * (np.abs(mine - others) <= TIE)
    return np.where(np.isfinite(others) & np.isfinite(mine), won, np.nan)
