"""The fits behind a grouped calibrator: of all rows, of each group, and the strength that draws groups to all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import Calibrator, make_calibrator
from calibrant.errors import CalibrantWarning
from calibrant.folds import stratified_folds
from calibrant.maps import Map, SoftmaxMap, StepMap, is_binary
from calibrant.numerics import FloatArray, IntArray, clip_from_data, clip_open, expit, logit, softmax
from calibrant.validation import ArrayLike, Labels, as_groups, as_labels, as_scores, as_weight, check_same_length

#: What "auto" chooses from: the rows that the map of all rows counts for.
STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, math.inf)
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class GroupMap:
    """The map of one group, and how much of it enters the blend.

    Attributes
    ----------
    n_rows : int
        Number of rows with weight.
    share : float
        Share of the group's own map, in [0, 1]; the rest is the map of all rows.
    clip : float
        The outputs of `map` are moved into [clip, 1 - clip] before they are blended.
    map : Map
        Fitted to the rows of the group alone.
    """

    n_rows: int
    share: float
    clip: float
    map: Map


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Checked rows with weight, and where those of each group lie."""

    scores: FloatArray
    labels: Labels
    weight: FloatArray | None
    groups: Labels
    parts: tuple[IntArray, ...]
    sizes: tuple[float, ...]

    @classmethod
    def read(
        cls, scores: ArrayLike, y: ArrayLike, by: ArrayLike, sample_weight: ArrayLike | None, pooled: Calibrator
    ) -> GroupedRows:
        """Take the rows apart, once the fit to all of them has checked scores, labels and weights."""
        values = as_scores(scores, input=pooled.input).values
        columns = 1 if values.ndim == 1 else values.shape[1]
        labels = as_labels(y, name="y", classes=pooled.classes_, n_columns=columns)
        weight = as_weight(sample_weight, values.shape[0])
        group = as_groups(by)
        check_same_length(values.shape[0], group.codes.size, "scores", "by")
        groups = group
        if weight is not None and not weight.all():
            kept = weight > 0.0
            values, weight = values[kept], weight[kept]
            labels = Labels(labels.codes[kept], labels.classes)
            present, codes = np.unique(group.codes[kept], return_inverse=True)
            groups = Labels(codes, group.classes[present])
        return cls.of(values, labels, weight, groups)

    @classmethod
    def of(cls, values: FloatArray, labels: Labels, weight: FloatArray | None, groups: Labels) -> GroupedRows:
        """Find the rows and the size of each group; some may be empty."""
        parts = tuple(part for _, part in parts_of(groups.codes, 0, len(groups.classes), keep_empty=True))
        if weight is None:
            sizes = tuple(float(part.size) for part in parts)
        else:
            sizes = tuple(_size(weight[part], part.size) for part in parts)
        return cls(values, labels, weight, groups, parts, sizes)

    def take(self, at: IntArray) -> GroupedRows:
        """Return some of the rows, with all groups, of which some may then be empty."""
        weight = None if self.weight is None else self.weight[at]
        labels = Labels(self.labels.codes[at], self.labels.classes)
        return self.of(self.scores[at], labels, weight, Labels(self.groups.codes[at], self.groups.classes))


@dataclass(frozen=True, slots=True)
class FittedGroups:
    """The calibrator of each group, that of all rows for an empty one, and the clips of their outputs."""

    pooled_clip: float
    own: tuple[Calibrator, ...]
    clips: tuple[float, ...]

    @classmethod
    def of(cls, rows: GroupedRows, pooled: Calibrator) -> FittedGroups:
        """Fit each group as all rows were."""
        q = pooled._apply(pooled._fitted_map(), rows.scores)
        pooled_clip = clip_from_data(q.reshape(-1), _size(rows.weight, rows.scores.shape[0]))
        own: list[Calibrator] = []
        clips: list[float] = []
        for part, size in zip(rows.parts, rows.sizes, strict=True):
            if not part.size:
                own.append(pooled)
                clips.append(pooled_clip)
                continue
            own.append(_fit_group(rows, part, pooled))
            q = own[-1]._apply(own[-1]._fitted_map(), rows.scores[part])
            clips.append(clip_from_data(q.reshape(-1), size))
        return cls(pooled_clip, tuple(own), tuple(clips))


def _fit_group(rows: GroupedRows, part: IntArray, pooled: Calibrator) -> Calibrator:
    """Fit to the rows of one group as to all; the constant of its class where it shows one only."""
    made = make_calibrator(pooled)
    codes, n_classes = rows.labels.codes[part], len(rows.labels.classes)
    weight = None if rows.weight is None else rows.weight[part]
    if (codes != codes[0]).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # small groups lack classes: what shrinkage is for
            return made.fit_checked(rows.scores[part], Labels(codes, rows.labels.classes), weight)
    counts = np.bincount(codes, weights=weight, minlength=n_classes) + 1.0
    rate = counts / counts.sum()
    if is_binary(pooled._fitted_map()):
        made.map_ = StepMap(np.empty(0), rate[1:])
    else:
        made.map_ = SoftmaxMap(np.zeros(()), np.log(rate), None)
    return made


def cross_validate(rows: GroupedRows, calibrator: str | Calibrator, strengths: tuple[float, ...]) -> dict[float, float]:
    """Return the log loss of each strength on rows that neither map has seen."""
    n = rows.scores.shape[0]
    classes = len(rows.labels.classes)
    # groups by class: each fold gets its part of every group
    strata = rows.groups.codes.astype(np.int64) * classes + rows.labels.codes
    folds = stratified_folds(strata, min(_FOLDS, n), seed=0)
    total = dict.fromkeys(strengths, 0.0)
    for fold in range(min(_FOLDS, n)):
        rest, held_out = rows.take(np.flatnonzero(folds != fold)), rows.take(np.flatnonzero(folds == fold))
        if (rest.labels.codes == rest.labels.codes[:1]).all():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
            pooled = make_calibrator(calibrator).fit_checked(rest.scores, rest.labels, rest.weight)
        fitted = FittedGroups.of(rest, pooled)
        all_rows = pooled._apply(pooled._fitted_map(), held_out.scores)
        for code, part in enumerate(held_out.parts):
            if not part.size:
                continue
            own = fitted.own[code]
            q = own._apply(own._fitted_map(), held_out.scores[part])
            for m in strengths:
                share = share_of(rest.sizes[code], m)
                mixed = blend(all_rows[part], q, share, fitted.pooled_clip, fitted.clips[code])
                total[m] += _loss(mixed, held_out, part)
    weight = float(n) if rows.weight is None else float(rows.weight.sum())
    return {m: loss / weight for m, loss in total.items()}


def _loss(q: FloatArray, rows: GroupedRows, part: IntArray) -> float:
    codes = rows.labels.codes[part]
    hit = np.where(codes == 1, q, 1.0 - q) if q.ndim == 1 else np.take_along_axis(q, codes[:, None], axis=1)[:, 0]
    loss = -np.log(hit)
    return float(loss.sum() if rows.weight is None else (rows.weight[part] * loss).sum())


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


def _size(weight: FloatArray | None, n: int) -> float:
    """Return Kish's effective number of rows."""
    return float(n) if weight is None or n == 0 else float(weight.sum() ** 2 / np.square(weight).sum())


def parts_of(
    codes: npt.NDArray[np.integer[Any]], first: int, stop: int, *, keep_empty: bool = False
) -> Iterator[tuple[int, IntArray]]:
    """Yield the rows of each code from `first` on, in their order."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(first, stop + 1))
    for code, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), start=first):
        if keep_empty or high > low:
            yield code, order[low:high]
