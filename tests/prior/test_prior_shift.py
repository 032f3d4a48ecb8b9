"""Known class priors: Bayes' rule to the last digits, there and back, and through files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_class_weight

import calibrant as cb
from calibrant.errors import DocumentError, InvalidInputError, InvalidLabelError, ShapeError
from calibrant.maps import BetaMap, SoftmaxMap
from calibrant.persistence import from_document, to_document
from calibrant.prior import PriorShift, prior_shift, undo_class_weight, undo_sampling

OPEN = st.floats(1e-6, 1.0 - 1e-6)
UNIT = st.floats(0.0, 1.0)


def bayes(p: list[Fraction], factor: list[Fraction]) -> list[float]:
    weighted = [a * b for a, b in zip(p, factor, strict=True)]
    return [float(w / sum(weighted)) for w in weighted]


@given(UNIT, OPEN, OPEN)
def test_shift_of_one_column_is_bayes_rule_in_exact_rationals(p: float, old: float, new: float) -> None:
    q, before, after = Fraction(p), Fraction(old), Fraction(new)
    _, expected = bayes([1 - q, q], [(1 - after) / (1 - before), after / before])
    assert prior_shift([p], old=old, new=new)[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.lists(st.integers(1, 1000), min_size=9, max_size=9))
def test_shift_of_several_columns_is_bayes_rule_in_exact_rationals(counts: list[int]) -> None:
    p, old, new = ([Fraction(c, sum(part)) for c in part] for part in (counts[:3], counts[3:6], counts[6:]))
    expected = bayes(p, [b / a for a, b in zip(old, new, strict=True)])
    row, before, after = ([float(v) for v in part] for part in (p, old, new))
    np.testing.assert_allclose(prior_shift([row], old=before, new=after)[0], expected, rtol=1e-13)


def test_joint_counts_give_the_new_posterior() -> None:
    """Count: 90 of 100 positives and 20 of 100 negatives show a sign; seen among 1% positives instead of 50%."""
    posterior = 90 / (90 + 20)
    expected = Fraction(90, 100) * Fraction(1, 100) / (Fraction(90, 10_000) + Fraction(20 * 99, 10_000))
    assert prior_shift([posterior], old=0.5, new=0.01)[0] == pytest.approx(float(expected), rel=1e-14)


def test_undoing_a_sample_is_counting_the_rows_that_were_dropped() -> None:
    """Of 1,000 negatives 100 were kept and of 50 positives all: the score 100 + 50 saw stood for 1,000 + 50."""
    assert undo_sampling([50 / 150], kept=[0.1, 1.0])[0] == pytest.approx(50 / 1050, rel=1e-14)
    three = undo_sampling([[100 / 170, 50 / 170, 20 / 170]], kept=[0.1, 1.0, 2.0])
    np.testing.assert_allclose(three, [[1000 / 1060, 50 / 1060, 10 / 1060]], rtol=1e-14)


@given(st.lists(UNIT, min_size=1, max_size=20), OPEN, OPEN)
def test_there_and_back_is_where_it_was(p: list[float], old: float, new: float) -> None:
    there = prior_shift(p, old=old, new=new)
    back = prior_shift(there, old=new, new=old)
    inner = (there > 1e-9) & (there < 1 - 1e-9)
    np.testing.assert_allclose(back[inner], np.array(p)[inner], rtol=1e-6)
    assert ((there >= 0) & (there <= 1)).all()


def test_rare_and_certain_stay_exact() -> None:
    assert prior_shift([0.0, 1.0], old=0.5, new=1e-9).tolist() == [0.0, 1.0]
    assert prior_shift([1e-300], old=0.5, new=0.25)[0] == pytest.approx(1e-300 / 3, rel=1e-14)
    same = np.array([0.125, 0.5])
    assert prior_shift(same, old=0.3, new=0.3).tolist() == same.tolist()


def test_one_column_two_columns_and_the_map_agree() -> None:
    p = np.linspace(0.0, 1.0, 101)
    one = prior_shift(p, old=0.4, new=0.1)
    two = prior_shift(np.column_stack((1 - p, p)), old=[0.6, 0.4], new=[0.9, 0.1])
    np.testing.assert_allclose(two[:, 1], one, rtol=1e-12)
    shift = PriorShift.from_priors(old=0.4, new=0.1)
    assert isinstance(shift.map_, BetaMap)
    np.testing.assert_allclose(shift.map_.apply(p), one, atol=1e-15)
    few = np.array([1e-300, 1e-20, 1.0 - 1e-12])
    np.testing.assert_allclose(shift.map_.apply(few), shift.predict_proba(few), rtol=1e-12)
    many = PriorShift.from_sampling(kept=[0.1, 1.0, 3.0])
    P = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    assert isinstance(many.map_, SoftmaxMap)
    np.testing.assert_allclose(many.map_.apply(P), many.predict_proba(P), rtol=1e-13)


def test_new_base_rate_is_what_calibrated_predictions_then_show() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.5
    x = rng.normal(np.where(y, 1.0, -1.0), 1.0)
    p = 1 / (1 + np.exp(-2 * x))
    kept = ~y | (rng.random(y.size) < 0.1)
    shifted = prior_shift(p[kept], old=0.5, new=0.1 / 1.1)
    assert cb.metrics.ece_debiased(y[kept], p[kept]) > 0.05
    assert cb.metrics.ece_debiased(y[kept], shifted) < 0.005


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 1.0, "b": 7.0, "c": 0.5}, [1.0, 7.0, 0.5], {"b": 7.0}])
def test_undoing_class_weights_gives_a_tree_the_rates_of_its_leaves(class_weight: Any) -> None:
    """A tree's probabilities are the weighted rates of its leaves: undone, they are the plain rates, exactly."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (500, 1))
    y = np.array(["a", "b", "c"])[np.where(rng.random(500) < 0.6, x[:, 0] % 3, rng.integers(0, 3, 500))]
    w = rng.integers(1, 5, 500).astype(float)
    named = dict(zip("abc", class_weight, strict=True)) if isinstance(class_weight, list) else class_weight
    weighted = DecisionTreeClassifier(class_weight=named, random_state=0).fit(x, y, sample_weight=w).predict_proba(x)
    plain = DecisionTreeClassifier(random_state=0).fit(x, y, sample_weight=w).predict_proba(x)
    assert abs(weighted - plain).max() > 0.05
    # scikit-learn's tree balances the rows, not the weights that it is given for them
    undone = undo_class_weight(weighted, class_weight=class_weight, y=y)
    np.testing.assert_allclose(undone, plain, rtol=1e-12)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    y, w = ["no"] * 9 + ["yes"] * 3, np.arange(12.0)
    weight = compute_class_weight("balanced", classes=np.array(["no", "yes"]), y=y, sample_weight=w)
    shift = PriorShift.from_class_weight("balanced", y=y, sample_weight=w)
    assert shift.factor[1] / shift.factor[0] == pytest.approx(weight[0] / weight[1], rel=1e-14)
    assert shift.classes_.tolist() == ["no", "yes"]


def test_series_stays_a_series() -> None:
    series = pd.Series([0.5, 0.9], index=[7, 8], name="p")
    pd.testing.assert_series_equal(prior_shift(series, old=0.5, new=0.1), pd.Series([0.1, 0.5], index=[7, 8], name="p"))


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_correction_is_saved_and_loaded(tmp_path: Path, suffix: str) -> None:
    shift = PriorShift.from_priors(old=[0.2, 0.3, 0.5], new=[0.5, 0.3, 0.2], classes=["a", "b", "c"])
    cb.save(shift, tmp_path / f"s{suffix}")
    loaded = cb.load(tmp_path / f"s{suffix}")
    P = np.random.default_rng(1).dirichlet(np.ones(3), 20)
    assert loaded.predict_proba(P).tobytes() == shift.predict_proba(P).tobytes()
    assert loaded.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factor": [1.0, 0.0]}, "factor: a list of 2 holds a number that is not above 0"),
        ({"factor": [1.0]}, "factor: a list of 1 is too short"),
        ({"classes": [0, 1, 2]}, "does not go with 3 classes"),
        ({"classes": [1, 0]}, "is not above the class before it"),
        ({"factors": [1.0, 2.0]}, "unknown field 'factors'"),
        ({"factor": [5e-324, 2.0]}, "factor: .* holds numbers whose ratio is beyond 1e300"),
    ],
)
def test_broken_document_is_refused_by_field(change: dict[str, Any], message: str) -> None:
    document = to_document(PriorShift([1.0, 2.0]))
    with pytest.raises(DocumentError, match=message):
        from_document(document | change)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: prior_shift([0.5], old=0.0, new=0.5), InvalidInputError, "old=0.0 is no base rate"),
        (lambda: prior_shift([0.5], old=0.5, new=1.0), InvalidInputError, "new=1.0 is no base rate"),
        (lambda: prior_shift([0.5], old=[0.5, 0.4], new=0.5), InvalidInputError, "old sums to 0.9, not 1"),
        (lambda: prior_shift([0.5], old=[0.2, 0.3, 0.5], new=0.5), ShapeError, "old has 3 base rates and new has 2"),
        (lambda: prior_shift([0.5], old=[0.0, 1.0], new=0.5), InvalidInputError, r"old\[0\] is 0.0"),
        (lambda: prior_shift([[0.5, 0.5]], old=[0.2, 0.3, 0.5], new=[0.2, 0.3, 0.5]), ShapeError, "has 2 columns"),
        (lambda: prior_shift([0.5], old=[0.2, 0.3, 0.5], new=[0.2, 0.3, 0.5]), ShapeError, "has 1 column,"),
        (lambda: prior_shift([1.5], old=0.5, new=0.5), InvalidInputError, "1.5 is outside"),
        (lambda: undo_sampling([0.5], kept=0.1), ShapeError, "kept is a single float"),
        (lambda: undo_sampling([0.5], kept=[0.1]), ShapeError, r"kept has shape \(1,\)"),
        (lambda: undo_sampling([0.5], kept=[-1.0, 1.0]), InvalidInputError, r"kept\[0\] is -1.0"),
        (lambda: undo_class_weight([0.5], class_weight="even"), InvalidInputError, "class_weight='even' is no weight"),
        (lambda: undo_class_weight([0.5], class_weight="balanced"), InvalidInputError, "Pass them as y"),
        (lambda: undo_class_weight([0.5], class_weight={0: 1, 2: 3}, y=[0, 1]), InvalidLabelError, "names 2, none"),
        (lambda: undo_class_weight([0.5], class_weight={0: 1, 1: 0}), InvalidInputError, r"kept\[1\] is 0.0"),
        (
            lambda: undo_class_weight([0.5], class_weight="balanced", y=[0, 1], sample_weight=[1, 0]),
            InvalidLabelError,
            "y holds the class 1 in rows of weight 0 only",
        ),
        (
            lambda: undo_class_weight([0.5], class_weight=[1, 2], sample_weight=[1, 0]),
            InvalidInputError,
            "sample_weight is for the rows of y",
        ),
        (lambda: PriorShift([1.0, 2.0], classes=["b", "a"]), InvalidLabelError, "is not sorted and distinct"),
        (lambda: PriorShift([5e-324, 2.0]), InvalidInputError, "of which a class would vanish altogether"),
        (lambda: PriorShift([1.0, 2.0], classes=["a"]), ShapeError, "names 1 classes for 2 factors"),
    ],
)
def test_what_is_no_prior_is_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
