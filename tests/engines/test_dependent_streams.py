"""Clusters and overlapping labels that span batches, files and partitions: the figures of rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm, t

import calibrant as cb
from calibrant.dependent_rows import DependenceSums, SumsBuilder, design_effect, gaps
from calibrant.engines import evaluate
from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.metrics import evaluate_groups, measured_rows
from calibrant.numerics import kish_size, softmax
from calibrant.results import Scores
from calibrant.tables import formats

N = 4_000
SHARED = {
    "clusters": {"cluster": "patient"},
    "overlapping labels": {"time": "day", "label_end": "known"},
    "both, with weights": {"cluster": "patient", "time": "day", "label_end": "known", "weight": "w"},
}


def rows() -> pa.Table:
    """Return rows of patients who share part of their chance, in no order; days repeat, and labels take ten."""
    rng = np.random.default_rng(2)
    patient = rng.integers(0, 200, N)
    p = rng.random(N)
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-(np.log(p / (1.0 - p)) + rng.normal(size=200)[patient])))
    day = np.datetime64("2024-01-01T00:00:00") + np.arange(N) // 3 * np.timedelta64(1, "h")
    columns = {"p": p, "y": y.astype(int), "patient": [f"patient {k}" for k in patient], "w": rng.exponential(size=N)}
    columns |= {"day": day, "known": day + np.timedelta64(10, "h"), "town": np.array(list("ABC"))[patient % 3]}
    z = softmax(rng.normal(size=(N, 3)))
    return pa.table(
        {**columns, **{f"c{k}": z[:, k] for k in range(3)}, "label": (z.cumsum(1) < rng.random((N, 1))).sum(1)}
    )


def in_memory(table: pa.Table, shared: dict[str, str]) -> dict[str, Any]:
    names = {"weight": "sample_weight"}
    return {names.get(what, what): table[column].to_numpy() for what, column in shared.items()}


def same(found: Scores, expected: Scores, rel: float = 1e-8) -> None:
    for name, score in expected.items():
        got = found[name]
        for part in ("value", "low", "high", "n_eff"):
            wanted = getattr(score, part)
            assert getattr(got, part) == pytest.approx(wanted, rel=rel, abs=1e-9, nan_ok=True), (name, part)
        assert got.method == score.method
    assert found.verdict == expected.verdict
    assert found.test is not None
    assert expected.test is not None
    assert found.test.parts == pytest.approx(expected.test.parts, rel=1e-5, abs=1e-12)


def folder(path: Path) -> Any:
    for k, start in enumerate(range(0, N, 1_300)):
        pq.write_table(rows().slice(start, 1_300), path / f"{k}.parquet", row_group_size=400)
    return path


def text(path: Path) -> Any:
    pc.write_csv(rows(), path / "t.csv")
    return path / "t.csv"


@pytest.mark.parametrize("make", [lambda _: rows(), folder, text], ids=["table", "folder", "chunks of text"])
@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_figures_are_those_of_rows_in_memory(
    make: Callable[[Path], Any], shared: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", 20_000)
    table = rows()
    source, more = make(tmp_path), in_memory(table, shared)
    expected = cb.evaluate(table["y"], table["p"], **more)
    assert "design effect" in expected["mean_gap"].method
    same(evaluate(source, **shared), expected)


@pytest.mark.slow
@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("most", [1 << 22, 10_000], ids=["held", "in passes"])
def test_so_are_those_of_several_classes(shared: dict[str, str], most: int) -> None:
    table = rows()
    z = np.column_stack([table[f"c{k}"] for k in range(3)])
    expected = cb.evaluate(table["label"], z, **in_memory(table, shared))
    found = evaluate(table, score="c*", label="label", max_distinct=most, **shared)
    if most > 3 * N:
        same(found, expected)
    for name in ("brier", "log_loss", "accuracy"):
        assert found[name].n_eff == pytest.approx(expected[name].n_eff, rel=1e-3)
        assert found[name].low == pytest.approx(expected[name].low, rel=1e-3)
    assert found["class_gap"].n_eff == pytest.approx(expected["class_gap"].n_eff, rel=1e-3)


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_groups_have_effects_of_their_own(shared: dict[str, str]) -> None:
    table = rows()
    found = evaluate(table, group="town", **shared)
    expected = evaluate_groups(table["y"], table["p"], groups=table["town"], **in_memory(table, shared))
    for scores, wanted in zip(
        (found.overall, *found.groups.values()), (expected.overall, *expected.groups.values()), strict=True
    ):
        same(scores, wanted)


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_a_report_has_the_scores_of_evaluate(shared: dict[str, str]) -> None:
    table = rows()
    expected = evaluate(table, **shared)
    of_rows = cb.Report(table["y"], table["p"], **in_memory(table, shared))
    for report in (cb.Report.from_source(table, **shared), of_rows):
        found = report.summary()
        assert found["data"]["design_effect"] > 1.0
        for name, score in expected.items():
            assert found["scores"][name]["low"] == pytest.approx(score.low, rel=1e-8)
            assert found["scores"][name]["method"] == score.method


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 7), st.booleans(), st.integers(1, 3)), min_size=2, max_size=60
    ),
    st.lists(st.integers(0, 60), max_size=4),
)
@settings(max_examples=50)
def test_sums_of_parts_are_sums_of_all_wherever_they_are_cut(found: list[tuple[int, ...]], cuts: list[int]) -> None:
    cluster, time, y, w = (np.array(column) for column in zip(*found, strict=True))
    p = np.linspace(0.1, 0.9, y.size)
    known = time + 2
    rows = measured_rows(y, p, sample_weight=w, cluster=cluster, time=time, label_end=known, classes=[False, True])
    whole = SumsBuilder(gaps).add(rows).sums()
    ends = sorted({0, rows.n_rows, *(cut for cut in cuts if cut < rows.n_rows)})
    parts = [rows.take(np.arange(a, b)) for a, b in pairwise(ends)]
    joined = DependenceSums.joined([SumsBuilder(gaps).add(part).sums() for part in parts])
    for got, wanted in ((joined.clusters, whole.clusters), (joined.times, whole.times)):
        assert got is not None
        assert wanted is not None
        order, of_all = np.argsort(got.keys), np.argsort(wanted.keys)
        assert np.array_equal(got.keys[order], wanted.keys[of_all])
        assert np.allclose(got.weight[order], wanted.weight[of_all])
        assert np.allclose(got.figures[order], wanted.figures[of_all])
    assert np.array_equal(joined.times.until, whole.times.until)  # type: ignore[union-attr]
    assert np.allclose(joined.squares, whole.squares)


def test_the_effect_of_clusters_is_the_ratio_of_the_sandwich_to_independent_rows() -> None:
    """Of a mean: the variance of the sums over clusters, with G / (G - 1), over that of independent rows."""
    table = rows()
    gap = table["p"].to_numpy() - table["y"].to_numpy()
    _, cluster = np.unique(table["patient"], return_inverse=True)
    away = gap - gap.mean()
    sums = np.bincount(cluster, away)
    wanted = (200 / 199) * np.sum(sums**2) / np.sum(away**2)
    assert design_effect(measured_rows(table["y"], table["p"], cluster=cluster)) == pytest.approx(wanted, rel=1e-12)
    summary = cb.Report.from_source(table, cluster="patient").summary()
    few = (t.ppf(0.975, kish_size(np.bincount(cluster).astype(float)) - 1.0) / norm.ppf(0.975)) ** 2
    assert summary["data"]["design_effect"] == pytest.approx(wanted * few, rel=1e-10)


def test_what_can_not_be_summed_is_said(tmp_path: Path) -> None:
    table = rows()
    with pytest.raises(InvalidInputError, match=r"the table \(patient\) shows too many clusters, .* max_distinct"):
        evaluate(table, cluster="patient", max_distinct=100)
    with pytest.raises(InvalidInputError, match="time and label_end go together"):
        evaluate(table, time="day")
    with pytest.raises(InvalidInputError, match=r"can be read once only, and this takes more than one pass"):
        evaluate(table.to_reader(), cluster="patient")
    late = table.set_column(
        table.column_names.index("known"), "known", pa.array(np.full(N, np.datetime64("2020-01-01T00:00:00")))
    )
    with pytest.raises(InvalidInputError, match=r"column 'known' of the table row 0: .* is before the row's time"):
        evaluate(late, time="day", label_end="known")
    for k, names in enumerate((["a", "b"], [1, 2])):
        pq.write_table(pa.table({"p": [0.2, 0.7], "y": [0, 1], "patient": names}), tmp_path / f"{k}.parquet")
    with pytest.raises(CalibrantError, match="mixes kinds of groups: 1 here, 'a' before"):
        evaluate(tmp_path, cluster="patient")


def test_whole_numbers_and_others_are_the_same_clusters_and_times(tmp_path: Path) -> None:
    """A part of a text file without a fraction is read as whole numbers."""
    rng = np.random.default_rng(0)
    p = rng.random(400)
    day = np.arange(400) // 2
    columns = {"p": p, "y": (rng.random(400) < p).astype(int), "c": np.arange(400) % 40, "t": day, "e": day + 3}
    pq.write_table(pa.table({name: v[:200] for name, v in columns.items()}), tmp_path / "0.parquet")
    second = {name: v[200:].astype(float) if name in "cte" else v[200:] for name, v in columns.items()}
    pq.write_table(pa.table(second), tmp_path / "1.parquet")
    for shared in ({"cluster": "c"}, {"time": "t", "label_end": "e"}):
        same(evaluate(tmp_path, **shared), evaluate(pa.table(columns), **shared))


@pytest.mark.slow
def test_partitions_of_spark_share_clusters(spark: Any) -> None:
    table = rows()
    frame = spark.createDataFrame(table.drop_columns(["day", "known"]).append_column("t", pa.array(np.arange(N) // 3)))
    frame = frame.selectExpr("*", "t + 10 AS e").repartition(3)
    lacking = frame.selectExpr("*", "CASE WHEN t % 50 = 0 THEN NULL WHEN t % 50 = 1 THEN double('NaN') ELSE p END AS q")
    same(evaluate(frame, cluster="patient"), evaluate(table, cluster="patient"))
    times = {"time": "t", "label_end": "e", "group": "town"}
    local = pa.table(frame.toArrow())
    same(evaluate(frame, **times).overall, evaluate(local, **times).overall)
    found = evaluate(lacking, score="q", cluster="patient", missing="skip")
    kept = np.arange(N) // 3 % 50 > 1
    same(found, evaluate(table.filter(kept), cluster="patient"))
    assert found.n_skipped == N - kept.sum()
