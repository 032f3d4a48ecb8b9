"""README.md is true: its Python runs, its commands run, and both print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from page_runner import ROOT, fenced, run

README = ROOT / "README.md"
COMMANDS = ("evaluate", "decide", "fit", "apply", "inspect", "report")


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
        ("```console\n$ ls\n```", "README.md:2: only calibrant and scripts run in a console block"),
    ],
)
def test_what_is_untrue_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, ArithmeticError), match=re.escape(message)):
        run(text)
