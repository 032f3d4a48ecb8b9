"""What the documentation says is spelled right, and in sentences that one can read in one go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from page_runner import ROOT

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "auto_gallery"} & set(path.parts))
LONGEST = 40


def sentences(page: str) -> list[str]:
    """Return the sentences of a page: those of its paragraphs and of each point of a list, without code and tables."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#|!\[|\[.*\]: )", line)]
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", "\n".join(lines))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"\n\s*\n|\n\s*(?:[*-]|\d+\.|:) ", text)
    return [
        sentence.strip()
        for part in parts
        for sentence in re.split(r"(?<=[.!?:;])[)\"'*]*\s+(?=[^a-z\s]|calibrant )", " ".join(part.split()))
        if sentence.strip()
    ]


def too_long(page: str) -> list[str]:
    return [sentence for sentence in sentences(page) if len(re.findall(r"[\w`]\S*", sentence)) > LONGEST]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_is_past_forty_words(path: Path) -> None:
    assert too_long(path.read_text("utf-8")) == []


def test_a_long_sentence_is_found_and_a_long_paragraph_is_not() -> None:
    words = "word " * 25
    assert len(too_long(f"A {words * 2}end.")) == 1
    assert too_long(f"A {words}end. Another {words}end.") == []
    assert too_long(f"```text\n{words * 3}\n```\n\n| {words * 3} |") == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_fractions_have_braces(path: Path) -> None:
    """The site's formulas come from a reader to which \\tfrac12 a is 12 over a."""
    assert re.findall(r"\\[dt]?frac(?!\{).{9}", path.read_text("utf-8")) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_the_spelling_is_right(tmp_path: Path) -> None:
    where = [*map(str, PAGES), str(ROOT / "src"), str(ROOT / "examples"), str(ROOT / "CHANGELOG.md")]
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *where], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    wrong = tmp_path / "wrong.md"
    wrong.write_text("It is definately wrong.\n", encoding="utf-8")
    assert subprocess.run([*command, str(wrong)], capture_output=True, cwd=tmp_path).returncode != 0
