"""Scores without labels: equal to the mean over drawn labels, with intervals that hold what labels then show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, precision_score, recall_score, roc_auc_score

import calibrant as cb
from calibrant.errors import CalibrantError
from calibrant.metrics import expected_scores
from calibrant.metrics.without_labels import poisson_binomial

DRAWS = 1000
NAMES = ("accuracy", "brier", "log_loss", "precision", "recall", "auc", "base_rate")


def measured(p: Any, y: Any, w: Any, threshold: float) -> list[float]:
    """What scikit-learn measures once labels are known."""
    said = p >= threshold
    of: dict[str, Any] = {"sample_weight": w}
    return [
        accuracy_score(y, said, **of),
        brier_score_loss(y, p, **of),
        log_loss(y, p, **of),
        precision_score(y, said, **of),
        recall_score(y, said, **of),
        roc_auc_score(y, p, **of),
        np.average(y, weights=w),
    ]


def measured_of_many(p: Any, labels: Any, w: Any, threshold: float) -> Any:
    """What `measured` gives of each row of labels, as sums over them all."""
    said = p >= threshold
    weight, events = w.sum(), labels * w
    others = w - events
    before = (p[:, None] < p) + 0.5 * (p[:, None] == p)
    return np.column_stack(
        [
            (said * events + ~said * others).sum(axis=1) / weight,
            (events * (1.0 - p) ** 2 + others * p**2).sum(axis=1) / weight,
            -(events * np.log(p) + others * np.log1p(-p)).sum(axis=1) / weight,
            (said * events).sum(axis=1) / (said * w).sum(),
            (said * events).sum(axis=1) / events.sum(axis=1),
            (others @ before * events).sum(axis=1) / (events.sum(axis=1) * others.sum(axis=1)),
            events.sum(axis=1) / weight,
        ]
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_expectations_and_intervals_are_those_of_drawn_labels(weighted: bool, ties: bool) -> None:
    rng = np.random.default_rng(int(weighted) + 2 * int(ties))
    p = rng.beta(0.8, 1.6, 300)
    p = np.round(p, 1) * 0.9 + 0.05 if ties else p
    w = rng.integers(1, 4, 300).astype(float) if weighted else np.ones(300)
    scores = expected_scores(p, threshold=0.4, sample_weight=w if weighted else None, level=0.9)
    assert tuple(scores) == NAMES
    labels = rng.random((DRAWS, 300)) < p
    drawn = measured_of_many(p, labels, w, 0.4)
    np.testing.assert_allclose(drawn[:20], [measured(p, y, w, 0.4) for y in labels[:20]], rtol=1e-12)
    for name, values in zip(NAMES, drawn.T, strict=True):
        score, error = scores[name], values.std() / np.sqrt(DRAWS)
        assert abs(score.value - values.mean()) < 4.0 * error + 0.5 / 300, name  # ratios are off by the order of 1 / n
        inside = np.mean((score.low <= values + 1e-12) & (values <= score.high + 1e-12))
        least = 0.9 if score.method == "Poisson-binomial, exact" else 0.87
        assert least - 0.02 < inside < 0.96, (name, inside)
        width = 2 * 1.645 * values.std()
        assert 0.9 < (score.high - score.low) / width < 1.15, name
    exact = {name for name in NAMES if scores[name].method == "Poisson-binomial, exact"}
    assert exact == (set() if weighted else {"accuracy", "precision", "base_rate"})


def test_means_are_exact() -> None:
    p = np.random.default_rng(0).random(50)
    scores = expected_scores(p)
    assert scores["accuracy"].value == pytest.approx(np.maximum(p, 1 - p).mean(), abs=1e-15)
    assert scores["brier"].value == pytest.approx((p * (1 - p)).mean(), abs=1e-15)
    assert scores["log_loss"].value == pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)).mean(), abs=1e-14)
    assert scores["precision"].value == pytest.approx(p[p >= 0.5].mean(), abs=1e-15)


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_precision_counts_the_rows_that_are_predicted_positive(threshold: float) -> None:
    rng = np.random.default_rng(1)
    p, weight = rng.random(200), rng.integers(1, 4, 200).astype(float)
    scores = expected_scores(p, threshold=threshold, sample_weight=weight)
    said = p >= threshold
    assert (scores["precision"].n, scores["recall"].n, scores["base_rate"].n) == (said.sum(), 200, 200)
    assert scores["precision"].n_eff == pytest.approx(weight[said].sum() ** 2 / (weight[said] ** 2).sum(), abs=1e-5)


def test_several_classes_by_drawn_labels() -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet([1.0, 2.0, 0.5], 400)
    scores = expected_scores(p, level=0.9)
    assert tuple(scores) == ("accuracy", "brier", "log_loss")
    codes = (p.cumsum(axis=1)[None] > rng.random((600, 400, 1))).argmax(axis=2)
    drawn = np.array(
        [[np.mean(p.argmax(axis=1) == y), cb.metrics.brier_score(y, p), cb.metrics.log_loss(y, p)] for y in codes]
    )
    for name, values in zip(scores, drawn.T, strict=True):
        score = scores[name]
        assert abs(score.value - values.mean()) < 4.0 * values.std() / np.sqrt(len(values)), name
        assert 0.86 < np.mean((score.low <= values) & (values <= score.high)) < 0.95, name


def test_two_columns_are_the_second() -> None:
    p = np.random.default_rng(1).random(40)
    both = np.column_stack((1 - p, p))
    assert expected_scores(both, threshold=0.3).to_dict() == expected_scores(both[:, 1], threshold=0.3).to_dict()


@pytest.mark.parametrize("name", NAMES)
def test_intervals_of_the_population_hold_its_expectation(name: str) -> None:
    rng = np.random.default_rng(NAMES.index(name))
    truth = expected_scores(rng.beta(2.0, 3.0, 400_000), threshold=0.4)[name].value
    found = [expected_scores(rng.beta(2.0, 3.0, 250), threshold=0.4, target="population")[name] for _ in range(600)]
    covered = np.mean([score.low <= truth <= score.high for score in found])
    assert 0.92 < covered < 0.98
    assert found[0].method == "normal, of rows"


def test_weight_two_equals_two_rows_of_the_population() -> None:
    p = np.random.default_rng(3).random(80)
    w = np.tile([1.0, 2.0], 40)
    once, twice = expected_scores(p, sample_weight=w), expected_scores(np.repeat(p, w.astype(int)))
    for name in ("accuracy", "brier", "log_loss", "precision", "recall", "base_rate"):
        assert once[name].value == pytest.approx(twice[name].value, abs=1e-14)
    same = expected_scores(np.append(p, 0.9), sample_weight=[*w, 0.0])
    assert same.to_dict() == once.to_dict()


def test_poisson_binomial_is_the_binomial_and_a_sum_of_products() -> None:
    np.testing.assert_allclose(poisson_binomial(np.full(501, 0.3)), binom.pmf(range(502), 501, 0.3), atol=1e-15)
    rates = np.array([0.1, 0.5, 0.9, 0.0, 1.0])
    found = np.zeros(6)
    for outcome in np.ndindex(*(2,) * 5):
        found[sum(outcome)] += np.prod(np.where(outcome, rates, 1.0 - rates))
    np.testing.assert_allclose(poisson_binomial(rates), found, atol=1e-15)


def test_exact_and_normal_intervals_agree_where_they_meet() -> None:
    p = np.random.default_rng(4).random(10_001)
    exact, normal = expected_scores(p[:-1])["accuracy"], expected_scores(p)["accuracy"]
    assert (exact.method, normal.method) == ("Poisson-binomial, exact", "normal, of labels")
    assert exact.low == pytest.approx(normal.low, abs=3e-4)
    assert exact.high == pytest.approx(normal.high, abs=3e-4)


def test_what_is_not_defined_says_why() -> None:
    none = expected_scores([0.0, 0.0])
    assert none["accuracy"].value == 1.0
    assert (none["log_loss"].value, none["brier"].value) == (0.0, 0.0)
    assert {name: none[name].note for name in ("precision", "recall", "auc")} == {
        "precision": "no row is predicted positive",
        "recall": "no event is expected",
        "auc": "no two rows are expected to differ",
    }
    assert (none["precision"].n, none["precision"].n_eff) == (0, 0.0)
    assert expected_scores([0.7])["accuracy"].value == 0.7


def test_the_assumption_is_said() -> None:
    scores = expected_scores([0.2, 0.8])
    assert "no concept shift" in scores.notes[0]
    assert scores.verdict.startswith("Expected without labels: accuracy 0.8000")
    assert "no concept shift" in str(scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y_prob": [0.5, 1.5]}, r"y_prob row 1: 1\.5 is outside \[0, 1\]"),
        ({"y_prob": []}, "y_prob is empty"),
        ({"y_prob": [0.5], "threshold": 0.0}, r"threshold=0\.0 is outside \(0, 1\)"),
        ({"y_prob": [0.5], "threshold": float("nan")}, r"threshold=nan is outside \(0, 1\)"),
        ({"y_prob": [0.5], "target": "row"}, "unknown value of target: 'row'. Did you mean 'rows'"),
        ({"y_prob": [0.5], "level": 95}, r"level=95 is outside \(0, 1\)"),
        ({"y_prob": [0.5, 0.5], "sample_weight": [1.0]}, "y_prob has 2 rows and sample_weight has 1"),
        ({"y_prob": [[0.5, 0.2]]}, r"y_prob row 0: the 2 probabilities sum to 0\.7, not 1"),
    ],
)
def test_what_can_not_be_used_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        expected_scores(**arguments)


@pytest.mark.slow
def test_real_polls_once_calibrated_do_as_well_as_expected() -> None:
    folder = os.environ.get("CALIBRANT_DATA")
    if folder is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/fivethirtyeight_binary.parquet")
    table = pq.read_table(Path(folder, "scores", "fivethirtyeight_binary.parquet"))
    p, y = np.asarray(table["p"]), np.asarray(table["y"])
    fitted = cb.IsotonicCalibrator(bounded=True).fit(p[::2], y[::2])
    later, happened = fitted.predict_proba(p[1::2]), y[1::2]
    found = expected_scores(later)
    for name, value in zip(NAMES, measured(later, happened, np.ones(later.size), 0.5), strict=True):
        assert found[name].value == pytest.approx(value, abs=0.01), name
