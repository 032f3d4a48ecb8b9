"""OnlinePlattCalibrator: Platt scaling that learns from each label as it comes, and forgets.

What predicts is a mixture of Platt maps expit(a z + b) of the logit z, those of a grid of slopes a and intercepts b.
A label multiplies the weight of each map by the probability that it had for it; then a share of all weight goes back
to where it began, so that another map may take over. How large a share is right is not known: six are kept side by
side, themselves weighed by how well they predicted. There is no setting to choose, and the bound assumes nothing of the
rows. Grid, shares and first weights are constants. The rule by which the calibrator was kept was written after a first
prototype had been measured, as benchmarks/online.py says; the first weights were not tuned afterwards.

Source: the problem is that of Gupta and Ramdas (2023), who take online Newton steps for it, which follow the best map
of all rows and lag behind where that moves. The mixture is Herbster and Warmuth (1998), *Tracking the best expert*,
Machine Learning 32; that probabilities may be averaged without a loss, Vovk (1998), *A game of prediction with expert
advice*, Journal of Computer and System Sciences 56.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from calibrant.dependence import as_label_times, label_uniqueness_in_time
from calibrant.document_field import DocumentField, within
from calibrant.errors import DocumentError, InvalidInputError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray, expit, logit, rows_of_codes
from calibrant.phrases import count, quoted
from calibrant.rows import Rows, read_rows
from calibrant.validation import (
    ArrayLike,
    InputKind,
    as_labels,
    as_scores,
    as_weight,
    at_first,
    check_choice,
    check_integer,
    check_same_length,
)

_FORMAT, _VERSION = "calibrant online platt", 1
#: Slope and intercept of each map.
_SLOPE, _INTERCEPT = (
    grid.ravel() for grid in np.meshgrid(np.linspace(0.0, 2.0, 21), np.linspace(-3.0, 3.0, 41), indexing="ij")
)
#: The standard deviations around a slope of one and an intercept of zero that weights begin with, and these weights.
_SLOPE_SPREAD, _INTERCEPT_SPREAD = 0.5, 1.0
_PRIOR: FloatArray = np.exp(-0.5 * (((_SLOPE - 1.0) / _SLOPE_SPREAD) ** 2 + (_INTERCEPT / _INTERCEPT_SPREAD) ** 2))
_PRIOR /= _PRIOR.sum()
#: Shares of all weight that a label sends back to where it began.
_SHARES = np.array([1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 0.0])
#: Logits further from zero count as these: a slope of two leaves no room for surer ones.
_FARTHEST = 15.0
#: Rows that are predicted at a time.
_BLOCK = 1 << 12


class OnlinePlattCalibrator:
    """Calibrate the probabilities of two classes label by label, with a bound on what is lost by not knowing better.

    Parameters
    ----------
    classes : sequence of two labels
        The labels, sorted; scores are those of the larger one.
    input : {"probability", "logit"}
        What the scores are.

    Attributes
    ----------
    n_labels_ : int
        Number of labels that it has learnt from.
    weight_ : ndarray of shape (6, 861)
        For each share of weight that goes back, the weights of the maps.
    log_share_weight_ : ndarray of shape (6,)
        The logarithm of the weight of each share.

    Notes
    -----
    Of any T rows, however chosen, whose labels are learnt one by one before the next row is predicted, the total log
    loss exceeds that of a sequence of maps of the grid which changes S times by at most ``regret_bound(maps, T)``.
    With weights in [0, 1] the same holds of the weighted losses, and each change may cost -ln w more, where w is the
    weight of the label learnt last before it: a label that counts less sends back a smaller share.

    The best Platt map in hindsight lies between those of the grid, whose slopes are 0.1 and whose intercepts are 0.15
    apart: for it the bound is the largest of those of the four maps around it, and (0.01 z^2 + 0.0225) / 32 a row more,
    as the second derivative of the log loss is at most 1/4. The slope is in [0, 2] and the intercept in [-3, 3].

    Labels that overlap in time say little each: weigh them by their uniqueness, as `replay` does, or the mixture takes
    one event for as many as there are labels open while it happens. A label that comes late is learnt late; the bound
    is for labels that are known at once. To learn a row and to predict it costs some 40 microseconds.

    References
    ----------
    Gupta and Ramdas (2023), *Online Platt scaling with calibeating*, ICML.
    Herbster and Warmuth (1998), *Tracking the best expert*, Machine Learning 32.

    Examples
    --------
    >>> import calibrant as cb
    >>> online = cb.OnlinePlattCalibrator()
    >>> for day in range(200):  # the prediction is 0.9, and it happens on every other day
    ...     online.update([0.9], [day % 2])
    >>> online.predict_proba([0.9]).round(1)
    array([0.5])
    """

    def __init__(self, classes: ArrayLike = (0, 1), *, input: InputKind = "probability") -> None:
        self.classes = as_labels(classes, name="classes").classes
        if self.classes.size != 2:
            raise InvalidInputError(f"classes={classes!r:.80} are {count(self.classes.size, 'label')}. Pass two.")
        check_choice("input", input, ("probability", "logit"))
        self.input = input
        self.weight_ = np.tile(_PRIOR, (_SHARES.size, 1))
        self.log_share_weight_ = np.full(_SHARES.size, -math.log(_SHARES.size))
        self.n_labels_ = 0

    def predict_proba(self, scores: ArrayLike) -> Any:
        """Return the probability of the larger label for each score, by what was learnt so far.

        Parameters
        ----------
        scores : array-like of shape (n,)

        Returns
        -------
        probabilities : shape (n,)
            In the container that the scores came in.
        """
        checked = as_scores(scores, input=self.input, takes_one_column=True)
        _check_one_column(checked.n_columns)
        return checked.container.wrap(self._predict(self._logits(checked.values)))

    def update(self, scores: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> None:
        """Learn from labels, in the order in which they became known.

        Parameters
        ----------
        scores : array-like of shape (n,)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            In [0, 1]: how much of an independent label each is worth. Of weight 0 nothing is learnt.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why. Nothing was learnt then.
        """
        rows = self._rows(scores, y)
        weight = _weights(sample_weight, rows.n_rows)
        for z, positive, w in zip(self._logits(rows.scores), rows.positive, weight, strict=True):
            self._learn(float(z), bool(positive), float(w))

    def replay(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        time: ArrayLike,
        label_end: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> FloatArray:
        """Predict each row by the labels that were known before it, and learn from all of them.

        Parameters
        ----------
        scores, y : array-like of shape (n,)
        time, label_end : array-like of shape (n,)
            When each row is predicted, and when its label is known: it is used for rows that begin later than that.
        sample_weight : array-like of shape (n,), optional
            As in `update`; by default the uniqueness of each label: the mean, over the times while it is open, of one
            over the number of labels open then, which is known when the label is.

        Returns
        -------
        probabilities : ndarray of shape (n,)
            Of the larger label, in the order of the rows that were given.
        """
        rows = self._rows(scores, y)
        start, end = as_label_times(time, label_end)
        check_same_length(rows.n_rows, start.size, "scores", "time")
        weight = label_uniqueness_in_time(start, end) if sample_weight is None else _weights(sample_weight, rows.n_rows)
        z, positive = self._logits(rows.scores), rows.positive

        def learn(at: IntArray) -> None:
            for row in at.tolist():
                self._learn(float(z[row]), bool(positive[row]), float(weight[row]))

        known = np.argsort(end, kind="stable")
        moments, codes = np.unique(start, return_inverse=True)
        n_known = np.searchsorted(end[known], moments).tolist()
        out = np.empty(rows.n_rows)
        n_learnt = 0
        for code, at in rows_of_codes(codes, moments.size):
            learn(known[n_learnt : n_known[code]])
            n_learnt = n_known[code]
            out[at] = self._predict(z[at])
        learn(known[n_learnt:])
        return out

    def regret_bound(self, maps: ArrayLike, n_rows: int) -> float:
        """Return by how much the total log loss may exceed that of the maps of the grid nearest to some Platt maps.

        Parameters
        ----------
        maps : array-like of shape (S + 1, 2)
            Slope and intercept of the map of each stretch of rows, in their order.
        n_rows : int
            Number T of all rows.

        Returns
        -------
        bound : float
            The least, over the shares c that are kept side by side, of ln 6, and -ln of the weight that each map begins
            with, and for S changes -S ln c - (T - 1 - S) ln(1 - c).

        Raises
        ------
        CalibrantError
            If maps are no pairs of numbers, or are more than there are rows.
        """
        pairs = np.atleast_2d(as_scores(maps, name="maps", sum_to_one=False).values)
        if pairs.shape[1] != 2:
            raise ShapeError(
                f"maps has shape {pairs.shape}. Pass a slope and an intercept for each map, shape (S + 1, 2)."
            )
        n_rows = check_integer("n_rows", n_rows, minimum=len(pairs))
        places = [int(np.argmin((_SLOPE - a) ** 2 + (_INTERCEPT - b) ** 2)) for a, b in pairs]
        changes = len(places) - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            stay = -(n_rows - 1 - changes) * np.log1p(-_SHARES)
            change = -changes * np.log(_SHARES) if changes else 0.0
        return float(math.log(_SHARES.size) - np.log(_PRIOR[places]).sum() + (stay + change).min())

    def to_dict(self) -> dict[str, Any]:
        """Return all that it has learnt as plain values, for the next run to go on from."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "classes": self.classes.tolist(),
            "input": self.input,
            "n_labels": self.n_labels_,
            "log_share_weight": self.log_share_weight_.tolist(),
            "weight": self.weight_.tolist(),
        }

    @classmethod
    def from_dict(cls, state: object) -> Self:
        """Return the calibrator of a state that `to_dict` gave; raises DocumentError if it is no such state."""
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise DocumentError(
                "this is not the state of an online calibrator. Pass what OnlinePlattCalibrator.to_dict gave."
            )
        if state.get("version") != _VERSION:
            raise DocumentError(
                f"state of an online calibrator, version {state.get('version')!r}, which this release can't read."
            )
        names = ("format", "version", "classes", "input", "n_labels", "log_share_weight", "weight")
        with within("the state of the online calibrator is broken"):
            of = DocumentField(state, fix="Begin a new one.").members(names)
            inputs: tuple[InputKind, ...] = ("probability", "logit")
            made = cls(of["classes"].labels(minimum=2), input=of["input"].choice(inputs))
            made.n_labels_ = of["n_labels"].integer(minimum=0)
            found = of["log_share_weight"].numbers(minimum=_SHARES.size)
            weights = [row.numbers(minimum=_PRIOR.size) for row in of["weight"].items(minimum=_SHARES.size)]
            if found.size != _SHARES.size or abs(float(np.exp(found).sum()) - 1.0) > 1e-6:
                of["log_share_weight"].refuse(f"is not {_SHARES.size} logarithms of weights that sum to one")
            table = np.array([row for row in weights if row.size == _PRIOR.size])
            if len(table) != _SHARES.size or (table < 0.0).any() or (np.abs(table.sum(axis=1) - 1.0) > 1e-6).any():
                of["weight"].refuse(f"is not {_SHARES.size} times {_PRIOR.size} weights that sum to one")
            made.log_share_weight_, made.weight_ = found, table
        return made

    def __repr__(self) -> str:
        labels = quoted(self.classes.tolist())
        return f"OnlinePlattCalibrator(({labels}), input={self.input!r}): {count(self.n_labels_, 'label')} learnt"

    def _rows(self, scores: ArrayLike, y: ArrayLike) -> Rows:
        rows = read_rows(scores, y, input=self.input, classes=self.classes)
        _check_one_column(rows.n_columns)
        return rows

    def _logits(self, values: FloatArray) -> FloatArray:
        if self.input == "probability":
            with np.errstate(divide="ignore"):  # of 0 and 1 they are infinite, and count as the farthest
                values = logit(values)
        return np.clip(values, -_FARTHEST, _FARTHEST)

    def _predict(self, z: FloatArray) -> FloatArray:
        mixed = np.exp(self.log_share_weight_) @ self.weight_
        out = np.empty(z.size)
        for first in range(0, z.size, _BLOCK):
            part = z[first : first + _BLOCK]
            out[first : first + _BLOCK] = expit(np.outer(part, _SLOPE) + _INTERCEPT) @ mixed
        return out

    def _learn(self, z: float, positive: bool, weight: float) -> None:
        """Weigh the maps by the probability that they had for a label, and send a share back to where it began."""
        if weight == 0.0:
            return
        at = _SLOPE * z + _INTERCEPT
        likelihood = expit(at if positive else -at)
        if weight != 1.0:
            likelihood = likelihood**weight
        grown = self.weight_ * likelihood
        total = grown.sum(axis=1)
        self.log_share_weight_ += np.log(total)
        self.log_share_weight_ -= float(np.logaddexp.reduce(self.log_share_weight_))
        share = (weight * _SHARES)[:, None]
        self.weight_ = (1.0 - share) * grown / total[:, None] + share * _PRIOR
        self.n_labels_ += 1


def _check_one_column(n_columns: int) -> None:
    if n_columns != 1:
        raise ShapeError(f"scores has {n_columns} columns. Pass one: the scores of the larger label.")


def _weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    weight = as_weight(sample_weight, n, may_all_be_zero=True)
    if weight is None:
        return np.ones(n)
    above: BoolArray = weight > 1.0
    if above.any():
        problem = f"{weight[int(above.argmax())]:g} is above 1"
        raise InvalidInputError(at_first(above, "sample_weight", problem, "Pass weights in [0, 1]."))
    return weight
