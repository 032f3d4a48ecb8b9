"""Text tables of any delimiter, decimal point, encoding and packing: read as they are, and written as they were."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from three_rows import CSV, JSON_LINES, TABLE

from calibrant.errors import DataWarning, InvalidInputError, UnknownNameError
from calibrant.tables import NewColumns, TableFormat, append_columns, open_rows, read_columns

Make = Callable[[str, bytes], str]
#: A table whose names and values need more than ASCII.
CITIES = pa.table({"größe": [7, 8], "p": [0.25, 0.5], "stadt": ["Köln", "Bonn, am Rhein"]})
ENCODINGS = ["utf-8", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def as_text(delimiter: str, decimal: str) -> str:
    """Return the table of cities as pandas writes it."""
    return str(CITIES.to_pandas().to_csv(sep=delimiter, decimal=decimal, index=False))


def pack(data: bytes, codec: str) -> bytes:
    return gzip.compress(data, mtime=0) if codec == "gz" else bytes(pa.compress(data, "zstd", asbytes=True))


def doubled(name: str = "q") -> NewColumns:
    return NewColumns(["p"], [name], lambda table: 2.0 * np.asarray(table["p"], dtype=np.float64))


# --- what is said is done -----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t", "~"])
def test_every_layout_gives_the_same_table(make: Make, delimiter: str, decimal: str, encoding: str) -> None:
    path = make("t.csv", as_text(delimiter, decimal).encode(encoding))
    layout = TableFormat(delimiter=delimiter, decimal=decimal, encoding=encoding)
    assert read_columns(path, format=layout).equals(CITIES)
    batches = [batch.table for batch in open_rows(path, format=layout).scan(["stadt", "p"])]
    assert pa.concat_tables(batches).equals(CITIES.select(["stadt", "p"]))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("delimiter", "decimal"), [(";", ","), (",", ","), ("|", ".")])
def test_new_columns_are_written_in_the_layout_of_the_file(
    make: Make, tmp_path: Path, delimiter: str, decimal: str, encoding: str
) -> None:
    text = as_text(delimiter, decimal)
    path = make("t.csv", text.encode(encoding))
    layout = TableFormat(delimiter=delimiter, decimal=decimal, encoding=encoding)
    append_columns(path, tmp_path / "out.csv", columns=doubled(), format=layout)
    found = (tmp_path / "out.csv").read_bytes()
    pd.testing.assert_frame_equal(
        pd.read_csv(io.BytesIO(found), sep=delimiter, decimal=decimal, encoding=encoding),
        CITIES.append_column("q", pa.array([0.5, 1.0])).to_pandas(),
    )
    lines = zip(found.decode(encoding).splitlines(), text.splitlines(), strict=True)
    assert all(new.startswith(old) for new, old in lines)


def test_text_under_a_mark_of_either_order_keeps_it(make: Make, tmp_path: Path) -> None:
    for mark, encoding in [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF8, "utf-8"),
    ]:
        path = make("t.csv", mark + CSV.decode().encode(encoding))
        assert read_columns(path).equals(TABLE)
        append_columns(path, tmp_path / "out.csv", columns=doubled())
        found = (tmp_path / "out.csv").read_bytes()
        assert found.startswith(mark)
        assert found.decode(encoding).removeprefix("\ufeff").startswith("id,y,p,q\na,0,0.25,0.5\n")


def test_json_lines_of_another_encoding(make: Make, tmp_path: Path) -> None:
    path = make("t.jsonl", '{"stadt": "Köln", "p": 0.25}\n'.encode("latin-1"))
    append_columns(path, tmp_path / "o.jsonl", columns=doubled(), format=TableFormat(encoding="latin-1"))
    assert (tmp_path / "o.jsonl").read_bytes() == '{"stadt": "Köln", "p": 0.25, "q": 0.5}\n'.encode("latin-1")


def test_a_name_that_the_encoding_lacks_is_refused_and_writes_nothing(make: Make, tmp_path: Path) -> None:
    path = make("t.csv", CSV)
    with pytest.raises(InvalidInputError, match="is iso8859-1 text, which lacks '→'"):
        append_columns(path, tmp_path / "o.csv", columns=doubled("p→"), format=TableFormat(encoding="latin-1"))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"delimiter": ";;"}, "--delimiter .* ';;' is not one character"),
        ({"delimiter": '"'}, "is not one character that can stand between fields"),
        ({"delimiter": "a"}, "is not one character that can stand between fields"),
        ({"decimal": ";"}, r"--decimal .* ';' is neither '\.' nor ','"),
        ({"encoding": "klingon"}, "--encoding .* 'klingon' is no encoding that Python knows"),
        ({"encoding": "base64"}, "'base64' is no encoding"),
    ],
)
def test_what_is_no_layout_is_refused(said: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TableFormat(**said)


def test_a_layout_of_what_has_none_is_refused(make: Make) -> None:
    with pytest.raises(InvalidInputError, match=r"--delimiter \(delimiter= in Python\) is for CSV, and .* is jsonl"):
        read_columns(make("t.jsonl", JSON_LINES), format=TableFormat(delimiter=";"))
    with pytest.raises(UnknownNameError, match="unknown format 'exel'"):
        TableFormat("exel")


def test_bytes_that_are_not_in_the_encoding_are_placed(make: Make) -> None:
    path = make("t.csv", b"y,p\n1,caf\xe9\n")
    with pytest.raises(InvalidInputError, match=r"is not ASCII text \(ordinal not in range\(128\) near byte 9\)"):
        read_columns(path, format=TableFormat(encoding="ascii"))


# --- what nobody said is found only where there is no doubt --------------------------------------------------


@pytest.mark.parametrize(("delimiter", "option"), [(";", "';'"), ("|", "'|'"), ("\t", "tab")])
def test_a_delimiter_that_is_found_is_said(make: Make, delimiter: str, option: str) -> None:
    path = make("t.csv", CSV.replace(b",", delimiter.encode()))
    with pytest.warns(DataWarning) as said:
        assert read_columns(path).equals(TABLE)
    assert f"--delimiter {option} (TableFormat(delimiter={delimiter!r}) in Python)" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_columns(path, format=TableFormat(delimiter=delimiter)).equals(TABLE)


@pytest.mark.parametrize(
    "text",
    [
        "p\n0.5\n",
        "a;b\n0.5\n",  # a name with a semicolon over one column
        '"a;b"\n0.5\n',
        "a;b|c\n1;2|3\n",  # two delimiters would do
        "y;p\n1;0.5\n1;0.5;7\n",  # records of two widths
        "y,p;q\n1,2\n",  # the header has a comma
    ],
)
def test_no_delimiter_is_guessed_in_doubt(make: Make, text: str) -> None:
    names = open_rows(make("t.csv", text.encode())).names
    assert names == tuple(text.splitlines()[0].replace('"', "").split(","))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.text('ab;|\t" \n,', max_size=5)), min_size=1, max_size=30))
def test_a_table_with_commas_in_its_header_is_never_read_otherwise(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    pd.DataFrame(rows, columns=["y", "text"]).to_csv(path, index=False)
    assert open_rows(path).names == ("y", "text")


def test_files_of_a_folder_are_said_once(make: Make, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for i in range(3):
        make(f"f/{i}.csv", CSV.replace(b",", b";"))
    with pytest.warns(DataWarning, match=r"0\.csv and 2 other files: read with the delimiter ';'") as said:
        assert read_columns(tmp_path / "f").num_rows == 9
    assert len(said) == 1


# --- packed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["gz", "zst"])
@pytest.mark.parametrize(("name", "data"), [("t.csv", CSV), ("t.json", JSON_LINES), ("t.jsonl", JSON_LINES)])
def test_packed_text_reads_and_writes_like_the_plain_one(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, codec: str
) -> None:
    path = make(f"{name}.{codec}", pack(data, codec))
    assert read_columns(path).equals(TABLE)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pack(data, codec))))
    assert read_columns("-").equals(TABLE)
    plain = tmp_path / f"plain-{name}"
    append_columns(make(name, data), plain, columns=doubled())
    for source in (path, make(name, data)):
        target = tmp_path / f"out-{name}.{codec}"
        append_columns(source, target, columns=doubled())
        found = target.read_bytes()
        unpacked = gzip.decompress(found) if codec == "gz" else pa.CompressedInputStream(str(target), "zstd").read()
        assert unpacked == plain.read_bytes()
        append_columns(source, target, columns=doubled())
        assert target.read_bytes() == found, "the same bytes each time"
    append_columns(path, tmp_path / f"again-{name}", columns=doubled())
    assert (tmp_path / f"again-{name}").read_bytes() == plain.read_bytes()


def test_members_of_gzip_follow_each_other(make: Make) -> None:
    cut = CSV.index(b"\n") + 1
    assert read_columns(make("t.csv.gz", pack(CSV[:cut], "gz") + pack(CSV[cut:], "gz"))).equals(TABLE)


@pytest.mark.parametrize("codec", ["gz", "zst"])
def test_every_truncation_of_a_packed_file_is_refused(make: Make, codec: str) -> None:
    rng = np.random.default_rng(0)
    whole = pack(b"p,y\n" + b"".join(f"{x!r},1\n".encode() for x in rng.random(20_000).tolist()), codec)
    for length in np.linspace(1, len(whole) - 1, 25).astype(int):
        with pytest.raises(InvalidInputError, match=r"t\.csv\.(gz|zst)"):
            read_columns(make(f"t.csv.{codec}", whole[:length]), ["p"])


def test_packed_columns_are_not_written(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"would be parquet packed once more.*Name it o\.parquet\."):
        append_columns(make("t.csv", CSV), tmp_path / "o.parquet.gz", columns=doubled())


# --- patterns ------------------------------------------------------------------------------------------------


def test_a_pattern_is_read_like_a_folder(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("f", "f/day=1", "f/day=2"):
        (tmp_path / folder).mkdir()
    make("f/day=1/a.csv.gz", pack(CSV, "gz"))
    make("f/day=2/b.csv", CSV)
    make("f/day=2/.hidden.csv", b"junk")
    make("f/other.json", JSON_LINES)
    found = read_columns(f"{tmp_path}/f/*/*.csv*")
    assert found.equals(pa.concat_tables([TABLE, TABLE]).append_column("day", pa.array([1, 1, 1, 2, 2, 2])))
    assert read_columns(f"{tmp_path}/f/**/[ab].csv*").num_rows == 6
    monkeypatch.chdir(tmp_path)
    assert read_columns("f/day=?/*.csv*").equals(found)
    with pytest.raises(InvalidInputError, match=r"no file matches f/x\*\.csv\. Tables must be named"):
        read_columns("f/x*.csv")
    make("f/mixed.csv", CSV)
    with pytest.raises(InvalidInputError, match=r"the pattern f/\*\.\* mixes formats: f/mixed\.csv is csv"):
        read_columns("f/*.*")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(make: Make) -> None:
    assert read_columns(make("t[1].csv", CSV)).equals(TABLE)


def test_parts_of_a_pattern_are_written_beside_each_other(make: Make, tmp_path: Path) -> None:
    make("part-1.csv.gz", pack(CSV, "gz"))
    make("part-2.csv.gz", pack(CSV, "gz"))
    make("other.csv.gz", pack(CSV, "gz"))
    pattern = f"{tmp_path}/part-*.gz"
    done = append_columns(pattern, tmp_path / "out", columns=doubled(), fingerprint="doubled")
    assert (done.n_rows, done.n_parts) == (6, 2)
    parts = sorted(path.name for path in (tmp_path / "out").glob("part-*"))
    assert parts == ["part-1.csv.gz", "part-2.csv.gz"]
    for name in parts:
        with gzip.open(tmp_path / "out" / name) as opened:
            assert opened.read().startswith(b"id,y,p,q\na,0,0.25,0.5\n")
    again = append_columns(pattern, tmp_path / "out", columns=doubled(), fingerprint="doubled")
    assert (again.n_rows, again.n_kept) == (0, 2)
    with pytest.raises(InvalidInputError, match="holds parts made of text read in another way"):
        append_columns(
            pattern, tmp_path / "out", columns=doubled(), fingerprint="doubled", format=TableFormat(decimal=",")
        )
    with pytest.raises(InvalidInputError, match="lies in the source"):
        append_columns(f"{tmp_path}/**/part-*.gz", tmp_path / "deep", columns=doubled(), fingerprint="doubled")
