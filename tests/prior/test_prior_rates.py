"""Rates of classes: counts, Wilson's and Goodman's intervals, weights and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from calibrant.errors import InvalidInputError, InvalidLabelError, InvalidTypeError, ShapeError
from calibrant.prior import class_rates, class_rates_of_groups, prior_shift

Y = np.repeat(["a", "b", "c"], [60, 30, 10])


def test_rates_are_shares_with_wilson_intervals() -> None:
    found = class_rates(Y, level=0.9)
    assert found.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found.rates, [0.6, 0.3, 0.1], rtol=1e-15)
    for k, count in enumerate((60, 30, 10)):
        expected = binomtest(count, 100).proportion_ci(0.9, method="wilson")
        assert (found.low[k], found.high[k]) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.n, found.effective_size, found.method) == (100, 100.0, "Wilson")


def test_simultaneous_intervals_are_goodmans() -> None:
    found = class_rates(Y, simultaneous=True)
    a = chi2.ppf(1.0 - 0.05 / 3, 1)
    for k, n in enumerate((60, 30, 10)):  # equation 2.5 of Goodman (1965)
        root = np.sqrt(a * (a + 4.0 * n * (100 - n) / 100))
        ends = (a + 2 * n - root) / (2 * (100 + a)), (a + 2 * n + root) / (2 * (100 + a))
        assert (found.low[k], found.high[k]) == pytest.approx(ends, rel=1e-10)
    assert found.method == "Goodman"


def test_simultaneous_intervals_cover_all_classes_at_once() -> None:
    rng = np.random.default_rng(0)
    p = np.array([0.5, 0.3, 0.15, 0.05])
    both = np.zeros(2)
    for _ in range(400):
        y = np.append(rng.choice(4, 150, p=p), [])
        for i, simultaneous in enumerate((False, True)):
            found = class_rates(y, classes=[0, 1, 2, 3], simultaneous=simultaneous)
            both[i] += ((found.low <= p) & (p <= found.high)).all()
    assert both[1] / 400 >= 0.93
    assert both[0] / 400 < 0.9


def test_class_without_rows_has_rate_zero_and_an_interval() -> None:
    found = class_rates([0, 0, 1], classes=[0, 1, 2])
    assert found.rates[2] == 0.0 == found.low[2]
    assert 0.3 < found.high[2] < 0.7


def test_weights_are_rows_and_their_unit_does_not_matter() -> None:
    w = np.random.default_rng(1).integers(0, 3, 100)
    np.testing.assert_allclose(class_rates(Y, sample_weight=w).rates, class_rates(np.repeat(Y, w)).rates, rtol=1e-14)
    tenth, whole = class_rates(Y, sample_weight=np.full(100, 0.1)), class_rates(Y)
    np.testing.assert_allclose(tenth.low, whole.low, rtol=1e-12)
    assert class_rates(Y, sample_weight=w).effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    huge = class_rates(Y, sample_weight=np.full(100, 1e100))
    np.testing.assert_allclose(huge.rates, whole.rates, rtol=1e-12)


def test_rates_of_groups_are_those_of_their_rows() -> None:
    by = np.arange(100) % 3
    w = np.where(by == 2, 0.0, 1.0)
    found = class_rates_of_groups(Y, by, sample_weight=w)
    assert list(found) == [0, 1]
    for group in (0, 1):
        assert found[group].to_dict() == class_rates(Y[by == group], classes=["a", "b", "c"]).to_dict()


def test_rates_go_into_a_correction() -> None:
    assert prior_shift([0.5], old=class_rates([0, 1]).rates, new=class_rates([0] * 9 + [1]).rates)[0] == pytest.approx(
        0.1
    )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: class_rates([0, 1], sample_weight=[1.0]), ShapeError, "y has 2 rows and sample_weight has 1"),
        (lambda: class_rates([0, None]), InvalidLabelError, "y row 1: missing label"),
        (lambda: class_rates([0, 1], level=95), InvalidInputError, "level=95 is outside"),
        (lambda: class_rates([0, 1], simultaneous="yes"), InvalidTypeError, "simultaneous='yes' is not True or False"),
        (lambda: class_rates_of_groups([0, 1], ["a"]), ShapeError, "y has 2 rows and groups has 1"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
