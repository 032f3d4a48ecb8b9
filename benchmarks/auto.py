"""Cost of automatic calibration: in multiples of its candidates, beside peers, and in a process that has just begun."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks._fresh import Fresh, race_fresh
from benchmarks._harness import Results
from benchmarks.peers import binary_peers, multiclass_peers
from benchmarks.quality_methods import Method
from benchmarks.score_sets import ScoreSet
from calibrant.calibrators import make_calibrator
from calibrant.numerics import softmax

N_CLASSES = 10
#: Rows of ten classes, and of two.
MANY, FEW, BINARY = 10_000, 1_000, 100_000
#: Peers that the table of costs shows, where they are installed.
PEERS = ("betacal beta", "netcal beta", "probmetrics quadratic", "probmetrics SMS", "sklearn isotonic")
ROUNDS = 5
#: How many times longer it may take than what it is measured by.
_GOALS = {"matrix": 3.0, "spline": 10.0}
_COLD = """\
import numpy as np, calibrant as cb
rng = np.random.default_rng(0)
p = rng.uniform(size={n})
cb.{name}().fit(p, rng.uniform(size={n}) < p)
"""


def run() -> Results:
    """Time auto beside its candidates and peers, of ten classes and of two, and its first fit."""
    results = Results(
        "Automatic calibration beside its candidates and peers: softmax of normal logits, times 2 (10 classes), and "
        "scores\nwhose rate is their power 1.5. First fits are to 1,000 rows of two classes in a fresh process, with "
        "compiled code in the\ncache or none there. To be run with OMP_NUM_THREADS=1: pools of peers spin."
    )
    rng = np.random.default_rng(0)
    for n in (FEW, MANY):
        z = rng.normal(size=(n, N_CLASSES)) * 1.5
        truth = softmax(z).cumsum(axis=1)
        y = np.minimum((truth < rng.uniform(size=(n, 1))).sum(axis=1), N_CLASSES - 1)
        measure(results, softmax(2.0 * z), y, ("temperature", "matrix"), multiclass_peers())
    for n in (FEW, BINARY):
        p = rng.beta(0.7, 0.7, n)
        happened = rng.uniform(size=n) < p**1.5
        measure(results, p, happened.astype(np.int64), ("temperature", "spline", "venn_abers"), binary_peers())
    first_fits(results)
    return results


def measure(results: Results, p: np.ndarray, y: np.ndarray, candidates: tuple[str, ...], peers: list[Method]) -> None:
    """Race auto, some of its candidates and peers over the same rows."""
    case = f"{len(p):.0e}" if p.ndim == 1 else f"{len(p):.0e} x {p.shape[1]}"
    fits: dict[str, Callable[[], object]] = {name: _fit_of(name, p, y) for name in (*candidates, "auto")}
    rows = ScoreSet(case, p, y)
    fits |= {peer.name: lambda fit=peer.fit: fit(rows) for peer in peers if peer.name in PEERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = results.race(f"fit {case}", fits, rounds=ROUNDS)
    unit = "spline" if p.ndim == 1 else "matrix"
    results.ratio(case, f"auto / {unit}", times["auto"], times[unit], at_most=_GOALS[unit] if len(p) > FEW else None)


def first_fits(results: Results) -> None:
    """Time the first fit of a process, imports included, with compiled code in the cache and with an empty one."""
    names = ("AutoCalibrator", "SplineCalibrator", "SigmoidCalibrator")
    code = {name: _COLD.format(name=name, n=FEW) for name in names}
    results.note("first fit, cache there", race_fresh({name: Fresh(code[name]) for name in names}, rounds=3))
    empty = {
        name: Fresh(code[name], lambda: {"NUMBA_CACHE_DIR": tempfile.mkdtemp(prefix="calibrant-cache-")})
        for name in names
    }
    results.note("first fit, empty cache", race_fresh(empty, rounds=2))


def _fit_of(name: str, p: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    return lambda: make_calibrator(name).fit(p, y)
