"""What every object that loads must be able to do, however odd the numbers in its document are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calibrant.numerics import LARGEST
from calibrant.persistence import from_document, to_document

_ENDS = [0.0, -0.0, 1.0, -1.0, 0.3, 5e-324, 1e-300, 800.0, 1e150, -1e150, LARGEST, -LARGEST]


def scores_of(fitted: Any) -> Any:
    """Return scores at all ends of what an object takes."""
    width = fitted.widths[0]
    ends = np.array([0.0, 5e-324, 1e-300, 0.3, 0.7, 1.0] if fitted.input == "probability" else _ENDS)
    if width == 1:
        return ends
    if not fitted.sums_to_one:
        return np.array([np.roll(np.resize(ends, width), i) for i in range(len(ends))] + [[e] * width for e in ends])
    eye = np.eye(width)
    return np.vstack([eye, (eye + 5e-324 * (1.0 - eye)), np.full((1, width), 1.0 / width), 0.9 * eye + 0.1 / width])


def features_of(fitted: Any, n: int) -> dict[str, Any]:
    """Return the features that an object needs, with values that are missing and that no fit has seen."""
    values = {"number": np.array([0.0, np.nan, -1e300, 40.5]), "category": np.array(["Rome", None], dtype=object)}
    kinds = fitted.feature_kinds()["kinds"]
    return {name: np.resize(values[kinds[name]], n) for name in fitted.feature_names}


def check_answers(fitted: Any) -> None:
    """Check that an object says the same after a round trip, describes itself, and answers with probabilities."""
    document = to_document(fitted)
    assert to_document(from_document(document)) == document
    assert all(isinstance(line, str) for line in fitted.describe())
    assert repr(fitted)
    scores = scores_of(fitted)
    beside: dict[str, Any] = {"groups": np.resize(fitted.groups_, len(scores))} if fitted.needs_groups else {}
    if fitted.feature_names:
        beside["features"] = features_of(fitted, len(scores))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = np.asarray(fitted.predict_proba(scores, **beside))
    assert q.shape == scores.shape
    assert np.isfinite(q).all()
    assert ((q >= 0.0) & (q <= 1.0)).all()
    if q.ndim == 2 and fitted.is_exclusive:
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-9)
