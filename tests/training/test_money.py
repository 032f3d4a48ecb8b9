"""What a run is worth in money: stakes told by earlier rows, paid in realised returns, beside holding and no trade."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from calibrant.cli.money_text import money_text, specified_line, thresholds_text
from calibrant.results import plain
from calibrant.training import StakeRule, buy_and_hold, sizing_error, sizing_reduction, trade
from calibrant.training.bars import as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import Forecasts
from calibrant.training.money import HOLD, NO_TRADE, Money, compared, ensembles_compared, evaluate_money, rule_before
from calibrant.training.money_page import draw_money, draw_paths, money_section
from calibrant.training.run_pictures import write_page
from calibrant.training.stacking import compare_stacks
from calibrant.training.thresholds import choose_threshold, evaluate_returns, threshold_table
from calibrant.training.training_run import run_dataset
from calibrant.validation import Labels

MakeTable = Callable[..., pa.Table]
CONFIG = TrainConfig(horizon=10)


@pytest.fixture(scope="module")
def parts(make_table: MakeTable) -> tuple[Dataset, Dataset]:
    return run_dataset(CONFIG, as_bars(make_table(700, ("A", "B")))).last(0.3)


def forecasts(data: Dataset, seed: int, skill: float = 0.4) -> Forecasts:
    """Return forecasts that know something of the labels, and more of themselves when raw."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 0.4, (data.n_rows, data.classes.size))
    z[np.arange(data.n_rows), data.codes] += skill
    calibrated, raw = (np.exp(k * z) / np.exp(k * z).sum(axis=1, keepdims=True) for k in (1.0, 3.0))
    return Forecasts.beside_rates(raw, calibrated, data)


def money_of_parts(parts: tuple[Dataset, Dataset], **how: Any) -> Money:
    before, test = parts
    return evaluate_money(before, forecasts(before, 0), test, forecasts(test, 1), **how)


def test_the_rule_is_told_by_earlier_rows(parts: tuple[Dataset, Dataset]) -> None:
    before, _ = parts
    rule = rule_before(before, "linear", 5.0)
    assert isinstance(rule, StakeRule)
    assert before.label_return is not None
    assert rule.up == pytest.approx(before.label_return[before.y == 1].mean())
    assert rule.down == pytest.approx(-before.label_return[before.y == -1].mean())
    # labels open at a bar, by a count at each
    moments = np.unique(np.concatenate((before.time, before.label_end)))
    n_open = [((before.time <= moment) & (moment < before.label_end)).sum() for moment in moments]
    assert rule.share == pytest.approx(1.0 / np.mean(n_open[:-1]))
    assert (rule.kind, rule.cost_bp, rule.gross) == ("linear", 5.0, 1.0)


@pytest.mark.parametrize("kind", ["linear", "kelly"])
def test_figures_are_those_of_the_functions(parts: tuple[Dataset, Dataset], kind: Any) -> None:
    before, test = parts
    earlier, later = forecasts(before, 0), forecasts(test, 1)
    money = evaluate_money(before, earlier, test, later, stakes=kind, cost_bp=2.0)
    rule = rule_before(before, kind, 2.0)
    assert isinstance(rule, StakeRule)

    def about(data: Dataset) -> dict[str, Any]:
        times = {"time": data.time, "label_end": data.label_end}
        return {"label_return": data.label_return, "rule": rule, "classes": data.classes, **times}

    times = {"time": test.time, "label_end": test.label_end}
    for name, was, prob in (("raw", earlier.raw, later.raw), ("calibrated", earlier.calibrated, later.calibrated)):
        found = money.figures[name]
        choice = choose_threshold(before.y, was, **about(before))
        assert (found["chosen"], found["reason"]) == (choice.threshold, choice.reason)
        assert found["test"] == [row.to_dict() for row in threshold_table(test.y, prob, **about(test))]
        returns = evaluate_returns(test.y, prob, threshold=choice.threshold or 0.0, **about(test))
        assert found["returns"] == returns.to_dict()
        assert found["sizing_error"]["value"] == sizing_error(test.y, prob, rule=rule).value
        path = trade(rule.share * rule.stakes(prob), test.label_return, **times, cost_bp=2.0)
        assert money.paths[name].capital.tobytes() == path.capital.tobytes()
        assert money.figures["paths"][name]["final"]["value"] == path.final
        assert path.exposure.max() <= 1.0 + 1e-12
    held = buy_and_hold(test.label_return, **times, symbol=test.symbol, cost_bp=2.0)
    assert money.paths[HOLD].capital.tobytes() == held.capital.tobytes()
    assert (money.paths[NO_TRADE].capital == 1.0).all()
    reduction = sizing_reduction(test.y, later.raw, later.calibrated, rule=rule, **times)
    assert money.figures["sizing_reduction"]["value"] == reduction.value
    assert money.figures["specified"][0]["low"] == reduction.low


def test_a_chosen_threshold_has_a_path_of_its_own(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    money = evaluate_money(before, forecasts(before, 0, 1.5), test, forecasts(test, 1, 1.5), cost_bp=1.0)
    chosen = money.figures["raw"]["chosen"]
    assert chosen is not None
    over = money.figures["paths"]["calibrated"]["over_buy_and_hold"]
    assert over["low"] < over["value"] < over["high"]
    growth = money.figures["paths"]["calibrated"]["growth"]
    assert growth["low"] > 0.0
    if chosen:
        assert f"raw above {chosen:g}" in money.paths


def test_gains_are_beyond_chance_where_forecasts_know_and_not_where_they_don_t(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    rng = np.random.default_rng(5)
    noise = [replace(forecasts(data, 3), calibrated=rng.dirichlet([9, 9, 9], data.n_rows)) for data in parts]
    found = evaluate_money(before, noise[0], test, noise[1], cost_bp=5.0).figures
    assert found["calibrated"]["chosen"] is None
    assert found["paths"]["calibrated"]["growth"]["low"] < 0.0


def test_prices_in_another_currency_change_nothing(make_table: MakeTable) -> None:
    table = make_table(500)
    dearer = table
    for name in ("open", "high", "low", "close"):
        place = table.column_names.index(name)
        # a power of two, so that no ratio of prices is rounded in another way
        dearer = dearer.set_column(place, name, pa.array(8.0 * table[name].to_numpy()))
    one, other = (money_of_parts(run_dataset(CONFIG, as_bars(rows)).last(0.3)) for rows in (table, dearer))
    assert one.figures == other.figures


def test_the_order_of_symbols_changes_nothing(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    later = forecasts(test, 1)
    order = np.lexsort((-np.arange(test.n_rows), test.time))  # the other symbol first, at each time
    assert (order != np.arange(test.n_rows)).any()
    one = evaluate_money(before, forecasts(before, 0), test, later)
    turned = Forecasts(*(prob[order] for prob in (later.raw, later.calibrated, later.class_frequencies)))
    other = evaluate_money(before, forecasts(before, 0), test.take(order), turned)
    for name in ("raw", "calibrated", NO_TRADE):
        assert one.paths[name].capital.tobytes() == other.paths[name].capital.tobytes()
    np.testing.assert_allclose(one.paths[HOLD].capital, other.paths[HOLD].capital, rtol=1e-14)


def test_the_test_part_tells_neither_rule_nor_threshold(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    assert test.label_return is not None
    changed = replace(test, label_return=-0.5 * test.label_return, y=-test.y)
    one, other = (
        evaluate_money(before, forecasts(before, 0), rows, forecasts(test, 1)).figures for rows in (test, changed)
    )
    assert one["rule"] == other["rule"]
    for name in ("raw", "calibrated"):
        for key in ("chosen", "reason", "validation"):
            assert one[name][key] == other[name][key]
    assert one["paths"]["raw"]["final"] != other["paths"]["raw"]["final"]


# --- where nothing can be staked -----------------------------------------------------------------------------


def test_money_is_left_out_where_returns_or_directions_are_not_known(parts: tuple[Dataset, Dataset]) -> None:
    for change, said in (
        ({"label_return": None}, "a table needs a column of returns (price_return)"),
        ({"classes": np.array([0, 1, 2])}, "labels -1, 0 and 1 for a fall, neither"),
    ):
        without = tuple(replace(data, **change) for data in parts)
        before, test = without
        money = evaluate_money(before, forecasts(parts[0], 0), test, forecasts(parts[1], 1))
        assert set(money.figures) == {"left_out"}
        assert said in money.figures["left_out"]
        assert (money.paths, money.columns()) == ({}, {})
        assert money_text({"money": money.figures}).startswith("No stakes: a table needs")
        assert thresholds_text(money.figures) == ""
        assert [block.text[:9] for block in money_section(money).blocks] == ["No stakes"]


def test_money_is_left_out_where_a_label_is_no_direction(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    assert before.label_return is not None
    turned = replace(before, label_return=-before.label_return)
    figures = evaluate_money(turned, forecasts(before, 0), test, forecasts(test, 1)).figures
    mean = -before.label_return[before.y == 1].mean()
    assert figures["left_out"] == (
        f"labels 1 returned {mean:+.4f} on average before the test part, so they are no rise of the price"
    )
    none = before.take(np.flatnonzero(before.y != -1))
    figures = evaluate_money(none, forecasts(none, 0), test, forecasts(test, 1)).figures
    assert figures["left_out"] == "labels -1 are of no row before the test part, so they are no fall of the price"


def test_holding_is_left_out_where_prices_are_not_known(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    nameless = replace(test, symbol=np.full(test.n_rows, "", dtype=object))
    money = evaluate_money(before, forecasts(before, 0), nameless, forecasts(test, 1))
    assert HOLD not in money.paths
    assert "a symbol has two rows of the time" in money.figures["not_held"]
    assert "Buy and hold is left out: a symbol has two rows" in money_text({"money": money.figures})
    assert "Left out: a symbol" in str(money_section(money).blocks)


# --- what was specified --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [
        (0.31, 0.5, 0.7, "met"),
        (0.2, 0.5, 0.7, "within noise"),
        (-0.4, 0.1, 0.29, "not met"),
        (float("nan"), float("nan"), float("nan"), "not measured"),
    ],
)
def test_verdicts_say_on_which_side_of_what_was_specified_the_interval_is(
    low: float, value: float, high: float, verdict: str
) -> None:
    found = compared("sizing error", (0.3, 0.5), value, low, high)
    assert found["verdict"] == verdict
    line = specified_line(plain(found))
    assert line.startswith("Specified: 30 to 50% less sizing error. Found: ")
    assert line.endswith(f": {verdict}")


def test_an_error_that_chance_alone_would_make_is_within_noise(parts: tuple[Dataset, Dataset]) -> None:
    _, test = parts
    later = forecasts(test, 1)
    flat = replace(later, raw=later.class_frequencies, calibrated=later.class_frequencies)
    found = evaluate_money(parts[0], forecasts(parts[0], 0), test, flat).figures
    assert found["raw"]["sizing_error"]["value"] <= found["raw"]["sizing_error"]["floor"]
    assert found["specified"][0]["verdict"] == "within noise"


def test_gains_of_ensembles_are_shares_of_the_raw_log_loss_with_the_error_of_a_ratio() -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    raw, calibrated = rng.dirichlet([1, 1, 1], n), rng.dirichlet([9, 9, 9], n)
    codes = rng.integers(0, 3, n)
    labels = Labels(codes, np.arange(3))
    names = {"class frequencies": np.full((n, 3), 1 / 3), "average, raw": raw, "average, calibrated": calibrated}
    gain = compare_stacks(names, labels).gains["average"]
    losses = [-np.log(prob[np.arange(n), codes]) for prob in (raw, calibrated)]
    assert gain.value == pytest.approx(1.0 - losses[1].mean() / losses[0].mean())
    rows = rng.integers(0, n, (1_000, n))
    ratios = 1.0 - losses[1][rows].mean(axis=1) / losses[0][rows].mean(axis=1)  # a bootstrap of the ratio itself
    assert gain.error == pytest.approx(ratios.std(), rel=0.1)
    (found,) = ensembles_compared({"average": gain, "xgboost": gain})
    assert (found["what"], found["verdict"]) == ("log loss of the models' average", "met")


def test_no_sizing_error_before_leaves_nothing_to_measure(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    none = replace(forecasts(test, 1), raw=np.tile([0.0, 1.0, 0.0], (test.n_rows, 1)))
    never = replace(test, y=np.zeros_like(test.y))
    found = evaluate_money(before, forecasts(before, 0), never, none).figures
    assert found["raw"]["sizing_error"]["value"] == 0.0
    assert found["specified"][0]["verdict"] == "not measured"
    assert "Found: nothing to compare: not measured" in money_text({"money": found})


# --- what is shown -------------------------------------------------------------------------------------------


@pytest.mark.rendered
def test_text_page_and_picture_show_all_paths(parts: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    _, test = parts
    money = money_of_parts(parts)
    figures = money.figures
    text = money_text({"money": figures, "stacking": {"specified": [compared("x", (0.05, 0.1), 0.2, 0.1, 0.3)]}})
    for said in (
        "raw  ",
        "calibrated  ",
        "buy and hold  ",
        "no trade  ",
        "linear stakes, 5 basis points",
        "Growth (the logarithm of what the capital grew by) and turnover a year:",
    ):
        assert said in text
    final = figures["paths"]["calibrated"]["final"]["value"]
    assert f"{final:.4f}"[:5] in text
    gap = figures["raw"]["returns"]["gap"]["value"]
    assert f"came ({gap:+.4f}" in text  # realised less promised
    assert "5 to 10% less x. Found: 20.0% [10.0, 30.0]: met" in text
    starts = ("Money", "a part of", "Growth", "raw ", "calibrated ", "buy and hold ", "no trade ")
    assert max(len(line) for line in text.splitlines() if line.startswith(starts)) <= 80
    growth = figures["paths"]["raw"]["growth"] | {"value": -1e-6}
    still = {"calibrated above 0.45": figures["paths"]["raw"] | {"growth": growth}}
    all_paths = figures | {"paths": figures["paths"] | still}
    longest = next(
        line for line in money_text({"money": all_paths}).splitlines() if line.startswith("calibrated above")
    )
    assert "+0.0000" in longest
    assert len(longest) <= 80
    lines = click.unstyle(thresholds_text(figures)).splitlines()
    assert max(len(line) for line in lines if not line.startswith("Chosen")) <= 80
    draw_money(tmp_path, money)
    assert (tmp_path / "money.png").stat().st_size > 10_000
    page = tmp_path / "report.html"
    write_page(page, test, forecasts(test, 1), title="A run", source="bars", money=money)
    written = page.read_text(encoding="utf-8")
    for said in ("What a capital of 1 became: ", "Growth a year", "buy and hold", "no trade", "Specified", "promised"):
        assert said in written
    columns = money.columns()
    assert list(columns) == ["time", *(name.replace(" ", "_") for name in money.paths)]
    assert {len(column) for column in columns.values()} == {money.paths["raw"].time.size}


@pytest.mark.parametrize("days", [3, 40, 200, 842, 4000])
def test_dates_below_the_capital_do_not_touch(days: int) -> None:
    """Of two years "2013-01" ran into "2013-04"."""
    time = np.datetime64("2010-11-10", "us") + np.linspace(0, days * 24, 50).astype("timedelta64[h]")
    path = SimpleNamespace(time=time, capital=np.linspace(1.0, 1.3, 50), final=1.3)
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_paths(axes, Money({}, {"raw": path}))  # type: ignore[dict-item]
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 3
    assert all(one.x1 + 4.0 < other.x0 for one, other in itertools.pairwise(boxes))
