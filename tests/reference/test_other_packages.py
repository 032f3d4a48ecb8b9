"""What the guide says of other packages: where it says that numbers are the same, they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binned_statistic

import calibrant as cb

NEW = np.linspace(0.01, 0.99, 99)


def rows(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 2.0, 2_000)
    return p, (rng.random(2_000) < p**1.4).astype(int)


def both(p: Any) -> Any:
    return np.column_stack((1.0 - p, p))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["abm", "am", "ab"])
@pytest.mark.parametrize("seed", range(4))
def test_beta_gives_the_numbers_of_betacal_or_comes_nearer_to_the_optimum(form: Any, seed: int) -> None:
    betacal = pytest.importorskip("betacal", reason="betacal of the test group is not installed")
    p, y = rows(seed)
    theirs, ours = betacal.BetaCalibration(form).fit(p[:, None], y), cb.BetaCalibrator(form=form).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict(NEW[:, None]), atol=2e-3)
    losses = [cb.metrics.log_loss(y, q) for q in (ours.predict_proba(p), theirs.predict(p[:, None]))]
    assert losses[0] <= losses[1] + 1e-12 < losses[0] + 1e-6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_venn_abers_gives_the_numbers_of_venn_abers(seed: int) -> None:
    venn_abers = pytest.importorskip("venn_abers", reason="venn-abers of the test group is not installed")
    p, y = rows(seed)
    theirs = venn_abers.VennAbers()
    theirs.fit(both(p), y)
    merged, ends = theirs.predict_proba(both(NEW))
    ours = cb.VennAbersCalibrator().fit(p, y)
    np.testing.assert_allclose(np.column_stack(ours.predict_interval(NEW)), ends, atol=1e-12)
    np.testing.assert_allclose(ours.predict_proba(NEW), merged[:, 1], atol=1e-12)


def test_errors_over_bins_are_those_of_netcals_formula() -> None:
    """Fifteen bins of equal width: the mean gap by rows, and the largest; of several classes those of the top label."""
    p, y = rows(0)
    P = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 2_000)
    classes = np.random.default_rng(2).integers(0, 3, 2_000)
    cases = [(p, y, cb.metrics.ece(y, p, n_bins=15))]
    cases += [(P.max(axis=1), P.argmax(axis=1) == classes, cb.metrics.top_label_ece(classes, P, n_bins=15))]
    for score, event, found in cases:
        sums = [
            binned_statistic(score, values, "sum", bins=15, range=(0, 1)).statistic
            for values in (score, event, np.ones(score.size))
        ]
        assert found == pytest.approx(np.abs(sums[0] - sums[1]).sum() / score.size, abs=1e-12)
        if score is p:
            largest = np.nanmax(np.abs(sums[0] - sums[1]) / sums[2])
            assert cb.metrics.max_calibration_error(y, p, n_bins=15) == pytest.approx(largest, abs=1e-12)
