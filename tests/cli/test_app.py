"""The group of commands: what it imports, suggests, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from calibrant._version import __version__
from calibrant.cli import app, main
from calibrant.errors import CalibrantError, DataWarning

Run = Callable[..., Result]

PYTHON = [sys.executable, "-m", "calibrant"]
#: The commands run in other folders, where a relative search path leads nowhere.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(app.__file__).parents[2])}


def real(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PYTHON, *arguments], input=stdin, capture_output=True, check=False, env=ENVIRONMENT)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command_with_an_example(run: Run, option: str) -> None:
    shown = run(option).output
    for name, what in app.COMMANDS.items():
        assert f"  {name} " in shown
        assert what in " ".join(shown.split())  # long lines are wrapped
    assert "Examples:\n  calibrant evaluate scores.parquet --label y --score p\n" in shown


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_of_each_command_has_an_example(run: Run, name: str, option: str) -> None:
    result = run(f"{name} {option}")
    assert result.exit_code == 0
    assert f"Usage: main {name} [OPTIONS]" in result.output
    first = result.output.partition("Examples:\n")[2].splitlines()[0]
    assert f"{first} ".startswith(f"  calibrant {name} ")  # warm-up takes no argument


@pytest.mark.parametrize("arguments", ["--help", "--version", ""])
def test_help_of_the_group_imports_no_numpy(arguments: str) -> None:
    script = (
        "import sys\n"
        "from calibrant.cli import main\n"
        "try:\n"
        f"    main({arguments.split()!r}, prog_name='calibrant')\n"
        "except SystemExit:\n"
        "    print(*sorted({'numpy', 'pyarrow', 'rich', 'scipy', 'matplotlib'} & {*sys.modules}), 'loaded')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout.splitlines()[-1] == "loaded"


def test_version(run: Run) -> None:
    assert run("--version").output == f"calibrant, version {__version__}\n"


def test_near_command_is_suggested(run: Run) -> None:
    result = run("evalute scores.csv")
    assert result.exit_code == 2
    assert "Error: there is no command 'evalute'. Did you mean 'evaluate'?" in result.output


def test_near_option_is_suggested(run: Run) -> None:
    result = run("evaluate scores.csv --lable y")
    assert result.exit_code == 2
    assert "--label" in result.output


@pytest.mark.slow
def test_refusal_is_one_line_on_standard_error() -> None:
    done = real("evaluate", "nowhere.csv")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr == b"Error: there is no file nowhere.csv.\n"


@pytest.mark.slow
def test_names_that_the_terminal_lacks_are_shown_by_their_codes(binary: pa.Table) -> None:
    name = "Ω".encode() + b"\xff.csv"
    Path(os.fsdecode(name)).write_bytes(Path("scores.csv").read_bytes())
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}
    for options in ([], ["--json"]):
        done = subprocess.run([*PYTHON, "evaluate", name, *options], capture_output=True, check=False, env=environment)
        assert done.stderr == b""
        assert rb"\u03a9\udcff.csv" in done.stdout


def test_error_of_the_system_names_the_file(run: Run) -> None:
    result = run("inspect nowhere.json")
    assert result.exit_code == 2
    assert result.output == "Error: nowhere.json: No such file or directory\n"


@pytest.mark.slow
def test_standard_input_and_output_of_real_processes(binary: pa.Table) -> None:
    data = Path("scores.csv").read_bytes()
    assert real("fit", "-", "-o", "c.json", stdin=data).returncode == 0
    done = real("apply", "c.json", "-", "-o", "-", stdin=data)
    assert done.returncode == 0
    assert done.stderr == b""
    lines = done.stdout.splitlines()
    assert [line.rpartition(b",")[0] for line in lines] == data.splitlines()
    assert lines[0].endswith(b",p_calibrated")
    gate = real("evaluate", "-", "--score", "p_calibrated", "--max", "brier=0.01", stdin=done.stdout)
    assert gate.returncode == 1
    assert gate.stderr.startswith(b"Gate failed: brier 0.")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["apply c.json big.csv -o -", "evaluate big.csv"])
def test_reader_that_goes_away_is_no_error(binary: pa.Table, run: Run, command: str) -> None:
    run("fit scores.csv -o c.json")
    with Path("big.csv").open("w") as big:
        big.write("y,p\n")
        big.writelines(f"{i % 2},0.{i:06d}\n" for i in range(60_000))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PYTHON, *command.split()], stdout=write, stderr=subprocess.PIPE, check=False, env=ENVIRONMENT
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == app.BROKEN_PIPE


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX closes streams")
@pytest.mark.parametrize("command", ["evaluate scores.csv", "apply c.json scores.csv -o -", "export c.json --to sql"])
def test_output_that_is_closed_is_one_whose_reader_went_away(binary: pa.Table, run: Run, command: str) -> None:
    run("fit scores.csv --method sigmoid -o c.json")
    words = [*PYTHON, *command.split()]
    for closed, code in ((">&-", app.BROKEN_PIPE), ("2>&-", 0)):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *words], capture_output=True, check=False, env=ENVIRONMENT
        )
        assert (done.returncode, done.stderr) == (code, b"")


def test_warnings_are_lines_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def command() -> None:
        for _ in range(3):
            warnings.warn("class 'x' has no rows", DataWarning, stacklevel=1)
        with pytest.warns(UserWarning, match="another"):
            warnings.warn("another", UserWarning, stacklevel=1)

    monkeypatch.setattr(app.Commands, "get_command", lambda *_: command)
    result = CliRunner().invoke(main, ["evaluate"])
    assert result.exit_code == 0
    assert result.stderr == "Warning: class 'x' has no rows\n"


@pytest.mark.parametrize(("setting", "is_bold"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_colour_is_left_out_where_nobody_wants_it(binary: pa.Table, setting: dict[str, str], is_bold: bool) -> None:
    result = CliRunner(env={"NO_COLOR": "", **setting}).invoke(main, ["evaluate", "scores.csv"], color=True)
    assert ("\x1b[1m" in result.output) == is_bold
    assert "\x1b" not in CliRunner().invoke(main, ["evaluate", "scores.csv"]).output


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "Interrupted."),
        (ZeroDivisionError("by 0"), 3, "ZeroDivisionError: by 0\n\nThis is a fault of calibrant, not yours"),
        (SystemError(), 3, "This is a fault of calibrant, not yours"),
        (MemoryError(), 2, "Error: there is not enough memory. Take fewer rows."),
        (CalibrantError("a is b. Pass c."), 2, "Error: a is b. Pass c."),
        (OSError(28, "No space left on device", "t"), 2, "Error: t: No space left on device"),
    ],
)
def test_each_end_has_its_exit_code_and_no_fault_has_that_of_a_gate(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("calibrant.cli.data.Request.open", fail)
    for command in ("evaluate t.csv", "monitor t.csv", "fit t.csv -o c.json"):
        result = CliRunner().invoke(main, command.split())
        assert result.exit_code == code
        assert said in result.output


@pytest.mark.slow
def test_an_interrupted_process_ends_with_130() -> None:
    process = subprocess.Popen([*PYTHON, "evaluate", "-", "--format", "csv"], stdin=-1, stderr=-1, env=ENVIRONMENT)
    assert process.stdin is not None
    process.stdin.write(b"p,y\n0.5,1\n")
    process.stdin.flush()
    time.sleep(5.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, b"Interrupted.\n")


TOLD = (
    ("latin-1.csv", "--encoding, such as latin-1 (TableFormat(encoding=) in Python)."),
    ("semicolons.csv", "--delimiter ';' (TableFormat(delimiter=) in Python)."),
    ("named.oddly", "--format (format= in Python): parquet, arrow, csv, tsv, jsonl."),
)


@pytest.mark.parametrize(("file", "said"), TOLD)
@pytest.mark.parametrize(
    ("words", "has_option"),
    [
        (["train", "--label", "y", "--time", "t", "--table"], False),
        (["oof", "--label", "y", "--time", "t", "--predictions"], False),
        (["evaluate", "--label", "y"], True),
        (["forecast", "evaluate", "--label", "y", "--mean", "m", "--std", "s"], True),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_an_option_that_a_command_lacks_is_no_fix(
    file: str, said: str, words: list[str], has_option: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix that all commands tell is of those that read text by options; training reads none of these."""
    monkeypatch.chdir(tmp_path)
    Path("latin-1.csv").write_bytes("größe,Y,T\n1,0,1\n".encode("latin-1"))
    Path("semicolons.csv").write_text("'a,b';Y;T\n1;0;1\n")
    Path("named.oddly").write_text("a\n1\n")
    done = CliRunner().invoke(main, [*words, file])
    assert done.exit_code == 2
    told = " ".join(done.stderr.split())
    besides = f"This command has no {said.split()[0].rstrip(',')}: write the table as Parquet, or as CSV in UTF-8"
    assert said in told
    assert (besides in told) is not has_option, told


@pytest.mark.parametrize(
    ("words", "besides"),
    [
        (["train", "--label", "y", "--time", "t", "--table"], "This command has no --delimiter: write the table"),
        (["oof", "--label", "y", "--time", "t", "--predictions"], "This command has no --delimiter: write the table"),
        (["evaluate", "--label", "y"], ""),
        (["check"], "In the project file options are keys: delimiter ="),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_warning_too_tells_what_works_for_the_command(
    words: list[str], besides: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("semicolons.csv").write_text("y;p\n" + "0;0.2\n1;0.7\n1;0.4\n0;0.3\n" * 9)
    if words == ["check"]:
        Path("calibrant.toml").write_text('[[check]]\nname = "a"\nfiles = "semicolons.csv"\nmax = {ece = 1}\n')
    told = CliRunner().invoke(main, words if words == ["check"] else [*words, "semicolons.csv"]).stderr
    (warning,) = (line for line in told.splitlines() if line.startswith("Warning: "))
    assert "read with the delimiter ';'" in warning
    assert warning.partition(" in Python). ")[2].startswith(besides)
    assert warning.endswith(" in Python).") is (not besides)
