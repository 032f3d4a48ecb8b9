"""Rows that lack a value: skipping them is taking them out first; keeping them changes no other row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidWeightError,
)
from calibrant.tables import formats, read_columns

N = 600


def whole(seed: int = 0) -> pa.Table:
    """Return rows of which every tenth lacks something: score, label, weight, cluster or a time."""
    rng = np.random.default_rng(seed)
    p = rng.random(N)
    y = (rng.random(N) < p**2).astype(float)
    columns: dict[str, Any] = {
        "p": p,
        "y": y,
        "w": rng.random(N),
        "patient": np.arange(N) // 6,
        "city": np.arange(N) % 3,
    }
    columns |= {"day": np.arange(N), "known": np.arange(N) + 9}
    arrays = {}
    for k, (name, values) in enumerate(columns.items()):
        lacks = (np.arange(N) % 10 == 3) & (np.arange(N) // 10 % len(columns) == k)
        arrays[name] = pa.array(values, mask=lacks)
    p = arrays["p"].to_numpy(zero_copy_only=False).copy()  # NaN, and nulls
    return pa.table({**arrays, "p": pa.array(p, mask=np.arange(N) == 3)})


def complete(table: pa.Table, *columns: str) -> pa.Table:
    return pa.table(table.select(list(columns)).to_pandas().dropna())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": "w"},
        {"group": "city"},
        {"cluster": "patient"},
        {"time": "day", "label_end": "known"},
        {"cluster": "patient", "weight": "w", "group": "city"},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_skipping_is_measuring_the_table_without_these_rows(options: dict[str, str]) -> None:
    table = whole()
    kept = complete(table, "p", "y", *options.values())
    found = cb.engines.evaluate(table, missing="skip", **options)
    expected = cb.engines.evaluate(kept, **options)
    overall = found.overall if "group" in options else found
    assert overall.n_skipped == N - kept.num_rows >= 18
    overall.n_skipped = 0
    assert found.to_dict() == expected.to_dict()


def test_fits_and_summaries_without_these_rows_say_how_many_they_left_out() -> None:
    table = whole()
    kept = complete(table, "p", "y")
    with pytest.warns(DataWarning, match=r"the table: 18 rows left out for missing values: 9 in column 'p', 9 in"):
        fitted = cb.engines.fit(cb.IsotonicCalibrator(), table, missing="skip")
    p = np.linspace(0.0, 1.0, 50)
    assert np.array_equal(fitted.predict_proba(p), cb.engines.fit(cb.IsotonicCalibrator(), kept).predict_proba(p))
    with pytest.warns(DataWarning, match="18 rows left out"):
        summary = cb.engines.summarise(table, missing="skip", exact=False)
    assert summary.total_weight == kept.num_rows


def test_a_report_says_how_many_rows_it_left_out() -> None:
    table = whole()
    report = cb.Report.from_source(table, missing="skip", weight="w")
    assert report.summary()["data"]["n_skipped"] == 27
    assert "27 rows, for missing values" in report.html()
    assert (
        report.summary()["scores"]
        == cb.Report.from_source(complete(table, "p", "y", "w"), weight="w").summary()["scores"]
    )


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        ({"p": [0.5, None, 0.5, np.nan]}, InvalidScoreError, r"column 'p' of the table row 1: missing value \(2 of 4"),
        ({"y": [0, None, 1, 1]}, InvalidLabelError, r"column 'y' of the table row 1: missing label \(1 of 4 rows\)"),
        ({"w": [1.0, np.nan, 1.0, 1.0]}, InvalidWeightError, r"column 'w' of the table row 1: missing value"),
        ({"t": [1, 2, None, 4]}, CalibrantError, r"column 't' of the table row 2: missing value"),
        ({"c": ["a", None, "b", "b"]}, CalibrantError, r"column 'c' of the table row 1: missing value"),
    ],
)
def test_by_default_it_is_an_error_that_names_the_option(
    columns: dict[str, Any], kind: type[Exception], text: str
) -> None:
    good = {"p": [0.5] * 4, "y": [0, 1, 1, 0], "w": [1.0] * 4, "t": range(4), "e": range(4), "c": list("aabb")}
    options = {"weight": "w", "time": "t", "label_end": "e", "cluster": "c"}
    with pytest.raises(kind, match=text + r".* Pass --missing skip \(missing='skip' in Python\)"):
        cb.engines.evaluate(pa.table({**good, **columns}), **options)


def test_what_is_wrong_with_other_rows_is_still_an_error_that_says_how_rows_are_counted() -> None:
    rows = {"p": [None, 0.5, 1.5, 0.5], "y": [1, 0, 1, None]}
    with pytest.raises(InvalidProbabilityError, match=r"column 'p' of the complete rows of the columns row 1: 1\.5"):
        cb.engines.evaluate(rows, missing="skip")
    with pytest.raises(CalibrantError, match="each of the 2 rows of the columns lacks a value: 1 in column 'p', 1 in"):
        cb.engines.evaluate({"p": [None, 0.5], "y": [1, None]}, missing="skip")
    with pytest.raises(CalibrantError, match="unknown value of missing: 'keep'"):
        cb.engines.evaluate(rows, missing="keep")  # type: ignore[call-overload]


# --- apply ---------------------------------------------------------------------------------------------------------

FITTED = cb.SigmoidCalibrator().fit([0.1, 0.2, 0.6, 0.9] * 5, [0, 0, 1, 1] * 5)
GAPS = pa.table({"id": range(8), "p": [0.1, None, 0.3, float("nan"), 0.5, 0.6, None, 0.8], "note": list("abcdefgh")})
HAS = [0, 2, 4, 5, 7]


def written(folder: Path, name: str) -> Path:
    """Write the table as a file, of which CSV and JSON lines have quirks that must stay."""
    path = folder / name
    if name.endswith(".csv"):
        lines = [
            f'{i}, {"" if p is None or p != p else p},"{n}"' for i, p, n in zip(*GAPS.to_pydict().values(), strict=True)
        ]
        path.write_bytes(("id,p,note\r\n" + "\r\n".join(lines).replace(", ", ",")).encode())
    elif name.endswith(".jsonl"):
        rows = [{k: v for k, v in row.items() if v == v and v is not None} for row in GAPS.to_pylist()]
        path.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    else:
        pq.write_table(GAPS, path, row_group_size=3)
    return path


@pytest.mark.parametrize("chunk", [1 << 22, 64], ids=["one chunk", "many chunks"])
@pytest.mark.parametrize("target", ["out.csv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
def test_kept_rows_have_no_probability_and_skipped_ones_are_not_there(
    name: str, target: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", chunk)
    source, out = written(tmp_path, name), tmp_path / target
    expected = FITTED.predict_proba(GAPS["p"].to_numpy()[HAS])
    with pytest.raises(InvalidScoreError, match=r"column 'p' of .* row \d: missing value .* Pass --missing keep"):
        cb.engines.apply(FITTED, source, out, score="p")
    assert not out.exists()
    done = cb.engines.apply(FITTED, source, out, score="p", missing="keep")
    assert (done.n_rows, done.n_missing) == (8, 3)
    kept = read_columns(out)
    assert kept["id"].to_pylist() == list(range(8))
    assert np.flatnonzero(kept["p_calibrated"].is_valid()).tolist() == HAS
    assert kept["p_calibrated"].drop_null().to_pylist() == expected.tolist()
    done = cb.engines.apply(FITTED, source, out, score="p", missing="skip")
    assert (done.n_rows, done.n_missing) == (5, 3)
    skipped = read_columns(out)
    assert skipped["id"].to_pylist() == HAS
    assert skipped["p_calibrated"].to_pylist() == expected.tolist()


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_other_bytes_of_text_stay_and_lines_that_are_skipped_leave_no_trace(name: str, tmp_path: Path) -> None:
    source, out = written(tmp_path, name), tmp_path / f"out{Path(name).suffix}"
    before = source.read_bytes().splitlines(keepends=True)
    is_csv = name.endswith(".csv")
    cb.engines.apply(FITTED, source, out, score="p", missing="keep")
    after = out.read_bytes().splitlines(keepends=True)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        text, end = old.rstrip(b"\r\n"), old[len(old.rstrip(b"\r\n")) :]
        assert new.startswith(text if is_csv else text[:-1])
        assert new.endswith(end)
    assert after[2].rstrip() == (b'1,,"b",' if is_csv else b'{"id": 1, "note": "b", "p_calibrated": null}')
    cb.engines.apply(FITTED, source, out, score="p", missing="skip")
    rows = [old for old in before if old.strip() and not any(f'"{n}"'.encode() in old for n in "bdg")]
    left = [new for new in out.read_bytes().splitlines(keepends=True) if new.strip()]
    assert len(left) == len(rows)
    for old, new in zip(rows, left, strict=True):
        assert new.startswith(old.rstrip(b"\r\n")[: None if is_csv else -1])


def test_rows_without_a_score_in_one_of_many_columns_or_without_a_group_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    P, city = rng.dirichlet([1.0, 1.0, 1.0], 300), rng.choice(["Bonn", "Rome"], 300)
    y = (P.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    several = cb.TemperatureCalibrator().fit(P, y)
    table = pa.table({"p0": pa.array(P[:, 0], mask=np.arange(300) == 5), "p1": P[:, 1], "p2": P[:, 2]})
    cb.engines.apply(several, table, tmp_path / "o.parquet", score="p*", missing="keep")
    found = read_columns(tmp_path / "o.parquet", ["p_calibrated_0", "p_calibrated_1", "p_calibrated_2"])
    assert [column.null_count for column in found.columns] == [1, 1, 1]
    assert np.allclose(np.column_stack(found.drop_null().columns), np.delete(several.predict_proba(P), 5, axis=0))
    grouped = cb.GroupedCalibrator("sigmoid").fit(P[:, 0], y == 0, groups=city)
    by_group = pa.table({"p": P[:, 0], "city": pa.array(city, mask=np.arange(300) == 7)})
    done = cb.engines.apply(grouped, by_group, tmp_path / "g.parquet", score="p", group="city", missing="skip")
    assert (done.n_rows, done.n_missing) == (299, 1)


def test_a_file_of_nothing_but_missing_scores_keeps_its_rows(tmp_path: Path) -> None:
    for name, text in (("t.csv", "id,p\n1,\n2,\n"), ("t.jsonl", '{"id": 1}\n{"id": 2, "p": null}\n')):
        (tmp_path / name).write_text(text)
        columns = {"score": "p"}
        if name == "t.csv":
            assert cb.engines.apply(FITTED, tmp_path / name, tmp_path / "o.csv", missing="keep", **columns).n_rows == 2
            assert (tmp_path / "o.csv").read_text() == "id,p,p_calibrated\n1,,\n2,,\n"
        else:
            assert (
                cb.engines.apply(FITTED, tmp_path / name, tmp_path / "o.jsonl", missing="skip", **columns).n_rows == 0
            )
            assert (tmp_path / "o.jsonl").read_text() == ""


def test_parts_of_a_folder_count_and_don_t_mix_choices(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for k in (0, 4):
        pq.write_table(GAPS.slice(k, 4), tmp_path / "in" / f"{k}.parquet")
    done = cb.engines.apply(FITTED, tmp_path / "in", tmp_path / "out", score="p", missing="skip")
    assert (done.n_rows, done.n_parts, done.n_missing) == (5, 2, 3)
    with pytest.raises(CalibrantError, match="parts made with another choice for missing values"):
        cb.engines.apply(FITTED, tmp_path / "in", tmp_path / "out", score="p", missing="keep")


def test_what_is_wrong_with_a_row_between_missing_ones_is_said(tmp_path: Path) -> None:
    pc.write_csv(pa.table({"p": [0.5, None, 1.5], "y": [0, 0, 0]}), tmp_path / "t.csv")
    with pytest.raises(InvalidProbabilityError, match=r"row 1: 1\.5 .*without those that lack a value"):
        cb.engines.apply(FITTED, tmp_path / "t.csv", tmp_path / "o.csv", score="p", missing="keep")
