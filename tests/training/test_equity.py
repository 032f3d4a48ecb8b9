"""Positions that share one capital: against a plain loop in exact fractions, products, and laws of order and time."""

from __future__ import annotations

import heapq
import time as clock
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import CalibrantError
from calibrant.training import buy_and_hold, trade
from calibrant.training.block_bootstrap import paired_means
from calibrant.training.equity import Moments, compare_growth

#: Rows: when they start, how long they last, their stake and their return, in parts that fractions hold exactly.
Row = tuple[int, int, int, int]
ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(-8, 8), st.integers(-64, 64)), min_size=1, max_size=25
)


def arrays(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    start, lasting, stake, returned = (np.array(column) for column in zip(*rows, strict=True))
    return start, start + lasting, stake / 16.0, returned / 128.0


def by_a_heap(rows: list[Row], cost: Fraction, gross: Fraction) -> tuple[dict[int, Fraction], Any]:
    """Return the capital after each moment, and the most that was open over the capital after any payment or opening.

    Written from the other side: a queue of payments in exact fractions, asked at each moment in turn.
    """
    capital, payments, held, exposures, after = Fraction(1), [], Fraction(0), [], {}
    moments = sorted({row[0] for row in rows} | {row[0] + row[1] for row in rows})

    def pay(until: int, including_new: bool) -> None:
        nonlocal capital, held
        while payments and payments[0][0] == until and (including_new or payments[0][1] < until):
            _, _, _, amount, gain = heapq.heappop(payments)
            capital, held = max(capital + amount * gain, Fraction(0)), held - amount
            if capital:
                exposures.append(held / capital)

    for moment in moments:
        pay(moment, including_new=False)
        opening = [row for row in rows if row[0] == moment and row[2]]
        wanted = sum(Fraction(abs(row[2]), 16) * capital for row in opening)
        free = max(gross * capital - held, Fraction(0))
        for number, row in enumerate(opening):
            amount = Fraction(abs(row[2]), 16) * capital * (min(1, free / wanted) if wanted else 0)
            side, returned = (1 if row[2] > 0 else -1), Fraction(row[3], 128)
            gain = side * returned - cost * (2 + returned)
            heapq.heappush(payments, (moment + row[1], moment, number, amount, gain))
        held += min(wanted, free)
        if capital:
            exposures.append(held / capital)
        pay(moment, including_new=True)
        after[moment] = capital
    return after, max(exposures, default=Fraction(0))


@settings(max_examples=200, deadline=None)
@given(ROWS, st.sampled_from([0, 16, 64]), st.sampled_from([4, 8, 16]))
def test_the_capital_is_that_of_a_queue_of_payments_in_exact_fractions(rows: Any, cost: int, gross: int) -> None:
    start, end, stake, returned = arrays(rows)
    found = trade(stake, returned, time=start, label_end=end, cost_bp=1e4 * cost / 4096, gross=gross / 16)
    expected, _ = by_a_heap(rows, Fraction(cost, 4096), Fraction(gross, 16))
    assert found.time.tolist() == list(expected)
    np.testing.assert_allclose(found.capital, [float(value) for value in expected.values()], rtol=1e-12, atol=1e-15)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from([0, 64]), st.sampled_from([4, 8, 16]))
def test_open_positions_take_no_more_than_the_limit_at_any_moment(rows: Any, cost: int, gross: int) -> None:
    _, most = by_a_heap(rows, Fraction(cost, 4096), Fraction(gross, 16))
    assert most <= Fraction(gross, 16)  # the law, of the exact loop
    start, end, stake, returned = arrays(rows)
    found = trade(stake, returned, time=start, label_end=end, cost_bp=1e4 * cost / 4096, gross=gross / 16)
    assert found.exposure.max() <= gross / 16 * (1 + 1e-12)
    assert (np.abs(found.share) <= np.abs(stake)).all()
    assert (found.share * stake >= 0.0).all()


def test_one_position_at_a_time_without_cost_compounds_to_the_product() -> None:
    rng = np.random.default_rng(0)
    stakes, returns = rng.uniform(-1, 1, 500), rng.normal(0, 0.03, 500)
    found = trade(stakes, returns)
    np.testing.assert_allclose(found.final, np.prod(1.0 + stakes * returns), rtol=1e-12)
    np.testing.assert_allclose(found.capital[1:], np.cumprod(1.0 + stakes * returns), rtol=1e-12)
    assert found.growth == pytest.approx(np.log1p(stakes * returns).sum() / 500)
    np.testing.assert_array_equal(found.share, stakes)
    np.testing.assert_allclose(found.earned, stakes * returns, rtol=0, atol=1e-16)
    assert (found.n_trades, found.per, found.length) == (500, "bar", 500.0)


def test_zero_stakes_leave_exactly_one() -> None:
    found = trade(np.zeros(50), np.full(50, 0.1), time=np.arange(50), label_end=np.arange(50) + 7, cost_bp=30)
    assert (found.capital == 1.0).all()
    assert (found.final, found.growth, found.max_drawdown, found.n_trades) == (1.0, 0.0, 0.0, 0)
    assert found.turnover.sum() == found.exposure.sum() == 0.0


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_cost_lowers_the_capital_wherever_something_was_traded(rows: Any) -> None:
    start, end, stake, returned = arrays(rows)
    free, dear = (trade(stake, returned, time=start, label_end=end, cost_bp=bp) for bp in (0, 50))
    if free.n_trades:
        assert dear.final < free.final
    else:
        assert dear.final == free.final == 1.0


def test_costs_are_basis_points_of_what_is_opened_and_of_what_is_closed() -> None:
    for side in (1.0, -1.0):
        found = trade([0.5 * side], [0.2], cost_bp=25)
        assert found.final == pytest.approx(1.0 + 0.5 * side * 0.2 - 0.0025 * (0.5 + 0.5 * 1.2), abs=1e-15)
        np.testing.assert_allclose(found.turnover, [0.5, 0.5 * 1.2 / found.final], rtol=1e-15)


@settings(max_examples=100, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(rows: Any, random: Any) -> None:
    start, end, stake, returned = arrays(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    one = trade(stake, returned, time=start, label_end=end, cost_bp=3)
    other = trade(stake[order], returned[order], time=start[order], label_end=end[order], cost_bp=3)
    assert one.capital.tobytes() == other.capital.tobytes()
    assert one.share[order].tobytes() == other.share.tobytes()
    assert one.earned[order].tobytes() == other.earned.tobytes()


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(0, 12))
def test_rows_of_the_future_change_nothing_of_the_path_before(rows: Any, now: int) -> None:
    start, end, stake, returned = arrays(rows)
    changed = returned.copy()
    changed[end > now] = 0.25 - changed[end > now] / 2.0
    stakes = np.where(start > now, -stake, stake)
    one = trade(stake, returned, time=start, label_end=end, cost_bp=3)
    other = trade(stakes, changed, time=start, label_end=end, cost_bp=3)
    past = one.time <= now
    assert one.capital[past].tobytes() == other.capital[past].tobytes()
    assert one.share[start <= now].tobytes() == other.share[start <= now].tobytes()


def test_a_lost_capital_stays_lost() -> None:
    found = trade([1.0, 1.0, 1.0], [0.5, -1.0, 3.0])
    assert found.capital.tolist() == [1.0, 1.5, 0.0, 0.0]
    assert (found.growth, found.max_drawdown, found.n_trades) == (-np.inf, 1.0, 2)
    short = trade([-1.0], [1.5])  # a short loses more than was staked, and no more than there is
    assert short.final == 0.0
    assert compare_growth({"a": found, "b": trade([0, 0, 0], [0, 0, 0])})["a"].value == -np.inf
    assert np.isnan(compare_growth({"b": trade([0, 0, 0], [0, 0, 0]), "a": found}, over="a")["b"].value)


def test_what_opens_together_shares_what_is_free_in_proportion() -> None:
    found = trade([0.6, 0.3, -0.9], [0.0, 0.0, 0.0], time=[0, 1, 1], label_end=[2, 2, 2])
    np.testing.assert_allclose(found.share, [0.6, 0.1, -0.3], rtol=1e-15)
    assert found.exposure[1] == pytest.approx(1.0)


# --- holding --------------------------------------------------------------------------------------------------


def walk(n: int, horizon: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the prices of a random walk, and rows whose labels take up to a horizon."""
    rng = np.random.default_rng(seed)
    price = 50.0 * np.exp(np.cumsum(rng.normal(0, 0.02, n)))
    start = np.arange(n - horizon)
    end = start + rng.integers(1, horizon + 1, start.size)
    return price, start, end, price[end] / price[start] - 1.0


def test_holding_earns_the_ratio_of_prices_less_costs() -> None:
    price, start, end, returned = walk(400, 15, 1)
    ends = [0]
    while ends[-1] < start.size:
        ends.append(int(end[ends[-1]]))
    ratio = price[ends[-1]] / price[0]
    for bp in (0.0, 20.0):
        found = buy_and_hold(returned, time=start, label_end=end, cost_bp=bp)
        assert found.final == pytest.approx(ratio - 1e-4 * bp * (1.0 + ratio), rel=1e-12)
    at = np.searchsorted(found.time, ends[1:-1])
    np.testing.assert_allclose(found.capital[at], price[ends[1:-1]] / price[0] - 0.002, rtol=1e-12)
    one = trade([1.0], [ratio - 1.0], cost_bp=20)
    assert found.final == pytest.approx(one.final, rel=1e-12)  # the same terms as those of a position


def test_several_symbols_are_held_in_equal_parts_in_any_order() -> None:
    parts = [walk(300, 10, seed) for seed in range(3)]
    columns = [np.concatenate([part[k] for part in parts]) for k in (1, 2, 3)]
    symbol = np.repeat(["b", "a", "c"], [part[1].size for part in parts])
    found = buy_and_hold(columns[2], time=columns[0], label_end=columns[1], symbol=symbol, cost_bp=7)
    single = [buy_and_hold(part[3], time=part[1], label_end=part[2], cost_bp=7).final for part in parts]
    assert found.final == pytest.approx(np.mean(single), rel=1e-12)
    order = np.random.default_rng(0).permutation(symbol.size)
    start, end, returned = (column[order] for column in columns)
    again = buy_and_hold(returned, time=start, label_end=end, symbol=symbol[order], cost_bp=7)
    np.testing.assert_allclose(again.capital, found.capital, rtol=1e-14)
    assert found.exposure.max() < 1.01


def test_a_symbol_that_ends_early_is_money_afterwards() -> None:
    found = buy_and_hold([0.5, 0.0, 0.0, -0.5], time=[0, 0, 1, 2], label_end=[1, 1, 2, 3], symbol=list("abbb"))
    np.testing.assert_allclose(found.capital, [1.0, 1.25, 1.25, 1.0])
    moments = Moments.of([0.5, 0.0, 0.0, -0.5], [0, 0, 1, 2], [1, 1, 2, 3])
    assert moments.held_share(np.array([0, 1, 1, 1])) == pytest.approx((1 + 3) / 6)


# --- paths and their growth -----------------------------------------------------------------------------------


def test_growth_is_given_for_a_year_of_dates() -> None:
    time = np.datetime64("2020-01-01") + np.arange(731)
    found = trade(np.full(730, 1.0), np.full(730, 0.001), time=time[:-1], label_end=time[1:])
    assert found.per == "year"
    assert found.length == pytest.approx(730 / 365.25)
    assert found.growth == pytest.approx(730 * np.log(1.001) / (730 / 365.25))
    (mean,) = compare_growth({"a": found}).values()
    assert mean.value == pytest.approx(found.growth)


def test_drawdown_is_the_largest_fall_below_an_earlier_value() -> None:
    found = trade([1.0] * 5, [-0.1, 0.5, -0.2, -0.25, 1.0])
    assert found.max_drawdown == pytest.approx(1.0 - 0.8 * 0.75)
    drawn = found.resampled_drawdowns(0)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    np.testing.assert_array_equal(drawn, found.resampled_drawdowns(0))


def test_growth_intervals_cover_as_often_as_they_say() -> None:
    means = []
    for seed in range(200):
        steps = np.random.default_rng(seed).normal(0, 0.01, 1009)
        returned = np.expm1(np.convolve(steps, np.ones(10), "valid"))
        found = trade(np.full(1000, 0.1), returned, time=np.arange(1000), label_end=np.arange(1000) + 10)
        means.append(compare_growth({"a": found}, level=0.9)["a"])
    truth = np.mean([mean.value for mean in means])
    assert 0.83 <= np.mean([mean.low <= truth <= mean.high for mean in means]) <= 0.96


def test_differences_of_growth_are_paired() -> None:
    rng = np.random.default_rng(3)
    returned = rng.normal(0, 0.05, 800)
    one, other = trade(np.full(800, 0.5), returned), trade(np.full(800, 0.5), returned + 0.0005)
    gap = compare_growth({"one": one, "other": other}, over="one")["other"]
    alone = compare_growth({"other": other})["other"]
    assert gap.error < 0.1 * alone.error
    steps = paired_means({"gap": other.steps() - one.steps()}, block=one.block, n_draws=1000)["gap"]
    assert gap.value == pytest.approx(steps.value * one.time.size / one.length)


def test_a_million_rows_take_seconds() -> None:
    n = 1_000_000
    rng = np.random.default_rng(0)
    start = np.arange(n) // 5
    end, returned = start + rng.integers(1, 20, n), rng.normal(0, 0.02, n)
    began = clock.process_time()
    found = trade(rng.uniform(-0.05, 0.05, n), returned, time=start, label_end=end, cost_bp=1)
    buy_and_hold(returned, time=start, label_end=end, symbol=np.arange(n) % 5)
    assert clock.process_time() - began < 20.0
    assert found.exposure.max() <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"stakes": [0.1]}, "label_return has 2 rows and stakes has 1"),
        ({"stakes": [0.1, float("nan")]}, "stakes row 1: nan is not finite"),
        ({"label_return": [0.1, -1.5]}, r"label_return row 1: -1.5 is below -1, .* \(1 of 2 rows\). Pass simple"),
        ({"label_return": [[0.1], [0.2]]}, r"label_return has shape \(2, 1\)"),
        ({"label_end": [1, 2]}, "label_end comes without time"),
        ({"time": [0, 1, 2]}, "time has 3 rows and label_return has 2"),
        ({"time": [1, 2], "label_end": [2, 1]}, "label_end row 1: 1 is before the row's time 2"),
        ({"cost_bp": -1}, r"cost_bp=-1 is outside \[0, 10000\]. Pass a number in \[0, 10000\], such as 5"),
        ({"cost_bp": "5"}, "cost_bp='5' is not a number"),
        ({"gross": 0}, r"gross=0 is outside \(0, inf\)"),
    ],
)
def test_trade_refuses(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        trade(**{"stakes": [0.1, 0.2], "label_return": [0.1, -0.1], **arguments})


def test_holding_is_refused_where_prices_are_not_known() -> None:
    with pytest.raises(CalibrantError, match=r"two rows of the time 0 \(1 such pairs\).*Pass the symbol of each row"):
        buy_and_hold([0.1, 0.2], time=[0, 0], label_end=[1, 2])
    with pytest.raises(CalibrantError, match="labels end when they start"):
        buy_and_hold([0.1, 0.2], time=[0, 1], label_end=[0, 2])
