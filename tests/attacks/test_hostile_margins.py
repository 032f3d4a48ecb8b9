"""Files of margins that are none, or that no matrix has: refused with exit code 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from commands import run

#: What stands in the file, without and with --group.
PLAIN: dict[str, bytes] = {
    "nothing": b"",
    "blank": b" \n\t ",
    "null": b"null",
    "true": b"true",
    "number": b"3",
    "text": b'"a"',
    "list": b"[1, 1]",
    "list of pairs": b'[["a", 1], ["b", 1]]',
    "empty": b"{}",
    "list in a list": b"[{}]",
    "cut short": b'{"a": 1, "b"',
    "cut in a name": b'{"a',
    "no end": b'{"a": 1, "b": 1',
    "comma at the end": b'{"a": 1, "b": 1,}',
    "comment": b'{"a": 1, "b": 1} // x',
    "two documents": b'{"a": 1, "b": 1}{"a": 1}',
    "single quotes": b"{'a': 1, 'b': 1}",
    "names without quotes": b"{a: 1, b: 1}",
    "TOML": b"a = 1\nb = 1\n",
    "CSV": b"a,b\n1,1\n",
    "no UTF-8": b'{"a": 1, "b\xff": 1}',
    "UTF-16": '{"a": 1, "b": 1}'.encode("utf-16"),
    "null character": b'{"a": 1, "b": 1}\0',
    "half a surrogate pair": b'{"a": 1, "\\ud800": 1}',
    "a gzip file": b"\x1f\x8b\x08\x00",
    "a pickle": b"\x80\x04}\x94.",
    "deep": b'{"a": ' + b"[" * 50_000,
    "deep and whole": b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}",
    "a name twice": b'{"a": 1, "a": 1}',
    "a name twice by escapes": b'{"a": 1, "\\u0061": 1}',
    "one margin": b'{"a": 2}',
    "unknown names": b'{"x": 1, "y": 1}',
    "one unknown name": b'{"a": 1, "y": 1}',
    "empty name": b'{"": 1, "b": 1}',
    "more than the columns": b'{"a": 1, "b": 0.5, "c": 0.5}',
    "order to a terminal": b'{"\\u001b[2J": 1, "b": 1}',
    "null for a number": b'{"a": null, "b": 1}',
    "true for a number": b'{"a": true, "b": 1}',
    "text for a number": b'{"a": "1", "b": 1}',
    "list for a number": b'{"a": [1], "b": 1}',
    "object for a number": b'{"a": {}, "b": 1}',
    "NaN": b'{"a": NaN, "b": 1}',
    "infinity": b'{"a": Infinity, "b": 1}',
    "minus infinity": b'{"a": -Infinity, "b": 1}',
    "beyond float64": b'{"a": 1e999, "b": 1}',
    "largest": b'{"a": 1.7976931348623157e308, "b": 1}',
    "two largest": b'{"a": 1.7e308, "b": 1.7e308}',
    "many digits": b'{"a": ' + b"9" * 5_000 + b', "b": 1}',
    "65 bits": b'{"a": 18446744073709551616, "b": 1}',
    "negative": b'{"a": -1, "b": 3}',
    "both negative": b'{"a": -1, "b": -1}',
    "none for all": b'{"a": 0, "b": 0}',
    "smallest": b'{"a": 5e-324, "b": 5e-324}',
    "more than the rows": b'{"a": 1, "b": 2}',
    "less than the rows": b'{"a": 0.5, "b": 0.5}',
    "by group": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": 0.5, "b": 0.5}}',
    "mixed": b'{"x": {"a": 0.5, "b": 0.5}, "a": 1}',
}
BY_GROUP: dict[str, bytes] = {
    "not by group": b'{"a": 1, "b": 1}',
    "a group is missing": b'{"x": {"a": 0.5, "b": 0.5}}',
    "unknown group": b'{"x": {"a": 0.5, "b": 0.5}, "z": {"a": 0.5, "b": 0.5}}',
    "one group more": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": 0.5, "b": 0.5}, "z": {"a": 1, "b": 1}}',
    "other names in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": 0.5, "c": 0.5}}',
    "fewer names in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": 1}}',
    "empty in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {}}',
    "NaN in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": NaN, "b": 0.5}}',
    "text in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": "0.5", "b": 0.5}}',
    "negative in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": -0.5, "b": 1.5}}',
    "more than its rows in one": b'{"x": {"a": 0.5, "b": 0.5}, "y": {"a": 1.5, "b": 0.5}}',
    "a group twice": b'{"x": {"a": 0.5, "b": 0.5}, "x": {"a": 0.5, "b": 0.5}}',
    "too deep": b'{"x": {"a": {"b": 1}}, "y": {"a": {"b": 1}}}',
}


def test_there_are_enough() -> None:
    assert len(PLAIN) + len(BY_GROUP) >= 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pc.write_csv(pa.table({"a": [0.2, 0.7], "b": [0.8, 0.3], "g": ["x", "y"]}), "t.csv")


def refused(margins: bytes, *options: str) -> str:
    Path("m.json").write_bytes(margins)
    words = ["rank-preserve", "t.csv", "--margins", "m.json", "-o", "u.csv", *options]
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert sorted(path.name for path in Path().iterdir()) == ["m.json", "t.csv"]
    assert Path("m.json").read_bytes() == margins
    return result.output


@pytest.mark.parametrize("name", PLAIN)
def test_hostile_margins_are_refused(name: str) -> None:
    said = refused(PLAIN[name])
    assert said.startswith("Error: ")
    assert "\x1b" not in said
    assert len(said) < 1_000


@pytest.mark.parametrize("name", BY_GROUP)
def test_hostile_margins_of_groups_are_refused(name: str) -> None:
    assert refused(BY_GROUP[name], "--group", "g").startswith("Error: ")


def test_right_ones_are_taken() -> None:
    for margins, options in (
        (b'{"b": 1.25, "a": 0.75}', []),
        (b'{"x": {"a": 0.5, "b": 0.5}, "y": {"b": 0.25, "a": 0.75}}', ["--group", "g"]),
    ):
        Path("m.json").write_bytes(margins)
        words = ["rank-preserve", "t.csv", "--margins", "m.json", "-o", "u.csv", *options]
        assert run(*words).exit_code == 0
        table = pc.read_csv("u.csv")
        total = np.asarray(table["q_a"]).sum() + np.asarray(table["q_b"]).sum()
        assert total == pytest.approx(2.0)
