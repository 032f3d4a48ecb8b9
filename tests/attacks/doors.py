"""The doors through which files come into calibrant: what a whole file of each kind is, and what reads it.

A reader raises CalibrantError, or what it gives is used, so that what was read wrongly shows itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from answers import check_answers, features_of
from commands import run
from valid_documents import VALID

import calibrant as cb
from calibrant.errors import CalibrantError
from calibrant.fitted import Fitted
from calibrant.forecasts import GaussianForecast
from calibrant.monitor import CalibrationMonitor, DriftMonitor
from calibrant.persistence import from_document, load, to_document, to_sql
from calibrant.tables import open_rows
from calibrant.training import TrainConfig
from table_bytes import feather_bytes, parquet_bytes

AnyMonitor = TypeVar("AnyMonitor", CalibrationMonitor, DriftMonitor)


@dataclass(frozen=True)
class Door:
    """A kind of file, what is right in it by name, and a reader: it raises CalibrantError, or what it gives works."""

    valid: Callable[[], Mapping[str, bytes]]
    read: Callable[[Path], None]


def _documents() -> dict[str, bytes]:
    """Return a document of every kind, method and map, as JSON and as pickle."""
    found = {f"{i}.json": json.dumps(document).encode() for i, document in enumerate(VALID.values())}
    stored = Path(__file__).parents[1] / "formats" / "version_2"
    return found | {path.name: path.read_bytes() for path in stored.iterdir() if path.stem != "expected"}


def _read_document(path: Path) -> None:
    loaded = load(path)
    if isinstance(loaded, Fitted):
        check_answers(loaded)
        return
    document = to_document(loaded)
    assert to_document(from_document(document)) == document
    assert all(isinstance(line, str) for line in loaded.describe())
    if isinstance(loaded, cb.SegmentMeanCalibrator):
        with np.errstate(over="ignore"):
            assert not np.isnan(loaded.predict([-40.0, 0.0, 0.3, 9.0], features=features_of(loaded, 4))).any()
        return
    levels = loaded.transform(GaussianForecast([-1e9, -1.0, 0.0, 2.0, 1e9], 1.0)).cdf([-2.0, -1.0, 0.5, 2.0, 0.0])
    assert ((levels >= 0.0) & (levels <= 1.0)).all()


def _states() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    plain, overlapping, clustered = CalibrationMonitor(), CalibrationMonitor(), CalibrationMonitor(alpha=0.05)
    for k in range(3):
        p, t = rng.random(40), np.arange(40 * k, 40 * k + 40)
        y = rng.random(40) < p
        plain.update(y, p)
        overlapping.update(y, p, time=t, label_end=t + 2)
        clustered.update(y, p, cluster=t // 4)
    return _stored({"plain": plain, "overlapping": overlapping, "clustered": clustered})


def _stored(monitors: Mapping[str, AnyMonitor]) -> dict[str, bytes]:
    return {f"{name}.json": json.dumps(monitor.to_dict()).encode() for name, monitor in monitors.items()}


def _read_monitor(kind: type[AnyMonitor], path: Path) -> AnyMonitor:
    """Read a monitor, which must come through JSON as it is."""
    from calibrant.persistence import read_plain

    monitor = kind.from_dict(read_plain(path))
    again = json.loads(json.dumps(monitor.to_dict(), allow_nan=False))
    assert kind.from_dict(again).to_dict() == monitor.to_dict()
    return monitor


def _read_state(path: Path) -> None:
    monitor = _read_monitor(CalibrationMonitor, path)
    days = np.arange(500, 503)
    declared = {"overlapping.json": {"time": days, "label_end": days + 2}, "clustered.json": {"cluster": days}}
    monitor.update([0, 1, 1], [0.2, 0.6, 0.7], **declared.get(path.name, {}))


def _drift_rows(n: int, shift: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    age = rng.normal(40.0 + shift, 10.0, n)
    age[::7] = np.nan
    return {"p": rng.random(n), "age": age, "city": rng.choice(["a", "b", None], n)}


def _drift_states() -> dict[str, bytes]:
    fresh, quiet, drifted = (DriftMonitor(_drift_rows(100), alpha=alpha) for alpha in (0.01, 0.05, 0.5))
    for _ in range(2):
        quiet.update(_drift_rows(80))
        drifted.update(_drift_rows(120, 30.0))
    return _stored({"fresh": fresh, "quiet": quiet, "drifted": drifted})


def _read_drift_state(path: Path) -> None:
    monitor = _read_monitor(DriftMonitor, path)
    kinds = {column["name"]: column["kind"] for column in monitor.to_dict()["columns"]}
    rows = {name: [0.5, 40.0] if kind == "number" else ["a", None] for name, kind in kinds.items()}
    window = monitor.update(rows, name=f"after {len(monitor.windows)} others, {'x' * 20}")
    assert np.isfinite(list(window.log_e_values.values())).all()


_CHECKS = """
label = "y"
max = {ece = 0.05, brier = 0.2}
missing = "skip"
[[check]]
name = "cards"
files = ["scores.parquet", "old/*.csv"]
score = "p_*"
positive = 1
cluster = "who"
min.auc = 0.7
[[check]]
name = "loans"
files = "loans.csv"
classes = ["a", "b", true]
level = 0.9
"""


def _check_files() -> dict[str, bytes]:
    part = _CHECKS.replace("[[check]]", "[[tool.calibrant.check]]")
    return {
        "calibrant.toml": _CHECKS.encode(),
        "pyproject.toml": f'[project]\nname = "x"\n[tool.calibrant]{part}'.encode(),
    }


def _read_check_file(path: Path) -> None:
    from calibrant.cli.data import Request
    from calibrant.cli.project import find_project, read_project

    project = read_project(path)
    assert find_project(path.parent) is not None
    for check in project.checks:
        assert all(np.isfinite(gate.limit) for gate in check.gates)
        for file in ("x.csv", "x.parquet", "x"):
            Request(file, **check.options(project.folder, file))
        with contextlib.suppress(CalibrantError):
            check.paths(project.folder)


def _run_files() -> dict[str, bytes]:
    record = {"run_id": "a", "started": "2026-03-01T00:00:00", "files": {}, "steps": {"fit": 1.5}, "version": "0.1.0"}
    scores = {"log_loss": 0.5, "brier": 0.2, "accuracy": 0.8}
    metrics = {
        "test": {"n_rows": 100, "forecasts": {"raw": scores, "calibrated": scores}},
        "calibration": {"calibrator": "auto"},
        "gates": {"passed": True, "reasons": ["x"]},
    }
    return {
        "run.json": json.dumps(record).encode(),
        "metrics.json": json.dumps(metrics).encode(),
        "config.toml": TrainConfig().to_toml({"classes": [0, 1], "features": ["a"], "versions": {"x": "1"}}).encode(),
    }


def _read_run(path: Path) -> None:
    """Put the file into a run beside a whole one, and look at both by the commands."""
    root = path.parent / "experiments" / "runs"
    for home in (root / "a", root / "b"):
        home.mkdir(parents=True, exist_ok=True)
        for name, data in _run_files().items():
            (home / name).write_bytes(data)
    shutil.copy(path, root / "a" / path.name)
    with contextlib.chdir(path.parent):
        run("runs", "list")
        run("runs", "list", "--json")
        run("runs", "show", "a")
        run("runs", "compare", "a", "b")


def _projects() -> dict[str, bytes]:
    changed = TrainConfig("lightgbm", label="sign", params={"max_depth": 3, "x y": [0.5, 1.0]})
    return {"a.toml": TrainConfig().to_toml().encode(), "b.toml": changed.to_toml().encode()}


def _read_project(path: Path) -> None:
    from calibrant.training.config import read_config

    config = TrainConfig(**read_config(path))
    again = path.with_name("again.toml")
    again.write_text(config.to_toml(), encoding="utf-8")
    assert TrainConfig(**read_config(again)) == config


def _margins() -> dict[str, bytes]:
    return {
        "m.json": b'{"a": 1.25, "b": 1.75, "c": 3.0}',
        "g.json": b'{"x": {"a": 1.0, "b": 1.0, "c": 1.0}, "y": {"a": 0.5, "b": 1.0, "c": 1.5}}',
    }


def _read_margins(path: Path) -> None:
    table = path.with_name("p.csv")
    if not table.exists():
        p = np.random.default_rng(0).dirichlet(np.ones(3), 6).round(6)
        p[:, 2] = 1.0 - p[:, :2].sum(axis=1)
        pc.write_csv(pa.table({"a": p[:, 0], "b": p[:, 1], "c": p[:, 2], "g": ["x", "y"] * 3}), table)
    out = path.with_name("q.csv")
    grouped = ["--group", "g"] if path.name == "g.json" else []
    words = ["rank-preserve", str(table), "--margins", str(path), "-o", str(out), "--max-iter", "200", *grouped]
    if run(*words).exit_code == 2:
        raise CalibrantError("refused")
    q = np.column_stack([np.asarray(pc.read_csv(out)[f"q_{name}"]) for name in "abc"])
    assert np.isfinite(q).all()
    assert np.abs(q.sum(axis=1) - 1.0).max() < 1e-6
    out.unlink()


def _tables() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    p = rng.random(12).round(4)
    table = pa.table({"p": p, "y": (rng.random(12) < p).astype(int), "g": ["a", 'b"c', "d,e"] * 4})
    csv = io.BytesIO()
    pc.write_csv(table, csv)
    found = {"t.csv": csv.getvalue(), "t.parquet": parquet_bytes(table), "t.feather": feather_bytes(table)}
    found["t.tsv"] = found["t.csv"].replace(b",", b"\t")
    found["t.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())
    return found


def _read_table(path: Path) -> None:
    rows = open_rows(path)
    n_rows = rows.read().num_rows
    assert set(rows.read(list(rows.names)).column_names) == set(rows.names)
    calibrator = cb.SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    out = path.with_name(f"out-{path.name}")
    cb.engines.apply(calibrator, path, out, score="p")
    written = open_rows(out).read()
    assert written.num_rows == n_rows
    assert np.isfinite(np.asarray(written["p_calibrated"], dtype=float)).all()
    out.unlink()


def _names() -> dict[str, bytes]:
    return {"names.txt": b"score\nkeep me\nout", "words.txt": b"select\nfrom\nuser"}


def _read_names(path: Path) -> None:
    """Take each line as a name, in SQL of each dialect: it is one statement, whose columns have these names."""
    import sqlglot

    score, keep, output, *_ = [*path.read_bytes().decode("utf-8", "surrogateescape").split("\n"), "x", "y", "z"]
    calibrator = cb.HistogramCalibrator(n_bins=2).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    for dialect in ("duckdb", "sqlite", "spark", "postgres"):
        sql = to_sql(calibrator, dialect, columns=score, keep=[keep], output=output)  # type: ignore[arg-type]
        if dialect == "sqlite":
            continue  # whose names in backquotes its parser reads, but not as the engine does
        (parsed,) = sqlglot.parse(sql, dialect=dialect)
        assert [column.alias_or_name for column in parsed.selects] == [keep, output], dialect


DOORS = {
    "documents": Door(_documents, _read_document),
    "states": Door(_states, _read_state),
    "drift states": Door(_drift_states, _read_drift_state),
    "check files": Door(_check_files, _read_check_file),
    "run folders": Door(_run_files, _read_run),
    "project files": Door(_projects, _read_project),
    "margins": Door(_margins, _read_margins),
    "tables": Door(_tables, _read_table),
    "names": Door(_names, _read_names),
}
