"""Scores that are logits or decision values, on commands that measure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.special
from click.testing import Result

from calibrant.cli import data

Run = Callable[..., Result]
COMMANDS = ("evaluate FILE --group g --json", "audit FILE --features g --json", "monitor FILE --rows 200 --json")


@pytest.fixture
def logits(folder: Path) -> pd.DataFrame:
    """Write logits of one and of three columns, and the probabilities that SciPy makes of them."""
    rng = np.random.default_rng(0)
    z, many = rng.normal(scale=2.0, size=600), rng.normal(scale=2.0, size=(600, 3))
    p, q = scipy.special.expit(z), scipy.special.softmax(many, axis=1)
    y = (rng.random(600) < p**1.3).astype(int)
    k = (q.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    g = np.where(rng.random(600) < 0.5, "a", "b")
    pd.DataFrame({"y": y, "g": g, "p": z}).to_csv("z.csv", index=False)
    pd.DataFrame({"y": y, "g": g, "p": p}).to_csv("p.csv", index=False)
    pd.DataFrame({"y": k, "g": g, "s_0": many[:, 0], "s_1": many[:, 1], "s_2": many[:, 2]}).to_parquet("zs.parquet")
    pd.DataFrame({"y": k, "g": g, "s_0": q[:, 0], "s_1": q[:, 1], "s_2": q[:, 2]}).to_parquet("ps.parquet")
    return pd.DataFrame({"y": y, "z": z})


def assert_close(found: Any, wanted: Any) -> None:
    """Compare documents: numbers to rounding, and all else but names of files and digests of bits exactly."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        left_out = {"file", "input", "digest"}
        assert found.keys() - left_out == wanted.keys() - left_out
        for key in wanted.keys() - left_out:
            assert_close(found[key], wanted[key])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    else:
        assert found == wanted


@pytest.mark.parametrize("many", [1 << 24, 100])
@pytest.mark.parametrize(("files", "more"), [(("z.csv", "p.csv"), ""), (("zs.parquet", "ps.parquet"), " --score s_*")])
def test_logits_are_measured_as_the_probabilities_that_they_stand_for(
    run: Run, logits: pd.DataFrame, files: tuple[str, str], more: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MANY", many)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    for command in COMMANDS:
        found = run(command.replace("FILE", files[0]) + more + " --input logit")
        wanted = run(command.replace("FILE", files[1]) + more)
        assert found.exit_code == wanted.exit_code in (0, 1), found.output
        assert_close(json.loads(found.output), json.loads(wanted.output))
    for name, kind in zip(files, ("logit", "probability"), strict=True):
        assert run(f"report {name}{more} --input {kind} -o {kind}.json").exit_code == 0
    scores = [json.loads(Path(f"{kind}.json").read_text())["scores"] for kind in ("logit", "probability")]
    assert_close(*scores)


def test_the_line_and_the_document_say_that_scores_are_logits(run: Run, logits: pd.DataFrame) -> None:
    assert "score 'p' (logits); 1 is the positive class" in run("evaluate z.csv --input logit").output
    assert json.loads(run("evaluate z.csv --input logit --json").output)["input"] == "logit"
    refused = run("evaluate z.csv")
    assert refused.exit_code == 2
    assert "If these are logits, pass --input logit" in refused.output


def test_decision_values_take_a_calibrator(run: Run, logits: pd.DataFrame) -> None:
    for command in ("evaluate z.csv", "audit z.csv --features g", "report z.csv -o r.html", "monitor z.csv"):
        refused = run(f"{command} --input score")
        assert refused.exit_code == 2
        assert "Fit a calibrator to them, by calibrant fit --input score -o calibrator.json" in refused.output
    assert run("fit z.csv --input score --method sigmoid -o c.json").exit_code == 0
    found = run("evaluate z.csv --input score --calibrator c.json --json")
    assert found.exit_code == 0
    assert (
        json.loads(found.output)["scores"]
        == json.loads(run("evaluate z.csv --calibrator c.json --json").output)["scores"]
    )
    refused = run("evaluate z.csv --input logit --calibrator c.json")
    assert "--input logit, but c.json was fitted to scores of input 'score'. Leave --input out" in refused.output
    assert "'logits'" in run("evaluate z.csv --input logits").output


def test_missing_and_unusable_logits_are_refused_where_they_stand(run: Run, logits: pd.DataFrame) -> None:
    frame = pd.read_csv("z.csv")
    frame.loc[7, "p"] = np.nan
    frame.to_csv("gap.csv", index=False)
    assert "missing value" in (refused := run("evaluate gap.csv --input logit")).output
    assert refused.exit_code == 2
    done = json.loads(run("evaluate gap.csv --input logit --missing skip --json").output)
    assert (done["n"], done["n_skipped"]) == (599, 1)
    several = pd.read_parquet("zs.parquet")
    several.loc[5, "s_1"] = np.nan
    several.to_parquet("gaps.parquet")
    refused = run("evaluate gaps.parquet --score s_* --input logit")
    assert "column 's_1' of gaps.parquet" in refused.output
    frame["p"] = frame["p"].astype(object)
    frame.loc[7, "p"] = "high"
    frame.to_csv("text.csv", index=False)
    assert "'high' is not a number" in run("evaluate text.csv --input logit").output


def test_logits_in_single_precision_are_measured_in_double(run: Run, logits: pd.DataFrame) -> None:
    table = pa.table({"y": logits["y"].to_numpy(), "p": pa.array(logits["z"].to_numpy(), pa.float32())})
    pq.write_table(table, "f32.parquet")
    found = json.loads(run("evaluate f32.parquet --input logit --json").output)["scores"]["brier"]["value"]
    p = scipy.special.expit(table["p"].to_numpy().astype(np.float64))
    assert found == pytest.approx(float(np.mean((p - logits["y"]) ** 2)), rel=1e-12)
