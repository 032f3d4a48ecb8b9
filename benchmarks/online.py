"""The online calibrator beside periodic refits of Platt scaling, on streams that drift and on market bars.

Every row is predicted by labels that were known before it. Refits take place each 100 rows, on the last so many labels
or on all. "Newton" is online Platt scaling by Online Newton Steps (Gupta and Ramdas 2023, algorithm 1, with their
gamma = 0.1 and D = 1), which follows the best map of all rows.

The online calibrator was kept as its log loss, over the drifting streams together, is below that of every one way to
refit. This rule was not fixed beforehand: it was written after a first prototype had shown the pattern. The weights
that the calibrator begins with were not tuned afterwards. The streams are of the kind that it is made for: their labels
follow Platt maps, and the intercepts of the abrupt ones come from the normal law that its weights begin with. Bars are
not counted by the goals.

Bars are the folder market/ of the one that CALIBRANT_DATA names; labels are whether the close is higher 20 bars later.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy.special import expit, logit

from benchmarks._harness import Tables
from benchmarks.training import SETS, estimator
from calibrant import OnlinePlattCalibrator, SigmoidCalibrator
from calibrant.dependence import block_length
from calibrant.errors import CalibrantWarning
from calibrant.training.bars import as_bars
from calibrant.training.block_bootstrap import PairedMean, paired_means
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import hold_out
from calibrant.training.sources import BarSource

Floats = npt.NDArray[np.float64]
KINDS = ("no drift", "abrupt", "gradual", "base rate", "random walk")
WINDOWS = (250, 500, 1_000, 2_000, None)
N_ROWS, N_SEEDS, EVERY, FEWEST = 10_000, 10, 100, 100
#: Rows at the start that are predicted, and not counted: nothing has learnt much by then.
WARM_UP = 500
_FARTHEST = 15.0
ONLINE, NEWTON, NONE = "online", "Newton", "none"


class Stream(NamedTuple):
    """Logits and labels in the order of time, when each row was predicted, and when its label was known."""

    z: Floats
    y: npt.NDArray[np.bool_]
    time: npt.NDArray[np.generic]
    label_end: npt.NDArray[np.generic]

    def losses(self, p: Floats) -> Floats:
        """Return the log loss of each row but the first ones."""
        return -np.log(np.where(self.y, p, 1.0 - p))[WARM_UP:]


def run() -> Tables:
    """Measure all ways on all streams."""
    found = Tables("Calibration of a stream: online, and refitted each 100 rows; mean log loss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        simulated = {kind: [simulate(kind, seed) for seed in range(N_SEEDS)] for kind in KINDS}
        losses = {kind: measured(streams) for kind, streams in simulated.items()}
        of_bars = dict(bar_streams())
        bars = {name: measured([stream]) for name, stream in of_bars.items()}
    blocks = {name: block_length(one.time, one.label_end) for name, one in of_bars.items()}
    header = ("stream", *next(iter(losses.values())))
    for title, part in (("Simulated, 10 streams of 10,000 rows each", losses), ("Market bars, horizon 20", bars)):
        found.add(f"{title}: log loss", header, [_row(name, of_ways) for name, of_ways in part.items()])
        gaps = [
            [name, *map(_gap, differences(of_ways, blocks.get(name, EVERY)).values())] for name, of_ways in part.items()
        ]
        titled = f"{title}: log loss of the online calibrator less that of the others, paired blocks, 95% intervals"
        found.add(titled, ("stream", *(way for way in header[1:] if way != ONLINE)), gaps)
    drifting = [kind for kind in KINDS if kind != "no drift"]
    for way in (*(way for way in header[1:] if way not in (NONE, ONLINE)), NONE):
        gap = np.mean([losses[kind][ONLINE].mean() - losses[kind][way].mean() for kind in drifting])
        found.goal(f"drifting streams together, online less {way}", float(gap), at_most=0.0)
    return found


def simulate(kind: str, seed: int) -> Stream:
    """Return a stream of independent labels, whose probability is expit(a z + b) with a and b that move."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    z, t = rng.normal(-0.5, 1.5, N_ROWS), np.arange(N_ROWS) / N_ROWS
    a, b = np.ones(N_ROWS), np.zeros(N_ROWS)
    match kind:
        case "abrupt":
            stretch = np.searchsorted(np.sort(rng.uniform(0.1, 1.0, 3)), t)
            a = np.append(1.0, rng.uniform(0.3, 1.5, 3))[stretch]
            b = np.append(0.0, rng.normal(0.0, 1.0, 3))[stretch]
        case "gradual":
            a, b = 1.0 - 0.7 * t, 1.5 * t * rng.choice([-1.0, 1.0])
        case "base rate":
            b = 1.2 * np.sin(2.0 * np.pi * rng.uniform(1.0, 3.0) * t)
        case "random walk":
            a, b = np.exp(np.cumsum(rng.normal(0.0, 0.005, N_ROWS))), np.cumsum(rng.normal(0.0, 0.02, N_ROWS))
    time = np.arange(N_ROWS)
    return Stream(z, rng.random(N_ROWS) < expit(a * z + b), time, time + 0.5)


def bar_streams() -> Iterator[tuple[str, Stream]]:
    """Yield, for each set of bars, what a model that was trained on the first part says of the rest."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        raise SystemExit("CALIBRANT_DATA must name the folder that holds market/. The benchmark of streams needs it.")
    for name in SETS:
        bars = as_bars(pq.read_table(Path(folder) / "market" / f"{name}.parquet"), source=name)
        data = BarSource(bars).dataset(TrainConfig(label="binary"))
        parts = hold_out(data)
        fit = data.take(parts.fit)
        model = estimator("lightgbm").fit(fit.X, fit.codes)
        rest = data.take(np.flatnonzero(data.time >= data.time[parts.validation].min()))
        z = np.clip(logit(model.predict_proba(rest.X)[:, 1]), -_FARTHEST, _FARTHEST)
        yield f"{name}, lightgbm", Stream(z, rest.codes == 1, rest.time, rest.label_end)


def measured(streams: list[Stream]) -> dict[str, Floats]:
    """Return the log loss of each row of all streams, by each way."""
    ways: dict[str, Callable[[Stream], Floats]] = {
        NONE: lambda s: expit(s.z),
        **{f"refit on {w or 'all'}": lambda s, w=w: refitted(s, w) for w in WINDOWS},  # type: ignore[misc]
        NEWTON: newton,
        ONLINE: online,
    }
    return {name: np.concatenate([stream.losses(way(stream)) for stream in streams]) for name, way in ways.items()}


def differences(of_ways: dict[str, Floats], block: int) -> dict[str, PairedMean]:
    """Return the mean loss of the online calibrator less that of each other way."""
    found = paired_means(of_ways, baseline=ONLINE, block=block)
    return {
        way: PairedMean(-gap.value, -gap.high, -gap.low, gap.error, gap.level, gap.n_rows, gap.block)
        for way, gap in found.items()
    }


def online(stream: Stream) -> Floats:
    """Predict by the online calibrator; labels that overlap count by their uniqueness."""
    calibrator = OnlinePlattCalibrator([False, True], input="logit")
    return calibrator.replay(stream.z, stream.y, time=stream.time, label_end=stream.label_end)


def refitted(stream: Stream, window: int | None) -> Floats:
    """Predict by Platt scaling that is fitted each 100 rows to the labels known by then, or the last of them."""
    out = expit(stream.z)
    order = np.argsort(stream.label_end, kind="stable")
    for start in range(EVERY, stream.z.size, EVERY):
        known = order[: np.searchsorted(stream.label_end[order], stream.time[start], side="left")]
        known = known if window is None else known[-window:]
        if known.size < FEWEST or stream.y[known].all() or not stream.y[known].any():
            continue
        fitted = SigmoidCalibrator(input="logit").fit(stream.z[known], stream.y[known])
        out[start : start + EVERY] = fitted.predict_proba(stream.z[start : start + EVERY])
    return out


def newton(stream: Stream) -> Floats:
    """Predict by online Newton steps on slope and intercept, from the map that leaves scores as they are."""
    gamma, theta, inverse = 0.1, np.array([1.0, 0.0]), 0.1**2 * np.eye(2)
    out = np.empty(stream.z.size)
    order, n_learnt = np.argsort(stream.label_end, kind="stable"), 0
    ends = stream.label_end[order]
    for row in range(stream.z.size):
        while n_learnt < order.size and ends[n_learnt] < stream.time[row]:
            known = order[n_learnt]
            x = np.array([stream.z[known], 1.0])
            gradient = (expit(theta @ x) - stream.y[known]) * x
            moved = inverse @ gradient
            inverse -= np.outer(moved, moved) / (1.0 + gradient @ moved)
            theta = theta - inverse @ gradient / gamma
            n_learnt += 1
        out[row] = expit(theta[0] * stream.z[row] + theta[1])
    return np.clip(out, expit(-_FARTHEST), expit(_FARTHEST))


def _row(name: str, of_ways: dict[str, Floats]) -> list[str]:
    return [name, *(f"{losses.mean():.4f}" for losses in of_ways.values())]


def _gap(gap: PairedMean) -> str:
    return f"{gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]"
