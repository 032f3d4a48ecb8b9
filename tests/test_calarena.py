"""The reader of CalArena's files, on a tiny set of the same layout; its figures against scikit-learn's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from sklearn.metrics import log_loss

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
calarena = pytest.importorskip("benchmarks.calarena", reason="the tests don't run from the repository's root")
adapter = pytest.importorskip("benchmarks.calarena_calibrators")


def write(root: Path, name: str, rows: dict[str, dict[str, Any]], n_classes: int | None) -> None:
    """Write a benchmark as CalArena does: HDF5 by data set and model, an index, and results of each method."""
    home = root / "calibration_benchmarks"
    home.mkdir(exist_ok=True)
    index, results = [], []
    with h5py.File(home / f"{name}.h5", "w") as file:
        for where, parts in rows.items():
            group = file.create_group(where)
            for part, values in parts.items():
                group[part] = values
            dataset, model = where.split("/")
            sizes = {"cal_size": len(parts["labels_cal"]), "test_size": len(parts["labels_test"])}
            known = {"dataset": dataset, "model": model, **sizes} | (
                {} if n_classes is None else {"n_classes": n_classes}
            )
            index.append(known)
            p = np.asarray(parts["probas_test"], dtype=np.float64)
            p = np.column_stack((1.0 - p, p)) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
            y = parts["labels_test"]
            brier = float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean())
            results.append(known | {"logloss": log_loss(y, p, labels=np.arange(p.shape[1])), "brier": brier})
    pc.write_csv(pa.Table.from_pylist(index), home / f"{name}-experiments.csv")
    (root / "results" / name).mkdir(parents=True)
    for method, factor in (("Base-model", 1.0), ("Good", 0.5), ("Bad", 2.0)):
        shown = [
            {key: value for key, value in row.items() if key not in ("logloss", "brier")}
            | {f"{method}_{metric}": factor * row[metric] for metric in ("brier", "logloss")}
            | {f"{method}_time": 0.25}
            for row in results
        ]
        pc.write_csv(pa.Table.from_pylist(shown), root / "results" / name / f"{method}.csv")


def draw(n: int, n_classes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw over-confident probabilities, as float32, and labels."""
    z = rng.normal(size=(n, n_classes))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p = np.exp(2.5 * z) / np.exp(2.5 * z).sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
    return (p[:, 1] if n_classes == 2 else p).astype(np.float32), y


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, n_classes in (("tiny-binary", 2), ("tiny-multiclass", 3)):
        rows = {}
        for where in ("d1/m1", "d1/m2", "d2/m1"):
            (p, y), (q, t) = (draw(n, n_classes, rng) for n in (150, 200))
            rows[where] = {"probas_cal": p, "labels_cal": y, "probas_test": q, "labels_test": t}
        write(tmp_path, name, rows, None if n_classes == 2 else n_classes)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-binary", "tiny-multiclass"])
def test_methods_are_measured_beside_published_ones(root: Path, name: str) -> None:
    tables = calarena.run(str(root), name)
    assert [table["caption"].split(",")[0] for table in tables.tables] == [name, name]
    for table in tables.tables:
        rows = {row[0]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}
        assert {"Base-model", "Good", "Bad", "calibrant-auto", "calibrant-temperature"} <= set(rows)
        assert float(table["caption"].rpartition("within ")[2].split(" ")[0]) < 1e-6
        assert rows["Good"]["PHI"] == "0.500"
        assert (rows["Bad"]["harm"], rows["Good"]["harm"]) == ("100.0%", "0.0%")
        assert float(rows["Bad"]["win rate"]) < 0.1
        assert rows["calibrant-temperature"]["harm"] == "0.0%"
        assert float(rows["calibrant-temperature"]["PHI"]) > 0.02
        assert all(row["failed"] == "0" for method, row in rows.items() if method.startswith("calibrant-"))


def test_adapter_is_what_calarena_calls() -> None:
    rng = np.random.default_rng(0)
    for n_classes in (2, 3):
        p, y = draw(200, n_classes, rng)
        for method in adapter.names(n_classes):
            calibrator = adapter.CUSTOM_CALIBRATORS[f"calibrant-{method}"]()
            calibrator.fit(p, y)
            q = calibrator.predict_proba(p)
            assert q.shape == (200, n_classes)
            np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-6)
    p, y = draw(200, 2, rng)
    one, two, column = (adapter.CalibrantCalibrator("beta") for _ in range(3))
    one.fit(p, y)
    two.fit(np.column_stack((1.0 - p.astype(np.float64), p)), y)
    column.fit(p[:, None], y)
    assert (one.predict_proba(p) == two.predict_proba(np.column_stack((1.0 - p, p)))).all()
    assert (one.predict_proba(p) == column.predict_proba(p[:, None])).all()


def test_what_is_missing_or_contradicts_itself_is_named(root: Path) -> None:
    with pytest.raises(SystemExit, match=r"--data FOLDER"):
        calarena.run(None)
    with pytest.raises(SystemExit, match=r"nothing-binary\.h5 and nothing-binary-experiments\.csv"):
        calarena.run(str(root), "nothing-binary")
    file = root / "calibration_benchmarks" / "tiny-binary.h5"
    with h5py.File(file, "a") as held:
        held["d1/m1/labels_cal"][0] = 2
    with pytest.raises(SystemExit, match="has labels beyond its 2 classes"):
        list(calarena.read_experiments(root, "tiny-binary"))
    with h5py.File(file, "a") as held:
        held["d1/m1/labels_cal"][0] = 1
        labels = held["d1/m2/labels_test"][:-1]
        del held["d1/m2/labels_test"]
        held["d1/m2/labels_test"] = labels
    with pytest.raises(SystemExit, match="other numbers of rows"):
        list(calarena.read_experiments(root, "tiny-binary"))
    with h5py.File(file, "a") as held:
        del held["d1/m2"]
    with pytest.raises(SystemExit, match="names d1/m2, which"):
        list(calarena.read_experiments(root, "tiny-binary"))
