"""The columns of features that a calibrator was fitted to, and new rows' values of them as one matrix of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.document_field import DocumentField
from calibrant.maps import MOST_LEVELS
from calibrant.numerics import FloatArray
from calibrant.phrases import count
from calibrant.validation import Feature, FeatureKind, Features

#: Levels of a category that get a code; the rarer ones count as missing. One code of 8 bits is kept for these.
MOST_KEPT = MOST_LEVELS - 2


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumn:
    """A column that segments are found by: its name, and the levels of a category, sorted; None for numbers."""

    name: str
    levels: npt.NDArray[Any] | None = None

    @property
    def kind(self) -> FeatureKind:
        """Whether it holds numbers or categories."""
        return "number" if self.levels is None else "category"

    def in_words(self) -> str:
        """Return its kind, and how many levels a category has."""
        return "number" if self.levels is None else f"category of {count(len(self.levels), 'level')}"

    @classmethod
    def of(cls, name: str, feature: Feature, weight: FloatArray | None = None) -> Self:
        """Return the column that a fit sees, with the levels that it shows, of many the most frequent ones."""
        if feature.levels is None:
            return cls(name)
        is_given = ~np.isnan(feature.values)
        codes = feature.values[is_given].astype(np.int64)
        held = np.bincount(codes, None if weight is None else weight[is_given], len(feature.levels))
        most = np.sort(np.argsort(-held, kind="stable")[:MOST_KEPT])
        return cls(name, feature.levels[most[held[most] > 0.0]])

    def encode(self, feature: Feature) -> FloatArray:
        """Return numbers as they are, and categories as codes of the levels; NaN for missing and unknown ones.

        Levels of another type than those of the fit are compared as text, since files may differ in types.
        """
        if self.levels is None or feature.levels is None:
            return feature.values
        known, given = self.levels.tolist(), feature.levels.tolist()
        is_text = bool(known) and bool(given) and type(known[0]) is not type(given[0])
        place = {str(level) if is_text else level: float(i) for i, level in enumerate(known)}
        codes = np.array([place.get(str(level) if is_text else level, np.nan) for level in given] or [np.nan])
        missing = np.isnan(feature.values)
        return np.where(missing, np.nan, codes[np.where(missing, 0.0, feature.values).astype(np.int64)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "levels": None if self.levels is None else self.levels.tolist()}

    @classmethod
    def decode(cls, field: DocumentField) -> Self:
        """Return the column that a field of a document holds."""
        parts = field.members(("name", "levels"))
        if parts["levels"].value is None:
            return cls(parts["name"].text())
        levels = parts["levels"].labels() if parts["levels"].value else np.empty(0, dtype=object)
        if len(levels) > MOST_KEPT:
            parts["levels"].refuse(f"holds more than {MOST_KEPT} levels")
        return cls(parts["name"].text(), levels)


def encode_columns(columns: Sequence[FeatureColumn], features: Features | None, n: int) -> FloatArray:
    """Return the features of `n` rows as a matrix of shape (n, d); columns that are not there are missing."""
    out = np.full((n, len(columns)), np.nan)
    for j, column in enumerate(columns):
        if features is not None and column.name in features:
            out[:, j] = column.encode(features[column.name])
    return out
