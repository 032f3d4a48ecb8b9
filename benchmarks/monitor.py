"""The monitor's false alarms and delays where labels overlap, beside independent rows and rows nobody declared."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from benchmarks._harness import Results
from calibrant.monitor import CalibrationMartingale
from calibrant.rows import Rows, read_rows

ALPHA = 0.01
OVERLAPS = (1, 5, 20)
N_STREAMS, N_UNDECLARED, N_ROWS, WINDOW = 2_000, 200, 2_000, 100
N_DRIFTS, N_DRIFT_WINDOWS, DRIFT_WINDOW, DRIFT = 60, 80, 250, 0.1
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def run() -> Results:
    """Count false alarms over calibrated streams, and windows until a drift is found."""
    results = Results("calibrant monitor where labels overlap: false alarms at alpha = 0.01, and windows to an alarm")
    for h in OVERLAPS:
        case = f"labels over {h} row{'s' * (h > 1)}"
        for name, n, at_most in (("declared", N_STREAMS, ALPHA), ("not declared", N_UNDECLARED, None)):
            found = [alarm(*walk(seed, h), h, WINDOW, is_declared=at_most is not None) for seed in range(n)]
            share = float(np.mean([at is not None for at in found]))
            claim = f"share of {n:,} calibrated streams of {N_ROWS:,} rows with a false alarm, {name}"
            results.share(case, claim, share, at_most=at_most)
    for h in OVERLAPS:
        found = [alarm(*drift(seed, h), h, DRIFT_WINDOW, is_declared=True) for seed in range(N_DRIFTS)]
        delays = [N_DRIFT_WINDOWS if at is None else at for at in found]
        results.spread(
            f"labels over {h} row{'s' * (h > 1)}",
            f"windows of {DRIFT_WINDOW} rows until a gap of {DRIFT:g} is found: median of {N_DRIFTS}, and tenths",
            *np.percentile(delays, [50, 10, 90]).tolist(),
        )
    return results


def walk(seed: int, h: int) -> tuple[Floats, Flags]:
    """Return probabilities near one half, and whether a random walk is higher h steps later."""
    rng = np.random.default_rng(seed)
    path = np.concatenate(([0.0], rng.normal(size=N_ROWS + h).cumsum()))
    return rng.uniform(0.48, 0.52, N_ROWS), path[h : h + N_ROWS] > path[:N_ROWS]


def drift(seed: int, h: int) -> tuple[Floats, Flags]:
    """Return probabilities that are too small throughout, and labels by sums of h numbers that rows share."""
    rng = np.random.default_rng(seed)
    n = N_DRIFT_WINDOWS * DRIFT_WINDOW
    path = np.concatenate(([0.0], rng.normal(size=n + h).cumsum()))
    p = rng.uniform(0.1, 0.7, n)
    return p, ndtr((path[h : h + n] - path[:n]) / math.sqrt(h)) < p + DRIFT


def alarm(p: Floats, y: Flags, h: int, size: int, *, is_declared: bool) -> int | None:
    """Return the number of the window that raises the alarm."""
    martingale = CalibrationMartingale()
    for number, start in enumerate(range(0, p.size, size), start=1):
        at = np.arange(start, min(start + size, p.size))
        if is_declared:
            log_e = martingale.add_rows(rows(p[at], y[at], time=at, label_end=at + h - 1))
        else:
            log_e = martingale.add(rows(p[at], y[at]).summary())
        if log_e >= -math.log(ALPHA):
            return number
    return None


def rows(p: Floats, y: Flags, **times: npt.NDArray[np.int64]) -> Rows:
    """Return checked rows."""
    return read_rows(p, y, classes=[False, True], **times)
