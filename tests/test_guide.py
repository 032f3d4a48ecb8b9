"""The guide is true: the Python and the commands of its pages run, print what they show, and draw their pictures."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import calibrant as cb
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
        drawn, kept = (imread(folder / picture) for folder in (tmp_path, GUIDE))
        assert drawn.shape == kept.shape, picture
        assert np.abs(drawn - kept).mean() < _DIFFERENCE, f"{picture} differs: copy what the page draws into docs/guide"


def test_pictures_that_differ_are_told_apart() -> None:
    kept = [imread(GUIDE / picture) for name in PAGES for picture in pictures((GUIDE / name).read_text("utf-8"))]
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


def names_of_the_table() -> list[str]:
    """Return what stands in the second column of the tables of the page on other packages, as code."""
    page = (GUIDE / "coming-from-other-packages.md").read_text("utf-8")
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`(cb\.[^`]+)`", row)]


@pytest.mark.parametrize("code", names_of_the_table())
def test_names_that_stand_for_those_of_other_packages_run(code: str) -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2.0, 2.0, 2.0], 200)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(int)
    mpl.use("Agg")
    names = {"cb": cb, "clf": GaussianNB().fit(P, y), "FrozenEstimator": FrozenEstimator, "p": p, "P": P}
    found = eval(code, names | {"y": rng.integers(0, 3, 200) if "P, " in code else y})
    if isinstance(found, cb.CalibratedClassifierCV):
        assert found.fit(P, P[:, 0] > rng.random(200)).predict_proba(P).shape == (200, 2)
    elif hasattr(found, "fit"):
        assert found.fit(p, y).predict_proba(p).shape == (200,)
    else:
        assert found is not None


def test_the_table_of_names_is_read() -> None:
    assert len(names_of_the_table()) >= 25


@pytest.mark.parametrize("name", PAGES)
def test_every_block_that_could_run_does(name: str) -> None:
    text = (GUIDE / name).read_text("utf-8")
    assert {block.language for block in fenced(text)} <= {"python", "pycon", "console", "bash"}
    assert text.count("```") == 2 * len(list(fenced(text)))
