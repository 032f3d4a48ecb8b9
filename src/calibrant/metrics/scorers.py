"""Scorers for scikit-learn's model selection, made of the metrics by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calibrant.errors import InvalidTypeError, MissingPackageError, unknown_name
from calibrant.metrics.calibration_error import ece, ece_debiased, max_calibration_error
from calibrant.metrics.calibration_index import integrated_calibration_index
from calibrant.metrics.proper_scores import brier_score, log_loss
from calibrant.metrics.ranking import roc_auc
from calibrant.metrics.smooth_ece import smooth_ece

#: The metrics of probabilities that make a scorer, by name; more is better of those in `_GREATER`.
_METRICS: dict[str, Callable[..., float]] = {
    "log_loss": log_loss,
    "brier_score": brier_score,
    "ece": ece,
    "ece_debiased": ece_debiased,
    "smooth_ece": smooth_ece,
    "max_calibration_error": max_calibration_error,
    "integrated_calibration_index": integrated_calibration_index,
    "roc_auc": roc_auc,
}
_GREATER = ("roc_auc",)


def scorer(metric: str, **options: Any) -> Any:
    """Make a scorer of a metric, for `scoring=` of scikit-learn's `cross_val_score`, `GridSearchCV` and the like.

    Parameters
    ----------
    metric : str
        "log_loss", "brier_score", "ece", "ece_debiased", "smooth_ece", "max_calibration_error",
        "integrated_calibration_index" or "roc_auc".
    **options
        Those of the metric, such as `n_bins`, `clip` of the log loss, or `classes`, all classes, sorted: needed where a
        fold may lack one.

    Returns
    -------
    callable
        What `sklearn.metrics.make_scorer` makes. Scorers are greater where a model is better, so that losses and errors
        have a minus sign. Of two classes the probability is that of the larger label.

    Raises
    ------
    CalibrantError
        If there is no such metric.

    Notes
    -----
    A proper score, log loss or Brier, is what to choose a model by: a calibration error alone is least for a model that
    predicts the base rate for every row. The log loss is infinite where something happened that had probability 0;
    scikit-learn's own moves such probabilities by its `eps`, here `clip` does.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant.metrics import scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer("brier_score"), cv=3).round(3).tolist()
    [-0.079, -0.047, -0.044]
    """
    if not isinstance(metric, str):
        raise InvalidTypeError(f"metric={metric!r} is no name. Pass one of {', '.join(map(repr, _METRICS))}.")
    if metric not in _METRICS:
        raise unknown_name("metric", metric, _METRICS)
    try:
        from sklearn.metrics import make_scorer
    except ImportError:
        raise MissingPackageError("scorers are made by scikit-learn: pip install 'calibrant[sklearn]'") from None
    is_greater = metric in _GREATER
    return make_scorer(_METRICS[metric], response_method="predict_proba", greater_is_better=is_greater, **options)
