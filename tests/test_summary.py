"""The summary: exact for unweighted rows in any order, mergeable, and equal to a dictionary's counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import isotonic_regression

import calibrant as cb
from calibrant import kernels, summary
from calibrant.errors import InvalidLabelError, InvalidWeightError, ShapeError

SCORES = st.one_of(  # none within a few units in the last place of another, which would be one score
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.0, 1.0 + 2.0**-44, 1.7e308, -1.7e308, 0.1, 0.3]),
)
ROWS = st.lists(st.tuples(SCORES, st.booleans(), st.integers(0, 3)), min_size=1, max_size=60)


def counts(rows):
    table: dict[float, list[float]] = {}
    for score, label, weight in rows:
        if weight:
            cell = table.setdefault(score + 0.0, [0.0, 0.0, 0.0])
            cell[0] += weight
            cell[1] += weight * label
            cell[2] += weight**2
    return [(s, *cell) for s, cell in sorted(table.items())]


def summarise(rows, *, weighted):
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    weight = weights.astype(float) if weighted else None
    return cb.ScoreSummary.from_rows(scores.astype(float), labels.astype(bool), weight)


def cells(s):
    return list(zip(s.scores.tolist(), s.weight.tolist(), s.positives.tolist(), s.weight_squared.tolist(), strict=True))


@given(ROWS)
def test_unweighted_summary_counts_rows_exactly(rows):
    unweighted = [(s, y, 1) for s, y, _ in rows]
    assert cells(summarise(unweighted, weighted=False)) == counts(unweighted)


@given(ROWS.filter(lambda rows: any(w for _, _, w in rows)))
def test_weighted_summary_sums_weights_and_drops_rows_of_weight_zero(rows):
    assert cells(summarise(rows, weighted=True)) == counts(rows)


@given(ROWS, ROWS)
def test_merging_parts_gives_the_summary_of_the_whole(first, second):
    whole = summarise(first + second, weighted=False)
    merged = summarise(first, weighted=False).merge(summarise(second, weighted=False))
    assert cells(merged) == cells(whole)
    assert merged.isotonic_blocks().positives.tolist() == whole.isotonic_blocks().positives.tolist()


def test_merging_weighted_with_unweighted():
    a = cb.ScoreSummary.from_arrays([0.1, 0.4], [0, 1], sample_weight=[2.0, 0.5])
    b = cb.ScoreSummary.from_arrays([0.1, 0.9], [1, 0])
    merged = a.merge(b)
    assert cells(merged) == [(0.1, 3.0, 1.0, 5.0), (0.4, 0.5, 0.5, 0.25), (0.9, 1.0, 0.0, 1.0)]
    assert merged.total_weight == 4.5
    assert merged.effective_size == pytest.approx(4.5**2 / 6.25)


@pytest.mark.parametrize("n", [1, 50, 40_000, 300_000])
@pytest.mark.parametrize("kind", ["uniform", "tied", "normal", "near", "constant", "wide"])
@pytest.mark.parametrize("numpy_sorts", [True, False])
def test_both_sorts_give_the_same_summary(n, kind, numpy_sorts, monkeypatch):
    rng = np.random.default_rng(n)
    scores = {
        "uniform": lambda: rng.random(n),
        "tied": lambda: rng.integers(0, 50, n) / 50,
        "normal": lambda: rng.normal(size=n),
        "near": lambda: 0.5 + 1e-16 * rng.integers(0, 2 * n, n),
        "constant": lambda: np.full(n, 0.25),
        "wide": lambda: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
    }[kind]()
    y = rng.random(n) < 0.4
    monkeypatch.setattr(summary, "_numpy_sorts_faster", lambda: numpy_sorts)
    s = cb.ScoreSummary.from_rows(scores, y, None)
    distinct, inverse = np.unique(scores, return_inverse=True)
    np.testing.assert_array_equal(s.scores, distinct)
    np.testing.assert_array_equal(s.weight, np.bincount(inverse))
    np.testing.assert_array_equal(s.positives, np.bincount(inverse, weights=y))
    w = rng.random(n)
    weighted = cb.ScoreSummary.from_rows(scores, y, w)
    np.testing.assert_array_equal(weighted.scores, distinct)
    np.testing.assert_allclose(weighted.weight, np.bincount(inverse, weights=w), rtol=1e-12)


def test_keys_that_agree_in_their_leading_bytes_fall_back_to_a_full_sort():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 20, 50_000).astype(np.uint64)
    keys[0] = np.uint64(1) << np.uint64(63)  # four bytes below this bit say nothing of the others
    expected = np.sort(keys)
    assert kernels.radix_sort(keys.copy(), np.empty_like(keys), 0) == 2
    np.testing.assert_array_equal(summary.sort_keys(keys), expected)


def rational_isotonic(rows):
    """Pool adjacent violators in exact rationals: the fit at each distinct score."""
    blocks: list[list] = []
    for score, weight, positives, _ in counts(rows):
        blocks.append([[score], Fraction(weight), Fraction(positives)])
        while len(blocks) > 1 and blocks[-2][2] * blocks[-1][1] >= blocks[-1][2] * blocks[-2][1]:
            scores, w, p = blocks.pop()
            blocks[-1] = [blocks[-1][0] + scores, blocks[-1][1] + w, blocks[-1][2] + p]
    return [(b[0][0], b[0][-1], float(b[1]), float(b[2])) for b in blocks]


@given(ROWS)
def test_blocks_equal_those_of_exact_rationals(rows):
    unweighted = [(s, y, 1) for s, y, _ in rows]
    blocks = summarise(unweighted, weighted=False).isotonic_blocks()
    found = list(zip(*(a.tolist() for a in blocks), strict=True))
    assert found == rational_isotonic(unweighted)


@given(ROWS.filter(lambda rows: any(w for _, _, w in rows)))
def test_weighted_blocks_equal_those_of_exact_rationals(rows):
    blocks = summarise(rows, weighted=True).isotonic_blocks()
    assert list(zip(*(a.tolist() for a in blocks), strict=True)) == rational_isotonic(rows)


def test_blocks_give_scipy_s_isotonic_regression():
    rng = np.random.default_rng(3)
    scores, w = rng.random(5000), rng.random(5000)
    y = rng.random(5000) < scores
    blocks = cb.ScoreSummary.from_rows(scores, y, w).isotonic_blocks()
    order = np.argsort(scores)
    expected = isotonic_regression(y[order].astype(float), weights=w[order]).x
    ours = blocks.rate[np.searchsorted(blocks.last, scores[order])]
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_rising_blocks_of_labels_fit_the_room_that_is_kept_for_them():
    """The most blocks that 0/1 labels can have: all fractions with small denominators, rising."""
    fractions = sorted({Fraction(a, b) for b in range(1, 60) for a in range(b + 1)})
    labels = np.concatenate([[1] * f.numerator + [0] * (f.denominator - f.numerator) for f in fractions]).astype(bool)
    blocks = cb.ScoreSummary.from_rows(np.arange(labels.size, dtype=float), labels, None).isotonic_blocks()
    assert blocks.rate.tolist() == [float(f) for f in fractions]


def test_row_order_does_not_change_a_bit():
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=1000).round(2), rng.random(1000) < 0.3
    order = rng.permutation(1000)
    a, b = (cb.ScoreSummary.from_rows(scores[i], y[i], None) for i in (slice(None), order))
    assert cells(a) == cells(b)


def test_totals():
    s = cb.ScoreSummary.from_arrays([0.1, 0.4, 0.4], ["no", "yes", "no"])
    assert (s.total_weight, s.total_positives, s.effective_size) == (3.0, 1.0, 3.0)
    assert s.base_rate == pytest.approx(1 / 3)


def test_from_cells_adds_groups_of_one_score():
    s = cb.ScoreSummary.from_cells([0.5, 0.1, 0.5, 0.7], [1, 2, 3, 0], [1, 0, 2, 0])
    assert cells(s) == [(0.1, 2.0, 0.0, 2.0), (0.5, 4.0, 3.0, 4.0)]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: cb.ScoreSummary.from_arrays([[0.1, 0.9]], [0]), ShapeError, r"shape \(1, 2\)"),
        (lambda: cb.ScoreSummary.from_arrays([0.1, 0.2], [0, 1, 1]), ShapeError, "scores has 2 rows and y has 3"),
        (lambda: cb.ScoreSummary.from_arrays([0.1] * 3, [0, 1, 2]), InvalidLabelError, "3 classes"),
        (lambda: cb.ScoreSummary.from_arrays([0.1] * 2, [1, 1]), InvalidLabelError, "one class only"),
        (lambda: cb.ScoreSummary.from_cells([0.1], [1], [2]), InvalidWeightError, r"weight 1\.0 with positives 2\.0"),
        (lambda: cb.ScoreSummary.from_cells([0.1], [1, 2], [0]), ShapeError, "weight has 2"),
    ],
)
def test_bad_input_is_named(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
