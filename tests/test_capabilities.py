"""Every fitted thing through every capability.

`SUBJECTS` are fitted objects, `CAPABILITIES` what can be done with one. A pair works, unless `REFUSED` says with which
words it is refused: by a CalibrantError in Python, by exit status 2 on the command line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.errors import CalibrantError
from calibrant.persistence import fingerprint, load, save, to_onnx, to_sql
from capability_subjects import CLASSES, FEATURES, REGIONS, SHUFFLED, SUBJECTS, N, Subject, labels_of, scores_of


@dataclass(frozen=True)
class Work:
    """A subject with its scores, and a folder to work in."""

    subject: Subject
    folder: Path

    @property
    def scores(self) -> Any:
        return scores_of(self.subject.width, self.subject.input)

    @property
    def beside(self) -> dict[str, Any]:
        """Return what it takes beside scores: the group of each row, or its features."""
        match self.subject.kind:
            case "grouped":
                return {"groups": REGIONS}
            case "segments":
                return {"features": FEATURES}
        return {}

    def expected(self) -> Any:
        """Return the probabilities, shape (N, n)."""
        return np.asarray(self.subject.fitted.predict_proba(self.scores, **self.beside)).reshape(N, -1)

    def outputs(self) -> list[str]:
        """Return the names of the new columns."""
        n = self.subject.width
        return ["p_calibrated"] if n == 1 else [f"p_calibrated_{k}" for k in self.subject.fitted.classes_]

    def table(self) -> pa.Table:
        """Return the rows as a table, its columns of scores in another order than the classes."""
        columns = dict(zip(self.subject.columns, self.scores.reshape(N, -1).T, strict=True))
        shuffled = {self.subject.columns[k]: columns[self.subject.columns[k]] for k in SHUFFLED[self.subject.width]}
        return pa.table(
            {"id": np.arange(N), **shuffled, "region": REGIONS, **FEATURES, "y": labels_of(self.subject.width)}
        )

    def file(self, suffix: str) -> Path:
        path = self.folder / f"new{suffix}"
        (pc.write_csv if suffix == ".csv" else pq.write_table)(self.table(), path)
        return path

    def saved(self) -> Path:
        path = self.folder / "calibrator.json"
        save(self.subject.fitted, path)
        return path

    def options(self) -> dict[str, Any]:
        """Return the columns of scores and of groups for what does not know them from the fit."""
        if self.subject.is_named:
            return {}
        return {"score": self.subject.columns} | ({"group": "region"} if self.subject.kind == "grouped" else {})

    def check(self, found: pa.Table) -> None:
        """Check that a table has the rows that went in, and their probabilities beside them."""
        found = found.sort_by("id")
        assert found.column("id").to_pylist() == list(range(N)), "each row once"
        got = np.column_stack([found.column(name) for name in self.outputs()])
        np.testing.assert_allclose(got, self.expected(), rtol=1e-9, atol=1e-12)

    def command(self, name: str, *arguments: Any) -> str:
        """Run a command, and return what it prints; what it refuses becomes a RefusedError."""
        from calibrant.cli import main

        options = [f"--{key}={','.join(np.atleast_1d(value))}" for key, value in self.options().items()]
        if name == "inspect" or "onnx" in arguments:
            options = []
        elif name == "export":
            options = [option for option in options if option.startswith("--score")]
        done = CliRunner().invoke(main, [*name.split(), *map(str, arguments), *options])
        assert "Traceback" not in done.output
        if done.exit_code == 2:
            raise RefusedError(done.output)
        if done.exception is not None and (name, done.exit_code) != (
            "monitor",
            1,
        ):  # an alarm: rows are not those of the fit
            raise AssertionError(f"exit {done.exit_code}: {done.output}") from done.exception
        return done.output


class RefusedError(CalibrantError):
    """What a command refuses, with its exit status of 2."""


def save_and_load(suffix: str) -> Callable[[Work], None]:
    def run(work: Work) -> None:
        fitted, path = work.subject.fitted, work.folder / f"c{suffix}"
        save(fitted, path, metadata={"note": "kept"})
        loaded = load(path)
        assert type(loaded) is type(fitted)
        assert fingerprint(loaded) == fingerprint(fitted)
        assert loaded.metadata_ == {"note": "kept"}
        if work.subject.kind == "forecast":
            new = cb.forecasts.GaussianForecast(np.linspace(-1.0, 1.0, 5), 1.0)
            assert loaded.transform(new).cdf(0.5).tobytes() == fitted.transform(new).cdf(0.5).tobytes()
        else:
            assert repr(loaded) == repr(fitted)
            again = np.asarray(loaded.predict_proba(work.scores, **work.beside)).reshape(N, -1)
            assert again.tobytes() == work.expected().tobytes()

    return run


def predict_array(work: Work) -> None:
    if work.subject.kind == "forecast":
        work.subject.fitted.transform(work.scores)
    got = work.subject.fitted.predict_proba(work.scores.tolist(), **work.beside)
    assert isinstance(got, np.ndarray)
    assert got.shape == work.scores.shape
    assert got.min() >= 0.0
    assert got.max() <= 1.0


def predict_frame(make: Callable[[dict[str, Any]], Any], make_one: Callable[[str, Any], Any]) -> Callable[[Work], None]:
    """Columns are matched by name, and come back as they came; without names they stand in order."""

    def run(work: Work) -> None:
        subject, names = work.subject, work.subject.columns
        if subject.kind == "forecast":
            subject.fitted.transform(make({names[0]: work.scores}))
        if subject.width == 1:
            got = subject.fitted.predict_proba(make_one(names[0], work.scores), **work.beside)
            assert type(got) is type(make_one(names[0], work.scores))
            np.testing.assert_array_equal(np.asarray(got), work.expected()[:, 0])
            return
        order = SHUFFLED[subject.width] if subject.is_named else range(subject.width)
        frame = make({names[k]: work.scores[:, k] for k in order})
        got = subject.fitted.predict_proba(frame, **work.beside)
        assert type(got) is type(frame)
        assert list(got.columns) == list(frame.columns)
        for k, name in enumerate(names):
            np.testing.assert_array_equal(np.asarray(got[name]), work.expected()[:, k])

    return run


def in_sql(work: Work) -> None:
    names = None if work.subject.is_named else work.subject.columns
    sql = to_sql(work.subject.fitted, "duckdb", columns=names, keep=["id"])
    run_sql(work, sql)


def run_sql(work: Work, sql: str) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("scores", work.table())
        work.check(connection.sql(sql).to_arrow_table())


def in_onnx(work: Work) -> None:
    run_onnx(work, to_onnx(work.subject.fitted, n_columns=work.subject.width if work.subject.width < 3 else None))


def run_onnx(work: Work, model: Any, *, of_one_score: bool = False) -> None:
    """Run a model; of two classes it may be that of one score, which is the probability or logit of the second."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    scores, expected = work.scores, work.expected()
    if of_one_score:
        scores = scores[:, 1] - (scores[:, 0] if work.subject.input == "logit" else 0.0)
        expected = expected[:, 1:]
    given = {"scores": scores}
    for each in session.get_inputs()[1:]:
        missing, kind = ("", object) if each.type == "tensor(string)" else (np.nan, np.float64)
        given[each.name] = np.array([missing if value is None else value for value in FEATURES[each.name]], dtype=kind)
    (got,) = session.run(None, given)
    np.testing.assert_allclose(got.reshape(N, -1), expected, rtol=1e-9, atol=1e-12)


def engine_in_memory(work: Work) -> None:
    target = work.folder / "out.parquet"
    cb.engines.apply(work.subject.fitted, work.table(), target, **work.options())
    work.check(pq.read_table(target))


def engine_on_file(suffix: str) -> Callable[[Work], None]:
    def run(work: Work) -> None:
        target = work.folder / f"out{suffix}"
        cb.engines.apply(work.subject.fitted, work.file(suffix), target, **work.options())
        work.check(pc.read_csv(target) if suffix == ".csv" else pq.read_table(target))

    return run


def engine_on_duckdb(work: Work) -> None:
    target = work.folder / "out.parquet"
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", work.table())
        cb.engines.apply(work.subject.fitted, connection.table("rows"), target, **work.options())
    work.check(pq.read_table(target))


def command_apply(work: Work) -> None:
    """What the command line has begun, Python goes on with, and the other way round: parts have one fingerprint."""
    calibrator, source, target = work.saved(), work.file(".csv"), work.folder / "out.csv"
    work.command("apply", calibrator, source, "-o", target)
    work.check(pc.read_csv(target))
    parts = work.folder / "parts"
    work.command("apply", calibrator, source, "-o", f"{parts}/")
    done = cb.engines.apply(load(calibrator), source, parts, **work.options())
    assert done.n_kept == done.n_parts > 0


def command_inspect(work: Work) -> None:
    output = work.command("inspect", work.saved())
    assert repr(work.subject.fitted) in output or work.subject.kind == "forecast"
    described = work.subject.fitted.describe()
    for line in [described] if isinstance(described, str) else described:
        assert line in output


def command_export_sql(work: Work) -> None:
    run_sql(work, work.command("export", work.saved(), "--to", "sql", "--keep", "id"))


def command_export_onnx(work: Work) -> None:
    target = work.folder / "c.onnx"
    work.command("export", work.saved(), "--to", "onnx", "-o", target)
    run_onnx(work, target.read_bytes(), of_one_score=work.subject.width > work.subject.fitted.widths[0])


def log_losses(document: Any) -> list[float]:
    """Return all log losses in a document of figures."""
    if isinstance(document, list):
        return [value for item in document for value in log_losses(item)]
    if not isinstance(document, dict):
        return []
    own = [document["value"]] if document.get("name") == "log_loss" and "value" in document else []
    direct = document.get("log_loss")
    if isinstance(direct, float):
        own.append(direct)
    return own + [value for item in document.values() for value in log_losses(item)]


def log_loss(work: Work) -> float:
    q, y = work.expected(), labels_of(work.subject.width)
    codes = [CLASSES[work.subject.width].index(label) for label in y]
    own = [(1.0 - q[i, 0], q[i, 0])[k] if q.shape[1] == 1 else q[i, k] for i, k in enumerate(codes)]
    return -float(np.mean(np.log(own)))


def check_log_loss(work: Work, document: Any) -> None:
    expected = log_loss(work)
    assert any(math.isclose(value, expected, rel_tol=1e-9) for value in log_losses(document)), expected


def command_evaluate(work: Work) -> None:
    output = work.command("evaluate", work.file(".csv"), "--calibrator", work.saved(), "--json")
    check_log_loss(work, json.loads(output))


def command_report(work: Work) -> None:
    target = work.folder / "page.json"
    work.command("report", work.file(".csv"), "--calibrator", work.saved(), "-o", target)
    check_log_loss(work, json.loads(target.read_text("utf-8")))


def command_monitor(work: Work) -> None:
    output = work.command("monitor", work.file(".csv"), "--calibrator", work.saved(), "--rows", 75, "--json")
    assert len(json.loads(output)["rows"]) == N // 75


CAPABILITIES: dict[str, Callable[[Work], None]] = {
    "save .json": save_and_load(".json"),
    "save .pkl": save_and_load(".pkl"),
    "predict_proba of an array": predict_array,
    "predict_proba of pandas": predict_frame(pd.DataFrame, lambda name, values: pd.Series(values, name=name)),
    "predict_proba of polars": predict_frame(pl.DataFrame, lambda name, values: pl.Series(name, values)),
    "to_sql": in_sql,
    "to_onnx": in_onnx,
    "engines.apply in memory": engine_in_memory,
    "engines.apply on CSV": engine_on_file(".csv"),
    "engines.apply on Parquet": engine_on_file(".parquet"),
    "engines.apply on DuckDB": engine_on_duckdb,
    "calibrant apply": command_apply,
    "calibrant inspect": command_inspect,
    "calibrant export --to sql": command_export_sql,
    "calibrant export --to onnx": command_export_onnx,
    "calibrant evaluate --calibrator": command_evaluate,
    "calibrant report --calibrator": command_report,
    "calibrant monitor --calibrator": command_monitor,
}


# --- what is expected ----------------------------------------------------------------------------------------

_LIKELIHOOD = r"coupling='likelihood' has no closed form, and SQL can't iterate"
_BY_GROUP = r"a GroupedCalibrator has one map for each group, and can't be exported as one"
_FORECASTS = r"forecast|makes no probabilities of scores"
_ONE_LABEL = r"labels at once|several labels"
#: Patterns of a subject and of a capability, and the words with which the pair is refused.
REFUSED: list[tuple[str, str, str]] = [
    ("one_vs_rest by likelihood*", "*sql", _LIKELIHOOD),
    ("GroupedCalibrator*", "*sql", _BY_GROUP),
    ("GroupedCalibrator*", "*onnx", _BY_GROUP),
    ("MultilabelCalibrator*", "calibrant evaluate*", _ONE_LABEL),
    ("MultilabelCalibrator*", "calibrant report*", _ONE_LABEL),
    ("MultilabelCalibrator*", "calibrant monitor*", _ONE_LABEL),
    ("forecasts.*", "predict_proba of*", _FORECASTS),
    ("forecasts.*", "to_*", _FORECASTS),
    ("forecasts.*", "engines.*", _FORECASTS),
    ("forecasts.*", "calibrant apply", _FORECASTS),
    ("forecasts.*", "calibrant export*", _FORECASTS),
    ("forecasts.*", "calibrant evaluate*", _FORECASTS),
    ("forecasts.*", "calibrant report*", _FORECASTS),
    ("forecasts.*", "calibrant monitor*", _FORECASTS),
]


PAIRS = [pytest.param(s, c, id=f"{s}: {c}") for s in SUBJECTS for c in CAPABILITIES]


@pytest.mark.parametrize(("subject", "capability"), PAIRS)
def test_subject_has_the_capability_or_says_why_not(tmp_path: Path, subject: str, capability: str) -> None:
    work, run = Work(SUBJECTS[subject], tmp_path), CAPABILITIES[capability]
    refused = next((text for s, c, text in REFUSED if fnmatch(subject, s) and fnmatch(capability, c)), None)
    if refused is None:
        run(work)
    else:
        with pytest.raises(CalibrantError, match=refused):
            run(work)


def test_columns_must_be_named_where_the_fit_had_none(tmp_path: Path) -> None:
    work = Work(SUBJECTS["beta, three columns, by position"], tmp_path)
    with pytest.raises(CalibrantError, match=r"doesn't say which columns it was fitted to.*score="):
        cb.engines.apply(work.subject.fitted, work.table(), tmp_path / "out.parquet")
    with pytest.raises(CalibrantError, match="doesn't say which columns it was fitted to"):
        to_sql(work.subject.fitted)


def test_every_calibrator_is_a_subject() -> None:
    assert {name.partition(",")[0] for name in SUBJECTS} >= set(CALIBRATORS)
