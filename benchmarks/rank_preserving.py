"""The rank-preserving solver: on real outputs, on ten draws of four kinds, its growth, and beside a peer and a copy."""

from __future__ import annotations

import math
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._harness import Results, Rounds
from calibrant.errors import ConvergenceWarning, InvalidInputError
from calibrant.rank_preserving import RankPreservingResult, rake, solve

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
    (100_000, 3, 2_000),
    (100_000, 10, 2_000),
)
#: The same of those that run in processes of their own, so that memory is that of one solution.
ALONE = ((1_000_000, 10, 300), (100_000, 100, 3_000))
PEER_SIZES = ((100, 3), (100, 10), (1_000, 3), (1_000, 10), (1_000, 100), (10_000, 3), (10_000, 10))


def run() -> Results:
    """Measure all of it."""
    results = Results("Rank-preserving calibration: real outputs to a gap of 1e-4, Dirichlet(1) rows to one of 1e-3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solve(*draw(300, 3), gap_tol=0.1)
        runs = {(n, k): _solve_alone(results, n, k, passes) for n, k, passes in ALONE}
        _real_outputs(results)
        _on_request(results)
        _raked_in_order(results)
        _several_sets(results)
        _worst_of_draws(results)
        runs |= {(n, k): _solve(results, n, k, passes) for n, k, passes in SIZES}
        _growth(results, runs)
        _other_margins(results)
        _against_interior_point(results)
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
    run = Run(*_timed(lambda: solve(P, margins, gap_tol=GAP, max_iter=passes)))
    _note_run(results, n, k, run)
    result, times, case = run.result, run.times, _case(n, k)
    source, target = np.ascontiguousarray(P), np.empty_like(P)
    repeats = max(1, 3_000_000 // P.size)
    _, copies = _timed(lambda: [np.copyto(target, source) for _ in range(repeats)])
    ratio = (times.cpu_s[0] / max(result.n_iter, 1)) / (copies.cpu_s[0] / repeats)
    results.ratio(case, "a pass, checks and end included / a copy", Rounds([ratio], [ratio]), Rounds([1.0], [1.0]))
    return run


def _solve_alone(results: Results, n: int, k: int, passes: int) -> Run:
    """Solve in a process of its own, and note the memory that this takes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        run, n_bytes = processes.submit(_with_memory, n, k, passes).result()
    _note_run(results, n, k, run)
    claim = "memory beyond what was in use before, in arrays of n x J"
    results.difference(_case(n, k), claim, n_bytes / (8.0 * n * k), at_most=6.0)
    return run


def _with_memory(n: int, k: int, passes: int) -> tuple[Run, int]:
    """Solve, and return the bytes that the process held at most beyond what it had before."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    solve(*draw(20_000, 10), gap_tol=GAP, max_iter=150)  # loads the code for two threads, so that memory is rows
    P, margins = draw(n, k)
    before = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    result, times = _timed(lambda: solve(P, margins, gap_tol=GAP, max_iter=passes))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Run(replace(result, Q=np.empty((0, k))), times), most - before


def _note_run(results: Results, n: int, k: int, run: Run) -> None:
    """Note what a solution took, and how good it is."""
    result, case = run.result, _case(n, k)
    results.note(case, {f"ours, {result.n_iter:,} passes": run.times})
    results.difference(case, f"certified gap after {result.n_iter:,} passes", result.gap, at_most=GAP)
    residual = max(result.row_residual, result.margin_residual)
    results.difference(case, "row and margin residuals", residual, at_most=FEASIBLE)


#: Sets of `scores`, the model of those that hold several, and the rows that are taken; None stands for all.
REAL = (
    ("cifar10_vgg16", None, (100, 300, 1_000, 3_000, None)),
    ("hpc_cv_4class", None, (100, 300, 1_000, None)),
    *(("tabular_models_digits_10class", model, (300, None)) for model in ("nb", "logreg", "rf", "hgb", "mlp")),
    *(("tabular_models_fetal_health_3class", model, (300, None)) for model in ("nb", "logreg", "rf", "hgb", "mlp")),
    ("cifar100_wideresnet_16_4", None, (100, 300, 1_000)),
)
#: Sets and models that the solver's constants were chosen on; the others and the synthetic "confident" draws took
#: no part in it.
CHOSEN_ON = {"cifar10_vgg16", "hpc_cv_4class", "nb", "rf"}
#: Passes at most where a gap of 1e-6 is asked for.
ON_REQUEST = 200_000


def _real_outputs(results: Results) -> None:
    """Solve for the counts of labels, equal totals and far ones, by default; print the worst of each set."""
    if os.environ.get("CALIBRANT_DATA") is None:
        results.note("real outputs", {"left out: CALIBRANT_DATA names no folder with scores": Rounds([0.0], [0.0])})
    for case, P, targets in _real_sets():
        found = [_timed(partial(solve, P, margins)) for margins in targets]
        results.difference(case, "largest gap of three targets", max(r.gap for r, _ in found), at_most=1e-4)
        worst = max(max(r.row_residual, r.margin_residual, r.rank_residual) for r, _ in found)
        results.difference(case, "largest residual", worst, at_most=1e-9)
        _note_slowest(results, case, found, "passes")


def _on_request(results: Results) -> None:
    """Solve for a gap of 1e-6, in as many passes as that takes; 10,000 rows may take minutes."""
    for case, P, targets in _real_sets():
        if len(P) > 5_000:
            continue
        found = [_timed(partial(solve, P, margins, gap_tol=1e-6, max_iter=ON_REQUEST)) for margins in targets]
        case += ", 1e-6 asked for"
        results.difference(case, "largest gap of three targets", max(r.gap for r, _ in found), at_most=1e-6)
        _note_slowest(results, case, found, "passes")


def _raked_in_order(results: Results) -> None:
    """Rake the same sets to the same targets with the order kept; count those that are left unfinished."""
    for case, P, targets in _real_sets():
        found, refused = [], ""
        for margins in targets:
            try:
                found.append(_timed(partial(rake, P, margins, keep_order=True)))
            except InvalidInputError as error:
                refused = str(error).partition(".")[0]
        case += ", raked in order"
        if refused:
            results.note(case, {f"{len(targets) - len(found)} of three refused: {refused}": Rounds([0.0], [0.0])})
        if found:
            claim = f"of {len(found)} targets, those that did not converge"
            results.difference(case, claim, float(sum(not r.converged for r, _ in found)), at_most=0.0)
            _note_slowest(results, case, found, "iterations")


def _real_sets() -> Iterator[tuple[str, Array, list[Array]]]:
    """Give each case of `REAL`: its name, which says whether constants were chosen on it, rows, and three targets."""
    folder = os.environ.get("CALIBRANT_DATA")
    for name, model, sizes in REAL if folder is not None else ():
        P, y = _scores(Path(str(folder)) / "scores" / f"{name}.parquet", model)
        for size in sizes:
            rows = np.random.default_rng(0).permutation(len(P))[:size]
            case = " ".join([name, *filter(None, [model]), f"n = {len(rows):,}"])
            yield case + (", chosen on" if {name, model} & CHOSEN_ON else ""), P[rows], _targets(P[rows], y[rows])


def _note_slowest(results: Results, case: str, found: list[tuple[Any, Rounds]], unit: str) -> None:
    """Note what the slowest of some solutions took."""
    slowest = max((times for _, times in found), key=lambda t: t.cpu_s[0])
    results.note(case, {f"ours, the slowest; {max(r.n_iter for r, _ in found):,} {unit} at most": slowest})


def _several_sets(results: Results) -> None:
    """Solve for the counts of labels in four regions and, of the same rows, in three ages, both drawn at random."""
    folder = os.environ.get("CALIBRANT_DATA")
    for name, n in (("cifar10_vgg16", 1_000), ("cifar10_vgg16", 10_000), ("cifar100_wideresnet_16_4", 1_000)):
        if folder is None:
            return
        P, y = (part[:n] for part in _scores(Path(folder) / "scores" / f"{name}.parquet", None))
        rng, hits = np.random.default_rng(0), np.eye(P.shape[1])[y]
        groups = {"region": rng.integers(0, 4, n), "age": rng.integers(0, 3, n)}
        totals = {
            of: {group: hits[codes == group].sum(axis=0) for group in np.unique(codes).tolist()}
            for of, codes in groups.items()
        }
        result, times = _timed(partial(solve, P, totals, groups=groups))
        case = f"{name} n = {n:,}, totals by region and by age"
        results.difference(case, "certified gap", result.gap, at_most=1e-4)
        results.difference(case, "largest residual", max(result.row_residual, result.margin_residual), at_most=1e-9)
        results.note(case, {f"ours, {result.n_iter:,} passes": times})


def _scores(path: Path, model: str | None) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the probabilities and the labels of a set."""
    import pandas as pd

    data = pd.read_parquet(path)
    data = data if model is None else data[data["model"] == model]
    logs = [column for column in data if str(column).startswith("logp")]
    P: Array = np.exp(data[logs].to_numpy(float)) if logs else data.filter(regex="^p").to_numpy(float)
    return P / P.sum(axis=1, keepdims=True), data["y"].to_numpy(np.int64)


def _targets(P: Array, y: npt.NDArray[np.int64]) -> list[Array]:
    """Return the counts of the labels, equal totals, and some far from those of P."""
    n, k = P.shape
    far = P.sum(axis=0) * np.exp(0.8 * np.random.default_rng(1).normal(size=k))
    return [np.bincount(y, minlength=k).astype(float), np.full(k, n / k), far * (n / far.sum())]


def _worst_of_draws(results: Results) -> None:
    """Solve ten draws of four kinds to a gap of 1e-3, and print the worst."""
    for n, k in ((1_000, 3), (1_000, 10), (3_000, 10)):
        for kind in ("Dirichlet, far", "Dirichlet, near", "softmax, near", "confident, counts"):
            found = [_timed(partial(solve, *_drawn(kind, n, k, seed), gap_tol=GAP)) for seed in range(10)]
            case = f"{kind}, {_case(n, k)}"
            results.difference(case, "largest gap of ten draws", max(r.gap for r, _ in found), at_most=GAP)
            passes = sorted(r.n_iter for r, _ in found)
            slowest = max((times for _, times in found), key=lambda t: t.cpu_s[0])
            results.note(case, {f"the slowest of ten; {passes[5]:,} passes, {passes[-1]:,} at most": slowest})


def _drawn(kind: str, n: int, k: int, seed: int) -> tuple[Array, Array]:
    """Return probabilities and margins of a kind."""
    rng = np.random.default_rng(seed)
    if kind == "Dirichlet, far":
        return draw(n, k, seed)
    if kind == "confident, counts":
        y = rng.integers(k, size=n)
        z = rng.normal(0.0, 1.5, (n, k))
        z[np.arange(n), y] += rng.gamma(4.0, 2.2, n)
        y = np.where(rng.random(n) < 0.09, rng.integers(k, size=n), y)
        return _softmax(z), np.bincount(y, minlength=k).astype(float)
    P = rng.dirichlet(np.ones(k), n) if kind == "Dirichlet, near" else _softmax(rng.normal(scale=2.0, size=(n, k)))
    margins = P.sum(axis=0) * np.exp(0.05 * rng.normal(size=k))
    return P, margins * (n / margins.sum())


def _growth(results: Results, runs: dict[tuple[int, int], Run]) -> None:
    for k, small, large in ((3, 1_000, 100_000), (10, 1_000, 1_000_000)):
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
        results.note("peer", {"left out: rank-preserving-calibration is not installed": Rounds([0.0], [0.0])})
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


def _against_interior_point(results: Results) -> None:
    """Solve by Clarabel too, at its tightest: its objective may lie below our bound by its own rounding alone."""
    if find_spec("clarabel") is None:
        results.note("Clarabel", {"left out: clarabel is not installed": Rounds([0.0], [0.0])})
        return
    cases = [(_case(n, k), *draw(n, k)) for n, k in ((100, 3), (1_000, 3), (1_000, 10))]
    real = ((case, P, targets[0]) for case, P, targets in _real_sets() if case.startswith("cifar10_"))
    for case, P, margins in (*cases, *(each for each in real if len(each[1]) <= 1_000)):
        ours, our_times = _timed(partial(solve, P, margins))
        (status, best, n_iter), times = _timed(partial(_by_clarabel, P, margins))
        case += ", and Clarabel"
        results.note(
            case, {f"Clarabel: {status}, {n_iter} iterations": times, f"ours, {ours.n_iter:,} passes": our_times}
        )
        results.ratio(case, "Clarabel / ours", times, our_times)
        results.difference(case, "our objective above Clarabel's, share", ours.objective / best - 1.0, at_most=1e-4)
        results.difference(case, "our bound above Clarabel's objective, share", ours.bound / best - 1.0, at_most=1e-7)


def _by_clarabel(P: Array, margins: Array) -> tuple[str, float, int]:
    """Return how Clarabel ended, the objective of its matrix, and its iterations."""
    import clarabel
    from scipy import sparse

    n, k = P.shape
    place = np.arange(n * k).reshape(n, k)
    order = np.argsort(P, axis=0, kind="stable")
    lower, upper = (np.take_along_axis(place, part, axis=0).ravel() for part in (order[:-1], order[1:]))
    is_tie = P.ravel()[lower] == P.ravel()[upper]
    lower, upper = np.append(lower, upper[is_tie]), np.append(upper, lower[is_tie])
    identity = sparse.identity(n * k, format="csc")
    by_row, by_column = (sparse.csc_matrix((np.ones(n * k), (at, place.ravel()))) for at in _row_and_column(n, k))
    system = sparse.vstack([by_row, by_column[:-1], identity[lower] - identity[upper], -identity], format="csc")
    limits = np.concatenate((np.ones(n), margins[:-1], np.zeros(lower.size + n * k)))
    cones = [clarabel.ZeroConeT(n + k - 1), clarabel.NonnegativeConeT(lower.size + n * k)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    found = clarabel.DefaultSolver(2.0 * identity, -2.0 * P.ravel(), system, limits, cones, settings).solve()
    return str(found.status), float(((np.array(found.x) - P.ravel()) ** 2).sum()), int(found.iterations)


def _row_and_column(n: int, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the row and the column of each entry of a flattened matrix."""
    return np.repeat(np.arange(n), k), np.tile(np.arange(k), n)


def _softmax(z: Array) -> Array:
    p: Array = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _case(n: int, k: int) -> str:
    return f"n = {n:.0e}, J = {k}"
