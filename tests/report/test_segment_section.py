"""The section on segments: the figures of the audit, the same from Python and from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.cli import data
from calibrant.cli.app import main


@pytest.fixture(scope="module")
def rows() -> Any:
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame({"p": rng.beta(1.0, 2.0, n), "age": rng.integers(18, 80, n).astype(float)})
    frame["region"], frame["code"] = rng.choice(["north", "south"], n), rng.integers(0, 9, n)
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame["y"] = (rng.random(n) < np.where(frame.region == "north", frame.p**1.8, frame.p)).astype(int)
    return frame


def test_figures_are_those_of_the_audit(rows: Any) -> None:
    features = rows[["age", "region", "code"]]
    options: dict[str, Any] = {"categorical": ["code"], "depth": 1, "min_rows": 80}
    report = cb.Report(rows.y, rows.p, features=features, level=0.9, **options)
    found = cb.metrics.audit(rows.y, rows.p, features=features, level=0.9, **options)
    section = report.summary()["segments"]
    assert section["verdict"] == found.verdict
    assert [each["segment"] for each in section["rows"]] == [f.label for f in found.findings[:12]]
    assert section["rows"][0]["sigma"] == found.findings[0].sigma
    assert section["points"]["sigma"] == [f.sigma for f in found.findings]
    page, text = report.html(), report.markdown()
    assert "## Segments" in text
    assert f"The worst 12 of {len(found.findings)} segments; those that are off are bold." in text
    assert "| region = north |" in text
    assert '<title id="segments' in page
    assert json.loads(report.json())["segments"]["n_off"] == len(found.off)


def test_without_features_nothing_is_said_of_segments(rows: Any) -> None:
    report = cb.Report(rows.y, rows.p)
    assert report.summary()["segments"] is None
    assert "Segments" not in report.markdown()


def test_calibrated_predictions_have_no_bold_segment() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(1000)
    text = cb.Report(rng.random(1000) < p, p, features={"g": np.arange(1000) % 4}).markdown()
    assert "All segments, the worst first. Gap" in text
    assert "No segment found whose predictions are off, of 5 segments" in text


def test_the_command_gives_the_same_section(rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows.to_csv("rows.csv", index=False)

    def run(line: str) -> Any:
        return CliRunner().invoke(main, line.split())

    line = "report rows.csv --features age,region,code --categorical code --depth 1 --min-rows 80"
    assert run(f"{line} -o r.json").exit_code == 0
    features = rows[["age", "region", "code"]]
    report = cb.Report(rows.y, rows.p, features=features, categorical=["code"], depth=1, min_rows=80)
    found = json.loads(Path("r.json").read_text("utf-8"))["segments"]
    assert found["verdict"] == report.summary()["segments"]["verdict"]
    assert run(f"{line} --group region -o r.html").exit_code == 0
    refused = run("report rows.csv --versus code --features age -o r.html")
    assert (refused.exit_code, "--features" in refused.output) == (2, True)
    monkeypatch.setattr(data, "MANY", 100)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    refused = run(f"{line} -o r.html")
    assert (refused.exit_code, "segments are found among rows in memory" in refused.output) == (2, True)


def test_segments_before_a_calibrator_stand_beside_those_after_it(rows: Any) -> None:
    features, half = rows[["age", "region"]], len(rows) // 2
    fitted = cb.SegmentCalibrator().fit(rows.p[:half], rows.y[:half], features=features[:half])
    held = {"y": rows.y[half:], "features": features[half:]}
    report = cb.Report(held["y"], rows.p[half:], calibrator=fitted, features=held["features"])
    before = cb.metrics.audit(held["y"], rows.p[half:], features=held["features"])
    predicted = fitted.predict_proba(rows.p[half:], features=held["features"])
    after = cb.metrics.audit(held["y"], predicted, features=held["features"])
    section = report.summary()["segments"]
    assert section["verdict"] == after.verdict
    assert section["before"]["verdict"] == before.verdict
    sigmas = {each.label: each.sigma for each in after.findings}
    for found, finding in zip(section["before"]["rows"], before.findings, strict=False):
        assert (found["before"]["segment"], found["before"]["sigma"]) == (finding.label, finding.sigma)
        assert found["after"]["sigma"] == sigmas[finding.label]
    text = report.markdown()
    n = len(before.off)
    assert n > 1
    assert f"{n} segments were off before, {'none are' if not after.off else len(after.off)} after." in text
    assert "| Segment | Rows | Error, s.d., before | Error, s.d., after | Gap, before | Gap, after |" in text
    assert ("after calibration; those that are off are bold" in text) == bool(after.off)
    assert "before and after calibration" in report.html()
