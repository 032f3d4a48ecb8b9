"""calibrant decide experiment: the figures of the library, gates on one recalibrator, a picture and a document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from calibrant.forecasts import GaussianForecast, decision_experiment

Run = Callable[..., Result]
COMMAND = "decide experiment f.parquet --mean mu --std sigma --method average,variance --thresholds=-1,0,1"


@pytest.fixture
def rows(folder: Path) -> tuple[GaussianForecast, np.ndarray]:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=240)
    y = mean + rng.normal(size=240)
    pq.write_table(pa.table({"y": y, "mu": mean, "sigma": np.full(240, 0.5)}), folder / "f.parquet")
    return GaussianForecast(mean, 0.5), y


def test_figures_are_those_of_the_library(run: Run, rows: tuple[GaussianForecast, np.ndarray]) -> None:
    expected = decision_experiment(*rows, recalibrators=["average", "variance"], y0=[-1.0, 0.0, 1.0])
    result = run(f"{COMMAND} --json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["columns"] == {"outcome": "y", "mean": "mu", "std": "sigma", "weight": None}
    assert {key: document[key] for key in expected.to_dict()} == expected.to_dict()
    shown = run(COMMAND).output
    assert expected.verdict in shown
    names = [line.split()[0] for line in shown.splitlines() if line.strip() and line.split()[0] in expected.scores]
    assert names == ["none", "average", "variance"]


def test_a_recalibrator_that_refuses_the_forecasts_is_named(run: Run, folder: Path) -> None:
    y = np.random.default_rng(0).normal(size=240)
    pq.write_table(pa.table({"y": y[1:], "a": y[:-1], "b": y[:-1]}), folder / "s.parquet")
    result = run("decide experiment s.parquet --samples a,b --thresholds=-1,0,1")
    assert result.exit_code == 0, result.output
    assert "Left out is conformal: standard deviation of the forecast, row 0: 0.0" in " ".join(result.output.split())


def test_gates_judge_one_recalibrator(run: Run, rows: tuple[GaussianForecast, np.ndarray]) -> None:
    found = decision_experiment(*rows, recalibrators=["average", "variance"], y0=[-1.0, 0.0, 1.0])
    before, best = found.scores["none"]["gap"].value, found.scores[found.best]["gap"].value
    assert best < before
    between = 0.5 * (before + best)
    passed, failed = (run(f"{COMMAND} --max gap={between} {more}") for more in ("", "--judge none"))
    assert (passed.exit_code, failed.exit_code) == (0, 1)
    assert f"Figures of {found.best}:" in passed.output
    assert "Gate failed: gap" in failed.output
    assert run(f"{COMMAND} --min within_chance=1.01").exit_code == 1
    assert "Did you mean 'gap'" in run(f"{COMMAND} --max gab=1").output
    assert "Did you mean 'average'" in run(f"{COMMAND} --judge averag --max gap=1").output


@pytest.mark.rendered
def test_a_picture_and_a_document_are_written(
    run: Run, rows: tuple[GaussianForecast, np.ndarray], folder: Path
) -> None:
    assert "Wrote d.png" in run(f"{COMMAND} -o d.png").output
    assert (folder / "d.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert run(f"{COMMAND} -o d.json").exit_code == 0
    assert json.loads((folder / "d.json").read_text("utf-8")) == json.loads(run(f"{COMMAND} --json").stdout)
    assert run(f"{COMMAND} -o d.txt").exit_code == 2
    assert run(f"{COMMAND} -o f.parquet").exit_code == 2
