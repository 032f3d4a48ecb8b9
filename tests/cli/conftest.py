"""Files of scores, and a way to run commands on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from calibrant.cli import main

Run = Callable[..., Result]
CLASSES = ("cat", "dog", "eel")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def unrendered_pages(unrendered: None) -> None:
    """Let the pages of all tests here hold empty pictures."""


@pytest.fixture
def run() -> Run:
    """Run a command in this process; arguments in one text are split at spaces."""

    def invoke(command: str, *more: str, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(main, [*command.split(), *more], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def binary(folder: Path) -> pa.Table:
    """Scores too high by far, as scores.csv and scores.parquet: label y, score p, weight w."""
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p**2).astype(np.int64)
    table = pa.table({"row": np.arange(600), "y": y, "p": p, "w": rng.integers(0, 4, 600)})
    pc.write_csv(table, folder / "scores.csv")
    pq.write_table(table, folder / "scores.parquet")
    return table


@pytest.fixture
def several(folder: Path) -> pa.Table:
    """Overconfident probabilities of three classes, as several.parquet: label y, scores p_eel, p_cat, p_dog."""
    rng = np.random.default_rng(1)
    truth = rng.dirichlet([1.0, 1.0, 1.0], 600)
    y = [CLASSES[rng.choice(3, p=row)] for row in truth]
    sharp = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    table = pa.table({"y": y, "p_eel": sharp[:, 2], "p_cat": sharp[:, 0], "p_dog": sharp[:, 1]})
    pq.write_table(table, folder / "several.parquet")
    return table
