"""The fits of a grouped calibrator: of all rows, of each group, and the strength of the blend.

Each group's map is blended with the map of all rows on the logit scale. The share of the group's own map is
n / (n + m) of its effective number of rows n and a strength m; of several m the one of the lowest log loss in a
five-fold cross-validation is taken, in which each fold gets its part of every group and class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.calibrators import Calibrator, fits_by_fold
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, hold_warnings
from calibrant.fitted import apply_map
from calibrant.maps import Map, MulticlassMap, SoftmaxMap, StepMap, decode_clip, decode_map
from calibrant.numerics import (
    FloatArray,
    clip_as_given,
    clip_open,
    expit,
    kish_size,
    logit,
    rows_of_codes,
    softmax,
)
from calibrant.phrases import count
from calibrant.rows import Rows

#: What "auto" chooses from: the number of rows that the map of all rows counts for.
STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, math.inf)
_FOLDS, _IN_FOLDS = 5, ", without a fold of the cross-validation that chooses the shrinkage,"


@dataclass(frozen=True, slots=True)
class GroupMap:
    """The map of one group of `n_rows` rows, its share in the blend, and how close to 0 and 1 its outputs are taken."""

    n_rows: int
    share: float
    clip: float
    map: Map

    def encode(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"n_rows": self.n_rows, "share": self.share, "clip": self.clip, "map": self.map.encode()}

    @classmethod
    def decode(cls, field: DocumentField, calibrator: Calibrator, pooled: Map, n_classes: int) -> Self:
        """Return what a field of a document holds; its map is one of the calibrator's, or the constant of a class."""
        parts = field.members(("n_rows", "share", "clip", "map"))
        share = parts["share"].share()
        fitted: Map = decode_map(parts["map"])
        if n_outputs(fitted) != n_outputs(pooled):
            parts["map"].refuse("takes another number of columns than the map of all rows")
        if not _is_constant(fitted):
            calibrator.check_map(fitted, n_classes, parts["map"])
        return cls(parts["n_rows"].integer(minimum=1), share, decode_clip(parts["clip"]), fitted)


@dataclass(frozen=True, slots=True)
class GroupFits:
    """The map of each group, the clip of its outputs and its effective size; the clip of the map of all rows."""

    own: list[Map]
    clips: list[float]
    sizes: list[float]
    pooled_clip: float


def fit_groups(rows: Rows, calibrator: Calibrator, pooled: Map, *, where: str = "") -> GroupFits:
    """Fit each group as all rows were; a group without rows gets the map of all rows.

    `where` is what messages say of the rows, such as that they are those of a fold.
    """
    (groups,) = rows.groups.values()
    pooled_clip = _clip_of(pooled, rows, calibrator)
    n_groups, labels = len(groups.classes), groups.classes.tolist()
    fits = GroupFits([pooled] * n_groups, [pooled_clip] * n_groups, [0.0] * n_groups, pooled_clip)
    for code, at in rows_of_codes(groups.codes, n_groups):
        part = rows.take(at)
        fits.own[code] = _fit_group(part, calibrator, f"group {labels[code]!r}{where}", pooled.is_binary)
        fits.sizes[code] = kish_size(part.weights)
        fits.clips[code] = _clip_of(fits.own[code], part, calibrator)
    return fits


def _clip_of(fitted: Map, rows: Rows, calibrator: Calibrator) -> float:
    """Return the clip that the outputs for rows support."""
    q = apply_map(fitted, rows.scores, calibrator.input)
    return clip_as_given(q.reshape(-1), kish_size(rows.weights))


def _fit_group(rows: Rows, calibrator: Calibrator, called: str, is_binary: bool) -> Map:
    """Fit to the rows of one group as to all; the smoothed rates where it shows one class only."""
    if (rows.codes != rows.codes[0]).any():
        try:
            with hold_warnings():  # small groups lack classes: that is why they are blended
                return calibrator.fresh().map_of(rows)
        except InvalidInputError:
            lacking = rows.classes[rows.class_weight == 0.0].tolist()
            if calibrator.input != "score" or not lacking:
                raise
            raise InvalidInputError(
                f"{called} has {count(rows.n_rows, 'row')}, and none of class {lacking[0]!r} to calibrate its raw "
                "scores on. Pass probabilities in place of raw scores, or join small groups."
            ) from None
    counts = rows.class_weight + 1.0
    rate = counts / counts.sum()
    return StepMap(np.empty(0), rate[1:]) if is_binary else SoftmaxMap(np.zeros(()), np.log(rate), None)


def _is_constant(fitted: Map) -> bool:
    """Say whether a map gives all rows the same probabilities, as that of a group of one class does."""
    if isinstance(fitted, StepMap):
        return fitted.edges.size == 0
    return isinstance(fitted, SoftmaxMap) and fitted.weight.ndim == 0 and fitted.weight == 0.0 and fitted.clip is None


def cross_validate(rows: Rows, calibrator: Calibrator, strengths: Sequence[float]) -> dict[float, float]:
    """Return the log loss of each strength on rows that neither map has seen."""
    (groups,) = rows.groups.values()
    strata = groups.codes.astype(np.int64) * rows.n_classes + rows.codes
    folds = rows.folds(min(_FOLDS, rows.n_rows), strata=strata)
    total = dict.fromkeys(strengths, 0.0)
    for held, rest, pooled in fits_by_fold(rows, folds, lambda rest: calibrator.fresh().map_of(rest)):
        if pooled is None:
            continue
        fits, held_rows = fit_groups(rest, calibrator, pooled, where=_IN_FOLDS), rows.take(held)
        all_rows = apply_map(pooled, held_rows.scores, calibrator.input)
        for code, at in rows_of_codes(groups.codes[held], len(groups.classes)):
            part = held_rows.take(at)
            q = apply_map(fits.own[code], part.scores, calibrator.input)
            for m in strengths:
                share = share_of(fits.sizes[code], m)
                total[m] += _loss(blend(all_rows[at], q, share, fits.pooled_clip, fits.clips[code]), part)
    return {m: loss / rows.total_weight for m, loss in total.items()}


def _loss(q: FloatArray, rows: Rows) -> float:
    """Return the weighted sum of the log losses of probabilities strictly inside (0, 1)."""
    codes = rows.codes
    hit = np.where(codes == 1, q, 1.0 - q) if q.ndim == 1 else np.take_along_axis(q, codes[:, None], axis=1)[:, 0]
    loss = -np.log(hit)
    return float(loss.sum() if rows.weight is None else (rows.weight * loss).sum())


def blend(pooled: FloatArray, own: FloatArray, share: float, pooled_clip: float, clip: float) -> FloatArray:
    """Return the mean by logits, or by log-probabilities of K classes; each input is clipped by its own clip first."""
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
    return fitted.n_classes if isinstance(fitted, MulticlassMap) else 1
