"""calibrant forecast fit, apply and report: what the library computes, beside the columns as they were."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.forecasts import RECALIBRATORS, Forecast, GaussianForecast, QuantileForecast, SampleForecast

pytestmark = pytest.mark.usefixtures("few_draws")

Run = Callable[..., Result]
LEVELS = (0.01, 0.1, 0.5, 0.9)
SHOWN = [k / 20 for k in range(1, 20)]
KINDS = {"mean": "--mean mu --std sigma", "quantiles": "--quantiles q*", "samples": "--samples draw_*"}


def made(kind: str, table: dict[str, Any]) -> Forecast:
    if kind == "mean":
        return GaussianForecast(table["mu"], table["sigma"])
    if kind == "quantiles":
        return QuantileForecast(LEVELS, np.column_stack([table[f"q{level}"] for level in LEVELS]))
    return SampleForecast(np.column_stack([table[f"draw_{k}"] for k in range(9)]))


@pytest.fixture
def table(folder: Path) -> dict[str, Any]:
    """Forecasts that are too narrow, of three kinds, as f.csv and f.parquet."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=120), rng.gamma(9.0, 0.05, 120)
    columns: dict[str, Any] = {"y": mean + 2.5 * std * rng.normal(size=120), "mu": mean, "sigma": std}
    columns |= {"w": rng.integers(0, 3, 120), "note": [f"n{k}" for k in range(120)]}
    quantiles = GaussianForecast(mean, std).ppf([LEVELS])
    columns |= {f"q{level}": quantiles[:, k] for k, level in enumerate(LEVELS)}
    columns |= {f"draw_{k}": mean + std * rng.normal(size=120) for k in range(9)}
    found = pa.table(columns)
    pc.write_csv(found, folder / "f.csv")
    pq.write_table(found, folder / "f.parquet")
    return columns


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_new_columns_are_the_quantiles_of_the_recalibrated_forecast(
    run: Run, table: dict[str, Any], kind: str, suffix: str
) -> None:
    fitted = run(f"forecast fit f.{suffix} {KINDS[kind]} --method average --weight w -o r.json")
    assert fitted.exit_code == 0, fitted.output
    applied = run(f"forecast apply r.json f.{suffix} -o out.{suffix}")
    assert applied.exit_code == 0, applied.output
    forecast = made(kind, table)
    own = cb.forecasts.AverageRecalibrator().fit(forecast, table["y"], sample_weight=table["w"])
    levels = sorted({*SHOWN, *(LEVELS if kind == "quantiles" else ())})
    names = [f"recalibrated_q{level:g}" for level in levels]
    found = pc.read_csv("out.csv") if suffix == "csv" else pq.read_table("out.parquet")
    assert found.column_names == [*table, *names]
    got = np.column_stack([found.column(name).to_numpy() for name in names])
    assert np.array_equal(got, own.transform(forecast).ppf([levels]))
    assert found.column("note").to_pylist() == table["note"]
    assert applied.output.startswith(f"Wrote out.{suffix}: 120 rows with recalibrated_q0.0")


@pytest.mark.slow
@pytest.mark.parametrize("method", RECALIBRATORS)
def test_each_method_fits_saves_and_says_what_it_does_to_held_out_rows(
    run: Run, table: dict[str, Any], method: str
) -> None:
    result = run(f"forecast fit f.parquet --label y --mean mu --std sigma --method {method} -o r.pkl")
    assert result.exit_code == 0, result.output
    assert f"Fitted {method} on 120 rows" in result.output
    assert "Held out (24 rows, recalibrated by a fit to the other 96):" in result.output
    assert "crps, after less before: " in result.output
    loaded = cb.load("r.pkl")
    assert type(loaded) is RECALIBRATORS[method]
    assert loaded.metadata_ == {"outcome": "y", "columns": {"mean": "mu", "std": "sigma"}}
    shown = run("inspect r.pkl").output
    assert re.search(rf"^recalibrator +{method}", shown, re.M)
    assert re.search("^fitted to +120 rows$", shown, re.M)
    assert re.search("^columns +mean = mu, std = sigma$", shown, re.M)
    assert "Next:  calibrant forecast apply r.pkl" in shown


@pytest.mark.slow
def test_what_is_applied_can_be_evaluated_by_its_names(run: Run, table: dict[str, Any]) -> None:
    run("forecast fit f.csv --mean mu --std sigma --method variance -o r.json")
    run("forecast apply r.json f.csv -o out.csv --output-levels 0.75,0.025,0.5 --column new_")
    result = run("forecast evaluate out.csv --quantiles new_* --json")
    assert json.loads(result.stdout)["columns"]["levels"] == [0.025, 0.5, 0.75]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("read", "write"), [("parquet", "csv"), ("csv", "parquet")])
def test_moments_probabilities_and_samples_are_those_of_the_library(
    run: Run, table: dict[str, Any], monkeypatch: pytest.MonkeyPatch, kind: str, read: str, write: str
) -> None:
    monkeypatch.setattr("calibrant.cli.forecast_apply._BATCH_ROWS", 50)  # the same in any batches
    assert run(f"forecast fit f.{read} {KINDS[kind]} --method average -o r.json").exit_code == 0
    asked = "--moments --thresholds 1.5,-1,0 --draws 3 --seed 4"
    applied = run(f"forecast apply r.json f.{read} {asked} -o out.{write}")
    assert applied.exit_code == 0, applied.output
    forecast = made(kind, table)
    after = cb.forecasts.AverageRecalibrator().fit(forecast, table["y"]).transform(forecast)
    found = pc.read_csv("out.csv") if write == "csv" else pq.read_table("out.parquet")
    expected = {
        "recalibrated_mean": after.mean(),
        "recalibrated_std": after.std(),
        **{f"recalibrated_cdf_{t}": after.cdf(float(t)) for t in ("-1", "0", "1.5")},
        **{f"recalibrated_sample_{k + 1}": drawn for k, drawn in enumerate(after.sample(3, 4).T)},
    }
    assert found.column_names == [*table, *expected]
    for name, values in expected.items():
        np.testing.assert_allclose(found.column(name).to_numpy(), values, rtol=1e-12)
    both = run(f"forecast apply r.json f.{read} --moments --output-levels 0.5 --column new_q -o both.{write}")
    assert "new_q0.5, new_mean, new_std" in both.output


@pytest.mark.slow
def test_standard_input_gives_the_bytes_of_a_file(run: Run, table: dict[str, Any], folder: Path) -> None:
    run("forecast fit f.csv --quantiles q* --method average -o r.json")
    run("forecast apply r.json f.csv -o out.csv")
    piped = run("forecast apply r.json - -o -", stdin=(folder / "f.csv").read_bytes())
    assert piped.stdout_bytes == (folder / "out.csv").read_bytes()


def test_few_rows_have_no_held_out_figures(run: Run, folder: Path) -> None:
    pc.write_csv(pa.table({"y": [0.0, 1.0, 2.0], "mu": [0.5, 0.5, 1.0], "sigma": [1.0, 1.0, 1.0]}), folder / "few.csv")
    result = run("forecast fit few.csv --mean mu --std sigma --method average -o r.json")
    assert "No held-out figures: fewer than 50 rows." in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("fit f.csv --mean mu --std sigma --method avarage -o r2.json", "Did you mean 'average'?"),
        ("fit f.csv --mean mu --std sigma --method average --shift -o r2.json", "does not take --shift. It takes no"),
        ("fit f.csv --mean mu --std sigma --method variance --direct-layer -o r2.json", "It takes --shift."),
        (
            "fit f.csv --mean mu --std sigma --algorithm odd -o r2.json",
            "unknown value of algorithm: 'odd'. Choose one of: 'regularised', 'paper'",
        ),
        ("fit f.csv --mean mu --std sigma -o f.csv", "-o f.csv is the file that is read"),
        ("fit f.csv -o r2.json", "none of --mean, --quantiles and --samples"),
        ("apply r.json f.csv -o r.json", "-o r.json is the file that is read"),
        (
            "apply s.json f.csv -o o.csv",
            "s.json holds a calibrator of probabilities (SigmoidCalibrator), not a recalibrator of forecasts",
        ),
        ("apply bare.json f.csv -o o.csv", "doesn't say which columns it was fitted to"),
        ("apply r.json f.csv -o o.csv --mean mu --std sigmo", "Did you mean 'sigma'?"),
        ("apply r.json f.csv -o o.csv --mean mu", "--mean and --std go together"),
        ("apply r.json f.csv -o o.csv --column q --output-levels 0.5", "f.csv already has a column 'q0.5'"),
        ("apply r.json f.csv -o o.csv --output-levels 0.5,1", "--output-levels: 1.0 is not between 0 and 1"),
        ("apply r.json f.csv -o o.csv --output-levels a", "--output-levels 'a' are not finite numbers"),
        ("apply r.json f.csv -o o.csv --mean mu --std y", "std row "),
        ("apply r.json f.csv -o o.csv --thresholds 0,b", "--thresholds '0,b' are not finite numbers"),
        ("apply r.json f.csv -o o.csv --thresholds inf", "--thresholds 'inf' are not finite numbers"),
        ("apply r.json - -o - --samples draw_*", "standard input can't be read twice"),
        ("report f.csv --mean mu --std sigma -o page.pdf", "-o page.pdf doesn't say what to write"),
        ("report f.csv --mean mu --std sigma --recalibrator s.json -o page.html", "not a recalibrator of forecasts"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(
    run: Run, table: dict[str, Any], folder: Path, arguments: str, text: str
) -> None:
    forecast = made("mean", table)
    own = cb.forecasts.AverageRecalibrator().fit(forecast, table["y"])
    cb.save(own, "bare.json")
    cb.save(own, "r.json", metadata={"columns": {"mean": "mu", "std": "sigma"}})
    cb.save(cb.SigmoidCalibrator().fit([0.1, 0.9, 0.4], [0, 1, 1]), "s.json")
    before = {path.name for path in folder.iterdir()}
    result = run(f"forecast {arguments}")
    assert result.exit_code == 2
    assert text in result.output
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.slow
def test_scores_are_not_calibrated_by_a_recalibrator_of_forecasts(run: Run, table: dict[str, Any]) -> None:
    run("forecast fit f.csv --mean mu --std sigma --method average -o r.json")
    result = run("apply r.json f.csv -o o.csv")
    assert result.exit_code == 2
    assert (
        "r.json holds a recalibrator of forecasts (AverageRecalibrator), not a calibrator. Use it so: calibrant"
        in result.output
    )


@pytest.mark.slow
def test_report_is_that_of_the_library(run: Run, table: dict[str, Any], folder: Path) -> None:
    run("forecast fit f.csv --mean mu --std sigma --method variance -o r.json")
    options = "--mean mu --std sigma --weight w --recalibrator r.json --coverage 0.8 --level 0.9 --seed 2 --title T"
    for name in ("page.html", "page.json"):
        result = run(f"forecast report f.csv {options} -o {name}")
        assert (result.exit_code, result.output) == (0, f"Wrote {name}\n")
    report = cb.ForecastReport(
        made("mean", table),
        table["y"],
        recalibrator=cb.load("r.json"),
        sample_weight=table["w"],
        interval_level=0.8,
        level=0.9,
        title="T",
        source="f.csv",
        rng=2,
    )
    assert (folder / "page.html").read_text("utf-8") == report.html()
    assert json.loads((folder / "page.json").read_text("utf-8")) == report.summary()


@pytest.mark.parametrize("name", ["fit", "apply", "report"])
def test_help_of_each_has_examples(run: Run, name: str) -> None:
    assert f"Examples:\n  calibrant forecast {name} " in run(f"forecast {name} --help").output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--cluster site", "Held out (24 rows, recalibrated by a fit to the other 96):"),
        (
            "--time made --label-end known",
            "Held out (24 rows, recalibrated by a fit to 92 that none of their outcomes ",
        ),
    ],
)
def test_rows_held_out_share_no_cluster_and_no_outcome_with_the_others(
    run: Run, folder: Path, table: dict[str, Any], options: str, said: str
) -> None:
    columns = {"site": [f"s{k // 12}" for k in range(120)], "made": range(120), "known": range(4, 124)}
    pq.write_table(pa.table({**table, **columns}), folder / "d.parquet")
    result = run(f"forecast fit d.parquet --mean mu --std sigma --method conformal {options} -o r.json")
    assert result.exit_code == 0, result.output
    assert said in result.output
    page = run(f"forecast report d.parquet --mean mu --std sigma --recalibrator r.json {options} -o page.html")
    assert page.exit_code == 0, page.output
    words = "10 clusters" if "site" in options else "10 blocks of 12 times"
    assert f"Sums over {words} are taken to be independent." in (folder / "page.html").read_text("utf-8")


def test_a_fifth_of_one_cluster_tells_nothing(run: Run, folder: Path, table: dict[str, Any]) -> None:
    pq.write_table(pa.table({**table, "site": ["a"] * 60 + ["b"] * 60}), folder / "d.parquet")
    result = run("forecast fit d.parquet --mean mu --std sigma --method average --cluster site -o r.json")
    assert "No held-out figures: a 5th of the rows is of one cluster or time, or leaves one." in result.output
