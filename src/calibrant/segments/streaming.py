"""Rows of features that are read in parts, held as compact arrays: one byte for each value of a feature.

One pass finds the levels of categories and the edges of bins, those of `Binning.of`; a second one the codes of all
values, with scores, labels, weights and what rows share as they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.segments.binning import Binning, EdgeSample
from calibrant.segments.columns import FeatureColumn, encode_columns, level_weights
from calibrant.segments.encoded import EncodedRows
from calibrant.validation import Feature, match_levels


def encode_stream(stream: RowStream) -> EncodedRows:
    """Read rows with features in two passes, and return them with their features as codes."""
    seen: dict[str, _Seen] = {}
    n_rows = 0
    for rows in stream:
        n_rows += rows.n_rows
        for name, feature in (rows.features or {}).items():
            seen.setdefault(name, _Seen(name)).add(feature, rows.weight)
    columns = tuple(each.column() for each in seen.values())
    binning = Binning.of_samples([each.edges() for each in seen.values()])
    codes: npt.NDArray[np.uint8] = np.empty((n_rows, len(columns)), np.uint8, order="F")
    parts: list[Rows] = []
    stop = 0
    for rows in stream:
        start, stop = stop, stop + rows.n_rows
        if stop <= n_rows:
            codes[start:stop] = binning.codes(encode_columns(columns, rows.features, rows.n_rows))
        parts.append(replace(rows, features=None))
    if stop != n_rows:
        raise InvalidInputError(
            f"the rows of {stream.labels} changed while they were read: {n_rows:,} at first, {stop:,} then. Fit to a "
            "copy that stays as it is."
        )
    return EncodedRows(stream.gathered(parts), columns, binning, codes)


class _Seen:
    """What the parts show of one feature."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sample = EdgeSample()
        self._held: dict[type, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
        self._kinds: set[str] = set()
        self._may_be_number = True

    def add(self, feature: Feature, weight: FloatArray | None) -> None:
        """Take the values of the next rows."""
        if not np.isnan(feature.values).all():
            self._kinds.add(feature.kind)
        if len(self._kinds) > 1:
            raise InvalidInputError(
                f"column {self._name!r} holds numbers in some parts of the rows and text in others. Name it in "
                "categorical, or write one kind throughout."
            )
        if feature.levels is None:
            self._sample.add(feature.values)
            return
        self._may_be_number = False
        self._sample.add(np.full(feature.values.size, np.nan))  # which keeps the places of rows
        for level, held in zip(feature.levels.tolist(), level_weights(feature, weight).tolist(), strict=True):
            self._held[type(level)][level] += held

    @property
    def _is_number(self) -> bool:
        return "number" in self._kinds or (not self._kinds and self._may_be_number)

    def edges(self) -> EdgeSample | None:
        """Return the values that edges are found from; None for a category."""
        return self._sample if self._is_number else None

    def column(self) -> FeatureColumn:
        """Return the column, with the levels of a category: as text, where parts differ in types."""
        if self._is_number:
            return FeatureColumn(self._name)
        held = _one_type(self._held)
        levels = sorted(held)
        array = np.array(levels, dtype=object if not levels or isinstance(levels[0], str) else None)
        return FeatureColumn.of_levels(self._name, array, np.array([held[level] for level in levels], dtype=np.float64))


def _one_type(held: dict[type, dict[Any, float]]) -> dict[Any, float]:
    """Return the weights of levels of one type: of several types those of text, with the others where they match."""
    if len(held) <= 1:
        return dict(next(iter(held.values()), {}))
    out = dict(held.pop(str, {}))
    for of_type in held.values():
        given, known = list(of_type), list(out)
        for level, place in zip(given, match_levels(given, known), strict=True):
            text = str(level) if np.isnan(place) else known[int(place)]
            out[text] = out.get(text, 0.0) + of_type[level]
    return out
