"""Policy: the action of least expected loss under the probabilities of each row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.decisions.choosing import choose
from calibrant.decisions.losses import expected
from calibrant.decisions.numbers import DistributionColumns, as_distributions
from calibrant.decisions.problem import Problem
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.numerics import FloatArray, IntArray, two_columns
from calibrant.validation import (
    NUMPY,
    ArrayLike,
    Container,
    as_groups,
    as_scores,
    check_number,
    check_same_length,
)

if TYPE_CHECKING:
    from calibrant.fitted import Fitted
    from calibrant.persistence import DialectName
    from calibrant.tables import Applied


class Policy:
    """The action of least expected loss in each row; or, of two actions, the one that a threshold says.

    Parameters
    ----------
    problem : Problem
    threshold : float, optional
        Of two actions and two classes: take the second action where the probability of the positive class is at least
        this, whatever the losses say. Such as `tune_threshold` finds. Of a number and a threshold y0 it is P(Y > y0),
        so that 1 - alpha makes the rule P(Y <= y0) <= alpha of Sahoo et al. (2021).

    Attributes
    ----------
    problem : Problem
    threshold : float or None

    Raises
    ------
    CalibrantError
        If a threshold is given for more than two actions, or beside capacities.

    Notes
    -----
    Of actions that cost the same the first is taken, as `problem.actions` has them: that of doing nothing, where it was
    named. With capacities the actions are those of least total expected loss that keep all of them: of one limited
    action, the rows that gain most from it over their next best action, the first of equal ones, and no row that
    doesn't gain.

    Elkan (2001), *The foundations of cost-sensitive learning*, IJCAI, equation 1. The loss that it promises is kept
    where the probabilities are calibrated.

    Examples
    --------
    >>> from calibrant.decisions import Policy, Problem
    >>> problem = Problem({"no": {0: 0.0, 1: 4.0}, "yes": {0: 1.0, 1: 0.0}}, abstain=0.3)
    >>> Policy(problem).decide([0.05, 0.15, 0.5, 0.9]).tolist()
    ['no', 'abstain', 'abstain', 'yes']
    """

    def __init__(self, problem: Problem, *, threshold: float | None = None) -> None:
        if not isinstance(problem, Problem):
            raise InvalidTypeError(f"problem is a {type(problem).__name__}. Pass a Problem(losses).")
        self.problem = problem
        self.threshold = None
        if threshold is not None:
            self.threshold = check_number("threshold", threshold, minimum=0.0, maximum=1.0)
            is_of_two = problem.n_classes in (None, 2) and not (problem.is_of_number and problem.ranges is None)
            if len(problem.actions) != 2 or not is_of_two or problem.capacity:
                raise InvalidInputError(
                    f"threshold={threshold!r} is for two actions and two classes without capacity, and the actions are "
                    f"{list(problem.actions)!r}. Leave it out: actions are then chosen by their expected losses."
                )

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, in the order in which ties are broken."""
        return self.problem.actions

    def decide(self, predictions: Any, *, costs: Any = None, per: ArrayLike | None = None) -> Any:
        """Return the action of each row, in the container that the probabilities came in.

        Parameters
        ----------
        predictions : array-like of shape (n,) or (n, K), or Forecast
            Probabilities of the positive class, or of each class: columns of a frame are matched to the classes by
            name. Where losses go by a number, a forecast of it.
        costs : frame or mapping of columns, optional
            The costs of the rows, for losses that need them.
        per : array-like of shape (n,), optional
            What capacities are for each of, such as the day of each row; by default for all rows together.

        Returns
        -------
        actions : shape (n,)
            Names of actions: an array of text, or a series with the index of what came in.
        """
        if self.problem.is_of_number:
            groups = None if per is None else self.read_per(per, len(as_distributions(predictions, "predictions")))
            return self._named(self.codes_of_forecast(predictions, costs, groups), NUMPY)
        read = self.problem.read_predictions(predictions, costs)
        losses = self.problem.loss_of_rows(len(read.values), costs)
        codes = self.codes(read.values, losses, self.read_per(per, len(read.values)))
        return self._named(codes, read.container)

    def choose(self, expected_losses: ArrayLike, *, per: ArrayLike | None = None) -> Any:
        """Return the action of each row from what each action is expected to lose in it, shape (n, A).

        For whatever gives expected losses, in the order of `actions`: probabilities of classes need not stand behind
        them. Expected losses of a threshold say nothing, so that a policy of one refuses.
        """
        if self.threshold is not None:
            raise InvalidInputError("this policy goes by a threshold on a probability. Call decide(probabilities).")
        read = as_scores(expected_losses, name="expected_losses")
        if read.values.ndim != 2 or read.values.shape[1] != len(self.actions):
            raise ShapeError(
                f"expected_losses has shape {read.values.shape}. Pass a column for each of {list(self.actions)!r}."
            )
        return self._named(self.codes_of(read.values, self.read_per(per, len(read.values))), read.container)

    def codes(self, prob: FloatArray, losses: FloatArray, per: IntArray | None = None) -> IntArray:
        """Return the number of the action of each checked row, of shape (n,) or (n, K)."""
        if self.threshold is None:
            return self.codes_of(expected(two_columns(prob), losses), per)
        return self._beyond(prob, self.threshold)

    def codes_of_forecast(self, forecast: Any, costs: Any, per: IntArray | None = None) -> IntArray:
        """Return the number of the action of each row of a forecast."""
        if self.problem.ranges is None:
            return self.codes_of(self.problem.expected_losses(forecast, costs=costs), per)
        prob = self.problem.read_predictions(forecast, costs).values
        return self.codes(prob, self.problem.loss_of_rows(len(prob), costs), per)

    def codes_by(self, scores: FloatArray, expected_losses: FloatArray, per: IntArray | None = None) -> IntArray:
        """Return the number of the action of each row, by its scores where there is a threshold, else its losses."""
        return self.codes_of(expected_losses, per) if self.threshold is None else self._beyond(scores, self.threshold)

    @staticmethod
    def _beyond(prob: FloatArray, threshold: float) -> IntArray:
        positive = prob if prob.ndim == 1 else prob[:, 1]
        return (positive >= threshold).astype(np.int64)

    def codes_of(self, expected_losses: FloatArray, per: IntArray | None = None) -> IntArray:
        """Return the number of the action of each row from its expected losses."""
        return choose(expected_losses, self.capacity_by_number, per)

    @property
    def capacity_by_number(self) -> dict[int, int]:
        """How many rows an action may have at most, by its number."""
        return {a: self.problem.capacity[name] for a, name in enumerate(self.actions) if name in self.problem.capacity}

    def without_capacity(self) -> Policy:
        """Return the policy with all actions unbounded."""
        problem = copy(self.problem)
        problem.capacity = {}
        return Policy(problem, threshold=self.threshold)

    def read_per(self, per: ArrayLike | None, n: int) -> IntArray | None:
        """Check what capacities are for each of."""
        if per is None:
            return None
        if not self.problem.capacity:
            raise InvalidInputError("per= says what capacities are for each of, and no action has one. Leave it out.")
        codes = as_groups(per, name="per").codes.astype(np.int64)
        check_same_length(n, codes.size, "predictions", "per")
        return codes

    def read_actions(self, actions: ArrayLike, n: int) -> IntArray:
        """Return the numbers of actions that are given by name or number, or by whether they are the second of two."""
        found = as_groups(actions, name="actions")
        check_same_length(n, found.codes.size, "predictions", "actions")
        known = {name: a for a, name in enumerate(self.actions)}
        for a in range(len(self.actions)):
            known.setdefault(str(a), a)
        if len(self.actions) == 2:
            known |= {"False": 0, "True": 1}
        places = [known.get(str(name), -1) for name in found.classes.tolist()]
        if -1 in places:
            raise unknown_name("action", found.classes.tolist()[places.index(-1)], self.actions)
        codes: IntArray = np.array(places, dtype=np.int64)[found.codes]
        return codes

    def to_sql(
        self,
        dialect: DialectName = "duckdb",
        *,
        columns: str | Sequence[str] | DistributionColumns | None = None,
        calibrator: Fitted | None = None,
        table: str = "scores",
        keep: Sequence[str] = (),
        output: str = "action",
    ) -> str:
        """Return one SELECT that gives the action of each row of a table.

        Parameters
        ----------
        dialect, table, keep
            As in `calibrant.persistence.to_sql`.
        columns : str, sequence of str or ForecastColumns, optional
            The column of the probability of the positive class, or one for each class; "p" by default. Of losses that
            go by a number, the columns of its forecasts, as `calibrant.forecasts.ForecastColumns` names them.
        calibrator : fitted calibrator, optional
            What makes probabilities of the columns, which hold scores then; their names are its own by default.
        output : str
            Name of the new column.

        Raises
        ------
        MissingPackageError
            If sqlglot, which writes the SQL, is not installed.
        CalibrantError
            If an argument can't be used, or the policy has no form in SQL: one with capacities, which compare rows with
            each other, with losses of a function or of given rows, or behind a recalibrator of forecasts.

        Notes
        -----
        Rows that `decide` refuses get NULL, and so do those whose quantiles cross, which `decide` sorts. Losses and
        thresholds that are names of columns are read from the table. Normal probabilities are found by arithmetic and
        exp, to the last digits, so that it needs no error function of the engine.
        """
        from calibrant.decisions.sql import policy_sql

        return policy_sql(self, dialect, columns=columns, calibrator=calibrator, table=table, keep=keep, output=output)

    def apply(
        self,
        source: Any,
        target: str | os.PathLike[str],
        *,
        score: str | Sequence[str] | DistributionColumns = "p",
        calibrator: Any = None,
        group: str | None = None,
        column: str = "action",
        **options: Any,
    ) -> Applied:
        """Write a source with a column of actions, in bounded memory.

        Parameters
        ----------
        source, target
            As in `calibrant.engines.apply`, but for Spark, where the result of `to_sql` does it.
        score : str, sequence of str or ForecastColumns
            The column of the probability of the positive class, or one for each class; of `calibrator` the scores. Of
            losses that go by a number, the columns of its forecasts, as `calibrant.forecasts.ForecastColumns` names
            them.
        calibrator : fitted calibrator or forecast recalibrator, optional
            What makes probabilities of the scores, or better forecasts of the forecasts, first.
        group : str, optional
            The column of groups, of a calibrator that was fitted by group; by default the one that it was fitted to.
        column : str
            Name of the new column.
        **options
            `costs`, names of the columns that a function of losses takes, as a mapping of arrays; and `missing`,
            `format`, `table`, `part_rows` and `progress`, as in `calibrant.engines.apply`.

        Returns
        -------
        Applied
            Numbers of rows and parts.

        Raises
        ------
        CalibrantError
            As in `engines.apply`; and for a policy with capacities, which compare all rows with each other: decide on
            rows in memory, or on the table of each day by itself. A policy with losses of a function writes one file,
            and no folder of parts, which it could not tell from those of another function.
        """
        from calibrant.decisions.applying import apply_policy

        how: dict[str, Any] = {"calibrator": calibrator, "group": group, "column": column}
        return apply_policy(self, source, target, score=score, **how, **options)

    def _named(self, codes: IntArray, container: Container) -> Any:
        return container.wrap_text(np.array(self.actions)[codes], name="action")

    def __repr__(self) -> str:
        threshold = "" if self.threshold is None else f", threshold={self.threshold!r}"
        return f"Policy({self.problem!r}{threshold})"


def as_policy(given: Any, *, name: str = "policy") -> Policy:
    """Return a policy, that of least expected loss of a problem, or of losses by action and class."""
    if isinstance(given, Policy):
        return given
    if isinstance(given, Problem):
        return Policy(given)
    if isinstance(given, Mapping):
        return Policy(Problem.from_dict(given))
    raise InvalidTypeError(f"{name} is a {type(given).__name__}. Pass a Policy, or a Problem for that of least loss.")
