"""Stacking: averages of models and a meta-learner, on raw and on calibrated predictions, compared on rows unseen.

Each model is fitted out of fold to the rows before the test part, and once to all of them. The meta-learner is fitted
to out-of-fold predictions alone: in-sample ones would make it trust the model that overfits most.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.dependence import Dependence, Units
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import binned_error, make_bins, row_brier, row_log_loss
from calibrant.numerics import FloatArray, IntArray, clip_as_given, softmax
from calibrant.phrases import quoted
from calibrant.results import plain
from calibrant.rows import Rows, by_class
from calibrant.training.block_bootstrap import PairedMean, mean_over_blocks
from calibrant.training.calibration import deployed
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.estimators import short_name
from calibrant.training.metrics_report import AFTER, BEFORE, Forecasts
from calibrant.training.models import make_model
from calibrant.training.out_of_fold import Variant, fit_stopped, out_of_fold_predictions
from calibrant.training.run_log import LOGGER
from calibrant.training.trainer import Trained
from calibrant.validation import ArrayLike, Labels, Scores, as_labels, as_probabilities, as_weight, check_same_length

_LOG = logging.getLogger(f"{LOGGER}.stack")
CLASS_FREQUENCIES = "class frequencies"
_N_BINS = 10
#: "raw" and "calibrated" probabilities by model.
_Said: TypeAlias = Mapping[str, Mapping[str, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class MetaLearner:
    """A multinomial logistic regression over the log-probabilities of several models.

    Attributes
    ----------
    coef : ndarray of shape (m * K, K)
        What each centred log-probability adds to each class's logit.
    intercept : ndarray of shape (K,)
    clip : float
        Where probabilities are cut from below.
    classes : ndarray of shape (K,)
        The labels, sorted.
    """

    coef: FloatArray
    intercept: FloatArray
    clip: float
    classes: npt.NDArray[Any]

    def predict_proba(self, members: Sequence[ArrayLike]) -> FloatArray:
        """Return probabilities, shape (n, K), from those of the models, in the order of the fit.

        Columns whose names hold the classes are matched by these.
        """
        parts = in_class_order(read_members(members), self.classes)
        if len(parts) * parts[0].shape[1] != len(self.coef):
            raise ShapeError(
                f"members holds {len(parts)} models of {parts[0].shape[1]} classes, but this learner was fitted to "
                f"{len(self.coef)} columns. Pass the models of the fit, in its order."
            )
        x = _log_ratios(parts, self.clip)
        return softmax(np.einsum("ij,jk->ik", x, self.coef) + self.intercept)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values; what is not finite becomes None."""
        parts = {"classes": self.classes, "coef": self.coef, "intercept": self.intercept, "clip": self.clip}
        found: dict[str, Any] = plain({"inputs": "calibrated probabilities", **parts})
        return found


@dataclass(frozen=True, slots=True)
class StackedMethod:
    """One way to use the models, on the test rows."""

    name: str
    log_loss: float
    #: The sum over classes.
    brier: float
    #: Of the predicted class, over ten equal widths.
    ece: float
    #: Log loss less that of the class frequencies: below zero where anything was learnt.
    skill: PairedMean


@dataclass(frozen=True, slots=True)
class StackComparison:
    """Ways to use the models, and what calibrated inputs changed."""

    methods: tuple[StackedMethod, ...]
    #: Log loss with calibrated inputs less that with raw ones, on the same rows; below zero where calibration helps.
    #: Those of which one is infinite are left out.
    differences: Mapping[str, PairedMean]
    #: One minus the log loss with calibrated inputs over that with raw ones; its error is that of a ratio of means.
    gains: Mapping[str, PairedMean]
    #: Test rows, and how many of them make a block.
    n_rows: int
    block: int


def fit_meta_learner(
    members: Sequence[ArrayLike],
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    C: float = 0.1,
) -> MetaLearner:
    """Fit a multinomial logistic regression to the out-of-fold predictions of several models.

    Parameters
    ----------
    members : sequence of array-like of shape (n, K)
        Out-of-fold probabilities of each model: in-sample ones would make the learner trust the most overfitted.
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
    classes : array-like of shape (K,), optional
        All labels, sorted, where `y` may lack some, or holds others than 0 to K - 1.
    C : float
        Inverse strength of the ridge penalty, as in scikit-learn; on columns that are not scaled.

    Returns
    -------
    MetaLearner

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    References
    ----------
    Wolpert (1992), *Stacked generalization*, Neural Networks 5.
    Ting and Witten (1999), *Issues in stacked generalization*, JAIR 10: probabilities as inputs.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    checked = read_members(members)
    n, n_classes = checked[0].values.shape
    labels = as_labels(y, name="y", classes=classes, n_columns=n_classes)
    parts = in_class_order(checked, labels.classes)
    check_same_length(n, labels.codes.size, "members", "y")
    weight = as_weight(sample_weight, n, rows="members")
    clip = min(clip_as_given(part, float(n)) for part in parts)
    codes = labels.codes.astype(np.int64)
    present = np.unique(codes if weight is None else codes[weight > 0.0])
    if present.size < 2:
        raise InvalidInputError("y holds one class only among rows with weight. Pass rows of at least two classes.")
    x = _log_ratios(parts, clip)
    fitted = LogisticRegression(C=C, max_iter=1000)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            fitted.fit(x, codes, sample_weight=weight)
    except ConvergenceWarning:
        # of log-probabilities in hundreds, as naive Bayes has them: Newton's steps know scale
        fitted.set_params(solver="newton-cholesky").fit(x, codes, sample_weight=weight)
    coef, intercept = np.zeros((x.shape[1], n_classes)), np.full(n_classes, -np.inf)
    if present.size == 2:  # scikit-learn then fits the logit of the second class
        coef[:, present[1]], intercept[present] = fitted.coef_[0], (0.0, fitted.intercept_[0])
    else:
        coef[:, present], intercept[present] = fitted.coef_.T, fitted.intercept_
    return MetaLearner(coef, intercept, clip, labels.classes)


def stack_predictions(
    fit: _Said, test: _Said, labels: Labels, *, sample_weight: FloatArray | None = None
) -> dict[str, FloatArray]:
    """Return what each way of using the models says of the test rows.

    `fit` and `test` hold "raw" and "calibrated" probabilities by model: out-of-fold ones of the rows whose labels and
    weights are given, to which meta-learners are fitted; and those of the test rows, by the same models fitted to all
    other rows.
    """
    if not fit["raw"]:
        raise InvalidInputError("there is no model to stack. Pass the predictions of at least one.")
    rates = np.bincount(labels.codes, minlength=len(labels.classes)) / labels.codes.size
    made = {CLASS_FREQUENCIES: np.tile(rates, (len(next(iter(test["raw"].values()))), 1))}
    for kind, members in test.items():
        made |= {f"{name}, {kind}": prob for name, prob in members.items()}
    for kind, members in test.items():
        made[f"average, {kind}"] = np.mean(list(members.values()), axis=0)
    for kind, members in test.items():
        learner = fit_meta_learner(
            list(fit[kind].values()), labels.values, sample_weight=sample_weight, classes=labels.classes
        )
        made[f"meta-learner, {kind}"] = learner.predict_proba([members[name] for name in fit[kind]])
    return made


def compare_stacks(
    predictions: Mapping[str, FloatArray], labels: Labels, *, dependence: Dependence | None = None, level: float = 0.95
) -> StackComparison:
    """Compare predictions of the same test rows, with paired intervals over blocks of time, as a run's figures have.

    `predictions` are those of `stack_predictions`; without `dependence` rows are independent.
    """
    n = labels.codes.size
    units = (None if dependence is None else dependence.units()) or Units.of_rows(n)
    mean = partial(mean_over_blocks, units=units, level=level)
    block = n // units.n
    rows = {name: Rows(np.ascontiguousarray(prob), labels) for name, prob in predictions.items()}
    losses = {name: row_log_loss(r) for name, r in rows.items()}
    infinite = {name for name, loss in losses.items() if not np.isfinite(loss).all()}
    finite = {name: loss for name, loss in losses.items() if name not in infinite}
    beyond = PairedMean(float("inf"), float("nan"), float("nan"), float("nan"), level, n, block)
    skills = dict.fromkeys(infinite, beyond)
    if CLASS_FREQUENCIES in finite:
        skills |= {name: mean(loss - finite[CLASS_FREQUENCIES]) for name, loss in finite.items()}
    else:  # a class that no earlier row is of: no finite loss is better than none
        skills |= {name: replace(beyond, value=float("-inf")) for name in finite}
    skills[CLASS_FREQUENCIES] = PairedMean(0.0, 0.0, 0.0, 0.0, level, n, block)
    methods = []
    for name, each in rows.items():
        ece = float(binned_error(make_bins(each.top_label().summary(), _N_BINS, "uniform"), "l1"))
        brier = float(row_brier(each).mean())
        methods.append(StackedMethod(name, float(losses[name].mean()), brier, ece, skills[name]))
    pairs = {
        name.removesuffix(", calibrated"): (losses[name.replace(", calibrated", ", raw")], losses[name])
        for name in losses
        if name.endswith(", calibrated") and not infinite & {name, name.replace(", calibrated", ", raw")}
    }
    changed = {name: mean(after - before) for name, (before, after) in pairs.items()}
    gains = {name: mean(_gain(before, after)) for name, (before, after) in pairs.items() if before.any()}
    return StackComparison(tuple(methods), changed, gains, n, block)


def _gain(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return, for each row, what it adds to one minus the mean loss after over the mean loss before.

    The mean of these is that share, and their standard error is its standard error to first order.
    """
    of_before = before.mean()
    ratio = after.mean() / of_before
    found: FloatArray = 1.0 - ratio + (ratio * before - after) / of_before
    return found


def read_members(members: Sequence[ArrayLike]) -> list[Scores]:
    """Check probabilities of several models: the same number of rows and classes in each."""
    checked = [as_probabilities(member, name=f"members[{i}]") for i, member in enumerate(members)]
    if not checked:
        raise InvalidInputError("members is empty. Pass the probabilities of at least one model.")
    shapes = [one.values.shape for one in checked]
    for i, shape in enumerate(shapes):
        if len(shape) != 2 or shape != shapes[0]:
            raise ShapeError(
                f"members[{i}] has shape {shape} and members[0] {shapes[0]}. Pass one column per class, "
                "shape (n, K), the same for all models."
            )
    return checked


def in_class_order(members: Sequence[Scores], classes: npt.NDArray[Any]) -> list[FloatArray]:
    """Return the probabilities of several models, columns with names in the order of the classes."""
    return [by_class(one, classes, f"members[{i}]").values for i, one in enumerate(members)]


def _log_ratios(parts: Sequence[FloatArray], clip: float) -> FloatArray:
    logs = [np.log(np.maximum(part, clip)) for part in parts]
    return np.hstack([z - z.mean(axis=1, keepdims=True) for z in logs])


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Models, and what ways of using them say of the test part."""

    #: The models by name, fitted to all rows before the test part.
    members: dict[str, Trained]
    #: The fold of each of these rows, and how many models each member's out-of-fold predictions took.
    fold: IntArray
    n_models: int
    #: As `stack_predictions` gives them.
    predictions: dict[str, FloatArray]
    #: Fitted to calibrated out-of-fold predictions.
    meta_learner: MetaLearner
    before: Dataset
    test: Dataset

    def compare(self) -> StackComparison:
        """Compare the ways on the test part."""
        dependence = Dependence(time=self.test.time, label_end=self.test.label_end)
        return compare_stacks(self.predictions, self.test.labels, dependence=dependence)

    def forecasts(self) -> tuple[Forecasts, Forecasts]:
        """Return the plain averages of the models: out of fold, and of the test part."""
        found = self.members.values()
        return Forecasts.average([one.earlier for one in found]), Forecasts.average([one.test for one in found])


def model_names(models: Sequence[Any]) -> list[str]:
    """Return what files and columns call each of several models; refuse two of one name."""
    names = [short_name(model) if isinstance(model, str) else type(model).__name__ for model in models]
    if not names:
        raise InvalidInputError("models names none. Pass the name of a model at least.")
    for name in names:
        alike = [str(model) for model, other in zip(models, names, strict=True) if other == name]
        if (twice := next((text for text in alike if alike.count(text) > 1), None)) is not None:
            raise InvalidInputError(f"models names {twice!r} twice. Pass different models.")
        if len(alike) > 1:
            raise InvalidInputError(
                f"models {quoted(alike)} are of classes of one name, {name!r}, by which files and columns would call "
                "each of them. Give the classes different names."
            )
    return names


def fit_stack(
    config: TrainConfig,
    models: Sequence[Any],
    before: Dataset,
    test: Dataset,
    *,
    variant: Variant = "nested",
    n_folds: int = 5,
) -> Stack:
    """Fit each model out of fold and to all rows before the test part, and stack them.

    Of the settings those of calibration, weights, seed and threads are used, and `params`, which are those of one
    library, where there is one model. `variant` and `n_folds` are those of `out_of_fold_predictions`. The labels of the
    test part are read by nothing here.
    """
    names = model_names(models)
    if config.params and len(names) > 1:
        raise InvalidInputError(
            f"params={config.params!r:.80} are those of one library, and there are {len(names)} models. Leave them "
            "out, or pass one model."
        )
    library = config.of_library()
    weights: dict[str, Any] = {"uniqueness": config.uniqueness, "class_weight": config.class_weight}
    how: dict[str, Any] = {"calibrator": config.calibrator, "calibrate": config.calibrate, **library, **weights}
    members = {}
    for name, model in zip(names, models, strict=True):
        tell = partial(_LOG.info, "%s, %s", name)
        found = out_of_fold_predictions(before, model, variant=variant, n_folds=n_folds, progress=tell, **how)
        unfitted = make_model(model, before.classes.size, **library)
        fitted, shift = fit_stopped(unfitted, before, np.arange(before.n_rows), **weights)
        _LOG.info("%s: %s", name, found.calibration.describe())
        calibrator, raw = deployed(found.calibration.calibrator, shift), fitted.predict_proba(test.X)
        members[name] = Trained(
            fitted,
            found.calibration,
            calibrator,
            Forecasts.beside_rates(found.raw, found.calibrated, before),
            Forecasts.beside_rates(raw, calibrator.apply(Rows(raw)), before),
            {"train": found.train_s, "calibrate": found.calibrate_s},
        )
    return stack_members(members, found.fold, found.n_models, before, test)


def stack_members(members: dict[str, Trained], fold: IntArray, n_models: int, before: Dataset, test: Dataset) -> Stack:
    """Stack models that were fitted, or whose predictions are given: the labels of the test part are read by nothing.

    `fold` is the fold of each row before it, and `n_models` how many models each member's predictions took.
    """
    fit, later = (
        {kind: {name: getattr(one, part).named()[kind] for name, one in members.items()} for kind in (BEFORE, AFTER)}
        for part in ("earlier", "test")
    )
    predictions = stack_predictions(fit, later, before.labels, sample_weight=before.weight)
    learner = fit_meta_learner(list(fit[AFTER].values()), before.y, sample_weight=before.weight, classes=before.classes)
    return Stack(members, fold, n_models, predictions, learner, before, test)
