"""Names of columns are never ignored: shuffled columns give what sorted ones give, names that don't fit are refused.

Whatever takes columns of scores: each calibrator, fitted to and applied to frames of pandas, polars and Arrow; metrics,
reports and displays; margins and priors; files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.errors import ColumnOrderError, DataWarning
from calibrant.fitted import Fitted
from edge_subjects import SUBJECTS, base_rows, numbers

CLASSES = ["buy", "hold", "sell"]
#: None of them the sorted order, and none its own inverse.
SHUFFLED = [[1, 2, 0], [2, 0, 1]]


def draw(n: int = 240, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5, 1.0, 2.0], n)
    y = np.array(CLASSES)[(p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)]
    return p**2 / (p**2).sum(axis=1, keepdims=True), y, rng.choice(["x", "y"], n)


def arrow(columns: dict[str, Any]) -> Any:
    return pa.table({name: pa.array(values) for name, values in columns.items()})


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": arrow}
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def as_frame(frame: Callable[..., Any], p: Any, order: list[int], prefix: str = "p_") -> Any:
    return frame({f"{prefix}{CLASSES[k]}": np.ascontiguousarray(p[:, k]) for k in order})


def values_of(out: Any) -> tuple[list[str], Any]:
    """Return the names and the values of the columns of any frame."""
    columns = list(out.column_names if isinstance(out, pa.Table) else out.columns)
    return columns, np.column_stack([np.asarray(out[name]) for name in columns])


def of_calibrator(name: str) -> Callable[[Any, Any, Any], Fitted]:
    return lambda p, y, _: make_calibrator(name).fit(p, y)


def of_facade(p: Any, y: Any, _: Any) -> Fitted:
    made = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="sigmoid"))
    made.fit(y, p)
    return made


FITS: dict[str, Callable[[Any, Any, Any], Fitted]] = {
    **{name: of_calibrator(name) for name in CALIBRATORS},
    "grouped": lambda p, y, city: cb.GroupedCalibrator("beta", shrinkage=50).fit(p, y, groups=city),
    "facade": of_facade,
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def predict(fitted: Fitted, scores: Any, groups: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return fitted.predict_proba(scores, groups=groups if fitted.needs_groups else None)


@every_frame
@every_fit
def test_shuffled_columns_give_the_bits_of_sorted_ones(fit: Any, frame: Any) -> None:
    p, y, city = draw()
    wanted = predict(fit(p, y, city), p, city)
    for fitted_order, new_order in zip(SHUFFLED, reversed(SHUFFLED), strict=True):
        fitted = fit(as_frame(frame, p, fitted_order), y, city)
        assert fitted.classes_.tolist() == CLASSES
        assert fitted.score_names_ == ("p_buy", "p_hold", "p_sell")
        columns, out = values_of(predict(fitted, as_frame(frame, p, new_order), city))
        assert columns == [f"p_{CLASSES[k]}" for k in new_order]
        np.testing.assert_array_equal(out, wanted[:, new_order])
        np.testing.assert_array_equal(predict(fitted, p, city), wanted)  # no names: by position


@every_fit
def test_what_was_fitted_without_names_matches_new_ones_to_its_classes(fit: Any) -> None:
    p, y, city = draw()
    fitted = fit(p, y, city)
    out = predict(fitted, as_frame(pd.DataFrame, p, SHUFFLED[0], prefix=""), city)
    np.testing.assert_array_equal(out[CLASSES], predict(fitted, p, city))
    with pytest.raises(
        ColumnOrderError, match=r"has the columns \['sell', 'buy', 'rest'\], in an order that contradict"
    ):
        predict(fitted, pd.DataFrame(p, columns=["sell", "buy", "rest"]), city)


@every_fit
def test_columns_of_other_names_than_those_of_the_fit_are_refused(fit: Any) -> None:
    p, y, city = draw()
    fitted = fit(as_frame(pd.DataFrame, p, [0, 1, 2]), y, city)
    with pytest.raises(
        ColumnOrderError, match=r"has the columns \['a', 'b', 'c'\], but this .* has \['p_buy', 'p_hold'"
    ):
        predict(fitted, pd.DataFrame(p, columns=["a", "b", "c"]), city)
    other = predict(fitted, as_frame(pd.DataFrame, p, SHUFFLED[0], prefix="new."), city)  # named after the classes
    np.testing.assert_array_equal(other[[f"new.{label}" for label in CLASSES]], predict(fitted, p, city))


@every_fit
def test_names_that_contradict_the_order_of_the_classes_are_refused_by_fit(fit: Any) -> None:
    p, y, city = draw()
    with pytest.raises(
        ColumnOrderError, match=r"in an order that contradicts that of the classes, \['buy', 'hold', 'se"
    ):
        fit(pd.DataFrame(p, columns=["p_sell", "p_hold", "p_other"]), y, city)


@every_fit
def test_names_that_name_no_class_are_those_of_the_fit(fit: Any) -> None:
    p, y, city = draw()
    frame = pd.DataFrame(p, columns=["s1", "s2", "s3"])
    fitted = fit(frame, y, city)
    out = predict(fitted, frame[["s3", "s1", "s2"]], city)
    np.testing.assert_array_equal(out[["s1", "s2", "s3"]], predict(fitted, p, city))


@every_frame
@every_fit
def test_two_columns_are_matched_too(fit: Any, frame: Any) -> None:
    p, _, city = draw()
    pair = np.column_stack((1.0 - p[:, 2], p[:, 2]))
    y = np.random.default_rng(1).random(len(p)) < p[:, 2]
    wanted = predict(fit(pair, y, city), pair, city)
    turned = frame({"up_True": pair[:, 1].copy(), "up_False": pair[:, 0].copy()})
    fitted = fit(turned, y, city)
    columns, out = values_of(predict(fitted, turned, city))
    assert columns == ["up_True", "up_False"]
    np.testing.assert_array_equal(out[:, ::-1], wanted)


# --- several labels ------------------------------------------------------------------------------------------


@every_frame
def test_labels_are_matched_to_the_scores_named_after_them(frame: Any) -> None:
    p, _, _ = draw()
    Y = (np.random.default_rng(2).random(p.shape) < p).astype(int)
    wanted = cb.MultilabelCalibrator("beta").fit(p, Y).predict_proba(p)
    for scores_order, labels_order in zip(SHUFFLED, reversed(SHUFFLED), strict=True):
        fitted = cb.MultilabelCalibrator("beta").fit(
            as_frame(frame, p, scores_order), as_frame(frame, Y, labels_order, prefix="")
        )
        assert fitted.label_names_ == tuple(CLASSES[k] for k in scores_order)
        columns, out = values_of(fitted.predict_proba(as_frame(frame, p, [2, 1, 0])))
        assert columns == ["p_sell", "p_hold", "p_buy"]
        np.testing.assert_array_equal(out, wanted[:, ::-1])


def test_labels_whose_names_contradict_the_order_of_the_scores_are_refused() -> None:
    p, _, _ = draw(60)
    Y = pd.DataFrame((p > 0.3).astype(int), columns=CLASSES)
    with pytest.raises(ColumnOrderError, match="contradicts that of the classes"):
        cb.MultilabelCalibrator().fit(pd.DataFrame(p, columns=["p_sell", "p_buy", "other"]), Y)
    fitted = cb.MultilabelCalibrator().fit(as_frame(pd.DataFrame, p, [0, 1, 2]), Y)
    with pytest.raises(ColumnOrderError, match="but this MultilabelCalibrator has"):
        fitted.predict_proba(pd.DataFrame(p, columns=["a", "b", "c"]))


def test_labels_that_are_only_counted_are_taken_by_position() -> None:
    p, _, _ = draw(60)
    fitted = cb.MultilabelCalibrator().fit(p, (p > 0.3).astype(int))
    out = fitted.predict_proba(pd.DataFrame(p, columns=["s1", "s2", "s3"]))
    np.testing.assert_array_equal(out, fitted.predict_proba(p))


# --- whatever takes labels and one column of scores per class ------------------------------------------------

TAKE_LABELS = {
    name: subject
    for name, subject in SUBJECTS.items()
    if subject.n_columns == 3 and {"score", "label"} <= set(subject.names)
}
takes_labels = pytest.mark.parametrize("name", TAKE_LABELS)


def run(name: str, scores: Any) -> list[Any]:
    """Return the numbers that a subject answers to these scores, in text labels' order."""
    subject = TAKE_LABELS[name]
    rows = {**base_rows(subject), "score": scores}
    rows["label"] = np.array(CLASSES)[rows["label"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return numbers(subject.run(**{role: rows[role] for role in subject.names}))


@takes_labels
def test_columns_named_after_the_classes_may_come_in_any_order(name: str) -> None:
    p = base_rows(TAKE_LABELS[name])["score"]
    wanted = run(name, p)
    for order, prefix, frame in zip(SHUFFLED, ("p_", ""), (pd.DataFrame, pl.DataFrame), strict=True):
        found = run(name, as_frame(frame, p, order, prefix))
        assert len(found) == len(wanted)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, wanted, strict=True))


@takes_labels
def test_columns_whose_names_contradict_the_classes_are_refused_with_both_orders(name: str) -> None:
    p = base_rows(TAKE_LABELS[name])["score"]
    with pytest.raises(ColumnOrderError, match=r"'sell', 'buy', 'other'.*'buy', 'hold', 'sell'"):
        run(name, pd.DataFrame(p, columns=["sell", "buy", "other"]))


# --- margins, priors and files -------------------------------------------------------------------------------

RATES = pd.Series([0.2, 0.5, 0.3], index=CLASSES)


def of_rank_preserving(p: Any, rates: Any) -> Any:
    made = cb.RankPreservingCalibrator(maps="straight").fit(p, margins=rates, margin_kind="rates")
    return made.transform(p)


#: What takes a matrix and numbers of its classes.
TAKE_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda p, rates: cb.rank_preserving.solve(p, rates, margin_kind="rates", gap_tol=1e-11).Q,
    "rake": lambda p, rates: cb.rank_preserving.rake(p, rates, margin_kind="rates").Q,
    "RankPreservingCalibrator": of_rank_preserving,
    "prior_shift": lambda p, rates: cb.prior.prior_shift(p, old=RATES[CLASSES], new=rates),
    "undo_sampling": lambda p, rates: cb.prior.undo_sampling(p, kept=rates),
    "undo_class_weight": lambda p, rates: cb.prior.undo_class_weight(p, class_weight=rates),
    "estimate_prior": lambda p, rates: cb.prior.estimate_prior(p, old=rates).new[:, None] * np.ones(3),
}
takes_numbers = pytest.mark.parametrize("way", TAKE_NUMBERS.values(), ids=TAKE_NUMBERS)


@takes_numbers
def test_numbers_of_classes_go_to_the_columns_of_their_names(way: Any) -> None:
    p, _, _ = draw(80)
    wanted = np.asarray(way(pd.DataFrame(p, columns=CLASSES), RATES.to_numpy()))
    for order, back in zip(SHUFFLED, reversed(SHUFFLED), strict=True):
        labels = [CLASSES[k] for k in order]
        found = way(as_frame(pd.DataFrame, p, order), RATES[labels[::-1]])
        if isinstance(found, pd.DataFrame):
            assert found.columns.tolist() == [f"p_{label}" for label in labels]
        np.testing.assert_allclose(np.asarray(found)[:, back], wanted, atol=1e-6)


@takes_numbers
def test_columns_whose_names_contradict_those_of_the_numbers_are_refused_with_both_lists(way: Any) -> None:
    p, _, _ = draw(80)
    with pytest.raises(ColumnOrderError) as refused:
        way(pd.DataFrame(p, columns=["sell", "buy", "other"]), RATES)
    assert "'sell', 'buy', 'other'" in str(refused.value)
    assert "'buy', 'hold', 'sell'" in str(refused.value)


@pytest.mark.parametrize("order", SHUFFLED)
def test_columns_of_files_are_matched_too(order: list[int], tmp_path: Path) -> None:
    p, y, _ = draw()
    names = [f"p_{label}" for label in CLASSES]
    given = [names[k] for k in order]
    table = as_frame(pd.DataFrame, p, order).assign(y=y)
    table.to_parquet(tmp_path / "rows.parquet")
    for source in (tmp_path / "rows.parquet", table):
        fitted = cb.engines.fit(cb.TemperatureCalibrator(), source, score=given)
        np.testing.assert_allclose(fitted.predict_proba(p), cb.TemperatureCalibrator().fit(p, y).predict_proba(p))
        scores = cb.engines.evaluate(source, score=given, rng=0)
        assert scores["log_loss"].value == pytest.approx(cb.metrics.log_loss(y, p))
    cb.engines.apply(fitted, tmp_path / "rows.parquet", tmp_path / "out.parquet", score=given)
    out = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(out[[f"p_calibrated_{label}" for label in CLASSES]], fitted.predict_proba(p))


# --- comparison, and names that are numbers ------------------------------------------------------------------


def test_comparison_matches_columns_to_classes() -> None:
    p, y, _ = draw()
    wanted = cb.compare(p, y, methods=["sigmoid"], cv=3)
    found = cb.compare(as_frame(pd.DataFrame, p, SHUFFLED[0]), y, methods=["sigmoid"], cv=3)
    assert str(found) == str(wanted)


def test_numbers_for_names_keep_their_type_and_place() -> None:
    p, _, _ = draw()
    y = np.random.default_rng(1).integers(0, 3, len(p))
    fitted = cb.SigmoidCalibrator().fit(pd.DataFrame(p[:, [2, 0, 1]], columns=[2, 0, 1]), y)
    out = fitted.predict_proba(pd.DataFrame(p[:, [1, 2, 0]], columns=[1, 2, 0]))
    assert out.columns.tolist() == [1, 2, 0]
    np.testing.assert_array_equal(out[[0, 1, 2]], cb.SigmoidCalibrator().fit(p, y).predict_proba(p))
