"""Run the blocks of a page of Markdown, and compare what they print with what the page shows."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import calibrant
from calibrant.cli import main

ROOT = Path(__file__).parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
#: How commands print, as the pages show it.
SHOWN = {"COLUMNS": "100", "NO_COLOR": "1"}


class Checker(doctest.OutputChecker):
    """Takes numbers of ten digits and more for equal where the first nine are: the others differ between processors."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(shortened(want), shortened(got), optionflags)


def shortened(text: str) -> str:
    """Return a text with its long fractions rounded to nine digits."""
    return re.sub(r"\d+\.\d{9,}(e[-+]\d+)?", lambda found: f"{float(found[0]):.9g}", text)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the file that its text starts on."""

    language: str
    text: str
    line: int


def run(text: str, page: str = "README.md", *, in_processes: bool = True) -> None:
    """Run the blocks in order, as a reader would: Python in one session, commands in the same folder.

    Commands run in processes of their own, or in this one, which saves their start; scripts always do in their own.
    """
    names: dict[str, Any] = {"__name__": "page"}
    for block in fenced(text):
        match block.language:
            case "python":
                padded = "\n" * (block.line - 1) + block.text
                exec(compile(padded, page, "exec"), names)
            case "pycon":
                run_session(block, names, page)
            case "console":
                run_commands(block, page, in_processes=in_processes)
            case "bash" | "toml":
                Path(script_name(block, page)).write_text(block.text, encoding="utf-8")


def script_name(block: Block, page: str) -> str:
    """Return the name of the file that a block of a shell's script or of settings is, as its first line says."""
    named = re.match(r"# (\S+\.(?:sh|toml))\b", block.text)
    assert named, f"{page}:{block.line}: a bash or toml block begins with the name of its file: # loop.sh"
    return named[1]


def run_session(block: Block, names: dict[str, Any], page: str) -> None:
    """Run a block of `>>>` lines and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line - 1)
    assert test.examples, f"{page}:{block.line}: no >>> in a pycon block"
    report: list[str] = []
    doctest.DocTestRunner(Checker(), optionflags=FLAGS, verbose=False).run(test, out=report.append, clear_globs=False)
    assert not report, f"{page}:{block.line}\n{''.join(report)}"
    names.update(test.globs)


def run_commands(block: Block, page: str, *, in_processes: bool) -> None:
    """Run the `$ calibrant` and `$ bash` lines of a block; compare what they print, and exit codes with `echo $?`."""
    commands = [*re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)]
    codes = [m[2].strip() if m[1] == "echo $?" else "0" for m in [*commands[1:], *commands[:1]]]
    for line, code in zip(commands, codes, strict=True):
        command, shown = line[1], line[2]
        place = f"{page}:{block.line + block.text[: line.start()].count(chr(10))}"
        if command == "echo $?":
            continue
        words = shlex.split(command)
        assert words[0] in ("calibrant", "bash"), f"{place}: only calibrant and scripts run in a console block"
        if in_processes or words[0] == "bash":
            found, printed = called(words if words[0] == "bash" else [sys.executable, "-m", *words])
        else:
            done = CliRunner().invoke(main, words[1:], prog_name="calibrant", env=SHOWN)
            found, printed = done.exit_code, done.output
        assert found == int(code), f"{place}: exit code {found}, and not {code}\n{printed}"
        if shown.strip():
            assert Checker().check_output(shown, printed, FLAGS), f"{place}: printed\n{printed}"


def called(words: list[str]) -> tuple[int, str]:
    """Run a process; return its exit code and what it printed."""
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={
            **os.environ,
            **SHOWN,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(calibrant.__file__).parents[1]),
            "PYTHONWARNINGS": "error",
        },
    )
    return done.returncode, done.stdout


def fenced(text: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(found[1], found[2], text[: found.start(2)].count("\n") + 1)
