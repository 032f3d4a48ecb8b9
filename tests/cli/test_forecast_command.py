"""calibrant forecast evaluate: the figures of the library, columns of every kind, gates, errors that say where."""

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

from calibrant.forecasts import (
    Forecast,
    GaussianForecast,
    QuantileForecast,
    SampleForecast,
    coverage_by_level,
    evaluate,
    evaluate_horizons,
    persistence,
    skill,
)

pytestmark = pytest.mark.usefixtures("few_draws")

Run = Callable[..., Result]
LEVELS = (0.1, 0.5, 0.9)


@pytest.fixture
def table(folder: Path) -> dict[str, Any]:
    """Forecasts of three kinds as f.csv and f.parquet."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=90), rng.gamma(3.0, 0.3, 90) + 0.1
    columns: dict[str, Any] = {"y": mean + rng.normal(size=90), "mu": mean, "sigma": std, "w": rng.integers(0, 3, 90)}
    quantiles = GaussianForecast(mean, std).ppf([LEVELS])
    columns |= {"q0.9": quantiles[:, 2], "q0.1": quantiles[:, 0], "q0.5": quantiles[:, 1]}
    columns |= {f"draw_{k}": mean + std * rng.normal(size=90) for k in range(5)}
    found = pa.table(columns)
    pc.write_csv(found, folder / "f.csv")
    pq.write_table(found, folder / "f.parquet")
    return columns


def made(kind: str, table: dict[str, Any]) -> Forecast:
    if kind == "mean":
        return GaussianForecast(table["mu"], table["sigma"])
    if kind == "quantiles":
        return QuantileForecast(LEVELS, np.column_stack([table[f"q{level}"] for level in LEVELS]))
    return SampleForecast(np.column_stack([table[f"draw_{k}"] for k in range(5)]))


@pytest.mark.slow
@pytest.mark.parametrize("file", ["f.csv", "f.parquet"])
@pytest.mark.parametrize(
    ("kind", "arguments", "columns"),
    [
        ("mean", "--mean mu --std sigma", {"mean": "mu", "std": "sigma"}),
        ("quantiles", "--quantiles q*", {"quantiles": ["q0.1", "q0.5", "q0.9"], "levels": [0.1, 0.5, 0.9]}),
        ("samples", "--samples draw_*", {"samples": [f"draw_{k}" for k in range(5)]}),
    ],
)
def test_figures_are_those_of_the_library(
    run: Run, table: dict[str, Any], file: str, kind: str, arguments: str, columns: dict[str, object]
) -> None:
    expected = evaluate(made(kind, table), table["y"])
    result = run(f"forecast evaluate {file} {arguments} --json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document == {
        "file": file,
        "n": 90,
        "columns": {"outcome": "y", **columns, "weight": None},
        **expected.to_dict(),
        "coverage_by_level": coverage_by_level(made(kind, table), table["y"]).to_dict(),
    }
    shown = run(f"forecast evaluate {file} {arguments}").output
    assert expected.verdict in shown
    assert f"crps: {expected['crps'].note}" not in shown
    assert f"reliability_gap: {expected['reliability_gap'].note}" in shown


@pytest.mark.slow
def test_options_reach_the_library(run: Run, table: dict[str, Any]) -> None:
    result = run(
        "forecast evaluate f.csv --mean mu --std sigma --weight w --coverage 0.5 --level 0.9 --seed 3 --json",
        "--evaluated-on",
        "held-out, May",
    )
    expected = evaluate(
        made("mean", table),
        table["y"],
        sample_weight=table["w"],
        interval_level=0.5,
        level=0.9,
        rng=3,
        evaluated_on="held-out, May",
    )
    assert json.loads(result.stdout)["scores"] == expected.to_dict()["scores"]


@pytest.mark.slow
def test_levels_may_be_given(run: Run, table: dict[str, Any]) -> None:
    given = run("forecast evaluate f.csv --quantiles draw_0,draw_1 --levels 0.25,0.75 --json")
    named = json.loads(given.stdout)["columns"]
    assert named == {"outcome": "y", "quantiles": ["draw_0", "draw_1"], "levels": [0.25, 0.75], "weight": None}


@pytest.mark.slow
def test_gates_decide_the_exit_code(run: Run, table: dict[str, Any]) -> None:
    passed = run("forecast evaluate f.csv --mean mu --std sigma --max crps=9")
    assert passed.exit_code == 0
    assert "Gate passed: crps " in passed.output
    failed = run("forecast evaluate f.csv --mean mu --std sigma --max crps=0.01 --json")
    assert failed.exit_code == 1
    assert "Gate failed: crps " in failed.stderr
    assert json.loads(failed.stdout)["gates"][0]["passed"] is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "none of --mean, --quantiles and --samples"),
        ("--mean mu", "--mean and --std go together"),
        ("--mean mu --std sigma --samples draw_*", "--mean and --samples of --mean, --quantiles and --samples"),
        ("--mean mu --std sigma --levels 0.5", "--levels are those of --quantiles"),
        ("--mean mu --std sigmo", "f.csv has no column 'sigmo'. Did you mean 'sigma'?"),
        ("--mean mu --std y", "std row "),
        ("--quantiles draw_a*", "no column of f.csv matches 'draw_a*'"),
        ("--quantiles mu,sigma", "column 'mu': no level such as 0.9 at the end of its name"),
        ("--quantiles q* --levels 0.1,0.9", "--levels names 2 levels for 3 columns"),
        ("--quantiles q* --levels a,b,c", "--levels 'a,b,c' are not finite numbers"),
        ("--samples draw_1", "only column 'draw_1' is named. Name at least two"),
        ("--mean mu --std sigma --max crp=1", "unknown metric 'crp'. Did you mean 'crps'?"),
        ("--mean mu --std sigma --outcome z", "f.csv has no column 'z'"),
    ],
)
def test_errors_are_one_line_that_says_where(run: Run, table: dict[str, Any], arguments: str, text: str) -> None:
    result = run(f"forecast evaluate f.csv {arguments}")
    assert result.exit_code == 2
    assert text in result.output


def test_help_has_examples(run: Run) -> None:
    shown = run("forecast evaluate --help").output
    assert "Examples:\n  calibrant forecast evaluate forecasts.parquet --outcome y --mean mu --std sigma\n" in shown


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--cluster site", ("cluster",)),
        ("--time made", ("time",)),
        ("--time made --label-end known", ("time", "label_end")),
    ],
)
def test_rows_that_hang_together_are_named_by_column(
    run: Run, folder: Path, table: dict[str, Any], options: str, names: tuple[str, ...]
) -> None:
    own = {"cluster": [f"s{k // 9}" for k in range(90)], "time": np.arange(90), "label_end": np.arange(90) + 4}
    columns = dict(zip(("site", "made", "known"), own.values(), strict=True))
    pq.write_table(pa.table({**table, **columns}), folder / "d.parquet")
    result = run(f"forecast evaluate d.parquet --mean mu --std sigma --json {options}")
    expected = evaluate(made("mean", table), table["y"], **{name: own[name] for name in names})
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["scores"] == expected.to_dict()["scores"]
    given = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
    assert {f"--{name.replace('_', '-')}": found["columns"][name] for name in names} == given


def test_columns_that_cannot_say_what_hangs_together_are_refused(run: Run, folder: Path, table: dict[str, Any]) -> None:
    pq.write_table(pa.table({**table, "one": ["a"] * 90, "made": range(90)}), folder / "d.parquet")
    start = "forecast evaluate d.parquet --mean mu --std sigma"
    assert "cluster is the same in all 90 rows" in run(f"{start} --cluster one").stderr
    assert "Pass one of them." in run(f"{start} --cluster one --time made").stderr
    assert "label_end says when a label was known" in run(f"{start} --label-end made").stderr
    assert "column 'mu' of d.parquet row" in run(f"{start} --time made --label-end mu").stderr


@pytest.mark.slow
def test_horizons_skill_and_a_region_are_columns_and_options(run: Run, folder: Path) -> None:
    rng = np.random.default_rng(0)
    step = np.tile([3, 1], 60)
    y = rng.normal(scale=np.sqrt(step))
    last = rng.normal(size=120)
    columns = {"y": y, "mu": np.zeros(120), "sigma": np.ones(120), "step": step, "last": last}
    pq.write_table(pa.table(columns), folder / "steps.parquet")
    forecast, base = GaussianForecast(np.zeros(120), 1.0), "forecast evaluate steps.parquet --mean mu --std sigma"
    expected = evaluate_horizons(forecast, y, step, reference=persistence(last), region=(None, 0.0))
    result = run(f"{base} --horizon step --persistence last --region ,0 --json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["columns"]["horizon"] == "step"
    assert document["horizons"] == expected.to_dict()["horizons"]
    shown = run(f"{base} --horizon step")
    lines = [line.split()[:2] for line in shown.output.splitlines() if line.strip()[:2] in ("1 ", "3 ")]
    assert lines == [
        ["1", "60"],
        ["3", "60"],
    ]
    worst = max(scores["crps"].value for scores in expected.by_horizon.values())
    assert run(f"{base} --horizon step --max crps={worst - 1e-6}").exit_code == 1
    assert run(f"{base} --horizon step --max crps={worst + 1e-6}").exit_code == 0
    one = json.loads(run(f"{base} --persistence last --json").stdout)
    assert one["scores"]["skill"]["value"] == pytest.approx(skill(forecast, y, persistence(last))["skill"].value)
    assert "are not the ends of a region" in run(f"{base} --region a").output
    assert "Coverage by level:" in run(base).output


def test_intervals_beyond_the_quantiles_are_refused_by_the_option_s_name(run: Run, table: dict[str, Any]) -> None:
    result = run("forecast evaluate f.csv --quantiles q* --coverage 0.9")
    assert result.exit_code == 2
    assert "--coverage=0.9 asks for quantiles at 0.05 and 0.95" in result.output
