"""The calibrated classifier: scikit-learn's CalibratedClassifierCV, with any calibrator inside."""

from __future__ import annotations

import inspect
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

from calibrant.calibrators import ALIASES, CALIBRATORS
from calibrant.classifier.array_kind import ArrayKind, as_given, as_numpy
from calibrant.classifier.fitting import ClassFitting, Fitting, MultilabelFitting
from calibrant.classifier.methods import refuse_misspelt, resolve
from calibrant.classifier.multilabel import is_multilabel, label_matrix
from calibrant.classifier.pairs import Pair, interval_of_pairs, mean_of_pairs, saved_form
from calibrant.classifier.splits import refuse_prefit, splits
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, warn
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.validation import as_groups, as_weight, label_values, normalise_labels

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
        The labels, sorted; of indicators a list of L arrays [0, 1].
    calibrated_classifiers_ : list of CalibratedPair or MultilabelPair
        The fitted pairs.
    calibrators_ : list of Calibrator or MultilabelCalibrator
        Their calibrators: each can be saved, and applied to scores without the classifier.
    n_features_in_ : int
        Number of features, where the classifier says it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the classifier says them.

    Notes
    -----
    "sigmoid", "isotonic" and "temperature" calibrate the decision function where there is one, as scikit-learn has
    it; every other name calibrates predicted probabilities where there are any; an instance says by its `input` what
    it wants. Decision values go in as scores, or, into a calibrator that takes only probabilities, through the
    logistic function. Sigmoid of probabilities works on their logits, which can express the identity, where
    scikit-learn's works on the probabilities themselves: ``method=SigmoidCalibrator(on="probability")`` gives its
    numbers for classifiers without a decision function.

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
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.95, 0.05]])
    """

    classes_: npt.NDArray[Any] | list[npt.NDArray[Any]]
    calibrated_classifiers_: list[Pair]

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
        y : array-like of shape (n,), or indicators of shape (n, L)
            Labels; or, of any number of labels per row, 1 where the row has it.
        sample_weight : array-like of shape (n,) or float, optional
            Always used by the calibrators, and by the classifier where it takes weights. A number is that of all rows.
        **fit_params : dict
            Arguments of the classifier's `fit`, and `groups` of the splitter: the cluster of each row, such as a
            patient. Where `cv` is a number or None, its folds then keep clusters whole, unlike scikit-learn's, which
            pass over them; a calibrator that cross-validates keeps them whole too. With metadata routing enabled
            arguments go where they were requested.

        Returns
        -------
        self

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        refuse_prefit(self.cv)
        refuse_misspelt(self.method)
        self._validate_params()
        X, y = indexable(X, y)
        n = _num_samples(X)  # which refuses None
        if isinstance(sample_weight, Real):  # of all rows, as in scikit-learn
            sample_weight = np.full(n, float(sample_weight))
        estimator = self._get_estimator()
        method = resolve(self.method, estimator)
        is_frozen = isinstance(estimator, FrozenEstimator)
        if is_frozen:
            check_is_fitted(estimator)
        params = self._routed(estimator, sample_weight, fit_params)
        sample_weight = as_numpy(sample_weight, "sample_weight")
        groups = params.splitter.split.get("groups")
        cluster = None if groups is None else _clusters(groups)
        fitting: Fitting
        if is_multilabel(y):
            has_label = label_matrix(y)
            codes = None
            weight = as_weight(sample_weight, len(has_label), rows="y")
            fitting = MultilabelFitting(estimator, method, X, y, weight, params.estimator.fit, cluster, has_label)
            found_classes: Any = [np.array([0, 1])] * has_label.shape[1]
        else:
            y = _one_column(y)
            classes, codes = _encode(as_numpy(y, "y"))
            if is_frozen and hasattr(estimator, "classes_"):  # which the calibration rows may lack
                classes, codes = _with_known(as_numpy(estimator.classes_, "classes_"), classes, codes)
            if len(classes) < 2:
                raise InvalidLabelError(
                    f"y holds one class only, {classes.tolist()[0]!r}, in all {codes.size:,} rows. Pass rows of at "
                    "least two classes."
                )
            weight = as_weight(sample_weight, codes.size, rows="y")
            is_coded = not is_frozen and classes.dtype.kind not in "iubf" and ArrayKind.of(X) is not None
            y = as_given(codes, X) if is_coded else y
            fit = params.estimator.fit
            fitting = ClassFitting(estimator, method, X, y, weight, fit, cluster, classes, codes, is_coded)
            found_classes = as_given(classes, X)
        if is_frozen and self.ensemble is not True:
            pairs = [fitting.of_all_rows()]
        else:
            each = splits(self.cv, X, y, fitting.n_rows, codes, params.splitter.split)
            make = fitting.pair if self.ensemble is not False else fitting.held_out
            found = Parallel(n_jobs=self.n_jobs)(delayed(make)(clone(estimator), split) for split in each)
            pairs = found if self.ensemble is not False else [fitting.from_held_out(found)]
        self.classes_, self.calibrated_classifiers_ = found_classes, pairs
        _warn_of_missing(pairs)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(pairs[0].estimator, name):
                setattr(self, name, getattr(pairs[0].estimator, name))
        return self

    def onnx_model(self, dtype: Any) -> Any:
        """Return the classifier with its calibrators as an ONNX model; see `calibrant.persistence.to_onnx`."""
        from calibrant.classifier.onnx_graph import classifier_to_onnx

        return classifier_to_onnx(self, dtype)

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Return calibrated probabilities: the mean of those of the pairs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n, K)
            Rows sum to one; of indicators, shape (n, L), each label's own probability.
        """
        self._check_given(X, "predict_proba")
        found: npt.NDArray[np.floating[Any]] = as_given(mean_of_pairs(self.calibrated_classifiers_, X), X)
        return found

    def predict_interval(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper Venn-Abers probabilities of each class, of a classifier with method="venn_abers".

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        p0, p1 : ndarray of shape (n, K)
            Means over the pairs of the two isotonic fits, with the new row as none and as one of the class; see
            `VennAbersCalibrator`. `predict_proba` lies between them for two classes.

        Raises
        ------
        CalibrantError
            If the method is another one, or a class was not in all calibration rows.
        """
        self._check_given(X, "predict_interval")
        p0, p1 = interval_of_pairs(self.calibrated_classifiers_, X)
        return as_given(p0, X), as_given(p1, X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each row, which need not be the one that the classifier predicts.

        Of indicators, 1 for each label that is more probable than not.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,) or (n, L)
        """
        self._check_given(X, "predict")
        q = mean_of_pairs(self.calibrated_classifiers_, X)
        if isinstance(self.classes_, list):
            found = (q > 0.5).astype(np.int64)
        else:
            found = np.asarray(as_numpy(self.classes_, "classes_"))[q.argmax(axis=1)]
        labels: npt.NDArray[Any] = as_given(found, X)
        return labels

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

    def _check_given(self, X: Any, method: str) -> None:
        """Refuse new rows before a fit, and those of another library of arrays than the fit's."""
        check_is_fitted(self)
        if not get_config()["array_api_dispatch"]:
            return
        fitted, given = self.calibrated_classifiers_[0].kind, ArrayKind.of(X)
        is_same = given is None if fitted is None else fitted.is_with(given)
        if not is_same:
            raise InvalidInputError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device as "
                f"those passed to fit(), which were {fitted or 'of numpy'}; these: {given or 'of numpy'}. Convert them."
            )

    def _routed(self, estimator: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
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
        inner = get_tags(self._get_estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.array_api_support = inner.array_api_support
        return tags


def _one_column(y: Any) -> Any:
    """Return the labels as one column, with scikit-learn's warning where they came as a table of one."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iubU"):
        try:
            check_classification_targets(y)
        except TypeError:  # labels without an order: missing ones and mixed kinds are told by their rows
            normalise_labels(label_values(as_numpy(y, "y"), "y"), "y")
            raise
    shape = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 else y


def _encode(y: Any) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the sorted classes, of the type that scikit-learn gives them, and the position of each label there."""
    values = label_values(y, "y")
    if values.dtype.kind == "O" and isinstance(y, (list, tuple)):
        normalise_labels(values, "y")  # refuses mixed kinds, which NumPy makes text of
        values = np.asarray(y)
    elif values.dtype.kind == "U" and np.asarray(y).dtype.kind == "O":  # of categories
        values = values.astype(object)
    if values.dtype.kind in "iub" and values.size and int(values.max()) - int(values.min()) < _FEW:
        least = int(values.min())
        counts = np.bincount(values.astype(np.int64) - least)
        present = np.flatnonzero(counts)
        position = np.cumsum(counts > 0) - 1
        return (present + least).astype(values.dtype), position[values.astype(np.int64) - least]
    classes, codes = np.unique(values, return_inverse=True)
    return classes, codes.astype(np.int64)


def _clusters(groups: Any) -> IntArray:
    """Return the number of each row's group, which for scikit-learn's splitters may be any number too."""
    values = label_values(as_numpy(groups, "groups"), "groups")
    if values.dtype.kind == "f" and not np.isnan(values).any():
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    return as_groups(values).codes.astype(np.int64)


def _with_known(
    known: npt.NDArray[Any], classes: npt.NDArray[Any], codes: IntArray
) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the classes that a frozen classifier knows or y holds, and the position of each label among them."""
    labels = set(known.tolist())
    is_other = np.array([label not in labels for label in classes.tolist()])
    others = quoted(classes[is_other].tolist(), most=10)
    if is_other.all():
        raise InvalidLabelError(
            f"y holds {others} in all {codes.size:,} rows, and the frozen classifier knows none of these, but "
            f"{quoted(known.tolist(), most=10)}. Pass the labels that it was fitted to."
        )
    if is_other.any():
        warn(
            f"y holds {others}, in {int(is_other[codes].sum()):,} of {codes.size:,} rows, which the frozen classifier "
            "doesn't know: these rows don't calibrate, and get probability 0 for their label",
            DataWarning,
        )
    every = np.union1d(known, classes)
    return every, np.searchsorted(every, classes)[codes]


def _warn_of_missing(pairs: list[Pair]) -> None:
    lacking = [pair.lacking for pair in pairs]
    labels = sorted({label for each in lacking for label in each}, key=repr)
    if labels:
        warnings.warn(
            f"class {labels[:20]!r}: {sum(map(bool, lacking))} of {len(pairs)} calibrations saw no row of it, and "
            "keep the classifier's probability of it, at least 1 / (n + 2) beside n rows of other classes",
            DataWarning,
            stacklevel=3,
        )
