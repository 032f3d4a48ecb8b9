"""Walk-forward: refit before each window of the last part of the rows, calibrate on what came before, predict it.

Each window is a holdout of its own: its model, its early stopping and its calibrator know only labels that had ended,
with the embargo, when the window started. The windows' predictions together are those of one who refits so often. Last
of all the model is refitted as before a window after the end: that one is deployed, and no figure is measured on it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.dependence import label_blocks
from calibrant.phrases import count
from calibrant.results import plain
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, Holdout
from calibrant.training.metrics_report import AFTER, BEFORE, INTERVALS, LEVEL, NO_SKILL, ROUNDING, Forecasts, figures
from calibrant.training.money import evaluate_money
from calibrant.training.run_log import LOGGER
from calibrant.training.trainer import Trained, train_model
from calibrant.training.windows import cut_windows, last_parts, window_starts

_LOG = logging.getLogger(f"{LOGGER}.walk_forward")
#: Blocks that lose more of the variance than this are shorter than a label: a window of such has too few labels.
_MOST_LOST = 1.0 / 3.0
#: Which rows a last refit sees, by history.
_SEEN = {"expanding": "all", "rolling": "the latest"}


@dataclass(frozen=True, slots=True, eq=False)
class WalkForward:
    """The windows of a walk-forward, what was fitted before each, and what is deployed."""

    data: Dataset
    #: Of each window the numbers of its rows, as its test part, and of those before it; and what these trained.
    windows: list[tuple[Holdout, Trained]]
    #: The rows of the last refit, and what they trained.
    deployed_parts: Holdout
    deployed: Trained

    @property
    def test(self) -> Dataset:
        """The rows of all windows."""
        return self.data.take(np.concatenate([parts.test for parts, _ in self.windows]))

    @property
    def number(self) -> Any:
        """The window of each of these rows, from 1."""
        return np.repeat(np.arange(1, len(self.windows) + 1), [parts.test.size for parts, _ in self.windows])

    @property
    def test_forecasts(self) -> Forecasts:
        """What the models of the windows say of these rows."""
        return Forecasts.joined([trained.test for _, trained in self.windows])

    @property
    def earlier(self) -> Dataset:
        """The rows that the calibrator of the first window was fitted to."""
        return self.data.take(self.windows[0][0].validation)

    @property
    def cpu_s(self) -> dict[str, float]:
        """Seconds of processor time by step, of all refits."""
        every = [*(trained for _, trained in self.windows), self.deployed]
        return {step: sum(one.cpu_s[step] for one in every) for step in self.deployed.cpu_s}


def walk_forward(config: TrainConfig, data: Dataset, *, starts: Any = None, model: Any = None) -> WalkForward:
    """Refit before each window and predict it, then refit once more, as before a window after the end.

    Parameters
    ----------
    config : TrainConfig
        With `walk_forward`; `test` is the share of the rows that is cut into windows, and `validation` calibrates as
        large a share of the rows before each window as of those before a single test part.
    data : Dataset
    starts : array of times, optional
        When the windows start; as the settings say by default.
    model : scikit-learn classifier, optional
        Instead of the model that the settings name.

    Returns
    -------
    WalkForward

    Raises
    ------
    CalibrantError
        If the windows don't fit into the rows, or one has too few rows of two classes before it.
    """
    if starts is None:
        starts = window_starts(data, config.walk_forward, test=config.test)
    cut: dict[str, Any] = {
        "history": config.history,
        "validation": config.validation / (1.0 - config.test),
        "stop": config.stop_share,
        "embargo": config.embargo,
    }
    windows, every = [], cut_windows(data, starts, **cut)
    for number, parts in enumerate(every, 1):
        span = f"{data.time[parts.test[0]]!s:.16} to {data.time[parts.test[-1]]!s:.16}"
        _LOG.info("Window %d of %d, %s: %d rows; %d purged", number, len(every), span, parts.test.size, parts.n_purged)
        windows.append((parts, train_model(config, data, parts, model=model)))
    parts = last_parts(data, int(every[0].test[0]), **cut)
    _LOG.info("Last refit, to %s rows: it is deployed", _SEEN[config.history])
    # a last refit has no rows to predict: it is shown those of its calibrator, and nothing is measured on them
    deployed = train_model(config, data, replace(parts, test=parts.validation), model=model)
    return WalkForward(data, windows, parts, deployed)


def walk_forward_figures(config: TrainConfig, found: WalkForward) -> dict[str, Any]:
    """Return what metrics.json says of a walk-forward: each window, all of them, and which rows the deployed model saw.

    Of `windows` and of `all`: log loss, Brier score and ECE of each forecast; skill over class frequencies and what
    calibration changes, with intervals; `is_skilled` and `is_worse`: whether they exclude 0 on the side of skill, and
    on that of harm, which one window in 40 does by chance; `is_off`: whether the calibrated ECE is beyond its noise
    band, which one window in 20 is by chance. None where a window has too few labels for an interval.
    """
    windows = []
    for number, (parts, trained) in enumerate(found.windows, 1):
        earlier, test = found.data.take(parts.validation), found.data.take(parts.test)
        windows.append(
            {
                "window": number,
                **window_figures(test, trained.test, rng=config.seed),
                "fitted_on": _fitted_on(found.data, parts),
                "rounds": trained.model.n_rounds_,
                "calibration": trained.calibration.as_dict(),
                "money": _money(config, earlier, trained.earlier, test, trained.test),
            }
        )
    judged = [one for one in windows if one["is_worse"] is not None]
    document: dict[str, Any] = plain(
        {
            "by": config.walk_forward,
            "history": config.history,
            "is_dated": bool(found.data.time.dtype.kind == "M"),
            "interval": {"level": LEVEL, "method": f"{INTERVALS}, over blocks of rows in time"},
            "n_windows": len(windows),
            "n_judged": len(judged),
            "n_worse": sum(one["is_worse"] for one in judged),
            "n_skilled": sum(one["is_skilled"] for one in judged),
            "n_off": sum(one["is_off"] is True for one in windows),
            "by_chance": 0.5 * (1.0 - LEVEL) * len(judged),
            "off_by_chance": (1.0 - LEVEL) * sum(one["is_off"] is not None for one in windows),
            "windows": windows,
            "all": window_figures(found.test, found.test_forecasts, rng=config.seed),
            "deployed": {
                "is": f"the last refit, to {_SEEN[config.history]} rows",
                **_fitted_on(found.data, found.deployed_parts),
            },
        }
    )
    return document


def window_figures(data: Dataset, forecasts: Forecasts, *, rng: int = 0) -> dict[str, Any]:
    """Measure the forecasts of a window, or of several: skill, calibration, and what calibration changes."""
    of = figures(data, forecasts, rng=rng)
    measured, is_known = of["forecasts"], label_blocks(data.time, data.label_end).lost <= _MOST_LOST

    def difference(score: str, one: str, other: str) -> dict[str, Any]:
        found = of["differences"][f"{score}_{one}_minus_{other}"]
        has_ends = is_known and np.isfinite([found["low"], found["high"]]).all()
        return {"value": found["value"], **{end: found[end] if has_ends else None for end in ("low", "high")}}

    skill = {
        name: {
            score: _as_skill(difference(score, name, NO_SKILL), measured[NO_SKILL][score]["value"])
            for score in ("log_loss", "brier")
        }
        for name in (BEFORE, AFTER)
    }
    changes = {score: difference(score, AFTER, BEFORE) for score in ("log_loss", "brier", "ece")}
    error = measured[AFTER]["ece"]
    return {
        **{part: of[part] for part in ("n_rows", "n_independent", "from", "to")},
        **{score: {name: measured[name][score]["value"] for name in measured} for score in ("log_loss", "brier")},
        "ece": {name: measured[name]["ece"] for name in (BEFORE, AFTER)},
        "skill": skill,
        "calibrated_minus_raw": changes,
        "is_skilled": _is_above_zero(skill[AFTER]["log_loss"]),
        "is_worse": _is_above_zero(changes["log_loss"]),
        "is_off": bool(error["value"] > error["noise_band"]) if is_known else None,
    }


def harm_text(found: dict[str, Any]) -> str:
    """Return in how many windows calibration did harm, the model had skill, and it was not calibrated, beyond noise."""
    n, judged = found["n_windows"], found["n_judged"]
    if judged == 0:
        return f"None of {count(n, 'window')} holds labels enough to tell skill or harm from noise."
    of = count(n, "window") if judged == n else f"the {judged} of {n} windows that are long enough to tell"
    return (
        f"Calibrated is worse than raw beyond noise in {found['n_worse']} of {of}, and has skill beyond noise in "
        f"{found['n_skilled']}; chance alone would give {found['by_chance']:.2g} of each. Its ECE is beyond noise in "
        f"{found['n_off']}; of right probabilities it would be in {found['off_by_chance']:.2g}."
    )


def _is_above_zero(found: dict[str, Any]) -> bool | None:
    """Say whether a difference is above zero beyond noise; None where nothing tells how much noise there is."""
    if np.isinf(found["value"]):
        return bool(found["value"] > 0.0)
    return None if found["low"] is None else bool(found["low"] > ROUNDING)


def _as_skill(found: dict[str, Any], base: float) -> dict[str, Any]:
    """Return a difference to the loss of class frequencies as a share of that loss, above zero where it is less."""
    low, high = found["high"], found["low"]
    return {
        "value": -found["value"] / base,
        "low": None if low is None else -low / base,
        "high": None if high is None else -high / base,
    }


def _fitted_on(data: Dataset, parts: Holdout) -> dict[str, Any]:
    """Return which rows a refit saw."""
    sizes = {name: int(getattr(parts, name).size) for name in ("fit", "stop", "validation")}
    before = parts.before
    known = {"from": str(data.time[before].min()), "to": str(data.label_end[before].max())}
    return {**sizes, "purged": parts.n_purged, **known}


def _money(
    config: TrainConfig, earlier: Dataset, forecasts: Forecasts, test: Dataset, test_forecasts: Forecasts
) -> dict[str, Any]:
    """Return what a window was worth in money: paths, thresholds that the rows before it choose, promised returns."""
    how: dict[str, Any] = {"stakes": config.stakes, "cost_bp": config.cost_bp, "rng": config.seed}
    found = evaluate_money(earlier, forecasts, test, test_forecasts, **how).figures
    if "left_out" in found:
        return found
    kept = {name: {part: found[name][part] for part in ("chosen", "reason", "returns")} for name in (BEFORE, AFTER)}
    return {**{part: found[part] for part in ("rule", "per", "length", "paths")}, **kept}
