"""The columns of features that a calibrator was fitted to, and new rows' values of them as one matrix of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.maps import MOST_LEVELS
from calibrant.numerics import FloatArray
from calibrant.phrases import count
from calibrant.validation import Feature, FeatureKind, Features, match_levels

#: Levels of a category that get a code; the rarer ones count as missing. One code of 8 bits is kept for these.
MOST_KEPT = MOST_LEVELS - 2
#: From here on float64 doesn't hold all whole numbers.
_NOT_EXACT = 2**53


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumn:
    """A column that segments are found by: its name, and the levels of a category, sorted; None for numbers."""

    name: str
    levels: npt.NDArray[Any] | None = None

    @property
    def kind(self) -> FeatureKind:
        """Whether it holds numbers or categories."""
        return "number" if self.levels is None else "category"

    @property
    def is_text(self) -> bool:
        """Whether its levels are text."""
        return self.levels is not None and self.levels.dtype.kind == "O"

    def check_exportable(self) -> None:
        """Raise InvalidInputError where levels are too large for SQL and ONNX, which read them as float64."""
        if self.levels is not None and self.levels.dtype.kind in "iu":
            large = next((level for level in self.levels.tolist() if abs(level) >= _NOT_EXACT), None)
            if large is not None:
                raise InvalidInputError(
                    f"column {self.name!r} has the level {large}, and SQL and ONNX read numbers as float64, which "
                    "can't tell it from the next one. Fit to its values as text."
                )

    def in_words(self) -> str:
        """Return its kind, and how many levels a category has."""
        return "number" if self.levels is None else f"category of {count(len(self.levels), 'level')}"

    @classmethod
    def of(cls, name: str, feature: Feature, weight: FloatArray | None = None) -> Self:
        """Return the column that a fit sees, with the levels that it shows, of many the most frequent ones."""
        if feature.levels is None:
            return cls(name)
        return cls.of_levels(name, feature.levels, level_weights(feature, weight))

    @classmethod
    def of_levels(cls, name: str, levels: npt.NDArray[Any], held: FloatArray) -> Self:
        """Return a category of sorted levels, of many those of the most weight."""
        most = np.sort(np.argsort(-held, kind="stable")[:MOST_KEPT])
        return cls(name, levels[most[held[most] > 0.0]])

    def encode(self, feature: Feature) -> FloatArray:
        """Return numbers as they are, and categories as codes of the levels; NaN for missing and unknown ones."""
        if self.levels is None or feature.levels is None:
            return feature.values
        codes = np.array([*match_levels(feature.levels.tolist(), self.levels.tolist()), np.nan])
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


def level_weights(feature: Feature, weight: FloatArray | None) -> FloatArray:
    """Return the sum of the weights of the rows of each level of a category."""
    assert feature.levels is not None  # noqa: S101 - for the type checker
    is_given = ~np.isnan(feature.values)
    codes = feature.values[is_given].astype(np.int64)
    held = np.bincount(codes, None if weight is None else weight[is_given], len(feature.levels))
    return held.astype(np.float64)


def encode_columns(columns: Sequence[FeatureColumn], features: Features | None, n: int) -> FloatArray:
    """Return the features of `n` rows as a matrix of shape (n, d); columns that are not there are missing."""
    out = np.full((n, len(columns)), np.nan)
    for j, column in enumerate(columns):
        if features is not None and column.name in features:
            out[:, j] = column.encode(features[column.name])
    return out
