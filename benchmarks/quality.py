"""Held-out quality of the binary calibrators on real scores, by the number of calibration rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import calibrant as cb
from benchmarks._harness import RESULTS, machine_facts, table
from benchmarks.score_sets import Split, binary_sets, splits
from calibrant.calibrators import BINARY_CALIBRATORS, Calibrator, make_calibrator
from calibrant.errors import CalibrantWarning
from calibrant.folds import stratified_folds

SIZES = (100, 300, 1_000, 3_000)
DRAWS = 5
#: A probability of exactly 0 or 1 that is wrong costs this much log loss and no more, so that means exist.
CLIP = 1e-15
UNCALIBRATED = "none"
AUTO = "auto"
PICKED = (UNCALIBRATED, "temperature", "sigmoid", "beta", "quadratic", "venn_abers")
Apply = Callable[[np.ndarray], np.ndarray]


@dataclass
class Quality:
    """Held-out log loss, Brier score and smooth calibration error of every method in every run."""

    names: list[str]
    runs: list[dict[str, object]] = field(default_factory=list)
    log_loss: list[list[float]] = field(default_factory=list)
    brier: list[list[float]] = field(default_factory=list)
    smooth_ece: list[list[float]] = field(default_factory=list)

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        RESULTS.mkdir(exist_ok=True)
        text = "\n\n".join(
            (self._title(), table(("", ""), list(machine_facts().items())), self._table(), self._goals())
        )
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        (RESULTS / f"{name}.json").write_text(json.dumps(self._document(), indent=1) + "\n", encoding="utf-8")
        return text

    def _title(self) -> str:
        sets = len({run["set"] for run in self.runs})
        return (
            f"Held-out quality of binary calibration: {len(self.runs)} runs on {sets} real score sets, {DRAWS} draws.\n"
            "win: share of (run, other method) pairs with the lower loss, ties half. harm: share of runs with a higher "
            "log\nloss than the scores as they are. Rows X combine methods as no package ships them."
        )

    def _summary(self) -> list[dict[str, float | str]]:
        log_loss, sizes = np.array(self.log_loss), np.array([run["n"] for run in self.runs])
        none = log_loss[:, self.names.index(UNCALIBRATED)]
        rows: list[dict[str, float | str]] = []
        for j, name in enumerate(self.names):
            row: dict[str, float | str] = {"method": name, "win": win_rate(log_loss, j)}
            row["win_brier"], row["win_smooth"] = (
                win_rate(np.array(self.brier), j),
                win_rate(np.array(self.smooth_ece), j),
            )
            row |= {f"n={n}": float(log_loss[sizes == n, j].mean()) for n in SIZES}
            row["mean"] = float(log_loss[:, j].mean())
            row["harm"] = float((log_loss[:, j] > none + 1e-9).mean())
            rows.append(row)
        return sorted(rows, key=lambda row: -float(row["win"]))

    def _table(self) -> str:
        header = ("method", "win log loss", "Brier", "smooth ECE", *(f"n={n}" for n in SIZES), "mean", "harm %")
        rows = [
            (
                str(row["method"]),
                *(f"{row[key]:.3f}" for key in ("win", "win_brier", "win_smooth")),
                *(f"{row[f'n={n}']:.4f}" for n in SIZES),
                f"{row['mean']:.4f}",
                f"{100 * float(row['harm']):.0f}",
            )
            for row in self._summary()
        ]
        return table(header, rows, right=range(1, len(header)))

    def _goals(self) -> str:
        by_name = {row["method"]: row for row in self._summary()}
        auto = by_name.pop(AUTO)
        others = list(by_name.values())
        goals = [
            ("higher log-loss win rate than every other row", all(auto["win"] > row["win"] for row in others)),  # type: ignore[operator]
            ("lower mean log loss than every other row", all(auto["mean"] < row["mean"] for row in others)),  # type: ignore[operator]
            *(
                (f"lower log loss at n = {n:,}", all(auto[f"n={n}"] < row[f"n={n}"] for row in others))  # type: ignore[operator]
                for n in SIZES
            ),
            ("harm in fewer than 15% of runs", float(auto["harm"]) < 0.15),
        ]
        return table(("goal of auto", "result"), [(goal, "met" if is_met else "MISSED") for goal, is_met in goals])

    def _document(self) -> dict[str, object]:
        return {"machine": machine_facts(), "summary": self._summary(), "runs": self.runs, "log_loss": self.log_loss}


def run() -> Quality:
    """Fit every method in every run, and measure it on held-out rows."""
    quality = Quality([])
    for score_set in binary_sets():
        for n in SIZES:
            for split in splits(score_set, n, DRAWS):
                fitted = fit_all(split)
                quality.names = quality.names or list(fitted)
                measure(quality, split, fitted)
    return quality


def fit_all(split: Split) -> dict[str, Apply]:
    """Fit every method to the calibration rows of a split."""
    p, y = split.score_set.p[split.calibration], split.score_set.y[split.calibration]
    calibrators: dict[str, Calibrator] = {name: make_calibrator(name) for name in (*BINARY_CALIBRATORS, "temperature")}
    calibrators["isotonic, bounded"] = cb.IsotonicCalibrator(bounded=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        fitted: dict[str, Apply] = {UNCALIBRATED: lambda q: q}
        fitted |= {name: calibrator.fit(p, y).predict_proba for name, calibrator in calibrators.items()}
        parts = [fitted[name] for name in ("beta", "venn_abers", "temperature")]
        fitted["X mean logit of beta, Venn-Abers, temperature"] = lambda q: mean_logit(parts, q)
        fitted["X choice by 5-fold cross-validation"] = fitted[pick(p, y)]
    return fitted


def pick(p: np.ndarray, y: np.ndarray) -> str:
    """Return the method of least out-of-fold log loss."""
    folds = stratified_folds(y, 5, 0)
    losses = dict.fromkeys(PICKED, 0.0)
    for fold in range(5):
        held_out = folds == fold
        for name in PICKED:
            q = p[held_out]
            if name != UNCALIBRATED:
                q = make_calibrator(name).fit(p[~held_out], y[~held_out]).predict_proba(q)
            losses[name] += float(log_losses(q, y[held_out]).sum())
    return min(losses, key=lambda name: losses[name])


def mean_logit(parts: list[Apply], p: np.ndarray) -> np.ndarray:
    """Average the logits of several maps."""
    outputs = [np.clip(part(p), CLIP, 1.0 - CLIP) for part in parts]
    z = np.mean([np.log(q) - np.log1p(-q) for q in outputs], axis=0)
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


def measure(quality: Quality, split: Split, fitted: dict[str, Apply]) -> None:
    """Add the held-out figures of every method in a run."""
    p, y = split.score_set.p[split.held_out], split.score_set.y[split.held_out]
    outputs = [apply(p) for apply in fitted.values()]
    quality.runs.append({"set": split.score_set.name, "n": split.n, "draw": split.draw})
    quality.log_loss.append([float(log_losses(q, y).mean()) for q in outputs])
    quality.brier.append([float(((q - y) ** 2).mean()) for q in outputs])
    quality.smooth_ece.append([cb.metrics.smooth_ece(y, q) for q in outputs])


def log_losses(q: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each row, with probabilities moved inside [CLIP, 1 - CLIP]."""
    q = np.clip(q, CLIP, 1.0 - CLIP)
    return np.where(y == 1, -np.log(q), -np.log1p(-q))


def win_rate(losses: np.ndarray, j: int) -> float:
    """Return the share of (run, other method) pairs that method `j` wins, ties half."""
    others = np.delete(losses, j, axis=1)
    mine = losses[:, [j]]
    return float((mine < others - 1e-9).mean() + 0.5 * (np.abs(mine - others) <= 1e-9).mean())
