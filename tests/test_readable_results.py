"""Every public result reads well: printed within the terminal's width, in a notebook, and as a data frame.

The crawl over what the package offers fails where a new class is neither a result with an example here, nor named
under `NO_RESULTS`.
"""

from __future__ import annotations

import dataclasses
import html.parser
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant as cb
from calibrant import decisions, engines, forecasts, metrics, prior, rank_preserving, training
from calibrant.errors import CalibrantError, UnknownNameError
from calibrant.monitor import CalibrationMonitor, DriftMonitor
from calibrant.readable import Readable, as_text
from calibrant.training import RefreshResult

MODULES = (
    "",
    ".decisions",
    ".engines",
    ".forecasts",
    ".metrics",
    ".monitor",
    ".persistence",
    ".prior",
    ".rank_preserving",
    ".training",
)
#: Public dataclasses and named tuples that are no results: what is passed in, what is fitted, and parts of machinery.
NO_RESULTS = {
    "CalibrationConfig": "settings",
    "TrainConfig": "settings",
    "StakeRule": "settings",
    "Settings": "settings",
    "CurveSettings": "settings",
    "SegmentSettings": "settings",
    "Margins": "what solve is asked for",
    "EpsilonSlack": "what solve is asked for",
    "LambdaPenalty": "what solve is asked for",
    "ThresholdRule": "what a decision is made by",
    "ThresholdLoss": "what a decision costs",
    "ThresholdRound": "a round of a fit",
    "ForecastColumns": "what is read",
    "CalibrationRows": "rows that a promise is corrected by",
    "UnitError": "an error and its degrees of freedom",
    "ConformalRecalibrator": "a recalibrator",
    "AverageRecalibrator": "a recalibrator",
    "DistributionRecalibrator": "a recalibrator",
    "VarianceScalingRecalibrator": "a recalibrator",
    "ThresholdRecalibrator": "a recalibrator",
    "RankPreservingCalibrator": "a calibrator",
    "CalibrationDisplay": "a display",
    "Bars": "checked rows",
    "OutOfFold": "probabilities of rows, and the calibrator of the run",
    "MetaLearner": "a model of models",
    "Run": "a folder",
    "Bundle": "models and calibrators",
    "Member": "a model and its calibrator",
    "Decided": "checked rows",
    "Outcomes": "checked rows",
    "RowFigures": "an array per row",
    "Estimate": "what a Score is made of",
    "Verdict": "a sentence",
    "DesignEffects": "what intervals are widened by",
    "StreamedClassRows": "machinery",
    "FittedColumns": "machinery",
    "FoldState": "machinery",
    "SourceStream": "machinery",
    "CheckedBatch": "machinery",
    "HeldBatches": "machinery",
    "WindowRows": "machinery",
    "UnlabelledWindow": "a part of a report",
    "CalibrationMartingale": "machinery",
}
RNG = np.random.default_rng(20)
TRUTH = RNG.random(600)
Y = RNG.random(600) < TRUTH
P = TRUTH**2
MOVES = np.where(Y, 0.02, -0.02)
MATRIX = RNG.dirichlet([1.0, 2.0, 3.0], 60)
LABELS = np.array([RNG.choice(3, p=row) for row in MATRIX])
MEANS = RNG.normal(size=400)
NORMAL = forecasts.GaussianForecast(MEANS, np.ones(400))
NUMBERS = MEANS + RNG.normal(size=400) * 1.5
PROBLEM = decisions.Problem.two_actions(false_positive=1.0, false_negative=4.0)
HOSTILE = ["<b>bold</b>", "\x1b[31mred", "ünïcode | pipe"]


@cache
def _solved() -> Any:
    return rank_preserving.solve(MATRIX, [18.0, 18.0, 24.0])


@cache
def _monitor() -> CalibrationMonitor:
    watched = CalibrationMonitor()
    for day in range(3):
        watched.update(Y, P, name=f"day {day}", sample_weight=np.full(600, day + 1.0))
    return watched


def _drift() -> DriftMonitor:
    watched = DriftMonitor({"p": P, "city": np.where(Y, "a", "b")})
    for day in range(3):
        watched.update({"p": P[day * 200 :], "city": np.where(Y, "a", "b")[day * 200 :]}, name=f"day {day}")
    return watched


def _segments() -> cb.SegmentCalibrator:
    return cb.SegmentCalibrator("temperature").fit(P, Y, features={"where": np.array(HOSTILE)[np.arange(600) % 3]})


def _refresh() -> RefreshResult:
    gap = {"value": -0.033, "standard_error": 0.0174, "low": -0.0672, "high": 0.0012}
    differences = {"in_use": gap, "none": gap}
    said = {"reason": "later rows show no loss.", "decision": "calibrator used (temperature 3.2)"}
    return RefreshResult(
        "refreshed", "xgboost_h20", "xgboost_h20_refreshed", n_rows=599, differences=differences, **said
    )


def _grouped_totals() -> Any:
    groups = {"region": np.arange(60) % 2, "age": np.arange(60) // 30}
    totals = {name: {0: [9.0, 9.0, 12.0], 1: [9.0, 9.0, 12.0]} for name in groups}
    return rank_preserving.solve(MATRIX, totals, groups=groups)


def _prediction() -> Any:
    from calibrant.training import Prediction

    times = (np.datetime64("2026-01-01") + np.arange(12)).astype("datetime64[us]")
    return Prediction("run", np.array(HOSTILE), MATRIX[:12], MATRIX[:12], times, np.array(HOSTILE * 4, dtype=object), 2)


#: A result of each class, by its name.
EXAMPLES: dict[str, Callable[[], Any]] = {
    "Score": lambda: cb.evaluate(Y, P)["brier"],
    "Scores": lambda: cb.evaluate(Y, P),
    "Provenance": lambda: cb.persistence.Provenance.of(P, Y, source="scores.parquet"),
    "DriftMonitor": _drift,
    "DriftWindow": lambda: _drift().windows[-1],
    "JointTest": lambda: cb.evaluate(Y, P).test,
    "Curve": lambda: cb.reliability_curve(Y, P),
    "CalibrationMetrics": lambda: cb.ProbabilityCalibrator().fit(Y, P),
    "Comparison": lambda: cb.compare(P, Y, methods=["sigmoid", "temperature", "isotonic"]),
    "Compared": lambda: cb.compare(P, Y, methods=["sigmoid"]).methods[0],
    "Difference": lambda: cb.compare(P, Y, methods=["sigmoid"]).methods[0].log_loss_difference,
    "ModelComparison": lambda: cb.compare_models(Y, dict(zip(HOSTILE, (P, TRUTH, TRUTH**1.5), strict=True))),
    "RefreshResult": _refresh,
    "ScoreSummary": lambda: cb.ScoreSummary.from_arrays(P, Y),
    "QuantisedSummary": lambda: engines.summarise(pa.table({"p": P, "y": Y}), score="p", label="y", max_distinct=50),
    "ErrorBounds": lambda: EXAMPLES["QuantisedSummary"]().bounds,
    "Audit": lambda: metrics.audit(Y, P, features={"where": np.array(HOSTILE)[np.arange(600) % 3]}),
    "Finding": lambda: EXAMPLES["Audit"]().findings[0],
    "SegmentReport": lambda: _segments().report_,
    "MulticalibrationError": lambda: metrics.multicalibration_error(
        Y, P, features={"where": np.array(HOSTILE)[np.arange(600) % 3]}
    ),
    "Bins": lambda: metrics.make_bins(cb.ScoreSummary.from_arrays(P, Y), 10, "quantile"),
    "CalibrationIndex": lambda: metrics.calibration_index(Y, P),
    "CumulativeTest": lambda: metrics.kolmogorov_smirnov(Y, P),
    "SpiegelhalterTest": lambda: metrics.spiegelhalter_z(Y, P),
    "HosmerLemeshowTest": lambda: metrics.hosmer_lemeshow(Y, P),
    "Decomposition": lambda: metrics.decompose(Y, P),
    "EValueTest": lambda: metrics.calibration_e_value(Y, P),
    "SlopeIntercept": lambda: metrics.calibration_slope_intercept(Y, P),
    "GroupScores": lambda: metrics.evaluate_groups(Y, P, groups=np.array(HOSTILE)[np.arange(600) % 3]),
    "ClassScores": lambda: metrics.evaluate_classes(LABELS, MATRIX),
    "ThresholdErrors": lambda: forecasts.threshold_calibration_errors(NORMAL, NUMBERS),
    "ReliabilityGaps": lambda: forecasts.reliability_gaps(NORMAL, NUMBERS),
    "DecisionLoss": lambda: forecasts.DecisionLoss(1.25, 1.5),
    "NoiseFloor": lambda: forecasts.NoiseFloor(0.02, 0.01, 0.03, 0.95, 200),
    "RoundsResult": lambda: forecasts.ThresholdRecalibrator("paper", max_rounds=2).fit(NORMAL, NUMBERS).result_,
    "CoverageByLevel": lambda: forecasts.coverage_by_level(NORMAL, NUMBERS),
    "HorizonScores": lambda: forecasts.evaluate_horizons(NORMAL, NUMBERS, np.arange(400) % 2),
    "DecisionExperiment": lambda: forecasts.decision_experiment(NORMAL, NUMBERS, recalibrators=["average"]),
    "DecisionScores": lambda: decisions.evaluate(Y, P, PROBLEM),
    "DecisionCurve": lambda: decisions.decision_curve(Y, P),
    "CostCurve": lambda: decisions.cost_curve(Y, P),
    "RiskCoverageCurve": lambda: decisions.risk_coverage_curve(Y, P),
    "TunedThreshold": lambda: decisions.tune_threshold(Y, P, PROBLEM),
    "PitHistogram": lambda: forecasts.pit_histogram(NORMAL, NUMBERS),
    "LevelCurve": lambda: forecasts.level_curve(NORMAL, NUMBERS),
    "UniformityTest": lambda: forecasts.pit_test(NORMAL, NUMBERS),
    "Window": lambda: _monitor().windows[0],
    "CalibrationMonitor": _monitor,
    "Shares": lambda: prior.class_rates(["no"] * 90 + ["yes"] * 10),
    "ClassRates": lambda: prior.class_rates(LABELS),
    "PriorEstimate": lambda: prior.estimate_prior(MATRIX, old=[1 / 6, 2 / 6, 3 / 6]),
    "LikelihoodEstimate": lambda: prior.estimate_prior(MATRIX, old=[1 / 6, 2 / 6, 3 / 6]),
    "BlackBoxEstimate": lambda: prior.estimate_prior_bbse(LABELS, MATRIX, new_predictions=MATRIX[:40]),
    "EstimatedMargins": lambda: rank_preserving.margins_from_labels(LABELS),
    "RankPreservingResult": _solved,
    "Prediction": _prediction,
    "Progress": lambda: _solved().history[-1],
    "RakedResult": lambda: rank_preserving.rake(MATRIX, [18.0, 18.0, 24.0]),
    "GroupTotals": lambda: next(iter(_grouped_totals().sets.values())),
    "Diagnostics": lambda: rank_preserving.diagnose(MATRIX, _solved(), y=LABELS),
    "ColumnChange": lambda: rank_preserving.diagnose(MATRIX, _solved()).columns[0],
    "RowChange": lambda: rank_preserving.diagnose(MATRIX, _solved()).worst[0],
    "MatrixComparison": lambda: rank_preserving.compare(MATRIX, [18.0, 18.0, 24.0], y=LABELS),
    "ComparedMatrix": lambda: EXAMPLES["MatrixComparison"]().rows[1],
    "AutoReport": lambda: cb.AutoCalibrator().fit(P, Y).report_,
    "Candidate": lambda: EXAMPLES["AutoReport"]().blend,
    "Applied": lambda: engines.Applied(600, n_missing=2),
    "SizingError": lambda: training.sizing_error(Y, P),
    "SizingReduction": lambda: training.sizing_reduction(Y, P, TRUTH),
    "ThresholdResult": lambda: training.threshold_table(Y, P, label_return=MOVES)[3],
    "ThresholdChoice": lambda: training.choose_threshold(Y, P, label_return=MOVES),
    "Equity": lambda: training.trade(np.full(40, 0.1), np.linspace(-0.1, 0.1, 40), cost_bp=5),
}


@cache
def _example(name: str) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return EXAMPLES[name]()


def public_classes() -> Iterator[type]:
    """Yield every public dataclass, named tuple and result of the package."""
    for suffix in MODULES:
        module = import_module(f"calibrant{suffix}")
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if not inspect.isclass(value) or not value.__module__.startswith("calibrant") or name.startswith("_"):
                continue
            if dataclasses.is_dataclass(value) or hasattr(value, "_fields") or issubclass(value, Readable):
                yield value


def test_every_public_class_of_values_is_a_result_with_an_example_or_named_as_none() -> None:
    unknown = {value.__name__ for value in public_classes()} - set(EXAMPLES) - set(NO_RESULTS)
    assert set(NO_RESULTS) <= {value.__name__ for value in public_classes()}
    assert unknown == set(), "make it Readable and give it an example, or name it under NO_RESULTS"


def test_every_result_is_readable() -> None:
    names = {value.__name__ for value in public_classes() if value.__name__ in EXAMPLES and issubclass(value, Readable)}
    assert {value.__name__ for value in public_classes()} & set(EXAMPLES) == names


def test_every_dataclass_that_reads_well_prints_its_table_and_not_its_fields() -> None:
    kinds = [each for each in _subclasses(Readable) if each.__module__.startswith("calibrant")]
    assert [kind.__name__ for kind in kinds if kind.__repr__ is not Readable.__repr__] == []


def _subclasses(cls: type) -> list[type]:
    found = cls.__subclasses__()
    return found + [inner for each in found for inner in _subclasses(each)]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("width", [40, 80, 132])
def test_every_result_prints_within_the_width_of_the_terminal(name: str, width: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = repr(_example(name))
    assert text == str(_example(name))
    assert text.strip()
    assert [line for line in text.splitlines() if len(line) > width] == []
    assert len(text.splitlines()) < 120
    assert not any(character < " " and character != "\n" for character in text)
    assert f"{name}(" not in text


class _Balance(html.parser.HTMLParser):
    """Checks that tags are closed in the order they were opened in, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.said = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in {"input", "img", "br"}:
            self.open.append(tag)
        self.seen.add(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_result_is_a_table_in_a_notebook(name: str) -> None:
    shown = _Balance()
    shown.feed(_example(name)._repr_html_())
    assert shown.open == []
    assert {"table", "tr", "td"} <= shown.seen
    assert shown.seen.isdisjoint({"script", "b"}), "what names hold is text"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_result_becomes_a_frame_of_each_library_with_the_same_values(name: str) -> None:
    found = _example(name)
    by_pandas, by_polars, by_arrow = (found.to_frame(backend) for backend in ("pandas", "polars", "pyarrow"))
    assert [type(by_pandas), type(by_polars), type(by_arrow)] == [pd.DataFrame, pl.DataFrame, pa.Table]
    assert isinstance(found.to_frame(), pd.DataFrame), "pandas comes first"
    assert by_arrow.num_rows == len(by_pandas) == by_polars.height > 0
    assert list(by_pandas.columns) == by_polars.columns == by_arrow.column_names
    assert len(set(by_arrow.column_names)) == by_arrow.num_columns
    for column in by_arrow.column_names:
        assert repr(by_arrow[column].to_pylist()) == repr(by_polars[column].to_list())


def test_frames_hold_the_values_of_the_result() -> None:
    scores = _example("Scores")
    frame = scores.to_frame().set_index("name")
    for name, score in scores.items():
        assert frame.loc[name, "value"] == score.value
        assert frame.loc[name, "n"] == score.n
    ranked = _example("Comparison")
    frame = ranked.to_frame("polars")
    assert frame["method"].to_list() == [method.name for method in ranked.methods]
    assert frame["brier_difference_low"].to_list() == [method.brier_difference.low for method in ranked.methods]
    curve = _example("Curve")
    np.testing.assert_array_equal(curve.to_frame()[["edges_low", "edges_high"]], curve.edges)
    assert len(_example("ScoreSummary").to_frame()) == 600


def test_a_backend_that_is_unknown_or_not_installed_is_named(monkeypatch: Any) -> None:
    with pytest.raises(UnknownNameError, match="'pandas'"):
        _example("Score").to_frame("panda")
    with pytest.raises(CalibrantError, match=r"backend=3 is no name"):
        _example("Score").to_frame(3)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in {"pandas", "polars"} else object())
    assert isinstance(_example("Score").to_frame(), pa.Table)
    with pytest.raises(CalibrantError, match=r"backend='polars' is not installed. Run pip install polars"):
        _example("Score").to_frame("polars")


def test_long_tables_say_how_many_rows_they_leave_out() -> None:
    text = str(_example("ScoreSummary"))
    assert "600 rows; to_frame() has them all" in text
    assert sum("..." in line for line in text.splitlines()) == 1


def test_sentences_are_broken_between_words() -> None:
    lines = as_text({}, ["the rate of the event " * 20], width=50).splitlines()
    assert all(len(line) <= 50 for line in lines)
    assert " ".join(lines) == ("the rate of the event " * 20).strip()


def test_columns_that_do_not_fit_follow_beside_the_first_one() -> None:
    columns = {"method": ["a", "b"]} | {f"a figure of number {k}": [0.5, 1.5] for k in range(6)}
    lines = as_text(columns, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    blocks = [block.splitlines() for block in "\n".join(lines).split("\n\n")]
    assert len(blocks) > 1
    assert all([line.split()[0] for line in block] == ["method", "a", "b"] for block in blocks)
    assert sum(block[0].count("a figure of number") for block in blocks) == 6


CALIBRATED = {
    "one score": lambda: cb.IsotonicCalibrator(bounded=True).fit(P, Y),
    "decision values": lambda: cb.SigmoidCalibrator(input="score").fit(4.0 * P - 2.0, Y),
    "logits": lambda: cb.TemperatureCalibrator(input="logit").fit(np.log(P / (1.0 - P)), Y),
    "several classes": lambda: cb.DirichletCalibrator().fit(MATRIX, LABELS),
    "groups": lambda: cb.GroupedCalibrator(cb.SigmoidCalibrator()).fit(P, Y, groups=np.arange(600) % 2),
    "order kept": lambda: cb.RankPreservingCalibrator().fit(MATRIX, LABELS),
}


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrators_show_their_settings_what_they_are_and_the_curve_of_one_score(name: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        fitted = CALIBRATED[name]()
    shown = _Balance()
    shown.feed(fitted._repr_html_())
    assert type(fitted).__name__ in shown.said
    assert "sk-estimator" in fitted._repr_html_(), "scikit-learn's own display"
    assert "fitted to" in shown.said
    assert ("Calibrated probability of" in fitted._repr_html_()) == (name in {"one score", "decision values", "logits"})


def test_an_unfitted_calibrator_shows_its_settings_alone(monkeypatch: Any) -> None:
    assert "calibrant-result" not in cb.BetaCalibrator()._repr_html_()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sklearn" else object())
    assert cb.BetaCalibrator(form="ab")._repr_html_() == "<pre>BetaCalibrator(form=&#x27;ab&#x27;)</pre>"


def test_the_curve_of_a_calibrator_is_what_it_predicts() -> None:
    fitted = CALIBRATED["one score"]()
    (line,) = re.findall(r'<polyline points="([^"]+)" fill="none" stroke="#2f6fb7"', fitted._repr_html_())
    places = np.array([point.split(",") for point in line.split()], dtype=float)
    height = (places[:, 1].max() - places[:, 1]) / 190.0
    drawn = fitted.predict_proba(np.linspace(0.0, 1.0, 201))
    np.testing.assert_allclose(height, drawn - drawn.min(), atol=2e-3)


@pytest.mark.parametrize(
    "text", ["2026-01-01", "2026-01-01 01:00", "2026-01-01 00:00:01", "2026-01-01 00:00:00.000001"]
)
def test_times_are_written_as_finely_as_they_need(text: str) -> None:
    times = np.array(["2025-12-31", text], dtype="datetime64[us]")
    made = dataclasses.replace(_prediction(), time=times, prob=MATRIX[:2], raw=None, symbol=None)
    assert f"\n{text}  " in str(made)
    assert made.to_frame("pandas")["time"].tolist() == [pd.Timestamp(time) for time in times]
    assert made.to_frame("pyarrow").schema.field("time").type == pa.timestamp("us")
