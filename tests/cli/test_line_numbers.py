"""Errors in text files name the line that an editor shows; elsewhere, and in Python, rows keep their numbers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings, strategies as st

import calibrant as cb
from calibrant.cli import data
from calibrant.errors import InvalidScoreError
from calibrant.tables import in_lines

Run = Callable[..., Result]


def rows(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    p = rng.random(n)
    return pd.DataFrame({"y": (rng.random(n) < p).astype(int), "p": p})


def line_of(text: str, wanted: str) -> int:
    """Return the number of the line that holds a text, as an editor counts."""
    return next(i for i, line in enumerate(text.splitlines(), start=1) if wanted in line)


@pytest.mark.parametrize("many", [1 << 24, 50])
def test_a_value_is_placed_by_its_line(run: Run, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(data, "MANY", many)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    frame = rows()
    frame.loc[48, "p"] = 1.5
    for name, write in {
        "a.csv": lambda path: frame.to_csv(path, index=False),
        "a.csv.gz": lambda path: frame.to_csv(path, index=False),
        "a.jsonl": lambda path: frame.to_json(path, orient="records", lines=True),
    }.items():
        write(name)
        text = gzip.decompress(Path(name).read_bytes()) if name.endswith("gz") else Path(name).read_bytes()
        wanted = line_of(text.decode(), "1.5")
        assert wanted == (49 if name == "a.jsonl" else 50)
        assert f"column 'p' of {name} line {wanted}: 1.5 is outside [0, 1]" in run(f"evaluate {name}").output
    frame.to_parquet("a.parquet")
    assert "column 'p' of a.parquet row 48: 1.5 is outside [0, 1]" in run("evaluate a.parquet").output
    assert "standard input row 48: 1.5" in run("evaluate -", stdin=Path("a.csv").read_bytes()).output
    with pytest.raises(InvalidScoreError, match=r"column 'p' of a\.csv row 48: 1\.5 is outside"):
        cb.engines.evaluate("a.csv")


def test_rows_behind_the_first_batch_are_placed_in_the_whole_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows(300_000)
    frame.loc[290_000, "p"] = 1.5
    frame.to_csv("long.csv", index=False)
    frame.iloc[:10].to_csv("few.csv", index=False)
    run("fit few.csv --method beta -o c.json")
    monkeypatch.setattr(data, "MANY", 50)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    for command in ("evaluate long.csv", "apply c.json long.csv -o out.csv"):
        refused = run(command).output
        assert "long.csv line 290,002: 1.5 is outside [0, 1]" in refused
        assert "Rows are counted" not in refused


def test_rows_of_a_folder_are_placed_in_their_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("f").mkdir()
    frame = rows()
    frame.loc[150, "p"] = 1.5
    for i in range(4):
        frame.iloc[50 * i : 50 * i + 50].to_csv(f"f/{i}.csv", index=False)
    assert "column 'p' of f/3.csv line 2: 1.5" in run("evaluate f").output
    assert "column 'p' of f/3.csv line 2: 1.5" in run("evaluate f/*.csv").output
    monkeypatch.setattr(data, "MANY", 1)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    assert "column 'p' of f/3.csv line 2: 1.5" in run("evaluate f").output


def test_files_are_read_again_as_the_options_say(run: Run) -> None:
    """A folder of any suffix by its format; a delimiter that was given is not said to be found."""
    Path("g").mkdir()
    frame = rows()
    frame.loc[150, "p"] = 1.5
    for i in range(4):
        frame.iloc[50 * i : 50 * i + 50].to_csv(f"g/{i}.dat", index=False, sep=";")
    refused = run("evaluate g --format csv --delimiter ;").output
    assert "column 'p' of g/3.dat line 2: 1.5" in refused
    assert "Warning" not in refused
    assert run("evaluate g --format csv").output.count("Warning: ") == 1


def test_rows_that_are_some_of_the_file_keep_their_numbers(run: Run) -> None:
    frame = rows()
    frame.loc[3, "p"] = np.nan
    frame.loc[48, "p"] = 1.5
    frame.to_csv("gap.csv", index=False)
    assert "the complete rows of gap.csv row 47: 1.5" in run("evaluate gap.csv --missing skip").output
    frame.assign(w=[0.0] + [1.0] * 199).to_csv("weighted.csv", index=False)
    assert "the counted rows of weighted.csv row" in run("monitor weighted.csv --weight w").output


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text('ab"\n\r,é', max_size=6), min_size=1, max_size=12),
    st.lists(st.integers(0, 3), min_size=14, max_size=14),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_the_line_is_that_of_the_text_whatever_fields_hold(
    folder: Path, texts: list[str], blanks: list[int], end: str, data: st.DataObject
) -> None:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    row = data.draw(st.integers(0, len(texts) - 1))
    records = ["text,p", *(f"{field(text)},{0.5 if i != row else 1.5}" for i, text in enumerate(texts))]
    before = [end * n for n in blanks]
    parts = [gap + record + end for gap, record in zip(before, records, strict=False)]
    Path("t.csv").write_bytes("".join(parts).encode())
    at = "".join(parts[: row + 1]) + before[row + 1]
    wanted = len((at + "x").encode().splitlines())
    message = in_lines(f"column 'p' of t.csv row {row}: 1.5 is outside [0, 1].", "t.csv")
    assert message == f"column 'p' of t.csv line {wanted}: 1.5 is outside [0, 1]."
