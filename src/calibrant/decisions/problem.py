"""Problem: what can be done with a row, and what each action loses with each class, or with a number that comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from calibrant.decisions.actions import ABSTAIN, Actions
from calibrant.decisions.arguments import (
    as_capacity,
    as_kind_of,
    as_names,
    as_pair,
    as_text,
    check_not_negative,
    places_of_classes,
    read_named_losses,
)
from calibrant.decisions.losses import (
    ColumnLosses,
    Losses,
    RowLosses,
    expected,
    lost_by_class,
    moments,
    read_losses,
)
from calibrant.decisions.numbers import (
    Distributions,
    NumberLosses,
    Ranges,
    actions_of_function,
    as_distributions,
    as_outcomes,
)
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.numerics import FloatArray, two_columns
from calibrant.phrases import quoted
from calibrant.validation import (
    NUMPY,
    ArrayLike,
    Scores,
    as_groups,
    as_labels,
    as_probabilities,
)

#: What a document of a problem may hold.
_MEMBERS = ("losses", "thresholds", "abstain", "do_nothing", "capacity")


class Outlook(NamedTuple):
    """What a forecast says of rows: the chances of ranges, or the median; mean and variance of each action's loss."""

    scores: FloatArray
    mean: FloatArray
    variance: FloatArray


class Problem:
    """What can be done with a row, and what each action loses with each class, or with a number that comes.

    Parameters
    ----------
    losses : mapping, data frame, array-like or callable
        What an action loses where a class is the true one; what it gains is a negative loss. With `thresholds` the
        classes are ranges of a number.

        - A mapping ``{action: {class: loss}}``. A loss is a number, or of each row its own: an array of shape (n,), or
          the name of a column of the `costs` that come with the rows.
        - A frame with a row for each action, named by its index or by a column of text, and a column for each class.
        - An array of shape (A, K), or (n, A, K) of n given rows, with `actions`; the classes are in sorted order.
        - A function of (costs, class, action) that gives a number, or an array of shape (n,); with `actions` and
          `classes`. `costs` is what comes with the rows, as it is.
        - A function of (costs, number, action), with `actions` alone: of a number, shape (n,), that forecasts are of.
    actions : sequence of str, optional
        Names of the actions, where `losses` doesn't give them; "0", "1" and so on by default.
    classes : sequence, optional
        Labels of the classes, where `losses` doesn't give them; by default columns of probabilities and labels are
        taken in sorted order.
    thresholds : float, str or sequence of these, optional
        Makes the losses those of a number, which forecasts are of: the classes are its ranges up to the first
        threshold, above it and up to the second, and so on, in this order, whatever they are called. A text is the name
        of a column of the `costs` that come with the rows.
    do_nothing : str, optional
        The action that wins ties. One that is not among the actions is added, with a loss of 0.
    abstain : float, optional
        Adds an action "abstain", such as to leave a row to a person, of this loss whatever its class.
    capacity : mapping of str to int, optional
        How many rows an action may have at most: of all that are decided at once, or of each group of these, such as a
        day. One action at least must be left unbounded.

    Attributes
    ----------
    actions : tuple of str
        All actions; of actions that cost the same the first is chosen.
    classes : tuple or None
        The sorted classes, where they are known; of a number the names of its ranges.
    losses : Losses or NumberLosses
        The losses of the actions that were given, without those that were added.
    ranges : Ranges or None
        Between the thresholds.
    table : ndarray of shape (A, K) or None
        The losses, where they are the same for all rows.
    capacity : dict

    Raises
    ------
    CalibrantError
        If the losses are no numbers, not finite or not of one shape, or a name is unknown.

    Examples
    --------
    A call costs 5 and wins 60 of those who would have bought; a letter costs 1 and wins 10.

    >>> from calibrant.decisions import Policy, Problem
    >>> problem = Problem(
    ...     {"call": {"buys": -55.0, "stays away": 5.0}, "letter": {"buys": -9.0, "stays away": 1.0}},
    ...     do_nothing="wait",
    ...     capacity={"call": 1},
    ... )
    >>> problem.actions
    ('wait', 'call', 'letter')
    >>> Policy(problem).decide([0.95, 0.4, 0.02]).tolist()  # of "stays away", the larger label
    ['wait', 'letter', 'call']

    Of three staffing levels, which is best goes by how much work will come, of which there is a forecast:

    >>> from calibrant.forecasts import GaussianForecast
    >>> losses = {
    ...     "few": {"calm": 1.0, "normal": 6.0, "busy": 20.0},
    ...     "some": {"calm": 2.0, "normal": 2.0, "busy": 9.0},
    ...     "all": {"calm": 4.0, "normal": 4.0, "busy": 4.0},
    ... }
    >>> staff = Problem(losses, thresholds=[50.0, 80.0])
    >>> forecast = GaussianForecast([40.0, 90.0], 10.0)
    >>> staff.expected_losses(forecast).round(2)
    array([[ 1.79,  2.  ,  4.  ],
           [17.78,  7.89,  4.  ]])
    >>> Policy(staff).decide(forecast).tolist()
    ['few', 'all']
    """

    def __init__(
        self,
        losses: Any,
        *,
        actions: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        thresholds: ArrayLike | str | None = None,
        do_nothing: str | None = None,
        abstain: float | None = None,
        capacity: Mapping[str, int] | None = None,
    ) -> None:
        self.ranges = None if thresholds is None else Ranges.read(thresholds)
        self.losses: Losses | NumberLosses
        if callable(losses) and classes is None and self.ranges is None:
            self.losses = NumberLosses(losses, actions_of_function(actions))
            names, self.classes = as_names(self.losses.actions, len(self.losses.actions)), None
        else:
            self.losses, names, self.classes = read_named_losses(losses, actions, classes, self.ranges)
        self._all = Actions.of(names, do_nothing, abstain)
        self.do_nothing = do_nothing
        self.capacity = as_capacity(capacity, self.actions)

    @classmethod
    def two_actions(
        cls,
        *,
        false_positive: Any,
        false_negative: Any,
        true_positive_benefit: Any = 0.0,
        true_negative_benefit: Any = 0.0,
        actions: Sequence[str] = ("no", "yes"),
        classes: Sequence[Any] | None = None,
        thresholds: ArrayLike | str | None = None,
        capacity: Mapping[str, int] | None = None,
    ) -> Self:
        """Make the problem of saying no or yes to a row.

        Parameters
        ----------
        false_positive, false_negative : float, or array-like of shape (n,)
            What a yes costs where the negative class is true, and a no where the positive one is; at least 0.
        true_positive_benefit, true_negative_benefit : float, or array-like of shape (n,)
            What a right yes, and a right no, is worth; at least 0.
        actions : pair of str
            What no and yes are called.
        classes : pair, optional
            The negative class and the positive one, which is the larger label.
        thresholds : float or str, optional
            For forecasts of a number: the positive class is a number above this.
        capacity : mapping, optional
            See `Problem`.

        Examples
        --------
        >>> from calibrant.decisions import Problem
        >>> Problem.two_actions(false_positive=1.0, false_negative=4.0).threshold
        0.2
        """
        no, yes = as_pair(actions, "actions")
        given = {
            "false_positive": false_positive,
            "false_negative": false_negative,
            "true_positive_benefit": true_positive_benefit,
            "true_negative_benefit": true_negative_benefit,
        }
        for name, value in given.items():
            check_not_negative(name, value)
        fp, fn, tp, tn = (np.asarray(value, dtype=np.float64) for value in given.values())
        columns = ((-tn, fn), (fp, -tp))
        pair = None if classes is None else as_pair(classes, "classes")
        if any(each.ndim for row in columns for each in row):
            rows = [[float(each) if each.ndim == 0 else each for each in row] for row in columns]
            found = {a: dict(enumerate(row)) for a, row in zip((no, yes), rows, strict=True)}
            own, _, _ = read_losses(found, None, None)
            assert isinstance(own, RowLosses)  # noqa: S101
            return cls(own.values, actions=(no, yes), classes=pair, thresholds=thresholds, capacity=capacity)
        return cls(np.array(columns), actions=(no, yes), classes=pair, thresholds=thresholds, capacity=capacity)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Make a problem of plain data: `to_dict`'s, or losses alone, ``{action: {class: loss}}``."""
        if not isinstance(document, Mapping):
            raise InvalidTypeError(f"a problem is a {type(document).__name__}. Pass a mapping, such as a JSON object.")
        if "losses" not in document:
            return cls(document)
        for name in document:
            if name not in _MEMBERS:
                raise unknown_name("member of a problem", name, _MEMBERS)
        return cls(**document)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain data; only one whose losses are the same for all rows has such."""
        table = None if isinstance(self.losses, NumberLosses) else self.losses.table
        if table is None:
            raise InvalidInputError("these losses differ from row to row. Only a table of losses can be written.")
        labels = list(self.classes) if self.classes is not None else list(range(table.shape[1]))
        losses = {
            a: dict(zip(map(str, labels), row, strict=True))
            for a, row in zip(self._all.given, table.tolist(), strict=True)
        }
        more = {
            "thresholds": None if self.ranges is None else list(self.ranges.thresholds),
            "do_nothing": self.do_nothing,
            "abstain": self._all.added.get(ABSTAIN),
            "capacity": self.capacity or None,
        }
        return {"losses": losses, **{name: value for name, value in more.items() if value is not None}}

    @property
    def actions(self) -> tuple[str, ...]:
        """All actions, of which the first wins ties."""
        return self._all.names

    @property
    def n_classes(self) -> int | None:
        """Number of classes, or of ranges; None where only the rows tell it, and of a function of a number."""
        table = self._own_table
        return len(self.classes) if self.classes is not None else None if table is None else table.shape[1]

    @property
    def is_of_number(self) -> bool:
        """Whether losses go by a number, of which there are forecasts, and not by classes with probabilities."""
        return self.ranges is not None or isinstance(self.losses, NumberLosses)

    @property
    def needs_costs(self) -> bool:
        """Whether rows must come with `costs`."""
        return bool(self.cost_columns) or (not isinstance(self.losses, NumberLosses) and self.losses.needs_costs)

    @property
    def cost_columns(self) -> list[str]:
        """Names of the columns of costs that losses, and thresholds, are taken from."""
        own = self.losses.columns if isinstance(self.losses, ColumnLosses) else []
        return list(dict.fromkeys([*own, *([] if self.ranges is None else self.ranges.columns)]))

    @property
    def table(self) -> FloatArray | None:
        """The losses of all actions, shape (A, K); None where they differ from row to row, or from number to number."""
        own = self._own_table
        return None if own is None else self._all.complete(own, axis=-2)

    @property
    def _own_table(self) -> FloatArray | None:
        return None if isinstance(self.losses, NumberLosses) else self.losses.table

    @property
    def entries(self) -> list[list[float | str]]:
        """The losses of all actions as constants and names of columns, (A, K), where they are such."""
        assert isinstance(self.losses, ColumnLosses)  # noqa: S101
        own, n_classes = dict(zip(self._all.given, self.losses.entries, strict=True)), self.losses.shape[1]
        return [list(own[a]) if a in own else [self._all.added[a]] * n_classes for a in self.actions]

    @property
    def threshold(self) -> float:
        """The probability of the positive class from which on the second of two actions costs less.

        (L10 - L00) / (L10 - L00 + L01 - L11) for the loss Lak of action a with class k (Elkan 2001, *The foundations of
        cost-sensitive learning*, IJCAI, section 2). Raises InvalidInputError where there is none: of other than two
        actions and two classes, of losses that differ from row to row, or where one action is never worse.
        """
        table = self.table
        if table is None or table.shape != (2, 2):
            what = "losses that differ from row to row" if table is None else f"a table of shape {table.shape}"
            raise InvalidInputError(
                f"a threshold is of two actions and two classes, and there is {what}. Use a Policy."
            )
        (l00, l01), (l10, l11) = table
        worse, better = float(l10 - l00), float(l01 - l11)
        if not (worse > 0.0 and better > 0.0):
            never = self.actions[1] if worse >= 0.0 else self.actions[0]
            raise InvalidInputError(
                f"there is no threshold: {never!r} never costs less, or {self.actions[0]!r} is the better action of "
                f"the positive class, for which {self.actions[1]!r}, the second action, should be."
            )
        return worse / (worse + better)

    def check_of_classes(self) -> None:
        """Refuse losses that go by a number where there are probabilities of classes."""
        if self.is_of_number:
            raise InvalidInputError(
                "these losses go by a number, and there are probabilities of classes here. Pass a forecast of the "
                "number, on the command line its columns (--mean mu --std sigma), or losses by class."
            )

    def loss_of_rows(self, n: int, costs: Any = None) -> FloatArray:
        """Return the losses of `n` rows, shape (A, K) where all rows have the same, else (n, A, K)."""
        assert not isinstance(self.losses, NumberLosses)  # noqa: S101 - those have no classes
        return self._all.complete(self.losses.of(n, costs), axis=-2)

    def expected_losses(self, predictions: Any, *, costs: Any = None) -> FloatArray:
        """Return what each action is expected to lose in each row, shape (n, A).

        Parameters
        ----------
        predictions : array-like of shape (n,) or (n, K), or Forecast
            Probabilities of the positive class, or of each class; named columns are matched to the classes. Of losses
            that go by a number, a forecast of it.
        costs : frame or mapping of columns, optional
            The costs of the rows, for losses that need them.

        Notes
        -----
        The sum over classes k of p_k L[a, k], added up in the order of the classes; of ranges likewise, with the
        chances that the forecast gives them. Of a function of the number, the mean over 200 quantiles at even levels.
        """
        if isinstance(self.losses, NumberLosses):
            mean, _ = self.losses.moments(as_distributions(predictions, "predictions"), costs)
            return self._all.complete(mean, axis=-1)
        prob = self.read_predictions(predictions, costs).values
        return expected(two_columns(prob), self.loss_of_rows(len(prob), costs))

    def realised_losses(self, y: ArrayLike, *, costs: Any = None) -> FloatArray:
        """Return what each action loses with the numbers that came, shape (n, A); for losses that go by a number."""
        if not self.is_of_number:
            raise InvalidInputError("these losses go by classes. Call evaluate(y, probabilities, problem).")
        return self.lost(as_outcomes(y, len(y), "y"), costs)

    def outlook(self, forecast: Distributions, costs: Any) -> Outlook:
        """Return what a forecast says of each row, of losses that go by a number."""
        if isinstance(self.losses, NumberLosses):
            mean, variance = self.losses.moments(forecast, costs)
            both = self._all.complete(mean, axis=-1), self._all.complete(variance, axis=-1, is_variance=True)
            return Outlook(np.asarray(forecast.ppf(0.5)), *both)
        prob = self.read_predictions(forecast, costs).values
        return Outlook(prob, *moments(prob, self.loss_of_rows(len(prob), costs)))

    def lost(self, y: FloatArray, costs: Any) -> FloatArray:
        """Return what each action loses with checked numbers, shape (n, A)."""
        if isinstance(self.losses, NumberLosses):
            return self._all.complete(self.losses.of(y, costs), axis=-1)
        assert self.ranges is not None  # noqa: S101
        return lost_by_class(self.loss_of_rows(y.size, costs), self.ranges.codes(y, costs))

    def read_predictions(self, predictions: Any, costs: Any) -> Scores:
        """Check probabilities, in the order of the classes; of ranges, return those that a forecast gives."""
        if not self.is_of_number:
            return self.read_probabilities(predictions)
        assert self.ranges is not None  # noqa: S101
        return Scores(self.ranges.probabilities(as_distributions(predictions, "predictions"), costs), NUMPY)

    def read_probabilities(self, given: ArrayLike, *, name: str = "predictions", by_labels: bool = False) -> Scores:
        """Check probabilities, and put named columns in the order of the classes, unless labels are to name these."""
        self.check_of_classes()
        if isinstance(given, Distributions):
            raise InvalidTypeError(
                f"{name} is a {type(given).__name__}, a forecast of a number, and the losses are of classes. "
                "Give the problem thresholds=, between the ranges of the number that losses go by."
            )
        checked = as_probabilities(given, name=name, takes_one_column=True)
        k = max(checked.n_columns, 2)
        if self.n_classes not in (None, k):
            raise ShapeError(
                f"{name} {'is' if k == 2 else 'are'} of {k} classes, and the losses of {self.n_classes}"
                f"{'' if self.classes is None else f': {quoted(list(self.classes))}'}. Pass a column per class."
            )
        columns = checked.container.columns
        if columns is None or checked.n_columns == 1 or (by_labels and self.classes is None):
            return checked
        return checked.ordered(places_of_classes(columns, self.classes, name=name))

    def for_labels(self, y: ArrayLike, n_columns: int, *, name: str = "y") -> tuple[Problem, list[Any] | None]:
        """Return the problem with the classes as these labels have them, and the sorted classes, where they are known.

        Labels of another kind than the classes are compared as text: a file names the class "1" that rows have as 1.
        """
        if self.classes is None:
            return self, None
        shown = as_groups(y, name=name).classes.tolist()
        known = list(self.classes)
        if set(shown) <= set(known) and not any(
            isinstance(a, bool) != isinstance(b, bool) for a in shown for b in known
        ):
            return self, known
        by_text = {as_text(label): label for label in shown}
        typed = [by_text.get(as_text(label), as_kind_of(label, shown[0])) for label in known]
        ordered = as_labels(typed, name="the classes of the losses").classes.tolist()
        as_labels(y, name=name, classes=ordered, n_columns=n_columns)  # says which label is unknown
        return self._with_classes(ordered, [typed.index(label) for label in ordered]), ordered

    def in_order(self, classes: Sequence[Any]) -> Problem:
        """Return the problem with its classes as these labels, in this order, compared as text."""
        self.check_of_classes()
        if self.classes is None:
            return self
        known = [as_text(label) for label in self.classes]
        wanted = [as_text(label) for label in classes]
        if sorted(known) != sorted(wanted):
            raise InvalidInputError(
                f"the losses are of the classes {quoted(list(self.classes))}, and the rows of {quoted(list(classes))}. "
                "Name the same in both."
            )
        return self._with_classes(classes, [known.index(label) for label in wanted])

    def _with_classes(self, classes: Sequence[Any], places: Sequence[int]) -> Problem:
        assert not isinstance(self.losses, NumberLosses)  # noqa: S101
        other = copy(self)
        other.losses, other.classes = self.losses.by_class(places), tuple(classes)
        return other

    def __repr__(self) -> str:
        classes = "" if self.classes is None else f", classes={list(self.classes)!r}"
        capacity = f", capacity={self.capacity!r}" if self.capacity else ""
        return f"Problem(actions={list(self.actions)!r}{classes}{capacity})"
