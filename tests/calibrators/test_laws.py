"""Laws that every calibrator obeys, whatever its method."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, make_calibrator
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidTypeError,
    NotFittedError,
    ShapeError,
)

FORMS = {
    "sigmoid": lambda: cb.SigmoidCalibrator(),
    "sigmoid on scores": lambda: cb.SigmoidCalibrator(input="score"),
    "beta": lambda: cb.BetaCalibrator(),
    "beta am": lambda: cb.BetaCalibrator(form="am"),
    "beta ab": lambda: cb.BetaCalibrator(form="ab"),
    "beta a": lambda: cb.BetaCalibrator(form="a"),
    "temperature": lambda: cb.TemperatureCalibrator(),
    "vector": lambda: cb.VectorScalingCalibrator(),
    "matrix": lambda: cb.MatrixScalingCalibrator(),
    "matrix, given": lambda: cb.MatrixScalingCalibrator(penalty=0.5),
    "dirichlet": lambda: cb.DirichletCalibrator(),
    "ensemble temperature": lambda: cb.EnsembleTemperatureCalibrator(),
    "isotonic": lambda: cb.IsotonicCalibrator(),
    "isotonic bounded": lambda: cb.IsotonicCalibrator(bounded=True),
    "histogram": lambda: cb.HistogramCalibrator(n_bins=5),
    "histogram uniform": lambda: cb.HistogramCalibrator(n_bins=5, strategy="uniform"),
    "spline": lambda: cb.SplineCalibrator(),
    "spline on scores": lambda: cb.SplineCalibrator(n_knots=20, input="score"),
    "quadratic": lambda: cb.QuadraticCalibrator(),
    "quadratic on scores": lambda: cb.QuadraticCalibrator(input="score"),
    "mimic": lambda: cb.MimicCalibrator(),
    "mimic medians": lambda: cb.MimicCalibrator(3, record_history=True, boundary="median"),
    "centred isotonic": lambda: cb.CenteredIsotonicCalibrator(),
    "centred isotonic bounded": lambda: cb.CenteredIsotonicCalibrator(bounded=True),
    "auto": lambda: cb.AutoCalibrator(),
    "one-vs-rest": lambda: cb.OneVsRestCalibrator(),
    "one-vs-rest coupled": lambda: cb.OneVsRestCalibrator(coupling="likelihood"),
    "top label": lambda: cb.TopLabelCalibrator(),
    "venn-abers": lambda: cb.VennAbersCalibrator(),
}
MAY_FALL = {"histogram", "histogram uniform"}
NO_INTERCEPT = {"beta ab", "beta a", "temperature", "ensemble temperature"}
#: The penalty draws the intercept to zero.
PENALISED = {"vector", "matrix", "matrix, given"}
#: One more object of either label counts: a constant score gives (k + 1) / (n + 2), tested beside the method.
ADDS_AN_OBJECT = {"venn-abers"}
every = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)


def draw(n=400, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    if decimals is not None:
        p = p.round(decimals)
    return p, rng.random(n) < p**1.5


def multiclass(n=400, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.7, 1.0, 1.3], n)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row**0.5 / (row**0.5).sum()) for row in P]]
    return P, y


@pytest.mark.slow
@every
@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40).filter(
        lambda rows: len({y for _, y in rows}) == 2
    ),
    new=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_outputs_are_probabilities_of_any_scores(make, rows, new):
    scores, y = zip(*rows, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cb.errors.DataWarning)
        q = make().fit(scores, y).predict_proba(new)
    assert ((q >= 0.0) & (q <= 1.0)).all()


@pytest.mark.parametrize("name", [name for name in FORMS if name not in MAY_FALL])
def test_outputs_rise_with_the_scores(name):
    p, y = draw(decimals=2)
    q = FORMS[name]().fit(p, y).predict_proba(np.linspace(0, 1, 2001))
    assert (np.diff(q) >= 0.0).all()


@every
def test_weight_two_equals_two_rows(make):
    p, y = draw(decimals=2)
    w = np.random.default_rng(1).integers(1, 4, p.size)
    weighted = make().fit(p, y, sample_weight=w).predict_proba(p)
    repeated = make().fit(np.repeat(p, w), np.repeat(y, w)).predict_proba(p)
    np.testing.assert_allclose(weighted, repeated, atol=1e-9)


@every
def test_zero_weight_equals_no_row(make):
    p, y = draw()
    w = np.random.default_rng(1).integers(0, 2, p.size).astype(float) * 1.5
    kept = w > 0
    with_zeros = make().fit(p, y, sample_weight=w).predict_proba(p)
    without = make().fit(p[kept], y[kept], sample_weight=w[kept]).predict_proba(p)
    np.testing.assert_allclose(with_zeros, without, atol=1e-9)


@every
def test_zero_weight_of_outliers_equals_no_row(make):
    """A row that doesn't count must not set the clip of the logits or the range of bins either."""
    p, y = draw()
    with_outliers = make().fit(np.append(p, [0.0, 1e-9]), np.append(y, [1, 1]), sample_weight=[2.0] * p.size + [0, 0])
    without = make().fit(p, y, sample_weight=[2.0] * p.size)
    np.testing.assert_allclose(with_outliers.predict_proba(p), without.predict_proba(p), atol=1e-9)


@every
def test_row_order_does_not_matter(make):
    p, y = draw()
    order = np.random.default_rng(2).permutation(p.size)
    np.testing.assert_allclose(
        make().fit(p, y).predict_proba(p), make().fit(p[order], y[order]).predict_proba(p), atol=1e-9
    )


@every
def test_row_order_does_not_matter_where_scores_are_few(make):
    """Of two distinct scores rounding would choose among the curves that go through both: read between them too."""
    rng = np.random.default_rng(4)
    weight = rng.exponential(size=60)
    new = np.linspace(0.0, 1.0, 11)
    for score in ([0.0, 1.0], [0.2, 0.7], [0.25, 0.5, 1.0]):
        p = rng.choice(score, 60)
        y = rng.random(60) < 0.2 + 0.6 * p
        fits = [
            make().fit(p[order], y[order], sample_weight=weight[order]).predict_proba(new)
            for order in map(rng.permutation, [60] * 8)
        ]
        np.testing.assert_allclose(fits, np.broadcast_to(fits[0], (8, 11)), atol=1e-9)


@every
@pytest.mark.parametrize("n", [3, 5000, 70_000])
def test_one_row_alone_equals_the_row_in_a_batch(make, n):
    fitted = make().fit(*draw())
    batch = np.random.default_rng(3).random(n)
    q = fitted.predict_proba(batch)
    for i in (0, n // 2, n - 1):
        assert fitted.predict_proba(batch[i : i + 1])[0] == q[i]


@pytest.mark.parametrize("name", [name for name in FORMS if name not in NO_INTERCEPT | PENALISED | ADDS_AN_OBJECT])
@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_a_constant_score_gives_the_base_rate(name, score):
    y = [1] * 30 + [0] * 70
    q = FORMS[name]().fit([score] * 100, y).predict_proba([score])
    assert q[0] == pytest.approx(0.3, abs=1e-9)


@every
def test_float32_scores_give_almost_the_same(make):
    p, y = draw()
    wide = make().fit(p, y).predict_proba(p)
    narrow = make().fit(p.astype(np.float32), y).predict_proba(p.astype(np.float32))
    np.testing.assert_allclose(narrow, wide, atol=0.02)


@every
@pytest.mark.parametrize("kind", [pd.Series, pl.Series, pa.array, lambda p: pa.chunked_array([p]), list])
def test_any_container_gives_the_same_numbers_and_the_same_kind(make, kind):
    p, y = draw(60)
    expected = make().fit(p, y).predict_proba(p)
    got = make().fit(kind(p), y).predict_proba(kind(p))
    assert type(got) is (np.ndarray if kind is list else type(kind(p)))
    np.testing.assert_array_equal(np.asarray(got), expected)


@every
def test_awkward_memory_gives_the_same_numbers(make):
    p, y = draw(5000)
    expected = make().fit(p, y).predict_proba(p)
    frozen = p.copy()
    frozen.flags.writeable = False
    for awkward in (frozen, np.repeat(p, 2)[::2], p.astype(">f8")):
        np.testing.assert_array_equal(make().fit(awkward, y).predict_proba(awkward), expected)


@every
def test_inputs_are_left_alone(make):
    p, y = draw()
    w = np.ones(p.size) * 2
    copies = p.copy(), y.copy(), w.copy()
    make().fit(p, y, sample_weight=w).predict_proba(p)
    for array, copy in zip((p, y, w), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("method", CALIBRATORS)
def test_matrices_come_out_as_matrices_whose_rows_sum_to_one(method):
    P, y = multiclass()
    fitted = make_calibrator(method).fit(P, y)
    q = fitted.predict_proba(P)
    assert q.shape == P.shape
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(fitted.predict_proba(P[7:8])[0], q[7])


@pytest.mark.parametrize("method", sorted(set(CALIBRATORS) - {"one_vs_rest"}))  # whose columns are two problems
def test_two_columns_are_the_binary_problem(method):
    p, y = draw()
    one = make_calibrator(method).fit(p, y).predict_proba(p)
    both = make_calibrator(method).fit(np.column_stack((1 - p, p)), y).predict_proba(np.column_stack((1 - p, p)))
    np.testing.assert_array_equal(both[:, 1], one)
    np.testing.assert_array_equal(both[:, 0], 1 - one)


@pytest.mark.parametrize("method", ["sigmoid", "temperature", "isotonic", "histogram"])
def test_logits_of_two_columns_are_their_difference(method):
    p, y = draw()
    z = np.log(p) - np.log1p(-p)
    columns = np.column_stack((np.full(z.size, 2.0), z + 2.0))
    one = make_calibrator(method, input="logit").fit(z, y).predict_proba(z)
    both = make_calibrator(method, input="logit").fit(columns, y).predict_proba(columns)
    np.testing.assert_allclose(both[:, 1], one, atol=1e-12)


@pytest.mark.parametrize("method", ["sigmoid", "temperature", "isotonic"])
def test_matrices_of_logits_and_of_their_probabilities_agree(method):
    P, y = multiclass()
    from_p = make_calibrator(method).fit(P, y).predict_proba(P)
    logits = np.log(P) + 3.0
    from_z = make_calibrator(method, input="logit").fit(logits, y).predict_proba(logits)
    np.testing.assert_allclose(from_z, from_p, atol=1e-6)


def test_labels_of_any_kind_give_the_same_map():
    p, y = draw()
    expected = cb.IsotonicCalibrator().fit(p, y).predict_proba(p)
    for labels in (y.astype(int), np.where(y, 1, -1), np.where(y, "yes", "no"), pd.Series(np.where(y, "b", "a"))):
        fitted = cb.IsotonicCalibrator().fit(p, labels)
        np.testing.assert_array_equal(fitted.predict_proba(p), expected)
        assert fitted.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))


def test_column_names_are_remembered():
    P, y = multiclass()
    frame = pd.DataFrame(P, columns=["p_a", "p_b", "p_c"])
    assert cb.IsotonicCalibrator().fit(frame, y).score_names_ == ("p_a", "p_b", "p_c")
    assert cb.IsotonicCalibrator().fit(P, y).score_names_ is None


@pytest.mark.parametrize("method", BINARY_CALIBRATORS)
def test_a_summary_gives_the_map_of_its_rows(method):
    p, y = draw(decimals=2)
    half = p.size // 2
    merged = cb.ScoreSummary.from_arrays(p[:half], y[:half]).merge(cb.ScoreSummary.from_arrays(p[half:], y[half:]))
    from_rows = make_calibrator(method).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(make_calibrator(method).fit_summary(merged).predict_proba(p), from_rows, atol=1e-9)


def test_a_summary_of_one_class_is_refused():
    summary = cb.ScoreSummary.from_cells([0.1, 0.2], [1, 1], [0, 0])
    with pytest.raises(InvalidInputError, match="0 positives of 2 rows"):
        cb.IsotonicCalibrator().fit_summary(summary)


@every
def test_not_fitted_says_so(make):
    with pytest.raises(NotFittedError, match=r"not fitted\. Call fit\(scores, y\) first"):
        make().predict_proba([0.5])


@every
def test_params_round_trip(make):
    calibrator = make()
    params = calibrator.get_params(deep=False)
    assert type(calibrator)(**params).get_params(deep=False) == params
    with pytest.raises(CalibrantError, match="unknown parameter"):
        calibrator.set_params(bogus=1)


def test_scikit_learn_can_clone():
    from sklearn.base import clone

    cloned = clone(cb.HistogramCalibrator(n_bins=7, strategy="uniform"))
    assert repr(cloned) == "HistogramCalibrator(n_bins=7, strategy='uniform')"


P3, Y3 = multiclass(60)
ERRORS = {
    "lengths": (
        lambda: cb.IsotonicCalibrator().fit([0.1, 0.2], [0, 1, 1]),
        ShapeError,
        "scores has 2 rows and y has 3",
    ),
    "one class": (
        lambda: cb.IsotonicCalibrator().fit([0.1, 0.2], [1, 1]),
        InvalidLabelError,
        "one class only: 1 in all",
    ),
    "one class with weight": (
        lambda: cb.IsotonicCalibrator().fit([0.1, 0.2], [0, 1], sample_weight=[1, 0]),
        InvalidLabelError,
        "one class only: 0",
    ),
    "three classes in one column": (
        lambda: cb.IsotonicCalibrator().fit([0.1, 0.2, 0.3], [0, 1, 2]),
        ShapeError,
        r"3 classes, \[0, 1, 2\], for one column",
    ),
    "columns at predict": (
        lambda: cb.IsotonicCalibrator().fit(P3, Y3).predict_proba([0.5]),
        ShapeError,
        "scores has 1 column, but this calibrator was fitted for the 3 classes",
    ),
    "columns at predict, binary": (
        lambda: cb.IsotonicCalibrator().fit([0.1, 0.2], [0, 1]).predict_proba(P3),
        ShapeError,
        "scores has 3 columns, but this calibrator was fitted for the 2 classes 0, 1",
    ),
    "logits as probabilities": (
        lambda: cb.SigmoidCalibrator().fit([-2.0, 3.0], [0, 1]),
        CalibrantError,
        'If these are logits, pass input="logit"',
    ),
    "swapped": (lambda: cb.IsotonicCalibrator().fit([0, 1], [0.2, 0.7]), InvalidLabelError, "swapped"),
    "strategy": (
        lambda: cb.HistogramCalibrator(strategy="quantiles").fit([0.1, 0.2], [0, 1]),
        CalibrantError,
        "Did you mean 'quantile'",
    ),
    "n_bins": (
        lambda: cb.HistogramCalibrator(n_bins=0).fit([0.1, 0.2], [0, 1]),
        InvalidInputError,
        "n_bins=0 is too small",
    ),
    "n_bins of one width": (
        lambda: cb.HistogramCalibrator(n_bins=10**12, strategy="uniform").fit([0.1, 0.2], [0, 1]),
        InvalidInputError,
        "n_bins=1000000000000 is too large. Pass an integer of at most 10000000",
    ),
    "n_bins of one mass": (
        lambda: cb.HistogramCalibrator(n_bins=10**30).fit([0.1, 0.2], [0, 1]),
        InvalidInputError,
        "is too large. Pass an integer of at most 9007199254740992",
    ),
    "n_bins kind": (
        lambda: cb.HistogramCalibrator(n_bins=2.5).fit([0.1, 0.2], [0, 1]),
        InvalidTypeError,
        "whole number",
    ),
    "form": (lambda: cb.BetaCalibrator(form="abc").fit([0.1, 0.2], [0, 1]), CalibrantError, "Did you mean 'ab"),
    "one-vs-rest name": (
        lambda: cb.OneVsRestCalibrator("isotonik").fit(P3, Y3),
        CalibrantError,
        "Did you mean 'isotonic'",
    ),
    "one-vs-rest of all columns": (
        lambda: cb.OneVsRestCalibrator("temperature").fit(P3, Y3),
        InvalidTypeError,
        "calibrates all columns at once",
    ),
    "two columns of raw scores": (
        lambda: cb.SigmoidCalibrator(input="score").fit(np.ones((4, 2)), [0, 1, 0, 1]),
        ShapeError,
        "say twice what one says",
    ),
    "scores of a class without rows": (
        lambda: cb.SigmoidCalibrator(input="score").fit(np.ones((4, 3)), [0, 1, 0, 1]),
        InvalidInputError,
        "class 2 has no rows",
    ),
    "unknown label": (
        lambda: cb.IsotonicCalibrator().fit(P3, ["z", *Y3[1:]], classes=["a", "b", "c"]),
        InvalidLabelError,
        "row 0: unknown label 'z'",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS.values(), ids=ERRORS)
def test_bad_input_is_named(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_a_class_without_rows_keeps_its_probabilities_before_normalising():
    P, _ = multiclass(200)
    y = np.random.default_rng(0).integers(0, 2, 200)
    with pytest.warns(cb.errors.DataWarning, match="class 2 has no rows to calibrate on"):
        fitted = cb.IsotonicCalibrator().fit(P, y)
    columns = [fitted.map_.maps[k].apply(P[:, k].copy()) for k in range(3)]
    np.testing.assert_array_equal(columns[2], P[:, 2])
    np.testing.assert_allclose(fitted.predict_proba(P), np.column_stack(columns) / sum(columns)[:, None])


def test_a_row_of_zeros_becomes_uniform():
    P = np.repeat([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], 5, axis=0)
    fitted = cb.IsotonicCalibrator().fit(P, np.repeat([0, 1, 2], 5))
    q = fitted.predict_proba([[0.1, 0.1, 0.8], [0.1, 0.1, 0.8], [0.34, 0.33, 0.33]])
    assert q[0].tolist() == [0.0, 0.0, 1.0]
    low = cb.IsotonicCalibrator().fit(P, np.repeat([0, 1, 2], 5)).map_.apply(np.array([[0.1, 0.1, 0.1]]))
    np.testing.assert_allclose(low, 1 / 3)


@pytest.mark.parametrize(
    "name",
    [
        "sigmoid",
        "sigmoid on scores",
        "beta",
        "beta am",
        "beta a",
        "temperature",
        "isotonic",
        "isotonic bounded",
        "quadratic",
        "spline",
        "venn-abers",
    ],
)
def test_turning_scores_and_labels_round_turns_outputs_round(name):
    p, y = draw(2000)
    p = np.round(p * 2**20) / 2**20  # so that 1 - p is exact
    turned = FORMS[name]().fit(1 - p, ~y).predict_proba(1 - p)
    np.testing.assert_allclose(1 - turned, FORMS[name]().fit(p, y).predict_proba(p), atol=1e-7)
