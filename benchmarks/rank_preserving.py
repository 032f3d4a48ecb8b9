"""The rank-preserving solver: against the peer installed, its growth, its passes beside a copy, and its goals."""

from __future__ import annotations

import math
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._harness import Results, Rounds
from calibrant.errors import ConvergenceWarning
from calibrant.rank_preserving import RankPreservingResult, solve

Array = npt.NDArray[np.float64]
GAP, FEASIBLE = 1e-3, 1e-8
#: Seconds of processor time after which the peer is stopped.
PEER_LIMIT_S = 12.0
#: (rows, columns, passes at most): what the largest would need beyond that is reported as the gap reached.
SIZES = (
    (1_000, 3, 5_000),
    (1_000, 10, 5_000),
    (1_000, 100, 1_000),
    (10_000, 3, 5_000),
    (10_000, 10, 5_000),
    (10_000, 100, 5_000),
)
LARGE = ((100_000, 3, 2_000), (100_000, 10, 2_000), (100_000, 100, 30))
PEER_SIZES = ((100, 3), (100, 10), (1_000, 3), (1_000, 10), (1_000, 100), (10_000, 3), (10_000, 10))


def run() -> Results:
    """Measure all of it."""
    results = Results(
        "Rank-preserving calibration of Dirichlet(1) rows to far margins; ours stops at a certified gap of 1e-3"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solve(*draw(300, 3), gap_tol=0.1)
        solve(*draw(20_000, 10), gap_tol=GAP, max_iter=150)  # loads the code for two threads, so that memory is rows
        _largest(results)
        runs = {(n, k): _solve(results, n, k, passes) for n, k, passes in (*SIZES, *LARGE)}
        _growth(results, runs)
        _other_margins(results)
        for n, k in PEER_SIZES:
            _against_peer(results, n, k)
    return results


def draw(n: int, k: int, seed: int = 0) -> tuple[Array, Array]:
    """Return probabilities and margins that lie far from their sums."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    margins = P.sum(axis=0) * np.exp(0.8 * rng.normal(size=k))
    return P, margins * (n / margins.sum())


@dataclass(frozen=True)
class Run:
    """One solution and what it cost."""

    result: RankPreservingResult
    times: Rounds

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time."""
        return self.times.cpu_s[0]


def _timed(function: Callable[[], Any]) -> tuple[Any, Rounds]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, Rounds([time.perf_counter() - wall], [time.process_time() - cpu])


def _solve(results: Results, n: int, k: int, passes: int) -> Run:
    P, margins = draw(n, k)
    result, times = _timed(lambda: solve(P, margins, gap_tol=GAP, max_iter=passes))
    case = _case(n, k)
    results.note(case, {f"ours, {result.n_iter:,} passes": times})
    results.difference(case, f"certified gap after {result.n_iter:,} passes", result.gap, at_most=GAP)
    results.difference(
        case, "row and margin residuals", max(result.row_residual, result.margin_residual), at_most=FEASIBLE
    )
    source, target = np.ascontiguousarray(P), np.empty_like(P)
    repeats = max(1, 3_000_000 // P.size)
    _, copies = _timed(lambda: [np.copyto(target, source) for _ in range(repeats)])
    ratio = (times.cpu_s[0] / max(result.n_iter, 1)) / (copies.cpu_s[0] / repeats)
    results.ratio(case, "a pass, checks and end included / a copy", Rounds([ratio], [ratio]), Rounds([1.0], [1.0]))
    return Run(result, times)


def _growth(results: Results, runs: dict[tuple[int, int], Run]) -> None:
    for k, small, large in ((3, 1_000, 100_000), (10, 1_000, 100_000)):
        rise = runs[large, k].cpu_s / runs[small, k].cpu_s
        exponent = math.log(rise) / math.log(large / small)
        limit = 1.0 + math.log(math.log(large) / math.log(small)) / math.log(large / small)
        claim = f"exponent of the time's growth, {small:,} to {large:,} rows; that of n log n is the goal"
        results.difference(f"J = {k}", claim, exponent, at_most=round(limit, 3))


def _other_margins(results: Results) -> None:
    """Solve for margins near the sums, and where the entries of P lie close to 0 and 1."""
    rng = np.random.default_rng(1)
    for name, P, spread in (
        ("near margins", rng.dirichlet(np.ones(3), 30_000), 0.05),
        ("softmax, near margins", _softmax(rng.normal(scale=2.0, size=(30_000, 3))), 0.05),
    ):
        margins = P.sum(axis=0) * np.exp(spread * rng.normal(size=3))
        margins *= len(P) / margins.sum()
        result, times = _timed(lambda P=P, margins=margins: solve(P, margins, gap_tol=GAP, max_iter=5_000))
        case = f"{name}, n = 3e+04, J = 3"
        results.note(case, {f"ours, {result.n_iter:,} passes": times})
        results.difference(case, f"certified gap after {result.n_iter:,} passes", result.gap, at_most=GAP)


def _against_peer(results: Results, n: int, k: int) -> None:
    """Race the peer's alternating projections to row and column errors of 1e-6, for a bounded time."""
    if find_spec("rank_preserving_calibration") is None:
        return
    from rank_preserving_calibration import calibrate_dykstra

    P, margins = draw(n, k)
    ours, our_times = _timed(lambda: solve(P, margins, tol=1e-6, gap_tol=GAP, max_iter=5_000))
    start = time.process_time()
    seen = 0

    def keep_going(iteration: int, _change: float, _Q: Array) -> bool:
        nonlocal seen
        seen = iteration + 1
        return time.process_time() - start < PEER_LIMIT_S

    peer, times = _timed(lambda: calibrate_dykstra(P, margins, tol=1e-6, max_iters=3_000, callback=keep_going))
    error = max(float(np.abs(peer.Q.sum(axis=1) - 1.0).max()), float(np.abs(peer.Q.sum(axis=0) - margins).max()) / n)
    objective = float(((peer.Q - P) ** 2).sum())
    how = "converged" if error <= 1e-6 else f"stopped with sums off by {error:.1e}"
    case = f"{_case(n, k)}, to 1e-6"
    results.note(case, {f"peer, {how} after {seen:,} iterations": times, f"ours, {ours.n_iter:,} passes": our_times})
    is_there = error <= 1e-6
    results.ratio(case, f"peer ({how}) / ours", times, our_times, at_least=20.0 if is_there else None)
    results.difference(case, "certified gap of ours", ours.gap, at_most=GAP)
    excess = objective / ours.bound - 1.0
    results.ratio(case, "objective of the peer less our bound, share", Rounds([excess], [excess]), Rounds([1.0], [1.0]))


def _largest(results: Results) -> None:
    """One million rows of ten columns in 300 passes, and the memory that takes."""
    n, k = 1_000_000, 10
    P, margins = draw(n, k)
    before = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    result, times = _timed(lambda: solve(P, margins, gap_tol=GAP, max_iter=300))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    case = _case(n, k)
    results.note(case, {f"ours, {result.n_iter:,} passes": times})
    results.difference(case, "certified gap after 300 passes", result.gap, at_most=GAP)
    results.difference(
        case, "row and margin residuals", max(result.row_residual, result.margin_residual), at_most=FEASIBLE
    )
    arrays = (after * 1024 - before) / (8.0 * n * k)
    results.difference(case, "memory beyond what was in use before, in arrays of n x J", arrays, at_most=6.0)


def _softmax(z: Array) -> Array:
    p: Array = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _case(n: int, k: int) -> str:
    return f"n = {n:.0e}, J = {k}"
