"""The pictures of the README and of the benchmarks are those that the demo and the results draw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from page_runner import ROOT

sys.path.append(str(ROOT))
from benchmarks import pictures

#: Mean difference of grey values in [0, 1] that fonts and versions of matplotlib may make.
_DIFFERENCE = 0.01
FIGURES = ROOT / "docs" / "benchmarks" / "figures"


def assert_same(drawn: Path, kept: Path) -> None:
    one, other = imread(drawn), imread(kept)
    assert one.shape == other.shape, kept
    assert np.abs(one - other).mean() < _DIFFERENCE, f"{kept} differs: draw it anew"


def test_pictures_of_benchmarks_show_their_results(tmp_path: Path) -> None:
    mpl.use("Agg")
    pictures.main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FIGURES.iterdir()}
    for drawn in tmp_path.iterdir():
        assert_same(drawn, FIGURES / drawn.name)


@pytest.mark.slow
def test_the_picture_of_the_readme_is_drawn_by_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--out", str(tmp_path)]
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "before-and-after.png", ROOT / "docs" / "figures" / "before-and-after.png")
