"""Mimic calibration against the rule that defines it, followed step by step in exact fractions."""

from __future__ import annotations

import pickle
from copy import deepcopy
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import isotonic_regression

import calibrant as cb
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, NotFittedError
from calibrant.maps import InterpolatedMap

BOUNDARIES = ("mean", "min", "max", "median", "unweighted")


class Bin(NamedTuple):
    scores: tuple
    weights: tuple
    positives: Fraction
    unweighted: Fraction

    @property
    def weight(self):
        return sum(self.weights)

    @property
    def rate(self):
        return self.positives / self.weight

    @property
    def mean(self):
        return sum(s * w for s, w in zip(self.scores, self.weights, strict=True)) / self.weight


def first_bins(rows, threshold):
    """Fill bins with whole groups of equal scores; rows are (score, positive, weight) in fractions."""
    bins, held = [], []
    for score in sorted({s for s, _, _ in rows}):
        held += [row for row in rows if row[0] == score]
        if sum(w for _, y, w in held if y) >= threshold:
            bins.append(held)
            held = []
    bins += [held] if held else []
    made = []
    for group in bins:
        scores, _, weights = zip(*group, strict=True)
        positives = sum((w for _, y, w in group if y), Fraction(0))
        mean = sum(s * w for s, _, w in group) / sum(weights)
        made.append(Bin(scores, weights, positives, mean))
    return made


def join(a, b):
    return Bin(a.scores + b.scores, a.weights + b.weights, a.positives + b.positives, (a.unweighted + b.unweighted) / 2)


def one_pass(bins):
    out = bins[:1]
    for following in bins[1:]:
        if out[-1].rate > following.rate:
            out[-1] = join(out[-1], following)
        else:
            out.append(following)
    return out


def passes(bins):
    """All tables of the definition: a pass looks at every bin, and passes go on until one changes nothing."""
    tables = [bins]
    while len(after := one_pass(tables[-1])) < len(tables[-1]):
        tables.append(after)
    return tables


def pooled(bins):
    """Pool adjacent violators with a stack, merging where the left rate is greater."""
    stack = []
    for new in bins:
        while stack and stack[-1].rate > new.rate:
            new = join(stack.pop(), new)
        stack.append(new)
    return stack


def median(b):
    """The median of a bin whose weights are whole numbers."""
    return np.median(np.repeat(np.array(b.scores, float), np.array(b.weights, int)))


RECORDED = {
    "mean": lambda b: b.mean,
    "min": lambda b: min(b.scores),
    "max": lambda b: max(b.scores),
    "median": median,
    "unweighted": lambda b: b.unweighted,
}
ROWS = st.lists(
    st.tuples(st.integers(-16, 16).map(lambda k: Fraction(k, 16)), st.booleans(), st.integers(1, 3)),
    min_size=2,
    max_size=60,
).filter(lambda rows: len({y for _, y, _ in rows}) == 2)


def fit(rows, threshold, **params):
    scores, y, w = zip(*rows, strict=True)
    calibrator = cb.MimicCalibrator(threshold, input="score", **params)
    return calibrator.fit(np.array(scores, float), y, sample_weight=np.array(w, float))


def check_table(table, bins, boundary):
    assert table.n.tolist() == [b.weight for b in bins]
    assert table.positives.tolist() == [b.positives for b in bins]
    assert table.rate.tolist() == [float(b.rate) for b in bins]
    assert table.score_min.tolist() == [min(b.scores) for b in bins]
    assert table.score_max.tolist() == [max(b.scores) for b in bins]
    assert table.n_below.tolist() == [sum(b.weight for b in bins[:k]) for k in range(len(bins))]
    np.testing.assert_allclose(table.score_mean, [float(b.mean) for b in bins], atol=1e-14)
    np.testing.assert_allclose(table.boundary, [float(RECORDED[boundary](b)) for b in bins], atol=1e-14)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@given(rows=ROWS, threshold=st.integers(1, 4))
def test_history_is_every_pass_of_the_definition(boundary, rows, threshold):
    expected = passes(first_bins(rows, threshold))
    recorded = fit(rows, threshold, record_history=True, boundary=boundary)
    assert [table.size for table in recorded.history_] == [len(bins) for bins in expected]
    for table, bins in zip(recorded.history_, expected, strict=True):
        check_table(table, bins, boundary)
    check_table(fit(rows, threshold, boundary=boundary).calibrated_model_, expected[-1], boundary)


@given(rows=ROWS, threshold=st.integers(1, 4))
def test_repeated_passes_end_where_one_pass_of_pooling_does(rows, threshold):
    bins = first_bins(rows, threshold)
    assert [b.scores for b in passes(bins)[-1]] == [b.scores for b in pooled(bins)]
    check_table(fit(rows, threshold).calibrated_model_, pooled(bins), "mean")


@given(rows=ROWS, threshold=st.integers(1, 4))
def test_rates_are_the_isotonic_regression_of_the_first_bins(rows, threshold):
    bins = first_bins(rows, threshold)
    levels = isotonic_regression([float(b.rate) for b in bins], weights=[float(b.weight) for b in bins]).x
    fitted = fit(rows, threshold)
    table = fitted.calibrated_model_
    of = np.searchsorted(table.score_min, [float(min(b.scores)) for b in bins], side="right") - 1
    np.testing.assert_allclose(table.rate[of], levels, atol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@given(rows=ROWS, threshold=st.integers(1, 4))
def test_map_goes_through_the_points_and_is_flat_outside(boundary, rows, threshold):
    fitted = fit(rows, threshold, boundary=boundary)
    x, y = fitted.boundary_table_, fitted.calibrated_model_.rate
    assert (np.diff(x) > 0).all()
    new = np.linspace(-2, 2, 101)
    np.testing.assert_allclose(fitted.predict_proba(new), np.interp(new, x, y), atol=1e-12)
    np.testing.assert_array_equal(fitted.predict_proba(x), y)


def test_equal_rates_are_not_merged():
    fitted = cb.MimicCalibrator(1).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    assert fitted.calibrated_model_.rate.tolist() == [0.5, 0.5]


def test_only_the_last_first_bin_may_hold_fewer_positives():
    rng = np.random.default_rng(0)
    p = rng.random(1003)
    y = rng.random(1003) < p
    first = cb.MimicCalibrator(7, record_history=True).fit(p, y).history_[0]
    assert set(first.positives[:-1]) == {7.0}
    assert first.positives[-1] == (y.sum() % 7 or 7)


def test_a_bin_without_positives_joins_the_one_before():
    fitted = cb.MimicCalibrator(1, record_history=True).fit([0.1, 0.2, 0.9], [0, 1, 0])
    assert [table.rate.tolist() for table in fitted.history_] == [[0.5, 0.0], [1 / 3]]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_fewer_positives_than_a_bin_holds_give_the_base_rate(boundary):
    fitted = cb.MimicCalibrator(5, boundary=boundary).fit([0.1, 0.2, 0.3, 0.7, 0.8], [0, 1, 0, 1, 1])
    assert fitted.predict_proba([0.0, 0.5, 1.0]).tolist() == [0.6] * 3
    assert fitted.calibrated_model_.size == fitted.boundary_table_.size == 1


def test_tied_scores_stay_in_one_bin_whatever_the_order_of_rows():
    p = np.repeat([0.2, 0.4, 0.6], 20)
    y = np.tile([1, 0, 0, 1], 15)
    order = np.random.default_rng(0).permutation(60)
    table = cb.MimicCalibrator(3, record_history=True).fit(p, y).history_[0]
    assert table.positives.tolist() == [10.0, 10.0, 10.0]
    np.testing.assert_array_equal(cb.MimicCalibrator(3, record_history=True).fit(p[order], y[order]).history_[0], table)


def test_weights_of_a_tenth_fill_bins_as_ten_times_the_rows_would():
    """Fifty sums of 0.1 fall short of 5 by rounding."""
    rng = np.random.default_rng(3)
    p = rng.random(4000)
    y = rng.random(4000) < p
    tenths = cb.MimicCalibrator(5, record_history=True).fit(p, y, sample_weight=np.full(4000, 0.1)).history_[0]
    whole = cb.MimicCalibrator(50, record_history=True).fit(p, y).history_[0]
    np.testing.assert_array_equal(tenths.score_max, whole.score_max)
    np.testing.assert_allclose(tenths.rate, whole.rate, rtol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "scores",
    [
        [-1.7e308, -1e308, 1e308, 1.7e308] * 3,
        [0.0, 5e-324, 1e-323, 1.5e-323] * 3,
        [1.0, np.nextafter(1, 2), np.nextafter(1, 0), 1.5] * 3,
    ],
    ids=["huge", "subnormal", "neighbouring"],
)
def test_extreme_scores_give_finite_points_that_rise(boundary, scores):
    y = [0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1]
    weight = [10.0, 1, 1, 2, 1, 1, 1, 2, 1, 1, 3, 1]
    fitted = cb.MimicCalibrator(1, boundary=boundary, input="score").fit(scores, y, sample_weight=weight)
    x = fitted.boundary_table_
    assert np.isfinite(x).all()
    assert (x[1:] > x[:-1]).all()
    assert (np.diff(fitted.predict_proba(sorted(scores))) >= 0).all()


def test_kinds_of_input_give_the_same_bins():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.01, 0.99, 500)
    y = rng.random(500) < p
    of_p = cb.MimicCalibrator(boundary="max").fit(p, y).calibrated_model_
    of_z = cb.MimicCalibrator(boundary="max", input="logit").fit(np.log(p) - np.log1p(-p), y).calibrated_model_
    for column in ("n", "positives", "rate"):
        assert of_p[column].tolist() == of_z[column].tolist()


def test_a_summary_knows_its_bins_too():
    rng = np.random.default_rng(1)
    p = rng.random(500)
    y = rng.random(500) < p
    from_rows = cb.MimicCalibrator().fit(p, y)
    from_summary = cb.MimicCalibrator().fit_summary(cb.ScoreSummary.from_arrays(p, y))
    np.testing.assert_array_equal(from_summary.calibrated_model_, from_rows.calibrated_model_)


def test_history_is_none_unless_asked_for_and_tables_are_read_only():
    fitted = cb.MimicCalibrator().fit(np.linspace(0, 1, 20), [0, 1] * 10)
    assert fitted.history_ is None
    with pytest.raises(ValueError, match="read-only"):
        fitted.calibrated_model_.rate[0] = 0.5
    with pytest.raises(ValueError, match="read-only"):
        fitted.boundary_table_[0] = 0.5
    assert isinstance(fitted.map_, InterpolatedMap)
    assert fitted.map_.x.flags.writeable


def test_copies_keep_their_tables():
    fitted = cb.MimicCalibrator(2, record_history=True).fit(np.linspace(0, 1, 20), [0, 1] * 10)
    for copy in (deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(copy.calibrated_model_, fitted.calibrated_model_)
        assert len(copy.history_) == len(fitted.history_)


TABLES = ("calibrated_model_", "boundary_table_", "history_")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_a_loaded_calibrator_has_its_map_and_says_that_its_tables_are_gone(tmp_path, suffix, name):
    p = np.linspace(0, 1, 40)
    fitted = cb.MimicCalibrator(3, record_history=True, boundary="median").fit(p, [0, 1] * 20)
    cb.save(fitted, tmp_path / f"mimic{suffix}")
    loaded = cb.load(tmp_path / f"mimic{suffix}")
    assert loaded.get_params() == {
        "threshold_pos": 3,
        "record_history": True,
        "boundary": "median",
        "bounded": False,
        "input": fitted.input,
    }
    assert loaded.predict_proba(p).tobytes() == fitted.predict_proba(p).tobytes()
    with pytest.raises(NotFittedError, match=rf"{name}: the bins .* a document stores the map only\. Fit again"):
        getattr(loaded, name)


@pytest.mark.parametrize("name", TABLES)
def test_several_columns_have_no_single_table(name):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 90)
    fitted = cb.MimicCalibrator().fit(P, np.arange(90) % 3)
    with pytest.raises(NotFittedError, match=rf"{name}: this MimicCalibrator was fitted to 3 columns"):
        getattr(fitted, name)


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_another_map_are_not_shown(name):
    fitted = cb.MimicCalibrator(2, record_history=True).fit(np.linspace(0, 1, 20), [0, 1] * 10)
    fitted.fit_map(cb.ScoreSummary.from_arrays(np.linspace(0, 1, 30), [0, 0, 1] * 10))
    with pytest.raises(NotFittedError, match=rf"{name}: the bins of this MimicCalibrator are not known"):
        getattr(fitted, name)


@pytest.mark.parametrize("name", TABLES)
def test_tables_before_a_fit_say_so(name):
    with pytest.raises(NotFittedError, match=r"not fitted\. Call fit\(scores, y\) first"):
        getattr(cb.MimicCalibrator(), name)


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"threshold_pos": 0}, InvalidInputError, "threshold_pos=0 is too small"),
        ({"threshold_pos": 2.5}, InvalidTypeError, "threshold_pos=2.5 is not a whole number"),
        ({"boundary": "meen"}, CalibrantError, "unknown value of boundary: 'meen'. Did you mean 'mean'"),
    ],
)
def test_bad_settings_are_named(params, error, text):
    with pytest.raises(error, match=text):
        cb.MimicCalibrator(**params).fit([0.1, 0.2], [0, 1])
