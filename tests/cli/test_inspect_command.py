"""calibrant inspect: what is in the file, in words that follow from its map."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import Result

import calibrant as cb
from calibrant import persistence
from calibrant.numerics import expit

Run = Callable[..., Result]


@pytest.mark.slow
def test_json_is_the_document(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv -o c.json")
    result = run("inspect c.json --json")
    assert json.loads(result.stdout) == json.loads(Path("c.json").read_text()) == persistence.read_document("c.json")


def test_facts_and_table_of_a_sigmoid(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv --method sigmoid -o c.json")
    shown = run("inspect c.json").output
    for fact in (
        "calibrator     SigmoidCalibrator()",
        "classes        0, 1",
        "fitted to      600 rows",
        "score columns  p",
        "scores are     probability",
        "q = expit(",
        "Next:  calibrant apply c.json new.csv -o out.csv",
    ):
        assert fact in shown
    at = np.union1d(np.linspace(0.0, 1.0, 11), [0.001, 0.01])
    expected = persistence.load("c.json").predict_proba(at)
    assert [[float(value) for value in row] for row in table_of(shown)] == [
        pytest.approx([s, q], abs=5e-5, rel=0.05) for s, q in zip(at.tolist(), expected.tolist(), strict=True)
    ]


def test_what_auto_has_tried_stands_apart_from_its_map(run: Run) -> None:
    p, y = np.linspace(0.01, 0.99, 300), np.random.default_rng(0).random(300) < np.linspace(0.01, 0.99, 300) ** 2
    auto = cb.AutoCalibrator().fit(p, y)
    cb.save(auto, "c.json")
    report = "".join(f"  {line}\n" for line in str(auto.report_).split("\n"))
    assert f"\n\nHow it was chosen:\n{report}\nscore  becomes\n" in run("inspect c.json").output
    cb.save(cb.Chain([auto, cb.prior.PriorShift([1.0, 2.0], classes=[0, 1])]), "chain.json")
    shown = run("inspect chain.json").output
    assert "\n\n2. PriorShift:\n" in shown
    assert "\n   How it was chosen:\n" in shown


def test_formula_is_the_map(run: Run) -> None:
    calibrator = cb.SigmoidCalibrator(input="score").fit([-2.0, -1.0, 0.5, 1.0], [0, 1, 0, 1])
    cb.save(calibrator, "c.json")
    shown = run("inspect c.json").output
    (line,) = [line for line in shown.splitlines() if line.startswith("q = ")]
    value = eval(line.removeprefix("q = "), {"expit": lambda z: float(expit(np.array(z))), "s": 0.25})
    assert value == pytest.approx(calibrator.predict_proba([0.25])[0], abs=1e-5)
    assert "score columns  not stored: name them with calibrant apply --score" in shown
    assert "0.0067" in shown
    assert "0.9933" in shown


@pytest.mark.parametrize(
    ("calibrator", "text"),
    [
        (cb.IsotonicCalibrator(), "linear between 4 knots at scores from 0.1 to 0.7, outputs from 0 to 1"),
        (cb.IsotonicCalibrator(input="score"), "linear between 4 knots"),
        (cb.HistogramCalibrator(n_bins=2), "2 steps with levels from 0.5 to 0.5"),
        (cb.BetaCalibrator(), "* log p - "),
        (cb.TemperatureCalibrator(), "* log p - "),
        (cb.TemperatureCalibrator(input="logit"), "* s + 0)"),
    ],
)
def test_each_binary_map_is_described(run: Run, calibrator: cb.calibrators.Calibrator, text: str) -> None:
    cb.save(calibrator.fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1]), "c.json")
    shown = run("inspect c.json").output
    assert text in shown
    assert len(table_of(shown)) == (13 if calibrator.input == "probability" else 11)


def test_map_of_several_classes_is_described_by_class(run: Run, several: pa.Table) -> None:
    run("fit several.parquet --score p_* --method beta -o c.json")
    shown = run("inspect c.json").output
    assert "One map per class, then each row divided by its sum:\n  'cat': q = expit(" in shown
    assert re.search(r"Before rows are divided by their sum:\nscore +cat +dog +eel\n", shown)
    run("fit several.parquet --score p_* --method temperature -o t.json")
    assert "softmax of 0." in run("inspect t.json").output


def test_many_classes_are_cut(run: Run) -> None:
    rng = np.random.default_rng(0)
    cb.save(cb.SigmoidCalibrator().fit(rng.dirichlet(np.ones(12), 60), np.arange(60) % 12), "c.json")
    shown = run("inspect c.json").output
    assert "  9: q = expit(" in shown
    assert "  10: q" not in shown
    assert "  and 2 more\n" in shown


def test_probability_calibrator_is_described(run: Run, several: pa.Table) -> None:
    calibrator = cb.ProbabilityCalibrator()
    calibrator.fit(several["y"], several.select(["p_cat", "p_dog", "p_eel"]))
    calibrator.save("c.pkl")
    shown = run("inspect c.pkl").output
    assert "calibrator     ProbabilityCalibrator(" in shown
    assert "score columns  p_cat, p_dog, p_eel" in shown


def test_what_is_no_calibrator_is_refused(run: Run, binary: pa.Table) -> None:
    result = run("inspect scores.parquet")
    assert result.exit_code == 2
    assert "scores.parquet: this is not a calibrant document but a Parquet file" in result.stderr


def table_of(shown: str) -> list[list[str]]:
    """Return the rows of scores and what they become."""
    rows = re.split(r"\nscore +becomes\n", shown)[1].partition("\n\n")[0]
    return [line.split() for line in rows.splitlines()]
