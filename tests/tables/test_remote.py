"""Files on web servers and in buckets: the same tables as on the disk, and errors that say what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from three_rows import CSV, JSON_LINES, TABLE

from calibrant.errors import InvalidInputError
from calibrant.tables import NewColumns, TableFormat, append_columns, is_many, open_rows, read_columns, remote
from s3_server import Put, put as put, s3_endpoint as s3_endpoint
from table_bytes import parquet_bytes
from web_server import WebServer, web as web

FILES = {
    "t.csv": CSV,
    "t.csv.gz": gzip.compress(CSV),
    "t.jsonl": JSON_LINES,
    "t.parquet": parquet_bytes(TABLE),
    "t.dat": parquet_bytes(TABLE),
}
LONG = pa.table({"p": np.random.default_rng(0).random(300_000), "y": np.arange(300_000)})


def doubled() -> NewColumns:
    return NewColumns(["p"], ["q"], lambda table: 2.0 * np.asarray(table["p"], dtype=np.float64))


# --- the web -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_web_files_give_the_same_table(web: WebServer, name: str, has_ranges: bool) -> None:
    web.files, web.has_ranges = {f"/a b/{name}": FILES[name]}, has_ranges
    address = web.address(f"/a%20b/{name}?token=secret")
    web.files |= {f"/a%20b/{name}": FILES[name]}
    assert read_columns(address).equals(TABLE)
    source = open_rows(address)
    assert source.name == web.address(f"/a%20b/{name}")
    for _ in range(2):
        assert [batch.table for batch in source.scan(["p"])] == [TABLE.select(["p"])]
    assert not is_many(address)


def test_columns_are_read_by_ranges(web: WebServer) -> None:
    web.files = {"/t.parquet": parquet_bytes(LONG)}
    assert read_columns(web.address("/t.parquet"), ["p"]).equals(LONG.select(["p"]))
    asked = [text.removeprefix("bytes=").split("-") for _, text in web.requests if text is not None]
    n_read = sum(int(end) - int(start) + 1 for start, end in asked)
    assert n_read < 0.75 * len(web.files["/t.parquet"]) + 3 * 65_536 + (1 << 18)


def test_text_of_any_layout_is_read_from_the_web(web: WebServer) -> None:
    web.files = {"/t": CSV.replace(b",", b";").replace(b"0.", b"0,").decode().encode("utf-16")}
    layout = TableFormat(delimiter=";", decimal=",")
    assert read_columns(web.address("/t"), format=layout).equals(TABLE)


def test_web_files_are_written_with_new_columns_here(web: WebServer, tmp_path: Path) -> None:
    web.files = {"/t.csv": CSV}
    append_columns(web.address("/t.csv"), tmp_path / "o.csv", columns=doubled())
    assert (tmp_path / "o.csv").read_bytes().startswith(b"id,y,p,q\na,0,0.25,0.5\n")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, r"/t\.csv can't be read: there is no such file \(404\)"),
        (403, r"the server refuses access \(403\)\. Pass a link that may be read"),
        (401, r"asks who you are \(401\)"),
        (503, r"its server answers 503 Service Unavailable\. Try again later"),
    ],
)
def test_what_a_web_server_answers_is_said_without_secrets(web: WebServer, status: int, message: str) -> None:
    web.status = status
    with pytest.raises(InvalidInputError, match=message) as refused:
        open_rows(web.address("/t.csv?token=secret"))
    assert "secret" not in str(refused.value)


def test_empty_broken_slow_and_changing_files_are_refused(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files = {"/empty.csv": b"", "/t.csv": LONG.slice(0, 50_000).to_pandas().to_csv(index=False).encode()}
    with pytest.raises(InvalidInputError, match=r"/empty\.csv is empty: it has not even a header"):
        open_rows(web.address("/empty.csv"))
    source = open_rows(web.address("/t.csv"))
    web.cut_at = 1_000_000
    with pytest.raises(InvalidInputError, match=r"t\.csv broke off after 1,000,000 of [\d,]+ bytes\. Try again"):
        source.read()
    web.cut_at, web.tag = None, '"2"'
    with pytest.raises(InvalidInputError, match=r"t\.csv changed while it was read\. Start again"):
        source.read()
    monkeypatch.setattr(remote, "_ANSWER_S", 0.2)
    web.delay_s = 1.0
    with pytest.raises(InvalidInputError, match=r"its server didn't answer in 0\.2 seconds"):
        open_rows(web.address("/t.csv"))


def test_addresses_that_can_not_be_read_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"127\.0\.0\.1:9/t\.csv can't be read: .*Check the address"):
        open_rows("http://127.0.0.1:9/t.csv")
    with pytest.raises(InvalidInputError, match=r"addresses of ftp:// can't be read, only s3://, https:// and http://"):
        open_rows("ftp://host/t.csv")
    with pytest.raises(InvalidInputError, match=r"the address of host holds a password"):
        open_rows("https://me:secret@host/t.csv")
    with pytest.raises(InvalidInputError, match=r"names no server"):
        open_rows("https:///t.csv")


@pytest.mark.parametrize("target", ["s3://scores/out.csv", "https://host/out.csv?token=secret", "s3://scores/out/"])
def test_nothing_is_written_elsewhere(tmp_path: Path, target: str) -> None:
    (tmp_path / "t.csv").write_bytes(CSV)
    with pytest.raises(
        InvalidInputError, match=r"can't write (s3|https)://.*files are written to this computer only"
    ) as no:
        append_columns(tmp_path / "t.csv", target, columns=doubled(), fingerprint="doubled")
    assert "secret" not in str(no.value)


# --- S3 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_files_in_buckets_give_the_same_table(put: Put, name: str) -> None:
    address = put(f"deep/{name}", FILES[name])
    assert read_columns(address).equals(TABLE)
    source = open_rows(address)
    for _ in range(2):
        assert [batch.table for batch in source.scan(["p"])] == [TABLE.select(["p"])]


def test_folders_and_patterns_of_buckets_are_read_like_those_of_the_disk(put: Put, tmp_path: Path) -> None:
    for day in (1, 2):
        put(f"f/day={day}/part-{day}.csv", CSV)
    put("f/day=2/.hidden.csv", b"junk")
    put("other/x.parquet", parquet_bytes(TABLE))
    wanted = pa.concat_tables([TABLE, TABLE]).append_column("day", pa.array([1, 1, 1, 2, 2, 2]))
    for address in ("s3://scores/f", "s3://scores/f/", "s3://scores/f/*/part-*.csv", "s3://scores/f/**/*.csv"):
        assert is_many(address)
        assert read_columns(address).equals(wanted), address
    with pytest.raises(InvalidInputError, match=r"no file matches s3://scores/f/x\*\.csv"):
        open_rows("s3://scores/f/x*.csv")
    done = append_columns("s3://scores/f", tmp_path / "out", columns=doubled(), fingerprint="doubled")
    assert (done.n_rows, done.n_parts) == (6, 2)
    assert read_columns(tmp_path / "out")["q"].to_pylist() == [0.5, 1.0, 0.25] * 2
    again = append_columns("s3://scores/f", tmp_path / "out", columns=doubled(), fingerprint="doubled")
    assert (again.n_rows, again.n_kept) == (0, 2)


def test_what_s3_answers_is_said(put: Put, web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"there is no file s3://scores/none\.csv"):
        open_rows("s3://scores/none.csv")
    with pytest.raises(InvalidInputError, match=r"s3://nowhere/t\.csv"):
        open_rows("s3://nowhere/t.csv")
    with pytest.raises(InvalidInputError, match=r"names no bucket"):
        open_rows("s3://")
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.address(""))
    web.status = 403
    with pytest.raises(InvalidInputError, match=r"the server refuses access\. Set AWS_ACCESS_KEY_ID"):
        open_rows("s3://scores/t.csv")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidInputError, match=r"the server can't be reached in time"):
        open_rows("s3://scores/t.csv")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    with pytest.raises(InvalidInputError, match=r"AWS_ENDPOINT_URL=nonsense is no address"):
        open_rows("s3://scores/t.csv")
