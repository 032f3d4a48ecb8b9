"""Real binary score sets from the folder that CALIBRANT_DATA names, and how they are split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

#: Rows that held-out figures are measured on, at most.
MOST_HELD_OUT = 10_000
#: Sets of fewer rows are left out: too little would be held out.
LEAST_ROWS = 1_200
LEAST_PER_CLASS = 3


@dataclass(frozen=True)
class ScoreSet:
    """Probabilities of a real model or forecaster with what came true; rows of one `group` share their outcome."""

    name: str
    p: np.ndarray
    y: np.ndarray
    group: np.ndarray | None = None


@dataclass(frozen=True)
class Split:
    """Calibration rows and held-out rows of a set, with no group in both."""

    score_set: ScoreSet
    n: int
    draw: int
    calibration: np.ndarray
    held_out: np.ndarray


def data_folder() -> Path:
    """Return the folder of the data, or stop with a message that says what to set."""
    folder = Path(os.environ.get("CALIBRANT_DATA", ""))
    if not (folder / "scores").is_dir():
        raise SystemExit("CALIBRANT_DATA must name the folder that holds scores/. The benchmark of quality needs it.")
    return folder


def binary_sets() -> list[ScoreSet]:
    """Read every binary set of enough rows. Decision scores become probabilities by the logistic function."""
    folder = data_folder() / "scores"
    return [*_tabular(folder), *_five_thirty_eight(folder), *_icing(folder)]


def splits(score_set: ScoreSet, n: int, draws: int) -> Iterator[Split]:
    """Draw `n` calibration rows at random, several times; the rest is held out.

    Of a set with groups, half of the groups is for calibration and the other half is held out.
    """
    size = score_set.p.size
    for draw in range(draws):
        rng = np.random.default_rng([n, draw])
        if score_set.group is None:
            order = rng.permutation(size)
            calibration, held_out = order[:n], order[n:]
        else:
            groups = rng.permutation(np.unique(score_set.group))
            is_calibration = np.isin(score_set.group, groups[: groups.size // 2])
            calibration = rng.permutation(np.flatnonzero(is_calibration))[:n]
            held_out = rng.permutation(np.flatnonzero(~is_calibration))
        held_out = held_out[:MOST_HELD_OUT]
        counts = np.bincount(score_set.y[calibration], minlength=2)
        if calibration.size == n and held_out.size >= 100 and counts.min() >= LEAST_PER_CLASS:
            yield Split(score_set, n, draw, calibration, held_out)


def _tabular(folder: Path) -> Iterator[ScoreSet]:
    table = pyarrow.parquet.read_table(folder / "tabular_models_binary.parquet")
    columns = {name: table.column(name).to_numpy() for name in ("s", "y")}
    key = pc.binary_join_element_wise(*(table.column(c).cast("string") for c in ("dataset", "model")), "/").to_numpy()
    is_score = table.column("kind").cast("string").to_numpy() == "score"
    for name in np.unique(key):
        rows = key == name
        s = columns["s"][rows].astype(np.float64)
        p = 1.0 / (1.0 + np.exp(-s)) if is_score[rows][0] else s
        yield ScoreSet(str(name), p, columns["y"][rows].astype(np.int64))


def _five_thirty_eight(folder: Path) -> Iterator[ScoreSet]:
    table = pyarrow.parquet.read_table(folder / "fivethirtyeight_binary.parquet")
    source = table.column("source").cast("string").to_numpy()
    p, y = (table.column(name).to_numpy().astype(np.float64) for name in ("p", "y"))
    group = table.column("group").cast("string").to_numpy()
    for name in np.unique(source):
        rows = source == name
        if rows.sum() < LEAST_ROWS:
            continue
        of_rows = group[rows].astype(str)
        is_grouped = np.unique(of_rows).size < 0.5 * rows.sum()
        yield ScoreSet(f"538/{name}", p[rows], y[rows].astype(np.int64), of_rows if is_grouped else None)


def _icing(folder: Path) -> Iterator[ScoreSet]:
    table = pyarrow.csv.read_csv(folder / "icing_forecasts.csv")
    yield ScoreSet("icing", table.column("p").to_numpy(), table.column("y").to_numpy().astype(np.int64))
