"""Isotonic calibration against scikit-learn's and against sorting itself: fit, apply, agreement, cold start."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.isotonic import IsotonicRegression

import calibrant as cb
from benchmarks._fresh import Fresh, race_fresh
from benchmarks._harness import Results
from calibrant.validation import InputKind

OURS = "IsotonicCalibrator.fit"
SUMMARY = "from_arrays + fit_summary"
THEIRS = "sklearn fit"
DATA = """\
import numpy as np
rng = np.random.default_rng(0)
s = rng.uniform(size={n})
y = (rng.uniform(size={n}) < s).astype(int)
"""


class Case(NamedTuple):
    """Rows to fit: what they are, the arrays, the rounds to run, and whether the goals were set for them."""

    name: str
    scores: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any] | None = None
    rounds: int = 7
    is_probability: bool = True
    has_goal: bool = False


def run() -> Results:
    """Time fits and applications, compare results, and time the first fit of a process."""
    results = Results("Isotonic calibration against scikit-learn and NumPy's sort; labels are Bernoulli(score)")
    for make in CASES:
        measure(results, make())
    for n in (1_000, 100_000):
        cold_start(results, n)
    return results


def measure(results: Results, case: Case) -> None:
    """Race the fits and the applications of one case, and compare what they predict."""
    s, y, w = case.scores, case.y, case.weight
    kind: InputKind = "probability" if case.is_probability else "score"
    weighted: dict[str, Any] = {} if w is None else {"sample_weight": w}
    times = results.race(
        case.name,
        {
            OURS: lambda: cb.IsotonicCalibrator(input=kind).fit(s, y, **weighted),
            SUMMARY: lambda: cb.IsotonicCalibrator(input=kind).fit_summary(
                cb.ScoreSummary.from_arrays(s, y, **weighted)
            ),
            THEIRS: lambda: IsotonicRegression(out_of_bounds="clip").fit(s, y, **weighted),
            "np.sort": lambda: np.sort(s),
            "np.argsort": lambda: np.argsort(s),
            "copy": s.copy,
        },
        rounds=case.rounds,
    )
    goals = (10.0, 2.5) if case.has_goal else (None, None)
    for ours in (OURS, SUMMARY):
        results.ratio(case.name, f"{THEIRS} / {ours}", times[THEIRS], times[ours], at_least=goals[0])
        results.ratio(case.name, f"{ours} / np.sort", times[ours], times["np.sort"], at_most=goals[1])

    fitted = cb.IsotonicCalibrator(input=kind).fit(s, y, **weighted)
    # Theirs calculates in the scores' own precision: give it the same scores as float64 to compare with.
    reference = IsotonicRegression(out_of_bounds="clip").fit(s.astype(np.float64), y, **weighted)
    rng = np.random.default_rng(1)
    new = rng.permutation(s)
    times = results.race(
        case.name,
        {
            "predict_proba": lambda: fitted.predict_proba(new),
            "sklearn predict": lambda: reference.predict(new),
            "np.sort of new": lambda: np.sort(new),
        },
        rounds=case.rounds,
    )
    apply, predict, sort = times.values()
    goal = 8.0 if case.has_goal else None
    results.ratio(case.name, "sklearn predict / predict_proba", predict, apply, at_least=goal)
    results.ratio(case.name, "predict_proba / np.sort", apply, sort)

    between = rng.uniform(s.min(), s.max(), 200_000)
    queries = np.concatenate((new[:200_000].astype(np.float64), between))
    difference = float(np.abs(fitted.predict_proba(queries) - reference.predict(queries)).max())
    results.difference(case.name, "max |predict_proba - sklearn predict|", difference, at_most=1e-12)


def uniform(n: int, *, rounds: int = 7, has_goal: bool = False) -> Case:
    """Draw continuous scores over the whole range."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=n)
    return Case(f"uniform {n:.0e}", s, labels(rng, s), rounds=rounds, has_goal=has_goal)


def ties() -> Case:
    """Draw scores of two decimals."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=1_000_000).round(2)
    return Case("two decimals 1e+06", s, labels(rng, s))


def skewed() -> Case:
    """Draw scores of which most are small."""
    rng = np.random.default_rng(0)
    s = rng.beta(1.0, 3.0, size=1_000_000)
    return Case("beta(1, 3) 1e+06", s, labels(rng, s))


def single_precision() -> Case:
    """Draw float32 scores."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=1_000_000).astype(np.float32)
    return Case("float32 1e+06", s, labels(rng, s))


def mixed_sign() -> Case:
    """Draw decision scores of both signs."""
    rng = np.random.default_rng(0)
    s = rng.normal(scale=2.0, size=1_000_000)
    return Case("decision scores 1e+06", s, labels(rng, 1.0 / (1.0 + np.exp(-s))), is_probability=False)


def weighted() -> Case:
    """Draw continuous scores with continuous weights."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=1_000_000)
    return Case("weighted 1e+06", s, labels(rng, s), weight=rng.exponential(size=s.size))


CASES: tuple[Callable[[], Case], ...] = (
    lambda: uniform(10_000, rounds=25),
    lambda: uniform(1_000_000, has_goal=True),
    lambda: uniform(10_000_000, rounds=3, has_goal=True),
    ties,
    skewed,
    single_precision,
    mixed_sign,
    weighted,
)


def labels(rng: np.random.Generator, p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Draw a 0/1 label for each probability."""
    return (rng.uniform(size=p.size) < p).astype(np.int64)


def cold_start(results: Results, n: int) -> None:
    """Time a fresh process from its first import to the end of its first fit."""
    case = f"first fit, n = {n:,}"
    ours = f"import calibrant as cb\n{DATA}cb.IsotonicCalibrator().fit(s, y)".format(n=n)
    theirs = f"import sklearn.isotonic\n{DATA}sklearn.isotonic.IsotonicRegression().fit(s, y)".format(n=n)
    with tempfile.TemporaryDirectory() as folder:
        filled = {"NUMBA_CACHE_DIR": str(Path(folder) / "filled")}
        times = results.note(
            case,
            race_fresh(
                {
                    "calibrant, compiled code on disk": Fresh(ours, lambda: filled),
                    "calibrant, nothing compiled": Fresh(
                        ours, lambda: {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder)}
                    ),
                    "sklearn": Fresh(theirs),
                },
                rounds=5,
            ),
        )
    warm, cold, sklearn = times.values()
    results.ratio(case, "compiled code on disk / sklearn", warm, sklearn)
    results.ratio(case, "nothing compiled / sklearn", cold, sklearn)
