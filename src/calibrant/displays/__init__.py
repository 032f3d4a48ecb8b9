"""Pictures with matplotlib, which is imported when something is drawn.

Each display is made of numbers that are measured elsewhere, or measures them itself in a constructor `from_...`. These
raise a CalibrantError where an argument can't be used, which says where and why, and scikit-learn's NotFittedError for
an estimator that is not fitted. `plot` draws on given axes or in a figure of its own, shows nothing, touches no global
setting, sets `ax_` and `figure_`, and returns the display.
"""

from calibrant._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
