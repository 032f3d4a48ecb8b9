"""The runs of the benchmark of tables: which models are calibrated on how many rows, and which rows these are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.calarena import Experiment
from benchmarks.quality_table import SIZES
from benchmarks.score_sets import LEAST_HELD_OUT, LEAST_PER_CLASS, MOST_HELD_OUT, ScoreSet, Split

#: The size that takes all calibration rows.
ALL = "all"
#: Models of a table that are run at each size, plain ones and good ones; which ones changes from size to size.
MODELS_PER_SIZE = {"plain": 2, "good": 1}
LEAST_ALL = 100


@dataclass(frozen=True)
class Run:
    """One model of one table, calibrated on so many rows; `size` is their number or "all"."""

    experiment: Experiment
    size: str

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.experiment.y_cal) if self.size == ALL else int(self.size)

    @property
    def is_grouped(self) -> bool:
        """Whether rows share subjects or outcomes."""
        return self.experiment.group_cal is not None

    @cached_property
    def key(self) -> str:
        """Name the run, with a sum of the scores, so that what was measured on others is not taken for it."""
        e = self.experiment
        return f"{e.dataset}/{e.model}/{self.size}/{zlib.crc32(e.p_test.tobytes(), zlib.crc32(e.p_cal.tobytes()))}"

    def split(self) -> Split:
        """Draw the calibration rows, the same for all models of a table, by groups where there are some."""
        e = self.experiment
        calibration = ScoreSet(e.dataset, e.p_cal, e.y_cal, e.group_cal)
        rows = np.arange(self.n) if self.size == ALL else drawn_rows(calibration, self.n)
        held_out = ScoreSet(e.dataset, e.p_test, e.y_test, e.group_test)
        shown = np.sort(_rng(e.dataset, 0).permutation(len(e.y_test))[:MOST_HELD_OUT])
        return Split(e.dataset, self.n, 0, calibration.take(rows), held_out.take(shown))


def runs_of(experiments: list[Experiment], *, all_models: bool = False) -> list[Run]:
    """Return every run that has enough rows: of each table at each size some of its models, or all."""
    by_table: dict[str, list[Experiment]] = {}
    for each in experiments:
        by_table.setdefault(each.dataset, []).append(each)
    found = []
    for number, of_table in enumerate(by_table.values()):
        for place, size in enumerate(_sizes(len(of_table[0].y_cal))):
            chosen = of_table if all_models else list(_chosen(of_table, number + place))
            found += [run for run in (Run(each, size) for each in chosen) if _is_enough(run)]
    return found


def drawn_rows(calibration: ScoreSet, n: int) -> np.ndarray:
    """Draw rows at random; of groups the rows of one after another, in random order."""
    rng = _rng(calibration.name, n)
    if calibration.group is None:
        return rng.permutation(calibration.y.size)[:n]
    codes = np.unique(calibration.group, return_inverse=True)[1]
    return np.argsort(rng.permutation(codes.max() + 1)[codes], kind="stable")[:n]


def _sizes(n: int) -> list[str]:
    return [*(str(size) for size in SIZES if size < n), ALL]


def _chosen(of_table: list[Experiment], turn: int) -> Iterator[Experiment]:
    for kind, most in MODELS_PER_SIZE.items():
        models = sorted((e for e in of_table if e.kind == kind), key=lambda e: e.model)
        yield from (models[(most * turn + j) % len(models)] for j in range(min(most, len(models))))


def _is_enough(run: Run) -> bool:
    """Whether two classes have rows enough to fit to, and enough rows are held out."""
    e = run.experiment
    if len(e.y_test) < LEAST_HELD_OUT or run.n < LEAST_ALL:
        return False
    rows = slice(None) if run.size == ALL else drawn_rows(ScoreSet(e.dataset, e.p_cal, e.y_cal, e.group_cal), run.n)
    counts = np.sort(np.bincount(e.y_cal[rows], minlength=2))
    return bool(counts[-2] >= LEAST_PER_CLASS)


def _rng(name: str, n: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), n])
