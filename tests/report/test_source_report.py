"""The report of any source: the one of memory where scores fit, and one that says how far it is off where not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.errors import InvalidInputError, UnknownNameError

pytestmark = pytest.mark.usefixtures("unrendered")


def rows(n: int = 20_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 3.0, n)
    city = rng.choice(["Bonn", "Oslo", "Rome"], n)
    return {"p": p, "y": (rng.random(n) < p**1.4).astype(int), "city": city, "w": rng.integers(1, 4, n).astype(float)}


def assert_alike(found: Any, wanted: Any, *, rel: float, where: str = "") -> None:
    """Compare documents, numbers to a relative tolerance."""
    assert type(found) is type(wanted) or isinstance(found, (int, float)), where
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for key in wanted:
            assert_alike(found[key], wanted[key], rel=rel, where=f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            assert_alike(a, b, rel=rel, where=f"{where}[{i}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=rel, abs=rel), where
    else:
        assert found == wanted, where


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [None, 0])
def test_where_scores_fit_it_is_the_report_of_memory(tmp_path: Path, weighted: bool, positive: int | None) -> None:
    columns = rows()
    for i in range(4):
        part = {name: column[i::4] for name, column in columns.items()}
        pq.write_table(pa.table(part), tmp_path / f"{i}.parquet")
    weight = columns["w"] if weighted else None
    found = cb.Report.from_source(tmp_path, weight="w" if weighted else None, group="city", pos_label=positive)
    wanted = cb.Report(
        columns["y"],
        columns["p"],
        sample_weight=weight,
        groups=columns["city"],
        group_name="city",
        pos_label=positive,
        source=str(tmp_path),
        score_names=["p"],
        label_name="y",
    )
    a, b = found.summary(), wanted.summary()
    assert sorted(a) == sorted(b)
    for key in b:
        if weighted and key == "groups":  # a summary keeps the weights of a score's rows by their sums
            assert_alike(a[key], b[key], rel=1e-6, where=key)
        else:
            assert_alike(
                dict(sorted(a[key].items())) if isinstance(a[key], dict) else a[key],
                dict(sorted(b[key].items())) if isinstance(b[key], dict) else b[key],
                rel=1e-8,
                where=key,
            )


@pytest.mark.slow
def test_beyond_memory_its_figures_are_close_and_it_says_how_far_off() -> None:
    columns = rows()
    table = pa.table(columns)
    report = cb.Report.from_source(lambda: table.to_reader(1_500), group="city", max_distinct=1_000)
    found = report.summary()
    wanted = cb.Report(columns["y"], columns["p"], groups=pd.Series(columns["city"], name="city")).summary()
    assert found["verdict"]["headline"] == wanted["verdict"]["headline"]
    for name, score in wanted["scores"].items():
        assert found["scores"][name]["value"] == pytest.approx(score["value"], abs=2e-4), name
    for a, b in zip(found["curve"]["bins"], wanted["curve"]["bins"], strict=True):
        assert a["observed"] == pytest.approx(b["observed"], abs=5e-3)
        assert a["n"] == pytest.approx(b["n"], abs=30)
    assert [row["group"] for row in found["groups"]["rows"]] == [row["group"] for row in wanted["groups"]["rows"]]
    (note,) = found["data"]["notes"]
    assert "figures are of cells of neighbouring scores (scores moved by at most" in note
    assert note in report.html().replace("&#39;", "'")
    assert "figures are of cells" in report.markdown()
    assert json.loads(report.json())["data"]["notes"] == [note]


@pytest.mark.slow
def test_several_classes_that_fit_are_reported_as_in_memory_and_others_say_what_is_left_out() -> None:
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.7, 1.0, 1.3], 9_000)
    y = (rng.random(9_000)[:, None] > (P**1.3 / (P**1.3).sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    table = pa.table({**{f"p{k}": P[:, k] for k in range(3)}, "y": np.array(["a", "b", "c"])[y]})
    wanted = cb.Report(np.array(["a", "b", "c"])[y], P).summary()
    held = cb.Report.from_source(table, score="p*").summary()
    assert_alike(held["scores"], wanted["scores"], rel=1e-12)
    assert held["classes"] == wanted["classes"]
    report = cb.Report.from_source(table, score="p*", max_distinct=3_000)
    found = report.summary()
    assert found["verdict"]["headline"] == wanted["verdict"]["headline"]
    assert found["classes"] is None
    assert {curve["label"] for curve in found["class_curves"]} == {"a", "b", "c"}
    assert found["scores"]["brier"]["value"] == pytest.approx(wanted["scores"]["brier"]["value"], rel=1e-12)
    assert "Left out" in report.html()
    assert "Left out" in report.markdown()


def test_what_a_source_lacks_is_said() -> None:
    columns = rows(500)
    with pytest.raises(UnknownNameError, match="has no column 'q'"):
        cb.Report.from_source(columns, score="q")
    with pytest.raises(UnknownNameError, match="pos_label"):
        cb.Report.from_source(columns, pos_label=7)
    with pytest.raises(InvalidInputError, match="pos_label=1 is for one column"):
        cb.Report.from_source({"a": columns["p"], "b": 1 - columns["p"], "y": columns["y"]}, score="[ab]", pos_label=1)
