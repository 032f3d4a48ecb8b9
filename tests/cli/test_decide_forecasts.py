"""calibrant decide on forecasts: the figures of the library, recalibrated where asked, and clear refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from calibrant.decisions import CalibrationRows, Problem, decision_curve, evaluate, expected_loss
from calibrant.forecasts import AverageRecalibrator, GaussianForecast, QuantileForecast

Run = Callable[..., Result]
FORECAST = "--mean mu --std sigma"
STAFF = {
    "losses": {
        "few": {"calm": 1.0, "normal": 6.0, "busy": "rush"},
        "some": {"calm": 2.0, "normal": 2.0, "busy": 9.0},
        "all": {"calm": 4.0, "normal": 4.0, "busy": 4.0},
    },
    "thresholds": [-0.5, "limit"],
}


@pytest.fixture
def rows(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    rows: dict[str, Any] = {"y": mean + rng.normal(size=300), "mu": mean, "sigma": np.full(300, 0.6)}
    rows |= {"limit": rng.uniform(0.5, 1.0, 300), "rush": rng.uniform(10.0, 20.0, 300), "day": np.arange(300) // 50}
    rows |= {"city": rng.choice(["Bonn", "Rome"], 300), "who": np.repeat(np.arange(100), 3)}
    rows["w"] = rng.integers(0, 3, 300)
    pc.write_csv(pa.table(rows), folder / "f.csv")
    (folder / "staff.json").write_text(json.dumps(STAFF))
    return rows


def forecast_of(rows: dict[str, Any]) -> GaussianForecast:
    return GaussianForecast(rows["mu"], rows["sigma"])


def document(run: Run, command: str) -> dict[str, Any]:
    result = run(f"decide {command} --json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_rows_that_a_promise_is_corrected_by_are_read_as_the_others(
    run: Run, rows: dict[str, Any], folder: Path
) -> None:
    text = (folder / "f.csv").read_text()
    (folder / "comma.csv").write_text(text.replace(",", ";").replace(".", ","))
    command = f"{FORECAST} --costs staff.json --fitted-to"
    expected = document(run, f"promise f.csv {command} f.csv")["scores"]
    assert document(run, f"promise comma.csv {command} comma.csv --delimiter ; --decimal ,")["scores"] == expected


def test_evaluate_has_the_figures_of_the_library(run: Run, rows: dict[str, Any]) -> None:
    command = f"evaluate f.csv {FORECAST} --costs staff.json --group city --cluster who --weight w"
    found = document(run, command)
    expected = evaluate(
        rows["y"],
        forecast_of(rows),
        Problem.from_dict(STAFF),
        costs={"limit": rows["limit"], "rush": rows["rush"]},
        groups=rows["city"],
        cluster=rows["who"],
        sample_weight=rows["w"],
    ).to_dict()
    assert {key: found[key] for key in expected} == json.loads(json.dumps(expected))
    assert found["actions"] == ["few", "some", "all"]
    shown = run(f"decide {command}").output
    assert expected["verdict"] in shown
    assert max(map(len, shown.splitlines()[3:])) <= 100


def test_a_number_above_one_is_an_event_with_a_threshold_and_net_benefit(run: Run, rows: dict[str, Any]) -> None:
    two = "--false-positive 1 --false-negative 4"
    found = document(run, f"evaluate f.csv {FORECAST} --above 0.3 {two} --min net_benefit@0.2=-1")
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0, thresholds=0.3)
    assert found["scores"]["realised"]["value"] == evaluate(rows["y"], forecast_of(rows), problem).realised.value
    curve = decision_curve(rows["y"] > 0.3, forecast_of(rows).sf(0.3), thresholds=[0.2, 0.5])
    drawn = document(run, f"curve f.csv {FORECAST} --above 0.3 --thresholds 0.2,0.5")
    assert drawn["curve"]["net_benefit"] == pytest.approx(curve.net_benefit.tolist())
    assert drawn["above"] == 0.3


def test_a_column_of_costs_may_be_called_as_an_option_is(run: Run, folder: Path, rows: dict[str, Any]) -> None:
    renamed = {{"rush": "group"}.get(name, name): values for name, values in rows.items()}
    pc.write_csv(pa.table(renamed), folder / "g.csv")
    (folder / "other.json").write_text(json.dumps(STAFF).replace("rush", "group"))
    one = document(run, f"evaluate f.csv {FORECAST} --costs staff.json --group city")
    other = document(run, f"evaluate g.csv {FORECAST} --costs other.json --group city")
    assert other["scores"] == one["scores"]
    assert other["by_group"] == one["by_group"]


def test_quantiles_are_decided_on(run: Run, folder: Path, rows: dict[str, Any]) -> None:
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    values = forecast_of(rows).ppf([levels])
    columns = {f"q{level}": values[:, k].copy() for k, level in enumerate(levels)}
    pq.write_table(pa.table({"y": rows["y"], **columns}), folder / "q.parquet")
    found = document(
        run, "evaluate q.parquet --quantiles q0.* --label y --above 0 --false-positive 1 --false-negative 2"
    )
    problem = Problem.two_actions(false_positive=1.0, false_negative=2.0, thresholds=0.0)
    expected = evaluate(rows["y"], QuantileForecast(levels, values), problem)
    assert found["scores"]["promised"]["value"] == pytest.approx(expected.promised.value)


def test_promise_goes_through_a_recalibrator_and_what_it_was_fitted_to(
    run: Run, folder: Path, rows: dict[str, Any]
) -> None:
    fitted = run(f"forecast fit f.csv {FORECAST} --method average -o r.json")
    assert fitted.exit_code == 0, fitted.output
    pc.write_csv(pa.table(rows).slice(0, 120).drop_columns(["y"]), folder / "new.csv")
    command = f"promise new.csv {FORECAST} --costs staff.json"
    costs = {name: rows[name] for name in ("limit", "rush")}
    new = {name: values[:120] for name, values in costs.items()}
    problem, forecast = Problem.from_dict(STAFF), forecast_of(rows)
    plain = document(run, command)
    assert plain["scores"]["expected_loss"] == expected_loss(forecast[:120], problem, costs=new).to_dict()
    assert plain["columns"] == {"mean": "mu", "std": "sigma", "cluster": None, "per": None}
    found = document(run, f"{command} --calibrator r.json --fitted-to f.csv --about rows")
    recalibrator = AverageRecalibrator().fit(forecast, rows["y"])
    expected = expected_loss(
        forecast[:120],
        problem,
        calibrator=recalibrator,
        fitted_to=CalibrationRows(forecast, rows["y"], costs=costs),
        about="rows",
        costs=new,
    )
    assert found["scores"]["expected_loss"] == json.loads(json.dumps(expected.to_dict()))
    assert "Decisions are expected to cost" in run(f"decide {command} --calibrator r.json --fitted-to f.csv").output
    held = document(run, f"evaluate f.csv {FORECAST} --costs staff.json --calibrator r.json --fitted-to f.csv")
    all_rows = expected_loss(
        forecast,
        problem,
        calibrator=recalibrator,
        fitted_to=CalibrationRows(forecast, rows["y"], costs=costs),
        about="rows",
        costs=costs,
    )
    assert held["scores"]["promised"]["value"] == pytest.approx(all_rows.value)
    evaluated = document(run, f"evaluate f.csv {FORECAST} --costs staff.json --calibrator r.json")
    after = evaluate(rows["y"], recalibrator.transform(forecast), problem, costs=costs)
    assert evaluated["scores"]["promised"]["value"] == pytest.approx(after.promised.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"evaluate f.csv {FORECAST} --false-positive 1 --false-negative 4", "Pass --above NUMBER"),
        (f"evaluate f.csv {FORECAST} --above 1 --costs staff.json", "without thresholds of their own"),
        (f"evaluate f.csv {FORECAST} --score p --costs staff.json", "--score is for probabilities"),
        (f"evaluate f.csv {FORECAST} --missing skip --costs staff.json", "--missing is for probabilities"),
        ("evaluate f.csv --above 1 --false-positive 1 --false-negative 4", "--above is for forecasts"),
        ("evaluate f.csv --mean mu --costs staff.json", "--mean and --std go together"),
        (f"evaluate f.csv {FORECAST} --quantiles q* --costs staff.json", "--mean and --quantiles of"),
        (f"evaluate f.csv {FORECAST} --costs staff.json --per day", "no action has one"),
        ("evaluate f.csv --mean mu --std city --costs staff.json", "city"),
        (f"curve f.csv {FORECAST}", "a curve is of an event. Pass --above NUMBER"),
        (f"promise f.csv {FORECAST} --costs staff.json --calibrator none.json", "none.json"),
        ("evaluate f.csv --score mu --costs staff.json", "these losses go by a number"),
        ("promise f.csv --score mu --costs staff.json", "these losses go by a number"),
    ],
)
def test_what_cannot_be_read_is_refused(run: Run, rows: dict[str, Any], command: str, words: str) -> None:
    result = run(f"decide {command}")
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
