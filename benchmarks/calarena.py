"""CalArena (Berta, Holzmueller, Bach and Jordan 2026): every method of ours beside its published results.

`python -m benchmarks calarena --data FOLDER` reads what the user has downloaded: `{benchmark}.h5` and
`{benchmark}-experiments.csv`, in FOLDER or its calibration_benchmarks, and `results/{benchmark}/{method}.csv`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from benchmarks._harness import Tables
from benchmarks.calarena_calibrators import CalibrantCalibrator, as_probabilities, in_columns, names
from benchmarks.quality_measures import clustered_mean
from calibrant.errors import CalibrantError

#: The method of theirs that does nothing.
BASE = "Base-model"
#: Log losses take probabilities from here on: one that was 0 and came true costs 36 nats.
_LEAST = 2.0**-52
METRICS = ("logloss", "brier")
_INDEX = ("dataset", "model", "cal_size", "test_size")
_MISSING = "CalArena's data are not in {}: it needs {}. Download them from huggingface.co/datasets/probkit/CalArena."


@dataclass(frozen=True)
class Experiment:
    """Calibration and test rows of one model on one data set: probabilities of shape (n,) or (n, K).

    The last four are of the tables trained here: rows of one group stay together, a model is plain or good already, and
    each table is of one half.
    """

    dataset: str
    model: str
    p_cal: np.ndarray
    y_cal: np.ndarray
    p_test: np.ndarray
    y_test: np.ndarray
    group_cal: np.ndarray | None = None
    group_test: np.ndarray | None = None
    kind: str = "plain"
    half: str = ""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 2 if self.p_cal.ndim == 1 else self.p_cal.shape[1]


@dataclass
class Losses:
    """The losses of methods by metric, one for each experiment of a benchmark."""

    datasets: list[str]
    of: dict[str, dict[str, np.ndarray]] = field(default_factory=lambda: {metric: {} for metric in METRICS})
    seconds: dict[str, np.ndarray] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)


def run(folder: str | None, only: str | None = None) -> Tables:
    """Fit every method of ours in every experiment of the benchmarks that are there, or of one."""
    if folder is None:
        raise SystemExit("calarena needs the folder of its data: python -m benchmarks calarena --data FOLDER")
    root = Path(folder)
    found = [name for name in benchmarks_in(root) if only in (None, name)]
    if not found:
        raise SystemExit(_MISSING.format(folder, f"{only or 'BENCHMARK'}.h5 and {only or 'BENCHMARK'}-experiments.csv"))
    tables = Tables("CalArena: methods of calibrant beside published results")
    for name in found:
        experiments = list(read_experiments(root, name))
        losses = measure(experiments)
        gap = add_published(losses, root, name, experiments)
        for metric in METRICS:
            caption = f"{name}, {metric}: {len(experiments)} experiments of {len(set(losses.datasets))} data sets"
            if gap is not None:
                caption += f"; our {BASE} is within {gap[metric]:.1g} of theirs"
            tables.add(caption, _HEADER, rows_of(losses, metric))
    return tables


_HEADER = ("method", "win rate", "s.e.", "PHI", "s.e.", "harm", "mean loss", "seconds", "failed")


def benchmarks_in(root: Path) -> list[str]:
    """Name the benchmarks whose rows and index are there."""
    return sorted(path.stem for path in _homes(root, "*.h5") if _home(root, f"{path.stem}-experiments.csv"))


def _homes(root: Path, pattern: str) -> list[Path]:
    return [path for home in (root, root / "calibration_benchmarks") for path in home.glob(pattern)]


def _home(root: Path, name: str) -> Path | None:
    return next(iter(_homes(root, name)), None)


def read_experiments(root: Path, name: str) -> Iterator[Experiment]:
    """Read each experiment of the index; it is refused where rows, sizes or labels contradict each other."""
    import h5py

    rows, index = _home(root, f"{name}.h5"), _home(root, f"{name}-experiments.csv")
    if rows is None or index is None:
        raise SystemExit(_MISSING.format(root, f"{name}.h5 and {name}-experiments.csv"))
    with h5py.File(rows, "r") as held:
        for row in pc.read_csv(index).to_pylist():
            where = f"{row['dataset']}/{row['model']}"
            if where not in held:
                raise SystemExit(f"{index} names {where}, which {rows} lacks. Download both again.")
            group = held[where]
            p_cal, p_test = (as_probabilities(group[f"probas_{part}"][:]) for part in ("cal", "test"))
            y_cal, y_test = (
                np.asarray(group[f"labels_{part}"][:]).astype(np.int64).reshape(-1) for part in ("cal", "test")
            )
            groups = (group[f"groups_{part}"][:] if f"groups_{part}" in group else None for part in ("cal", "test"))
            more = {key: str(row[key]) for key in ("kind", "half") if key in row}
            made = Experiment(str(row["dataset"]), str(row["model"]), p_cal, y_cal, p_test, y_test, *groups, **more)
            sizes = {len(p_cal), len(y_cal), row["cal_size"]}, {len(p_test), len(y_test), row["test_size"]}
            if any(len(each) > 1 for each in sizes):
                raise SystemExit(f"{where} of {rows} has other numbers of rows than {index} says. Download both again.")
            if max(y_cal.max(), y_test.max()) >= made.n_classes or min(y_cal.min(), y_test.min()) < 0:
                raise SystemExit(f"{where} of {rows} has labels beyond its {made.n_classes} classes.")
            yield made


def measure(experiments: list[Experiment]) -> Losses:
    """Fit every method in every experiment; where one fails, the probabilities stay as they are, and it is counted."""
    losses = Losses([each.dataset for each in experiments])
    methods = [BASE, *(f"calibrant-{name}" for name in names(experiments[0].n_classes))]
    for method in methods:
        found, seconds, n_failed = [], [], 0
        for each in experiments:
            q, took = in_columns(each.p_test), 0.0
            if method != BASE:
                begun = time.perf_counter()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        calibrator = CalibrantCalibrator(method.removeprefix("calibrant-"))
                        calibrator.fit(each.p_cal, each.y_cal)
                        q = calibrator.predict_proba(each.p_test)
                except CalibrantError:
                    n_failed += 1
                took = time.perf_counter() - begun
            found.append(losses_of(q, each.y_test))
            seconds.append(took)
        for metric, values in zip(METRICS, np.array(found).T, strict=True):
            losses.of[metric][method] = values
        losses.seconds[method], losses.failed[method] = np.array(seconds), n_failed
    return losses


def losses_of(q: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean log loss, and the Brier score summed over the classes, of probabilities of shape (n, K)."""
    own = q[np.arange(y.size), y]
    brier = np.einsum("ij,ij->i", q, q) - 2.0 * own + 1.0
    return float(-np.log(np.maximum(own, _LEAST)).mean()), float(brier.mean())


def add_published(losses: Losses, root: Path, name: str, experiments: list[Experiment]) -> dict[str, float] | None:
    """Add the losses that are published for the same experiments; return how far our reading of BASE is from theirs."""
    keys = [(each.dataset, each.model, len(each.y_cal), len(each.y_test)) for each in experiments]
    gap = None
    for path in sorted((root / "results" / name).glob("*.csv")):
        table = pc.read_csv(path, convert_options=pc.ConvertOptions(column_types={"model": pa.string()}))
        at = {tuple(row[key] for key in _INDEX): row for row in table.to_pylist()}
        if not all(key in at for key in keys) or any(f"{path.stem}_{m}" not in table.column_names for m in METRICS):
            continue  # of other experiments, as one that was cut off
        for metric in METRICS:
            values = np.array([at[key][f"{path.stem}_{metric}"] for key in keys], dtype=np.float64)
            if path.stem == BASE:
                gap = (gap or {}) | {metric: float(np.abs(values - losses.of[metric][BASE]).max())}
            else:
                losses.of[metric][path.stem] = values
        if path.stem != BASE and f"{path.stem}_time" in table.column_names:
            losses.seconds[path.stem] = np.array([at[key][f"{path.stem}_time"] for key in keys], dtype=np.float64)
    return gap


def rows_of(losses: Losses, metric: str) -> list[list[str]]:
    """Return a line for each method, best win rate first, with standard errors between data sets.

    A method's win rate is the share of the others that it is strictly better than; PHI, CalArena's scale, is
    (loss before - after) / before; harm is the share of experiments in which the loss rises.
    """
    of = losses.of[metric]
    clusters = np.unique(losses.datasets, return_inverse=True)[1]
    base, every = of[BASE], np.array(list(of.values()))
    rows = []
    for method, values in of.items():
        win = (every > values).sum(axis=0) / (len(every) - 1)
        phi = np.divide(base - values, base, out=np.zeros_like(base), where=base > 0.0)
        figures = [*clustered_mean(win, clusters), *clustered_mean(phi, clusters)]
        harm, took = float((values > base).mean()), losses.seconds.get(method)
        shown = "" if took is None else f"{np.median(took):.3f}"
        failed = str(losses.failed[method]) if method in losses.failed else ""
        figured = [f"{figure:.3f}" for figure in figures]
        rows.append([method, *figured, f"{harm:.1%}", f"{values.mean():.4f}", shown, failed])
    return sorted(rows, key=lambda row: -float(row[1]))
