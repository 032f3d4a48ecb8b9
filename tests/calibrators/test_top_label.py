"""TopLabelCalibrator: the confidence is calibrated, the label stays, the others share the rest."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import calibrant as cb
from calibrant.errors import CalibrantError, DataWarning, InvalidInputError, InvalidTypeError
from calibrant.maps import IDENTITY, InterpolatedMap, TopLabelMap


def draw(n: int = 3000, k: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident probabilities of k classes, the first of which is more overconfident than the others."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(k, p=row) for row in truth])
    p = np.exp(2.0 * z + np.eye(k)[0] * 0.5)
    return p / p.sum(axis=1, keepdims=True), y


def confidence(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p.max(axis=1), p.argmax(axis=1)


def constant(q: float) -> InterpolatedMap:
    return InterpolatedMap(np.array([0.5]), np.array([q]))


def test_confidence_is_what_scikit_learn_fits_to_whether_the_top_label_is_right() -> None:
    from sklearn.isotonic import IsotonicRegression

    P, y = draw()
    p, top = confidence(P)
    wanted = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p, y == top).predict(p)
    q = cb.TopLabelCalibrator().fit(P, y).predict_proba(P)
    np.testing.assert_allclose(q[np.arange(len(y)), top], np.maximum(wanted, 0.25), atol=1e-9)


def test_per_class_confidence_is_what_scikit_learn_fits_to_the_rows_of_each_top_label() -> None:
    from sklearn.isotonic import IsotonicRegression

    P, y = draw()
    p, top = confidence(P)
    q = cb.TopLabelCalibrator(per_class=True).fit(P, y).predict_proba(P)
    for k in range(4):
        rows = top == k
        fitted = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p[rows], y[rows] == k)
        np.testing.assert_allclose(q[rows, k], np.maximum(fitted.predict(p[rows]), 0.25), atol=1e-9)


@pytest.mark.slow
def test_per_class_is_right_for_each_top_label_where_one_map_is_not() -> None:
    (P, y), (new, truth) = draw(20_000), draw(20_000, seed=1)
    _, top = confidence(new)
    gap = {}
    for per_class in (False, True):
        q = cb.TopLabelCalibrator("spline", per_class=per_class).fit(P, y).predict_proba(new).max(axis=1)
        gap[per_class] = abs(float((q - (truth == top))[top == 0].mean()))
    assert gap[True] < 0.015 < 0.03 < gap[False]


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("calibrator", ["isotonic", "sigmoid", "venn_abers", "histogram"])
def test_top_label_and_accuracy_stay(calibrator: str, per_class: bool) -> None:
    P, y = draw(400, 6)
    q = cb.TopLabelCalibrator(calibrator, per_class=per_class).fit(P, y).predict_proba(P)
    np.testing.assert_array_equal(q.argmax(axis=1), P.argmax(axis=1))
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-15)


def test_others_share_the_rest_in_their_old_proportions() -> None:
    q = TopLabelMap(3, (constant(0.4),)).apply(np.array([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(q, [[0.4, 0.4, 0.2], [0.4, 0.3, 0.3], [0.3, 0.4, 0.3]], atol=1e-15)


def test_others_are_drawn_to_equal_shares_just_as_far_as_the_top_label_stays() -> None:
    P = np.array([[0.1, 0.5, 0.4, 0.0], [0.4, 0.6, 0.0, 0.0]])
    q = TopLabelMap(4, (constant(0.4),)).apply(P)
    np.testing.assert_allclose(q, [[1 / 7, 0.4, 0.4, 2 / 35], [0.4, 0.4, 0.1, 0.1]], atol=1e-15)
    np.testing.assert_array_equal(q.argmax(axis=1), [1, 1])


def test_confidence_below_one_in_k_is_raised_to_it_and_the_label_stays() -> None:
    q = TopLabelMap(3, (constant(0.05),)).apply(np.array([[0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(q, np.full((2, 3), 1 / 3), atol=1e-15)
    np.testing.assert_array_equal(q.argmax(axis=1), [2, 2])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.integers(3, 6).flatmap(lambda k: st.lists(st.integers(0, 40), min_size=k, max_size=k).filter(any)),
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.25, 1 / 3, 0.5, 1e-300])),
)
def test_any_row_becomes_what_exact_arithmetic_says(parts: list[int], q: float) -> None:
    k, total = len(parts), sum(parts)
    top = parts.index(max(parts))
    p = np.array([parts], dtype=np.float64) / total
    high = max(Fraction(q), Fraction(1, k))
    rest = total - parts[top]
    share = [
        Fraction(0) if j == top else Fraction(v, rest) if rest else Fraction(1, k - 1) for j, v in enumerate(parts)
    ]
    over, equal = (1 - high) * max(share) - high, Fraction(1, k - 1)
    pull = over / ((1 - high) * (max(share) - equal)) if over > 0 else Fraction(0)
    wanted = [float((1 - high) * (s + pull * (equal - s))) for s in share]
    wanted[top] = float(high)
    (got,) = TopLabelMap(k, (constant(q),)).apply(p)
    np.testing.assert_allclose(got, wanted, atol=1e-13)
    assert got.argmax() == top
    assert got.min() >= 0.0


def test_order_of_the_others_stays() -> None:
    P, y = draw(500, 5)
    q = cb.TopLabelCalibrator().fit(P, y).predict_proba(P)
    rows, top = np.arange(len(P)), P.argmax(axis=1)
    P[rows, top] = q[rows, top] = 2.0
    assert (np.diff(np.take_along_axis(q, np.argsort(P, axis=1), axis=1), axis=1) >= -1e-15).all()


def test_equal_probabilities_have_the_first_on_top() -> None:
    (q,) = TopLabelMap(3, (constant(0.2), constant(0.9), constant(0.4))).apply(np.array([[0.2, 0.4, 0.4]]))
    np.testing.assert_allclose(q, [0.1 / 3, 0.9, 0.2 / 3], atol=1e-15)


def test_logits_and_their_probabilities_give_the_same() -> None:
    P, y = draw(500)
    wanted = cb.TopLabelCalibrator("sigmoid").fit(P, y).predict_proba(P)
    z = np.log(P) + 3.0
    fitted = cb.TopLabelCalibrator(cb.SigmoidCalibrator(input="logit")).fit(z, y)
    np.testing.assert_allclose(fitted.predict_proba(z), wanted, atol=1e-9)
    assert fitted.input == "logit"


@pytest.mark.parametrize("k", [2, 1])
def test_two_classes_are_the_binary_problem(k: int) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    scores = p if k == 1 else np.column_stack((1 - p, p))
    fitted = cb.TopLabelCalibrator("beta", per_class=True).fit(scores, y)
    np.testing.assert_array_equal(fitted.predict_proba(scores), cb.BetaCalibrator().fit(p, y).predict_proba(scores))


@pytest.mark.parametrize("per_class", [False, True])
def test_weight_two_equals_two_rows_and_zero_none(per_class: bool) -> None:
    P, y = draw(600)
    w = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = cb.TopLabelCalibrator("beta", per_class=per_class).fit(P, y, sample_weight=w)
    repeated = cb.TopLabelCalibrator("beta", per_class=per_class).fit(np.repeat(P, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.predict_proba(P), repeated.predict_proba(P), atol=1e-9)


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("k", [3, 30])
def test_one_row_alone_has_the_bits_of_the_row_in_a_batch(k: int, per_class: bool) -> None:
    P, y = draw(1500, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # one of 30 classes may lack wrong rows
        fitted = cb.TopLabelCalibrator("venn_abers", per_class=per_class).fit(P, y)
    q = fitted.predict_proba(P)
    for i in range(0, 1500, 100):
        np.testing.assert_array_equal(fitted.predict_proba(P[i : i + 1])[0], q[i])


def test_class_that_is_never_on_top_gets_the_map_of_all_rows() -> None:
    P, y = draw(500, 3)
    P[:, 2] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c"])[y]
    with pytest.warns(DataWarning, match="1 of 3 classes are never on top, or always or never rightly: 'c'. They get"):
        fitted = cb.TopLabelCalibrator(per_class=True).fit(P, y)
    (pooled,) = cb.TopLabelCalibrator().fit(P, y).map_.maps
    np.testing.assert_array_equal(fitted.map_.maps[2].y, pooled.y)


@pytest.mark.parametrize(("is_right", "word"), [(True, "right"), (False, "wrong")])
@pytest.mark.parametrize("per_class", [False, True])
def test_confidence_stays_where_rows_are_too_few_to_say(is_right: bool, word: str, per_class: bool) -> None:
    P, _ = draw(50, 3)
    top = P.argmax(axis=1)
    with pytest.warns(DataWarning, match=f"the top label is {word} in all 50 rows: too few to calibrate") as said:
        fitted = cb.TopLabelCalibrator(per_class=per_class).fit(P, top if is_right else (top + 1) % 3)
    assert said[0].filename == __file__
    assert fitted.map_.maps == (IDENTITY,)
    np.testing.assert_allclose(fitted.predict_proba(P), P, atol=1e-15)


def test_raw_scores_of_several_classes_are_refused() -> None:
    P, y = draw(50, 3)
    with pytest.raises(InvalidInputError, match=r'raw scores of several classes .* logits with input="logit"'):
        cb.TopLabelCalibrator(cb.IsotonicCalibrator(input="score")).fit(P, y)


def test_calibrators_of_all_columns_and_odd_settings_are_refused() -> None:
    P, y = draw(50, 3)
    with pytest.raises(InvalidTypeError, match="'temperature' calibrates all columns at once"):
        cb.TopLabelCalibrator("temperature").fit(P, y)  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match="n_bins=0 is too small"):
        cb.TopLabelCalibrator(cb.HistogramCalibrator(n_bins=0)).fit(P, y)
    with pytest.raises(InvalidTypeError, match=r"per_class='yes' is not True or False\. Pass one of them\."):
        cb.TopLabelCalibrator(per_class="yes").fit(P, y)  # type: ignore[arg-type]


def test_scikit_learn_can_clone() -> None:
    from sklearn.base import clone

    made = clone(cb.TopLabelCalibrator(cb.BetaCalibrator(), per_class=True))
    assert repr(made) == "TopLabelCalibrator(BetaCalibrator(), per_class=True)"
