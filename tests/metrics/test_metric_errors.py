"""What a user reads when an argument can't be used."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics
from calibrant.errors import (
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidTypeError,
    ShapeError,
    UnknownNameError,
)

P3 = np.full((3, 3), 1 / 3)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: metrics.ece([0, 1], [0.2, 1.5]), InvalidProbabilityError, "y_prob row 1: 1.5 is outside [0, 1]"),
        (lambda: metrics.ece([0, 1, 1], [0.2, 0.5]), ShapeError, "y_true has 3 rows and y_prob has 2"),
        (lambda: metrics.ece([0.2, 0.5], [0, 1]), InvalidLabelError, "Are labels and scores swapped?"),
        (lambda: metrics.ece([0, 1, 2], [0.2, 0.5, 0.1]), ShapeError, "Pass one column per class, shape (n, K)."),
        (lambda: metrics.ece([0, 1], [0.2, 0.5], norm="l3"), UnknownNameError, "Choose one of: 'l1', 'l2', 'max'"),
        (lambda: metrics.ece([0, 1], [0.2, 0.5], strategy="quantil"), UnknownNameError, "Did you mean 'quantile'?"),
        (lambda: metrics.ece([0, 1], [0.2, 0.5], n_bins=0), InvalidInputError, "n_bins=0 is too small"),
        (lambda: metrics.ece([0, 1], [0.2, 0.5], n_bins=2.5), InvalidTypeError, "n_bins=2.5 is not a whole number"),
        (lambda: metrics.classwise_ece([0, 1], [0.2, 0.5], n_bins=0), InvalidInputError, "n_bins=0 is too small"),
        (lambda: metrics.top_label_ece([0, 1, 2], P3, strategy="x"), UnknownNameError, "value of strategy: 'x'"),
        (lambda: metrics.brier_score([0, 1, 2], P3, pos_label=1), InvalidInputError, "pos_label=1 is for one column"),
        (lambda: metrics.brier_score([0, 1, 2], 2 * P3), InvalidProbabilityError, "the 3 probabilities sum to 2"),
        (lambda: metrics.log_loss([0, 1], [0.2, 0.5], clip=0.5), InvalidInputError, "clip=0.5 leaves no room"),
        (lambda: metrics.log_loss([0, 1], [0.2, 0.5], clip=0), InvalidInputError, "clip=0 is outside (0, 1)"),
        (lambda: metrics.roc_auc([1, 1], [0.2, 0.5]), InvalidLabelError, "y_true holds one class only: 1"),
        (
            lambda: metrics.roc_auc([0, 1], [0.2, 0.5], sample_weight=[0, 1]),
            InvalidLabelError,
            "y_true holds one class only: 1",
        ),
        (lambda: metrics.roc_auc([0, 1, 1], P3), InvalidLabelError, "y_true has no rows of class 2 (1 of 3 classes)"),
        (lambda: metrics.decompose([0, 1], [0.2, 0.5], score="logs"), UnknownNameError, "Did you mean 'log'?"),
        (lambda: metrics.decompose([0, 1, 2], P3, score="log"), InvalidInputError, 'Use score="brier"'),
        (lambda: metrics.reliability_curve([0, 1], [0.2, 0.5], strategy="x"), UnknownNameError, "'isotonic'"),
        (lambda: metrics.reliability_curve([0, 1], [0.2, 0.5], level=95), InvalidInputError, "level=95 is outside"),
        (lambda: metrics.reliability_curve([0, 1], [0.2, 0.5], class_label=1), InvalidInputError, "Pass pos_label"),
        (
            lambda: metrics.reliability_curve(["cat", "dog", "eel"], P3, class_label="cats"),
            UnknownNameError,
            "unknown class_label 'cats'. Did you mean 'cat'?",
        ),
        (lambda: metrics.evaluate([0, 1], [0.2, 0.5], rng="seed"), InvalidTypeError, "rng='seed' is not a whole"),
        (lambda: metrics.evaluate([0, 1], [0.2, 0.5], rng=-1), InvalidInputError, "rng=-1 is too small"),
        (lambda: metrics.evaluate([0, 1], [0.2, 0.5], level=1.0), InvalidInputError, "level=1.0 is outside (0, 1)"),
        (lambda: metrics.evaluate([0, 1], [0.2, 0.5], n_bins=0), InvalidInputError, "n_bins=0 is too small"),
        (lambda: metrics.evaluate([0, 1], [0.2, 0.5])["breir"], KeyError, "Did you mean 'brier'?"),
    ],
)
def test_refusal_says_what_and_why(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
