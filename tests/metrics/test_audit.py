"""The audit: honest on calibrated predictions, first to find what was planted, and one count per set of rows."""

from __future__ import annotations

import numpy as np
import pytest
from audit_cases import draw_rows
from scipy.stats import binom

from calibrant.metrics import audit, multicalibration_error


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_predictions_are_rarely_found_off(weighted):
    n_off, n_misses, n_runs = 0, 0, 80
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.5, 4.0, 400)
        features = {"a": rng.integers(0, 3, 400), "b": rng.integers(0, 4, 400)}
        weight = rng.gamma(0.3, 1.0, 400) if weighted else None
        options = {"level": 0.8, "min_rows": 5, "n_draws": 199, "sample_weight": weight, "rng": seed}
        found = audit(rng.random(400) < p, p, features=features, **options)
        n_off += bool(found.off)
        n_misses += any(f.low > 0.0 or f.high < 0.0 for f in found.findings)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)
    assert n_misses <= n_off


@pytest.mark.slow
def test_bounds_hold_the_true_gaps_of_all_segments_at_once():
    n_covered, n_runs = 0, 60
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        p, a, b = rng.beta(1.0, 9.0, 2000), rng.integers(0, 4, 2000), rng.integers(0, 4, 2000)
        truth = np.where((a == 0) & (b < 2), 3.0 * p / (1.0 + 2.0 * p), p)
        found = audit(rng.random(2000) < truth, p, features={"a": a, "b": b}, n_draws=199, rng=seed)
        columns = {"a": a, "b": b}
        kept = [
            np.all([columns[name] == value for name, value in f.where] + [p >= 0.0], axis=0) for f in found.findings
        ]
        gaps = [(p - truth)[rows].mean() for rows in kept]
        n_covered += all(f.low <= gap <= f.high for f, gap in zip(found.findings, gaps, strict=True))
    assert n_covered >= binom.ppf(0.001, n_runs, 0.95)


@pytest.mark.parametrize("seed", range(5))
def test_planted_group_is_found_first(seed):
    rng, p, features = draw_rows(6000, seed)
    planted = features["city"] == "Rome"
    found = audit(rng.random(6000) < np.where(planted, p**2.5, p), p, features=features, n_draws=99)
    worst = found.findings[0]
    assert worst.where == (("city", "Rome"),)
    assert worst.low < p[planted].mean() - (p[planted] ** 2.5).mean() < worst.high
    assert all(("city", "Rome") in f.where or f.gap > 0 for f in found.off)
    assert "Worst: city = Rome, predictions too high by " in found.verdict


@pytest.mark.parametrize("power", [1.0, 2.5])
def test_all_rows_are_not_counted_among_segments_of_more_rows_than_there_are(power):
    rng, p, features = draw_rows(2000, 0)
    said = audit(rng.random(2000) < p**power, p, features=features, min_rows=5000, n_draws=99).verdict
    assert "f 1 segment, all rows (no other has 5,000 rows)" in said
    assert "of at least" not in said


@pytest.mark.parametrize("seed", range(5))
def test_planted_intersection_is_found_first(seed):
    rng, p, features = draw_rows(6000, seed)
    planted = (features["city"] == "Kyiv") & (features["sex"] == "f")
    found = audit(rng.random(6000) < np.where(planted, p**0.3, p), p, features=features, n_draws=99)
    assert dict(found.findings[0].where) == {"city": "Kyiv", "sex": "f"}
    assert found.findings[0].gap < 0.0
    assert "predictions too low by" in found.findings[0].words


def test_errors_of_opposite_sign_by_score_are_found_where_the_mean_is_right():
    rng, p, features = draw_rows(8000)
    p = rng.uniform(0.05, 0.95, 8000)
    planted = features["sex"] == "m"
    found = audit(rng.random(8000) < np.where(planted, 0.5 + 0.5 * (p - 0.5), p), p, features=features, n_draws=99)
    worst = found.findings[0]
    assert worst.where == (("sex", "m"),)
    assert worst.is_off
    assert worst.low < 0.0 < worst.high


def test_figures_are_those_of_the_rows():
    rng, p, features = draw_rows()
    del features["age"]
    y = rng.random(3000) < p
    for finding in audit(y, p, features=features, min_rows=1, n_draws=19).findings:
        kept = np.ones(3000, dtype=bool)
        for column, value in finding.where:
            kept &= features[column] == value
        assert finding.n == finding.n_eff == kept.sum()
        assert finding.predicted == pytest.approx(p[kept].mean())
        assert finding.observed == pytest.approx(y[kept].mean())
        assert finding.gap == pytest.approx(p[kept].mean() - y[kept].mean())
        assert finding.low <= finding.gap <= finding.high
        assert finding.at_least == max(finding.low, -finding.high, 0.0)


def test_every_segment_is_looked_at_once():
    rng, p, features = draw_rows()
    del features["age"]
    y = rng.random(3000) < p
    of = {"features": features, "min_rows": 1, "n_draws": 9}
    assert len(audit(y, p, **of).findings) == 1 + (3 + 2 + 4) + (6 + 12 + 8)
    assert len(audit(y, p, **of, depth=0).findings) == 1
    assert len(audit(y, p, **of, depth=1).findings) == 1 + 9
    assert len(audit(y, p, **of, depth=3).findings) == 1 + 9 + 26 + 24
    assert len(audit(y, p, **of, depth=9).findings) == 1 + 9 + 26 + 24


def test_columns_that_say_the_same_are_looked_at_once():
    rng, p, features = draw_rows()
    y, sex = rng.random(3000) < p, features["sex"]
    alone = audit(y, p, features={"sex": sex}, n_draws=9)
    again = audit(y, p, features={"sex": sex, "is_f": sex == "f", "all": np.ones(3000, int)}, n_draws=9)
    assert [f.where for f in again.findings if len(f.where) == 2] == []
    assert not any(("all", 1) in f.where for f in again.findings)
    assert len(again.findings) == len(alone.findings) + 2  # the copy by its own name


def test_small_segments_are_counted_and_left_out():
    rng, p, _ = draw_rows(300)
    rare = np.where(np.arange(300) < 7, "rare", "usual")
    found = audit(rng.random(300) < p, p, features={"kind": rare}, min_rows=8)
    assert [f.label for f in found.findings if f.where] == ["kind = usual"]
    assert found.n_left_out == 1
    assert "segments of at least 8 rows" in found.verdict


def test_the_multicalibration_error_is_the_worst_finding():
    rng, p, features = draw_rows(2000)
    y = rng.random(2000) < p**1.3
    found, one = audit(y, p, features=features), multicalibration_error(y, p, features=features)
    worst = found.findings[0]
    assert (one.sigma, one.p_value, one.error, one.segment) == (worst.sigma, worst.p_value, worst.error, worst.label)
    assert one.error_of_all == worst.sigma * found.spread
    assert (one.n, one.n_segments, one.critical) == (worst.n, len(found.findings), found.critical)
    assert one.segment in one.words


def test_documents_and_frames_hold_all_segments():
    rng, p, features = draw_rows(1500)
    features["age"][::7] = np.nan
    found = audit(rng.random(1500) < p, p, features=features, n_draws=19)
    document = found.to_dict()
    assert document["n_looked_at"] == len(document["findings"]) == len(found.to_frame("pandas"))
    wheres = [where["age"] for each in document["findings"] if "age" in (where := each["where"])]
    assert None in wheres
    assert all(where is None or where["from"] <= where["to"] for where in wheres)
