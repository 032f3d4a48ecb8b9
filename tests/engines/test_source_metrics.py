"""Metrics of any source: those of memory where rows fit, and within what is said where they don't."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calibrant as cb
from calibrant.engines import evaluate
from calibrant.errors import InvalidInputError
from calibrant.metrics import GroupScores, evaluate_groups
from calibrant.numerics import expit
from calibrant.results import Scores


def classes(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    z = 1.5 * rng.normal(size=(n, 4))
    rate = np.exp(0.7 * z + [0.3, 0.0, -0.5, 0.2])
    rate /= rate.sum(axis=1, keepdims=True)
    return z, (rng.random(n)[:, None] > rate.cumsum(axis=1)).sum(axis=1)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def in_parts(columns: dict[str, Any]) -> Any:
    """Return a source that comes in many batches, again for each pass."""
    table = pa.table(columns)
    return lambda: table.to_reader(1_500)


def columns_of(scores: np.ndarray, **more: Any) -> dict[str, Any]:
    return {**{f"p{k}": scores[:, k] for k in range(scores.shape[1])}, **more}


def ends(scores: Scores) -> dict[str, tuple[float, float, float]]:
    return {name: (s.value, s.low, s.high) for name, s in scores.items()}


def test_several_columns_that_fit_are_measured_as_in_memory() -> None:
    z, y = classes(3_000)
    names = np.array(["a", "b", "c", "d"])[y]
    found = evaluate(in_parts(columns_of(softmax(z), y=names)), score="p*")
    wanted = cb.evaluate(names, softmax(z))
    assert ends(found) == ends(wanted)
    assert found.verdict == wanted.verdict


@pytest.mark.parametrize("weighted", [False, True])
def test_several_columns_beyond_memory_have_the_scores_of_memory(weighted: bool) -> None:
    z, y = classes()
    w = np.random.default_rng(3).exponential(size=y.size) if weighted else None
    more = {} if w is None else {"w": w}
    source = in_parts(columns_of(softmax(z), y=y, **more))
    found = evaluate(source, score="p*", weight="w" if weighted else None, max_distinct=6_000)
    wanted = cb.evaluate(y, softmax(z), sample_weight=w)
    assert list(found) == list(wanted)
    for name, score in wanted.items():
        exact = name in ("brier", "log_loss", "accuracy")
        assert found[name].value == pytest.approx(score.value, rel=1e-12 if exact else 2e-3, abs=1e-4), name
        width = score.high - score.low
        assert found[name].low == pytest.approx(score.low, abs=1e-12 if exact else 0.1 * width + 1e-4), name
        assert found[name].high == pytest.approx(score.high, abs=1e-12 if exact else 0.1 * width + 1e-4), name
        assert found[name].n == score.n
    assert found.verdict.split(" (")[0] == wanted.verdict.split(" (")[0]  # rows of a bin may differ by a cell's


@pytest.mark.parametrize("exact", ["auto", False])
def test_logits_are_measured_as_the_probabilities_that_they_are(exact: Any) -> None:
    z, y = classes(8_000)
    of_logits = evaluate(in_parts(columns_of(z, y=y)), score="p*", input="logit", exact=exact)
    of_probabilities = evaluate(in_parts(columns_of(softmax(z), y=y)), score="p*", exact=exact)
    assert of_logits["brier"].value == pytest.approx(of_probabilities["brier"].value, rel=1e-12)
    one, event = z[:, 0], y == 0
    found = evaluate({"z": one, "y": event}, score="z", input="logit")
    assert ends(found) == ends(cb.evaluate(event, expit(one)))
    with pytest.raises(InvalidInputError, match="input='score' are no probabilities"):
        evaluate({"z": one, "y": event}, score="z", input="score")


def test_two_columns_are_the_binary_problem() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(4_000)
    y = rng.random(4_000) < p
    found = evaluate({"a": 1.0 - p, "b": p, "y": y}, score=["a", "b"])
    assert found["brier"].value == pytest.approx(cb.evaluate(y, p)["brier"].value, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_distinct", [100_000, 2_000])
def test_groups_of_any_source_are_those_of_memory(max_distinct: int, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    p = rng.beta(1.0, 3.0, 20_000)
    city = rng.choice(["Bonn", "Oslo", "Rome"], p.size, p=[0.6, 0.3, 0.1])
    y = rng.random(p.size) < np.where(city == "Rome", p**2, p)
    w = rng.integers(1, 4, p.size).astype(float) if weighted else None
    columns = {"p": p, "y": y, "city": city, "w": np.ones(p.size) if w is None else w}
    source = in_parts(columns)
    found = evaluate(source, group="city", weight="w" if weighted else None, max_distinct=max_distinct)
    wanted = evaluate_groups(y, p, groups=city, sample_weight=w)
    assert isinstance(found, GroupScores)
    assert found.off == wanted.off == ("Rome",)
    assert list(found.groups) == list(wanted.groups)
    for group, scores in [("all", wanted.overall), *wanted.groups.items()]:
        own = found.overall if group == "all" else found.groups[group]
        for name, score in scores.items():
            # a summary keeps the weights of a score's rows by their sums: intervals of many weights are close
            tolerance = 1e-9 if max_distinct == 100_000 else 5e-3
            assert own[name].value == pytest.approx(score.value, abs=tolerance), (group, name)
            assert own[name].low == pytest.approx(score.low, abs=tolerance), (group, name)
            assert own[name].n == score.n


def test_groups_of_several_columns_are_measured_by_their_top_label() -> None:
    z, y = classes(9_000)
    g = np.arange(y.size) % 3
    wanted = evaluate_groups(y, softmax(z), groups=g)
    for max_distinct in (100_000, 3_000):
        found = evaluate(in_parts(columns_of(softmax(z), y=y, g=g)), score="p*", group="g", max_distinct=max_distinct)
        assert set(found.groups) == {0, 1, 2}
        for group, scores in wanted.groups.items():
            assert found.groups[group]["accuracy"].value == pytest.approx(scores["accuracy"].value, rel=1e-12)
            assert found.groups[group]["mean_gap"].low == pytest.approx(scores["mean_gap"].low, abs=1e-3)


def test_the_notes_say_which_label_was_taken_as_the_positive_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = np.where(rng.random(300) < p, "paid", "late")
    rows = in_parts({"p": p, "y": y})
    assert evaluate(rows).notes == cb.evaluate(y, p).notes
    assert evaluate(rows).notes[0].startswith("'paid' is taken as the positive class, 'late' as the negative one")
    assert evaluate(rows, pos_label="paid").notes == []
    assert evaluate(in_parts({"p": p, "y": y == "paid"})).notes == []
    assert evaluate(in_parts(columns_of(np.column_stack([1.0 - p, p]), y=y)), score=["p0", "p1"]).notes == []
