"""The fits behind a grouped calibrator: of all rows, of each group, and the strength that draws groups to all.

Each group's map is blended with the map of all rows on the logit scale. The share of the group's own map is
n / (n + m) of its effective number of rows n and a strength m; of several m the one of the lowest log loss in a
five-fold cross-validation is taken, in which each fold gets its part of every group and class.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import Calibrator
from calibrant.dependence import stratified_folds
from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantWarning
from calibrant.fitted import apply_map
from calibrant.maps import Map, SoftmaxMap, StepMap, decode_clip, decode_map, encode_map
from calibrant.numerics import FloatArray, IntArray, clip_from_data, clip_open, expit, kish_size, logit, softmax
from calibrant.rows import Rows
from calibrant.validation import Labels

#: What "auto" chooses from: the rows that the map of all rows counts for.
STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, math.inf)
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class GroupMap:
    """The map of one group, and how much of it enters the blend.

    Attributes
    ----------
    n_rows : int
        Rows of the group.
    share : float
        Share of the group's own map, in [0, 1].
    clip : float
        How close to 0 and 1 the map's outputs are taken to lie.
    map : Map
        The map of the group's own rows.
    """

    n_rows: int
    share: float
    clip: float
    map: Map

    def encode(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"n_rows": self.n_rows, "share": self.share, "clip": self.clip, "map": encode_map(self.map)}

    @classmethod
    def decode(cls, field: DocumentField, calibrator: Calibrator, pooled: Map, n_classes: int) -> Self:
        """Return what a field of a document holds; its map is one of the calibrator's, or the constant of a class."""
        parts = field.members(("n_rows", "share", "clip", "map"))
        share = parts["share"].number()
        if not 0.0 <= share <= 1.0:
            parts["share"].refuse("is outside [0, 1]")
        fitted: Map = decode_map(parts["map"])
        if n_outputs(fitted) != n_outputs(pooled):
            parts["map"].refuse("takes another number of columns than the map of all rows")
        if not _is_constant(fitted):
            calibrator.check_map(fitted, n_classes, parts["map"])
        return cls(parts["n_rows"].integer(minimum=1), share, decode_clip(parts["clip"]), fitted)


@dataclass(frozen=True, slots=True)
class GroupFits:
    """The map of all rows and that of each group, each with the clip of its outputs."""

    pooled: Map
    pooled_clip: float
    own: tuple[Map, ...]
    clips: tuple[float, ...]
    sizes: tuple[float, ...]

    @classmethod
    def of(cls, rows: Rows, groups: Labels, calibrator: Calibrator, pooled: Map) -> GroupFits:
        """Fit each group as all rows were; an empty group gets the map of all rows."""
        q = apply_map(pooled, rows.scores, calibrator.input)
        pooled_clip = clip_from_data(q.reshape(-1), kish_size(rows.weights))
        n_groups = len(groups.classes)
        own, clips, sizes = [pooled] * n_groups, [pooled_clip] * n_groups, [0.0] * n_groups
        for code, at in rows_of_codes(groups.codes, 0, n_groups):
            part = rows.take(at)
            own[code] = _fit_group(part, calibrator, is_binary=pooled.is_binary)
            sizes[code] = kish_size(part.weights)
            clips[code] = clip_from_data(apply_map(own[code], part.scores, calibrator.input).reshape(-1), sizes[code])
        return cls(pooled, pooled_clip, tuple(own), tuple(clips), tuple(sizes))


def _fit_group(rows: Rows, calibrator: Calibrator, *, is_binary: bool) -> Map:
    """Fit to the rows of one group as to all; the constant of its class where it shows one only."""
    if (rows.codes != rows.codes[0]).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # small groups lack classes: what shrinkage is for
            return calibrator.fresh().map_of(rows)
    counts = rows.class_weight + 1.0
    rate = counts / counts.sum()
    return StepMap(np.empty(0), rate[1:]) if is_binary else SoftmaxMap(np.zeros(()), np.log(rate), None)


def _is_constant(fitted: Map) -> bool:
    """Say whether a map gives all rows the same probabilities, as that of a group of one class does."""
    if isinstance(fitted, StepMap):
        return fitted.edges.size == 0
    return isinstance(fitted, SoftmaxMap) and fitted.weight.ndim == 0 and fitted.weight == 0.0 and fitted.clip is None


def cross_validate(
    rows: Rows, groups: Labels, calibrator: Calibrator, strengths: Sequence[float]
) -> dict[float, float]:
    """Return the log loss of each strength on rows that neither map has seen."""
    folds = group_folds(rows, groups, min(_FOLDS, rows.n_rows))
    total = dict.fromkeys(strengths, 0.0)
    for fold in range(int(folds.max()) + 1):
        kept, held = rows.fitted_without(folds, fold), folds == fold
        rest = rows.take(kept)
        if (rest.codes == rest.codes[:1]).all():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
            pooled = calibrator.fresh().map_of(rest)
        fits = GroupFits.of(rest, groups.take(kept), calibrator, pooled)
        held_groups = groups.codes[held]
        held_rows = rows.take(held)
        all_rows = apply_map(pooled, held_rows.scores, calibrator.input)
        for code, at in rows_of_codes(held_groups, 0, len(groups.classes)):
            part = held_rows.take(at)
            q = apply_map(fits.own[code], part.scores, calibrator.input)
            for m in strengths:
                share = share_of(fits.sizes[code], m)
                total[m] += _loss(blend(all_rows[at], q, share, fits.pooled_clip, fits.clips[code]), part)
    return {m: loss / rows.total_weight for m, loss in total.items()}


def group_folds(rows: Rows, groups: Labels, n_folds: int, seed: int = 0) -> IntArray:
    """Return the fold of each row: each fold gets its part of every group and class, where rows are independent."""
    if rows.cluster is not None or rows.time is not None:
        return rows.folds(n_folds, seed=seed)
    return stratified_folds(groups.codes.astype(np.int64) * rows.n_classes + rows.codes, n_folds, seed)


def _loss(q: FloatArray, rows: Rows) -> float:
    """Return the weighted sum of the log losses of probabilities strictly inside (0, 1)."""
    codes = rows.codes
    hit = np.where(codes == 1, q, 1.0 - q) if q.ndim == 1 else np.take_along_axis(q, codes[:, None], axis=1)[:, 0]
    loss = -np.log(hit)
    return float(loss.sum() if rows.weight is None else (rows.weight * loss).sum())


def blend(pooled: FloatArray, own: FloatArray, share: float, pooled_clip: float, clip: float) -> FloatArray:
    """Mean logits, or of several columns log-probabilities, each moved away from 0 and 1 by its own clip."""
    if pooled.ndim == 1:
        z = (1.0 - share) * logit(clip_open(pooled, pooled_clip)) + share * logit(clip_open(own, clip))
        return expit(z)
    z = (1.0 - share) * np.log(np.maximum(pooled, pooled_clip)) + share * np.log(np.maximum(own, clip))
    return softmax(z)


def share_of(size: float, strength: float) -> float:
    """Return the share of a group's own map."""
    return 0.0 if size == 0.0 or math.isinf(strength) else size / (size + strength)


def n_outputs(fitted: Map) -> int:
    """Return the number of probabilities that a map makes of a row; 1 for a map of one score."""
    return 1 if fitted.is_binary else int(fitted.n_classes)  # type: ignore[attr-defined]


def rows_of_codes(codes: npt.NDArray[np.integer[Any]], first: int, stop: int) -> Iterator[tuple[int, IntArray]]:
    """Yield the numbers of the rows of each code from `first` on that there is, in their order."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(first, stop + 1))
    for code, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), start=first):
        if high > low:
            yield code, order[low:high]
