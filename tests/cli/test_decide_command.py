"""calibrant decide: the figures of the library, tables that fit, gates, and errors that say what to write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.decisions import CalibrationRows, Problem, decision_curve, evaluate, expected_loss, net_benefit

Run = Callable[..., Result]
TWO = "--false-positive 1 --false-negative 4"
LOSSES = {
    "losses": {"wait": {"cat": 0.0, "dog": 5.0, "eel": 9.0}, "treat": {"cat": 2.0, "dog": 1.0, "eel": 1.5}},
    "abstain": 1.2,
}


@pytest.fixture
def rows(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.random(400)
    rows = {"y": (rng.random(400) < p**1.5).astype(int), "p": p, "city": rng.choice(["Bonn", "Rome"], 400)}
    rows |= {"day": rng.integers(0, 8, 400), "who": np.repeat(np.arange(100), 4), "fee": rng.uniform(0.5, 2.0, 400)}
    rows["w"] = rng.integers(0, 3, 400)
    q = rng.dirichlet([1.0, 1.0, 1.0], 400)
    rows["kind"] = np.array(["cat", "dog", "eel"])[(q.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)]
    rows |= {f"q_{name}": q[:, k].copy() for k, name in [(2, "eel"), (0, "cat"), (1, "dog")]}
    pc.write_csv(pa.table(rows), folder / "s.csv")
    (folder / "costs.json").write_text(json.dumps(LOSSES))
    return rows


def document(run: Run, command: str) -> dict[str, Any]:
    result = run(f"decide {command} --json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_evaluate_has_the_figures_of_the_library(run: Run, rows: dict[str, Any]) -> None:
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    found = document(run, f"evaluate s.csv {TWO} --group city --cluster who --level 0.9")
    expected = evaluate(rows["y"], rows["p"], problem, groups=rows["city"], cluster=rows["who"], level=0.9).to_dict()
    assert {key: found[key] for key in expected} == json.loads(json.dumps(expected))
    shown = run(f"decide evaluate s.csv {TWO} --group city")
    assert evaluate(rows["y"], rows["p"], problem).verdict in shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["action", "rows", "realised", "promised", "gap", "97.5%", "interval"] in lines
    assert any(line[:1] == ["Rome"] for line in lines)
    assert max(map(len, shown.output.splitlines()[1:])) <= 100


def test_losses_of_a_file_go_by_the_names_of_columns_and_labels(run: Run, rows: dict[str, Any]) -> None:
    found = document(run, "evaluate s.csv --label kind --score q_* --costs costs.json")
    q = np.column_stack([rows[f"q_{name}"] for name in ("cat", "dog", "eel")])
    expected = evaluate(rows["kind"], q, Problem.from_dict(LOSSES))
    assert found["actions"] == ["wait", "treat", "abstain"]
    assert found["scores"]["realised"]["value"] == pytest.approx(expected["realised"].value, abs=1e-12)
    assert found["scores"]["promised"]["value"] == pytest.approx(expected["promised"].value, abs=1e-12)


def test_costs_and_capacities_of_each_day_are_columns(run: Run, rows: dict[str, Any], folder: Path) -> None:
    plain = {"losses": {"call": {"0": "fee", "1": -3.0}}, "do_nothing": "wait", "capacity": {"call": 5}}
    (folder / "calls.json").write_text(json.dumps(plain))
    found = document(run, "evaluate s.csv --costs calls.json --per day")
    expected = evaluate(rows["y"], rows["p"], Problem.from_dict(plain), costs={"fee": rows["fee"]}, per=rows["day"])
    assert found["scores"]["realised"]["value"] == pytest.approx(expected["realised"].value, abs=1e-12)
    assert found["by_action"][1]["scores"]["share"]["value"] == pytest.approx(40 / 400)


def test_rows_that_lack_a_cost_or_a_day_are_left_out_where_asked(run: Run, rows: dict[str, Any], folder: Path) -> None:
    plain = {"losses": {"call": {"0": "fee", "1": -3.0}}, "do_nothing": "wait", "capacity": {"call": 5}}
    (folder / "calls.json").write_text(json.dumps(plain))
    lacks = {"fee": np.arange(400) == 3, "day": np.arange(400) == 7, "p": np.arange(400) == 11}
    table = pa.table({name: pa.array(values, mask=lacks.get(name)) for name, values in rows.items()})
    pc.write_csv(table, folder / "lacks.csv")
    refused = run("decide evaluate lacks.csv --costs calls.json --per day")
    assert refused.exit_code == 2
    assert "Pass --missing skip" in refused.output
    found = document(run, "evaluate lacks.csv --costs calls.json --per day --missing skip")
    kept = np.isin(np.arange(400), [3, 7, 11], invert=True)
    costs, per = {"fee": rows["fee"][kept]}, rows["day"][kept]
    expected = evaluate(rows["y"][kept], rows["p"][kept], Problem.from_dict(plain), costs=costs, per=per)
    assert (found["n"], found["n_skipped"]) == (397, 3)
    assert found["scores"]["realised"]["value"] == pytest.approx(expected["realised"].value, abs=1e-12)
    assert run("report lacks.csv --costs calls.json --per day --missing skip -o page.html").exit_code == 0
    promise = run("decide promise lacks.csv --costs calls.json --per day")
    assert "line 13: missing value" in promise.output
    assert "--missing" not in promise.output  # it has no such option


def test_rows_that_lack_a_value_beside_a_promise_are_told_what_works(
    run: Run, rows: dict[str, Any], folder: Path
) -> None:
    """--missing doesn't go with --fitted-to, so nothing advises it."""
    for name in ("y", "p", "who"):
        lacks = {name: np.arange(400) == 11}
        table = pa.table({each: pa.array(values, mask=lacks.get(each)) for each, values in rows.items()})
        pc.write_csv(table, folder / "lacks.csv")
        for files in ("lacks.csv --fitted-to s.csv", "s.csv --fitted-to lacks.csv"):
            refused = run(f"decide evaluate {files} {TWO} --cluster who")
            assert refused.exit_code == 2
            what = "label" if name == "y" else "value"
            said = f"column '{name}' of lacks.csv line 13: missing {what} (1 of 400 rows). Drop these rows first."
            assert said in " ".join(refused.output.split())
            early = run(f"decide evaluate {files} {TWO} --missing skip")
            assert "--missing doesn't go with --fitted-to" in early.output


def test_positive_flips_the_score_and_the_losses(run: Run, rows: dict[str, Any]) -> None:
    found = document(run, f"evaluate s.csv {TWO} --positive 0")
    expected = evaluate(1 - rows["y"], rows["p"], Problem.two_actions(false_positive=1.0, false_negative=4.0))
    assert found["scores"]["realised"]["value"] == pytest.approx(expected["realised"].value, abs=1e-12)


def test_threshold_is_ones_own(run: Run, rows: dict[str, Any]) -> None:
    found = document(run, f"evaluate s.csv {TWO} --threshold 0.5")
    lost = np.where(rows["p"] >= 0.5, 1 - rows["y"], 4 * rows["y"])
    assert found["scores"]["realised"]["value"] == pytest.approx(lost.mean())


@pytest.mark.parametrize(
    ("gate", "code"),
    [("--max gap=10", 0), ("--max gap=-10", 1), ("--min net_benefit@0.2=-1", 0), ("--min net_benefit@0.2=0.9", 1)],
)
def test_gates_decide_the_exit_code(run: Run, rows: dict[str, Any], gate: str, code: int) -> None:
    result = run(f"decide evaluate s.csv {TWO} {gate}")
    assert result.exit_code == code
    assert ("Gate passed" if code == 0 else "Gate failed") in result.output
    gates = json.loads(run(f"decide evaluate s.csv {TWO} {gate} --json").stdout)["gates"]
    assert gates[0]["passed"] is (code == 0)
    if "net_benefit" in gate:
        assert gates[0]["value"] == pytest.approx(net_benefit(rows["y"], rows["p"], 0.2).value)


def test_promise_needs_no_labels(run: Run, rows: dict[str, Any], folder: Path) -> None:
    pc.write_csv(pa.table({"p": rows["p"]}), folder / "new.csv")
    found = document(run, f"promise new.csv {TWO}")
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    assert found["scores"]["expected_loss"] == json.loads(json.dumps(expected_loss(rows["p"], problem).to_dict()))
    calibrator = cb.BetaCalibrator().fit(rows["p"], rows["y"])
    cb.save(calibrator, folder / "c.json")
    found = document(run, f"promise new.csv {TWO} --calibrator c.json --fitted-to s.csv --score p --about rows")
    fitted_to = CalibrationRows(rows["p"], rows["y"])
    expected = expected_loss(rows["p"], problem, calibrator=calibrator, fitted_to=fitted_to, about="rows")
    assert found["scores"]["expected_loss"]["value"] == pytest.approx(expected.value, abs=1e-12)
    assert found["scores"]["expected_loss"]["high"] == pytest.approx(expected.high, abs=1e-12)
    shown = run(f"decide promise new.csv {TWO}").output
    assert "taken for calibrated: --fitted-to says how far" in shown
    (folder / "kinds.json").write_text('{"no": {"ham": 0, "spam": 4}, "yes": {"ham": 1, "spam": 0}}', "utf-8")
    shown = run("decide promise new.csv --costs kinds.json").output
    assert "score 'p'; 'spam' is the positive class\n" in shown, "what one score is of, as the costs name classes"


def test_curves_have_the_figures_of_the_library(run: Run, rows: dict[str, Any]) -> None:
    found = document(run, "curve s.csv --thresholds 0.1,0.4 --min net_benefit@0.1=-1")
    curve = decision_curve(rows["y"], rows["p"], thresholds=[0.1, 0.4])
    assert found["curve"]["net_benefit"] == pytest.approx(curve.net_benefit.tolist(), abs=1e-15)
    assert found["curve"]["over_all_low"] == pytest.approx(curve.over_all_low.tolist(), abs=1e-15)
    for kind, metric in (("cost", "area"), ("risk", "aurc")):
        assert metric in document(run, f"curve s.csv --kind {kind}")["scores"]
        assert run(f"decide curve s.csv --kind {kind} --max {metric}=0").exit_code == 1
    shown = run("decide curve s.csv --label kind --score q_* --kind risk")
    assert shown.exit_code == 0, shown.output
    assert "aurc" in shown.output
    for kind in ("decision", "cost", "risk"):
        assert max(map(len, run(f"decide curve s.csv --kind {kind}").output.splitlines()[2:])) <= 80


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate s.csv", "Pass --false-positive and --false-negative"),
        ("evaluate s.csv --costs costs.json --false-positive 1", "stands beside --costs"),
        ("evaluate s.csv --costs costs.json", "of 3 classes|the losses are of the classes"),
        ("evaluate s.csv --costs nowhere.json", "nowhere.json"),
        ("evaluate s.csv --false-positive -1 --false-negative 4", "--false-positive=-1.0 is outside"),
        (f"evaluate s.csv {TWO} --per day", "no action has one"),
        (f"evaluate s.csv {TWO} --per dai", "'dai'.*day"),
        (f"evaluate s.csv {TWO} --max gaap=1", "'gaap'.*gap"),
        (f"evaluate s.csv {TWO} --min net_benefit@x=1", "'x' holds no thresholds"),
        ("curve s.csv --kind roc", "'roc'"),
        ("curve s.csv --thresholds 0.2,1.5", "holds no thresholds"),
        ("curve s.csv --label kind --score q_*", "is of two classes"),
        (f"promise s.csv {TWO} --score city", "city"),
        (f"promise s.csv {TWO} --about past", "'past'"),
        (f"promise s.csv {TWO} --level 2", "--level 2"),
    ],
)
def test_what_is_wrong_is_said_in_options(run: Run, rows: dict[str, Any], command: str, message: str) -> None:
    import re

    result = run(f"decide {command}")
    assert result.exit_code == 2, result.output
    assert re.search(message, result.output), result.output


def test_a_promise_with_capacities_is_corrected_day_by_day(run: Run, folder: Path, rows: dict[str, Any]) -> None:
    plain = {"losses": {"call": {"0": 0.6, "1": -3.0}}, "do_nothing": "wait", "capacity": {"call": 5}}
    (folder / "calls.json").write_text(json.dumps(plain))
    half = {name: values[:200] for name, values in rows.items()}
    pc.write_csv(pa.table(half), folder / "old.csv")
    problem = Problem.from_dict(plain)
    known: dict[str, Any] = {"fitted_to": (half["p"], half["y"]), "per": rows["day"], "about": "rows"}
    promise = expected_loss(rows["p"], problem, **known)
    said = document(run, "promise s.csv --costs calls.json --fitted-to old.csv --per day --about rows")
    assert said["scores"]["expected_loss"]["value"] == pytest.approx(promise.value)
    held = document(run, "evaluate s.csv --costs calls.json --fitted-to old.csv --per day")["scores"]
    expected = evaluate(rows["y"], rows["p"], problem, per=rows["day"], promise=promise)
    assert held["gap"]["value"] == pytest.approx(expected.gap.value)
    assert held["gap"]["low"] == pytest.approx(expected.gap.low)
    of_all = expected_loss(rows["p"], problem, **(known | {"per": None}))
    assert abs(of_all.value - promise.value) > 0.1, "five a day are not five in all"


def test_gap_to_the_promise_of_the_rows_that_a_calibrator_was_fitted_to(
    run: Run, folder: Path, rows: dict[str, Any]
) -> None:
    rng = np.random.default_rng(1)
    p = rng.random(200)
    old = {"y": (rng.random(200) < p**1.5).astype(int), "p": p}
    pc.write_csv(pa.table(old), folder / "old.csv")
    assert run("fit old.csv --method beta -o c.json").exit_code == 0
    command = f"evaluate s.csv {TWO} --calibrator c.json --fitted-to old.csv"
    found = document(run, command)
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    calibrator = cb.BetaCalibrator().fit(old["p"], old["y"])
    known = {"calibrator": calibrator, "fitted_to": (old["p"], old["y"]), "about": "rows"}
    promise = expected_loss(rows["p"], problem, **known)
    expected = evaluate(rows["y"], calibrator.predict_proba(rows["p"]), problem, promise=promise)
    for name in ("promised", "realised", "gap"):
        assert found["scores"][name]["value"] == pytest.approx(expected[name].value)
        assert found["scores"][name]["low"] == pytest.approx(expected[name].low)
    alone = document(run, command.removesuffix(" --fitted-to old.csv"))["scores"]["gap"]
    assert alone["high"] - alone["low"] < found["scores"]["gap"]["high"] - found["scores"]["gap"]["low"]
    assert expected.verdict in run(f"decide {command}").output
    refused = run(f"decide {command} --weight w")
    assert refused.exit_code == 2
    assert "--weight doesn't go with --fitted-to" in refused.output


def test_a_file_of_losses_that_cannot_be_read_says_how_to_write_one(run: Run, rows: dict[str, Any]) -> None:
    """No calibrator has to be saved again for it, and the file's name is there."""
    for data, what in (
        (b"", "the file is empty"),
        (b"{'no': {'0': 0}}", "not JSON"),
        (b'{"no": ', "ends too early"),
        (b"\xff\xfe", "not UTF-8"),
    ):
        Path("own.json").write_bytes(data)
        result = run("decide evaluate s.csv --costs own.json")
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert said.startswith("Error: own.json: ")
        assert what in said
        assert 'Write losses as JSON: {"no": ' in said
        assert "calibrator" not in said
        assert "calibrant.save" not in said
    for data, what in (
        (b"[1, 2]", "a problem is a list"),
        (b'{"losses": 5}', "losses=5 holds no table of numbers"),
        (b'{"no": {"0": 1}, "yes": {"0": 0}}', "losses are of one class, '0'"),
    ):
        Path("own.json").write_bytes(data)
        assert f"own.json: {what}" in run("decide evaluate s.csv --costs own.json").stderr


def test_a_file_of_losses_may_begin_with_a_byte_order_mark(run: Run, rows: dict[str, Any]) -> None:
    Path("own.json").write_bytes(b'\xef\xbb\xbf{"no": {"0": 0, "1": 4}, "yes": {"0": 1, "1": 0}}')
    by_file, by_options = document(run, "evaluate s.csv --costs own.json"), document(run, f"evaluate s.csv {TWO}")
    assert by_file["scores"] == by_options["scores"]


def test_losses_in_money_are_written_as_such(run: Run, rows: dict[str, Any]) -> None:
    shown = run("decide evaluate s.csv --false-positive 100000 --false-negative 400000").stdout
    found = document(run, "evaluate s.csv --false-positive 100000 --false-negative 400000")["scores"]
    assert f"Decisions cost {found['realised']['value']:,.1f} a row" in shown
    assert not re.search(r"\d{4}", shown)
