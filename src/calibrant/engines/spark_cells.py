"""Rows of a Spark data frame in cells of neighbouring scores, by Spark's own aggregation: no row comes to Python.

The cells are those of `calibrant.quantised`, whose bits Spark can't read: a positive number is m 2^e with m in [1, 2),
and its cell within octave e is the floor of (m - 1) 2^n_bits. Where the logarithm is rounded to the wrong side of an
octave, that floor is -1, or 2^n_bits, and the cell is right all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import kernels
from calibrant.engines.folding import FIRST_ROWS, has_too_many_scores
from calibrant.quantised import MOST_BITS, CellTable, n_cells
from calibrant.tables import SparkSource, column_of

if TYPE_CHECKING:
    from calibrant.engines.rows import RowReader

_WHOLE = ("byte", "short", "integer", "long")
#: Keys of rows that are left to the reader, which says what is wrong with them or takes them, and of weight zero.
_LEFT, _WEIGHTLESS = -1, -2


def has_more_scores(reader: RowReader, most: int) -> bool:
    """Say whether the rows are those of Spark and the first of them show that scores are surely more than `most`."""
    source = reader.source
    if not isinstance(source, SparkSource) or source.n_rows <= most or _label(reader, source) is None:
        return False
    import pyarrow.compute as compute

    first = source.frame.select(column_of(reader.score[0])).limit(FIRST_ROWS).toArrow().column(0)
    return has_too_many_scores(len(first), compute.count_distinct(first).as_py(), source.n_rows, most)


def cell_table(reader: RowReader, *, is_probability: bool) -> CellTable | None:
    """Return the rows of one score in cells; None where a row or a column is not of an ordinary kind.

    Rows that are not are for the reader: it refuses them, and says why, or knows what to do.
    """
    source = reader.source
    if not isinstance(source, SparkSource) or (labels := _label(reader, source)) is None:
        return None
    from pyspark.sql import functions as sf

    is_known, is_positive = labels
    score = column_of(reader.score[0]).cast("double")
    is_usual = ~source.is_missing(reader.score[0]) & is_known
    one, infinity = sf.lit(1.0), sf.lit(float("inf"))
    octaves = _PROBABILITIES if is_probability else _SCORES
    distance = sf.least(score, one - score) if is_probability else sf.abs(score)
    if is_probability:
        is_usual &= score.between(sf.lit(0.0), one) & ((distance == 0.0) | (distance >= octaves.least))
    else:
        is_usual &= distance < infinity
    weight, kind = one, sf.when(~is_usual, _LEFT)
    if reader.weight is not None:
        weight = column_of(reader.weight).cast("double")
        is_fine = ~source.is_missing(reader.weight) & (weight >= 0.0) & (weight < infinity)
        kind = sf.when(~(is_usual & is_fine), _LEFT).when(weight == 0.0, _WEIGHTLESS)
    columns = {"score": score, "distance": distance, "kind": kind.otherwise(0), "is_positive": is_positive}
    columns |= {} if reader.weight is None else {"weight": weight}
    rows = source.frame.select(*(column.alias(name) for name, column in columns.items()))
    # a column for each step, so that none is computed twice
    rows = rows.withColumn("size", octaves.clamped(sf.col("distance")))
    rows = rows.withColumn("place", octaves.place(sf.col("size")))
    last = n_cells(MOST_BITS, is_probability=is_probability) - 1
    cell = (_probability_cell if is_probability else _score_cell)(last)
    by_cell = rows.groupBy(sf.when(sf.col("kind") < 0, sf.col("kind")).otherwise(cell).alias("cell"))
    found = by_cell.agg(*_sums(is_weighted=reader.weight is not None), sf.min("score"), sf.max("score")).toArrow()
    at, *sums = (found.column(j).to_numpy() for j in range(7))
    if (at == _LEFT).any():
        return None
    kept = at >= 0
    return CellTable.of(at[kept], np.column_stack(sums)[kept], MOST_BITS, is_probability)


def _sums(*, is_weighted: bool) -> list[Any]:
    """Return the sums of a cell: weight, squared weight, positive weight and weighted score."""
    from pyspark.sql import functions as sf

    if not is_weighted:
        number = sf.count("kind")
        return [number, number, sf.sum(sf.col("is_positive").cast("int")), sf.sum("score")]
    weight, positive = sf.col("weight"), sf.when(sf.col("is_positive"), sf.col("weight")).otherwise(0.0)
    return [sf.sum(weight), sf.sum(weight * weight), sf.sum(positive), sf.sum(weight * sf.col("score"))]


class _Octaves(NamedTuple):
    """The exponents of two between which numbers are told apart; in `usual` ones most numbers lie."""

    lowest: int
    highest: int
    usual: range

    @property
    def least(self) -> float:
        """The least number that is told apart from less."""
        return 2.0**self.lowest

    def clamped(self, number: Any) -> Any:
        """Return the nearest number in these octaves, of whatever is no number the highest."""
        from pyspark.sql import functions as sf

        return sf.greatest(sf.least(number, sf.lit(2.0**self.highest)), sf.lit(self.least))

    def place(self, number: Any) -> Any:
        """Return 2^n_bits e + floor((m - 1) 2^n_bits) of a number m 2^e.

        A comparison finds e of the usual numbers, which takes less than the logarithm that finds it of others.
        """
        from pyspark.sql import functions as sf

        n_cells = 1 << MOST_BITS
        exponent = sf.floor(sf.log2(number)).cast("int")
        powers = sf.array(*(sf.lit(2.0**-e) for e in range(self.lowest - 1, self.highest + 2)))
        scaled = number * sf.get(powers, exponent - (self.lowest - 1))
        unusual = exponent * n_cells + sf.floor((scaled - 1.0) * float(n_cells)).cast("int")
        found = sf.when(number >= 2.0 ** (self.usual[0] + 1), unusual)
        for e in self.usual:
            found = found.when(number >= 2.0**e, (number * (n_cells * 2.0**-e)).cast("int") + (e - 1) * n_cells)
        return found.otherwise(unusual)


_PROBABILITIES = _Octaves(-kernels.PROBABILITY_OCTAVES, -1, range(-1, -9, -1))
_SCORES = _Octaves(kernels.LOWEST_EXPONENT - 1, kernels.LOWEST_EXPONENT + kernels.SCORE_OCTAVES + 1, range(3, -6, -1))


def _label(reader: RowReader, source: SparkSource) -> tuple[Any, Any] | None:
    """Return the conditions that a label is known, and positive; None where columns are not of the usual kinds."""
    from pyspark.sql import functions as sf

    kinds = {name: source.frame.schema[name].dataType.typeName() for name in reader.required}
    numbers = [*reader.score, *([] if reader.weight is None else [reader.weight])]
    if any(kinds[name] not in ("double", "float", *_WHOLE) for name in numbers):
        return None
    usual = {"i": _WHOLE, "u": _WHOLE, "b": ("boolean",), "O": ("string",)}
    if kinds[reader.label] not in usual.get(reader.classes.dtype.kind, ()):
        return None
    label = column_of(reader.label)
    negative, positive = (label == sf.lit(value) for value in reader.classes.tolist())
    return label.isNotNull() & (negative | positive), positive


def _probability_cell(last: int) -> Any:
    """Return the cell of a probability, of the columns that lead there."""
    from pyspark.sql import functions as sf

    before = 1 + (kernels.DEEP_OCTAVES << (MOST_BITS - kernels.COARSER)) + (kernels.PROBABILITY_OCTAVES << MOST_BITS)
    key = sf.when(sf.col("distance") > 0.0, sf.col("place") + before).otherwise(0)
    return sf.when(sf.col("score") > 0.5, last - key).otherwise(key)


def _score_cell(last: int) -> Any:
    """Return the cell of any finite score, of the columns that lead there."""
    from pyspark.sql import functions as sf

    half = (last + 1) // 2
    fine = sf.col("place") + (1 - (kernels.LOWEST_EXPONENT << MOST_BITS))
    key = sf.when(sf.col("distance") > 0.0, sf.greatest(sf.least(fine, sf.lit(half - 1)), sf.lit(1))).otherwise(0)
    return sf.when(sf.col("score") < 0.0, half - key).otherwise(half + key)
