"""Elementary functions at the ends of float64, and the nearest weights on the simplex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special
from scipy.optimize import brentq, minimize

from calibrant.numerics import (
    LEAST,
    SMALLEST_CLIP,
    chi_squared_tail,
    clip_as_given,
    clip_between,
    clip_from_data,
    clip_open,
    dot,
    expit,
    fitting_steps,
    kish_size,
    least_output,
    log_softmax,
    logit,
    mean_and_error,
    normal_quantile,
    normalise_rows,
    project_simplex,
    root_between,
    row_max,
    row_sum,
    softmax,
    softplus,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20))
def test_logistic_functions_are_those_of_scipy_without_a_warning(values):
    z = np.array(values)
    np.testing.assert_allclose(expit(z), special.expit(z), rtol=1e-14)
    np.testing.assert_allclose(softplus(z), np.logaddexp(0.0, z), rtol=1e-14)


def test_logit_is_the_inverse_of_expit():
    p = np.concatenate((np.logspace(-300, -1, 50), 1.0 - np.logspace(-15, -1, 50)))
    np.testing.assert_allclose(logit(p), special.logit(p), rtol=1e-12)
    np.testing.assert_allclose(expit(logit(p)), p, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 16, 17, 100])
def test_rows_are_summed_and_normalised_whatever_their_number_of_columns(k):
    z = np.random.default_rng(0).normal(size=(50, k)) * 20.0
    np.testing.assert_allclose(softmax(z), special.softmax(z, axis=1), rtol=1e-12)
    np.testing.assert_allclose(log_softmax(z), special.log_softmax(z, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(row_max(z), z.max(axis=1))
    np.testing.assert_allclose(row_sum(z), z.sum(axis=1), rtol=1e-12, atol=1e-12)
    p = np.abs(z)
    p[3] = 0.0
    wanted = p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
    wanted[3] = 1.0 / k
    np.testing.assert_allclose(normalise_rows(p), wanted, rtol=1e-12)
    np.testing.assert_array_equal(row_sum(z)[7:8], row_sum(z[7:8]))


def test_softmax_of_the_largest_numbers_is_a_choice():
    z = np.array([[1.7e308, -1.7e308, 0.0]])
    assert softmax(z).tolist() == [[1.0, 0.0, 0.0]]
    assert log_softmax(z)[0, 0] == 0.0


@pytest.mark.parametrize(
    ("p", "n", "clip"),
    [
        ([0.0, 0.2, 0.9], 1_000, 0.05),  # votes in steps of 0.1
        ([[0.0, 0.3, 0.7], [0.5, 0.25, 0.25]], 9, 0.025),  # of 0.05
        (np.float32([0.0, 0.003, 0.993]), 9, 0.0005),
        ([0.0, 0.1234567, 0.9], 9, 0.05),  # half the smallest distance to 0 or 1
        ([0.0, 1.0], 9, 1 / 20),  # nothing inside says more
        ([1e-15, 0.5], 9, 5e-16),
        ([1e-300, 1.0 - 1e-15], 9, 5e-301),
        ([5e-324, 0.5], 9, 5e-324),
        ([0.1234567, 1.0 - 1e-15], 9, SMALLEST_CLIP),
    ],
)
def test_clip_is_what_the_data_support(p, n, clip):
    assert clip_from_data(np.array(p, dtype=np.float64), n) == pytest.approx(clip)
    assert clip_as_given(np.array(p, dtype=np.float64), n) == pytest.approx(min(clip, 1 / (2 * n + 2)))


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.integers(1, 60), st.integers(0, 20))
def test_steps_that_fit_are_those_that_all_values_are_whole_numbers_of(values, n_steps, n_votes):
    votes = np.random.default_rng(n_steps).integers(0, n_steps + 1, n_votes) / n_steps
    fits = fitting_steps(votes)
    assert fits[n_steps - 1 :: n_steps].all()
    p = np.concatenate((values, votes))
    every = p[:, None] * np.arange(1, 1_001)
    is_near = np.abs(every - np.rint(every)) <= np.finfo(np.float32).eps * every
    np.testing.assert_array_equal(fitting_steps(p), is_near.all(axis=0))


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=2, max_size=20, unique=True))
def test_clipped_probabilities_keep_their_order_below_one(values):
    p = np.sort(values)
    p = p[p <= 1.0 - SMALLEST_CLIP]
    z = logit(clip_open(p, clip_from_data(p, p.size))) if p.size else p
    assert (np.diff(z) >= 0.0).all()
    assert np.isfinite(z).all()
    positive = p[p > 0.0]
    apart = np.diff(np.log(positive)) > 1e-12
    assert (np.diff(z[p > 0.0])[apart] > 0.0).all()
    assert (z[p == 0.0] < z[p > 2.0 * LEAST].min(initial=np.inf)).all()


def test_least_output_is_the_rate_with_a_row_more_of_each_kind():
    assert least_output(8.0) == 0.1
    assert least_output(0.0) == 1 / 3
    assert least_output(1e300) == SMALLEST_CLIP


def test_means_and_sizes_of_weighted_values():
    rng = np.random.default_rng(0)
    values, w = rng.normal(size=400), rng.exponential(size=400)
    assert kish_size(w) == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert kish_size(np.full(7, 3.0)) == pytest.approx(7.0)
    assert dot(values, w) == pytest.approx(values @ w)
    mean, error = mean_and_error(values, np.ones(400))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / 20.0)
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.integers(0, 1000))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(values, seed):
    v = np.array(values)
    found = project_simplex(v)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= 0.0
    others = np.random.default_rng(seed).dirichlet(np.full(v.size, 0.5), 50)
    assert (((others - v) ** 2).sum(axis=1) >= ((found - v) ** 2).sum() - 1e-9).all()


def test_projection_onto_the_simplex_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(20):
        v = rng.normal(size=5) * 3
        ours = project_simplex(v)
        theirs = minimize(
            lambda t, v=v: ((t - v) ** 2).sum(),
            np.full(5, 0.2),
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
            options={"ftol": 1e-15},
        ).x
        assert ours.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@settings(deadline=None)
@given(
    st.floats(-50.0, 50.0),
    st.floats(1e-3, 50.0),
    st.floats(1e-3, 50.0),
    st.sampled_from([1e-3, 1e-8, 1e-13]),
    st.booleans(),
)
def test_a_root_is_that_of_scipy(root, left, right, tol, falls):
    def function(x):
        return (-1.0 if falls else 1.0) * (np.tanh(x - root) + (x - root) ** 3)

    found = root_between(function, root - left, root + right, tol=tol)
    assert found == pytest.approx(brentq(function, root - left, root + right, xtol=tol), abs=2.5 * tol + 1e-13)


def test_a_flat_root_and_a_root_at_an_end_are_found_and_no_change_of_sign_is_refused():
    assert root_between(lambda x: (x - 1.0) ** 9, -3.0, 4.0, tol=1e-6) == pytest.approx(1.0, abs=0.1)
    assert root_between(lambda x: x, 0.0, 4.0, tol=1e-9) == 0.0
    assert root_between(lambda x: x - 4.0, 0.0, 4.0, tol=1e-9) == 4.0
    with pytest.raises(ValueError, match="one sign"):
        root_between(lambda x: x * x + 1.0, -1.0, 1.0, tol=1e-9)


def test_a_nearly_linear_function_is_asked_few_times():
    asked = []

    def function(x):
        asked.append(x)
        return np.sqrt(x) - 1.3

    root_between(function, 1.0, 4.0, tol=1e-10)
    assert len(asked) <= 10


@settings(deadline=None)
@given(st.floats(0.0, 2_000.0), st.floats(0.01, 200.0))
def test_the_tail_of_chi_squared_is_that_of_scipy(x, dof):
    assert chi_squared_tail(x, dof) == pytest.approx(special.gammaincc(0.5 * dof, 0.5 * x), rel=1e-10, abs=1e-14)


def test_the_tail_of_chi_squared_has_no_end():
    assert chi_squared_tail(0.0, 3.0) == 1.0
    assert chi_squared_tail(1e6, 3.0) == 0.0
    assert chi_squared_tail(1e-300, 0.5) == pytest.approx(1.0)
    assert chi_squared_tail(1_400.0, 2.0) == pytest.approx(np.exp(-700.0), rel=1e-12)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20), st.floats(0, 0.5), st.floats(0.5, 1))
def test_few_values_get_the_bits_that_they_get_among_many(values, low, high):
    z = np.array(values)
    many = np.resize(z, 2_000)
    np.testing.assert_array_equal(expit(z), expit(many)[: z.size])
    np.testing.assert_array_equal(clip_between(z, low, high), np.clip(z, low, high))
    np.testing.assert_array_equal(clip_between(many, low, high), np.clip(many, low, high))
