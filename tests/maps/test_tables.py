"""Maps: the compiled loops and NumPy give the same bits, and both interpolate as SciPy and NumPy do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.maps import (
    IDENTITY,
    IDENTITY_LOGIT,
    BetaMap,
    InterpolatedMap,
    LogisticMap,
    SoftmaxMap,
    StepMap,
    VennAbersMap,
    tables,
)

FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1.0, 1.7e308])
)
KNOTS = st.lists(FLOATS, min_size=2, max_size=12, unique=True).map(sorted)


def both(fitted, values, monkeypatch):
    monkeypatch.setattr(tables, "_wants_slots", lambda *_: True)
    compiled = fitted.apply(values)
    monkeypatch.setattr(tables, "_wants_slots", lambda *_: False)
    return compiled, fitted.apply(values)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(x=KNOTS, data=st.data())
def test_interpolation_gives_the_same_bits_compiled_and_not(x, data):
    y = data.draw(st.lists(st.floats(0, 1), min_size=len(x), max_size=len(x)))
    values = np.array(data.draw(st.lists(FLOATS, min_size=1, max_size=10)) + x)
    with pytest.MonkeyPatch.context() as monkeypatch:
        compiled, plain = both(InterpolatedMap(np.array(x), np.array(y)), values, monkeypatch)
    np.testing.assert_array_equal(compiled, plain)
    assert ((plain >= min(y)) & (plain <= max(y))).all()
    np.testing.assert_array_equal(plain[-len(x) :], y)


@settings(deadline=None)
@given(x=KNOTS, data=st.data())
def test_interpolation_of_rising_knots_rises(x, data):
    y = sorted(data.draw(st.lists(st.floats(0, 1), min_size=len(x), max_size=len(x))))
    values = np.sort(np.array(data.draw(st.lists(FLOATS, min_size=1, max_size=30)) + x))
    assert (np.diff(InterpolatedMap(np.array(x), np.array(y)).apply(values)) >= 0).all()


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(edges=KNOTS, data=st.data())
def test_steps_give_the_same_bits_compiled_and_not(edges, data):
    levels = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(edges) + 1, max_size=len(edges) + 1)))
    values = np.array(data.draw(st.lists(FLOATS, min_size=1, max_size=10)) + edges)
    with pytest.MonkeyPatch.context() as monkeypatch:
        compiled, plain = both(StepMap(np.array(edges), levels), values, monkeypatch)
    np.testing.assert_array_equal(compiled, plain)
    np.testing.assert_array_equal(plain, levels[np.digitize(values, edges, right=True)])


@pytest.mark.parametrize("n_knots", [2, 50, 5000])
@pytest.mark.parametrize("kind", ["even", "crowded", "outlier"])
def test_interpolation_equals_numpy_s(n_knots, kind):
    rng = np.random.default_rng(0)
    x = {
        "even": lambda: np.linspace(-1, 2, n_knots),
        "crowded": lambda: np.unique(rng.random(n_knots) ** 20),
        "outlier": lambda: np.append(np.sort(rng.random(n_knots - 1)), 1e9),
    }[kind]()
    fitted = InterpolatedMap(x, rng.random(x.size))
    values = np.concatenate((rng.uniform(-2, 3, 40_000), x))
    np.testing.assert_allclose(fitted.apply(values), np.interp(values, x, fitted.y), atol=1e-12)


def test_crowded_knots_are_bisected_and_not_walked_through():
    """All but one of the knots lie in one slot of the table: a walk would take hours."""
    x = np.append(np.linspace(0, 1e-9, 200_000), 1.0)
    values = np.tile(x[:-1], 5)
    fitted = InterpolatedMap(x, np.linspace(0, 1, x.size))
    np.testing.assert_array_equal(fitted.apply(values)[: x.size - 1], fitted.y[:-1])


def test_the_whole_range_of_float64_is_interpolated():
    fitted = InterpolatedMap(np.array([-1.7e308, 1.7e308]), np.array([0.0, 1.0]))
    assert fitted.apply(np.array([-1.7e308, 0.0, 1.7e308])).tolist() == pytest.approx([0.0, 0.5, 1.0])


def test_one_knot_is_a_constant():
    assert InterpolatedMap(np.array([0.3]), np.array([0.7])).apply(np.array([0.0, 0.3, 1.0])).tolist() == [0.7] * 3
    assert StepMap(np.array([]), np.array([0.7])).apply(np.array([0.0, 1.0])).tolist() == [0.7] * 2


def test_identities_change_nothing():
    p = np.random.default_rng(0).random(10_000)
    np.testing.assert_array_equal(IDENTITY.apply(p), p)
    z = np.log(p) - np.log1p(-p)
    np.testing.assert_allclose(IDENTITY_LOGIT.apply(z), p, atol=1e-15)
    np.testing.assert_allclose(BetaMap(1.0, 1.0, 0.0, 1e-12).apply(p), p, atol=1e-12)


def test_extreme_logits_give_the_numbers_next_to_zero_and_one_without_a_warning():
    least, most = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
    assert LogisticMap(1.0, 0.0).apply(np.array([-1e308, -800.0, 800.0, 1e308])).tolist() == [least, least, most, most]
    q = SoftmaxMap(np.array(1.0), np.zeros(3), None).apply(np.array([[1e4, 0.0, -1e4]]))
    assert q.tolist() == [[1.0, least, least]]


@pytest.mark.parametrize(
    "weight", [np.array(0.5), np.array([0.5, 1.0, 2.0]), np.array([[1, 0.2, 0], [0, 1, 0], [0, 0.1, 1]])]
)
def test_softmax_of_a_linear_map(weight):
    z = np.random.default_rng(0).normal(size=(7, 3))
    bias = np.array([0.1, -0.2, 0.3])
    linear = z @ weight.T if weight.ndim == 2 else z * weight
    e = np.exp(linear + bias)
    fitted = SoftmaxMap(weight, bias, None)
    np.testing.assert_allclose(fitted.apply(z), e / e.sum(axis=1, keepdims=True), atol=1e-14)
    np.testing.assert_array_equal(fitted.apply(z[3:4])[0], fitted.apply(z)[3])


@settings(deadline=None, max_examples=300)
@given(x=KNOTS, data=st.data())
def test_a_score_alone_gives_the_bits_that_it_gives_among_others(x, data):
    y = data.draw(st.lists(st.floats(0, 1), min_size=len(x), max_size=len(x)))
    values = np.array(data.draw(st.lists(FLOATS, min_size=2, max_size=10)) + x)
    fitted = InterpolatedMap(np.array(x), np.array(y))
    alone = [fitted.apply(values[i : i + 1]).item() for i in range(values.size)]
    np.testing.assert_array_equal(alone, fitted.apply(values))


@settings(deadline=None)
@given(edges=KNOTS, data=st.data())
def test_pairs_of_few_scores_are_those_of_the_two_step_maps(edges, data):
    n = len(edges) + 1
    lower, upper = (sorted(data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))) for _ in range(2))
    fitted = VennAbersMap(np.array(edges), np.array(lower), np.array(edges), np.array(upper))
    values = np.array(data.draw(st.lists(FLOATS, min_size=1, max_size=10)) + edges)
    p0, p1 = fitted.pair(values)
    np.testing.assert_array_equal(p0, fitted.lower.apply(values))
    np.testing.assert_array_equal(p1, fitted.upper.apply(values))
