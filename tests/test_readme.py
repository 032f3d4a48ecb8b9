"""README.md is true: its Python runs, its commands run, and both print what it shows."""

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

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
COMMANDS = ("evaluate", "decide", "fit", "apply", "inspect", "report")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the file that its text starts on."""

    language: str
    text: str
    line: int


@pytest.mark.slow
def test_readme_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(README.read_text("utf-8"))


def test_readme_shows_every_command_and_none_that_is_not_run() -> None:
    blocks = list(fenced(README.read_text("utf-8")))
    shown = [line for block in blocks if block.language == "console" for line in block.text.splitlines()]
    for name in COMMANDS:
        assert any(line.startswith(f"$ calibrant {name} ") for line in shown), name
    for block in blocks:
        if block.language not in {"console", "pycon", "python"}:
            assert not re.search(r"^\s*\$?\s*calibrant ", block.text, re.MULTILINE), block


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_into_the_repository_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / name).read_text("utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (ROOT / t).exists()] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nx = 1 / 0\n```", "division by zero"),
        ("```python\nx = 1\n```\n```pycon\n>>> x + 1\n3\n```", "README.md:5"),
        ("```pycon\n>>> undefined\n```", "README.md:2"),
        ("```console\n$ calibrant inspect nowhere.json\n```", "README.md:2: exit code 2, and not 0"),
        ("```console\n$ calibrant --version\n$ echo $?\n1\n```", "README.md:2: exit code 0, and not 1"),
        ("```console\n$ calibrant --version\ncalibrant, version 0.0\n```", "README.md:2: printed"),
        ("```console\n$ ls\n```", "README.md:2: only calibrant runs in a console block"),
    ],
)
def test_what_is_untrue_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, ArithmeticError), match=re.escape(message)):
        run(text)


# --- the runner ----------------------------------------------------------------------------------------------


def run(text: str) -> None:
    """Run the blocks in order, as a reader would: Python in one session, commands in the same folder."""
    names: dict[str, Any] = {"__name__": "readme"}
    for block in fenced(text):
        match block.language:
            case "python":
                padded = "\n" * (block.line - 1) + block.text
                exec(compile(padded, "README.md", "exec"), names)
            case "pycon":
                run_session(block, names)
            case "console":
                run_commands(block)


def run_session(block: Block, names: dict[str, Any]) -> None:
    """Run a block of `>>>` lines and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(block.text, names, "README.md", "README.md", block.line - 1)
    assert test.examples, f"README.md:{block.line}: no >>> in a pycon block"
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.append, clear_globs=False)
    assert not report, f"README.md:{block.line}\n{''.join(report)}"
    names.update(test.globs)


def run_commands(block: Block) -> None:
    """Run a block of `$ calibrant` lines; compare what they print, and their exit code with what `echo $?` shows."""
    commands = [*re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)]
    codes = [m[2].strip() if m[1] == "echo $?" else "0" for m in [*commands[1:], *commands[:1]]]
    for found, code in zip(commands, codes, strict=True):
        command, shown = found[1], found[2]
        place = f"README.md:{block.line + block.text[: found.start()].count(chr(10))}"
        if command == "echo $?":
            continue
        assert command.startswith("calibrant "), f"{place}: only calibrant runs in a console block"
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "src"),
                "COLUMNS": "100",
                "NO_COLOR": "1",
                "PYTHONWARNINGS": "error",
            },
        )
        assert done.returncode == int(code), f"{place}: exit code {done.returncode}, and not {code}\n{done.stdout}"
        if shown.strip():
            assert doctest.OutputChecker().check_output(shown, done.stdout, FLAGS), f"{place}: printed\n{done.stdout}"


def fenced(text: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(found[1], found[2], text[: found.start(2)].count("\n") + 1)
