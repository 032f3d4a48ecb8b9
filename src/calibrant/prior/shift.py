"""The exact correction of probabilities for base rates, shares of kept rows, or class weights that are known.

`PriorEstimate` is what finds base rates that are not known, and gives the correction that follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.document_field import DocumentField
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, ShapeError, warn
from calibrant.fitted import MapFitted
from calibrant.maps import BetaMap, Map, SoftmaxMap
from calibrant.numerics import LEAST, ROW_SUM_TOLERANCE, TINY, FloatArray, least_output, row_sum
from calibrant.prior.rates import weighted_rates
from calibrant.results import Plain
from calibrant.storable import register
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    Labels,
    as_labels,
    as_scores,
    as_weight,
    match_names,
    read_names,
    read_native,
)


def prior_shift(probabilities: ArrayLike, *, old: ArrayLike, new: ArrayLike) -> Any:
    """Return probabilities for changed base rates of the classes, by Bayes' rule, in the container they came in.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each class, where the base rates were `old`.
    old, new : float, or array-like, Series or mapping of K numbers
        Base rates before and after: for one column that of the positive class, or of both classes; else of each
        class, summing to one. None may be 0 or 1. Names of classes are matched to those of the columns.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    p_k new_k / old_k, divided by its sum over the classes; 0 stays 0 and 1 stays 1. Exact where the classes look as
    before (label shift: the distribution of features within each class is the same) and the probabilities were
    calibrated under `old`.

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
    columns = read_columns(probabilities)
    (before, after), classes = by_class({"old": old, "new": new}, rates, None, columns=columns)
    return PriorShift(after / before, classes=classes).predict_proba(probabilities)


def undo_sampling(probabilities: ArrayLike, *, kept: ArrayLike) -> Any:
    """Correct the probabilities of a model that was trained on rows of some classes more than of others.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        As learned from the sampled rows.
    kept : array-like, Series or mapping of K numbers
        Share of the rows of each class that was kept, in the order of the sorted classes, or by their names; for one
        column, of the negative class and of the positive one. Above 1 where rows were repeated, or weighted: only
        the ratios count.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    p_k / kept_k, divided by its sum over the classes: exact where rows of a class were kept by chance alone (Elkan
    2001, theorem 2).

    Examples
    --------
    >>> from calibrant.prior import undo_sampling
    >>> undo_sampling([0.5], kept=[0.1, 1.0]).round(6)  # one in ten of the negative rows was kept
    array([0.090909])
    """
    (share,), classes = by_class({"kept": kept}, _positive, None, columns=read_columns(probabilities))
    return PriorShift(1.0 / share, classes=classes).predict_proba(probabilities)


def undo_class_weight(
    probabilities: ArrayLike, *, class_weight: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> Any:
    """Correct the probabilities of a model that was trained with weights on its classes.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        As learned with the weights.
    class_weight : mapping, Series, array-like of shape (K,) or "balanced"
        What scikit-learn's models take as `class_weight`: weights by label or in the order of the sorted classes, or
        the inverse of the class's rate.
    y : array-like of shape (n_train,), optional
        The labels that the model was trained on. Needed for "balanced"; beside a mapping it names the classes, and
        those that the mapping lacks have the weight 1.
    sample_weight : array-like of shape (n_train,), optional
        Weights of the rows of `y`, for a model that balanced the weights of the classes and not their rows.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A class of weight w was trained on as if it had w times its rows: p_k / w_k, divided by its sum over the classes.
    Exact where the model would have learned the rates of the weighted rows; regularised models do so roughly.
    No temperature repairs class weights: undo them first, and calibrate then.

    Examples
    --------
    >>> from calibrant.prior import undo_class_weight
    >>> undo_class_weight([0.5], class_weight={"no": 1.0, "yes": 9.0})
    array([0.1])
    >>> undo_class_weight([0.5], class_weight="balanced", y=["no"] * 9 + ["yes"])
    array([0.1])
    """
    return PriorShift.from_class_weight(class_weight, y=y, sample_weight=sample_weight).predict_proba(probabilities)


@register("prior_shift")
class PriorShift(MapFitted):
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
    >>> shift = cb.prior.PriorShift.from_priors(old={"no": 0.5, "yes": 0.5}, new={"yes": 0.1, "no": 0.9})
    >>> shift.classes_.tolist(), shift.predict_proba([0.5])
    (['no', 'yes'], array([0.1]))
    """

    score_argument: ClassVar[str] = "probabilities"
    input: InputKind = "probability"
    #: No rows were needed.
    n_rows_: int = 0
    score_names_: tuple[str, ...] | None = None

    def __init__(self, factor: ArrayLike, *, classes: Sequence[Any] | None = None) -> None:
        self.factor = _positive(factor, "factor")
        if _is_too_wide(self.factor):
            raise InvalidInputError(
                f"factor holds {float(self.factor.min())!r} and {float(self.factor.max())!r}, of which a class would "
                "vanish altogether. Pass factors whose ratios are below 1e300."
            )
        self.classes_: npt.NDArray[Any] = class_labels(classes, self.factor.size)

    @classmethod
    def from_priors(cls, *, old: ArrayLike, new: ArrayLike, classes: Sequence[Any] | None = None) -> PriorShift:
        """Correct from the base rates `old` to the base rates `new`; see `prior_shift`.

        Rates with names are matched to each other, or to `classes`.
        """
        (before, after), labels = by_class({"old": old, "new": new}, rates, classes)
        return cls(after / before, classes=labels)

    @classmethod
    def from_sampling(cls, *, kept: ArrayLike, classes: Sequence[Any] | None = None) -> PriorShift:
        """Correct for training on the share `kept` of each class; see `undo_sampling`."""
        (share,), labels = by_class({"kept": kept}, _positive, classes)
        return cls(1.0 / share, classes=labels)

    @classmethod
    def from_class_weight(
        cls, class_weight: Any, *, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> PriorShift:
        """Correct for training with weights on the classes; see `undo_class_weight`."""
        labels = None if y is None else as_labels(y, name="y")
        if sample_weight is not None and labels is None:
            raise InvalidInputError("sample_weight is for the rows of y. Pass y too, or leave it out.")
        if isinstance(class_weight, str):
            weight, classes = _balanced(class_weight, labels, sample_weight)
        else:
            weight, classes = _weight_of_each(class_weight, None if labels is None else labels.classes.tolist())
        return cls.from_sampling(kept=weight, classes=classes)

    @property
    def map_(self) -> Map:  # type: ignore[override]
        """The correction as a map: of the positive class for two classes, else of a row of K.

        It moves probabilities of 0 inward to the smallest number, and of two classes those above 1 - 1e-12 to that;
        `predict_proba`, SQL and ONNX leave 0 and 1 what they are.
        """
        shift = np.log(self.factor)
        if shift.size == 2:
            return BetaMap(1.0, 1.0, float(shift[1] - shift[0]), LEAST)
        return SoftmaxMap(np.array(1.0), shift, TINY)

    def apply_values(self, values: FloatArray) -> FloatArray:
        factor = self.factor / self.factor.max()  # and not by `map_`, so that 0 and 1 stay what they are
        if values.ndim == 1:
            positive = values * factor[1]
            return np.asarray(positive / (positive + (1.0 - values) * factor[0]))
        weighted = values * factor
        return np.asarray(weighted / row_sum(weighted)[:, None])

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        factor = self.factor / self.factor.max()
        p = scores if n_columns > 1 else b.columns([1.0 - scores, scores])
        least = np.where(factor < 1.0, TINY / factor, 0.0)  # smaller products are an error in some engines
        weighted = b.hold(b.choose(p < b.number(least), b.number(0.0), p) * b.number(factor))
        shifted = weighted / b.total(weighted)
        return shifted if n_columns > 1 else b.column(shifted, 1)

    def encode(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "factor": self.factor.tolist()}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        parts = body.members(("classes", "factor"))
        classes, factor = parts["classes"].labels(minimum=2), parts["factor"].numbers(minimum=2)
        if (factor <= 0.0).any():
            parts["factor"].refuse("holds a number that is not above 0")
        if _is_too_wide(factor):
            parts["factor"].refuse("holds numbers whose ratio is beyond 1e300")
        if factor.size != len(classes):
            parts["factor"].refuse(f"does not go with {len(classes)} classes: one number for each is needed")
        return cls(factor, classes=classes.tolist())

    def __repr__(self) -> str:
        return f"PriorShift({self.factor.tolist()!r}, classes={self.classes_.tolist()!r})"


def _is_too_wide(factor: FloatArray) -> bool:
    """Say whether the smallest factor, beside the largest, could make a probability of nearly one vanish."""
    return bool(factor.min() < 1e-300 * factor.max())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorEstimate(Plain):
    """Base rates of rows without labels, estimated from their predictions.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    old : ndarray of shape (K,)
        Base rates that the predictions were made for.
    new, low, high : ndarray of shape (K,)
        Estimated base rates, which sum to one, and the ends of the interval of each.
    level : float
        Nominal coverage of each interval.
    n : int
        Number of rows without labels.
    method : str
        How rates and intervals were found.
    statistic, p_value : float
        Test of "no shift": chi-squared with K - 1 degrees of freedom.
    """

    classes: npt.NDArray[Any]
    old: FloatArray
    new: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    n: int
    method: str
    statistic: float
    p_value: float

    def shift(self) -> PriorShift:
        """Return the correction from the old rates to the new ones.

        A class whose new rate is below 1 / (n + 2) gets that rate, and a warning says so: no number of rows shows
        that a class is absent, and its probabilities could never rise again.
        """
        least = least_output(self.n)
        rare = self.new < least
        if rare.any():
            named = ", ".join(repr(label) for label in self.classes[rare].tolist())
            warn(
                f"the new rate of {named} is below {least:.2g}, one row in {self.n + 2:,}, and is taken as that. "
                "Use PriorShift.from_priors to set the rates yourself.",
                DataWarning,
            )
        new = np.maximum(self.new, least)
        return PriorShift.from_priors(old=self.old, new=new / new.sum(), classes=self.classes.tolist())


def read_columns(table: ArrayLike) -> list[str]:
    """Return the names of the columns of a frame; none of other containers, or where columns are merely numbered."""
    import narwhals as nw

    frame = read_native(table, "probabilities")
    columns = list(map(str, frame.columns)) if isinstance(frame, nw.DataFrame) else []
    return [] if columns == [str(k) for k in range(len(columns))] else columns


def by_class(
    given: Mapping[str, ArrayLike],
    read: Callable[[ArrayLike, str], FloatArray],
    classes: Sequence[Any] | None,
    *,
    columns: Sequence[str] | None = None,
) -> tuple[list[FloatArray], list[Any] | None]:
    """Return arguments with a number for each class in the order of the sorted classes, and these if they are known.

    `read` checks the numbers of an argument. `classes` are the sorted classes, where the caller says them; `columns`
    the names of the columns of the probabilities that the numbers are for: empty where they have none, None where
    there are no probabilities yet.
    """
    parts = {name: read_names(value, name=name) for name, value in given.items()}
    values = {name: read(value, name) for name, (value, _) in parts.items()}
    (first, size), *others = ((name, numbers.size) for name, numbers in values.items())
    for name, other in others:
        if other != size:
            raise ShapeError(f"{first} has {size} base rates and {name} has {other}. Pass one per class in both.")
    named = {name: found for name, (_, found) in parts.items() if found is not None}
    for name, found in named.items():
        again = [each for each in found if found.count(each) > 1]
        if again:
            raise InvalidInputError(f"{name} has the name {again[0]!r} twice. Give each number a name of its own.")
    known: Sequence[Any] | None = classes
    of = "classes"
    if classes is None and named:
        of, labels = next(iter(named.items()))
        if columns:
            known = [labels[k] for k in match_names(labels, columns, name=of, of="probabilities") or ()]
        else:
            known = as_labels(labels, name=f"the index of {of}").classes.tolist()
            unnamed = [name for name in given if name not in named]
            unnamed += ["probabilities"] if columns is not None else ["classes"] if len(given) == 1 else []
            for name, found in named.items() if unnamed else ():
                match_names(found, None, name=name, of=unnamed[-1])
    if known is None:
        return list(values.values()), None
    if len(known) != size:
        raise ShapeError(f"{of} names {len(known)} classes for {size} numbers of {first}. Pass one for each.")
    places = {name: match_names(named.get(name), known, name=name, of=of) for name in given}
    arranged = [numbers if places[name] is None else numbers[places[name]] for name, numbers in values.items()]
    if classes is not None:
        return arranged, list(classes)
    ordered = as_labels(known, name=f"the index of {of}").classes.tolist()
    return [numbers[[known.index(label) for label in ordered]] for numbers in arranged], ordered


def class_labels(classes: Sequence[Any] | None, n_classes: int) -> npt.NDArray[Any]:
    """Check the names of `n_classes` classes; None stands for 0, 1 and so on."""
    labels = list(range(n_classes)) if classes is None else list(classes)
    if len(labels) != n_classes:
        raise ShapeError(f"classes names {len(labels)} classes for {n_classes} factors. Pass one for each.")
    return as_labels(labels, name="classes", classes=labels).classes


def rates(given: ArrayLike, name: str) -> FloatArray:
    """Return the base rate of each class, from that of the positive one or from all."""
    if np.ndim(given) == 0:
        rate = as_scores([given], name=name).values[0]
        if not 0.0 < rate < 1.0:
            raise InvalidInputError(f"{name}={given!r} is no base rate. Pass a number between 0 and 1.")
        return np.array([1.0 - rate, rate])
    values = _positive(given, name)
    if abs(float(values.sum()) - 1.0) > ROW_SUM_TOLERANCE:
        raise InvalidInputError(f"{name} sums to {float(values.sum()):.6g}, not 1. Divide it by its sum first.")
    return values


def _balanced(
    class_weight: str, labels: Labels | None, sample_weight: ArrayLike | None
) -> tuple[ArrayLike, list[Any] | None]:
    """Return the weights that scikit-learn calls balanced, up to a factor, and their classes."""
    if class_weight != "balanced":
        raise InvalidInputError(f'class_weight={class_weight!r} is no weight. Pass "balanced", or one per class.')
    if labels is None:
        raise InvalidInputError('class_weight="balanced" depends on the training labels. Pass them as y.')
    share = weighted_rates(labels, as_weight(sample_weight, labels.codes.size, rows="y"))[0]
    classes = labels.classes.tolist()
    if not share.all():
        absent = classes[int(share.argmin())]
        raise InvalidLabelError(f"y holds the class {absent!r} in rows of weight 0 only. Give one a weight above 0.")
    return 1.0 / share, classes


def _weight_of_each(class_weight: Any, classes: list[Any] | None) -> tuple[ArrayLike, list[Any] | None]:
    """Return the weight of each of the sorted classes, and these if they are known: one that has no weight has 1."""
    weights, names = read_names(class_weight, name="class_weight")
    if names is None:
        return _positive(weights, "class_weight"), classes
    if classes is None:
        classes = as_labels(names, name="class_weight").classes.tolist()
    unknown = [label for label in names if label not in classes]
    if unknown:
        raise InvalidLabelError(f"class_weight names {unknown[0]!r}, none of the labels {classes!r:.200} of y.")
    by_name = dict(zip(names, weights, strict=True))
    return [by_name.get(label, 1.0) for label in classes], classes


def _positive(values: ArrayLike, name: str) -> FloatArray:
    checked = as_scores(values, name=name).values
    if checked.ndim != 1 or checked.size < 2:
        raise ShapeError(f"{name} has shape {checked.shape}. Pass one number per class.")
    bad = checked <= 0.0
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"{name}[{k}] is {checked[k].item()!r}. Pass numbers above 0.")
    return checked
