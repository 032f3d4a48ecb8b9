"""What a release says of itself is the same everywhere, and what it allows is written so that it can be tested."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from calibrant import __version__
from page_runner import ROOT

sys.path.append(str(ROOT / "scripts"))
from oldest import pins

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == __version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1]
    assert newest == __version__


def test_every_requirement_has_an_oldest_version_to_test(tmp_path: Path) -> None:
    project = PYPROJECT["project"]
    required = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {re.match(r"[\w-]+", one)[0] for one in required}
    assert {pin.partition("==")[0] for pin in pins()} == names
    broken = tmp_path / "pyproject.toml"
    broken.write_text('[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\n', encoding="utf-8")
    with pytest.raises(ValueError, match="'numpy' has no lower bound"):
        pins(broken)


def test_of_two_bounds_the_higher_one_is_the_oldest_that_goes_with_all(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    extras = '[project.optional-dependencies]\na = ["x>=1.9"]\nb = ["x>=1.10", "y>=2; sys_platform == \'darwin\'"]\n'
    file.write_text(f"[project]\ndependencies = []\n{extras}", encoding="utf-8")
    assert pins(file) == ["x==1.10", "y==2; sys_platform == 'darwin'"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_run_tasks_that_exist(path: Path) -> None:
    tasks = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = re.findall(r"\bmake ([a-z-]+)", path.read_text("utf-8"))
    assert asked
    assert set(asked) <= tasks


def test_all_pythons_that_are_allowed_are_tested() -> None:
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    versions = re.findall(r'"(3\.\d+)"', workflow)
    assert [int(version.partition(".")[2]) for version in dict.fromkeys(versions)] == [11, 12, 13, 14]
    assert PYPROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_commands_of_texts_are_tasks_of_the_makefile() -> None:
    tasks = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*/*.md")]
    asked = {task for page in pages for task in re.findall(r"[`$] ?make ([a-z-]+)", page.read_text("utf-8"))}
    assert {"demo", "test", "docs"} <= asked <= tasks


def test_extras_that_errors_and_pages_name_are_there_and_named_alike() -> None:
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*/*.md"), ROOT / "README.md"]
    named = [
        names
        for path in sources
        for names in re.findall(r"pip install '([\w.]+)\[([a-z,]+)\]'", path.read_text("utf-8"))
    ]
    assert {name for _, names in named for name in names.split(",")} == extras
    assert {package for package, _ in named} == {"calibrant", "."}
    assert (
        sum(package == "." for package, _ in named) == 2
    )  # in the README and on the page on installing, which say why
