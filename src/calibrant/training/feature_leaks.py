"""Features of a table that tell a label too well to have been known before it."""

from __future__ import annotations

import math

import numpy as np

from calibrant.metrics import roc_auc
from calibrant.training.dataset import Dataset

#: The area under the ROC curve from which a feature is asked whether it was known when the row was predicted: of any
#: table, and of a market, whose returns are given, where hardly anything that is known tells so much: the second was
#: chosen above what our own features have on five sets of bars (at most 0.76, on the VIX, which falls after it rose).
SUSPICIOUS_AUC, SUSPICIOUS_IN_A_MARKET = 0.995, 0.8
#: Standard errors, of as many rows as the labels are worth, that an area has to lie above one half besides.
_BEYOND_CHANCE = 4.0
_FEWEST_ROWS = 10


def feature_warnings(data: Dataset) -> list[str]:
    """Return a warning for each feature that, all alone, ranks the rows of a class before or behind nearly all others.

    A column of the future does: a copy of the label, what was written down when it became known, or the return that
    the label is the sign of. Of a market less is enough. Elsewhere what knows the future only dimly looks like a good
    feature, and can't be told from one.
    """
    limit = SUSPICIOUS_AUC if data.label_return is None else SUSPICIOUS_IN_A_MARKET
    worth = np.bincount(data.codes, weights=data.weight, minlength=data.classes.size)
    found = []
    for j, name in enumerate(data.names):
        # a missing feature ranks behind all others: a column that is filled in with the label tells it too
        rank = np.unique(data.X[:, j], return_inverse=True)[1].reshape(-1).astype(np.float64)
        for code, label in enumerate(data.classes.tolist()):
            is_class = data.codes == code
            if min(is_class.sum(), (~is_class).sum()) < _FEWEST_ROWS:
                continue
            area = float(roc_auc(is_class, rank / data.n_rows))
            if max(area, 1.0 - area) >= max(limit, 0.5 + _BEYOND_CHANCE * _error(worth[code], worth.sum())):
                found.append(
                    f"leak? The column {name!r} alone tells the label {label!r} from all others (area under the ROC "
                    f"curve {area:.4f}): leave it out if it isn't known yet when a row is predicted"
                )
                break
    return found


def _error(n_class: float, n: float) -> float:
    """Return the standard error of the area where a feature tells nothing (Mann and Whitney 1947)."""
    others = max(n - n_class, 1.0)
    return math.sqrt((n + 1.0) / (12.0 * max(n_class, 1.0) * others))
