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

DOCS = ROOT / "docs"
FOLDERS = ("start", "guide", "algorithms")
PAGES = sorted(f"{folder}/{path.name}" for folder in FOLDERS for path in (DOCS / folder).glob("*.md"))
#: Pages that are made of words and commands, or whose pictures are elsewhere.
WITHOUT_PICTURES = {"index.md", "install.md", "command-line.md", "ci.md", "production.md", "files-duckdb-spark.md"}
#: Languages of blocks that are run by something else: a shell's install, a service of CI, Docker, Spark.
NOT_OURS = {"sh", "yaml", "text"}
#: Mean difference of grey values in [0, 1] that fonts and versions of matplotlib may make.
_DIFFERENCE = 0.01


def pictures(text: str) -> list[str]:
    """Return the pictures that a page draws; those of the benchmarks are looked at in test_pictures.py."""
    return re.findall(r"!\[[^\]]+\]\((?!\.\./benchmarks/)([^)]+)\)", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_prints_what_it_shows_and_draws_its_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text("utf-8")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        run(text, name, in_processes=not name.startswith("guide/"))
    folder, _, page = name.partition("/")
    assert pictures(text) or folder == "algorithms" or name == "guide/index.md" or page in WITHOUT_PICTURES
    for picture in pictures(text):
        drawn, kept = (imread(place / picture) for place in (tmp_path, DOCS / folder))
        assert drawn.shape == kept.shape, picture
        assert np.abs(drawn - kept).mean() < _DIFFERENCE, (
            f"{picture} differs: copy what the page draws into docs/{folder}"
        )


def kept_pictures() -> set[Path]:
    """Return the pictures that pages show."""
    return {(DOCS / name).parent / picture for name in PAGES for picture in pictures((DOCS / name).read_text("utf-8"))}


def test_pictures_that_differ_are_told_apart() -> None:
    kept = [imread(path) for path in sorted(kept_pictures())]
    for i, one in enumerate(kept):
        for other in kept[:i]:
            assert one.shape != other.shape or np.abs(one - other).mean() > _DIFFERENCE


def test_every_picture_is_of_a_page() -> None:
    assert {path for folder in FOLDERS for path in (DOCS / folder).glob("figures/*")} == kept_pictures()


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    path = DOCS / name
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (path.parent / t).exists()] == []


def names_of_the_table() -> list[str]:
    """Return what stands in the second column of the tables of the page on other packages, as code."""
    page = (DOCS / "guide" / "coming-from-other-packages.md").read_text("utf-8")
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
    text = re.sub(r"^```\{toctree\}.*?^```$", "", (DOCS / name).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    runs = {"python", "pycon", "console", "bash", "toml"}
    assert {block.language for block in fenced(text)} <= runs | NOT_OURS
    assert text.count("```") == 2 * len(list(fenced(text)))
    for block in fenced(text):
        if block.language not in runs and block.language != "yaml":
            assert not re.search(r"^\s*\$ calibrant ", block.text, re.MULTILINE), block
