"""What each action loses with each class: one table for all rows, or losses of each row by itself.

The rest of the folder takes losses as `of` returns them, shape (A, K), or (n, A, K) where rows differ. What is built on
expected losses alone, shape (n, A), never asks where they come from: of classes here, of a number in `numbers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.numerics import FloatArray, IntArray, two_columns
from calibrant.phrases import quoted
from calibrant.validation import ArrayLike, as_scores, check_number, check_same_length, read_native

#: A loss of (costs, class, action): takes the columns of costs, and gives a number or an array of shape (n,).
LossFunction: TypeAlias = Callable[[Any, Any, str], Any]
#: A constant, or the name of a column of costs.
Entry: TypeAlias = float | str


class Losses(ABC):
    """Losses of A actions and K classes."""

    #: Whether the caller must bring columns of costs with the rows.
    needs_costs = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of actions and of classes, (A, K)."""

    @abstractmethod
    def of(self, n: int, costs: Any) -> FloatArray:
        """Return the losses of `n` rows, shape (A, K) where all rows have the same, else (n, A, K)."""

    @abstractmethod
    def by_class(self, places: Sequence[int]) -> Losses:
        """Return the same losses with the classes at these places, in this order."""

    @property
    def table(self) -> FloatArray | None:
        """The losses of all rows, shape (A, K); None where rows differ."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _GivenLosses(Losses):
    """Losses that are numbers, of which the last two axes are actions and classes."""

    values: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[-2], self.values.shape[-1]

    def by_class(self, places: Sequence[int]) -> Self:
        return replace(self, values=self.values[..., list(places)])


class TableLosses(_GivenLosses):
    """The same losses for all rows, shape (A, K)."""

    def of(self, n: int, costs: Any) -> FloatArray:  # noqa: ARG002
        return self.values

    @property
    def table(self) -> FloatArray:
        return self.values


class RowLosses(_GivenLosses):
    """Losses of given rows, shape (n, A, K)."""

    def of(self, n: int, costs: Any) -> FloatArray:  # noqa: ARG002
        check_same_length(len(self.values), n, "losses", "predictions")
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLosses(Losses):
    """Losses that are constants or columns of costs: `entries` has A rows of K."""

    entries: tuple[tuple[Entry, ...], ...]
    needs_costs = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.entries), len(self.entries[0])

    @property
    def columns(self) -> list[str]:
        """Names of the columns of costs."""
        return list(dict.fromkeys(entry for row in self.entries for entry in row if isinstance(entry, str)))

    def of(self, n: int, costs: Any) -> FloatArray:
        read = {name: cost_column(costs, name, n) for name in self.columns}
        values = np.empty((n, len(self.entries), len(self.entries[0])))
        for a, row in enumerate(self.entries):
            for k, entry in enumerate(row):
                values[:, a, k] = read[entry] if isinstance(entry, str) else entry
        return values

    def by_class(self, places: Sequence[int]) -> Self:
        return replace(self, entries=tuple(tuple(row[j] for j in places) for row in self.entries))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionLosses(Losses):
    """Losses that a function gives of the costs of the rows, a class and an action."""

    function: LossFunction
    actions: tuple[str, ...]
    classes: tuple[Any, ...]
    needs_costs = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.actions), len(self.classes)

    def of(self, n: int, costs: Any) -> FloatArray:
        values = np.empty((n, len(self.actions), len(self.classes)))
        for a, action in enumerate(self.actions):
            for k, label in enumerate(self.classes):
                values[:, a, k] = returned(
                    self.function(costs, label, action), n, f"action {action!r}, class {label!r}"
                )
        return check_finite(values, self.actions, self.classes)

    def by_class(self, places: Sequence[int]) -> Self:
        return replace(self, classes=tuple(self.classes[j] for j in places))


def expected(prob: FloatArray, losses: FloatArray) -> FloatArray:
    """Return the expected losses of rows, shape (n, A), from probabilities (n, K) and losses (A, K) or (n, A, K).

    Sums run over the classes in order, as those of the SQL do, so that ties fall alike.
    """
    n_actions, n_classes = losses.shape[-2:]
    found = np.empty((n_actions, len(prob)))  # by columns: whoever compares actions reads these
    for a in range(n_actions):
        np.multiply(prob[:, 0], losses[..., a, 0], out=found[a])
        for k in range(1, n_classes):
            found[a] += prob[:, k] * losses[..., a, k]
    return found.T


def moments(prob: FloatArray, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of what each action will lose, shape (n, A), by probabilities of (n,) or (n, K)."""
    columns = two_columns(prob)
    # what the classes lose more than the first: squares of the losses themselves would round where they are alike
    more = losses - losses[..., :1]
    variance = expected(columns, more**2) - expected(columns, more) ** 2
    return expected(columns, losses), np.maximum(variance, 0.0)


def lost_by_class(losses: FloatArray, codes: IntArray) -> FloatArray:
    """Return what each action loses with the class of each row, shape (n, A)."""
    return np.asarray(losses[:, codes].T if losses.ndim == 2 else losses[np.arange(codes.size), :, codes])


def cost_column(costs: Any, name: str, n: int) -> FloatArray:
    """Return a column of costs of `n` rows: a member of a mapping, or a column of a frame."""
    if costs is None:
        raise InvalidInputError(f"the losses name the column {name!r}. Pass costs=, a frame or a mapping that has it.")
    names = list(costs if isinstance(costs, Mapping) else getattr(costs, "column_names", getattr(costs, "columns", ())))
    if name not in names:
        raise unknown_name("column of costs", name, names)
    return numbers_of_rows(costs[name], f"column {name!r} of costs", n)


def numbers_of_rows(values: ArrayLike, name: str, n: int) -> FloatArray:
    """Return a finite number for each of `n` rows."""
    found = as_scores(values, name=name).values
    if found.ndim != 1:
        raise ShapeError(f"{name} has shape {found.shape}. Pass one number per row, shape ({n},).")
    check_same_length(found.size, n, name, "predictions")
    return found


def as_list(given: Any, argument: str) -> list[Any] | None:
    """Return names as a list, from whatever holds them in an order, such as an array of labels."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTypeError(
            f"{argument}={given!r:.60} is no list. Pass names in one, such as {argument}=['a', 'b']."
        )
    return given.tolist() if hasattr(given, "tolist") else list(given)


def returned(given: Any, n: int, where: str) -> FloatArray:
    """Return what a function of losses gave, a number or one for each of `n` rows; `where` is for the message."""
    try:
        values = np.asarray(given)
        found = values.astype(np.float64) if values.dtype.kind != "c" else None
    except (TypeError, ValueError):
        found = None
    if found is None or found.shape not in ((), (n,)):
        shape = getattr(given, "shape", ())
        what = f"shape {shape} of {values.dtype}" if shape else f"{given!r:.60}"
        raise ShapeError(f"losses gives {what} for {where}. Return a number, or one for each of the {n:,} rows.")
    return found


def check_finite(values: FloatArray, actions: Sequence[str], classes: Sequence[Any]) -> FloatArray:
    """Return losses of rows, shape (n, A, K), or name the first that is not finite."""
    bad = ~np.isfinite(values)
    if bad.any():
        i, a, k = (int(j) for j in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"losses row {i}, action {actions[a]!r}, class {classes[k]!r}: {float(values[i, a, k])!r} is not finite "
            f"({bad.any(axis=(1, 2)).sum():,} of {len(values):,} rows). Give each case a finite loss."
        )
    return values


def read_losses(
    given: Any, actions: Sequence[str] | None, classes: Sequence[Any] | None
) -> tuple[Losses, list[str] | None, list[Any] | None]:
    """Read losses of any kind; return them, and the actions and classes that they name, None where they name none.

    `actions` and `classes` are what the caller says beside them.
    """
    if callable(given):
        if not actions or not classes:
            raise InvalidInputError("losses is a function. Name actions=[...] and classes=[...] that it knows.")
        return FunctionLosses(given, tuple(actions), tuple(classes)), None, None
    if isinstance(given, Mapping):
        return _of_mapping(given)
    frame = _of_frame(given)
    if frame is not None:
        return frame
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(())
    if values.ndim == 0:
        raise InvalidTypeError(
            f"losses={given!r:.60} holds no table of numbers. Pass a mapping {{action: {{class: loss}}}}, a frame, an "
            "array of actions x classes, or a function."
        )
    if values.ndim not in (2, 3) or 0 in values.shape or values.shape[-1] < 2:
        raise ShapeError(
            f"losses has shape {values.shape}. Pass actions x classes, or rows x actions x classes, of two classes at "
            "least."
        )
    _check_table(values, actions, classes)
    return (TableLosses if values.ndim == 2 else RowLosses)(values.copy()), None, None


def _check_table(values: FloatArray, actions: Sequence[str] | None, classes: Sequence[Any] | None) -> None:
    a, k = values.shape[-2:]
    own = list(actions or range(a)), list(classes or range(k))
    if (len(own[0]), len(own[1])) == (a, k):  # else `Problem` says what doesn't match
        check_finite(values.reshape(-1, a, k), [str(name) for name in own[0]], own[1])


def _of_mapping(given: Mapping[Any, Any]) -> tuple[Losses, list[str], list[Any]]:
    if not given:
        raise ShapeError("losses is empty. Pass {action: {class: loss}} of one action at least.")
    actions, classes = list(given), None
    entries: list[list[Any]] = []
    for action, row in given.items():
        if not isinstance(row, Mapping) or not row:
            raise InvalidTypeError(
                f"losses[{action!r}] is {row!r:.60}, not losses by class. Pass {{action: {{class: loss}}}}."
            )
        classes = list(row) if classes is None else classes
        if set(row) != set(classes):
            odd = sorted(map(str, set(row) ^ set(classes)))
            raise InvalidInputError(
                f"losses[{action!r}] has the classes {quoted(list(row))}, and {actions[0]!r} has {quoted(classes)}: "
                f"{odd[0]} is in one only. Name every class for every action."
            )
        entries.append([row[label] for label in classes])
    assert classes is not None  # noqa: S101
    return _of_entries(entries, actions, classes), actions, classes


def _of_entries(entries: list[list[Any]], actions: Sequence[Any], classes: Sequence[Any]) -> Losses:
    """Return losses of numbers, of names of columns, or of arrays with a number for each row."""
    arrays: dict[tuple[int, int], FloatArray] = {}
    for a, row in enumerate(entries):
        for k, entry in enumerate(row):
            name = f"losses[{actions[a]!r}][{classes[k]!r}]"
            if isinstance(entry, str):
                continue
            if np.ndim(entry) == 0:
                row[k] = check_number(name, entry)
            else:
                found = as_scores(entry, name=name).values
                arrays[a, k] = numbers_of_rows(entry, name, found.shape[0])
    if not arrays:
        if any(isinstance(entry, str) for row in entries for entry in row):
            return ColumnLosses(tuple(map(tuple, entries)))
        return TableLosses(np.array(entries, dtype=np.float64))
    (first, n), *others = ((f"losses[{actions[a]!r}][{classes[k]!r}]", v.size) for (a, k), v in arrays.items())
    for other, size in others:
        check_same_length(n, size, first, other)
    values = np.empty((n, len(entries), len(entries[0])))
    for a, row in enumerate(entries):
        for k, entry in enumerate(row):
            if isinstance(entry, str):
                raise InvalidInputError(
                    f"losses mixes arrays with the name of a column, {entry!r}. Give arrays for all, or names for all."
                )
            values[:, a, k] = arrays.get((a, k), entry)
    return RowLosses(values)


def _of_frame(given: Any) -> tuple[Losses, list[str], list[Any]] | None:
    """Return the losses of a data frame: a row for each action, named by its index or its column of text."""
    import narwhals as nw

    frame = read_native(given, "losses")
    if not isinstance(frame, nw.DataFrame):
        return None
    index, texts = nw.maybe_get_index(frame), (nw.String, nw.Categorical, nw.Object, nw.Enum)
    named = [name for name in frame.columns if frame.get_column(name).dtype in texts]
    if len(frame) == 0:
        raise ShapeError("losses is an empty frame. Give it a row for each action.")
    if named and (index is None or type(index).__name__ == "RangeIndex"):
        actions = frame.get_column(named[0]).to_list()
        frame = frame.drop(named[0])
    elif index is not None and type(index).__name__ != "RangeIndex":
        actions = index.tolist()
    else:
        raise InvalidInputError(
            "losses is a frame that names no actions. Give it a column of their names, or an index of them."
        )
    classes = list(frame.columns)
    entries = [list(row) for row in frame.iter_rows()]
    try:
        return _of_entries(entries, actions, classes), actions, classes
    except CalibrantError as error:
        raise type(error)(f"{error} (Here: a frame with a row for each action and a column for each class.)") from None
