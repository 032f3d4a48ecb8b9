"""Every fitted thing through every capability.

`SUBJECTS` are fitted objects, `CAPABILITIES` what can be done with one. A pair works, unless `REFUSED` says with which
words it is refused: by a CalibrantError in Python, by exit status 2 on the command line. `PENDING` lists what does not
do so yet, and why; it is empty before a release. A pair of it that works fails here until it is taken out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
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

N = 150
CLASSES = {1: ["no", "yes"], 2: ["no", "yes"], 3: ["a", "b", "c"]}
#: Files hold the columns in this order, which is not that of the classes.
SHUFFLED = {1: [0], 2: [1, 0], 3: [2, 0, 1]}


# --- what is tested ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """Something fitted to so many columns of scores, with names that hold the classes or without any."""

    name: str
    make: Callable[[Subject], Any]
    width: int
    is_named: bool = True
    input: str = "probability"
    kind: str = "classes"

    @property
    def columns(self) -> list[str]:
        """The names of the columns in files, in the order of the classes."""
        if not self.is_named:
            return [f"s{k}" for k in range(self.width)]
        return ["p"] if self.width == 1 else [f"p_{label}" for label in CLASSES[self.width]]

    @property
    def fitted(self) -> Any:
        """The fitted object, made once."""
        return _fit(self.name)


def scores_of(width: int, input: str) -> Any:
    """Return the scores of N rows, shape (N,) or (N, K): overconfident probabilities, or logits of these."""
    truth = np.random.default_rng(width).dirichlet([1.0] * max(width, 2), N)
    sharp = truth**1.5 / (truth**1.5).sum(axis=1, keepdims=True)
    if width == 1:
        return sharp[:, 1] if input == "probability" else np.log(sharp[:, 1] / sharp[:, 0])
    return sharp if input == "probability" else np.log(sharp)


def labels_of(width: int) -> list[str]:
    truth = np.random.default_rng(width).dirichlet([1.0] * max(width, 2), N)
    rng = np.random.default_rng(0)
    return [CLASSES[width][rng.choice(len(row), p=row)] for row in truth]


REGIONS = np.resize(["north", "south", "south"], N)


def given(subject: Subject) -> Any:
    """Return the scores as the fit gets them: a frame or series with names, or an array."""
    scores = scores_of(subject.width, subject.input)
    if not subject.is_named:
        return scores
    if subject.width == 1:
        return pd.Series(scores, name=subject.columns[0])
    return pd.DataFrame(scores, columns=subject.columns)[[subject.columns[k] for k in SHUFFLED[subject.width]]]


def of_method(name: str, **settings: Any) -> Callable[[Subject], Any]:
    def make(subject: Subject) -> Any:
        return CALIBRATORS[name](**settings).fit(given(subject), labels_of(subject.width))

    return make


def grouped(subject: Subject) -> Any:
    regions = pd.Series(REGIONS, name="region") if subject.is_named else REGIONS
    return cb.GroupedCalibrator("temperature").fit(given(subject), labels_of(subject.width), groups=regions)


def multilabel(subject: Subject) -> Any:
    has_label = np.column_stack([np.array(labels_of(subject.width)) == label for label in CLASSES[subject.width]])
    Y = pd.DataFrame(has_label, columns=CLASSES[subject.width]) if subject.is_named else has_label
    scores = scores_of(subject.width, "probability")
    return cb.MultilabelCalibrator("beta").fit(
        pd.DataFrame(scores, columns=subject.columns) if subject.is_named else scores, Y
    )


def facade(subject: Subject) -> Any:
    calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="sigmoid", cv=2))
    calibrator.fit(labels_of(subject.width), given(subject))
    return calibrator


def shift(subject: Subject) -> Any:
    classes = CLASSES[subject.width]
    return cb.prior.PriorShift(1.0 + np.arange(len(classes)), classes=classes)


def chain(subject: Subject) -> Any:
    return cb.Chain([of_method("temperature")(subject), shift(subject), of_method("beta")(subject)])


def rank_preserving(subject: Subject) -> Any:
    return cb.RankPreservingCalibrator().fit(given(subject), labels_of(subject.width))


def forecast(method: str) -> Callable[[Subject], Any]:
    def make(subject: Subject) -> Any:
        recalibrator: Any = getattr(cb.forecasts, method)()
        mean = np.random.default_rng(3).normal(size=N)
        return recalibrator.fit(
            cb.forecasts.GaussianForecast(mean, 1.0), mean + 2.0 * np.random.default_rng(4).normal(size=N)
        )

    return make


def subjects() -> Iterator[Subject]:
    in_words = {1: "one score", 2: "two columns", 3: "three columns"}

    def each(
        name: str, make: Any, widths: tuple[int, ...] = (1, 2, 3), input: str = "probability", kind: str = "classes"
    ) -> Iterator[Subject]:
        for width in widths:
            for is_named in (True, False):
                how = "by name" if is_named else "by position"
                yield Subject(f"{name}, {in_words[width]}, {how}", make, width, is_named, input, kind)

    for name in sorted(CALIBRATORS):
        yield from each(name, of_method(name))
    yield from each("one_vs_rest by likelihood", of_method("one_vs_rest", coupling="likelihood"), (3,))
    yield from each("top_label per class", of_method("top_label", per_class=True), (3,))
    yield from each("spline of logits", of_method("spline", input="logit"), input="logit")
    yield from each("matrix of logits", of_method("matrix", input="logit"), (3,), input="logit")
    yield from each("isotonic of scores", of_method("isotonic", input="score"), (1,), input="score")
    yield from each("GroupedCalibrator", grouped, kind="grouped")
    yield from each("MultilabelCalibrator", multilabel, (3,), kind="labels")
    yield from each("ProbabilityCalibrator", facade)
    for width in (1, 2, 3):  # nothing is fitted that could have names
        yield Subject(f"PriorShift, {in_words[width]}, by position", shift, width, is_named=False)
    yield from each("Chain", chain)
    yield from each("RankPreservingCalibrator", rank_preserving, (3,))
    for method in ("Average", "Conformal", "Distribution", "Threshold", "VarianceScaling"):
        yield Subject(f"forecasts.{method}Recalibrator", forecast(f"{method}Recalibrator"), 1, kind="forecast")


SUBJECTS = {subject.name: subject for subject in subjects()}


@cache
def _fit(name: str) -> Any:
    return SUBJECTS[name].make(SUBJECTS[name])


# --- what it must be able to do ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A subject with its scores, and a folder to work in."""

    subject: Subject
    folder: Path

    @property
    def scores(self) -> Any:
        return scores_of(self.subject.width, self.subject.input)

    @property
    def groups(self) -> dict[str, Any]:
        return {"groups": REGIONS} if self.subject.kind == "grouped" else {}

    def expected(self) -> Any:
        """Return the probabilities, shape (N, n)."""
        return np.asarray(self.subject.fitted.predict_proba(self.scores, **self.groups)).reshape(N, -1)

    def outputs(self) -> list[str]:
        """Return the names of the new columns."""
        n = self.subject.width
        return ["p_calibrated"] if n == 1 else [f"p_calibrated_{k}" for k in self.subject.fitted.classes_]

    def table(self) -> pa.Table:
        """Return the rows as a table, its columns of scores in another order than the classes."""
        columns = dict(zip(self.subject.columns, self.scores.reshape(N, -1).T, strict=True))
        shuffled = {self.subject.columns[k]: columns[self.subject.columns[k]] for k in SHUFFLED[self.subject.width]}
        return pa.table({"id": np.arange(N), **shuffled, "region": REGIONS, "y": labels_of(self.subject.width)})

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
        if done.exception is not None:
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
            again = np.asarray(loaded.predict_proba(work.scores, **work.groups)).reshape(N, -1)
            assert again.tobytes() == work.expected().tobytes()

    return run


def predict_array(work: Work) -> None:
    if work.subject.kind == "forecast":
        work.subject.fitted.transform(work.scores)
    got = work.subject.fitted.predict_proba(work.scores.tolist(), **work.groups)
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
            got = subject.fitted.predict_proba(make_one(names[0], work.scores), **work.groups)
            assert type(got) is type(make_one(names[0], work.scores))
            np.testing.assert_array_equal(np.asarray(got), work.expected()[:, 0])
            return
        order = SHUFFLED[subject.width] if subject.is_named else range(subject.width)
        frame = make({names[k]: work.scores[:, k] for k in order})
        got = subject.fitted.predict_proba(frame, **work.groups)
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


def run_onnx(work: Work, model: Any) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"scores": work.scores})
    np.testing.assert_allclose(got.reshape(N, -1), work.expected(), rtol=1e-9, atol=1e-12)


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
    if work.subject.width == 2:
        pytest.skip("the command exports one score of two classes")
    target = work.folder / "c.onnx"
    work.command("export", work.saved(), "--to", "onnx", "-o", target)
    run_onnx(work, target.read_bytes())


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
    output = work.command("monitor", work.file(".csv"), "--calibrator", work.saved(), "--rows", 50, "--json")
    assert len(json.loads(output)["rows"]) == N // 50


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
    ("auto, three columns*", "*sql", _LIKELIHOOD),
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
#: Patterns of a subject and of a capability that do not do yet what is expected, and why. Empty before a release.
PENDING: list[tuple[str, str, str]] = []


def found_in(cases: list[tuple[str, str, str]], subject: str, capability: str) -> str | None:
    """Return what the first pattern says that matches a pair."""
    return next((text for s, c, text in cases if fnmatch(subject, s) and fnmatch(capability, c)), None)


def pairs() -> list[Any]:
    """Return all pairs; of the pending ones the first of each pattern runs, and fails the test if it works."""
    found, seen = [], set()
    for subject in SUBJECTS:
        for capability in CAPABILITIES:
            reason = found_in(PENDING, subject, capability)
            marks = [pytest.mark.xfail(reason=reason, strict=True, run=reason not in seen)] if reason else []
            seen.add(reason)
            found.append(pytest.param(subject, capability, marks=marks, id=f"{subject}: {capability}"))
    return found


@pytest.mark.parametrize(("subject", "capability"), pairs())
def test_subject_has_the_capability_or_says_why_not(tmp_path: Path, subject: str, capability: str) -> None:
    work, run = Work(SUBJECTS[subject], tmp_path), CAPABILITIES[capability]
    refused = found_in(REFUSED, subject, capability)
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
