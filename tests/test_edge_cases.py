"""Every public function on every odd input: the plain answer, or a refusal that names argument and place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.errors import CalibrantError, CalibrantWarning
from edge_inputs import ARGUMENT_CASES, Case, Refused, Same, is_place
from edge_subjects import SUBJECTS, Subject, base_rows, numbers
from public_names import names_of

#: Displays that take a mapping of models.
TAKE_MODELS = ("ReliabilityDisplay", "DecompositionDisplay")
#: What takes probabilities of shape (n, 1), as scikit-learn's functions of the same names do.
TAKE_ONE_COLUMN = ("CalibrationDisplay", "calibration_curve")
#: Arguments that take one score per row of shape (n, 1) too, and names of what refuses it.
ONE_SCORE = ("scores", "y_prob", "probabilities", "predictions")
REFUSE_ONE = (
    *("estimate_prior", "kelly_stakes", "linear_stakes", "sizing_error", "threshold_table", "choose_threshold"),
    "MultilabelCalibrator",
)
#: What takes long gets fewer of the inputs that only look different; all that it must refuse, it refuses first.
SLOW = (
    "CalibrationDisplay",
    "DecompositionDisplay",
    "MulticlassReliabilityDisplay",
    "ReliabilityDisplay",
    "Report",
    "auto.fit",
    "compare",
    "evaluate",
    "forecasts.evaluate",
    "solve",
)
FEW = {"list", "float32", "big-endian", "objects", "read-only", "pandas", "strings"}
#: Public names that take no rows, and where what they take is tested.
ELSEWHERE = {
    "Scores": "what evaluate returns: tests/test_readable_results.py",
    "SegmentMeanCalibrator": "features and numbers: tests/segments/test_segment_means.py",
    "SegmentCalibrator": "tests/segments/test_segment_calibrator.py takes features besides scores",
    "compare_models": "probabilities by name: tests/metrics/test_model_comparison.py",
    "ModelComparisonReport": "probabilities by name: tests/report/test_model_report.py",
    "scorer": "a name: tests/metrics/test_scorers.py",
    "OnlinePlattCalibrator": "labels one by one: tests/test_online.py",
    "not_fitted": "a message: tests/test_errors.py",
    "DriftMonitor": "rows of windows, without labels: tests/monitor/test_drift.py",
    "UnlabelledReport": "what a monitor found: tests/monitor",
    "expected_scores": "probabilities without labels: tests/metrics/test_without_labels.py",
    "CalibratedClassifierCV": "features, which the classifier checks: tests/classifier",
    "ComparisonDisplay": "rows of a table: tests/displays/test_comparison_display.py",
    "CostPolicy": "a matrix of costs: tests/forecasts/test_policy.py",
    "ClimatologyForecast": "as climatology: tests/forecasts/test_proper_scores.py",
    "DecisionExperimentDisplay": "an experiment: tests/forecasts/test_experiment.py",
    "decision_experiment": "forecasts and their split: tests/forecasts/test_experiment.py",
    "evaluate_horizons": "horizons: tests/forecasts/test_proper_scores.py",
    "evaluate_ordered": "probabilities in the order of classes: tests/forecasts/test_proper_scores.py",
    "ranked_probability_score": "probabilities in the order of classes: tests/forecasts/test_proper_scores.py",
    "Forecast": "abstract: tests/forecasts/test_forecast_base.py",
    "ForecastReliabilityDisplay": "forecasts: tests/displays/test_forecast_displays.py",
    "ForecastReport": "forecasts: tests/report/test_forecast_report.py",
    "AverageRecalibrator": "forecasts: tests/forecasts/recalibrators",
    "ConformalRecalibrator": "forecasts: tests/forecasts/recalibrators",
    "DistributionRecalibrator": "forecasts: tests/forecasts/recalibrators",
    "Recalibrator": "forecasts: tests/forecasts/recalibrators",
    "RecalibratedForecast": "forecasts: tests/forecasts/recalibrators",
    "ThresholdRecalibrator": "forecasts: tests/forecasts/recalibrators",
    "VarianceScalingRecalibrator": "forecasts: tests/forecasts/recalibrators",
    "GridForecast": "points and levels: tests/forecasts/test_points.py",
    "PitDisplay": "forecasts: tests/displays/test_forecast_displays.py",
    "QuantileForecast": "levels and values: tests/forecasts/test_points.py",
    "ReliabilityGapDisplay": "forecasts: tests/displays/test_forecast_displays.py",
    "ScipyForecast": "a frozen distribution: tests/forecasts/test_points.py",
    "ThresholdPolicy": "a loss: tests/forecasts/test_policy.py",
    "MultilabelCalibrator": "a matrix of labels: tests/test_multilabel.py",
    "MimicDisplay": "a fitted calibrator: tests/displays/test_mimic_display.py",
    "CalibrationMartingale": "probabilities one by one: tests/monitor/test_martingale.py",
    "Chain": "fitted objects: tests/test_fitted.py",
    "DecisionScores": "what decisions.evaluate returns: tests/decisions/test_decision_evaluation.py",
    "DecisionCurveDisplay": "curves: tests/displays/test_decision_displays.py",
    "Policy": "a problem: tests/decisions/test_decision_policy.py",
    "Problem": "losses: tests/decisions/test_problem.py",
    "PromiseDisplay": "what decisions.evaluate returns: tests/displays/test_decision_displays.py",
    "RiskCoverageDisplay": "curves: tests/displays/test_decision_displays.py",
    "SegmentDisplay": "an audit: tests/displays/test_segment_display.py",
    "FoldState": "a summary in progress: tests/engines/test_row_sources.py",
    "fingerprint": "a fitted calibrator: tests/persistence/test_documents.py",
    "warn": "a message: tests/test_errors.py",
    "hold_warnings": "a category of warnings: tests/test_errors.py",
    "CombinatorialPurgedKFold": "times: tests/dependence/test_purged.py",
    "PriorShift": "a map of prior_shift and undo_sampling: tests/prior/test_prior_shift.py",
    "PurgedKFold": "times: tests/dependence/test_purged.py",
    "PurgedTimeSeriesSplit": "times: tests/dependence/test_purged.py",
    "class_rates": "labels without scores: tests/prior/test_prior_rates.py",
    "class_rates_of_groups": "labels without scores: tests/prior/test_prior_rates.py",
    "ConvergenceDisplay": "what solve returned: tests/displays/test_rank_preserving_display.py",
    "MapKind": "a type",
    "MarginKind": "a type",
    "Method": "a type",
    "Mismatch": "a type",
    "Nearly": "a type",
    "Pairs": "a type",
    "Ties": "a type",
    "RankPreservingCalibrator": "margins: tests/rank_preserving/test_rank_calibrator.py",
    "RankPreservingDisplay": "what diagnose returned: tests/displays/test_rank_preserving_display.py",
    "QuantisedSummary": "a table of cells: tests/engines/test_bounded_summaries.py",
    "RowSource": "abstract: tests/tables",
    "CalibrationMonitor": "windows, through the gate of the metrics: tests/monitor/test_martingale.py",
    "MonitorReport": "a monitor: tests/monitor/test_martingale.py",
    "apply": "files and other sources: tests/engines/test_source_apply.py",
    "fit": "files and other sources: tests/engines/test_source_fits.py",
    "open_rows": "files and other sources: tests/tables",
    "summarise": "files and other sources: tests/engines/test_row_sources.py",
    "did_you_mean": "names: tests/validation",
    "from_document": "documents: tests/attacks",
    "from_ngboost": "a model: tests/forecasts/test_adapters.py",
    "from_quantile_forest": "a model: tests/forecasts/test_adapters.py",
    "from_quantile_regressors": "models: tests/forecasts/test_adapters.py",
    "margins_from_estimate": "an estimate: tests/rank_preserving/test_rank_margins.py",
    "margins_from_labels": "labels without scores: tests/rank_preserving/test_rank_margins.py",
    "load": "files: tests/attacks",
    "noise_floor": "a forecast and a metric: tests/forecasts/test_calibration.py",
    "read_columns": "files: tests/tables",
    "read_document": "files: tests/attacks",
    "save": "a calibrator and a path: tests/persistence",
    "to_onnx": "a fitted calibrator: tests/persistence/test_onnx_graph.py",
    "to_sql": "a fitted calibrator: tests/persistence/test_sql.py",
    "threshold_curves": "forecasts and a rule: tests/displays/test_forecast_displays.py",
    "to_document": "a fitted calibrator: tests/persistence",
    "unknown_name": "names: tests/validation",
}


def answers(subject: Subject, rows: dict[str, Any]) -> list[np.ndarray]:
    """Return the numbers that a subject answers; those of which a warning says that they are undefined are left out."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.simplefilter("always", CalibrantWarning)
        got = numbers(subject.run(**{name: rows[name] for name in subject.names}))
    return [a[~np.isnan(a)] if said else a for a in got]


def fault(subject: Subject, role: str, case: Case, rows: dict[str, Any], plain: dict[Any, list[np.ndarray]]) -> str:
    """Run one cell of the table and say what is wrong with it, or nothing; `plain` keeps the plain answers."""
    value = case.make(rows[role])
    try:
        got = answers(subject, rows | {role: value})
    except CalibrantError as error:
        if isinstance(case, Same):
            return f"refused: {error}"
        named = [subject.names[role]] if isinstance(case, Refused) else list(subject.names.values())
        if not any(is_place(rf"\b{name}\b", str(error)) for name in named):
            return f"names none of {named}: {error}"
        place = case.place if isinstance(case, Refused) else ""
        return "" if is_place(place, str(error)) else f"doesn't name the place {place!r}: {error}"
    except Exception as error:  # whatever it is, the table shows it
        return f"{type(error).__name__}: {error}"
    if isinstance(case, Refused):
        return f"not refused: {got!r:.200}"
    all_numbers = np.concatenate([a.ravel() for a in got] or [np.empty(0)])
    low, high = subject.range
    if np.isnan(all_numbers).any():
        return f"a silent NaN: {got!r:.200}"
    if np.isinf(all_numbers).any() and not subject.may_be_infinite:
        return f"infinite: {got!r:.200}"
    if (all_numbers < low).any() or (all_numbers > high).any():
        return f"outside [{low}, {high}]: {got!r:.200}"
    if isinstance(case, Same):
        if case.plain not in plain:
            plain[case.plain] = answers(subject, rows | {role: case.plain(rows[role])})
        expected = plain[case.plain]
        if len(got) != len(expected) or not all(map(np.array_equal, got, expected)):
            return f"not the plain answer: {got!r:.200} for {expected!r:.200}"
    return ""


def cells(name: str) -> Iterator[tuple[str, str, Case]]:
    """Return argument, name and input of each cell of a subject."""
    subject = SUBJECTS[name]
    ndim = {role: np.ndim(value) for role, value in base_rows(subject).items()}
    for role in subject.names:
        kind = subject.kind if role == "score" else role
        for case_name, case in ARGUMENT_CASES[kind].items():
            if case_name == "one row short" and len(subject.names) == 1:
                continue  # scores that are alone have any length
            if case_name == "one column" and name in TAKE_ONE_COLUMN:
                continue
            takes_one = subject.names[role] in ONE_SCORE and ndim[role] == 1 and not name.startswith(REFUSE_ONE)
            if case_name == "one column" and takes_one:
                yield role, case_name, Same(lambda a: a[:, None])
                continue
            if case_name == "dict" and role == "score" and name.startswith(TAKE_MODELS):
                continue  # the probabilities of several models
            if name.startswith(SLOW) and isinstance(case, Same) and case_name not in FEW:
                continue
            yield role, case_name, case


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("name", SUBJECTS)
def test_odd_input_gives_the_plain_answer_or_is_refused_by_argument_and_place(name: str) -> None:
    subject = SUBJECTS[name]
    rows = base_rows(subject)
    plain: dict[str, dict[Any, list[np.ndarray]]] = {role: {} for role in subject.names}
    faults = {
        f"{role}, {case_name}": fault(subject, role, case, rows, plain[role]) for role, case_name, case in cells(name)
    }
    assert {cell: text for cell, text in faults.items() if text} == {}


def public_names() -> set[str]:
    """Return every public name: of the package, of its modules, and the calibrators by name."""
    modules = [cb, *(value for name in cb.__all__ if isinstance(value := getattr(cb, name), ModuleType))]
    found = {name: getattr(module, name) for module in modules for name in names_of(module)}
    return {name for name, value in found.items() if not is_result(value)} | set(CALIBRATORS)


def is_result(value: object) -> bool:
    """Say whether this is a value that functions return or raise, or a module."""
    if isinstance(value, (ModuleType, str)):
        return True
    is_frozen = is_dataclass(value) and value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return isinstance(value, type) and (is_frozen or issubclass(value, (tuple, Exception)))


def test_every_public_name_is_in_the_table_or_tested_elsewhere() -> None:
    owners = {part for name in SUBJECTS for part in name.split(", ")[0].split(".")}
    calibrators = {type(make()).__name__ for make in CALIBRATORS.values()}
    known = owners | calibrators | set(ELSEWHERE)
    assert sorted(public_names() - known) == []


def test_what_is_tested_elsewhere_is_there() -> None:
    assert sorted(set(ELSEWHERE) - public_names()) == []
    places = {place for text in ELSEWHERE.values() for place in text.split() if place.startswith("tests/")}
    assert [place for place in sorted(places) if not (Path(__file__).parents[1] / place).exists()] == []
    assert sorted(set(ELSEWHERE) - public_names()) == [], "names that are gone"


def test_table_is_large() -> None:
    kinds = {f"{kind}, {case}" for kind, cases in ARGUMENT_CASES.items() for case in cases}
    n_cells = sum(1 for name in SUBJECTS for _ in cells(name))
    print(f"{n_cells:,} cells: {len(SUBJECTS)} functions, {len(kinds)} inputs of an argument")
    assert n_cells > 20_000


def test_table_notices_a_function_without_a_gate() -> None:
    """The table bites: NumPy's mean fails where it is given what only a gate would refuse."""

    def careless(score: Any) -> float:
        return float(np.mean(np.asarray(score, dtype=float)))

    subject = Subject(careless, {"score": "scores"})
    rows = base_rows(subject)
    faults = {name: fault(subject, "score", case, rows, {}) for name, case in ARGUMENT_CASES[subject.kind].items()}
    assert faults["list"] == ""
    assert faults["NaN"].startswith("not refused")
    assert faults["ragged"].startswith("ValueError")
    assert faults["list in a row"].startswith("ValueError")
    assert sum(map(bool, faults.values())) > 20
