"""Decisions: promises against what came true, on simulated rows, twelve real score sets and eight forecast pairs.

The real sets are drawn apart into calibration rows and held-out rows, twenty times. Of 50 cost ratios the promise of
the decisions on the held-out rows is compared with what they lost: of the scores as they are, and after `auto`; of
forecasts as they are, and after the recalibrator that `calibrant forecast fit` takes by default. Forecasts are decided
on by whether a number is above a threshold: the median of the calibration rows, and their quantile of 80%.

* "predictions": the interval of `evaluate`, which takes the predictions as given and carries the chance of the held-out
  rows alone.
* "promise": the gap of `evaluate(promise=)`, to what `expected_loss(about="rows")` promised by the calibration rows,
  out of fold, which carries the calibration's own uncertainty too.

The 50 gaps of a draw go together: its share that holds 0 varies by about .1 from draw to draw. Each set is split by
draws of its own, of which the mean over sets has a standard error that is told. Ten draws that four models for the same
rows shared gave .975 of `auto`, and .976 of the beta calibrator on four sets, of which 200 draws gave .955: too few.
"""

from __future__ import annotations

import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import calibrant as cb
from benchmarks._harness import Tables, kept, machine_facts, race
from benchmarks.decision_coverage import run_coverage
from benchmarks.forecast_sets import SETS as FORECAST_SETS, Run, runs_of
from benchmarks.score_sets import binary_sets, splits
from calibrant.decisions import Policy, Problem
from calibrant.decisions.correction import cross_fitted
from calibrant.decisions.hindsight import best_charges, chosen, ordering
from calibrant.decisions.outcomes import Chosen, of_taken, read_decided
from calibrant.decisions.promise import promised_of_classes, score_of
from calibrant.errors import CalibrantWarning
from calibrant.forecasts import ThresholdRecalibrator
from calibrant.metrics import Estimate
from calibrant.results import Score
from calibrant.rows import read_rows

#: Twelve real sets of independent rows: three tasks by models of several families, and forecasts of icing.
SETS = (
    "adult/hgb",
    "adult/logreg",
    "adult/nb",
    "adult/rf",
    "credit_default/hgb",
    "credit_default/mlp",
    "credit_default/nb",
    "credit_default/svm",
    "spambase/logreg",
    "spambase/nb",
    "spambase/rf",
    "icing",
)
N_CALIBRATION, N_OF_SMALL, DRAWS = 1_000, 600, 20
#: Draws of a regression set, levels of the thresholds among the outcomes of calibration rows, and folds that
#: recalibrators are fitted without.
FORECAST_DRAWS, AT, N_FOLDS = 10, (0.5, 0.8), 10
#: What a false positive costs, of both errors together 1; 50 as in Sahoo et al. (2021).
COSTS = np.linspace(0.05, 0.95, 50)
LEVEL, TOLERANCE = 0.95, 0.02
N_SPEED, ROUNDS = 10_000_000, 3


def run() -> Tables:
    """Measure all of it."""
    tables = Tables(f"Decisions: promised and realised losses; {machine_facts()['processor']}")
    _real_sets(tables)
    _speed(tables)
    run_coverage(tables)
    return tables


def _real_sets(tables: Tables) -> None:
    with ProcessPoolExecutor() as pool:
        of_sets = dict(zip(SETS, pool.map(partial(kept, measure_set, of=(N_CALIBRATION, DRAWS)), SETS), strict=True))
        named = list(FORECAST_SETS)
        of_pairs = dict(zip(named, pool.map(partial(kept, measure_pair, of=(FORECAST_DRAWS, AT)), named), strict=True))
    _report(tables, "after auto, 12 sets", of_sets)
    _report(tables, "after the default recalibrator, 8 forecast pairs", of_pairs)


def _report(tables: Tables, what: str, found: dict[str, dict[str, float]]) -> None:
    """Add the table and the goal of some sets."""
    lines = []
    for name, each in found.items():
        figures = [f"{each[key]:.3f}" for key in ("gap before", "gap after", "promise after")]
        regrets = [f"{each[key]:.4f}" for key in ("size before", "size after", "regret before", "regret after")]
        lines.append([name, f"{each['draws']:.0f}", *figures, *regrets])
    keys = [key for key in next(iter(found.values())) if key not in ("draws", "error")]
    means = {key: float(np.mean([each[key] for each in found.values()])) for key in keys}
    figures = [f"{means[key]:.3f}" for key in ("gap before", "gap after", "promise after")]
    lines.append(["mean", "", *figures, *(f"{means[key]:.4f}" for key in keys[3:])])
    header = ["set", "draws", "predictions, before", "after", "promise, after", "|gap| before", "after"]
    header += ["regret before", "after"]
    error = float(np.sqrt(sum(each["error"] ** 2 for each in found.values()))) / len(found)
    caption = (
        f"Share of gaps at {len(COSTS)} cost ratios whose 95% interval holds 0, {what}; mean |gap| and regret a row "
        f"(standard error of the mean share of promises, over draws: {error:.4f})"
    )
    tables.add(caption, header, lines)
    low, high = LEVEL - TOLERANCE, LEVEL + TOLERANCE
    claim = f"gaps to the promise whose interval holds 0, {what}"
    tables.goal(claim, means["promise after"], at_least=low, at_most=high)
    tables.goal(f"mean regret {what}, of that before", means["regret after"] / means["regret before"], at_most=1.0)


def measure_set(name: str) -> dict[str, float]:
    """Return shares and means over the draws of a set and all cost ratios."""
    score_set = next(each for each in binary_sets() if each.name == name)
    n = N_CALIBRATION if score_set.y.size > 2 * N_CALIBRATION else N_OF_SMALL
    return _means(
        [measure_split(split.calibration, split.held_out) for split in splits(score_set, n, DRAWS, of_its_own=True)]
    )


def measure_pair(name: str) -> dict[str, float]:
    """Return shares and means over the draws of a regression set, its thresholds and all cost ratios."""
    of_set = runs_of(name, "boosted normal", FORECAST_DRAWS)
    return _means([found for run in of_set for found in measure_forecasts(run)])


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    shares = [each["promise after"] for each in found]
    more = {"draws": float(len(found)), "error": float(np.std(shares, ddof=1) / np.sqrt(len(found)))}
    return {key: float(np.mean([each[key] for each in found])) for key in found[0]} | more


def measure_split(calibration: Any, held_out: Any) -> dict[str, float]:
    """Return shares and means over the cost ratios of one split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        calibrator = cb.AutoCalibrator().fit(calibration.p, calibration.y)
        out_of_fold = _out_of_fold(calibration)
    after = calibrator.predict_proba(held_out.p)
    return measure(held_out.y, held_out.p, after, calibration.y, out_of_fold)


def measure_forecasts(run: Run) -> list[dict[str, float]]:
    """Return shares and means over the cost ratios of one split of a forecast, for each event of a number above one."""
    (forecast, y), (later, came) = run.calibration, run.test
    above = np.quantile(y, AT)
    folds = np.random.default_rng(run.seed).permutation(y.size) % N_FOLDS
    out_of_fold = np.empty((y.size, above.size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        recalibrated = ThresholdRecalibrator().fit(forecast, y).transform(later)
        for fold in range(N_FOLDS):
            train, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = ThresholdRecalibrator().fit(forecast[train], y[train])
            out_of_fold[held] = fitted.transform(forecast[held]).sf(above[None, :])
    return [
        measure(came > at, later.sf(at), recalibrated.sf(at), y > at, out_of_fold[:, k])
        for k, at in enumerate(above.tolist())
    ]


def measure(
    y: np.ndarray, before: np.ndarray, after: np.ndarray, known: np.ndarray, out_of_fold: np.ndarray
) -> dict[str, float]:
    """Return shares and means over the cost ratios, of probabilities before and after calibration to known rows."""
    rows = []
    for cost in COSTS.tolist():
        problem = Problem.two_actions(false_positive=cost, false_negative=1.0 - cost)
        measured = [_gap_and_regret(y, p, problem) for p in (before, after)]
        promise = _promise(after, problem, out_of_fold, known)
        gaps, regrets, (_, realised) = zip(*measured, strict=True)
        holds = [gap.low <= 0.0 <= gap.high for gap in gaps]
        sizes = [abs(gap.value) for gap in gaps]
        rows.append([*holds, promise.low <= realised <= promise.high, *sizes, *regrets])
    keys = ("gap before", "gap after", "promise after", "size before", "size after", "regret before", "regret after")
    return dict(zip(keys, np.mean(np.array(rows, dtype=float), axis=0).tolist(), strict=True))


def _promise(after: np.ndarray, problem: Problem, out_of_fold: np.ndarray, known: np.ndarray) -> Score:
    """Return what `expected_loss(calibrator=, about="rows")` says, without fitting again for each cost ratio."""
    policy = Policy(problem)
    promised = promised_of_classes(after, Chosen(policy))
    off = cross_fitted(read_decided(known, out_of_fold, policy), promised)
    return score_of(promised, off, about="rows", level=LEVEL, evaluated_on="held-out rows")


def _gap_and_regret(y: np.ndarray, p: np.ndarray, problem: Problem) -> tuple[Estimate, float, float]:
    """Return the gap, the regret and the realised loss as `evaluate` does, without the intervals of the others."""
    decided = read_decided(y, p, problem)
    gap = decided.mean(decided.gaps, LEVEL, least_variance=decided.outcome_variance)
    best = of_taken(decided.realised, chosen(ordering(decided), best_charges(decided)))
    realised = float(decided.realised_losses.mean())
    return gap, realised - float(best.mean()), realised


def _out_of_fold(calibration: Any) -> np.ndarray:
    """Return probabilities of the calibration rows by fits without them, as `expected_loss` does for a calibrator."""
    rows = read_rows(calibration.p, calibration.y)
    folds = rows.folds(10)
    found = np.empty(rows.n_rows)
    for fold in range(10):
        train, held = rows.split(folds, fold)
        found[folds == fold] = cb.AutoCalibrator().fit_rows(train).apply(held)
    return found


def _speed(tables: Tables) -> None:
    """Compare a policy of three actions on a file with a read and a write of it."""
    table = np.array([[0.0, 5.0, 9.0], [2.0, 1.0, 6.0], [7.0, 5.0, 0.0]])
    policy = Policy(Problem(table, actions=["none", "drug", "cut"]))
    p = np.random.default_rng(0).random((N_SPEED, 3))
    p /= p.sum(axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        names = ["p0", "p1", "p2"]
        pq.write_table(pa.table(dict(zip(names, p.T.copy(), strict=True))), source)
        rivals = {
            "read and write": partial(_copy, source, target),
            "policy.apply": partial(policy.apply, source, target, score=names),
            "policy.decide, in memory": partial(policy.decide, p),
        }
        found = race(rivals, rounds=ROUNDS)
    ratios = {
        name: float(np.median(np.array(times.wall_s) / np.array(found["read and write"].wall_s)))
        for name, times in found.items()
    }
    lines = [
        [name, f"{np.median(times.wall_s):.2f}", f"{np.median(times.cpu_s):.2f}", f"{ratios[name]:.2f}"]
        for name, times in found.items()
    ]
    tables.add(f"{N_SPEED:,} rows, 3 actions, Parquet", ["what", "clock s", "CPU s", "times a read and write"], lines)
    tables.goal("a policy on a file, in reads and writes by the clock", ratios["policy.apply"], at_most=3.0)


def _copy(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as opened, pq.ParquetWriter(target, opened.schema_arrow) as writer:
        for group in range(opened.num_row_groups):
            writer.write_table(opened.read_row_group(group))
