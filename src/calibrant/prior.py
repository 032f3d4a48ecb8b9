"""Class priors: the exact correction of probabilities for a base rate, or a share of kept rows, that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant import persistence
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.maps import BetaMap, Map, SoftmaxMap
from calibrant.numerics import EPS, ROW_SUM_TOLERANCE, TINY, FloatArray, row_sum
from calibrant.persistence.calibrator_codec import decode_classes
from calibrant.persistence.fields import Field
from calibrant.validation import ArrayLike, InputKind, as_labels, as_probabilities, as_scores

KIND = "prior_shift"


def prior_shift(probabilities: ArrayLike, *, old: ArrayLike, new: ArrayLike) -> Any:
    """Correct probabilities for a change of the classes' base rates, by Bayes' rule.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each class, where the base rates were `old`.
    old, new : float or array-like of shape (K,)
        Base rates before and after: for one column that of the positive class, or of both classes; else of each
        class, summing to one. None may be 0 or 1.

    Returns
    -------
    probabilities : shape (n,) or (n, K)
        In the container that they came in. 0 stays 0 and 1 stays 1.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    p_k new_k / old_k, divided by its sum over the classes. Exact where the classes look as before (label shift: the
    distribution of features within each class is the same) and the probabilities were calibrated under `old`.

    References
    ----------
    Saerens, Latinne and Decaestecker (2002), *Adjusting the outputs of a classifier to new a priori probabilities:
    a simple procedure*, Neural Computation 14, equation 2.4. Elkan (2001), *The foundations of cost-sensitive
    learning*, IJCAI, theorem 2.

    Examples
    --------
    >>> from calibrant.prior import prior_shift
    >>> prior_shift([0.5, 0.9], old=0.5, new=0.1)
    array([0.1, 0.5])
    """
    return PriorShift.from_priors(old=old, new=new).predict_proba(probabilities)


def undo_sampling(probabilities: ArrayLike, *, kept: ArrayLike) -> Any:
    """Correct the probabilities of a model that was trained on rows of some classes more than of others.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each class, as learned from the sampled rows.
    kept : array-like of shape (K,)
        Share of the rows of each class that was kept, in the order of the sorted classes; for one column, of the
        negative class and of the positive one. Above 1 where rows were repeated, or weighted: only the ratios count.

    Returns
    -------
    probabilities : shape (n,) or (n, K)
        In the container that they came in.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    p_k / kept_k, divided by its sum over the classes: exact where rows of a class were kept by chance alone.

    References
    ----------
    Elkan (2001), *The foundations of cost-sensitive learning*, IJCAI, theorem 2.

    Examples
    --------
    >>> from calibrant.prior import undo_sampling
    >>> undo_sampling([0.5], kept=[0.1, 1.0]).round(6)  # one in ten of the negative rows was kept
    array([0.090909])
    """
    return PriorShift.from_sampling(kept=kept).predict_proba(probabilities)


class PriorShift:
    """A correction for known class priors, to be kept in a file and applied as a calibrator is.

    Parameters
    ----------
    factor : array-like of shape (K,)
        What the probability of each class is multiplied by, before the sum over classes is brought to one. Only
        ratios count. See `from_priors` and `from_sampling`.
    classes : sequence of shape (K,), optional
        The labels, sorted; 0 to K - 1 by default.

    Examples
    --------
    >>> import calibrant as cb
    >>> shift = cb.prior.PriorShift.from_priors(old=0.5, new=0.1)
    >>> shift.predict_proba([0.5])
    array([0.1])
    """

    input: ClassVar[InputKind] = "probability"
    #: No rows were needed.
    n_rows_: ClassVar[int] = 0
    score_names_: ClassVar[None] = None
    metadata_: dict[str, Any]

    def __init__(self, factor: ArrayLike, *, classes: Sequence[Any] | None = None) -> None:
        self.factor = _positive(factor, "factor")
        labels = list(range(self.factor.size)) if classes is None else list(classes)
        if len(labels) != self.factor.size:
            raise ShapeError(f"classes names {len(labels)} classes for {self.factor.size} factors. Pass one for each.")
        self.classes_: npt.NDArray[Any] = as_labels(labels, name="classes", classes=labels).classes

    @classmethod
    def from_priors(cls, *, old: ArrayLike, new: ArrayLike, classes: Sequence[Any] | None = None) -> PriorShift:
        """Correct from the base rates `old` to the base rates `new`; see `prior_shift`."""
        before, after = _rates(old, "old"), _rates(new, "new")
        if before.size != after.size:
            raise ShapeError(f"old has {before.size} base rates and new has {after.size}. Pass one per class in both.")
        return cls(after / before, classes=classes)

    @classmethod
    def from_sampling(cls, *, kept: ArrayLike, classes: Sequence[Any] | None = None) -> PriorShift:
        """Correct for training on the share `kept` of each class; see `undo_sampling`."""
        return cls(1.0 / _positive(kept, "kept"), classes=classes)

    @property
    def map_(self) -> Map:
        """The correction as a map: of the positive class for two classes, else of a row of K.

        Probabilities below 2^-53, or of 1 for two classes, are moved inward so far; `predict_proba` has no such need.
        """
        shift = np.log(self.factor)
        if shift.size == 2:
            return BetaMap(1.0, 1.0, float(shift[1] - shift[0]), 0.5 * EPS)
        return SoftmaxMap(np.array(1.0), shift, TINY)

    def predict_proba(self, probabilities: ArrayLike) -> Any:
        """Return corrected probabilities, in the container that they came in.

        Parameters
        ----------
        probabilities : array-like of shape (n,) or (n, K)
            Of the positive class where there are two, or one column per class.

        Raises
        ------
        CalibrantError
            If they can't be used, or have another number of columns.
        """
        checked = as_probabilities(probabilities, name="probabilities")
        p, factor = checked.values, self.factor / self.factor.max()
        if p.ndim == 1 and factor.size == 2:
            positive = p * factor[1]
            return checked.container.wrap(positive / (positive + (1.0 - p) * factor[0]))
        if checked.n_columns != factor.size:
            raise ShapeError(
                f"probabilities has {checked.n_columns} columns, and the correction is for {factor.size} classes. "
                "Pass one column per class."
            )
        weighted = p * factor
        return checked.container.wrap(weighted / row_sum(weighted)[:, None])

    def __repr__(self) -> str:
        return f"PriorShift({self.factor.tolist()!r}, classes={self.classes_.tolist()!r})"


def _rates(rates: ArrayLike, name: str) -> FloatArray:
    """Return the base rate of each class, from that of the positive one or from all."""
    if np.ndim(rates) == 0:
        rate = as_scores([rates], name=name).values[0]
        if not 0.0 < rate < 1.0:
            raise InvalidInputError(f"{name}={rates!r} is no base rate. Pass a number between 0 and 1.")
        return np.array([1.0 - rate, rate])
    values = _positive(rates, name)
    if abs(float(values.sum()) - 1.0) > ROW_SUM_TOLERANCE:
        raise InvalidInputError(f"{name} sums to {float(values.sum()):.6g}, not 1. Divide it by its sum first.")
    return values


def _positive(values: ArrayLike, name: str) -> FloatArray:
    checked = as_scores(values, name=name).values
    if checked.ndim != 1 or checked.size < 2:
        raise ShapeError(f"{name} has shape {checked.shape}. Pass one number per class.")
    bad = checked <= 0.0
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"{name}[{k}] is {checked[k].item()!r}. Pass numbers above 0.")
    return checked


def _encode(shift: PriorShift) -> dict[str, Any]:
    return {"factor": shift.factor.tolist(), "classes": shift.classes_.tolist()}


def _decode(body: dict[str, Any]) -> PriorShift:
    fields = Field(body).members(("factor", "classes"))
    factor, classes = fields["factor"].numbers(minimum=2), decode_classes(fields["classes"])
    if (factor <= 0.0).any():
        fields["factor"].refuse("holds a number that is not above 0")
    if factor.size != len(classes):
        fields["factor"].refuse(f"does not go with {len(classes)} classes: one number for each is needed")
    return PriorShift(factor, classes=classes.tolist())


persistence.register_kind(KIND, PriorShift, _encode, _decode)
