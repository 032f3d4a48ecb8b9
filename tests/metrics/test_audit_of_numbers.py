"""The audit of predictions of a number: the figures of a plain search, and honest where outcomes are skewed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calibrant import kernels
from calibrant.errors import CalibrantError
from calibrant.metrics import audit, multicalibration_error


def draw(n, seed=0):
    """Return a generator, predictions, and features of two kinds."""
    rng = np.random.default_rng(seed)
    features = {"city": rng.choice(["Bonn", "Kyiv", "Rome"], n), "old": rng.random(n) < 0.4, "k": rng.integers(0, 3, n)}
    return rng, rng.gamma(2.0, 100.0, n), features


NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1.0,
    "lognormal": lambda rng, n: rng.lognormal(size=n) - np.exp(0.5),
    "rare counts": lambda rng, n: rng.poisson(0.3, n) - 0.3,
}


@pytest.mark.parametrize("weighted", [False, True])
def test_each_segment_has_the_figures_that_its_rows_give(weighted):
    rng, p, features = draw(1_100)
    y = p + rng.normal(0.0, 30.0, 1_100) * (1.0 + features["old"])
    w = rng.integers(1, 4, 1_100).astype(float) if weighted else np.ones(1_100)
    least = np.empty(1_100)
    for half in np.array_split(np.argsort(p), 2):  # ranges of 500 rows at least
        mean = np.average((y - p)[half], weights=w[half])
        least[half] = w[half] ** 2 * np.average(((y - p)[half] - mean) ** 2, weights=w[half])
    found = audit(y, p, features=features, target="number", sample_weight=w, n_draws=19)
    assert found.target == "number"
    assert len(found.findings) > 20
    for one in found.findings:
        rows = np.all([features[name] == value for name, value in one.where] + [p > 0.0], axis=0)
        order = np.argsort(p[rows])
        steps = (w * (y - p))[rows][order]
        walk = np.concatenate(([0.0], np.cumsum(steps)))
        assert one.n == rows.sum()
        about = steps - w[rows][order] * steps.sum() / w[rows].sum()
        variance = max((about**2).sum(), least[rows].sum())
        assert one.sigma == pytest.approx(np.ptp(walk) / np.sqrt(variance))
        assert one.error == pytest.approx(np.ptp(walk) / w[rows].sum())
        assert one.gap == pytest.approx(np.average((p - y)[rows], weights=w[rows]))
        assert one.predicted - one.observed == pytest.approx(one.gap)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOISE)
def test_right_predictions_are_rarely_found_off(kind):
    n_off, n_runs = 0, 100
    for seed in range(n_runs):
        rng, p, features = draw(400, seed)
        y = p + NOISE[kind](rng, 400) * np.where(features["old"], 40.0, 20.0)
        found = audit(y, p, features=features, target="number", level=0.8, min_rows=40, n_draws=199, rng=seed)
        n_off += bool(found.off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)


@pytest.mark.slow
def test_segments_without_a_rare_event_are_not_taken_for_certain():
    n_off, n_runs = 0, 60
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        features = {"place": rng.integers(0, 40, 4_000)}
        p = rng.uniform(0.01, 0.03, 4_000)  # of 100 rows of a place 2 claims, in every seventh none
        y = (rng.random(4_000) < p) * rng.exponential(size=4_000)
        n_off += bool(audit(y, p, features=features, target="number", level=0.8, n_draws=99, rng=seed).off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)


@pytest.mark.parametrize("n", [1, 2])
def test_one_row_and_two_tell_nothing(n):
    found = audit(np.ones(n), np.zeros(n), features={"a": np.zeros(n)}, target="number", n_draws=199)
    assert not found.off
    assert found.findings[0].p_value > 0.3


def test_clusters_that_share_an_error_are_no_evidence():
    n_alone, n_off, n_runs = 0, 0, 60
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        cluster = rng.integers(0, 60, 900)
        features = {"a": rng.integers(0, 3, 60)[cluster], "b": rng.integers(0, 3, 900)}
        p = rng.normal(size=900)
        y = p + (rng.exponential(size=60) - 1.0)[cluster] + rng.normal(size=900)
        known = {"features": features, "target": "number", "level": 0.8, "n_draws": 199, "rng": seed}
        n_alone += bool(audit(y, p, **known).off)
        n_off += bool(audit(y, p, cluster=cluster, **known).off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)
    assert n_alone > 0.5 * n_runs


def test_what_is_planted_is_found_through_the_errors_of_clusters():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 120, 2_000)
    features = {"a": rng.integers(0, 3, 120)[cluster], "b": rng.choice(["x", "y"], 2_000)}
    p = rng.normal(size=2_000)
    y = p + rng.normal(size=120)[cluster] + rng.normal(size=2_000) + 1.5 * (features["a"] == 0)
    found = audit(y, p, features=features, target="number", cluster=cluster, n_draws=199).findings[0]
    assert found.p_value == 0.005
    assert found.where[0] == ("a", 0)
    alone = audit(y, p, features=features, target="number", n_draws=199)
    assert found.n_eff < 0.5 * found.n
    assert found.sigma < next(f.sigma for f in alone.findings if f.where == found.where)


@pytest.mark.parametrize("kind", NOISE)
def test_what_is_planted_is_found_first(kind):
    rng, p, features = draw(4_000)
    planted = (features["city"] == "Rome") & features["old"]
    y = p + np.where(planted, 0.4 * p, 0.0) + 60.0 * NOISE[kind](rng, 4_000)
    found = multicalibration_error(y, p, features=features, target="number")
    assert found.segment == "city = Rome, old = True"
    assert found.p_value == 0.002
    assert found.error == pytest.approx(0.4 * p[planted].mean(), rel=0.25)
    assert "in probability" not in found.words
    worst = audit(y, p, features=features, target="number").findings[0]
    assert (worst.sigma, worst.label) == (found.sigma, found.segment)
    assert worst.low < -0.4 * p[planted].mean() < worst.high
    assert "1.2e+03" not in worst.words


def test_moments_in_python_and_in_machine_code_are_those_of_numpy():
    rng = np.random.default_rng(0)
    codes, times = rng.integers(0, 4, 150).astype(np.uint32), rng.poisson(1.0, (150, kernels.DRAWS)).astype(float)
    weight, step = rng.random(150), rng.normal(size=150)
    for run in (kernels.taken_moments.in_python(), kernels.taken_moments):
        found = np.zeros((4, 5, kernels.DRAWS))
        run(codes, times, weight, step, found)
        for c in range(4):
            own = codes == c
            of = np.array([weight, step, step**2, step * weight, weight**2])[:, own]
            np.testing.assert_allclose(found[c], of @ times[own], rtol=1e-12, atol=1e-12)


def test_units_of_the_outcome_change_no_p_value():
    rng, p, features = draw(800)
    y = p + rng.exponential(30.0, 800) - 30.0
    known = {"features": features, "target": "number", "n_draws": 99}
    first, scaled = audit(y, p, **known), audit(1e6 * y, 1e6 * p, **known)
    np.testing.assert_allclose([f.sigma for f in first.findings], [f.sigma for f in scaled.findings], rtol=1e-9)
    assert [f.p_value for f in first.findings] == [f.p_value for f in scaled.findings]


def test_predictions_that_are_never_off_and_one_row_that_is_are_told_apart():
    _, p, features = draw(300)
    exact = audit(p, p, features=features, target="number", n_draws=19)
    assert not exact.off
    assert exact.findings[0].sigma == 0.0
    one = p.copy()
    one[0] += 1.0
    assert not audit(one, p, features=features, target="number", n_draws=99).off
    always = audit(p + 0.1, p, features=features, target="number", n_draws=99)
    assert (always.findings[0].sigma, always.findings[0].p_value) == (np.inf, 0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": "nubmer"}, "unknown value of target: 'nubmer'. Did you mean 'number'?"),
        ({"classes": [0, 1]}, 'classes is of classes, and with target="number" there are none. Leave it out.'),
        ({"pos_label": 1}, 'pos_label is of classes, and with target="number" there are none. Leave it out.'),
        ({"y_true": [1.0, np.nan, *range(58)]}, "y_true row 1: nan is not finite"),
        ({"y_prob": [1.0, np.inf, *range(58)]}, "y_prob row 1: inf is not finite"),
        ({"y_true": list(range(59))}, "y_prob has 60 rows"),
        ({"y_prob": np.ones((60, 2))}, "y_prob has shape (60, 2)"),
        ({"y_true": 1e200 * np.arange(60.0)}, "y_true and y_prob differ by up to 5.9e+201, of which squares are no"),
        ({"y_true": np.zeros(60), "y_prob": np.full(60, 1e-180)}, "differ by up to 1e-180, of which squares are no"),
    ],
)
def test_what_cannot_be_used_is_refused(change, said):
    known = {"y_true": np.arange(60.0), "y_prob": np.arange(60.0), "features": {"a": np.arange(60) % 2}}
    with pytest.raises(CalibrantError) as refused:
        audit(**{**known, "target": "number", **change})
    assert said in str(refused.value), refused.value
