"""Ways of calling the command line wrongly: each ends in one line that says what to do, and in its exit code.

2 says that a call or a file can't be used, 1 that a gate failed, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

import calibrant as cb

Run = Callable[..., Result]

#: The call, and what its message must say.
WRONG = (
    ("evalute scores.csv", "there is no command 'evalute'. Did you mean 'evaluate'?"),
    ("evaluate", "Missing argument 'FILE'"),
    ("evaluate scores.csv more.csv", "Got unexpected extra argument"),
    ("evaluate nothing.csv", "nothing.csv"),
    ("evaluate .", "empty.csv is empty"),
    ("evaluate scores.csv --lable y", "No such option '--lable'"),
    ("evaluate scores.csv --label why", "'why'"),
    ("evaluate scores.csv --score q", "'q'"),
    ("evaluate scores.csv --weight heavy", "'heavy'"),
    ("evaluate scores.csv --score row", "outside [0, 1]"),
    ("evaluate scores.csv --label p", "Are the columns of --label and --score swapped?"),
    ("evaluate scores.csv --level 95", "--level 95.0 is outside (0, 1)"),
    ("evaluate scores.csv --level high", "is not a valid float"),
    ("evaluate scores.csv --bins 0", "--bins 0 is too small"),
    ("evaluate scores.csv --seed -1", "-1 is not in the range"),
    ("evaluate scores.csv --max ece", "is not NAME=VALUE"),
    ("evaluate scores.csv --max ece=small", "small"),
    ("evaluate scores.csv --max eec=0.1", "Did you mean 'ece'"),
    ("audit scores.csv --features row --draws 0", "--draws 0 is too small"),
    ("evaluate scores.csv --positive 2", "--positive '2' is none of the labels"),
    ("evaluate scores.csv --input logits", "Did you mean 'logit'"),
    ("evaluate scores.csv --input score", "--calibrator"),
    ("evaluate scores.csv --missing drop", "Choose one of: 'error', 'skip'"),
    ("evaluate scores.csv --format xlsx", "xlsx"),
    ("evaluate scores.csv --format parquet", "scores.csv"),
    ("evaluate scores.csv --delimiter ::", "is not one character"),
    ("evaluate scores.csv --encoding latin9000", "is no encoding"),
    ("evaluate scores.csv --decimal ;", "is neither '.' nor ','"),
    ("evaluate scores.csv --group town", "'town'"),
    ("evaluate scores.csv --time row", "label_end"),
    ("evaluate scores.csv --calibrator none.json", "none.json"),
    ("evaluate scores.csv --calibrator scores.csv", "scores.csv"),
    ("evaluate scores.csv --versus q", "'q'"),
    ("evaluate cut.parquet", "cut.parquet"),
    ("evaluate empty.csv", "empty.csv"),
    ("evaluate scores.csv.zip", "zip"),
    ("fit scores.csv", "Missing option '-o'"),
    ("fit scores.csv -o out.json --method isotoni", "Did you mean 'isotonic'"),
    ("fit scores.csv -o out.json --method beta --bins 5", "does not take --bins"),
    ("fit scores.csv -o no/where/out.json", "no/where"),
    ("fit one.csv -o out.json", "one class"),
    ("apply fitted.json", "Missing argument 'FILE'"),
    ("apply fitted.json scores.csv", "Missing option '-o'"),
    ("apply scores.csv fitted.json -o out.csv", "scores.csv"),
    ("apply fitted.json scores.csv -o out.xlsx --score p", ".xlsx"),
    ("apply fitted.json scores.csv -o out.csv --score q", "'q'"),
    ("compare scores.csv --methods beta,gamma", "'gamma'"),
    ("compare scores.csv --folds 1", "1"),
    ("report scores.csv", "Missing option '-o'"),
    ("report scores.csv -o page.pdf", "doesn't say what to write"),
    ("export fitted.json --to excel -o out.sql", "excel"),
    ("inspect scores.csv", "scores.csv"),
    ("monitor scores.csv --alpha 2", "--alpha 2.0 is outside (0, 1)"),
    ("check", "there is no calibrant.toml"),
    ("check --config fitted.json", "fitted.json"),
    ("decide evaluate scores.csv --false-positive 1", "false-negative"),
    ("runs show never", "never"),
    ("forecast evaluate scores.csv --mean mu --std sigma", "'mu'"),
    ("rank-preserve scores.csv --margins totals.json -o out.csv", "totals.json"),
)


@pytest.fixture
def files(binary: pa.Table, folder: Path) -> None:
    """Files of every wrong kind, beside scores and a fitted calibrator."""
    cb.save(cb.SigmoidCalibrator().fit(binary["p"], binary["y"]), folder / "fitted.json")
    (folder / "empty.csv").write_text("")
    (folder / "one.csv").write_text("y,p\n1,0.2\n1,0.7\n")
    (folder / "cut.parquet").write_bytes((folder / "scores.parquet").read_bytes()[:-40])
    (folder / "scores.csv.zip").write_bytes(b"PK\x03\x04" + b"\0" * 40)


@pytest.mark.parametrize(("command", "said"), WRONG)
def test_a_wrong_call_says_what_to_do_and_ends_with_two(run: Run, files: None, command: str, said: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    result = run(command)
    assert said in result.stderr, result.stderr
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before, "nothing was written"


def test_there_are_forty_of_them() -> None:
    assert len({command for command, _ in WRONG}) >= 40


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("evaluate scores.csv", 0),
        ("evaluate scores.csv --max brier=1", 0),
        ("evaluate scores.csv --max brier=0", 1),
        ("evaluate scores.csv --min auc=1", 1),
        ("evaluate scores.csv --max brier=0 --max eec=1", 2),
    ],
)
def test_one_is_the_code_of_gates_alone(run: Run, files: None, command: str, code: int) -> None:
    assert run(command).exit_code == code
