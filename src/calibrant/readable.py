"""Results that read well: a table within the terminal's width, a table in a notebook, a data frame.

A result says which columns it has; text, HTML and frames are made of these here, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias

from calibrant.errors import InvalidInputError, MissingPackageError, unknown_name
from calibrant.phrases import bracketed, clean, figure, p_value, percent_level, shorten

Backend: TypeAlias = Literal["pandas", "polars", "pyarrow"]
#: Libraries of data frames, the one that is taken first where none is named at the front.
BACKENDS: tuple[Backend, ...] = ("pandas", "polars", "pyarrow")
#: Rows that are printed, and shown in a notebook; of longer tables the first and the last ones.
_MOST_PRINTED, _MOST_SHOWN = 24, 60
#: Letters of a cell, and of the narrowest table.
_MOST_LETTERS, _LEAST_WIDTH = 40, 24
#: Figures below this are written as powers of ten.
_SMALL = 1e-4
_GAP = "  "
#: How times are written that are all whole days, minutes or seconds; others as they are.
_SECOND: dict[str, Any] = {"microsecond": 0}
_MINUTE: dict[str, Any] = {"second": 0, **_SECOND}
_TIMES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("%Y-%m-%d", {"hour": 0, "minute": 0, **_MINUTE}),
    ("%Y-%m-%d %H:%M", _MINUTE),
    ("%Y-%m-%d %H:%M:%S", _SECOND),
)
#: Columns of counts, which are whole where rows have no weights.
_COUNTS = ("n", "weight", "positives")
_STYLE = (
    ".calibrant-result{font-size:.9em;overflow-x:auto}"
    ".calibrant-result p{margin:.3em 0;max-width:62em}"
    ".calibrant-result table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4em 0}"
    ".calibrant-result td,.calibrant-result th{padding:.15em .7em;text-align:right;border:0;white-space:nowrap}"
    ".calibrant-result th.text,.calibrant-result td.text{text-align:left}"
    ".calibrant-result th.text+td.text{white-space:normal}"
    ".calibrant-result thead th{border-bottom:1px solid currentColor}"
    ".calibrant-result svg{max-width:100%;height:auto;color:inherit}"
)


class Readable:
    """A result that prints as a table, is one in a notebook, and becomes a data frame.

    A dataclass needs nothing more: its arrays of shape (m,) are columns, those of shape (m, 2) two columns each, and
    its other values lines above them. Without arrays it is one row. Others say what their columns are.
    """

    __slots__ = ()
    #: Columns that frames have and printed tables lack.
    _left_to_frames: ClassVar[tuple[str, ...]] = ()
    #: Arrays of shape (m, 2) that hold the ends of intervals.
    _of_ends: ClassVar[tuple[str, ...]] = ()

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return the result as a data frame, with a row for each thing that it holds.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            The library of the frame; by default the first of these that is installed. pyarrow always is.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Columns have plain names, such as `value`, `low` and `high`. Ends of intervals that don't exist are NaN.

        Raises
        ------
        CalibrantError
            If the backend is not known or not installed.
        """
        return frame_of(self._columns(), backend)

    def _columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of frames, all of one length."""
        return columns_of(parts_of(self), self._of_ends)

    def _before(self) -> list[str]:
        """Return what is said above the table."""
        parts = parts_of(self)
        arrays = columns_of(parts, self._of_ends)
        if not any(_is_array(value) for value in parts.values()):
            return []
        facts = [(name, _plain(value)) for name, value in parts.items() if name not in arrays and _is_scalar(value)]
        return [
            ", ".join(
                f"{_heading(name)} {_column(name, [value])[0]}" for name, value in facts if value not in ("", None)
            )
        ]

    def _after(self) -> list[str]:
        """Return what is said below the table."""
        return []

    def _coverage(self) -> float | None:
        """Return the nominal coverage of the intervals in the table; None where it is not one of all."""
        return getattr(self, "level", None)

    def _picture(self) -> str:
        """Return a picture for notebooks, as inline SVG; empty where there is none."""
        return ""

    def __str__(self) -> str:
        shown = _without(self._columns(), self._left_to_frames)
        return as_text(shown, self._before(), self._after(), level=self._coverage())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        shown = _without(self._columns(), self._left_to_frames)
        found = as_html(shown, level=self._coverage())
        return html_block([*self._before(), None, *self._after()], found + self._picture())


def parts_of(result: object) -> dict[str, Any]:
    """Return the fields of a dataclass that it shows, or of a named tuple, by name."""
    fields = getattr(result, "__dataclass_fields__", {})
    names = getattr(result, "_fields", ()) or (name for name, field in fields.items() if field.repr)
    return {name: getattr(result, name) for name in names}


def columns_of(parts: Mapping[str, Any], ends: Sequence[str] = ()) -> dict[str, Sequence[Any]]:
    """Return the arrays among fields as columns, `ends` as two each; without arrays, one row of the plain values."""
    rows = max((len(value) for value in parts.values() if _is_array(value)), default=None)
    if rows is None:
        return {name: [_plain(value)] for name, value in parts.items() if _is_scalar(value)}
    found: dict[str, Sequence[Any]] = {}
    for name, value in parts.items():
        if not _is_array(value) or len(value) != rows:
            continue
        if value.ndim == 1:
            found[name] = value.tolist()
        elif name in ends:
            found |= {f"{name}_low": value[:, 0].tolist(), f"{name}_high": value[:, 1].tolist()}
    return found


def rows_as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Return rows of the same names as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def frame_of(columns: Mapping[str, Sequence[Any]], backend: Backend | None) -> Any:
    """Return columns as a data frame; values that no column can hold together are text."""
    import narwhals as nw

    return nw.from_dict(
        {name: _uniform(values) for name, values in columns.items()}, backend=_usable(backend)
    ).to_native()


def as_text(
    columns: Mapping[str, Sequence[Any]],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    *,
    level: float | None = None,
    width: int | None = None,
) -> str:
    """Return sentences and columns as text within `width`, by default that of the terminal, and 80 without one."""
    from shutil import get_terminal_size

    width = max(width or get_terminal_size((80, 24)).columns, _LEAST_WIDTH)
    cells = _texts(columns, level, _MOST_PRINTED)
    n_rows = max(map(len, columns.values()), default=0)
    table = _facts(cells, width) if n_rows == 1 else _blocks(cells, width)
    more = [f"{n_rows:,} rows; to_frame() has them all"] if n_rows > _MOST_PRINTED else []
    said, noted = ([wrapped(clean(line), width) for line in lines if line] for lines in (before, [*more, *after]))
    return "\n".join([*said, *table, *noted])


def wrapped(text: str, width: int) -> str:
    """Break lines of prose at `width` letters, each by itself; words that are longer are broken."""
    from textwrap import fill

    return "\n".join(fill(line, width, break_on_hyphens=False) for line in text.split("\n"))


def as_html(columns: Mapping[str, Sequence[Any]], *, level: float | None = None) -> str:
    """Return columns as an HTML table; one row stands upright."""
    from html import escape

    cells = _texts(columns, level, _MOST_SHOWN)
    if not cells:
        return ""
    if max(map(len, columns.values())) == 1:
        rows = (
            f'<tr><th class="text">{escape(name)}</th><td class="text">{escape(texts[0])}</td></tr>'
            for name, texts, _ in cells
            if texts[0]
        )
        return f"<table><tbody>{''.join(rows)}</tbody></table>"
    kinds = ['"text"' if is_text else '"figure"' for *_, is_text in cells]
    head = "".join(f"<th class={kind}>{escape(name)}</th>" for kind, (name, *_) in zip(kinds, cells, strict=True))
    lines = zip(*(texts for _, texts, _ in cells), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td class={kind}>{escape(text)}</td>' for kind, text in zip(kinds, line, strict=True))}</tr>"
        for line in lines
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_block(lines: Sequence[str | None], body: str) -> str:
    """Return sentences as paragraphs, and HTML at the place of None, in the style that all results share."""
    from html import escape

    parts = [body if line is None else f"<p>{escape(clean(line))}</p>" for line in lines if line is None or line]
    return f'<div class="calibrant-result"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _usable(backend: Backend | None) -> Backend:
    """Return the library that is asked for, or the first that is installed."""
    from importlib.util import find_spec

    if backend is None:
        return next(name for name in BACKENDS if find_spec(name) is not None)
    if not isinstance(backend, str):
        raise InvalidInputError(f"backend={backend!r} is no name. Pass one of {', '.join(map(repr, BACKENDS))}.")
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    if find_spec(backend) is None:
        raise MissingPackageError(f"backend={backend!r} is not installed. Run pip install {backend}, or pass another.")
    return backend


def _uniform(values: Sequence[Any]) -> list[Any]:
    """Return values of one kind as they are, and others as text, since a column has one kind."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) <= 1 and kinds <= {bool, int, float, str, datetime}:
        return list(values)
    return [None if value is None else str(value) for value in values]


def _without(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    return {name: values for name, values in columns.items() if name not in names}


def _is_array(value: object) -> bool:
    return getattr(value, "ndim", 0) > 0 and hasattr(value, "tolist")


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(_plain(value), (bool, int, float, str))


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _texts(columns: Mapping[str, Sequence[Any]], level: float | None, most: int) -> list[tuple[str, list[str], bool]]:
    """Return heading, cells, and whether these are text, of each column; ends of an interval are one column."""
    kept = {name: _ends_only(values, most) for name, values in columns.items()}
    cut = max(map(len, columns.values()), default=0) > most
    found = []
    for name, values in kept.items():
        stem = name.removesuffix("low")
        if name.endswith("high") and f"{name.removesuffix('high')}low" in kept:
            continue
        if name.endswith("low") and f"{stem}high" in kept:
            texts = [bracketed(*_finite(pair)) for pair in zip(values, kept[f"{stem}high"], strict=True)]
            heading, is_text = _of_interval(stem.rstrip("_"), kept, level), False
        else:
            heading, texts = _heading(name), _column(name, values)
            is_text = all(isinstance(value, str) for value in values if value is not None)
        if len(texts) > 1:
            texts = [shorten(text, _MOST_LETTERS) for text in texts]
        if cut:
            texts = [*texts[: most // 2], "...", *texts[most // 2 :]]
        found.append((heading, texts, is_text))
    return found


def _of_interval(stem: str, columns: Mapping[str, object], level: float | None) -> str:
    """Return the heading of an interval: without the name of the column of values that it stands beside."""
    word = "interval" if level is None else f"{percent_level(level)} interval"
    if not stem or stem in columns:
        return word
    return _heading(stem)


def _ends_only(values: Sequence[Any], most: int) -> Sequence[Any]:
    return values if len(values) <= most else [*values[: most // 2], *values[-(most // 2) :]]


def _finite(pair: tuple[Any, Any]) -> tuple[float, float]:
    low, high = (math.nan if value is None else float(value) for value in pair)
    return low, high


def _heading(name: str) -> str:
    return shorten(clean(name), _MOST_LETTERS).replace("_", " ").strip()


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """Write the values of a column alike: whole numbers without decimals, p-values as such."""
    times = [value for value in values if isinstance(value, datetime)]
    if times:
        needed = next((form for form, unit in _TIMES if all(value == value.replace(**unit) for value in times)), "")
        return [format(value, needed) if isinstance(value, datetime) else _cell(value) for value in values]
    floats = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    write: Callable[[float], str] = _cell
    if name.endswith("p_value"):
        write = p_value
    elif name == "level":
        write = percent_level
    elif floats and all(map(float.is_integer, floats)) and (name in _COUNTS or max(map(abs, floats)) > 1.0):
        write = "{:,.0f}".format
    return [write(value) if isinstance(value, float) and math.isfinite(value) else _cell(value) for value in values]


def _cell(value: Any) -> str:
    """Write one value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return clean(value)
    if 0.0 < abs(value) < _SMALL:
        return f"{value:.1e}"
    return figure(value)


def _facts(cells: Sequence[tuple[str, list[str], bool]], width: int) -> list[str]:
    """Return one row upright: a line for each of its columns."""
    widest = max((len(name) for name, *_ in cells), default=0)
    room = width - widest - len(_GAP)
    if room < _LEAST_WIDTH // 2:
        return [wrapped(f"{name}: {texts[0]}", width) for name, texts, _ in cells]
    return [
        f"{'' if i else name:<{widest}}{_GAP}{line}".rstrip()
        for name, texts, _ in cells
        if texts[0]
        for i, line in enumerate(wrapped(texts[0], room).split("\n"))
    ]


def _blocks(cells: Sequence[tuple[str, list[str], bool]], width: int) -> list[str]:
    """Return aligned columns; those that don't fit follow below, each time beside the first column."""
    aligned = [_aligned(name, texts, width // 2, is_text=is_text) for name, texts, is_text in cells]
    if not aligned:
        return []
    first, rest = aligned[0], aligned[1:]
    blocks, block = [], [first]
    for column in rest:
        if len(block) > 1 and sum(len(each[0]) + len(_GAP) for each in block) + len(column[0]) > width:
            blocks.append(block)
            block = [first]
        block.append(column)
    lines = [[_GAP.join(line).rstrip() for line in zip(*each, strict=True)] for each in [*blocks, block]]
    return [line for i, each in enumerate(lines) for line in ([""] if i else []) + each]


def _aligned(name: str, texts: Sequence[str], most: int, *, is_text: bool) -> list[str]:
    lines = [shorten(text, most) for text in (name, *texts)]
    widest = max(map(len, lines))
    return [line.ljust(widest) if is_text else line.rjust(widest) for line in lines]
