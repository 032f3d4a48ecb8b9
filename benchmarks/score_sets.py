"""Real score sets from the folder that CALIBRANT_DATA names, and how score sets are split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

#: Rows that held-out figures are measured on, at most.
MOST_HELD_OUT = 5_000
LEAST_HELD_OUT = 75
#: Files of fewer rows are left out: too little would be held out.
LEAST_ROWS = 1_200
#: Of two classes; of more, some may be absent from the calibration rows.
LEAST_PER_CLASS = 3


@dataclass(frozen=True)
class ScoreSet:
    """Probabilities of a real model or forecaster, shape (n,) or (n, K), with what came true.

    Rows of one `group` share their outcome. Where the model gives decision scores they are `raw`, and `p` what the
    logistic function or softmax makes of them.
    """

    name: str
    p: np.ndarray
    y: np.ndarray
    group: np.ndarray | None = None
    raw: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> ScoreSet:
        """Return some of the rows."""
        group, raw = (None if values is None else values[rows] for values in (self.group, self.raw))
        return ScoreSet(self.name, self.p[rows], self.y[rows], group, raw)


@dataclass(frozen=True)
class Split:
    """Calibration rows and held-out rows of a set, with no group in both."""

    name: str
    n: int
    draw: int
    calibration: ScoreSet
    held_out: ScoreSet


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


def multiclass_sets() -> list[ScoreSet]:
    """Read every set of more than two classes."""
    folder = data_folder() / "scores"
    found = []
    for path in sorted(folder.glob("cifar*.parquet")):
        p, y = _columns(pyarrow.parquet.read_table(path), "logp", "y")
        found.append(ScoreSet(path.stem, np.exp(p), y))
    cup = pyarrow.parquet.read_table(folder / "fivethirtyeight_worldcup_3class.parquet")
    p = np.column_stack([cup.column(name).to_numpy() for name in ("p1", "ptie", "p2")])
    found.append(ScoreSet("538/worldcup", p, _codes(cup.column("y")), cup.column("match").to_numpy()))
    found.append(ScoreSet("hpc_cv", *_columns(pyarrow.parquet.read_table(folder / "hpc_cv_4class.parquet"), "p_", "y")))
    mnist = pyarrow.parquet.read_table(folder / "splinecalib_mnist5_multiclass.parquet")
    found.append(ScoreSet("mnist5", *_columns(mnist, "pred_prob_", "target")))
    for path in sorted(folder.glob("tabular_models_*class.parquet")):
        table = pyarrow.parquet.read_table(path)
        p, y = _columns(table, "p", "y")
        model = table.column("model").cast("string").to_numpy()
        data = path.stem.removeprefix("tabular_models_").rpartition("_")[0]
        found += [ScoreSet(f"{data}/{name}", p[model == name], y[model == name]) for name in np.unique(model)]
    return [ScoreSet(s.name, _rows_to_one(s.p), s.y, s.group) for s in found]


def splits(score_set: ScoreSet, n: int, draws: int, *, of_its_own: bool = False) -> Iterator[Split]:
    """Draw `n` calibration rows at random, several times; the rest is held out.

    Sets of one size, such as the scores of several models for the same rows, are split alike, so that these can be
    compared; or each by draws `of_its_own`, so that a mean over sets is one over independent draws.

    Of a set with groups, half of the groups is for calibration and the other half is held out.
    """
    size = score_set.y.size
    for draw in range(draws):
        rng = np.random.default_rng([n, draw, *(score_set.name.encode() if of_its_own else ())])
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
        is_enough = score_set.p.ndim == 2 or counts.min() >= LEAST_PER_CLASS
        if calibration.size == n and held_out.size >= LEAST_HELD_OUT and is_enough:
            yield Split(score_set.name, n, draw, score_set.take(calibration), score_set.take(held_out))


def _columns(table: pa.Table, prefix: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that `prefix` begins as a matrix, and the labels as codes of their order."""
    names = [name for name in table.column_names if name.startswith(prefix) and name != label]
    return np.column_stack([table.column(name).to_numpy() for name in names]), _codes(table.column(label))


def _codes(labels: pa.ChunkedArray) -> np.ndarray:
    return np.unique(labels.to_numpy(), return_inverse=True)[1].astype(np.int64)


def _rows_to_one(p: np.ndarray) -> np.ndarray:
    """Undo what storing as float32 did to the row sums."""
    p = p.astype(np.float64)
    return p / p.sum(axis=1, keepdims=True)


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
