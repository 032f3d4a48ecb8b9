"""Where a run comes from: the commit of the folder that it was started in, and versions of what took part."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from calibrant.training.bars import Bars
from calibrant.training.dataset import make_dataset
from calibrant.training.labels import label_bars
from calibrant.training.run_record import git_commit, provenance


def test_the_commit_is_that_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit() == ""
    git = shutil.which("git")
    if git is None:
        return
    Path("model.txt").write_text("one")
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "model.txt"), (*name, "commit", "-q", "-m", "one")):
        subprocess.run([git, *words], check=True)
    assert re.fullmatch(r"[0-9a-f]{40}", git_commit())
    Path("model.txt").write_text("two")
    assert git_commit().endswith("-dirty")


def test_versions_of_the_library_and_the_hash_of_the_bars_are_noted(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(200)
    data = make_dataset(bars, label_bars(bars), horizon=20)
    found = provenance(bars, data, "lightgbm")
    assert found["lightgbm"] == version("lightgbm")
    assert found["data_sha256"] == bars.sha256() != make_bars(200, seed=1).sha256()
    assert found["classes"] == [-1, 0, 1]
    assert (found["n_bars"], found["symbols"], found["features"]) == (200, ["A"], list(data.names))
