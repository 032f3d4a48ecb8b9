"""Columns added to files: same rows, same order, all else as it was."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import InvalidInputError, InvalidScoreError, UnknownNameError
from calibrant.numerics import FloatArray
from calibrant.tables import Applied, NewColumns, append_columns, formats, read_columns
from calibrant.validation import as_scores

Append = Callable[..., bytes]


def third(found: pa.Table) -> FloatArray:
    values = as_scores(found.column(0), name="p").values
    result: FloatArray = values / 3.0
    return result


@pytest.fixture(params=[1 << 22, 5], ids=["one chunk", "small chunks"])
def append(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Append:
    monkeypatch.setattr(formats, "CHUNK_BYTES", request.param)

    def run(data: bytes, *, suffix: str = ".csv", column: str = "q") -> bytes:
        source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
        source.write_bytes(data)
        append_columns(source, target, columns=NewColumns(["p"], [column], third))
        return target.read_bytes()

    return run


# --- delimited text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"p\n0.75\n1.5\n", b"p,q\n0.75,0.25\n1.5,0.5\n"),
        (b"p,id\r\n0.75,007\r\n1.50,1.10\r\n", b"p,id,q\r\n0.75,007,0.25\r\n1.50,1.10,0.5\r\n"),
        (b"p,x\n0.75, a \n", b"p,x,q\n0.75, a ,0.25\n"),
        (b'x,p\n"a, ""b""\r\nc",0.75\n', b'x,p,q\n"a, ""b""\r\nc",0.75,0.25\n'),
        (b'"x","p"\n"1","0.75"\n', b'"x","p",q\n"1","0.75",0.25\n'),
        (b"\xef\xbb\xbfp,x\n0.75,\n", b"\xef\xbb\xbfp,x,q\n0.75,,0.25\n"),
        (b'\xef\xbb\xbf"p",x\n0.75,1', b'\xef\xbb\xbf"p",x,q\n0.75,1,0.25'),
        (b"\n\np,x\n\n0.75,1\n\n\n1.5,2\n\n", b"\n\np,x,q\n\n0.75,1,0.25\n\n\n1.5,2,0.5\n\n"),
        (b"p,x\n0.75,1\n1.5,2", b"p,x,q\n0.75,1,0.25\n1.5,2,0.5"),
        (b"p,x\r0.75,1\r1.5,2\r", b"p,x,q\r0.75,1,0.25\r1.5,2,0.5\r"),
        (b'p,size\n0.75,5" pipe\n1.5,6"\n', b'p,size,q\n0.75,5" pipe,0.25\n1.5,6",0.5\n'),
        (b"p,x\n0.75,\xff\xfe\x00\n", b"p,x,q\n0.75,\xff\xfe\x00,0.25\n"),
        (b"p,x,x\n0.75,1,2\n", b"p,x,x,q\n0.75,1,2,0.25\n"),
        (b"p\n", b"p,q\n"),
        (b"p", b"p,q"),
        (b"p,x\n3e-300,1\n 0.75 ,2\n", b"p,x,q\n3e-300,1,1e-300\n 0.75 ,2,0.25\n"),
    ],
)
def test_csv_keeps_every_byte(append: Append, before: bytes, after: bytes) -> None:
    assert append(before) == after


def test_tabs_separate_the_new_column_of_a_tsv(append: Append) -> None:
    assert append(b"p\tx,y\n0.75\ta,b\n", suffix=".tsv") == b"p\tx,y\tq\n0.75\ta,b\t0.25\n"


def test_name_is_quoted_where_it_must_be(append: Append) -> None:
    assert append(b"p\n0.75\n", column='q,"1"') == b'p,"q,""1"""\n0.75,0.25\n'


FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
#: Python's csv leaves a carriage return unquoted where the lines end otherwise and not all text is quoted.
STYLES = [
    (csv.QUOTE_MINIMAL, "\r\n"),
    (csv.QUOTE_ALL, "\n"),
    (csv.QUOTE_ALL, "\r\n"),
    (csv.QUOTE_NONNUMERIC, "\n"),
    (csv.QUOTE_NONNUMERIC, "\r\n"),
]


def written(row: tuple[object, ...], quoting: int) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\r\n").writerow(row)  # type: ignore[arg-type]
    return text.getvalue().removesuffix("\r\n").encode()


@given(
    rows=st.lists(st.tuples(FIELD, st.floats(0.0, 1.0), FIELD), max_size=8),
    style=st.sampled_from(STYLES),
    chunk=st.integers(1, 60),
    ends=st.booleans(),
)
def test_random_table_gets_its_column_behind_bytes_that_stay(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, float, str]],
    style: tuple[int, str],
    chunk: int,
    ends: bool,
) -> None:
    quoting, ending = style
    lines = [written(row, quoting) for row in [("a", "p", "b"), *rows]]
    last = ending.encode() if ends else b""
    path = tmp_path_factory.getbasetemp() / "random.csv"
    path.write_bytes(ending.encode().join(lines) + last)
    kept, formats.CHUNK_BYTES = formats.CHUNK_BYTES, chunk
    try:
        assert append_columns(path, path, columns=NewColumns(["p"], ["q"], third)).n_rows == len(rows)
    finally:
        formats.CHUNK_BYTES = kept
    added = ["q", *(repr(p / 3.0) for _, p, _ in rows)]
    expected = [line + b"," + field.encode() for line, field in zip(lines, added, strict=True)]
    assert path.read_bytes() == ending.encode().join(expected) + last


# --- JSON lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"p": 0.75}\n', b'{"p": 0.75, "q": 0.25}\n'),
        (b'{"p":0.750,"id":"\\u00e9}"}', b'{"p":0.750,"id":"\\u00e9}", "q": 0.25}'),
        (
            b' {"x": {"p": 1}, "p": 15e-1 } \r\n\r\n{"p": 3}\n',
            b' {"x": {"p": 1}, "p": 15e-1 , "q": 0.5} \r\n\r\n{"p": 3, "q": 1.0}\n',
        ),
        (b'\xef\xbb\xbf{"p": 0.75}\n', b'\xef\xbb\xbf{"p": 0.75, "q": 0.25}\n'),
        (
            b'{"p": 0.75, "n": 12345678901234567890123, "n": 1}\n',
            b'{"p": 0.75, "n": 12345678901234567890123, "n": 1, "q": 0.25}\n',
        ),
        (b'{"p": 3}\n{"p": 0.3, "x": 1}\n', b'{"p": 3, "q": 1.0}\n{"p": 0.3, "x": 1, "q": 0.09999999999999999}\n'),
    ],
)
def test_json_lines_keep_every_byte(append: Append, before: bytes, after: bytes) -> None:
    assert append(before, suffix=".jsonl") == after


def test_json_name_is_escaped(append: Append) -> None:
    (line,) = append(b'{"p": 0.75}', suffix=".jsonl", column='q"\\').splitlines()
    assert json.loads(line) == {"p": 0.75, 'q"\\': 0.25}


# --- Parquet -------------------------------------------------------------------------------------------------


def test_parquet_keeps_types_values_metadata_row_groups_and_codec(tmp_path: Path, rich_table: pa.Table) -> None:
    table = rich_table
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source, row_group_size=2, compression="zstd")
    read = pq.read_table(source)
    assert append_columns(source, target, columns=NewColumns(["p"], ["q"], third)).n_rows == 3
    written = pq.ParquetFile(target)
    rest = written.read().drop(["q"])
    assert rest.schema.equals(read.schema, check_metadata=True)
    assert repr(rest.to_pydict()) == repr(read.to_pydict())  # equal as text, since NaN equals nothing
    assert written.read().column("q").to_pylist() == [0.25, 0.5, 1.0]
    assert [written.metadata.row_group(i).num_rows for i in range(written.num_row_groups)] == [2, 1]
    assert written.metadata.row_group(0).column(0).compression == "ZSTD"
    assert written.schema_arrow.field("small").metadata[b"unit"] == b"kg"


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "brotli"])
def test_parquet_codec_stays(tmp_path: Path, codec: str) -> None:
    path, reference = tmp_path / "t.parquet", tmp_path / "r.parquet"
    pq.write_table(pa.table({"p": [0.75] * 100}), path, compression=codec)
    pq.write_table(pa.table({"p": [0.75] * 100}), reference, compression=codec)
    append_columns(path, path, columns=NewColumns(["p"], ["q"], third))
    found, expected = (pq.read_metadata(file).row_group(0).column(0).compression for file in (path, reference))
    assert found == expected


def test_pandas_index_survives(tmp_path: Path) -> None:
    frame = pd.DataFrame({"p": [0.75, 1.5], "c": pd.Categorical(["a", "b"])}, index=pd.Index(["u", "v"], name="key"))
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    append_columns(path, path, columns=NewColumns(["p"], ["q"], third))
    pd.testing.assert_frame_equal(pd.read_parquet(path), frame.assign(q=[0.25, 0.5]))


def test_empty_parquet_gets_an_empty_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"p": pa.array([], pa.float64())}), path)
    assert append_columns(path, path, columns=NewColumns(["p"], ["q"], third)).n_rows == 0
    assert pq.read_table(path).schema.names == ["p", "q"]


# --- streams, several columns, progress ----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_streams_give_the_bytes_that_files_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    start, source, target = (tmp_path / f"{name}.{suffix}" for name in ("start", "source", "target"))
    pq.write_table(pa.table({"x": [str(i) for i in range(5000)], "p": np.linspace(0.0, 1.0, 5000)}), tmp_path / "t.pq")
    append_columns(tmp_path / "t.pq", source, columns=NewColumns(["p"], ["r"], third))
    append_columns(source, target, columns=NewColumns(["p"], ["q"], third))
    sink = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(source.read_bytes())))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=sink))
    assert append_columns("-", "-", columns=NewColumns(["p"], ["q"], third)).n_rows == 5000
    assert sink.getvalue() == target.read_bytes()
    assert not start.exists()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_a_stream_becomes_any_other_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    pq.write_table(pa.table({"p": [0.75, 1.5]}), tmp_path / "t.pq")
    append_columns(tmp_path / "t.pq", tmp_path / f"t.{suffix}", columns=NewColumns(["p"], ["r"], third))
    data = (tmp_path / f"t.{suffix}").read_bytes()
    for target in ("o.tsv", "o.jsonl", "o.parquet"):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        append_columns("-", tmp_path / target, columns=NewColumns(["p"], ["q"], third))
        assert read_columns(tmp_path / target).to_pydict() == {"p": [0.75, 1.5], "r": [0.25, 0.5], "q": [0.25, 0.5]}


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "arrow"])
def test_codes_of_a_csv_stay_text_in_a_format_that_has_numbers(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"p,padded,long,plus,whole,huge,big\n"
        b"01,007,12345678901234567890,+1,7,9007199254740993,16000000000000000\n"
        b"3,12,1,2,-1,0,0.5\n"
    )
    append_columns(path, tmp_path / f"o.{suffix}", columns=NewColumns(["p"], ["q"], third))
    assert read_columns(tmp_path / f"o.{suffix}").to_pydict() == {
        "p": [1, 3],
        "padded": ["007", "12"],
        "long": ["12345678901234567890", "1"],
        "plus": ["+1", "2"],
        "whole": [7, -1],
        "huge": [2**53 + 1, 0],
        "big": [1.6e16, 0.5],
        "q": [1.0 / 3.0, 1.0],
    }


def test_several_columns_come_from_several(append: Append, tmp_path: Path) -> None:
    def swap(found: pa.Table) -> FloatArray:
        values = as_scores(found.select(["a", "b"])).values
        return np.ascontiguousarray(values[:, ::-1])

    for suffix, data, after in [
        (".csv", b"b,a\n0.5,0.25\n", b"b,a,q0,q1\n0.5,0.25,0.5,0.25\n"),
        (".jsonl", b'{"b": 0.5, "a": 0.25}\n', b'{"b": 0.5, "a": 0.25, "q0": 0.5, "q1": 0.25}\n'),
    ]:
        path = tmp_path / f"several{suffix}"
        path.write_bytes(data)
        append_columns(path, path, columns=NewColumns(["a", "b"], ["q0", "q1"], swap))
        assert path.read_bytes() == after


def test_progress_counts_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", 8)
    path = tmp_path / "t.csv"
    path.write_bytes(b"p\n" + b"0.25\n" * 10)
    told: list[int] = []
    append_columns(path, path, columns=NewColumns(["p"], ["q"], third), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 10
    assert len(told) > 2


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_column_that_exists_is_refused_and_nothing_changes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    pq.write_table(pa.table({"p": [0.5], "x": [1]}), tmp_path / "t.pq")
    append_columns(tmp_path / "t.pq", path, columns=NewColumns(["p"], ["q"], third))
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match=r"already has a column 'q'\. Choose another name with --column"):
        append_columns(path, path, columns=NewColumns(["p"], ["q"], third))
    with pytest.raises(UnknownNameError, match=r"has no column 'pp'\. Did you mean 'p'\?"):
        append_columns(path, path, columns=NewColumns(["pp"], ["q2"], third))
    assert path.read_bytes() == before
    assert names_in(tmp_path) == sorted(["t.pq", path.name])


def test_bad_value_says_from_which_row_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_bytes(b"p\n" + b"0.25\n" * 100 + b"\nx,\n".replace(b"x,", b"NA"))
    with pytest.raises(
        InvalidScoreError, match=r"p row \d+: missing value .* \(Rows are counted from row \d+ of the file\.\)"
    ):
        append_columns(path, path, columns=NewColumns(["p"], ["q"], third))


def test_broken_record_is_numbered_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_bytes(b"p,x\n" + b"0.25,1\n" * 98 + b"0.25,1,2\n")
    with pytest.raises(
        InvalidInputError, match=r"record 100 \(the header is record 1\) is broken: Expected 2 columns, got 3"
    ):
        append_columns(path, tmp_path / "out.csv", columns=NewColumns(["p"], ["q"], third))
    assert names_in(tmp_path) == ["t.csv"]


def test_unknown_target_is_refused_but_the_suffix_of_the_source_is_known(tmp_path: Path) -> None:
    source = tmp_path / "t.txt"
    source.write_bytes(b"p\n0.75\n")
    with pytest.raises(InvalidInputError, match=r"the name of .*out\.parqet doesn't say what to write"):
        append_columns(source, tmp_path / "out.parqet", columns=NewColumns(["p"], ["q"], third), format="csv")
    append_columns(source, tmp_path / "out.txt", columns=NewColumns(["p"], ["q"], third), format="csv")
    assert (tmp_path / "out.txt").read_bytes() == b"p,q\n0.75,0.25\n"


def test_folder_is_refused_where_one_file_is_copied(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"is a folder\. Pass one file of it"):
        append_columns(tmp_path, tmp_path / "o.csv", columns=NewColumns(["p"], ["q"], lambda t: t["p"].to_numpy()))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- parts --------------------------------------------------------------------------------------------------


def negative(found: pa.Table) -> FloatArray:
    values: FloatArray = -found.column(0).to_numpy().astype(np.float64)
    return values


def in_parts(source: Path, target: Path, part_rows: int = 1) -> Applied:
    columns = NewColumns(["id"], ["q"], negative)
    return append_columns(source, target, columns=columns, fingerprint="minus", part_rows=part_rows)


#: Names that parts might get, of files and of folders in the place of one.
STEMS = st.sampled_from(["a", "a-", "a-00000", "a-00001", "a--00000", "b"])
PATHS = st.lists(st.sampled_from(["a-00000.parquet", "a.parquet", "d"]), max_size=2)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.tuples(PATHS, STEMS, st.integers(0, 3)), min_size=1, max_size=6),
    part_rows=st.integers(1, 3),
)
def test_rows_in_are_rows_out_whatever_files_are_called(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[list[str], str, int]], part_rows: int
) -> None:
    root = tmp_path_factory.mktemp("law")
    source, target, n_rows = root / "in", root / "out", 0
    for folders, stem, size in files:
        path = source.joinpath(*folders) / f"{stem}.parquet"
        if path.exists() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": np.arange(n_rows, n_rows + size)}), path, row_group_size=1)
        n_rows += size
    done = in_parts(source, target, part_rows)
    found = read_columns(target)
    assert (done.n_rows, done.n_kept) == (n_rows, 0)
    assert sorted(found["id"].to_pylist()) == list(range(n_rows))
    assert found["q"].to_pylist() == [-i for i in found["id"].to_pylist()]
    again = in_parts(source, target, part_rows)
    assert (again.n_rows, again.n_kept) == (0, done.n_parts)


def test_a_file_that_is_called_as_a_part_of_its_neighbour_would_be_keeps_its_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": range(4)}), tmp_path / "in" / "a.parquet", row_group_size=2)
    pq.write_table(pa.table({"id": [4]}), tmp_path / "in" / "a-00000.parquet")
    assert in_parts(tmp_path / "in", tmp_path / "out") == Applied(5, 3, 0)
    names = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert names == ["a--00000.parquet", "a--00001.parquet", "a-00000.parquet"]
    manifest = json.loads((tmp_path / "out" / "_calibrant.json").read_text())
    assert [(part["file"], part["row_groups"]) for part in manifest["parts"]] == [
        ("a.parquet", [0, 1]),
        ("a.parquet", [1, 2]),
        ("a-00000.parquet", None),
    ]


def test_one_file_becomes_a_folder_where_the_target_is_called_like_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\n2\n")
    columns = NewColumns(["id"], ["q"], negative)
    done = append_columns(tmp_path / "t.csv", f"{tmp_path}/out/", columns=columns, fingerprint="minus")
    assert done == Applied(2, 1, 0)
    assert (tmp_path / "out" / "t.csv").read_text() == "id,q\n1,-1.0\n2,-2.0\n"


@pytest.mark.parametrize("name", ["y.csv", "y.CSV", "y.parquet", "y.csv.gz"])
@pytest.mark.parametrize("source", ["in", "in/*.csv"])
def test_a_folder_of_parts_is_not_named_like_a_file(tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(b"p\n0.5\n")
    new = NewColumns(["p"], ["q"], third)
    with pytest.raises(InvalidInputError, match=rf"{name} is the name of a file\. Pass a folder, such as .*y\."):
        append_columns(tmp_path / source, tmp_path / name, columns=new, fingerprint="f")
    assert not (tmp_path / name).exists()
    for _ in range(2):  # said to be a folder, or one already
        append_columns(tmp_path / source, f"{tmp_path / name}/", columns=new, fingerprint="f")
    append_columns(tmp_path / source, tmp_path / name, columns=new, fingerprint="f")
    assert (tmp_path / name / "a.csv").is_file()


def test_what_can_not_be_written_in_parts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_calibrant.json").write_text('{"id": 1}\n')
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInputError, match=r"_calibrant\.json has the name of the list of parts"):
        in_parts(tmp_path / "_calibrant.json", tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"out is a folder\. Pass the name of a file to write"):
        append_columns(
            tmp_path / "_calibrant.json", tmp_path / "out", columns=NewColumns(["id"], ["q"], negative), format="jsonl"
        )


def test_a_run_with_another_fingerprint_is_told_whose_parts_are_missing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t.csv").write_text("id\n1\n")
    in_parts(tmp_path / "in", tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"holds parts made by something else than plus\. Remove it"):
        append_columns(
            tmp_path / "in", tmp_path / "out", columns=NewColumns(["id"], ["q"], negative), fingerprint="plus"
        )
