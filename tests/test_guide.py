"""The guide is true: the Python and the commands of its pages run, print what they show, and draw their pictures."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from page_runner import ROOT, fenced, run

GUIDE = ROOT / "docs" / "guide"
PAGES = sorted(path.name for path in GUIDE.glob("*.md"))
#: Mean difference of grey values in [0, 1] that fonts and versions of matplotlib may make.
_DIFFERENCE = 0.01


def pictures(text: str) -> list[str]:
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_prints_what_it_shows_and_draws_its_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (GUIDE / name).read_text("utf-8")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        run(text, name)
    assert pictures(text)
    for picture in pictures(text):
        drawn, kept = (mpl.image.imread(folder / picture) for folder in (tmp_path, GUIDE))
        assert drawn.shape == kept.shape, picture
        assert np.abs(drawn - kept).mean() < _DIFFERENCE, f"{picture} differs: copy what the page draws into docs/guide"


def test_pictures_that_differ_are_told_apart() -> None:
    kept = [
        mpl.image.imread(GUIDE / picture) for name in PAGES for picture in pictures((GUIDE / name).read_text("utf-8"))
    ]
    for i, one in enumerate(kept):
        for other in kept[:i]:
            assert one.shape != other.shape or np.abs(one - other).mean() > _DIFFERENCE


def test_every_picture_is_of_a_page() -> None:
    shown = {picture for name in PAGES for picture in pictures((GUIDE / name).read_text("utf-8"))}
    assert {f"figures/{path.name}" for path in (GUIDE / "figures").iterdir()} == shown


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", (GUIDE / name).read_text("utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (GUIDE / t).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_block_that_could_run_does(name: str) -> None:
    text = (GUIDE / name).read_text("utf-8")
    assert {block.language for block in fenced(text)} <= {"python", "pycon", "console"}
    assert text.count("```") == 2 * len(list(fenced(text)))
