"""Every example of the gallery runs without a warning, draws whole pictures, and says in prose what it shows."""

from __future__ import annotations

import ast
import re
import runpy
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from page_runner import ROOT

GALLERY = ROOT / "docs" / "gallery"
EXAMPLES = sorted(GALLERY.glob("*/plot_*.py"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in EXAMPLES]
#: Longer sentences are hard to follow.
MOST_WORDS = 40
#: How far a picture may reach beyond its edge, in inches, before something of it is cut off.
_EDGE = 0.04

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)


class Page(NamedTuple):
    """What a reader of an example sees beside its code: the title, its underline, and paragraphs."""

    title: str
    underline: str
    paragraphs: list[str]
    n_blocks: int


def read(path: Path) -> Page:
    """Take the prose out of an example: its docstring, and the comments that follow lines of `# %%`."""
    source = path.read_text("utf-8")
    title, underline, *rest = (ast.get_docstring(ast.parse(source)) or "\n").splitlines()
    blocks = re.findall(r"^# %%\n((?:#.*\n)*)", source, re.MULTILINE)
    texts = ["\n".join(rest), *(re.sub(r"^# ?", "", block, flags=re.MULTILINE) for block in blocks)]
    paragraphs = [found for text in texts for found in re.split(r"\n\s*\n|\n(?=\* )", text) if found.strip()]
    return Page(title, underline, [without_heading(each) for each in paragraphs], len(blocks))


def without_heading(paragraph: str) -> str:
    """Leave out a heading that stands above a paragraph."""
    return re.sub(r"^.+\n-{4,}\n?", "", paragraph.strip())


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph at full stops, question marks and exclamation marks, not at those within numbers or code."""
    plain = re.sub(r"``[^`]*``|:\w+:`[^`]*`", "code", paragraph.replace("et al.", "et al"))
    return [each for each in re.split(r"(?<=[.?!:])\s+", plain) if each]


@each_example
def test_an_example_runs_and_draws_whole_pictures(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.use("Agg")
        warnings.simplefilter("error")
        runpy.run_path(str(path))
        assert not list(tmp_path.iterdir()), "the site is built in the folder of the example: write to a temporary one"
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        for figure in figures:
            assert any(ax.has_data() for ax in figure.axes)
            figure.draw_without_rendering()
            found, edge = figure.get_tightbbox(), figure.bbox_inches
            assert found.x0 > edge.x0 - _EDGE, "cut off at the left"
            assert found.y0 > edge.y0 - _EDGE, "cut off below"
            assert found.x1 < edge.x1 + _EDGE, "cut off at the right"
            assert found.y1 < edge.y1 + _EDGE, "cut off above"


@each_example
def test_an_example_has_a_title_and_prose(path: Path) -> None:
    page = read(path)
    assert page.title
    assert page.title[-1] not in "."
    assert page.underline == "=" * len(page.title)
    assert page.n_blocks >= 3
    assert len(page.paragraphs) >= 4
    assert sum(len(each.split()) for each in page.paragraphs) >= 80
    assert all("%%" not in each for each in page.paragraphs)


@each_example
def test_no_sentence_is_long(path: Path) -> None:
    for paragraph in read(path).paragraphs:
        for sentence in sentences(paragraph):
            assert len(sentence.split()) <= MOST_WORDS, sentence


@each_example
def test_headings_are_underlined_in_their_length(path: Path) -> None:
    for title, line in re.findall(r"^# (\S.*)\n# (-{4,})$", path.read_text("utf-8"), re.MULTILINE):
        assert len(title) == len(line), title


@each_example
def test_an_example_asserts_what_it_claims(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]


@each_example
def test_decimals_in_prose_stand_in_the_code(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    known = {
        float(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    }
    told = {float(each) for text in read(path).paragraphs for each in re.findall(r"\d+\.\d+", text)}
    assert told <= known


@each_example
def test_an_example_needs_no_download_and_no_other_calibration(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not re.search(r"fetch_|urllib|requests|https?://|shared/", source)
    assert not re.search(r"^\s*(from|import) sklearn\.calibration", source, re.MULTILINE)


def test_there_are_examples_in_every_section() -> None:
    assert len(EXAMPLES) >= 24
    assert len({path.stem for path in EXAMPLES}) == len(EXAMPLES), "two examples of one name overwrite their pictures"
    folders = {path.parent for path in EXAMPLES}
    assert folders == {path.parent for path in GALLERY.glob("*/GALLERY_HEADER.rst")}
    for folder in [GALLERY, *folders]:
        title, line, *_ = (folder / "GALLERY_HEADER.rst").read_text("utf-8").splitlines()
        assert len(title) == len(line)
        assert set(line) == ({"="} if folder == GALLERY else {"-"})


def test_the_four_examples_of_scikit_learn_say_which_import_was_changed() -> None:
    theirs = [path for path in EXAMPLES if path.parent.name == "scikit_learn"]
    assert len(theirs) == 4
    for path in theirs:
        assert re.search(r"from calibrant import .*  # was: from sklearn\.calibration import", path.read_text("utf-8"))


@each_example
def test_a_block_ends_with_what_a_page_shall_show(path: Path) -> None:
    for block in re.split(r"^# %%\n", path.read_text("utf-8"), flags=re.MULTILINE):
        *_, last = ast.parse(block).body or [None]
        if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):  # its value would be printed
            assert ast.unparse(last.value).startswith(("print(", "plt.show(", "workplace.cleanup(")), ast.unparse(last)
        if re.search(r"^fig, .*plt\.subplots\(", block, re.MULTILINE):  # pictures are taken at the end of a block
            assert "plt.show()" in block, block
