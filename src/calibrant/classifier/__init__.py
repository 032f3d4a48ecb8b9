"""scikit-learn classifiers with calibrated probabilities."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    message = "CalibratedClassifierCV wraps scikit-learn's classifiers: pip install 'calibrant[sklearn]'"
    raise ImportError(message) from error

from calibrant.classifier.estimator import CalibratedClassifierCV as CalibratedClassifierCV
from calibrant.classifier.pairs import CalibratedPair as CalibratedPair
