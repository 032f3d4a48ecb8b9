"""Names of rates and of columns: matched wherever both sides have them, and refused where they contradict the order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st

from calibrant.errors import InvalidInputError
from calibrant.prior import (
    PriorShift,
    estimate_prior,
    estimate_prior_bbse,
    prior_shift,
    undo_class_weight,
    undo_sampling,
)
from calibrant.validation import match_names, places_either_way, read_names

CLASSES = ["buy", "hold", "sell"]
OLD, NEW = [0.2, 0.5, 0.3], [0.4, 0.4, 0.2]
P = np.random.default_rng(0).dirichlet(np.ones(3), 40)
RIGHT = prior_shift(P, old=OLD, new=NEW)


def named(values: Any, order: list[int], index: list[Any] | None = None) -> pd.Series:
    index = CLASSES if index is None else index
    return pd.Series([values[i] for i in order], index=[index[i] for i in order])


def frame(order: list[int], prefix: str = "", suffix: str = "") -> pd.DataFrame:
    return pd.DataFrame({f"{prefix}{CLASSES[i]}{suffix}": P[:, i] for i in order})


@given(st.permutations(["no", "yes", "maybe", "later"]), st.text("p_1", max_size=3), st.text("q_1", max_size=3))
def test_places_are_those_of_the_names_between_any_affixes(found: list[str], prefix: str, suffix: str) -> None:
    wanted = ["later", "maybe", "no", "yes"]
    expected = [found.index(name) for name in wanted]
    assert places_either_way(wanted, found) == expected
    assert places_either_way(wanted, [f"{prefix}{name}{suffix}" for name in found]) == expected
    assert places_either_way([f"{prefix}{name}{suffix}" for name in wanted], found) == expected


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["a", "b"], ["a", "c"]),
        (["a", "b"], ["a", "b", "c"]),
        (["a", "a"], ["a", "b"]),
        (["p_a", "q_b"], ["a", "b"]),
        (["p_a", "p_b"], ["a", "c"]),
    ],
)
def test_other_names_have_no_places(wanted: list[str], found: list[str]) -> None:
    assert places_either_way(wanted, found) is None


@pytest.mark.parametrize(
    ("given_rates", "names"),
    [
        (pd.Series([0.2, 0.8]), None),
        (pd.Series([0.2, 0.8], index=[1, 0]), [1, 0]),
        (pd.Series([0.2, 0.8])[::-1], [1, 0]),
        (pd.Series([0.2, 0.8], index=["a", "b"]), ["a", "b"]),
        (pl.Series([0.2, 0.8]), None),
        (np.array([0.2, 0.8]), None),
        ([0.2, 0.8], None),
        (0.2, None),
        ({"a": 0.2, "b": 0.8}, ["a", "b"]),
    ],
)
def test_names_are_an_index_that_is_more_than_a_range_or_the_keys_of_a_mapping(given_rates: Any, names: Any) -> None:
    assert read_names(given_rates)[1] == names


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("kind", [pd.Series, dict])
def test_rates_named_on_both_sides_are_matched(order: list[int], kind: Any) -> None:
    old, new = kind(named(OLD, order)), kind(named(NEW, [1, 0, 2]))
    shift = PriorShift.from_priors(old=old, new=new)
    assert shift.classes_.tolist() == CLASSES
    np.testing.assert_array_equal(shift.predict_proba(P), RIGHT)
    assert shift.factor.tolist() == PriorShift.from_priors(old=OLD, new=NEW).factor.tolist()


def test_counts_sorted_by_frequency_go_by_their_names() -> None:
    """As `value_counts` gives them, the most frequent class comes first."""
    y_old, y_new = np.repeat(CLASSES, [2, 5, 3]), np.repeat(CLASSES, [4, 4, 2])
    old, new = (pd.Series(y).value_counts(normalize=True) for y in (y_old, y_new))
    assert old.index.tolist() != CLASSES
    np.testing.assert_allclose(PriorShift.from_priors(old=old, new=new).predict_proba(P), RIGHT, rtol=1e-14)
    numbers = pd.Series(np.repeat([0, 1, 2], [2, 5, 3])).value_counts(normalize=True)
    np.testing.assert_allclose(prior_shift(P, old=numbers, new=NEW), RIGHT, rtol=1e-14)


def test_rates_named_on_one_side_are_matched_to_the_classes() -> None:
    for old, new in ((named(OLD, [2, 0, 1]), NEW), (OLD, named(NEW, [1, 2, 0]))):
        shift = PriorShift.from_priors(old=old, new=new, classes=CLASSES)
        np.testing.assert_array_equal(shift.predict_proba(P), RIGHT)


@pytest.mark.parametrize("prefix", ["", "p_", "prob of "])
@pytest.mark.parametrize("suffix", ["", "_model"])
def test_columns_of_a_frame_are_matched_to_named_rates(prefix: str, suffix: str) -> None:
    for order in ([0, 1, 2], [2, 0, 1]):
        table = frame(order, prefix, suffix)
        for old, new in (
            (named(OLD, [1, 2, 0]), named(NEW, [2, 1, 0])),
            (named(OLD, [1, 2, 0]), [NEW[i] for i in order]),  # numbers without names follow the columns
            (named(OLD, [1, 2, 0], list(frame([0, 1, 2], prefix, suffix))), named(NEW, [2, 1, 0])),
        ):
            found = prior_shift(table, old=old, new=new)
            assert list(found) == list(table)
            np.testing.assert_allclose(found.to_numpy(), RIGHT[:, order], rtol=1e-14)


def test_a_frame_of_polars_is_matched_too_and_stays_one() -> None:
    table = pl.DataFrame(frame([2, 0, 1], "p_").to_dict("list"))
    found = prior_shift(table, old=dict(zip(CLASSES, OLD, strict=True)), new=dict(zip(CLASSES, NEW, strict=True)))
    assert isinstance(found, pl.DataFrame)
    np.testing.assert_allclose(found.to_numpy(), RIGHT[:, [2, 0, 1]], rtol=1e-14)


def test_without_names_on_one_side_numbers_go_by_position() -> None:
    sorted_old = named(OLD, [0, 1, 2])
    for old in (sorted_old, pd.Series(OLD), pl.Series(OLD), np.array(OLD), dict(zip(CLASSES, OLD, strict=True))):
        np.testing.assert_array_equal(prior_shift(P, old=old, new=NEW), RIGHT)
    np.testing.assert_array_equal(prior_shift(pd.DataFrame(P), old=sorted_old, new=NEW).to_numpy(), RIGHT)
    assert PriorShift.from_priors(old=sorted_old, new=NEW).classes_.tolist() == CLASSES
    table = frame([2, 0, 1])
    by_position = prior_shift(table, old=OLD, new=NEW)
    np.testing.assert_array_equal(by_position.to_numpy(), prior_shift(table.to_numpy(), old=OLD, new=NEW))


def test_numbers_of_classes_go_by_index() -> None:
    for index in ([2, 0, 1], [1, 2, 0]):
        old = pd.Series([OLD[i] for i in index], index=index)
        np.testing.assert_array_equal(prior_shift(P, old=old, new=NEW), RIGHT)
        np.testing.assert_array_equal(undo_sampling(P, kept=old), undo_sampling(P, kept=OLD))
    np.testing.assert_array_equal(prior_shift(P, old={1: 0.5, 0: 0.2, 2: 0.3}, new=NEW), RIGHT)


def test_one_column_of_two_named_classes() -> None:
    p = P[:, 0]
    expected = prior_shift(p, old=0.5, new=0.1)
    np.testing.assert_allclose(prior_shift(p, old=0.5, new={"no": 0.9, "yes": 0.1}), expected, rtol=1e-14)
    with pytest.raises(InvalidInputError, match=r"new has the names \['yes', 'no'\], whose sorted order is \['no', 'y"):
        prior_shift(p, old=0.5, new={"yes": 0.1, "no": 0.9})


def test_kept_shares_and_class_weights_go_by_name() -> None:
    kept = named([0.1, 1.0, 2.0], [1, 2, 0])
    right = undo_sampling(P, kept=[0.1, 1.0, 2.0])
    np.testing.assert_array_equal(PriorShift.from_sampling(kept=kept, classes=CLASSES).predict_proba(P), right)
    found = undo_sampling(frame([2, 0, 1], "p_"), kept=kept)
    np.testing.assert_allclose(found.to_numpy(), right[:, [2, 0, 1]], rtol=1e-14)
    for weight in (kept, kept.to_dict()):
        np.testing.assert_array_equal(undo_class_weight(P, class_weight=weight), right)
        np.testing.assert_array_equal(undo_class_weight(P, class_weight=weight, y=CLASSES), right)
        found = undo_class_weight(frame([1, 0, 2], "p_"), class_weight=weight)
        np.testing.assert_allclose(found.to_numpy(), right[:, [1, 0, 2]], rtol=1e-14)


def test_a_kept_correction_matches_the_columns_of_new_frames() -> None:
    shift = PriorShift.from_priors(old=OLD, new=NEW, classes=CLASSES)
    table = frame([1, 2, 0], "p_")
    found = shift.predict_proba(table)
    assert list(found) == list(table)
    np.testing.assert_allclose(found.to_numpy(), RIGHT[:, [1, 2, 0]], rtol=1e-14)


def test_estimates_match_columns_and_rates_by_name() -> None:
    right = estimate_prior(P, old=OLD, classes=CLASSES)
    table = frame([2, 0, 1], "p_")
    for estimate in (
        estimate_prior(table, old=named(OLD, [1, 0, 2])),
        estimate_prior(table, old=named(OLD, [1, 0, 2]), classes=CLASSES),
        estimate_prior(table, old=OLD, classes=CLASSES),
        estimate_prior(P, old=named(OLD, [0, 1, 2])),
        estimate_prior(P, old=named(OLD, [2, 0, 1]), classes=CLASSES),
    ):
        assert estimate.classes.tolist() == CLASSES
        np.testing.assert_allclose(estimate.new, right.new, rtol=1e-12)
        np.testing.assert_allclose(estimate.old, OLD, rtol=1e-14)


def test_black_box_estimate_matches_columns_to_the_labels() -> None:
    rng = np.random.default_rng(1)
    y = np.array(CLASSES)[[rng.choice(3, p=row) for row in P]]
    right = estimate_prior_bbse(y, P, new_predictions=P[:20])
    found = estimate_prior_bbse(y, frame([2, 0, 1], "p_"), new_predictions=frame([1, 0, 2], "p_")[:20])
    np.testing.assert_allclose(found.new, right.new, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: PriorShift.from_priors(old=named(OLD, [0, 1, 2]), new={"buy": 0.4, "hold": 0.4, "keep": 0.2}),
            r"new has the names \['buy', 'hold', 'keep'\], and old \['buy', 'hold', 'sell'\]. Give both the same names",
        ),
        (
            lambda: PriorShift.from_priors(old=named(OLD, [2, 0, 1]), new=NEW),
            r"old has the names \['sell', 'buy', 'hold'\], whose sorted order is \['buy', 'hold', 'sell'\], and new",
        ),
        (
            lambda: prior_shift(P, old=named(OLD, [2, 0, 1]), new=named(NEW, [2, 0, 1])),
            r"old has the names \['sell', 'buy', 'hold'\], whose sorted order is .*, and probabilities has no names",
        ),
        (
            lambda: prior_shift(P, old=named(OLD, [0, 1, 2]), new=named(NEW, [0, 1, 2], ["a", "b", "c"])),
            r"new has the names \['a', 'b', 'c'\], and old \['buy', 'hold', 'sell'\]",
        ),
        (
            lambda: prior_shift(pd.DataFrame(P, columns=["x", "y", "z"]), old=named(OLD, [0, 1, 2]), new=NEW),
            r"old has the names \['buy', 'hold', 'sell'\], and probabilities \['x', 'y', 'z'\]. Give both the same",
        ),
        (
            lambda: PriorShift.from_sampling(kept=named(OLD, [2, 0, 1])),
            r"kept has the names \['sell', 'buy', 'hold'\], whose sorted order is .*, and classes has no names",
        ),
        (
            lambda: PriorShift.from_sampling(kept=named(OLD, [2, 0, 1]), classes=["a", "b", "c"]),
            r"kept has the names \['sell', 'buy', 'hold'\], and classes \['a', 'b', 'c'\]",
        ),
        (
            lambda: PriorShift.from_sampling(kept=pd.Series([1.0, 2.0], index=["a", "a"])),
            r"kept has the name 'a' twice",
        ),
        (lambda: estimate_prior(P, old=named(OLD, [2, 0, 1])), "and probabilities has no names"),
        (lambda: estimate_prior(P[:, 1], old={"yes": 0.4, "no": 0.6}), "and probabilities has no names"),
    ],
)
def test_names_that_contradict_the_order_are_an_error_that_shows_both(call: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_matching_takes_and_gives_plain_lists() -> None:
    assert match_names(["b", "a"], ["a", "b"], name="old", of="new") == [1, 0]
    assert match_names(None, ["a", "b"], name="old", of="new") is None
    assert match_names([1, 0], None, name="old", of="new") == [1, 0]
    assert match_names(["a", "b"], None, name="old", of="new") is None
