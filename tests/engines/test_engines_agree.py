"""In memory = DuckDB = Spark: every calibrator and every metric, exact or within the bound that is reported."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, BinaryCalibrator, make_calibrator
from calibrant.engines import QuantisedSummary, evaluate, fit, summarise
from calibrant.errors import CalibrantWarning
from calibrant.metrics import evaluate_groups

#: Rows of the files: skewed, so that parts of a scan are too.
SIZES = (1_700, 0, 1, 299)
N = sum(SIZES)
#: Distinct scores that fit, and those that don't.
ALL, FEW = 1 << 22, 300
#: Calibrators whose fit in memory too sorts the rows first. Others sum over them in their own order.
BIT_EQUAL = set(BINARY_CALIBRATORS) - {"sigmoid", "beta", "quadratic", "auto", "bagged"}
#: What has a fit in passes, and how near its solver comes; none of a method that is fitted to cells instead.
IN_PASSES = {
    "isotonic": 0.0,
    "sigmoid": 1e-8,
    "beta": 1e-8,
    "temperature": 1e-8,
    "vector": 1e-5,
    "matrix": 1e-5,
    "dirichlet": 1e-5,
    "ensemble_temperature": 1e-5,
}
OF_CLASSES = ("isotonic", "sigmoid", *sorted(set(CALIBRATORS) - set(BINARY_CALIBRATORS)))
OF_ONE_SCORE = ("isotonic", "sigmoid", "beta", "temperature")
CLASSES = ["c0", "c1", "c2"]
GRID = np.concatenate(([0.0, 1e-9], np.linspace(0.001, 0.999, 200), [1.0]))


@cache
def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    p = rng.beta(1.0, 3.0, N)
    z = rng.dirichlet([1.0, 1.0, 2.0], N)
    rate = z**1.5 / (z**1.5).sum(axis=1, keepdims=True)
    found = {"p": p, "y": rng.random(N) < p**1.4, "g": np.array(["a", "b", "c"])[rng.integers(0, 3, N)]}
    found |= {name: z[:, k] for k, name in enumerate(CLASSES)}
    return found | {"label": (rng.random(N)[:, None] > rate.cumsum(axis=1)).sum(axis=1), "w": rng.exponential(size=N)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table(columns())
    for i, (start, size) in enumerate(zip(np.cumsum((0, *SIZES)).tolist(), SIZES, strict=False)):
        pq.write_table(table.slice(start, size), folder / f"{i}.parquet")
    return folder


@pytest.fixture(scope="module", params=["DuckDB", "Spark"])
def source(request: pytest.FixtureRequest, files: Path) -> Iterator[Any]:
    if request.param == "Spark":
        spark = request.getfixturevalue("spark")
        frame = spark.read.parquet(*[str(file) for file in sorted(files.iterdir())]).repartition(2, "w").cache()
        yield frame
        frame.unpersist()
        return
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        yield connection.read_parquet(f"{files}/*.parquet")


# --- calibrators -------------------------------------------------------------------------------------------------


def fit_case(name: str, *, is_one: bool, most: int) -> Callable[[Any], None]:
    """Return the check that a fit to a source is the one in memory."""

    def check(source: Any) -> None:
        rows, score = columns(), "p" if is_one else CLASSES
        label = "y" if is_one else "label"
        scores = rows["p"] if is_one else np.column_stack([rows[c] for c in CLASSES])
        at = GRID if is_one else scores[:300]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            found = fit(make_calibrator(name), source, score=score, label=label, max_distinct=most)
            wanted = make_calibrator(name).fit(scores, rows[label])
        difference = np.abs(found.predict_proba(at) - wanted.predict_proba(at)).max()
        assert difference <= ((0.0 if name in BIT_EQUAL else 1e-9) if most == ALL else IN_PASSES[name])
        assert found.n_rows_ == N
        if most == ALL and is_one and isinstance(wanted, BinaryCalibrator):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                of_summary = make_calibrator(name).fit_summary(cb.ScoreSummary.from_arrays(scores, rows[label]))
            np.testing.assert_array_equal(found.predict_proba(at), of_summary.predict_proba(at))

    return check


# --- metrics -----------------------------------------------------------------------------------------------------


def metrics_case(*, is_one: bool, exact: Any, weight: str | None = None) -> Callable[[Any], None]:
    """Return the check that all scores of a source are those of memory, or as near as they say."""

    def check(source: Any) -> None:
        rows = columns()
        scores = rows["p"] if is_one else np.column_stack([rows[c] for c in CLASSES])
        label = "y" if is_one else "label"
        found = evaluate(source, score="p" if is_one else CLASSES, label=label, weight=weight, exact=exact)
        wanted = cb.evaluate(rows[label], scores, sample_weight=None if weight is None else rows[weight])
        assert list(found) == list(wanted)
        for name, score in wanted.items():
            values = (found[name].value, found[name].low, found[name].high)
            if exact == "auto" and weight is None and is_one:
                assert values == (score.value, score.low, score.high), name
            elif exact == "auto":  # sums of floats, in another order
                assert values == pytest.approx((score.value, score.low, score.high), rel=1e-9, abs=1e-12), name
            elif "within" in found[name].note:
                bound = float(found[name].note.split("within ")[1].split(" ")[0])
                assert abs(values[0] - score.value) <= 1.1 * bound + 1e-15, name  # the note has two digits
            else:
                assert values[0] == pytest.approx(score.value, rel=0.05, abs=2e-3), name

    return check


def groups_case(source: Any) -> None:
    rows = columns()
    found = evaluate(source, group="g")
    wanted = evaluate_groups(rows["y"], rows["p"], groups=rows["g"])
    assert list(found.groups) == list(wanted.groups)
    for got, expected in ((found.overall, wanted.overall), *((found.groups[g], wanted.groups[g]) for g in "abc")):
        assert list(got) == list(expected)
        for name, score in expected.items():
            values = (got[name].value, got[name].low, got[name].high, got[name].n)
            assert values == pytest.approx((score.value, score.low, score.high, score.n), rel=1e-9), name


# --- summaries ---------------------------------------------------------------------------------------------------


def summaries_case(*, exact: Any, group: str | None, is_one: bool) -> Callable[[Any], None]:
    """Return the check that summaries are those of memory bit for bit, or cells within their bounds."""

    def check(source: Any) -> None:
        rows = columns()
        label = "y" if is_one else "label"
        found = summarise(source, score="p" if is_one else CLASSES, label=label, group=group, exact=exact)
        by_group = found if group is not None else {None: found}
        assert list(by_group) == ([None] if group is None else ["a", "b", "c"])
        for of, summaries in by_group.items():
            kept = np.ones(N, bool) if of is None else rows["g"] == of
            by_class = {True: summaries} if is_one else summaries
            assert list(by_class) == ([True] if is_one else [0, 1, 2])
            for k, summary in by_class.items():
                scores = rows["p" if is_one else CLASSES[k]][kept]
                check_summary(summary, cb.ScoreSummary.from_arrays(scores, rows[label][kept] == k))

    return check


def check_summary(found: cb.ScoreSummary, wanted: cb.ScoreSummary) -> None:
    if not isinstance(found, QuantisedSummary):
        for got, expected in zip(found.distinct, wanted.distinct, strict=True):
            np.testing.assert_array_equal(got, expected)
        return
    assert (found.total_weight, found.total_positives) == (wanted.total_weight, wanted.total_positives)
    assert (found.low[0], found.high[-1]) == (wanted.scores[0], wanted.scores[-1])
    assert abs(brier(found) - brier(wanted)) <= found.bounds.brier


def brier(summary: cb.ScoreSummary) -> float:
    s, w, y = summary.scores, summary.weight, summary.positives
    return float((y * (1.0 - s) ** 2 + (w - y) * s**2).sum() / w.sum())


CASES = {
    **{f"fit {name}": fit_case(name, is_one=True, most=ALL) for name in CALIBRATORS},
    **{f"fit {name} of classes": fit_case(name, is_one=False, most=ALL) for name in OF_CLASSES},
    **{f"fit {name} beyond memory": fit_case(name, is_one=True, most=FEW) for name in OF_ONE_SCORE},
    **{f"fit {name} of classes beyond memory": fit_case(name, is_one=False, most=FEW) for name in IN_PASSES},
    "metrics": metrics_case(is_one=True, exact="auto"),
    "metrics of classes": metrics_case(is_one=False, exact="auto"),
    "weighted metrics": metrics_case(is_one=True, exact="auto", weight="w"),
    "metrics of cells": metrics_case(is_one=True, exact=False),
    "metrics of cells of classes": metrics_case(is_one=False, exact=False),
    "metrics by group": groups_case,
    "summary": summaries_case(exact=True, group=None, is_one=True),
    "summaries of classes by group": summaries_case(exact=True, group="g", is_one=False),
    "cells": summaries_case(exact=False, group=None, is_one=True),
    "cells by group": summaries_case(exact=False, group="g", is_one=True),
    "cells of classes by group": summaries_case(exact=False, group="g", is_one=False),
}


@pytest.mark.parametrize("name", CASES)
def test_in_memory_duckdb_and_spark_agree(source: Any, name: str) -> None:
    CASES[name](source)
