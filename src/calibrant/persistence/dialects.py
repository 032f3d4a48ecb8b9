"""What SQL dialects do differently, as far as sqlglot, which writes the expressions, does not know it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from calibrant.errors import unknown_name

DialectName: TypeAlias = Literal["duckdb", "spark", "postgres", "bigquery", "snowflake", "sqlite"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
#: Powers of two up to here are written as whole numbers of at most 16 digits.
_MOST_HALVINGS = 52


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect of SQL."""

    name: DialectName
    #: Writes a number that the engine reads as that very float64, and never as a decimal.
    double: Callable[[float], str]
    #: Whether arithmetic beyond the range of float64, or below it, is an error.
    is_strict: bool = False
    #: Whether there is a cast of any column that gives NULL where a value can't be cast, and no error.
    has_safe_cast: bool = False
    #: Whether the engine writes a subquery's expressions out at every place that uses them.
    inlines: bool = False
    #: Whether names without quotes are read in upper case.
    folds_upper: bool = False
    #: Whether names in quotes that differ in case alone are one.
    ignores_case: bool = True
    #: Bytes of UTF-8 after which the engine cuts a name off, without an error.
    longest_name: int | None = None
    #: Bytes of a query that the engine takes, where its documentation says so.
    longest_text: int | None = None
    #: Text that the engine replaces by the value of a variable, within quotes too, before it reads a query.
    variable: re.Pattern[str] | None = None

    def seen(self, column: str) -> str:
        """Return the part of a name by which the engine tells it from others."""
        cut = column.encode()[: self.longest_name].decode(errors="ignore")
        return cut.lower() if self.ignores_case else cut

    def name_of(self, column: str) -> str:
        """Return a name as it is written in quotes: one that needs none keeps its meaning."""
        return column.upper() if self.folds_upper and _PLAIN_NAME.match(column) else column


def _with_exponent(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _dyadic(value: float) -> str:
    """Return whole numbers and powers of two: SQLite's own reading of decimals is off by a bit now and then."""
    top, bottom = value.as_integer_ratio()
    if bottom == 1 and abs(top) < 2**53:
        return f"{top}.0"
    doublings = 0
    while abs(top) >= 2**53:  # which is even, as a float64 is
        top, doublings = top // 2, doublings + 1
    halvings = bottom.bit_length() - 1
    return f"({top}.0{_powers('*', doublings)}{_powers('/', halvings)})"


def _powers(operator: str, exponent: int) -> str:
    whole, rest = divmod(exponent, _MOST_HALVINGS)
    parts = [_MOST_HALVINGS] * whole + [rest] * (rest > 0)
    return "".join(f" {operator} {2**part}.0" for part in parts)


_KNOWN = {
    "duckdb": Dialect("duckdb", _with_exponent, has_safe_cast=True),
    "spark": Dialect("spark", lambda value: f"{value!r}D", has_safe_cast=True, variable=re.compile(r"\$\{[^}$ ]+\}")),
    "postgres": Dialect(
        "postgres",
        lambda value: f"FLOAT8 '{value!r}'",
        is_strict=True,
        inlines=True,
        ignores_case=False,
        longest_name=63,
    ),
    "bigquery": Dialect("bigquery", repr, is_strict=True, has_safe_cast=True, longest_text=2**20),
    "snowflake": Dialect(
        "snowflake",
        lambda value: f"'{value!r}'::DOUBLE",
        is_strict=True,
        folds_upper=True,
        ignores_case=False,
        longest_text=2**20,
    ),
    "sqlite": Dialect("sqlite", _dyadic, inlines=True),
}


def dialect_of(name: DialectName) -> Dialect:
    """Return the dialect of that name, or say which there are."""
    if name not in _KNOWN:
        raise unknown_name("dialect", name, DIALECTS)
    return _KNOWN[name]
