"""How many trees, of what size, and how much of them: chosen by what they gain on rows that they have not seen.

Two sizes, and the next one on the side of the better of them, are first grown on the rows without one fold until the
loss on that fold has not fallen for a while. The size of the least loss is grown without each fold in turn, and as many
rounds are taken as give the least loss over all folds; of the fit to all rows as many more as it has rows more. What
they gain is measured with the rounds that are best on the other folds: the least of many losses is too good by chance,
most of all where clusters are few. Of many rows three folds are enough to be held out. Of very many the first fold
alone says how many rounds there are, so that one fold after the other is grown and forgotten. The sum of the trees is
then shrunk: by the factor of the least held-out loss, and by what is left of the belief that the change gains at all,
which is the rule of `AutoCalibrator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators import NONE, AutoReport, Evidence, Split
from calibrant.dependent_rows import DesignEffects
from calibrant.numerics import FloatArray, log_softmax, softplus
from calibrant.rows import Rows
from calibrant.segments.boosting import Boosting, BoostingRows, Size, Task

#: Sizes of trees, the middle two of which are tried first. They, rate, pull and the share of the columns in `Boosting`
#: were chosen on seven tables of real data and judged on six others.
SIZES = tuple(Size(leaves, rate=0.15, least_rows=20, pull=20.0) for leaves in (4, 8, 16, 32))
#: Rounds at most, and rounds without a smaller loss after which growing ends.
MOST_ROUNDS, PATIENCE = 500, 10
#: Rows from which three folds are held out. On the one table of half A that has so many, 34,000, three in place of five
#: take a fifth less time, and the log loss of six fits differs by 3e-5 (standard error 3e-5); with two by 1.6e-4. On
#: others, of 10,000 to 20,000, three would cost 2e-4.
_FEWER_FOLDS_FROM = 20_000
#: Rows from which the first fold says how many rounds there are: trees of all folds at once take more than the rows do.
_VERY_MANY_ROWS = 500_000
#: What the candidate that changes something is called.
SEGMENTS = "segments"
#: The most that the sum of the trees is stretched by; it is shrunk as far as to nothing.
_MOST_SHARE = 1.0


@dataclass(frozen=True, slots=True)
class TriedSize:
    """A size of trees: its leaves, the rounds of the least loss on the first fold, and that mean loss."""

    leaves: int
    n_rounds: int
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What was chosen: a size, rounds of it on all rows, and the share of their sum that is used; 0 for none."""

    size: Size
    n_rounds: int
    share: float
    tried: tuple[TriedSize, ...]
    report: AutoReport


def row_losses(task: Task, margins: FloatArray, target: FloatArray) -> FloatArray:
    """Return the loss of each row: log loss of margins, or half the squared error of numbers."""
    if task == "mean":
        return np.asarray(0.5 * (target - margins) ** 2)
    if task == "binary":
        return np.asarray(softplus(margins) - target * margins)
    return np.asarray(-log_softmax(margins)[np.arange(target.size), target.astype(np.int64)])


def choose(data: BoostingRows, rows: Rows, splits: Sequence[Split], *, seed: int) -> Choice:
    """Choose the trees for rows that are cut into bins; `rows` are the same rows with weights and dependence."""
    more_rows = len(splits) / (len(splits) - 1)
    if data.n_rows >= _FEWER_FOLDS_FROM and len(splits) > 3:
        splits = [splits[0], splits[len(splits) // 2], splits[-1]]  # of blocks in time the first, middle and last
    first, tried = _first_growth(data, splits[0], seed)
    added = np.zeros(data.margins.shape)
    if data.n_rows < _VERY_MANY_ROWS:
        growths = [first, *(_Growth(data, split, first.size, seed) for split in splits[1:])]
        weights = np.array([growth.weight for growth in growths])
        losses = _losses_by_round(growths, weights)
        n_rounds = _least(losses, weights)
        for k, (growth, split) in enumerate(zip(growths, splits, strict=True) if n_rounds else ()):
            others = np.where(np.arange(len(splits)) == k, 0.0, weights)
            added[split.held_out] = growth.margins(_least(losses, others))
    else:
        n_rounds = first.best
        for k, split in enumerate(splits):
            growth = first if k == 0 else _Growth(data, split, first.size, seed)
            added[split.held_out] = growth.margins(n_rounds)
            del growth  # before the next one takes as much memory
    share, report = _weigh(data, added, rows, list(splits))
    return Choice(first.size, min(round(more_rows * n_rounds), MOST_ROUNDS), share, tried, report)


def _first_growth(data: BoostingRows, split: Split, seed: int) -> tuple[_Growth, tuple[TriedSize, ...]]:
    """Return the growth without the first fold of the size of the least loss, and what was tried."""
    tried: list[TriedSize] = []

    def better(known: _Growth | None, size: Size) -> _Growth:
        growth = _Growth(data, split, size, seed)
        growth.grow_past_least()
        tried.append(TriedSize(size.leaves, growth.best, growth.least))
        return growth if known is None or growth.least < known.least else known

    smallest, small, large, largest = SIZES
    best = better(better(None, small), large)
    best = better(best, largest if best.size is large else smallest)
    return best, tuple(sorted(tried, key=lambda each: each.leaves))


def _losses_by_round(growths: Sequence[_Growth], weights: FloatArray) -> FloatArray:
    """Return the held-out loss of each fit after 0, 1, ... rounds, until their mean has not fallen for a while."""
    found: list[list[float]] = []
    while not found or len(found) <= MOST_ROUNDS:
        found.append([growth.loss_after(len(found)) for growth in growths])
        if len(found) - 1 - _least(np.array(found), weights) >= PATIENCE or all(growth.is_done for growth in growths):
            break
    return np.array(found)


def _least(losses: FloatArray, weights: FloatArray) -> int:
    """Return the number of rounds of the least mean loss."""
    return int(np.argmin(np.average(losses, axis=1, weights=weights)))


def _weigh(data: BoostingRows, added: FloatArray, rows: Rows, splits: list[Split]) -> tuple[float, AutoReport]:
    """Return the share of the trees' sum that is used, and why, by the rows that are held out."""
    at = np.any([split.held_out for split in splits], axis=0)
    margins, target, added, rows = data.margins[at], data.target[at], added[at], rows.part(at)

    def losses(share: float) -> FloatArray:
        return row_losses(data.task, margins + share * added, target)

    w = rows.weights

    def mean_loss(share: float) -> float:
        return float(np.average(losses(share), weights=w))

    share = _least_share(mean_loss) if added.any() else 0.0
    evidence = Evidence(rows, splits, DesignEffects.of(rows), leak=0.0)
    candidates = {NONE: losses(0.0)[None, :], SEGMENTS: losses(1.0)[None, :]}
    report, weights = evidence.weigh(
        candidates,
        lambda weights: losses(float(weights[1]))[None, :],
        np.array([1.0 - share, share]),
        called="half the squared error" if data.task == "mean" else "log loss",
    )
    return float(weights[1]), report


def _least_share(mean_loss: object) -> float:
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(mean_loss, bounds=(0.0, _MOST_SHARE), method="bounded", options={"xatol": 1e-3})
    return float(found.x)


class _Growth:
    """Trees that grow on the rows of a split, watched on those held out."""

    def __init__(self, data: BoostingRows, split: Split, size: Size, seed: int) -> None:
        self.size, self._held = size, split.held_out
        self._boosting = Boosting(data, size, seed=seed, fitted=split.fitted)
        self._boosting.watch(self._held)
        self._before = data.margins[self._held]
        w = None if data.weight is None else data.weight[self._held]
        self.weight = float(self._before.shape[0] if w is None else w.sum())
        self.losses = [float(np.average(row_losses(data.task, self._before, data.target[self._held]), weights=w))]
        self.is_done = False

    @property
    def best(self) -> int:
        """The number of rounds of the least loss so far."""
        return int(np.argmin(self.losses))

    @property
    def least(self) -> float:
        """The least loss so far."""
        return min(self.losses)

    def grow_past_least(self) -> None:
        """Grow until the loss has not fallen for `PATIENCE` rounds."""
        while not self.is_done and len(self.losses) <= MOST_ROUNDS and len(self.losses) - 1 - self.best < PATIENCE:
            self._grow()

    def loss_after(self, n_rounds: int) -> float:
        """Return the loss on the rows held out after so many rounds, or after all that there are."""
        while not self.is_done and len(self.losses) <= n_rounds:
            self._grow()
        return self.losses[min(n_rounds, len(self.losses) - 1)]

    def margins(self, n_rounds: int) -> FloatArray:
        """Return what so many rounds add to the margins of the rows held out."""
        if n_rounds == 0:
            return np.zeros(self._before.shape)
        while not self.is_done and len(self.losses) <= n_rounds:
            self._grow()
        return self._boosting.margins(self._held, n_rounds)

    def _grow(self) -> None:
        self.is_done = self._boosting.grow()
        if not self.is_done:
            self.losses.append(self._boosting.loss())
