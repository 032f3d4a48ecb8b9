"""Stacking: averages of models and a meta-learner, on raw and on calibrated predictions, compared on rows unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import binned_error, make_bins, row_brier, row_log_loss
from calibrant.numerics import FloatArray, clip_from_data, softmax
from calibrant.results import plain
from calibrant.rows import Rows
from calibrant.training.paired import PairedMean, paired_means
from calibrant.validation import ArrayLike, Labels, as_labels, as_probabilities, as_weight, check_same_length

NO_SKILL = "class frequencies"
_N_BINS = 10


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
    """

    coef: FloatArray
    intercept: FloatArray
    clip: float

    def predict_proba(self, members: Sequence[ArrayLike]) -> FloatArray:
        """Return probabilities, shape (n, K), from those of the models, in the order of the fit."""
        parts = read_members(members)
        if len(parts) * parts[0].shape[1] != len(self.coef):
            raise ShapeError(
                f"members holds {len(parts)} models of {parts[0].shape[1]} classes, but this learner was fitted to "
                f"{len(self.coef)} columns. Pass the models of the fit, in its order."
            )
        x = _log_ratios(parts, self.clip)
        return softmax(np.einsum("ij,jk->ik", x, self.coef) + self.intercept)


@dataclass(frozen=True, slots=True)
class StackedMethod:
    """One way to use the models, on the test rows.

    Attributes
    ----------
    name : str
    log_loss, brier, ece : float
        The Brier score is the sum over classes, and the ECE that of the predicted class over ten equal widths.
    skill : PairedMean
        Log loss less that of the class frequencies: below zero where anything was learnt.
    """

    name: str
    log_loss: float
    brier: float
    ece: float
    skill: PairedMean


@dataclass(frozen=True, slots=True)
class StackComparison:
    """Ways to use the models, and what calibrated inputs changed.

    Attributes
    ----------
    methods : tuple of StackedMethod
    differences : dict of str to PairedMean
        Log loss with calibrated inputs less that with raw ones, on the same rows; below zero where calibration helps.
    n_rows, block : int
        Test rows, and the length of the blocks of their bootstrap.
    """

    methods: tuple[StackedMethod, ...]
    differences: Mapping[str, PairedMean]
    n_rows: int
    block: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; what is not finite becomes None."""
        result: dict[str, Any] = plain(asdict(self))
        return result


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
    from sklearn.linear_model import LogisticRegression

    parts = read_members(members)
    n, n_classes = parts[0].shape
    labels = as_labels(y, name="y", classes=classes, n_columns=n_classes)
    check_same_length(n, labels.codes.size, "members", "y")
    weight = as_weight(sample_weight, n, rows="members")
    clip = min(clip_from_data(part, float(n)) for part in parts)
    codes = labels.codes.astype(np.int64)
    present = np.unique(codes if weight is None else codes[weight > 0.0])
    if present.size < 2:
        raise InvalidInputError("y holds one class only among rows with weight. Pass rows of at least two classes.")
    x = _log_ratios(parts, clip)
    fitted = LogisticRegression(C=C, max_iter=1000).fit(x, codes, sample_weight=weight)
    coef, intercept = np.zeros((x.shape[1], n_classes)), np.full(n_classes, -np.inf)
    if present.size == 2:  # scikit-learn then fits the logit of the second class
        coef[:, present[1]], intercept[present] = fitted.coef_[0], (0.0, fitted.intercept_[0])
    else:
        coef[:, present], intercept[present] = fitted.coef_.T, fitted.intercept_
    return MetaLearner(coef, intercept, clip)


def stack_predictions(
    fit_raw: Mapping[str, FloatArray],
    fit_calibrated: Mapping[str, FloatArray],
    test_raw: Mapping[str, FloatArray],
    test_calibrated: Mapping[str, FloatArray],
    labels: Labels,
    *,
    sample_weight: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Return what each way of using the models says of the test rows.

    Parameters
    ----------
    fit_raw, fit_calibrated : mapping of str to ndarray of shape (n, K)
        Out-of-fold probabilities by model: what meta-learners are fitted to.
    test_raw, test_calibrated : mapping of str to ndarray of shape (n_test, K)
        Probabilities of the test rows, by the same models fitted to all other rows.
    labels : Labels
        Of the rows of the fit.
    sample_weight : ndarray of shape (n,), optional
        Of the rows of the fit.

    Returns
    -------
    dict of str to ndarray of shape (n_test, K)
    """
    if not fit_raw:
        raise InvalidInputError("there is no model to stack. Pass the predictions of at least one.")
    n_test = len(next(iter(test_raw.values())))
    rates = np.bincount(labels.codes, minlength=len(labels.classes)) / labels.codes.size
    made = {NO_SKILL: np.broadcast_to(rates, (n_test, rates.size)).copy()}
    inputs = {"raw": (fit_raw, test_raw), "calibrated": (fit_calibrated, test_calibrated)}
    for kind, (_, test) in inputs.items():
        made |= {f"{name}, {kind}": prob for name, prob in test.items()}
    for kind, (_, test) in inputs.items():
        made[f"average, {kind}"] = np.mean(list(test.values()), axis=0)
    for kind, (fit, test) in inputs.items():
        y = labels.classes[labels.codes]
        learner = fit_meta_learner(list(fit.values()), y, sample_weight=sample_weight, classes=labels.classes)
        made[f"meta-learner, {kind}"] = learner.predict_proba([test[name] for name in fit])
    return made


def compare_stacks(
    predictions: Mapping[str, FloatArray], labels: Labels, *, block: int = 1, level: float = 0.95, seed: int = 0
) -> StackComparison:
    """Compare predictions of the same test rows, in the order of time, with paired block-bootstrap intervals.

    Parameters
    ----------
    predictions : mapping of str to ndarray of shape (n, K)
        As `stack_predictions` returns them.
    labels : Labels
        Of the test rows.
    block : int
        As `block_length` gives it.
    level : float
        Nominal coverage.
    seed : int
        Of the bootstrap.
    """
    n = labels.codes.size
    rows = {name: Rows(np.ascontiguousarray(prob), labels, None) for name, prob in predictions.items()}
    losses = {name: row_log_loss(r) for name, r in rows.items()}
    skills = paired_means(losses, baseline=NO_SKILL, block=block, level=level, rng=seed)
    skills[NO_SKILL] = PairedMean(0.0, 0.0, 0.0, 0.0, level, n, block)
    methods = tuple(
        StackedMethod(name, float(losses[name].mean()), float(row_brier(r).mean()), _ece(r), skills[name])
        for name, r in rows.items()
    )
    differences = {
        name.removesuffix(", calibrated"): losses[name] - losses[name.replace(", calibrated", ", raw")]
        for name in losses
        if name.endswith(", calibrated")
    }
    changed = paired_means(differences, block=block, level=level, rng=seed) if differences else {}
    return StackComparison(methods, changed, n, block)


def read_members(members: Sequence[ArrayLike]) -> list[FloatArray]:
    """Check probabilities of several models: the same rows and classes in each."""
    parts = [as_probabilities(member, name=f"members[{i}]").values for i, member in enumerate(members)]
    if not parts:
        raise InvalidInputError("members is empty. Pass the probabilities of at least one model.")
    for i, part in enumerate(parts):
        if part.ndim != 2 or part.shape != parts[0].shape:
            raise ShapeError(
                f"members[{i}] has shape {part.shape} and members[0] {parts[0].shape}. Pass one column per class, "
                "shape (n, K), the same for all models."
            )
    return parts


def _log_ratios(parts: Sequence[FloatArray], clip: float) -> FloatArray:
    """Return the centred logarithms of probabilities, side by side."""
    logs = [np.log(np.maximum(part, clip)) for part in parts]
    return np.hstack([z - z.mean(axis=1, keepdims=True) for z in logs])


def _ece(rows: Rows) -> float:
    return float(binned_error(make_bins(rows.top_label().summary(), _N_BINS, "uniform"), "l1"))
