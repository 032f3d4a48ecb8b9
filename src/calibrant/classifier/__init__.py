"""scikit-learn classifiers with calibrated probabilities."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("CalibratedClassifierCV wraps scikit-learn's classifiers: pip install scikit-learn") from error

from calibrant.classifier.estimator import CalibratedClassifierCV
from calibrant.classifier.pairs import CalibratedPair

__all__ = ["CalibratedClassifierCV", "CalibratedPair"]
