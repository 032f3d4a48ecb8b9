"""Calibration by segments beside MCGrad, plain LightGBM and a calibrator of the scores alone, on real tables.

"LightGBM" is gradient boosting from the logit, on the logit and the features, with its default size, stopped early on
a fifth of the rows. "MCGrad" is the package of that name (Tax et al. 2026) as it comes; where it is not installed, its
columns are left out and so is the multicalibration error, which is measured by its code: the largest cumulative
calibration error over segments of up to two features, in standard deviations. "auto" is `AutoCalibrator`, "segments"
`SegmentCalibrator`, both as they come. Scores are moved into [1e-6, 1 - 1e-6] for all.

The size of the trees, their rate, pull and share of columns were chosen on half A of the tables; two of half B,
flights and TV16, are among those that constants of `AutoCalibrator`, the first stage, were chosen on. Standard errors
are between tables. A method harms where its mean log loss on the judged rows is above that of the scores, beyond
noise: by two standard errors of the paired difference.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks._harness import Tables, kept
from benchmarks.quality_table import NEGLIGIBLE, NOISE
from benchmarks.segment_sets import SegmentSet, segment_sets
from calibrant import AutoCalibrator, SegmentCalibrator
from calibrant.numerics import expit, logit

_TITLE = """Calibration by segments: held-out log loss, multicalibration error, harm and cost. Trees were chosen on half
A; constants of auto, the first stage, on models of flights and TV16 too, which are of half B."""
SIZES = {1_000: 3, 5_000: 3, 40_000: 3}
N_JUDGED = 10_000
N_SIMULATED = 200
NONE, AUTO, LIGHTGBM, MCGRAD, OURS = "none", "auto", "LightGBM", "MCGrad", "segments"
Fit = Callable[[np.ndarray, np.ndarray, Any], Callable[[np.ndarray, Any], np.ndarray]]


def run() -> Tables:
    """Measure all methods on all sets."""
    found = Tables(_TITLE)
    cells = [cell for each in segment_sets() for cell in _cells(each)]
    methods = list(_methods())
    for half in ("A", "B"):
        rows = []
        for n in SIZES:
            part = [cell for cell in cells if cell["size"] == n and cell["half"] == half]
            rows += [[f"{n:,}" if j == 0 else "", name, *_row(part, name)] for j, name in enumerate(methods)]
        found.add(
            f"Half {half} of the tables, {_n_tables(cells, half)} tables x 3 models",
            ("rows", "method", "log loss", "of none (s.e.)", "Brier", "MCE, sigma", "harm", "fit CPU s", "us/row"),
            rows,
        )
    for rival in [name for name in (MCGRAD, LIGHTGBM) if name in methods]:
        _goals(found, [cell for cell in cells if cell["half"] == "B"], rival)
    harmed = [_harms(cell, OURS) for cell in cells if cell["half"] == "B"]
    found.goal("B: harm beyond noise, share of cells", float(np.mean(harmed)), at_most=0.02)
    found.goal('simulated as calibrated: share left alone ("none")', _left_alone(), at_least=0.95)
    return found


@dataclass(frozen=True)
class _Case:
    """A method on a draw of rows of a set."""

    each: SegmentSet
    size: int
    seed: int
    method: str

    def __repr__(self) -> str:
        return f"{self.each.name} {self.each.model} {self.size} {self.seed} {self.method}"


def _cells(each: SegmentSet) -> list[dict[str, Any]]:
    made = []
    for n, n_seeds in SIZES.items():
        for seed in range(n_seeds):
            cell = {"table": each.name, "model": each.model, "half": each.half, "size": n}
            for method in _methods():
                figures = kept(_measured, _Case(each, n, seed, method), of=N_JUDGED)
                for figure, value in figures.items():
                    cell.setdefault(figure, {})[method] = value
            made.append(cell)
            print(each.name, each.model, n, cell["log_loss"], flush=True, file=sys.stderr)
    return made


def _measured(case: _Case) -> dict[str, float]:
    each = case.each
    fitted, judged = each.split(case.size, case.seed, N_JUDGED)
    p = np.clip(each.p, 1e-6, 1.0 - 1e-6)
    rows, of_rows = each.features.iloc[fitted], each.features.iloc[judged]
    y = each.y[judged]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        apply = _methods()[case.method](p[fitted], each.y[fitted], rows)
        between = time.process_time()
        q = np.clip(apply(p[judged], of_rows), 1e-9, 1.0 - 1e-9)
        end = time.process_time()
        mce = _mce(q, y, of_rows) if find_spec("mcgrad") is not None else np.nan
    loss, alone = (-np.log(np.where(y == 1, each_p, 1.0 - each_p)) for each_p in (q, p[judged]))
    change = loss - alone
    return {
        "log_loss": float(loss.mean()),
        "brier": float(np.mean((q - y) ** 2)),
        "mce": float(mce),
        "difference": float(change.mean()),
        "error": float(change.std() / np.sqrt(change.size)),
        "fit_s": between - start,
        "apply_s": (end - between) / y.size,
    }


def _methods() -> dict[str, Fit]:
    found: dict[str, Fit] = {NONE: _none, AUTO: _auto, LIGHTGBM: _lightgbm}
    if find_spec("mcgrad") is not None:
        found[MCGRAD] = _mcgrad
    return {**found, OURS: _segments}


def _none(*_: Any) -> Any:
    return lambda q, _: q


def _auto(p: np.ndarray, y: np.ndarray, _: Any) -> Any:
    fitted = AutoCalibrator().fit(p, y)
    return lambda q, _: fitted.predict_proba(q)


def _segments(p: np.ndarray, y: np.ndarray, x: Any) -> Any:
    fitted = SegmentCalibrator().fit(p, y, features=x)
    return lambda q, z: fitted.predict_proba(q, features=z)


def _lightgbm(p: np.ndarray, y: np.ndarray, x: Any) -> Any:
    import lightgbm

    levels = {name: x[name].astype("category").cat.categories for name in _categories(x)}

    def columns(q: np.ndarray, z: Any) -> Any:
        import pandas as pd

        coded = {name: pd.Categorical(z[name], categories=known).codes for name, known in levels.items()}
        return _with(z, {**coded, "calibrant_logit": logit(q)})

    settings: dict[str, Any] = {"objective": "binary", "verbosity": -1, "num_threads": 1, "boost_from_average": False}
    made, z0, held = columns(p, x), logit(p), np.arange(y.size) % 5 == 0
    train = lightgbm.Dataset(made[~held], y[~held], init_score=z0[~held], categorical_feature=list(levels))
    watched = lightgbm.Dataset(made[held], y[held], init_score=z0[held], reference=train)
    stop = lightgbm.early_stopping(20, verbose=False)
    booster = lightgbm.train(settings, train, 500, valid_sets=[watched], callbacks=[stop])
    return lambda q, z: expit(logit(q) + booster.predict(columns(q, z), raw_score=True, num_threads=1))


def _mcgrad(p: np.ndarray, y: np.ndarray, x: Any) -> Any:
    from mcgrad.methods import MCGrad

    texts = _categories(x)
    named = {
        "categorical_feature_column_names": texts,
        "numerical_feature_column_names": [name for name in x if name not in texts],
    }
    fitted = MCGrad(lightgbm_params={**MCGrad.DEFAULT_HYPERPARAMS["lightgbm_params"], "num_threads": 1})
    fitted.fit(_with(_plain(x), {"calibrant_p": p, "calibrant_y": y}), "calibrant_p", "calibrant_y", None, **named)

    def apply(q: np.ndarray, z: Any) -> np.ndarray:
        return np.asarray(fitted.predict(_with(_plain(z), {"calibrant_p": q}), "calibrant_p", **named))

    return apply


def _mce(q: np.ndarray, y: np.ndarray, x: Any) -> float:
    from mcgrad.metrics import MulticalibrationError

    texts = _categories(x)
    frame = _with(_plain(x), {"calibrant_p": q, "calibrant_y": y}).reset_index(drop=True)
    numbers = [name for name in x if name not in texts]
    return float(
        MulticalibrationError(
            frame, "calibrant_y", "calibrant_p", None, texts, numbers, max_depth=2, max_n_segments=300
        ).mce_sigma
    )


def _categories(x: Any) -> list[str]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return [name for name in x if not is_numeric_dtype(x[name]) or is_bool_dtype(x[name])]


def _plain(x: Any) -> Any:
    """Return features as the peer takes them: text without gaps, numbers as float64."""
    texts = set(_categories(x))
    return _with(x, {name: _text(x[name]) if name in texts else x[name].astype(float) for name in x})


def _text(column: Any) -> Any:
    return column.astype(object).where(column.notna(), "missing").astype(str)


def _with(frame: Any, columns: dict[str, Any]) -> Any:
    """Return a frame with other columns, whatever they are called."""
    made = frame.copy()
    for name, values in columns.items():
        made[name] = values
    return made


def _left_alone() -> float:
    """Return the share of fits that find no segments, on rows whose scores are right in every segment."""
    alone = []
    for seed in range(N_SIMULATED):
        rng = np.random.default_rng(seed)
        n = (1_000, 5_000)[seed % 2]
        x = rng.normal(size=(n, 8))
        features = {f"x{j}": column for j, column in enumerate(x.T)} | {"c": rng.choice(list("abcdefghij"), n)}
        p = expit(x @ rng.normal(size=8) * 0.5 + rng.normal(size=n))
        fitted = SegmentCalibrator().fit(p, rng.random(n) < p, features=features)
        alone.append(fitted.report_.chosen == "none")
    return float(np.mean(alone))


def _row(part: list[dict[str, Any]], name: str) -> list[str]:
    if not part:
        return ["-"] * 7
    change, error = _by_table(part, lambda cell: cell["difference"][name])
    sigma = f"{np.mean([cell['mce'][name] for cell in part]):.2f}" if np.isfinite(part[0]["mce"][name]) else "-"
    per_row = 1e6 * np.mean([cell["apply_s"][name] for cell in part])
    return [
        f"{np.mean([cell['log_loss'][name] for cell in part]):.4f}",
        f"{change:+.4f} ({error:.4f})",
        f"{np.mean([cell['brier'][name] for cell in part]):.4f}",
        sigma,
        f"{np.mean([_harms(cell, name) for cell in part]):.1%}",
        f"{np.mean([cell['fit_s'][name] for cell in part]):.2f}",
        f"{per_row:.2f}",
    ]


def _goals(found: Tables, cells: list[dict[str, Any]], rival: str) -> None:
    for figure, called in (("log_loss", "log loss"), ("mce", "multicalibration error")):
        if np.isnan(cells[0][figure][OURS]):
            continue
        ours, theirs = (np.array([cell[figure][name] for cell in cells]) for name in (OURS, rival))
        found.goal(f"B: mean {called} less that of {rival}", float(np.mean(ours - theirs)), at_most=0.0)
        found.goal(f"B: share of cells with {called} at most {rival}'s", float(np.mean(ours <= theirs)), at_least=0.8)
    if rival == MCGRAD:
        fits, applies = (
            sum(cell[what][OURS] for cell in cells) / sum(cell[what][rival] for cell in cells)
            for what in ("fit_s", "apply_s")
        )
        found.goal("B: CPU time of all fits, of MCGrad's", fits, at_most=1.0 / 3.0)
        found.goal("B: CPU time of predicting, of MCGrad's", applies, at_most=0.2)


def _harms(cell: dict[str, Any], name: str) -> bool:
    return bool(cell["difference"][name] > NOISE * cell["error"][name] + NEGLIGIBLE)


def _by_table(part: list[dict[str, Any]], figure: Callable[[dict[str, Any]], float]) -> tuple[float, float]:
    """Return the mean of a figure over cells, and its standard error between tables."""
    tables = sorted({cell["table"] for cell in part})
    means = [np.mean([figure(cell) for cell in part if cell["table"] == name]) for name in tables]
    error = float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")
    return float(np.mean([figure(cell) for cell in part])), error


def _n_tables(cells: list[dict[str, Any]], half: str) -> int:
    return len({cell["table"] for cell in cells if cell["half"] == half})
