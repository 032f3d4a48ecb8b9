"""calibrant: predicted probabilities that mean what they say.

Importing the package imports none of its parts: each is loaded when its name, written in `__init__.pyi`, is first used.
"""

from calibrant._lazy import attach, name_document_homes
from calibrant._version import __version__ as __version__

name_document_homes(
    {
        "calibrator": "calibrant.calibrators",
        "chain": "calibrant.chain",
        "forecast_recalibrator": "calibrant.forecasts",
        "grouped_calibrator": "calibrant.grouped",
        "multilabel_calibrator": "calibrant.multilabel",
        "prior_shift": "calibrant.prior",
        "probability_calibrator": "calibrant.probability",
        "rank_preserving_calibrator": "calibrant.rank_preserving",
        "segment_calibrator": "calibrant.segments",
        "segment_mean_calibrator": "calibrant.segments",
    }
)
__getattr__, __dir__, __all__ = attach(__name__, __file__)
