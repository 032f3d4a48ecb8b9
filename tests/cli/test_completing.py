"""What a shell offers: files, the columns of the file that is given, and names of methods."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete
from click.testing import Result

from calibrant.cli import choices, main

Run = Callable[..., Result]


def offered(line: str) -> list[str]:
    """Return what is offered behind a line whose last word is half typed."""
    *args, incomplete = line.split(" ")
    complete = ShellComplete(main, {}, "calibrant", "_CALIBRANT_COMPLETE")
    return [item.value if item.type == "plain" else item.type for item in complete.get_completions(args, incomplete)]


@pytest.mark.parametrize(
    "line",
    [
        "evaluate ",
        "evaluate sc",
        "apply c",
        "apply c.json new",
        "fit scores.csv -o ",
        "evaluate scores.csv --calibrator ",
    ],
)
def test_files_are_left_to_the_shell(binary: pa.Table, line: str) -> None:
    assert offered(line) == ["file"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("evaluate scores.csv --label ", ["row", "y", "p", "w"]),
        ("evaluate scores.parquet --weight w", ["w"]),
        ("evaluate scores.parquet --score p,", ["p,row", "p,y", "p,p", "p,w"]),
        ("compare scores.csv --cluster r", ["row"]),
        ("decide evaluate scores.csv --label y", ["y"]),
        ("forecast evaluate scores.csv --mean r", ["row"]),
        ("apply c.json scores.csv --score r", ["row"]),
        ("evaluate de.csv --delimiter ; --label ", ["row", "y", "p", "w"]),
        ("evaluate tabs.csv --delimiter tab --label y", ["y"]),
        ("evaluate none.csv --label ", []),
        ("evaluate --label ", []),
        ("evaluate - --label ", []),
    ],
)
def test_columns_are_those_of_the_file_that_is_given(binary: pa.Table, line: str, names: list[str]) -> None:
    pd.DataFrame(columns=binary.column_names).to_csv("de.csv", sep=";", index=False)
    pd.DataFrame(columns=binary.column_names).to_csv("tabs.csv", sep="\t", index=False)
    assert offered(line) == names


def test_methods_are_offered() -> None:
    assert offered("fit scores.csv --method ") == list(choices.METHODS)
    assert offered("fit scores.csv --method iso") == ["isotonic"]
    assert offered("compare scores.csv --methods isotonic,b") == ["isotonic,beta"]
    assert offered("forecast fit f.csv --method var") == ["variance"]
    assert offered("rank-preserve f.csv --method adm") == ["admm"]


def test_bash_is_told_so_by_the_program(binary: pa.Table) -> None:
    env = {
        **os.environ,
        "_CALIBRANT_COMPLETE": "bash_complete",
        "COMP_WORDS": "calibrant evaluate scores.csv --label ",
        "COMP_CWORD": "4",
    }
    done = subprocess.run([sys.executable, "-m", "calibrant"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,row", "plain,y", "plain,p", "plain,w"]
