"""Venn-Abers: each pair equals two refits, in exact rationals and by scikit-learn, and is valid as the theory says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.isotonic import IsotonicRegression

import calibrant as cb
from calibrant.document_field import DocumentField
from calibrant.maps import decode_map
from calibrant.rows import Rows

LARGEST = float(np.finfo(np.float64).max)


def has_both_classes(rows):
    return len({row[1] for row in rows}) == 2


def rows_of(*columns, min_size=2, max_size=14):
    rows = st.lists(st.tuples(*columns), min_size=min_size, max_size=max_size)
    return rows.filter(has_both_classes).map(lambda found: tuple(np.array(c) for c in zip(*found, strict=True)))


#: Sixteenths, so that many are equal.
TIED = st.integers(-4, 12).map(lambda k: k / 16)
WEIGHT = st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1e-9, 0.1, 1.0, 3.0, 1e12]))


def everywhere(scores):
    """Return the scores, points between and beyond them, and their neighbours that are just far enough to count."""
    s = np.unique(scores)
    between, beside = 0.5 * s[1:] + 0.5 * s[:-1], 20.0 * np.spacing(np.abs(s))
    return np.concatenate((s, between, s - beside, s + beside, [s[0] - 1, s[-1] + 1]))


def exact_fit(rows, at):
    """Isotonic regression in rationals by pooling; the fit at one of its scores."""
    blocks = []
    for score in sorted({s for s, _, _ in rows}):
        weight = sum(w for s, w, _ in rows if s == score)
        positives = sum(w * y for s, w, y in rows if s == score)
        held = [score]
        while blocks and blocks[-1][1] * weight >= positives * blocks[-1][0]:
            more_weight, more_positives, more_held = blocks.pop()
            weight, positives, held = weight + more_weight, positives + more_positives, more_held + held
        blocks.append((weight, positives, held))
    return next(p / w for w, p, held in blocks if at in held)


def exact_pair(s, y, w, at):
    rows = [(a, Fraction(c), int(b)) for a, b, c in zip(s.tolist(), y.tolist(), w.tolist(), strict=True)]
    return tuple(exact_fit([*rows, (at, Fraction(1), label)], at) for label in (0, 1))


def draw(n, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    if decimals is not None:
        p = p.round(decimals)
    return p, rng.random(n) < p**1.5


def bits(fitted):
    return [a.tobytes() for a in (fitted.edges0, fitted.levels0, fitted.edges1, fitted.levels1)]


# --- the pair ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(rows_of(TIED, st.booleans()))
def test_unweighted_pair_is_the_rational_one_rounded_once(rows):
    s, y = rows
    new = everywhere(s)
    fitted = cb.VennAbersCalibrator(input="score").fit(s, y)
    p0, p1 = fitted.predict_interval(new)
    merged = fitted.predict_proba(new)
    for i, at in enumerate(new.tolist()):
        low, high = exact_pair(s, y, np.ones(s.size), at)
        assert (p0[i], p1[i]) == (float(low), float(high))
        assert merged[i] == pytest.approx(float(high / (1 - low + high)), rel=1e-15)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(rows_of(TIED, st.booleans(), WEIGHT))
def test_weighted_pair_is_the_rational_one(rows):
    """Also beside weights a trillion times as large: sums don't lose what is small."""
    s, y, w = rows
    new = everywhere(s)
    pairs = cb.VennAbersCalibrator(input="score").fit(s, y, sample_weight=w).predict_interval(new)
    exact = [exact_pair(s, y, w, at) for at in new.tolist()]
    np.testing.assert_allclose(np.column_stack(pairs), np.array(exact, dtype=float), rtol=1e-13, atol=1e-15)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows_of(TIED, st.booleans(), st.floats(0.1, 10.0), max_size=30))
def test_pair_equals_refits_of_scikit_learn(rows):
    s, y, w = rows
    new = everywhere(s).round(4)
    fitted = cb.VennAbersCalibrator(input="score").fit(s, y, sample_weight=w)
    for label, ours in enumerate(fitted.predict_interval(new)):
        theirs = [
            IsotonicRegression().fit(np.append(s, at), np.append(y, label), np.append(w, 1.0)).predict([at])[0]
            for at in new
        ]
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("shape", ["rising", "falling", "blocks", "alternating", "noise", "tied"])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_inputs_of_any_shape_equal_refits(shape, weighted):
    """A pass that walked back or forth more than once for each row would take hours on some of these."""
    n = 200_000
    rng = np.random.default_rng(0)
    s = np.arange(n) / n
    y = {
        "rising": lambda: s >= 0.5,
        "falling": lambda: s < 0.5,
        "blocks": lambda: rng.random(n) < s,
        "alternating": lambda: np.arange(n) % 2 == 0,
        "noise": lambda: rng.random(n) < 0.01,
        "tied": lambda: rng.random(n) < s,
    }[shape]()
    s = s.round(3) if shape == "tied" else s
    w = rng.exponential(size=n) + 1e-3 if weighted else np.ones(n)
    new = np.array([-0.1, s[1], 0.25003, s[n // 2], 0.9, s[-1], 1.1])
    fitted = cb.VennAbersCalibrator(input="score").fit(s, y, sample_weight=w)
    for label, ours in enumerate(fitted.predict_interval(new)):
        for at, got in zip(new, ours, strict=True):
            rows = np.append(s, at), np.append(y, label), np.append(w, 1.0)
            assert got == pytest.approx(IsotonicRegression().fit(*rows).predict([at])[0], abs=1e-11)


def check_pair(s, y, w, new=()):
    fitted = cb.VennAbersCalibrator(input="score").fit(s, y, sample_weight=w)
    at = np.sort(np.concatenate((everywhere(s), new)))
    p0, p1 = fitted.predict_interval(at)
    q = fitted.predict_proba(at)
    for rising in (p0, p1, q):
        assert (np.diff(rising) >= 0.0).all()
    assert ((p0 >= 0.0) & (p0 <= q) & (q <= p1) & (p1 <= 1.0)).all()
    assert p0[0] == 0.0
    assert p1[-1] == 1.0
    assert bits(decode_map(DocumentField(fitted.map_.encode()))) == bits(fitted.map_)
    for levels in (fitted.map_.levels0, fitted.map_.levels1):
        assert (np.diff(levels) > 0.0).all()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    rows=rows_of(st.floats(-1e300, 1e300) | TIED, st.booleans(), WEIGHT, max_size=40),
    new=st.lists(st.floats(-1e306, 1e306), max_size=20),
)
def test_pair_rises_and_brackets_the_merged_probability_to_the_last_bit(rows, new):
    check_pair(*rows, new)


@pytest.mark.parametrize("spread", [1.0, 5.0, 15.0])
def test_rounding_of_weights_breaks_no_order(spread):
    rng = np.random.default_rng(0)
    for n in [*range(2, 26)] * 10:
        y = rng.permutation(np.arange(n) < rng.integers(1, n))
        check_pair(rng.integers(0, 12, n) / 12, y, np.exp(rng.normal(0.0, spread, n)))


def test_roundings_of_equal_fits_break_no_order():
    """Fits of positive rows only are 1 from several sums, whose roundings fall."""
    w = np.array([2.730492148018856, 4.881456820825802, 1.4190920997002583, 220.01940372354161])
    check_pair(np.arange(4) / 16, np.array([0, 1, 1, 1]), w)


def test_weights_that_drown_the_added_object_break_no_order():
    """Both sides are then the same fit, whose roundings differ."""
    s = np.array([0.0, 5 / 12, 0.5])
    check_pair(s, np.array([0, 1, 1]), np.array([2177487471802340.5, 5710396611027514.0, 6088425438169963.0]))


@settings(max_examples=50, deadline=None)
@given(rows_of(TIED, st.booleans()))
def test_merged_probability_is_never_zero_or_one(rows):
    q = cb.VennAbersCalibrator(input="score").fit(*rows).predict_proba(everywhere(rows[0]))
    n = len(rows[0])
    assert q.min() >= 1.0 / (n + 2) - 1e-15
    assert q.max() <= 1.0 - 1.0 / (n + 2) + 1e-15


@settings(max_examples=50, deadline=None)
@given(rows_of(TIED, st.booleans()))
def test_other_way_round_the_pair_changes_sides(rows):
    s, y = rows
    new = everywhere(s)
    p0, p1 = cb.VennAbersCalibrator(input="score").fit(s, y).predict_interval(new)
    q0, q1 = cb.VennAbersCalibrator(input="score").fit(-s, ~y).predict_interval(-new)
    np.testing.assert_allclose(q0, 1.0 - p1, atol=1e-15)
    np.testing.assert_allclose(q1, 1.0 - p0, atol=1e-15)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (10, 3), (1000, 1), (1000, 999)])
@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_a_constant_score_gives_the_base_rate_with_one_more_row_of_each_label(n, k, score):
    fitted = cb.VennAbersCalibrator().fit([score] * n, [1] * k + [0] * (n - k))
    p0, p1 = fitted.predict_interval([score])
    assert (p0[0], p1[0]) == (k / (n + 1), (k + 1) / (n + 1))
    assert fitted.predict_proba([score])[0] == pytest.approx((k + 1) / (n + 2), rel=1e-15)


@pytest.mark.parametrize(
    ("y", "p0", "p1"),
    [
        ([0, 1], [0, 0, 0, 1 / 2, 1 / 2], [1 / 2, 1 / 2, 1, 1, 1]),
        ([1, 0], [0, 1 / 3, 1 / 3, 1 / 3, 1 / 3], [2 / 3, 2 / 3, 2 / 3, 2 / 3, 1]),
    ],
)
def test_two_rows_by_hand(y, p0, p1):
    got = cb.VennAbersCalibrator().fit([0.3, 0.7], y).predict_interval([0.2, 0.3, 0.5, 0.7, 0.8])
    assert [side.tolist() for side in got] == [p0, p1]


def test_one_group_of_half_a_row_leaves_the_added_object_its_weight_of_one():
    summary = cb.ScoreSummary.from_cells([0.4], [0.5], [0.25])
    p0, p1 = cb.VennAbersCalibrator().fit_summary(summary).predict_interval([0.4])
    assert (p0[0], p1[0]) == (0.25 / 1.5, 1.25 / 1.5)


def test_an_object_that_outweighs_all_rows_pools_them_in_linear_time():
    """Each row is a vertex of the hulls, and each added object moves over all of them."""
    m = 300_000
    s = np.arange(m) / m
    summary = cb.ScoreSummary.from_cells(s, np.full(m, 1e-9), 1e-9 * s)
    fitted = cb.VennAbersCalibrator().fit_summary(summary)
    weight = 1.0 + 1e-9 * np.arange(1, m + 1)
    for at in (0, m // 2, m - 1):
        p0, p1 = fitted.predict_interval([s[at]])
        above, below = 1e-9 * np.cumsum(s[at:]), 1e-9 * np.cumsum(s[at::-1])
        assert p1[0] == pytest.approx(((1.0 + above) / weight[: m - at]).min(), rel=1e-11)
        assert p0[0] == pytest.approx((below / weight[: at + 1]).max(), rel=1e-11)


@pytest.mark.parametrize("s", [[-LARGEST, LARGEST], [-5e-324, 5e-324], [-0.0, 5e-324]])
def test_edges_hold_at_the_ends_of_float64(s):
    new = np.array([s[0], s[1], -0.0, 0.0] * 5000)
    p0, p1 = cb.VennAbersCalibrator(input="score").fit(s, [1, 0]).predict_interval(new)
    assert p0.tolist() == [1 / 3 if at >= s[0] else 0.0 for at in new]
    assert p1.tolist() == [2 / 3 if at <= s[1] else 1.0 for at in new]


# --- laws ----------------------------------------------------------------------------------------------------


def test_row_order_does_not_change_a_bit():
    p, y = draw(5000, decimals=3)
    expected = bits(cb.VennAbersCalibrator().fit(p, y).map_)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(p.size)
        assert bits(cb.VennAbersCalibrator().fit(p[order], y[order]).map_) == expected


def test_whole_weights_equal_rows_to_the_last_bit():
    p, y = draw(2000, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, p.size)
    weighted = cb.VennAbersCalibrator().fit(p, y, sample_weight=w).map_
    assert bits(cb.VennAbersCalibrator().fit(np.repeat(p, w), np.repeat(y, w)).map_) == bits(weighted)


def test_merged_summaries_give_the_bits_of_all_rows():
    p, y = draw(3000)
    parts = [cb.ScoreSummary.from_arrays(p[i::3], y[i::3]) for i in range(3)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert bits(cb.VennAbersCalibrator().fit_summary(merged).map_) == bits(cb.VennAbersCalibrator().fit(p, y).map_)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(rows_of(st.floats(0, 1), st.booleans(), WEIGHT, max_size=30), st.integers(0, 10_000))
def test_one_row_alone_equals_the_row_in_a_batch_that_reads_one_table(rows, seed):
    s, y, w = rows
    fitted = cb.VennAbersCalibrator().fit(s, y, sample_weight=w).map_
    batch = np.concatenate((everywhere(s), np.random.default_rng(seed).random(300)))
    assert batch.size > fitted.edges0.size + fitted.edges1.size
    alone = [fitted.apply(batch[i : i + 1])[0] for i in range(batch.size)]
    assert fitted.apply(batch).tolist() == alone
    assert fitted.merged().apply(batch).tolist() == alone


@pytest.mark.slow
def test_the_side_of_the_label_is_perfectly_calibrated():
    """E[Y | P_Y] = P_Y for exchangeable rows, however few (Vovk and Petej 2014, theorem 1)."""
    rng = np.random.default_rng(0)
    n, repeats = 8, 20_000
    s = rng.random((repeats, n + 1))
    y = rng.random(s.shape) < s
    chosen = np.empty(repeats)
    for i in range(repeats):  # rows of one label count too, which the gate would refuse
        fitted = cb.VennAbersCalibrator().fit_map(Rows.of_positives(s[i, :n], y[i, :n], None))
        chosen[i] = fitted.pair(s[i, n:])[int(y[i, n])][0]
    found, count = np.unique(chosen, return_counts=True)
    common = found[count >= 100]
    assert common.size > 10
    for level in common.tolist():
        labels = y[chosen == level, n]
        assert abs(labels.mean() - level) <= 4 * np.sqrt(level * (1 - level) / labels.size)


def test_merged_probability_is_right_on_average():
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(400):
        s = rng.random(60)
        y = rng.random(60) < s
        new = rng.random(500)
        gaps.append(cb.VennAbersCalibrator().fit(s, y).predict_proba(new).mean() - new.mean())
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))
