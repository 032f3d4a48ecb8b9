"""A column that is watched for drift: its values, their cells, ranks among earlier rows, and bets on the ranks.

Each new row is ranked among half of the reference rows and all new rows before it. If all are draws from one
distribution, its rank is uniform whatever came before, and nobody can win by betting that it isn't; if new rows differ,
their ranks pile up somewhere, and a bettor who learns where wins. `calibrant.monitor.streams` keeps the money, in a
single stream: a rank is known as soon as it is bet on.

The constants below decide how soon a drift is found. They don't decide how many alarms are false: whatever they are,
the money is a martingale while rows don't drift. How they were first set was not written down. They were checked
afterwards, and left as they were, on shifts and seeds that no test has: 40 streams each of 2,000 reference rows and
windows of 100, alpha 0.01, of gamma scores that became wider by 25% or 10%, narrower by a quarter, or of which a tenth
moved to one value or into the tail, and of 60 labels with frequencies like 1 / k of which some became more frequent.
The comments give the median number of windows until the alarm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.metrics import STAKES
from calibrant.monitor.bets import MEMORIES
from calibrant.monitor.streams import Streams
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import listed
from calibrant.validation import ArrayLike, is_missing

Kind: TypeAlias = Literal["number", "label"]
#: The values of a column: numbers, of which NaN is missing, or texts, of which None is.
Values: TypeAlias = FloatArray | list[str | None]

#: Cells into which the numbers of a column are put. A tenth of rows in one place was found after 17 or 18 windows with
#: 8 cells, 6 or 7 with 16, and 5 or 6 with 32; the other shifts were found as soon with each, within a window.
_MOST_CELLS = 16
#: Labels that get a cell of their own. Rare labels four times as frequent as before were found after 24 windows with 8
#: cells, 9 with 16, 7 with 32 and 4 with 64; memory and time grow with their number.
_MOST_LABELS = 32
#: Parts of [0, 1] in which ranks are counted. With 8 and 32 a tenth of rows in one place was found one to three windows
#: later than with 16; the other shifts within a window.
_RANK_BINS = 16
#: Ranks that each part counts before any came, so that no bet is lost for good. 0.5 and 4 made no difference.
_PRIOR_ROWS = 1.0
#: Rows without a trend that the line through past ranks begins with. 6 made no difference; 96 cost half a window.
_PRIOR_TILT = 24.0
#: Rows that are bet on by what was known before them. 16 and 256 found shifts within a window of 64, but for a tenth of
#: rows at one value, where 16 took two windows more.
_STEP_ROWS = 64
#: Steps of a window, which bounds the time of a large one. By choice; nothing was measured.
_MOST_STEPS = 512
#: What a state holds of a column.
_MEMBERS = ("name", "kind", "edges", "labels", "reference", "pool", "ranks", "sums", "streams", "n_steps")


@dataclass(slots=True)
class WatchedColumn:
    """What is known of one column: its cells, the rows in each, where ranks fell, and the money of the bettors.

    `edges` are the inner ends of the cells of numbers, `labels` the labels that have a cell; one of the two is empty.
    The cell before the last is that of the largest numbers, or of labels without one, and the last that of missing
    values. `reference` counts the reference rows by cell, and `pool` these and all new ones. For each memory of the
    past, `ranks` counts ranks u by part of [0, 1], and `sums` holds their number and the sum of 2 u - 1.
    """

    name: str
    kind: Kind
    edges: FloatArray
    labels: list[str]
    reference: FloatArray
    pool: FloatArray
    ranks: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), _RANK_BINS)))
    sums: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), 2)))
    streams: Streams = field(default_factory=Streams)
    n_steps: int = 0

    @classmethod
    def of(cls, name: str, values: Values, generator: np.random.Generator) -> WatchedColumn:
        """Make cells of a random half of the reference rows, and count the other half in them."""
        order = generator.permutation(len(values))
        half, others = _taken(values, order[: order.size // 2]), _taken(values, order[order.size // 2 :])
        edges, labels = np.empty(0), list[str]()
        if isinstance(half, np.ndarray):
            known = half[~np.isnan(half)]
            shares = np.linspace(0.0, 1.0, _MOST_CELLS + 1)[1:-1]
            edges = np.unique(np.quantile(known, shares, method="inverted_cdf")) if known.size else edges
        else:
            seen = Counter(label for label in half if label is not None)
            labels = sorted(sorted(seen, key=lambda each: (-seen[each], each))[:_MOST_LABELS])
        column = cls(name, _kind(values), edges, labels, np.empty(0), np.empty(0))
        column.reference = np.bincount(column.cells(others), minlength=column.n_cells).astype(np.float64)
        column.pool = column.reference.copy()
        return column

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return self.edges.size + len(self.labels) + 2

    @property
    def n_new(self) -> float:
        """Number of rows that came after the reference."""
        return float(self.pool.sum() - self.reference.sum())

    def cells(self, values: Values) -> IntArray:
        """Return the cell of each value; raises InvalidTypeError if these are of another kind than the reference."""
        if _kind(values) != self.kind:
            if any(value is not None for value in values):
                raise InvalidTypeError(
                    f"column {self.name!r} holds {_kind(values)}s, and the reference {self.kind}s. Pass the same kind."
                )
            return np.full(len(values), self.n_cells - 1, dtype=np.int64)  # a column of nothing has no kind
        if isinstance(values, np.ndarray):
            found = np.searchsorted(self.edges, values, side="right")
            found[np.isnan(values)] = self.n_cells - 1
            return found.astype(np.int64)
        place: dict[str | None, int] = {label: i for i, label in enumerate(self.labels)}
        place[None] = self.n_cells - 1
        return np.array([place.get(value, self.n_cells - 2) for value in values], dtype=np.int64)

    def add(self, cells: IntArray, generator: np.random.Generator) -> None:
        """Bet on new rows, step by step, and learn from each step."""
        size = max(_STEP_ROWS, math.ceil(cells.size / _MOST_STEPS))
        for start in range(0, cells.size, size):
            self._step(self.ranks_of(cells[start : start + size], generator))

    def ranks_of(self, cells: IntArray, generator: np.random.Generator) -> FloatArray:
        """Return the rank of each row among those before it and itself, ties broken at random, and count the rows."""
        one = np.zeros((cells.size, self.n_cells))
        one[np.arange(cells.size), cells] = 1.0
        before = self.pool + np.cumsum(one, axis=0) - one
        below = np.cumsum(before, axis=1) - before
        at = np.arange(cells.size)
        rank = below[at, cells] + generator.random(cells.size) * (before[at, cells] + 1.0)
        self.pool = self.pool + one.sum(axis=0)
        found: FloatArray = rank / (before.sum(axis=1) + 1.0)
        return found

    def _step(self, u: FloatArray) -> None:
        """Let each bettor bet on the ranks of a step by those of earlier steps, and then learn from them."""
        t = self.n_steps + 1
        bins = np.minimum((u * _RANK_BINS).astype(np.int64), _RANK_BINS - 1)
        tilt = 2.0 * u - 1.0
        gains = []
        for ranks, (n, total) in zip(self.ranks, self.sums, strict=True):
            share = (ranks + _PRIOR_ROWS) / (ranks.sum() + _PRIOR_ROWS * _RANK_BINS)
            slope = min(max(3.0 * total / (n + _PRIOR_TILT), -1.0), 1.0)  # 2 u - 1 has variance 1 / 3
            for density in (share[bins] * _RANK_BINS, 1.0 + slope * tilt):
                gains += [float(np.log1p(stake * (density - 1.0)).sum()) for stake in STAKES]
        self.streams.bet_at_once(t, np.array([gains]))
        kept = np.array(MEMORIES)[:, None]
        self.ranks = kept * self.ranks + np.bincount(bins, minlength=_RANK_BINS)
        self.sums = kept * self.sums + np.array([u.size, tilt.sum()])
        self.n_steps = t

    def distance(self, cells: IntArray) -> float:
        """Return the share of rows that would have to move to other cells to be spread as the reference rows."""
        new = np.bincount(cells, minlength=self.n_cells) / cells.size
        return 0.5 * float(np.abs(new - self.reference / self.reference.sum()).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        arrays = {name: getattr(self, name).tolist() for name in ("edges", "reference", "pool", "ranks", "sums")}
        known = {"name": self.name, "kind": self.kind, "labels": self.labels, "n_steps": self.n_steps}
        return {**known, **arrays, "streams": self.streams.to_dict()}

    @classmethod
    def from_field(cls, body: DocumentField) -> WatchedColumn:
        """Return the column of a state; refuses one whose parts are broken, or don't fit together."""
        of = body.members(_MEMBERS)
        column = cls(
            of["name"].text(),
            of["kind"].choice(("number", "label")),
            of["edges"].rising(minimum=0),
            list(of["labels"].names(minimum=0)),
            of["reference"].numbers(),
            of["pool"].numbers(),
            _by_memory(of["ranks"], _RANK_BINS),
            _by_memory(of["sums"], 2),
            Streams.from_field(of["streams"]),
            of["n_steps"].integer(minimum=0),
        )
        if column.labels if column.kind == "number" else column.edges.size:
            of["labels"].refuse("does not go with the kind of the column")
        for name, counts in (("reference", column.reference), ("pool", column.pool)):
            if counts.size != column.n_cells or (counts < 0.0).any() or counts.sum() <= 0.0:
                of[name].refuse(f"is not the number of rows in each of {column.n_cells:,} cells")
        if (column.pool < column.reference).any():
            of["pool"].refuse("holds fewer rows than the reference")
        if (column.ranks < 0.0).any():
            of["ranks"].refuse("holds a negative number of ranks")
        if (np.abs(column.sums[:, 1]) > column.sums[:, 0]).any():
            of["sums"].refuse("holds a sum of 2 u - 1 that so many ranks can't have")
        if column.streams.n_released != column.n_steps:
            of["n_steps"].refuse("does not go with the money that was bet")
        return column


def read_columns(columns: Any, name: str, *, wanted: Sequence[str] | None = None) -> dict[str, Values]:
    """Return the values of the columns of a mapping, or of a frame of any kind, by name; all, or those `wanted`.

    `name` is what the caller calls the columns, for the message.
    """
    given: dict[str, Any] = {}
    for each in _names(columns, name):
        if given.setdefault(str(each), each) is not each:
            raise InvalidInputError(f"{name} has two columns called {str(each)!r}. Rename one.")
    if wanted is None:
        wanted = list(given)
    for each in wanted:
        if each not in given:
            raise unknown_name("column of the reference that is not in the rows:", each, list(given))
    if not wanted:
        raise InvalidInputError(f"{name} has no columns. Pass at least one.")
    found = {each: _values(columns[given[each]], f"column {each!r} of {name}") for each in wanted}
    sizes = {len(values) for values in found.values()}
    if sizes == {0} or len(sizes) > 1:
        raise ShapeError(f"{name} has columns of {listed(sorted(sizes))} rows. Pass one value of each per row.")
    return found


def _names(columns: Any, name: str) -> list[Any]:
    """Return the names of the columns of a mapping or of a frame of any kind, or refuse what has none in memory."""
    if isinstance(columns, Mapping):
        return list(columns)
    is_elsewhere = hasattr(columns, "collect") or hasattr(columns, "fetchall")  # lazy, or a query
    for attribute in () if is_elsewhere else ("column_names", "columns"):
        if hasattr(columns, attribute):
            return list(getattr(columns, attribute))
    raise InvalidTypeError(
        f"{name} is a {type(columns).__name__}, which holds no columns with names. Pass a mapping, such as "
        "{'score': scores}, or a frame in memory."
    )


def _values(column: ArrayLike, name: str) -> Values:
    """Return a column as numbers or texts; `name` is what the caller calls it, for the message."""
    values = np.asarray(column)
    if values.ndim != 1:
        raise ShapeError(f"{name} has shape {values.shape}. Pass one value per row.")
    if values.dtype.kind not in "fiubOUT":
        raise InvalidTypeError(f"{name} is of type {values.dtype}. Pass numbers, texts or booleans.")
    if values.dtype.kind in "bOUT":
        items = [None if is_missing(item) else item for item in values.tolist()]
        known = [item for item in items if item is not None]
        if not known or not all(map(_is_number, known)):
            refused = [item for item in known if not isinstance(item, (str, bool))]
            if refused:
                first = f"{refused[0]!r:.60} of type {type(refused[0]).__name__}"
                raise InvalidTypeError(f"{name} holds {first}. Pass numbers, texts or booleans.")
            return [None if item is None else str(item) for item in items]
        values = np.array([math.nan if item is None else float(item) for item in items])
    numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise InvalidInputError(f"{name} row {int(np.isinf(numbers).argmax())} is infinite. Leave it missing.")
    return numbers


def _is_number(value: object) -> bool:
    is_decimal = isinstance(value, Decimal) and value.is_finite()
    return is_decimal or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _kind(values: Values) -> Kind:
    return "number" if isinstance(values, np.ndarray) else "label"


def _taken(values: Values, at: IntArray) -> Values:
    """Return the values of some rows."""
    return values[at] if isinstance(values, np.ndarray) else [values[i] for i in at.tolist()]


def _by_memory(field: DocumentField, width: int) -> FloatArray:
    """Return the numbers of each memory of the past, as a state has them."""
    rows = [row.numbers() for row in field.items()]
    if [row.size for row in rows] != [width] * len(MEMORIES):
        field.refuse(f"is not {len(MEMORIES)} lists of {width} numbers")
    return np.array(rows)
