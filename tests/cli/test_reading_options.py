"""Options that say how text is written hold for every command that reads a table, in one piece or in passes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import click
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import Result

from calibrant.cli import data, main
from calibrant.cli.app import COMMANDS

Run = Callable[..., Result]
LAYOUT = ("--delimiter", ";", "--decimal", ",", "--encoding", "latin-1")


@pytest.fixture
def german(binary: pa.Table, folder: Path) -> pd.DataFrame:
    """Write the scores as a spreadsheet in German does, de.csv; and as plain.csv."""
    frame = binary.to_pandas().assign(straße=["Köln", "Bonn"] * 300)
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("de.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    return frame


def all_commands(command: click.Command, name: str = "") -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {name: command}
    with click.Context(command) as ctx:
        inside = {sub: command.get_command(ctx, sub) for sub in command.list_commands(ctx)}
    own = {name: command} if command.callback is not None and name else {}
    return own | {
        k: v for sub, each in inside.items() if each for k, v in all_commands(each, f"{name} {sub}".strip()).items()
    }


def test_every_command_that_takes_a_format_takes_its_layout() -> None:
    found = all_commands(main)
    assert set(COMMANDS) <= {name.split()[0] for name in found}
    options = {name: {option for each in command.params for option in each.opts} for name, command in found.items()}
    reading = {name for name, known in options.items() if "--format" in known}
    assert {"evaluate", "compare", "audit", "fit", "apply", "report", "monitor", "rank-preserve"} <= reading
    assert {"forecast evaluate", "forecast apply", "decide evaluate", "decide promise"} <= reading
    for name in reading:
        assert {"--delimiter", "--decimal", "--encoding"} <= options[name], name


@pytest.mark.parametrize("many", [1 << 24, 500])
def test_measures_are_those_of_the_plain_file(
    run: Run, german: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(data, "MANY", many)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)  # a text table doesn't say how many rows it has
    wanted = json.loads(run("evaluate plain.csv --group straße --weight w --json").output)
    found = json.loads(run("evaluate de.csv --group straße --weight w --json", *LAYOUT).output)
    assert found["scores"] == wanted["scores"]
    assert found["groups"] == wanted["groups"]


def test_every_command_does_with_the_layout_what_it_does_without(run: Run, german: pd.DataFrame) -> None:
    for command in (
        "compare FILE --methods isotonic,beta --json",
        "audit FILE --features straße --json",
        "monitor FILE --rows 200 --json",
        "decide evaluate FILE --false-positive 1 --false-negative 4 --json",
        "decide promise FILE --score p --false-positive 1 --false-negative 4 --fitted-to FILE --json",
        "forecast evaluate FILE --mean p --std w --outcome y --json",
    ):
        if command.startswith("forecast"):
            german.assign(w=german["w"] + 1).to_csv("plain.csv", index=False)
            german.assign(w=german["w"] + 1).to_csv("de.csv", index=False, sep=";", decimal=",", encoding="latin-1")
        wanted = run(command.replace("FILE", "plain.csv"))
        found = run(command.replace("FILE", "de.csv"), *LAYOUT)
        assert wanted.exit_code in (0, 1), wanted.output
        assert found.output.replace("de.csv", "plain.csv") == wanted.output, command
    assert run("report de.csv -o page.html", *LAYOUT).exit_code == 0


def test_applied_files_keep_their_layout(run: Run, german: pd.DataFrame) -> None:
    assert run("fit de.csv --method isotonic --bounded -o c.json", *LAYOUT).exit_code == 0
    assert run("apply c.json de.csv -o out.csv", *LAYOUT).exit_code == 0
    assert run("apply c.json plain.csv -o plain-out.csv").exit_code == 0
    found = pd.read_csv("out.csv", sep=";", decimal=",", encoding="latin-1")
    pd.testing.assert_frame_equal(found, pd.read_csv("plain-out.csv"))
    run("apply c.json plain.csv -o out.csv.gz")
    assert gzip.decompress(Path("out.csv.gz").read_bytes()) == Path("plain-out.csv").read_bytes()


def test_what_is_found_in_the_text_is_said_on_standard_error(run: Run, german: pd.DataFrame) -> None:
    german.to_csv("semi.csv", index=False, sep=";")
    done = run("evaluate semi.csv --json")
    assert "Warning: semi.csv: read with the delimiter ';'" in done.stderr
    assert "--delimiter ';'" in done.stderr
    assert json.loads(done.stdout)["n"] == 600
    assert run("evaluate semi.csv --json --delimiter ;").stderr == ""


def test_errors_name_the_option_that_is_needed(run: Run, german: pd.DataFrame) -> None:
    refused = run("evaluate de.csv --delimiter ;")
    assert refused.exit_code == 2
    assert "is not UTF-8 text" in refused.output
    assert "--encoding, such as latin-1" in refused.output
    refused = run("evaluate de.csv --encoding latin-1 --delimiter ;")
    assert "is not a number. If the comma is its decimal point: --decimal ," in refused.output
    assert "--delimiter (delimiter= in Python) is for text" in run("evaluate scores.parquet --delimiter ;").output


@pytest.mark.parametrize("name", ["part-*.csv", "parts", "part-*.csv.gz"])
def test_patterns_are_measured_monitored_and_calibrated_like_folders(
    run: Run, binary: pa.Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("parts").mkdir()
    for i in range(3):
        text = binary.slice(200 * i, 200).to_pandas().to_csv(index=False)
        for path in (f"part-{i}.csv", f"parts/part-{i}.csv"):
            Path(path).write_text(text)
        Path(f"part-{i}.csv.gz").write_bytes(gzip.compress(text.encode()))
    wanted = json.loads(run("evaluate scores.csv --json").output)
    found = json.loads(run("evaluate --json", name).output)
    assert (found["n"], found["scores"]) == (600, wanted["scores"])
    windows = json.loads(run("monitor --json", name).output)["rows"]
    assert [window["name"][:6] for window in windows] == ["part-0", "part-1", "part-2"]
    run("fit scores.csv --method beta -o c.json")
    assert run("apply c.json -o out", name).output == "Wrote out: 600 rows with p_calibrated in 3 parts\n"
    monkeypatch.setattr(data, "MANY", 1)
    assert json.loads(run("evaluate --json", name).output)["scores"] == wanted["scores"]
    assert "names many files" in run("rank-preserve --margins m.json -o q.csv", name).output
