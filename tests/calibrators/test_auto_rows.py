"""The rows that automatic calibration decides by: a sample of many, those of weights, and those turned round."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from auto_draws import draw, log_loss

import calibrant as cb
from calibrant.calibrators.auto_report import sample_size
from calibrant.calibrators.auto_rows import sample_of
from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError
from calibrant.persistence import from_document, to_document


def test_whole_weights_are_rows_and_others_are_kish_s_number_of_rows():
    summary = cb.ScoreSummary.from_arrays([0.1, 0.1, 0.9], [0, 1, 1], sample_weight=[2, 1, 3])
    sample, _ = sample_of(summary, 0)
    assert sample.scores.tolist() == [0.1] * 3 + [0.9] * 3
    assert sample.positive.tolist() == [True, False, False, True, True, True]
    assert sample.weight is None
    summary = cb.ScoreSummary.from_arrays([0.1, 0.1, 0.9], [0, 1, 1], sample_weight=[0.5, 0.5, 0.25])
    sample, _ = sample_of(summary, 0)
    assert sample.scores.tolist() == [0.1, 0.1, 0.9]
    assert sample.weight.tolist() == [0.5, 0.5, 0.25]


@pytest.mark.slow
def test_rare_events_decide_together():
    rng = np.random.default_rng(0)
    p = np.exp(rng.normal(-9.0, 1.0, 200_000))
    fitted = cb.AutoCalibrator().fit(p, rng.random(p.size) < 1.6 * p)  # 68 events: 7 in 20,000 rows tell nothing
    assert (fitted.report_.chosen, fitted.report_.n_rows) == ("blend", p.size)
    assert fitted.predict_proba(p).mean() / p.mean() == pytest.approx(1.6, rel=0.1)


@pytest.mark.parametrize(
    ("n_rows", "rarer", "wanted"),
    [(500, 0.5, 500), (10**6, 0.01, 20_000), (10**6, 0.005, 40_000), (10**6, 1e-5, 200_000), (30_000, 0.0, 30_000)],
)
def test_a_sample_holds_enough_rows_of_the_rarer_class(n_rows, rarer, wanted):
    assert sample_size(n_rows, rarer) == wanted


def test_huge_weights_and_many_rows_are_sampled():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=50)
    y = rng.uniform(size=50) < p
    sample, _ = sample_of(cb.ScoreSummary.from_arrays(p, y, sample_weight=np.full(50, 1e12)), 0)
    assert sample.scores.size == 20_000
    p, y = draw(100_000)
    first, second = (cb.AutoCalibrator().fit(p, y) for _ in range(2))
    assert first.report_.n_rows == 20_000
    np.testing.assert_array_equal(first.predict_proba(p[:100]), second.predict_proba(p[:100]))


def test_row_order_does_not_change_a_bit():
    p, y = draw(400)
    order = np.random.default_rng(3).permutation(400)
    a, b = cb.AutoCalibrator().fit(p, y), cb.AutoCalibrator().fit(p[order], y[order])
    np.testing.assert_array_equal(a.predict_proba(p), b.predict_proba(p))


def falling(n=1500, seed=0):
    p, y = draw(n, power=0.5, seed=seed)
    return 1.0 - p, y


@pytest.mark.parametrize("input", ["probability", "score"])
def test_an_inversion_is_said_and_used_only_when_asked(input):
    p, y = falling()
    s = p if input == "probability" else np.log(p) - np.log1p(-p)
    with pytest.warns(DataWarning, match="the scores run against the labels: in .* pass y == False"):
        flat = cb.AutoCalibrator(input=input).fit(s, y)
    assert "allow_inversion=True would turn them round" in flat.report_.reason
    with pytest.warns(DataWarning, match="They are turned round, as allow_inversion asks"):
        turned = cb.AutoCalibrator(input=input, allow_inversion=True).fit(s, y)
    assert turned.report_.chosen == "blend"
    assert "they are turned round" in turned.report_.reason
    assert (np.diff(turned.predict_proba(np.sort(s))) <= 0.0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = cb.AutoCalibrator(input=input).fit(s, ~y)
    held, outcome = falling(4_000, seed=1)
    held = held if input == "probability" else np.log(held) - np.log1p(-held)
    np.testing.assert_allclose(turned.predict_proba(held), 1.0 - other.predict_proba(held), rtol=0.0, atol=1e-12)
    assert log_loss(turned.predict_proba(held), outcome) < log_loss(flat.predict_proba(held), outcome) - 0.1
    again = from_document(json.loads(json.dumps(to_document(turned))))
    assert (again.predict_proba(held) == turned.predict_proba(held)).all()
    first, *parts = again.describe()
    assert first.startswith("mean logit, turned round, mixed with ")
    n_parts = len(again.map_.maps)
    assert all(part.startswith("  ") for part in parts[:n_parts])
    assert not parts[n_parts].startswith("  ")


def test_scores_that_rise_or_say_nothing_are_not_turned():
    rng = np.random.default_rng(0)
    for p, y in (draw(), (rng.uniform(size=300), rng.uniform(size=300) < 0.3)):
        allowed, plain = (cb.AutoCalibrator(allow_inversion=k).fit(p, y) for k in (True, False))
        assert (allowed.predict_proba(p) == plain.predict_proba(p)).all()
        assert allowed.report_ == plain.report_


def test_inversion_is_for_two_classes():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    with pytest.raises(InvalidInputError, match="allow_inversion is for two classes, and there are 3"):
        cb.AutoCalibrator(allow_inversion=True).fit(P, np.resize([0, 1, 2], 60))
    with pytest.raises(InvalidTypeError, match="allow_inversion"):
        cb.AutoCalibrator(allow_inversion=1).fit(*draw(100))


def test_few_clusters_are_no_evidence_of_an_inversion():
    """Six clusters whose rates fall with their scores are six rows; taken for 300, they are beyond chance."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(6), 50)
    p = np.linspace(0.2, 0.8, 6)[cluster] + 0.02 * rng.uniform(size=300)
    y = rng.uniform(size=300) < np.array([0.9, 0.2, 0.7, 0.1, 0.6, 0.15])[cluster]
    with pytest.warns(DataWarning, match="turned round"):
        cb.AutoCalibrator(allow_inversion=True).fit(p, y)
    clustered = cb.AutoCalibrator(allow_inversion=True).fit(p, y, cluster=cluster)
    assert "labels" not in clustered.report_.reason
