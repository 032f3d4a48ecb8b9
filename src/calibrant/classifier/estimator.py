"""The calibrated classifier: scikit-learn's CalibratedClassifierCV, with any calibrator inside."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC
from sklearn.utils import Bunch, _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d

from calibrant.calibrators import ALIASES, CALIBRATORS
from calibrant.classifier.methods import Method, resolve
from calibrant.classifier.pairs import CalibratedPair, Output, fit_pair, mean_of_pairs, read_output, saved_form
from calibrant.classifier.splits import Split, refuse_prefit, splits
from calibrant.errors import DataWarning, InvalidInputError
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import as_weight, label_values

#: Integer labels whose range is smaller are counted, not sorted.
_FEW = 1 << 16


class CalibratedClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated on rows that it was not trained on.

    A drop-in for scikit-learn's class of the same name, with any calibrator as `method`.

    Parameters
    ----------
    estimator : estimator, optional
        The classifier; ``LinearSVC(random_state=0)`` by default. One that is fitted already comes in scikit-learn's
        ``FrozenEstimator``, and all rows then calibrate it.
    method : str, Calibrator or scikit-learn regressor
        How its output is calibrated: "sigmoid", "isotonic", "temperature", or any other name of a calibrator, such as
        "auto", "beta", "spline", "venn_abers", "mimic"; an unfitted calibrator; or a regressor that predicts
        outcomes of 0 and 1 from one column of scores.
    cv : int, splitter, iterable of (train, test), or None
        How rows are split; stratified five-fold by default. Test rows need not cover all rows, and may come more than
        once (time series, shuffles, repeats, purged and embargoed splits).
    n_jobs : int, optional
        Number of classifiers that are fitted at the same time.
    ensemble : bool or "auto"
        With True, each split gives a pair of a classifier and its calibrator, whose probabilities are averaged. With
        False, one calibrator is fitted to the out-of-sample output of all splits, and goes with a classifier that is
        fitted to all rows. "auto" is False for a ``FrozenEstimator``, else True.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    calibrated_classifiers_ : list of CalibratedPair
        The fitted pairs.
    calibrators_ : list of Calibrator
        Their calibrators: each can be saved, and applied to scores without the classifier.
    n_features_in_ : int
        Number of features, where the classifier says it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the classifier says them.

    Notes
    -----
    "sigmoid", "isotonic" and "temperature" calibrate the decision function where there is one, as scikit-learn has
    it; every other name calibrates predicted probabilities where there are any; an instance says by its `input` what
    it wants. Decision values go in as scores, or, into a calibrator that takes only probabilities, through the
    logistic function. Sigmoid of probabilities works on their logits, which can express the identity, where
    scikit-learn's works on the probabilities themselves.

    A pair whose training rows lack a class says nothing of it: the class gets the mean probability that the other
    pairs give it, and what that pair says is shared among the rest.

    A row that is tested by several splits counts once in all, in equal parts. With ``ensemble=False``, rows whose
    split was trained without one of the classes don't calibrate: the final classifier knows them all. See
    `CalibratedPair` for classes that a fold lacks. Single-precision output of the classifier stays in single
    precision.

    References
    ----------
    Zadrozny and Elkan (2002), *Transforming classifier scores into accurate multiclass probability estimates*, KDD.
    Niculescu-Mizil and Caruana (2005), *Predicting good probabilities with supervised learning*, ICML.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import calibrant as cb
    >>> X, y = make_classification(n_samples=200, random_state=0)
    >>> model = cb.CalibratedClassifierCV(GaussianNB(), method="beta", cv=3).fit(X, y)
    >>> len(model.calibrated_classifiers_)
    3
    >>> model.predict_proba(X[:2]).round(2)
    array([[0.97, 0.03],
           [0.07, 0.93]])
    """

    classes_: npt.NDArray[Any]
    calibrated_classifiers_: list[CalibratedPair]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"]), None],
        "method": [
            StrOptions({*CALIBRATORS, *ALIASES}),
            HasMethods(["fit", "predict_proba"]),
            HasMethods(["fit", "predict"]),
        ],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
        "ensemble": ["boolean", StrOptions({"auto"})],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Any = "sigmoid",
        cv: Any = None,
        n_jobs: int | None = None,
        ensemble: bool | Literal["auto"] = "auto",
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs
        self.ensemble = ensemble

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the pairs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            As the classifier takes it.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Always used by the calibrators, and by the classifier where it takes weights.
        **fit_params : dict
            Arguments of the classifier's `fit`, and `groups` of the splitter. With metadata routing enabled they go
            where they were requested.

        Returns
        -------
        self

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        refuse_prefit(self.cv)
        self._validate_params()
        X, y = indexable(X, y)
        y = _one_column(y)
        estimator = self._get_estimator()
        is_frozen = isinstance(estimator, FrozenEstimator)
        method = resolve(self.method, estimator)
        classes, codes = _encode(y)
        if is_frozen and hasattr(estimator, "classes_"):
            classes, codes = _with_known(estimator.classes_, classes, codes)
        n = codes.size
        params = self._routed(estimator, sample_weight, fit_params)
        weight = as_weight(sample_weight, n)
        fit = _Fit(estimator, method, classes, X, y, codes, weight, params.estimator.fit)
        if is_frozen and self.ensemble is not True:
            pairs = [fit.of_all_rows()]
        else:
            each = splits(self.cv, X, y, codes, params.splitter.split)
            make = fit.pair if self.ensemble is not False else fit.held_out
            found = Parallel(n_jobs=self.n_jobs)(delayed(make)(clone(estimator), split) for split in each)
            pairs = found if self.ensemble is not False else [fit.from_held_out(found)]
        self.classes_ = classes
        self.calibrated_classifiers_ = pairs
        _warn_of_missing(pairs, classes)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(pairs[0].estimator, name):
                setattr(self, name, getattr(pairs[0].estimator, name))
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Return calibrated probabilities: the mean of those of the pairs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n, K)
            Rows sum to one.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        first = pairs[0]
        if any(pair.estimator is not first.estimator for pair in pairs):
            outputs = [read_output(pair.estimator, pair.method, X, self.classes_) for pair in pairs]
        else:
            outputs = [read_output(first.estimator, first.method, X, self.classes_)] * len(pairs)
        return mean_of_pairs([pair.calibrate(output) for pair, output in zip(pairs, outputs, strict=True)], pairs)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each row, which need not be the one that the classifier predicts.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def calibrators_(self) -> list[Any]:
        """The calibrators of the pairs, which `calibrant.save` writes and which need no classifier."""
        return [saved_form(pair) for pair in self.calibrated_classifiers_]

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which arguments of `fit` go to the classifier and which to the splitter."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _routed(self, estimator: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
        """Return the arguments of the classifier's `fit` and of the splitter's `split`."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
        parameters = inspect.signature(estimator.fit).parameters
        params = dict(fit_params)
        groups = params.pop("groups", None)
        if groups is not None and "groups" in parameters:
            params["groups"] = groups
        is_frozen = isinstance(estimator, FrozenEstimator)
        if sample_weight is not None and "sample_weight" in parameters:
            params["sample_weight"] = sample_weight if hasattr(sample_weight, "__len__") else np.asarray(sample_weight)
        elif sample_weight is not None and not is_frozen:
            warnings.warn(
                f"{type(estimator).__name__}.fit takes no sample_weight: the weights are used by the calibration "
                "alone, of a classifier that was fitted without them",
                DataWarning,
                stacklevel=3,
            )
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={} if groups is None else {"groups": groups}))

    def _get_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        if get_config()["enable_metadata_routing"]:
            default.set_fit_request(sample_weight=True)
        return default

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._get_estimator()).input_tags.sparse
        return tags


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """What a classifier said of the rows of a split that it was not trained on."""

    output: Output
    rows: IntArray


@dataclass(frozen=True, slots=True)
class _Fit:
    """The arguments of a fit, checked."""

    estimator: Any
    method: Method
    classes: npt.NDArray[Any]
    X: Any
    y: Any
    codes: IntArray
    weight: FloatArray | None
    params: dict[str, Any]

    def pair(self, estimator: Any, split: Split) -> CalibratedPair:
        """Fit a classifier to the training rows, and its calibrator to the test rows."""
        held_out = self.held_out(estimator, split)
        return self._calibrate(estimator, held_out.output, held_out.rows, self._weight_of(held_out.rows))

    def held_out(self, estimator: Any, split: Split) -> _HeldOut:
        """Fit a classifier to the training rows, and return its output of the test rows."""
        train = split.train
        estimator.fit(_rows_of(self.X, train), _rows_of(self.y, train), **self._params_of(train))
        X_test = _rows_of(self.X, split.test)
        return _HeldOut(read_output(estimator, self.method, X_test, self.classes), split.test)

    def from_held_out(self, found: list[_HeldOut]) -> CalibratedPair:
        """Fit a classifier to all rows, and its calibrator to the output of all splits."""
        estimator = clone(self.estimator)
        estimator.fit(self.X, self.y, **self.params)
        whole = [part for part in found if part.output.known.size == self.classes.size]
        if not whole:
            raise InvalidInputError(
                "no split has training rows of all classes, so no prediction is like those of a classifier fitted to "
                "all rows. Pass stratified splits, fewer folds, or ensemble=True."
            )
        if len(whole) < len(found):
            n_dropped = sum(part.rows.size for part in found) - sum(part.rows.size for part in whole)
            warnings.warn(
                f"{len(found) - len(whole)} of {len(found)} splits were trained without one of the classes: their "
                f"{n_dropped:,} test rows don't calibrate",
                DataWarning,
                stacklevel=3,
            )
        rows = np.concatenate([part.rows for part in whole])
        values = np.concatenate([part.output.values for part in whole])
        weight = self._weight_of(rows)
        times = np.bincount(rows)
        if int(times.max()) > 1:  # rows that came several times count once in all
            weight = (1.0 if weight is None else weight) / times[rows]
        is_float32 = all(part.output.is_float32 for part in whole)
        output = Output(values, whole[0].output.known, is_float32)
        return self._calibrate(estimator, output, rows, weight)

    def of_all_rows(self) -> CalibratedPair:
        """Calibrate a classifier that was fitted before on all rows."""
        estimator = clone(self.estimator)
        output = read_output(estimator, self.method, self.X, self.classes)
        return self._calibrate(estimator, output, np.arange(self.codes.size), self.weight)

    def _calibrate(self, estimator: Any, output: Output, rows: IntArray, weight: FloatArray | None) -> CalibratedPair:
        return fit_pair(estimator, self.method, self.classes, output, self.codes[rows], weight)

    def _weight_of(self, rows: IntArray) -> FloatArray | None:
        return None if self.weight is None else self.weight[rows]

    def _params_of(self, rows: IntArray) -> dict[str, Any]:
        """Return the arguments of the classifier's fit, those of one entry per row cut to the rows."""
        n = self.codes.size
        return {
            name: _rows_of(value, rows) if value is not None and _length(value) == n else value
            for name, value in self.params.items()
        }


def _rows_of(values: Any, rows: IntArray) -> Any:
    """Return some rows of a table of any kind."""
    if type(values) is np.ndarray:
        return values.take(rows, axis=0)  # several times as fast as an index
    return _safe_indexing(values, rows)


def _one_column(y: Any) -> Any:
    """Return the labels as one column, with scikit-learn's warning where they came as a table of one."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iubU"):
        check_classification_targets(y)
    shape = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 else y


def _encode(y: Any) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the sorted classes, and the position of each label among them."""
    values = label_values(y, "y")
    if values.dtype.kind in "iub" and values.size and int(values.max()) - int(values.min()) < _FEW:
        least = int(values.min())
        counts = np.bincount(values.astype(np.int64) - least)
        present = np.flatnonzero(counts)
        position = np.cumsum(counts > 0) - 1
        return (present + least).astype(values.dtype), position[values.astype(np.int64) - least]
    classes, codes = np.unique(values, return_inverse=True)
    return classes, codes.astype(np.int64)


def _with_known(
    known: npt.NDArray[Any], classes: npt.NDArray[Any], codes: IntArray
) -> tuple[npt.NDArray[Any], IntArray]:
    """Add the classes of a classifier that was fitted before, which the calibration rows may lack."""
    every = np.union1d(known, classes)
    return every, np.searchsorted(every, classes)[codes]


def _length(value: Any) -> int | None:
    if isinstance(value, (str, bytes, dict)):
        return None
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if hasattr(value, "__len__") else None


def _warn_of_missing(pairs: list[CalibratedPair], classes: npt.NDArray[Any]) -> None:
    """Say once which classes some calibration rows lack."""
    lacking = np.unique(np.concatenate([np.setdiff1d(pair.known, pair.fitted) for pair in pairs]).astype(np.int64))
    if lacking.size:
        n_pairs = sum(np.setdiff1d(pair.known, pair.fitted).size > 0 for pair in pairs)
        warnings.warn(
            f"class {classes[lacking].tolist()[:20]!r}: {n_pairs} of {len(pairs)} calibrations saw no row of it, and "
            "keep the classifier's probability of it, at least 1 / (n + 2)",
            DataWarning,
            stacklevel=3,
        )
