"""What users pass by accident or on purpose: the same numbers in other clothes, extreme numbers, and no numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

ROW = 5
#: The place that a refusal names where one value is to blame.
AT_ROW = rf"row {ROW}\b"


@dataclass(frozen=True)
class Same:
    """An input that must give what `plain` of it, an ordinary array, gives."""

    make: Callable[[Any], Any]
    plain: Callable[[Any], Any] = np.asarray


@dataclass(frozen=True)
class Refused:
    """An input that must be refused, by a text that names the argument and `place`."""

    make: Callable[[Any], Any]
    place: str = ""


@dataclass(frozen=True)
class Extreme:
    """An input that is legal: a finite answer in range, or a refusal that names what is at fault."""

    make: Callable[[Any], Any]


Case = Same | Refused | Extreme


class Subclass(np.ndarray):
    """A subclass that adds nothing."""


class HasArray:
    """An object that NumPy can turn into an array."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._values, dtype=dtype)


def always(value: object) -> Callable[[Any], Any]:
    """Pass the same thing whatever the rows are."""
    return lambda _: value


def with_value(value: object) -> Callable[[Any], Any]:
    """Put one value in row 5, in the second column of a matrix."""

    def change(a: Any) -> Any:
        changed = a.astype(np.float64 if isinstance(value, float) else object)
        changed[(ROW, 1) if a.ndim == 2 else ROW] = value
        return changed

    return change


def read_only(a: Any) -> Any:
    a = a.copy()
    a.flags.writeable = False
    return a


def unaligned(a: Any) -> Any:
    raw = np.zeros(a.nbytes + 1, dtype=np.uint8)
    raw[1:] = np.frombuffer(a.tobytes(), dtype=np.uint8)
    moved = np.frombuffer(raw.data, dtype=a.dtype, count=a.size, offset=1).reshape(a.shape)
    assert not moved.flags.aligned
    return moved


def one_hot(a: Any) -> Any:
    """Return zeros and ones, rows of a matrix summing to one."""
    return (a > np.median(a)) if a.ndim == 1 else np.eye(a.shape[1], dtype=bool)[a.argmax(axis=1)]


def zeros_and_ones(a: Any) -> Any:
    return one_hot(a).astype(np.float64)


def pandas(a: Any) -> Any:
    import pandas as pd

    return pd.Series(a) if a.ndim == 1 else pd.DataFrame(a)


def polars(a: Any) -> Any:
    import polars as pl

    return pl.Series(a) if a.ndim == 1 else pl.DataFrame({f"c{j}": column for j, column in enumerate(a.T)})


def masked(a: Any) -> Any:
    mask = np.zeros(a.shape, dtype=bool)
    mask[ROW] = True
    return np.ma.array(a, mask=mask)


def elements(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Turn each number into an object."""

    def change(a: Any) -> Any:
        out = np.empty(a.shape, dtype=object)
        for place in np.ndindex(a.shape):
            out[place] = kind(a[place].item())
        return out

    return change


#: Layouts of any array, whatever its numbers.
LAYOUTS: dict[str, Case] = {
    "list": Same(lambda a: a.tolist()),
    "tuple": Same(lambda a: tuple(a.tolist())),
    "read-only": Same(read_only),
    "strided": Same(lambda a: np.repeat(a, 2, axis=0)[::2]),
    "reversed view": Same(lambda a: a[::-1].copy()[::-1]),
    "slice of columns": Same(lambda a: np.stack((a, a), axis=-1)[..., 0]),
    "Fortran order": Same(np.asfortranarray),
    "unaligned": Same(unaligned),
    "big-endian": Same(lambda a: a.astype(a.dtype.newbyteorder(">"))),
    "objects": Same(lambda a: a.astype(object)),
    "NumPy scalars": Same(elements(np.float64)),
    "subclass": Same(lambda a: a.view(Subclass)),
    "nothing masked": Same(lambda a: np.ma.array(a)),
    "array protocol": Same(HasArray),
    "pandas": Same(pandas),
    "polars": Same(polars),
}

#: Numbers in other types.
NUMBERS: dict[str, Case] = {
    "float32": Same(lambda a: a.astype(np.float32)),
    "float16": Same(lambda a: a.astype(np.float16)),
    "long double": Same(lambda a: a.astype(np.longdouble)),
    "big-endian float32": Same(lambda a: a.astype(">f4")),
    "decimals": Same(elements(Decimal)),
    "fractions": Same(elements(Fraction)),
    "booleans": Same(one_hot, zeros_and_ones),
    "integers": Same(lambda a: one_hot(a).astype(np.int8), zeros_and_ones),
    "big-endian integers": Same(lambda a: one_hot(a).astype(">i8"), zeros_and_ones),
    "mixed objects": Same(lambda a: elements(lambda v: int(v) if v in (0.0, 1.0) else v)(a)),
}

#: What no argument of numbers or labels can be.
NO_ROWS: dict[str, Case] = {
    "None": Refused(always(None)),
    "number": Refused(always(0.5)),
    "0-d": Refused(always(np.array(0.5))),
    "empty list": Refused(always([])),
    "empty array": Refused(lambda a: a[:0]),
    "3-d": Refused(lambda a: np.zeros((a.shape[0], 2, 2))),
    "one column": Refused(lambda a: a.reshape(a.shape[0], -1)[:, :1]),
    "one row short": Refused(lambda a: a[:-1], "rows"),
    "ragged": Refused(lambda a: [[0.5, 0.5], [1.0]] * (a.shape[0] // 2)),
    "text": Refused(always("0.5")),
    "bytes": Refused(always(b"0.5")),
    "set": Refused(always({0.25, 0.5})),
    "dict": Refused(lambda a: {"p": a}),
    "generator": Refused(lambda a: (v for v in a)),
    "function": Refused(always(len)),
    "complex": Refused(lambda a: a.astype(complex)),
    "datetimes": Refused(lambda a: (100 * a).astype("datetime64[s]")),
    "time differences": Refused(lambda a: (100 * a).astype("timedelta64[s]")),
    "records": Refused(lambda a: np.zeros(a.shape[0], dtype=[("a", float), ("b", float)])),
    "masked": Refused(masked, AT_ROW),
    "NaN": Refused(with_value(float("nan")), AT_ROW),
    "infinity": Refused(with_value(float("inf")), AT_ROW),
    "minus infinity": Refused(with_value(float("-inf")), AT_ROW),
    "None in a row": Refused(with_value(None), AT_ROW),
    "object NaN": Refused(lambda a: with_value(float("nan"))(a).astype(object), AT_ROW),
    "decimal NaN": Refused(with_value(Decimal("NaN")), AT_ROW),
    "decimal signalling NaN": Refused(with_value(Decimal("sNaN")), AT_ROW),
    "decimal infinity": Refused(with_value(Decimal("Infinity")), AT_ROW),
    "integer of 1,300 bits": Refused(with_value(10**400), rf"{AT_ROW}|64 bits"),
    "complex object": Refused(with_value(1j), AT_ROW),
    "complex NumPy object": Refused(with_value(np.complex64(1j)), AT_ROW),
    "datetime object": Refused(with_value(np.datetime64("2020-01-01")), AT_ROW),
    "list in a row": Refused(with_value([0.5]), AT_ROW),
}

#: What probabilities, scores and weights can't be, though labels can.
NOT_NUMBERS: dict[str, Case] = {
    "strings": Refused(lambda a: a.astype(str)),
    "string in a row": Refused(with_value("0.5"), AT_ROW),
    "bytes in a row": Refused(with_value(b"0.5"), AT_ROW),
}


def set_rows(*values: float) -> Callable[[Any], Any]:
    """Put values in the first rows; in a matrix, the rest of the row goes to the last column."""

    def change(a: Any) -> Any:
        changed = a.astype(np.float64)
        for row, value in enumerate(values):
            if a.ndim == 1:
                changed[row] = value
            else:
                changed[row] = 0.0
                changed[row, 0], changed[row, -1] = value, 1.0 - value
        return changed

    return change


PROBABILITY_VALUES: dict[str, Case] = {
    "0 and 1": Extreme(set_rows(0.0, 1.0)),
    "negative zero": Same(set_rows(-0.0), set_rows(0.0)),
    "subnormal": Extreme(set_rows(5e-324, 2.0**-1030)),
    "just below 1": Extreme(set_rows(1.0 - 2.0**-53, 2.0**-53)),
    "all 0 or 1": Extreme(lambda a: one_hot(a).astype(np.float64)),
    "all 0": Extreme(lambda a: set_rows(*np.zeros(len(a)))(a)),
    "all 1": Extreme(lambda a: set_rows(*np.ones(len(a)))(a)),
    "all subnormal": Extreme(lambda a: set_rows(*np.full(len(a), 5e-324))(a)),
    "constant": Extreme(lambda a: set_rows(*np.full(len(a), 0.25))(a)),
    "above 1": Refused(with_value(1.5), AT_ROW),
    "below 0": Refused(with_value(-0.25), AT_ROW),
    "percentages": Refused(lambda a: 100.0 * a, r"row \d"),
    "one unit above 1": Refused(with_value(1.0 + 2.0**-52), AT_ROW),
}

SCORE_VALUES: dict[str, Case] = {
    "negative zero": Same(set_rows(-0.0), set_rows(0.0)),
    "subnormal": Extreme(set_rows(5e-324, -5e-324)),
    "largest": Extreme(set_rows(np.finfo(float).max, -np.finfo(float).max)),
    "all largest": Extreme(lambda a: np.where(a > np.median(a), 1.0, -1.0) * np.finfo(float).max),
    "all subnormal": Extreme(lambda a: np.where(a > np.median(a), 5e-324, 0.0)),
    "many orders of magnitude": Extreme(
        lambda a: np.sign(a) * 10.0 ** np.linspace(-300.0, 300.0, a.size).reshape(a.shape)
    ),
    "constant": Extreme(lambda a: np.full(a.shape, 0.25)),
    "all 0": Extreme(lambda a: np.zeros(a.shape)),
    "apart by one unit": Extreme(lambda a: 1.0 + 2.0**-52 * (a > np.median(a))),
}

LABELS: dict[str, Case] = {
    "int8": Same(lambda y: y.astype(np.int8)),
    "uint64": Same(lambda y: y.astype(np.uint64)),
    "booleans": Same(lambda y: y.astype(bool) if y.max() == 1 else y),
    "floats": Same(lambda y: y.astype(np.float64)),
    "float16": Same(lambda y: y.astype(np.float16)),
    "long double": Same(lambda y: y.astype(np.longdouble)),
    "strings": Same(lambda y: np.array(["ant", "bee", "cow"])[y]),
    "string objects": Same(lambda y: np.array(["ant", "bee", "cow"], dtype=object)[y]),
    "fractions": Same(elements(Fraction)),
    "decimals": Same(elements(Decimal)),
    "NumPy integers": Same(elements(np.int32)),
    "half": Refused(with_value(0.5), AT_ROW),
    "decimal half": Refused(with_value(Decimal("0.5")), AT_ROW),
    "string among integers": Refused(with_value("1"), AT_ROW),
    "bytes": Refused(lambda y: np.array([b"a", b"b", b"c"])[y]),
    "more classes than columns": Refused(lambda y: np.arange(y.size), "classes"),
}

WEIGHTS: dict[str, Case] = {
    "None": Same(always(None), lambda w: np.ones(w.size)),
    "zeros": Extreme(set_rows(0.0, 0.0, 0.0)),
    "all but two zero": Extreme(lambda w: np.where(np.arange(w.size) < w.size - 2, 0.0, w)),
    "all subnormal": Extreme(lambda w: np.full(w.size, 5e-324)),
    "all tiny": Extreme(lambda w: np.full(w.size, 1e-200)),
    "all huge": Extreme(lambda w: np.full(w.size, 1e200)),
    "all largest": Extreme(lambda w: np.full(w.size, np.finfo(float).max)),
    "many orders of magnitude": Extreme(lambda w: 10.0 ** np.linspace(-300.0, 300.0, w.size)),
    "as far apart as may be": Extreme(lambda w: 10.0 ** np.linspace(-100.0, 100.0, w.size).round(6)),
    "least": Extreme(lambda w: np.full(w.size, 1e-100)),
    "greatest": Extreme(lambda w: np.full(w.size, 1e100)),
    "negative": Refused(with_value(-1.0), AT_ROW),
    "all zero": Refused(lambda w: np.zeros(w.size)),
    "two columns": Refused(lambda w: np.column_stack((w, w))),
}


def without(cases: dict[str, Case], *names: str) -> dict[str, Case]:
    return {name: case for name, case in cases.items() if name not in names}


ARGUMENT_CASES: dict[str, dict[str, Case]] = {
    "probability": {**LAYOUTS, **NUMBERS, **NO_ROWS, **NOT_NUMBERS, **PROBABILITY_VALUES},
    "score": {**LAYOUTS, **NUMBERS, **NO_ROWS, **NOT_NUMBERS, **SCORE_VALUES},
    "label": {**without(LAYOUTS, "NumPy scalars"), **without(NO_ROWS, "one column"), **LABELS},
    "weight": {**LAYOUTS, **NUMBERS, **without(NO_ROWS, "None", "one column"), **NOT_NUMBERS, **WEIGHTS},
}


def is_place(place: str, text: str) -> bool:
    return re.search(place, text) is not None
