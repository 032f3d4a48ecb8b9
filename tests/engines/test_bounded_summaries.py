"""Summaries that don't fit: what cells change is bounded, states merge, and isotonic blocks stay exact."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import calibrant as cb
from calibrant.engines import FoldState, QuantisedSummary, RowReader, SourceStream, open_rows, partitions, summarise
from calibrant.engines.folding import SummaryBuilder, _n_scores
from calibrant.engines.partitions import pooled_summary
from calibrant.errors import InvalidInputError
from calibrant.quantised import CellTable
from calibrant.summary import Blocks

#: Scores of kinds that hurt cells: ties, ends, single precision, saturation, one narrow heap.
KINDS = ("beta", "ties", "ends", "float32", "saturated", "narrow")


def draw(kind: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 3.0, n)
    rate = p
    match kind:
        case "ties":
            p = p.round(2)
        case "ends":
            p = np.where(rng.random(n) < 0.3, np.round(p), p)
            rate = np.clip(p, 0.05, 0.95)
        case "float32":
            p = p.astype(np.float32).astype(np.float64)
        case "saturated":
            p = np.exp(-60.0 * rng.random(n))
            p = np.where(rng.random(n) < 0.5, 1.0 - p, p)
            rate = np.clip(p, 1e-3, 1.0 - 1e-3)
        case "narrow":
            p = 0.3 + 1e-13 * p
    return p, rng.random(n) < rate


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_of_cells_are_within_the_bounds_that_they_report(kind: str, weighted: bool) -> None:
    p, y = draw(kind, 20_000)
    w = np.random.default_rng(9).exponential(size=p.size) if weighted else None
    columns = {"p": p, "y": y} | ({} if w is None else {"w": w})
    found = summarise(columns, weight="w" if weighted else None, exact=False)
    assert isinstance(found, QuantisedSummary)
    bounds = found.bounds
    scores, weight, _, positives = found.distinct
    total = weight.sum()
    assert found.base_rate == pytest.approx(np.average(y, weights=w), rel=1e-12)
    of_rows = {
        "brier": cb.metrics.brier_score(y, p, sample_weight=w),
        "log_loss": cb.metrics.log_loss(y, p, sample_weight=w),
        "auc": cb.metrics.roc_auc(y, p, sample_weight=w),
        "ece": cb.metrics.ece(y, p, sample_weight=w),
    }
    # each cell as two rows, one of each label
    both = np.concatenate((scores, scores))
    label = np.repeat([True, False], scores.size)
    mass = np.concatenate((positives, np.maximum(weight - positives, 0.0)))
    of_cells = {
        "brier": cb.metrics.brier_score(label, both, sample_weight=mass),
        "log_loss": cb.metrics.log_loss(label, both, sample_weight=mass),
        "auc": cb.metrics.roc_auc(label, both, sample_weight=mass),
        "ece": cb.metrics.ece(label, both, sample_weight=mass),
    }
    limits = {"brier": bounds.brier, "log_loss": bounds.log_loss, "auc": bounds.auc, "ece": found.ece_bound(15)}
    for name, limit in limits.items():
        gap = 0.0 if of_cells[name] == of_rows[name] else abs(of_cells[name] - of_rows[name])
        assert gap <= limit + 1e-12, name
        assert limit < 0.02 or (kind, name) == ("narrow", "auc"), f"the bound of {name} says nothing"
    cell = np.minimum(np.searchsorted(found.high, p), scores.size - 1)
    moved = np.abs(scores[cell] - p)
    assert moved.max() <= bounds.score
    assert np.average(moved, weights=w) <= bounds.mean_score + 1e-15
    assert total == pytest.approx(p.size if w is None else w.sum())
    assert f"{bounds.brier:.1e}" in repr(found)


def test_bounds_are_not_zero_where_something_moved_and_zero_where_nothing_did() -> None:
    p, y = draw("beta", 50_000)
    assert 0.0 < summarise({"p": p, "y": y}, exact=False).bounds.brier < 1e-4
    tied = summarise({"p": p.round(2), "y": y}, exact=False)
    assert tied.bounds.brier == tied.bounds.auc == tied.bounds.log_loss == tied.bounds.score == 0.0
    exact = cb.ScoreSummary.from_arrays(p.round(2), y)
    for got, wanted in zip(tied.distinct, exact.distinct, strict=True):
        np.testing.assert_array_equal(got, wanted)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60), st.integers(1, 5))
def test_cells_are_disjoint_rise_and_lose_no_row(rows: list[tuple[float, bool]], n_parts: int) -> None:
    p, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    tables = [CellTable.empty(4, is_probability=True) for _ in range(n_parts)]
    for i, table in enumerate(tables):
        table.add_rows(np.ascontiguousarray(p[i::n_parts]), np.ascontiguousarray(y[i::n_parts]))
    for other in tables[1:]:
        tables[0].merge(other)
    found = tables[0].summary()
    assert (found.high[:-1] < found.low[1:]).all()
    assert (found.low <= found.scores).all()
    assert (found.scores <= found.high).all()
    assert found.total_weight == len(rows)
    assert found.total_positives == y.sum()
    assert found.low[0] == p.min()
    assert found.high[-1] == p.max()


def test_scores_of_any_size_and_sign_have_a_cell() -> None:
    s = np.array([-np.finfo(float).max, -1e9, -2.0, -5e-324, 0.0, 5e-324, 1e-9, 1.5, 3e10, np.finfo(float).max])
    found = summarise({"p": s, "y": np.arange(s.size) % 2}, input="score", exact=False)
    np.testing.assert_array_equal(found.low, np.unique(np.concatenate((found.low, found.low))))
    assert (found.high[:-1] < found.low[1:]).all()
    assert found.total_weight == s.size
    assert np.isnan(found.bounds.brier)


def test_too_many_scores_are_refused_gathered_or_kept_as_asked() -> None:
    p, y = draw("beta", 5_000)
    rows = {"p": p, "y": y}
    with pytest.raises(InvalidInputError, match=r"more than 1,000 distinct scores.*exact='auto'"):
        summarise(rows, exact=True, max_distinct=1_000)
    assert isinstance(summarise(rows, max_distinct=1_000), QuantisedSummary)
    assert not isinstance(summarise(rows, max_distinct=5_000), QuantisedSummary)
    with pytest.raises(InvalidInputError, match="exact='yes' is none of"):
        summarise(rows, exact="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_states_of_parts_travel_and_merge_in_any_order(order: tuple[int, ...]) -> None:
    p, y = draw("float32", 4_000)
    states = []
    for i in order:
        state = FoldState()
        state.add(np.ascontiguousarray(p[i::4]), np.ascontiguousarray(y[i::4]), None)
        state.flush()
        states.append(pickle.loads(pickle.dumps(state)))
    for state in states[1:]:
        states[0].merge(state)
    wanted = cb.ScoreSummary.from_arrays(p, y)
    for got, expected in zip(states[0].summary().distinct, wanted.distinct, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_state_of_cells_takes_in_an_exact_one_and_the_other_way_round() -> None:
    p, y = draw("beta", 4_000)
    results = []
    for first_is_table in (True, False):
        a, b = FoldState(), FoldState()
        a.add(p[:2_000], y[:2_000], None)
        b.add(p[2_000:], y[2_000:], None)
        for state in (a, b):
            state.flush()
        (a if first_is_table else b).quantise(8, is_probability=True)
        a.merge(b)
        results.append(a.summary().distinct)
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    other = FoldState()
    other.quantise(6, is_probability=True)
    with pytest.raises(InvalidInputError, match="cells of different width"):
        a.merge(other)


def stream_of(columns: dict[str, Any], input: Any = "probability", weight: str | None = None) -> SourceStream:
    reader = RowReader(open_rows(pa.table(columns)), score="p", label="y", input=input, weight=weight)
    return SourceStream.of(reader)


def blocks_of(columns: dict[str, Any], max_rows: int, input: Any = "probability", **how: Any) -> Blocks:
    stream = stream_of(columns, input, **how)
    return pooled_summary(stream, max_rows=max_rows, known=next(iter(stream)).summary()).isotonic_blocks()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_rows", [7, 300, 100_000])
def test_blocks_from_range_partitions_are_those_of_all_rows_bit_for_bit(kind: str, max_rows: int) -> None:
    p, y = draw(kind, 3_000 if max_rows == 7 else 20_000, seed=3)
    if kind == "narrow":  # ranges that end between scores which nearly tie would tell them apart
        p = np.round(p * 2.0**48) / 2.0**48
    found = blocks_of({"p": p, "y": y}, max_rows)
    wanted = cb.ScoreSummary.from_arrays(p, y).isotonic_blocks()
    assert len(wanted.first) > 3
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_blocks_of_scores_of_both_signs_and_of_sorted_and_hostile_labels_are_exact() -> None:
    rng = np.random.default_rng(4)
    s = rng.normal(size=8_000) * 3.0
    for y in (rng.random(s.size) < 1.0 / (1.0 + np.exp(-s)), s > 0.1, s < 0.1, np.arange(s.size) % 2 == 0):
        found = blocks_of({"p": s, "y": y}, 200, "score")
        wanted = cb.ScoreSummary.from_arrays(s, y).isotonic_blocks()
        for got, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


#: Scores of both signs with many ties.
SCORES = st.sampled_from([0.0, -0.0, 0.5, 1.0]) | st.integers(-40, 40).map(lambda k: k * 2.0**-7)


@given(
    st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=120),
    st.integers(1, 40),
    st.sampled_from([1e-300, 1.0, 1e300]),
)
def test_blocks_are_those_of_all_rows_whatever_their_scores(
    rows: list[tuple[float, bool]], max_rows: int, scale: float
) -> None:
    s, y = np.array([r[0] for r in rows]) * scale, np.array([False, True] + [r[1] for r in rows[2:]])
    found = blocks_of({"p": s, "y": y}, max_rows, "score")
    for got, expected in zip(found, cb.ScoreSummary.from_arrays(s, y).isotonic_blocks(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_frequent_scores_and_first_rows_that_are_unlike_the_others_change_nothing() -> None:
    rng = np.random.default_rng(5)
    frequent, rare = np.repeat([0.0, 0.3], [5_000, 4_000]), rng.random(900) / 1e6
    p = np.sort(np.concatenate((frequent, rare, rng.beta(1.0, 3.0, 20_000))))
    y = rng.random(p.size) < p
    stream = stream_of({"p": p, "y": y})
    first = CellTable.empty(12, is_probability=True)
    first.add_rows(p[:100], y[:100])
    wanted = cb.ScoreSummary.from_arrays(p, y).isotonic_blocks()
    for known in (next(iter(stream)).summary(), first.summary()):
        found = pooled_summary(stream, max_rows=150, known=known).isotonic_blocks()
        for got, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_more_rows_than_narrow_integers_count_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = draw("beta", 20_000)
    monkeypatch.setattr(partitions, "_MOST_NARROW", 9_000)
    counter = partitions._Counter(partitions._Tree.of(p, np.ones(p.size), p.size))
    counter._numbers[:] = np.iinfo(np.uint32).max - 5_000
    before = int(counter._numbers[:, 0].max())
    for part in np.split(np.arange(p.size), 4):
        counter.add(np.full(part.size, 0.5), y[part], None)
    _, sums = counter.found()
    assert sums[:, 0].max() == before + p.size


def test_an_exact_fit_of_many_rows_reads_them_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = draw("beta", 200_000)
    pq.write_table(pa.table({"p": p, "y": y}), tmp_path / "rows.parquet")
    n_passes = []
    read = SourceStream.reduce

    def counted(self: SourceStream, *args: Any, **how: Any) -> Any:
        n_passes.append(1)
        return read(self, *args, **how)

    monkeypatch.setattr(SourceStream, "reduce", counted)
    fitted = cb.engines.fit(cb.IsotonicCalibrator(), tmp_path / "rows.parquet", max_distinct=40_000)
    assert len(n_passes) == 2
    wanted = cb.IsotonicCalibrator().fit(p, y)
    np.testing.assert_array_equal(fitted.fitted_map.x, wanted.fitted_map.x)
    np.testing.assert_array_equal(fitted.fitted_map.y, wanted.fitted_map.y)


def test_weighted_blocks_are_those_of_all_rows_to_rounding() -> None:
    p, y = draw("beta", 20_000)
    w = np.random.default_rng(0).exponential(size=p.size) * 1e-3  # weights that are no counts of rows
    found = blocks_of({"p": p, "y": y, "w": w}, 500, weight="w")
    wanted = cb.ScoreSummary.from_arrays(p, y, sample_weight=w).isotonic_blocks()
    np.testing.assert_array_equal(found.first, wanted.first)
    np.testing.assert_array_equal(found.last, wanted.last)
    np.testing.assert_allclose(found.rate, wanted.rate, rtol=1e-12)


@pytest.mark.parametrize("n_scores", [1, 10, 1_001, 50_000])
def test_repeated_scores_that_fit_stay_exact(tmp_path: Path, n_scores: int) -> None:
    """The first 131,072 rows tell how many scores there are, however often each of them comes."""
    n = 300_000
    p = np.random.default_rng(0).integers(0, n_scores, n) / max(n_scores - 1, 1)
    pq.write_table(pa.table({"p": p, "y": np.arange(n) % 2}), tmp_path / "rows.parquet")
    found = summarise(tmp_path / "rows.parquet", max_distinct=2 * n_scores)
    assert not isinstance(found, QuantisedSummary)
    assert found.scores.size == np.unique(p).size
    if n_scores > 1:
        assert isinstance(summarise(tmp_path / "rows.parquet", max_distinct=n_scores // 2), QuantisedSummary)


@pytest.mark.parametrize(("max_distinct", "is_quantised"), [(1_000, True), (2_000, True), (2_700, False)])
def test_first_rows_are_looked_at_where_scores_of_all_classes_may_not_fit(
    monkeypatch: pytest.MonkeyPatch, max_distinct: int, is_quantised: bool
) -> None:
    """900 rows of three classes have 2,700 scores; where these fit, rows wait to be sorted at once."""
    monkeypatch.setattr("calibrant.engines.folding.FIRST_ROWS", 300)
    builder = SummaryBuilder(None, max_distinct, True, n_states=3, n_rows=900)
    rng = np.random.default_rng(0)
    for k in range(3):
        builder.add((None, k), rng.random(100), rng.random(100) < 0.5, None)
    assert builder.is_quantised == is_quantised
    assert builder.n_waiting == (0 if is_quantised else 300)


@given(st.integers(2, 200_000), st.floats(1.0, 1e7))
def test_the_number_of_scores_is_told_from_those_seen(n_rows: int, n_scores: float) -> None:
    seen = round(n_scores * -np.expm1(-n_rows / n_scores))
    found = _n_scores(n_rows, max(seen, 1))
    assert found * -np.expm1(-n_rows / found) == pytest.approx(min(max(seen, 1), n_rows - 1), rel=1e-9)
