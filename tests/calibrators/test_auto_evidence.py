"""By what automatic calibration changes scores: likelihoods of rows held out, and what is taken off them."""

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators.auto_evidence import Evidence
from calibrant.calibrators.cross_fit import held_out, row_splits
from calibrant.rows import read_rows


def rows_of(n, *, rate=0.5, cluster=None, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) < rate * n
    return read_rows(rng.uniform(0.1, 0.9, n), y, cluster=cluster)


def weigh(evidence, change, *, is_certain=False, at_once=None):
    """Weigh a candidate that changes the loss of each row by so much, and is the whole blend."""
    n = evidence.rows.n_rows
    of_change = np.full((len(evidence.folds), n), np.log(2.0)) + change
    alone = np.full_like(of_change, np.log(2.0))

    def of_blend(weights):
        return weights[0] * alone + weights[1] * of_change

    loss = {"none": alone, "spline": of_change}
    return evidence.weigh(loss, of_blend, np.array([0.0, 1.0]), is_certain=is_certain, at_once=at_once)


@pytest.mark.parametrize("gain", [-5.0, 0.0, 2.4, 2.6, 4.0, 30.0])
def test_weights_are_drawn_by_the_odds_of_both_after_prior_odds(gain):
    rows = rows_of(400)
    evidence = Evidence.of(rows, row_splits(rows, 5)).on_plain_folds(0)
    report, weights = weigh(evidence, np.full(400, -gain / 400))
    belief = 1.0 / (1.0 + np.exp(2.5 - gain))
    wanted = [1.0 - belief, belief] if gain > 2.5 else [1.0, 0.0]
    np.testing.assert_allclose(weights, wanted, rtol=1e-9)
    assert report.chosen == ("blend" if gain > 2.5 else "none")


@pytest.mark.parametrize(
    ("gain", "at_once"), [(0.0, 1.9), (0.0, 2.2), (-3.0, 5.2), (2.6, -0.7), (2.3, 9.0), (9.0, -9.0)]
)
def test_of_held_out_rows_and_all_rows_at_once_the_mean_decides(gain, at_once):
    rows = rows_of(400)
    evidence = Evidence.of(rows, row_splits(rows, 5)).on_plain_folds(0)
    report, weights = weigh(evidence, np.full(400, -gain / 400), at_once=at_once)
    belief = 1.0 / (1.0 + np.exp(1.0 - 0.5 * (gain + at_once)))
    np.testing.assert_allclose(weights, [1.0 - belief, belief] if belief > 0.5 else [1.0, 0.0], rtol=1e-9)
    assert report.reason.startswith("Changed: all rows at once") == (belief > 0.5 and gain <= 0.0)


def test_all_rows_at_once_count_for_less_in_clusters():
    rows = rows_of(400, cluster=np.arange(400) // 8)
    evidence = Evidence.of(rows, row_splits(rows, 5))
    change = np.repeat(np.random.default_rng(0).normal(size=50), 8)
    report, _ = weigh(evidence, change - change.mean(), at_once=3.0)
    assert report.chosen == "none"


def test_one_row_of_a_heavy_tail_is_evidence_and_no_excuse():
    """Its 20 nats are 20 nats, whatever they do to the standard error."""
    rows = rows_of(100)
    change = np.zeros(100)
    change[7] = -20.0
    report, _ = weigh(Evidence.of(rows, row_splits(rows, 5)), change)
    assert report.chosen == "blend"
    assert report.blend.difference + 2.0 * report.blend.standard_error > 0.0
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 300)
    y = rng.uniform(size=300) < p
    p[np.flatnonzero(y)[0]] = 1e-12
    assert cb.AutoCalibrator().fit(p, y).report_.chosen == "blend"


@pytest.mark.parametrize("k", [2, 4])
def test_folds_that_hold_the_same_share_of_each_class_leak_a_nat_for_each_class_but_one(k):
    y = np.arange(4_000) % k
    rows = read_rows(np.full((4_000, k), 1.0 / k), y)
    evidence = Evidence.of(rows, row_splits(rows, 5))
    assert not evidence.wants_plain_folds
    report, _ = weigh(evidence, np.full(4_000, -10.0 / 4_000))
    found = {c.name: c.difference * 4_000 for c in report.candidates}
    assert found == pytest.approx({"none": 0.0, "spline": -10.0 + (k - 1)})


def test_what_leaks_is_what_a_fitted_rate_gains_by_it():
    """Of rows without any skill, the rate of the other folds beats the true one by half a nat, or loses by as much."""
    gains = {True: [], False: []}
    for seed in range(400):
        y = np.random.default_rng(seed).uniform(size=200) < 0.3
        if y.sum() < 10:
            continue
        rows = read_rows(np.full(200, 0.3), y)
        evidence = Evidence.of(rows, row_splits(rows, 5, rng=seed))
        for of in (evidence, evidence.on_plain_folds(seed)):
            rate = np.array([[y[split.fitted].mean()] for split in of.folds])
            loss = -np.log(np.where(y, rate, 1.0 - rate))
            alone = np.broadcast_to(-np.log(np.where(y, 0.3, 0.7)), loss.shape)
            report, _ = of.weigh(
                {"none": alone, "sigmoid": loss}, lambda w, a=alone, b=loss: w[0] * a + w[1] * b, np.array([0.0, 1.0])
            )
            found = next(c for c in report.candidates if c.name == "sigmoid")
            gains[of is evidence].append(-200 * found.difference)
    assert np.mean(gains[True]) == pytest.approx(np.mean(gains[False]), abs=0.15)
    assert np.mean(gains[False]) == pytest.approx(-5 / 8, abs=0.25)  # p / 2 of the rate, times 5 / 4 of its rows


def test_few_rows_of_a_class_and_many_rows_keep_their_folds():
    few = rows_of(100, rate=0.05)
    assert not Evidence.of(few, row_splits(few, 5)).wants_plain_folds
    many = rows_of(3_001)
    assert not Evidence.of(many, row_splits(many, 5)).wants_plain_folds
    some = rows_of(3_000)
    assert Evidence.of(some, row_splits(some, 5)).wants_plain_folds


def test_rows_that_say_the_same_are_no_more_evidence_than_one_of_each_cluster():
    change = np.random.default_rng(1).normal(-0.05, 0.3, 200)
    alone = rows_of(200)
    _, few = weigh(Evidence.of(alone, row_splits(alone, 5)).on_plain_folds(0), change)
    cluster = np.tile(np.arange(200), 10)
    of_clusters = rows_of(2_000, cluster=cluster)
    same, _ = weigh(Evidence.of(of_clusters, row_splits(of_clusters, 5)), np.tile(change, 10))
    nothing = rows_of(2_000)
    _, many = weigh(Evidence.of(nothing, row_splits(nothing, 5)).on_plain_folds(0), np.tile(change, 10))
    _, drawn = weigh(Evidence.of(of_clusters, row_splits(of_clusters, 5)), np.tile(change, 10))
    assert drawn[1] == pytest.approx(few[1], abs=0.05)
    assert many[1] > few[1]
    assert same.blend.standard_error > 0.0


def test_what_is_certain_is_changed_whatever_the_evidence():
    rows = rows_of(100)
    report, weights = weigh(Evidence.of(rows, row_splits(rows, 5)), np.full(100, 0.01), is_certain=True)
    assert report.chosen == "blend"
    assert weights.tolist() == [0.0, 1.0]


def test_held_out_figures_are_those_of_the_fit_that_has_not_seen_the_row():
    rows = rows_of(20)
    splits = row_splits(rows, 4)
    by_fit = np.arange(4.0)[:, None] + np.zeros(20)
    found = held_out(by_fit, splits)
    for k, split in enumerate(splits):
        assert (found[split.held_out] == k).all()
    assert held_out(by_fit[:1], splits).tolist() == [0.0] * 20


def test_votes_that_are_left_alone_have_their_zeros_counted_as_half_a_vote():
    rng = np.random.default_rng(0)
    votes = rng.integers(1, 50, 2_000) / 50
    made = cb.AutoCalibrator().fit(votes, rng.uniform(size=2_000) < votes)
    assert made.report_.chosen == "none"
    np.testing.assert_allclose(made.predict_proba([0.0, 0.5, 1.0]), [0.01, 0.5, 0.99], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("n", [100, 1_000])
def test_perfectly_calibrated_scores_lose_next_to_nothing(n, k):
    """At most .0005 + 1/n of log loss in the mean, as against the truth that they are."""
    excess = []
    for seed in range(20):
        rng = np.random.default_rng([n, k, seed])
        p = rng.dirichlet(np.full(k, 0.7), n + 5_000).clip(1e-6)
        p /= p.sum(axis=1, keepdims=True)
        y = (rng.uniform(size=len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)
        given = p[:, 1] if k == 2 else p
        q = cb.AutoCalibrator().fit(given[:n], y[:n], classes=range(k)).predict_proba(given[n:])
        q = np.column_stack((1.0 - q, q)) if k == 2 else q
        excess.append((p[n:] * np.log(p[n:] / q)).sum(axis=1).mean())
    assert np.mean(excess) <= 0.0005 + 1.0 / n
