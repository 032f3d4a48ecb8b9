"""Features of a table that tell a label too well to have been known before it."""

from __future__ import annotations

import numpy as np

from calibrant.metrics import roc_auc
from calibrant.training.dataset import Dataset

#: The area under the ROC curve from which one feature is asked whether it was known when the row was predicted.
SUSPICIOUS_AUC = 0.995
_FEWEST_ROWS = 10


def feature_warnings(data: Dataset) -> list[str]:
    """Return a warning for each feature that, all alone, ranks the rows of a class before or behind nearly all others.

    A column of the future does: a copy of the label, what was written down when it became known, or the return that
    the label is the sign of. What knows the future only dimly looks like a good feature, and can't be told from one.
    """
    found = []
    for j, name in enumerate(data.names):
        # a missing feature ranks behind all others: a column that is filled in with the label tells it too
        rank = np.unique(data.X[:, j], return_inverse=True)[1].reshape(-1).astype(np.float64)
        for code, label in enumerate(data.classes.tolist()):
            is_class = data.codes == code
            if min(is_class.sum(), (~is_class).sum()) < _FEWEST_ROWS:
                continue
            area = float(roc_auc(is_class, rank / data.n_rows))
            if max(area, 1.0 - area) >= SUSPICIOUS_AUC:
                found.append(
                    f"leak? In the test part the column {name!r} alone tells the label {label!r} from all others (area "
                    f"under the ROC curve {area:.4f}): leave it out if it isn't known yet when a row is predicted"
                )
                break
    return found
