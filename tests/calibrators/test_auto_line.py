"""The Bayes factor of lines through the logits, by which automatic calibration may change scores too."""

import numpy as np
import pytest
from scipy import integrate, stats

import calibrant as cb
from calibrant.calibrators.auto_line import log_bayes_factor
from calibrant.rows import read_rows


def drawn(n, *, slope=1.0, shift=0.0, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 2.0, n)
    y = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-(shift + slope * z)))
    return z, y, read_rows(z, y, input="logit", sample_weight=weight, both_classes=True)


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.6), (1.7, -0.3), (-0.2, 0.1)])
@pytest.mark.parametrize("n", [30, 300])
def test_it_is_the_likelihoods_mean_over_the_prior(n, slope, shift):
    z, y, rows = drawn(n, slope=slope, shift=shift)

    def log_likelihood(a, b):
        return -np.logaddexp(0.0, np.where(y, -1.0, 1.0) * (a + b * z)).sum()

    a, b = np.linspace(-1.2, 1.2, 121), np.linspace(-0.6, 2.4, 121)
    logs = np.array([[log_likelihood(i, j) for j in b] for i in a]) + (
        stats.norm.logpdf(a, 0.0, 0.3)[:, None] + stats.norm.logpdf(b, 1.0, 0.3)
    )
    mean = integrate.simpson(integrate.simpson(np.exp(logs - logs.max()), x=b), x=a)
    wanted = np.log(mean) + logs.max() - log_likelihood(0.0, 1.0)
    assert log_bayes_factor(z, rows) == pytest.approx(wanted, abs=0.06)


def test_weights_count_by_kish():
    z, _, rows = drawn(200, slope=0.5)
    _, _, doubled = drawn(200, slope=0.5, weight=np.full(200, 2.0))
    assert log_bayes_factor(z, doubled) == pytest.approx(log_bayes_factor(z, rows), rel=1e-9)
    weight = np.where(np.arange(200) < 100, 1.0, 1e-9)
    _, _, halved = drawn(200, slope=0.5, weight=weight)
    first = read_rows(z[:100], rows.positive[:100], input="logit", both_classes=True)
    assert log_bayes_factor(z, halved) == pytest.approx(log_bayes_factor(z[:100], first), rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-8, 1e-4, 1e3, 1e160, 1e300])
def test_logits_of_any_size_have_one(size):
    """With no logit to speak of, only the shift counts; its mean is a sum of one variable."""
    z, y, _ = drawn(200, slope=0.3, shift=0.5)
    found = log_bayes_factor(size * z, read_rows(z, y, input="logit", both_classes=True))
    if size < 1e-3:
        a = np.linspace(-1.5, 1.5, 2_001)
        n1, n0 = y.sum(), (~y).sum()
        logs = -n1 * np.logaddexp(0.0, -a) - n0 * np.logaddexp(0.0, a) + stats.norm.logpdf(a, 0.0, 0.3)
        wanted = np.log(integrate.simpson(np.exp(logs - logs.max()), x=a)) + logs.max() + 200 * np.log(2.0)
        assert found == pytest.approx(wanted, abs=0.02)
    else:
        assert found > 100.0


def test_few_rows_change_scores_that_a_line_explains_better(monkeypatch):
    """Of these 40 sets, twice too far from even odds, held-out rows alone change fewer."""

    def n_changed():
        found = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            p = rng.beta(1.0, 2.0, 100)
            z = np.log(p) - np.log1p(-p)
            y = rng.uniform(size=100) < 1.0 / (1.0 + np.exp(-0.5 * z))
            found += cb.AutoCalibrator().fit(p, y).report_.chosen == "blend"
        return found

    both = n_changed()
    monkeypatch.setattr("calibrant.calibrators.auto.log_bayes_factor", lambda *_: None)
    assert both >= n_changed() + 3
    assert both >= 30


def test_right_scores_are_seldom_changed():
    changed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.beta(1.0, 2.0, 100)
        changed += cb.AutoCalibrator().fit(p, rng.uniform(size=100) < p).report_.chosen == "blend"
    assert changed <= 6
