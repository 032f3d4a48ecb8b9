"""Rising maps of levels (probability integral transforms): fitted to weighted rows, packed for the loops, and stored.

A map is given by knots from (0, 0) to (1, 1), with straight lines between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.numerics import SMALLEST_CLIP, FloatArray, IntArray

Knots = tuple[FloatArray, FloatArray]
MapNumbers = npt.NDArray[np.int32]
#: Buckets of [0, 1] of each map: one per knot, and not fewer than these.
_FEWEST_BUCKETS = 64
#: Slopes are no steeper: infinity times nothing would be NaN.
_STEEPEST = 1e300
_NONE = np.empty(0)
_NO_SPLITS = np.empty(0, dtype=np.int64), _NONE
IDENTITY: Knots = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def empirical_map(u: FloatArray, weight: FloatArray) -> Knots:
    """Return the distribution of the levels as knots: (0, 0), (u_(i), i / (n + 2)), (1, 1), ties at their mean rank.

    The isotonic fit of the official code of Sahoo et al. (2021) and of Kuleshov et al. (2018), whose target, the
    empirical distribution, already rises.
    """
    return with_ends(*mean_ranks(np.clip(u, SMALLEST_CLIP, 1.0 - SMALLEST_CLIP), weight, 2.0))


def smooth_map(u: FloatArray, weight: FloatArray, n_knots: int, pseudo_counts: float) -> Knots:
    """Return the distribution of the levels at `n_knots` steps of equal weight, drawn towards the identity.

    (W F(u) + kappa u) / (W + kappa), with kappa = `pseudo_counts` and W the weight of all rows.
    """
    order = np.argsort(u, kind="stable")
    rising, cumulative = u[order], np.cumsum(weight[order])
    total = float(cumulative[-1])
    steps = max(min(n_knots, int(total)), 1)
    share = np.arange(1, steps) / steps
    place = np.clip(share * (total + 1.0) - 1.0, 0.0, max(total - 1.0, 0.0))  # in the rows that weights stand for
    whole = np.floor(place)
    low, high = (
        rising[np.minimum(np.searchsorted(cumulative, at, side="right"), u.size - 1)] for at in (whole, whole + 1.0)
    )
    at = np.clip(low + (place - whole) * (high - low), SMALLEST_CLIP, 1.0 - SMALLEST_CLIP)
    is_new = np.diff(at, prepend=-1.0) > SMALLEST_CLIP  # a steeper piece would be a jump that rounding can't follow
    tie = np.cumsum(is_new) - 1
    x, f = with_ends(at[is_new], sum_by(tie, share) / sum_by(tie, np.ones(share.size)))
    return x, (total * f + pseudo_counts * x) / (total + pseudo_counts)


def with_ends(x: FloatArray, y: FloatArray) -> Knots:
    """Return knots with (0, 0) before and (1, 1) after them."""
    return np.concatenate(([0.0], x, [1.0])), np.concatenate(([0.0], y, [1.0]))


def mean_ranks(values: FloatArray, weight: FloatArray, more: float) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, rising, and of each the mean of rank / (n + `more`), ranks being 1 to n."""
    order = np.argsort(values, kind="stable")
    w = weight[order]
    cumulative = np.cumsum(w)
    share = (cumulative - 0.5 * w + 0.5) / (cumulative[-1] + more)
    rising = values[order]
    is_new = np.concatenate(([True], rising[1:] > rising[:-1]))
    tie = np.cumsum(is_new) - 1
    return rising[is_new], sum_by(tie, w * share) / sum_by(tie, w)


def sum_by(number: npt.NDArray[np.integer[Any]], values: FloatArray, n: int = 0) -> FloatArray:
    """Return the sum of the values of each number from 0 on, at least `n` sums."""
    return np.asarray(np.bincount(number, values, minlength=n), dtype=np.float64)


def weighted_quantiles(values: FloatArray, weight: FloatArray, share: FloatArray) -> FloatArray:
    """Return the least values below or at which each share of the weight lies."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    found = np.searchsorted(cumulative, share * cumulative[-1], side="left")
    return np.asarray(values[order[np.minimum(found, values.size - 1)]])


@dataclass(frozen=True)
class PackedMaps:
    """Maps one after the other: map j has the knots `x[start[j]:start[j + 1]]`, `y[...]`, both strictly rising.

    `chosen`, shape (n, T), names the maps that the levels of each row go through, one after the other.
    """

    x: FloatArray
    y: FloatArray
    start: IntArray

    @classmethod
    def pack(cls, knots: list[Knots]) -> PackedMaps:
        """Lay maps, each its knots, one after the other."""
        sizes = [x.size for x, _ in knots]
        return cls(
            np.concatenate([x for x, _ in knots]) if knots else np.empty(0),
            np.concatenate([y for _, y in knots]) if knots else np.empty(0),
            np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
        )

    def __len__(self) -> int:
        return self.start.size - 1

    def knots(self, j: int) -> Knots:
        """Return the knots of map j."""
        part = slice(int(self.start[j]), int(self.start[j + 1]))
        return self.x[part], self.y[part]

    @cached_property
    def inverse(self) -> PackedMaps:
        """The maps that lead back."""
        return PackedMaps(self.y, self.x, self.start)

    def apply(self, levels: FloatArray, chosen: MapNumbers) -> None:
        """Map levels, shape (n, m), in place."""
        self._map(levels, chosen)

    def choose(
        self, levels: FloatArray, column: IntArray, alpha: FloatArray, n_mapped: IntArray, chosen: MapNumbers
    ) -> None:
        """Write which map each row takes: in round t 2 t where its level `column[t]` is at most `alpha[t]`, or 2 t + 1.

        `levels`, shape (n, Q), are those at the thresholds, and the first `n_mapped[t]` of them, which later rounds ask
        for, are mapped on the way, in place.
        """
        self._map(levels, chosen, (column, alpha), n_mapped)

    def log_slope(self, levels: FloatArray, chosen: MapNumbers) -> FloatArray:
        """Map levels, in place, and return the log of the slope of each row's maps together."""
        out = np.zeros_like(levels)
        self._map(levels, chosen, log_slope=self._log_slope, log_slopes=out)
        return out

    def _map(
        self,
        levels: FloatArray,
        chosen: MapNumbers,
        splits: tuple[IntArray, FloatArray] = _NO_SPLITS,
        n_mapped: IntArray | None = None,
        log_slope: FloatArray = _NONE,
        log_slopes: FloatArray = _NONE[:, None],
    ) -> None:
        """Run the loop: see the kernel."""
        if n_mapped is None:
            n_mapped = np.full(chosen.shape[1], levels.shape[1])
        column, alpha = splits
        rounds = np.stack((n_mapped, column if alpha.size else n_mapped))
        kernels.map_levels(levels, chosen, rounds, alpha, *self.index, log_slope, log_slopes)

    @cached_property
    def index(self) -> tuple[IntArray, npt.NDArray[np.uint32], FloatArray]:
        """The maps as the loops read them: see the kernels."""
        n_maps = len(self)
        sizes = np.diff(self.start)
        n_buckets = [max(_FEWEST_BUCKETS, 1 << (size - 1).bit_length()) for size in sizes.tolist()]
        bucket_start = np.concatenate(([0], np.cumsum(np.array(n_buckets, dtype=np.int64) + 2)))
        at, height, slope = knots = np.empty((3, self.x.size + n_maps))
        buckets = np.empty(bucket_start[-1], np.uint32)
        for j, n in enumerate(n_buckets):
            x, y = self.knots(j)
            base = int(self.start[j]) + j
            own, end = slice(base, base + x.size), base + x.size
            at[own], height[own] = x, y
            at[end], height[end], slope[end - 1 : end + 1] = np.inf, 1.0, 0.0
            with np.errstate(over="ignore"):
                slope[base : end - 1] = np.minimum(np.diff(y) / np.diff(x), _STEEPEST)
            found = np.searchsorted(x, np.arange(n + 1) / n, side="right") + (base - 1)
            buckets[bucket_start[j] : bucket_start[j + 1]] = np.append(found, found[-1])
        return bucket_start, buckets, knots

    @cached_property
    def _log_slope(self) -> FloatArray:
        """Log of the slope of the piece after each knot; at 1, of the last piece."""
        slope: FloatArray = self.index[2][2].copy()
        ends = self.start[1:] + np.arange(self.start.size - 1)  # of each map: the knot at 1, then the one at infinity
        slope[ends - 1] = slope[ends - 2]
        slope[ends] = 1.0
        return np.log(slope)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what can be computed again."""
        return {"x": self.x, "y": self.y, "start": self.start}

    def encode(self) -> list[dict[str, list[float]]]:
        """Return the maps as plain data."""
        return [dict(zip("xy", (part.tolist() for part in self.knots(j)), strict=True)) for j in range(len(self))]

    @classmethod
    def decode(cls, body: DocumentField, n: int, *, rises: bool = True) -> PackedMaps:
        """Return `n` maps from plain data; see `decode_knots`."""
        items = body.items(minimum=0)
        if len(items) != n:
            body.refuse(f"has {len(items)} maps where {n} are needed")
        return cls.pack([decode_knots(item.members(("x", "y")), rises=rises) for item in items])


def decode_knots(fields: dict[str, DocumentField], *, rises: bool = True) -> Knots:
    """Return knots from (0, 0) to (1, 1) that rise; only a map that is never inverted may be flat."""
    x = fields["x"].rising(minimum=2)
    y = fields["y"].rising(minimum=2) if rises else fields["y"].numbers(minimum=2)
    if x.size != y.size:
        fields["y"].refuse(f"does not go with {x.size} knots: one number for each is needed")
    for key, values in (("x", x), ("y", y)):
        if values[0] != 0.0 or values[-1] != 1.0:
            fields[key].refuse("does not run from 0 to 1")
        if (np.diff(values) < 0.0).any():
            fields[key].refuse("holds a number that is below the one before")
    return x, y
