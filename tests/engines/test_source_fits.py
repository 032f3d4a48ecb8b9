"""Calibrators fitted to any source: the fit in memory, whatever fits into it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, Calibrator, calibrator_kind, make_calibrator
from calibrant.engines import evaluate, fit
from calibrant.errors import CalibrantWarning, ColumnOrderError, DataWarning, InvalidInputError, InvalidLabelError
from calibrant.maps import Map
from calibrant.rows import Rows

#: Fitted to the rows themselves, whatever their number.
PARAMETRIC = ("sigmoid", "beta", "temperature", "vector", "matrix", "dirichlet", "ensemble_temperature")
GRID = np.concatenate(([0.0, 1e-12], np.linspace(0.001, 0.999, 999), [1.0 - 1e-12, 1.0]))


def binary(n: int = 20_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 3.0, n)
    p[:20] = 0.0
    return p, rng.random(n) < p**1.4


def classes(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    z = 2.0 * rng.normal(size=(n, 4))
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


@pytest.mark.parametrize("name", [name for name in BINARY_CALIBRATORS if name != "auto"])
def test_where_scores_fit_the_map_is_that_of_the_summary_in_memory_bit_for_bit(name: str, tmp_path: Path) -> None:
    p, y = binary(3_000)
    pq.write_table(pa.table({"p": p, "y": y}), tmp_path / "t.parquet", row_group_size=500)
    make = BINARY_CALIBRATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        found = fit(make(), tmp_path)
        wanted = make().fit_summary(cb.ScoreSummary.from_arrays(p, y))
    np.testing.assert_array_equal(found.predict_proba(GRID), wanted.predict_proba(GRID))
    assert found.score_names_ == ("p",)
    assert found.n_rows_ == 3_000


@pytest.mark.parametrize("bounded", [False, True])
def test_isotonic_beyond_memory_is_the_fit_in_memory_bit_for_bit(bounded: bool) -> None:
    p, y = binary()
    found = fit(cb.IsotonicCalibrator(bounded=bounded), in_parts({"p": p, "y": y}), max_distinct=500, exact=True)
    wanted = cb.IsotonicCalibrator(bounded=bounded).fit(p, y)
    np.testing.assert_array_equal(found.map_.x, wanted.map_.x)
    np.testing.assert_array_equal(found.map_.y, wanted.map_.y)


@pytest.mark.parametrize(
    "calibrator",
    [
        cb.SigmoidCalibrator(),
        cb.BetaCalibrator(),
        cb.BetaCalibrator(form="am"),
        cb.BetaCalibrator(form="ab"),
        cb.BetaCalibrator(form="a"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_curves_beyond_memory_minimise_the_same_loss(calibrator: Any, weighted: bool) -> None:
    p, y = binary()
    w = np.random.default_rng(3).exponential(size=p.size) if weighted else None
    columns = {"p": p, "y": y, "w": np.ones(p.size) if w is None else w}
    found = fit(calibrator, in_parts(columns), weight="w", max_distinct=500, exact=True).predict_proba(GRID)
    wanted = type(calibrator)(**calibrator.get_params()).fit(p, y, sample_weight=w).predict_proba(GRID)
    np.testing.assert_allclose(found, wanted, atol=2e-9)


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-9])
def test_sigmoid_of_scores_in_any_unit_and_far_from_zero(scale: float) -> None:
    p, y = binary()
    s = scale * (np.log(np.clip(p, 1e-9, None)) + 100.0)
    found = fit(cb.SigmoidCalibrator(input="score"), in_parts({"p": s, "y": y}), max_distinct=500)
    wanted = cb.SigmoidCalibrator(input="score").fit(s, y)
    np.testing.assert_allclose(found.predict_proba(s[:200]), wanted.predict_proba(s[:200]), atol=1e-8)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
def test_beta_whose_best_slope_is_negative_stays_on_the_edge() -> None:
    p, _ = binary()
    y = np.random.default_rng(0).random(p.size) < 0.6 - 0.4 * p
    found = fit(cb.BetaCalibrator(), in_parts({"p": p, "y": y}), max_distinct=500).predict_proba(GRID)
    np.testing.assert_allclose(found, cb.BetaCalibrator().fit(p, y).predict_proba(GRID), atol=1e-8)


def test_beta_of_two_distinct_scores_keeps_its_slopes_equal() -> None:
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.7], 20_000)
    y = rng.random(p.size) < p
    found = fit(cb.BetaCalibrator(), in_parts({"p": p, "y": y}), max_distinct=1)
    np.testing.assert_allclose(found.predict_proba(GRID), cb.BetaCalibrator().fit(p, y).predict_proba(GRID), atol=1e-8)


@pytest.mark.parametrize(
    ("calibrator", "tolerance"),
    [
        (cb.TemperatureCalibrator(), 1e-8),
        (cb.TemperatureCalibrator(input="logit"), 1e-8),
        (cb.VectorScalingCalibrator(input="logit"), 1e-5),
        (cb.MatrixScalingCalibrator(), 1e-5),
        (cb.MatrixScalingCalibrator(penalty=3.0), 1e-5),
        (cb.DirichletCalibrator(penalty=3.0), 1e-5),
        (cb.DirichletCalibrator(), 1e-5),
        (cb.IsotonicCalibrator(), 0.0),
    ],
    ids=repr,
)
def test_several_classes_beyond_memory(calibrator: Calibrator, tolerance: float) -> None:
    z, y = classes()
    scores = z if calibrator.input == "logit" else softmax(z)
    source = in_parts({**{f"p{k}": scores[:, k] for k in range(4)}, "y": y})
    found = fit(calibrator, source, score="p*", max_distinct=3_000)
    wanted = type(calibrator)(**calibrator.get_params()).fit(scores, y)
    difference = np.abs(found.predict_proba(scores[:2_000]) - wanted.predict_proba(scores[:2_000])).max()
    assert difference <= tolerance
    assert found.n_rows_ == y.size
    assert found.classes_.tolist() == [0, 1, 2, 3]


def test_a_method_without_passes_is_fitted_to_cells_and_says_how_far_off_these_are() -> None:
    p, y = binary()
    source = in_parts({"p": p, "y": y})
    with pytest.warns(DataWarning, match=r"histogram has no fit in several passes.*scores moved by at most \d"):
        found = fit(cb.HistogramCalibrator(n_bins=10), source, max_distinct=500)
    difference = found.predict_proba(GRID) - cb.HistogramCalibrator(n_bins=10).fit(p, y).predict_proba(GRID)
    assert np.median(np.abs(difference)) < 1e-3
    with pytest.raises(InvalidInputError, match="histogram has no fit in several passes"):
        fit(cb.HistogramCalibrator(), source, max_distinct=500, exact=True)
    fit(cb.HistogramCalibrator(), source, max_distinct=500, exact=False)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in CALIBRATORS
        for kind in ("one score", "two columns", "two logits")
        if kind != "two logits" or calibrator_kind(name).takes_input()
    ],
)
def test_every_calibrator_of_two_classes_is_fitted_beyond_memory(name: str, kind: str) -> None:
    p, y = binary()
    p = np.clip(p, 1e-6, None)
    params = {"input": "logit"} if kind == "two logits" else {}
    match kind:
        case "one score":
            scores, columns = p, {"s0": p}
        case "two columns":
            scores = np.column_stack((1.0 - p, p))
        case "two logits":
            scores = np.column_stack((np.full(p.size, 0.5), 0.5 + np.log(p) - np.log1p(-p)))
    if scores.ndim == 2:
        columns = {f"s{k}": scores[:, k] for k in range(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        found = fit(make_calibrator(name, **params), in_parts({**columns, "y": y}), score="s*", max_distinct=2_000)
        wanted = make_calibrator(name, **params).fit(scores, y)
    grid = scores[:3_000]
    difference = np.abs(found.predict_proba(grid) - wanted.predict_proba(grid))
    # isotonic is exact; parametric fits are to rounding; of cells a few scores may cross an edge of a bin
    limit = {"isotonic": 0.0, "one_vs_rest": 0.0, "top_label": 0.0}.get(name, 1e-6 if name in PARAMETRIC else None)
    if limit is None:
        assert np.median(difference) < 2e-3
        assert difference.max() < 0.2
    else:
        assert difference.max() <= limit
    assert found.n_rows_ == y.size
    assert found.classes_.tolist() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibrator", "tolerance"),
    [
        (cb.EnsembleTemperatureCalibrator(), 1e-6),
        (cb.EnsembleTemperatureCalibrator(input="logit"), 1e-6),
        (cb.OneVsRestCalibrator("isotonic", coupling="likelihood"), 0.0),
        (cb.OneVsRestCalibrator(cb.BetaCalibrator()), 1e-6),
        (cb.OneVsRestCalibrator(cb.IsotonicCalibrator(input="logit")), 0.0),
        (cb.TopLabelCalibrator(), 0.0),
        (cb.TopLabelCalibrator("isotonic", per_class=True), 0.0),
        (cb.TopLabelCalibrator(cb.SigmoidCalibrator(input="logit"), per_class=True), 1e-6),
        (cb.TopLabelCalibrator("spline"), 5e-3),
        (cb.AutoCalibrator(), 2e-2),
    ],
    ids=repr,
)
def test_calibrators_made_of_others_are_fitted_beyond_memory(calibrator: Calibrator, tolerance: float) -> None:
    z, y = classes()
    scores = z if calibrator.input == "logit" else softmax(z)
    source = in_parts({**{f"p{k}": scores[:, k] for k in range(4)}, "y": y})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of cells, where the spline is fitted to them
        found = fit(calibrator, source, score="p*", max_distinct=3_000)
    wanted = make_calibrator(calibrator).fit(scores, y)
    difference = np.abs(found.predict_proba(scores[:2_000]) - wanted.predict_proba(scores[:2_000])).max()
    assert difference <= tolerance
    assert found.n_rows_ == y.size
    assert type(found.map_) is type(wanted.map_)


@pytest.mark.slow
def test_auto_of_several_classes_is_that_of_memory_where_rows_fit() -> None:
    z, y = classes(3_000)
    source = in_parts({**{f"p{k}": softmax(z)[:, k] for k in range(4)}, "y": y})
    found = fit(cb.AutoCalibrator(), source, score="p*")
    wanted = cb.AutoCalibrator().fit(softmax(z), y)
    np.testing.assert_array_equal(found.predict_proba(softmax(z)), wanted.predict_proba(softmax(z)))
    assert found.report_ == wanted.report_


def test_a_class_without_rows_keeps_its_probabilities_as_in_memory() -> None:
    z, y = classes(8_000)
    rows = y != 3
    scores = softmax(z)[rows]
    source = in_parts({**{f"p{k}": scores[:, k] for k in range(4)}, "y": y[rows]})
    with pytest.warns(DataWarning, match="class 3 has no rows"):
        found = fit(cb.IsotonicCalibrator(), source, score="p*", classes=[0, 1, 2, 3], max_distinct=2_000)
    with pytest.warns(DataWarning, match="class 3 has no rows"):
        wanted = cb.IsotonicCalibrator().fit(scores, y[rows], classes=[0, 1, 2, 3])
    np.testing.assert_array_equal(found.predict_proba(scores), wanted.predict_proba(scores))


def test_isotonic_of_rows_that_are_known_to_be_few_is_pooled_at_once(tmp_path: Path) -> None:
    p, y = binary(5_000)
    pq.write_table(pa.table({"p": p, "y": y}), tmp_path / "t.parquet")
    found = fit(cb.IsotonicCalibrator(), tmp_path / "t.parquet", max_distinct=2_000)
    wanted = cb.IsotonicCalibrator().fit(p, y)
    np.testing.assert_array_equal(found.map_.y, wanted.map_.y)
    assert found.n_rows_ == 5_000


def test_a_stream_that_is_gone_and_labels_of_one_class_are_refused() -> None:
    p, y = binary(3_000)
    table = pa.table({"p": p, "y": y})
    with pytest.raises(InvalidInputError, match="can be read once only, and this takes more than one pass"):
        fit(cb.SigmoidCalibrator(), table.to_reader(500), max_distinct=500)
    for calibrator in (cb.SigmoidCalibrator(), cb.TemperatureCalibrator()):
        with pytest.raises(InvalidLabelError, match="column 'y' of the columns"):
            fit(calibrator, {"p": p, "y": np.zeros(p.size, dtype=int)})


def test_evaluate_is_that_of_memory_where_scores_fit_and_says_its_bounds_where_not() -> None:
    p, y = binary()
    wanted = cb.evaluate(y, p)
    exact = evaluate({"p": p, "y": y})
    for name, score in wanted.items():
        assert (exact[name].value, exact[name].low, exact[name].high) == (score.value, score.low, score.high), name
    found = evaluate({"p": p, "y": y}, max_distinct=500)
    for name in ("brier", "auc", "ece"):
        limit = float(found[name].note.split("within ")[1].split(" of")[0])
        assert abs(found[name].value - wanted[name].value) <= 1.06 * limit, name
    assert found.verdict == wanted.verdict


@pytest.mark.parametrize("max_distinct", [100_000, 1_000])
def test_columns_are_matched_to_classes_by_name_whatever_their_order(max_distinct: int) -> None:
    z, y = classes(4_000)
    labels = np.array(["buy", "hold", "keep", "sell"])
    columns = {f"p_{label}": softmax(z)[:, k] for k, label in enumerate(labels)}
    source, names = in_parts({**columns, "y": labels[y]}), ["p_sell", "p_keep", "p_buy", "p_hold"]
    calibrator = fit(cb.TemperatureCalibrator(), source, score=names, max_distinct=max_distinct)
    assert calibrator.score_names_ == tuple(columns)
    wanted = fit(cb.TemperatureCalibrator(), source, score=list(columns), max_distinct=max_distinct)
    assert calibrator.inverse_temperature_ == wanted.inverse_temperature_
    found = evaluate(source, score=names, max_distinct=max_distinct)
    assert found["brier"].value == pytest.approx(cb.evaluate(labels[y], softmax(z))["brier"].value, rel=1e-12)
    odd = {"p_sell": "p_sell", "p_hold": "p_hold", "b": "p_buy", "k": "p_keep"}
    source = in_parts({**{name: columns[of] for name, of in odd.items()}, "y": labels[y]})
    with pytest.raises(ColumnOrderError, match="contradicts that of the classes"):
        evaluate(source, score=list(odd))


def test_a_method_of_all_columns_without_passes_says_that_it_needs_all_rows() -> None:
    class OfOneKind(Calibrator):
        name = "of_one_kind"

        def map_of(self, rows: Rows) -> Map:
            return cb.TemperatureCalibrator().map_of(rows)

    z, y = classes(4_000)
    columns = {f"p{k}": softmax(z)[:, k] for k in range(4)}
    assert fit(OfOneKind(), in_parts({**columns, "y": y}), score="p*").n_rows_ == 4_000
    with pytest.raises(InvalidInputError, match="more rows than fit in memory, and of_one_kind needs all of them"):
        fit(OfOneKind(), in_parts({**columns, "y": y}), score="p*", max_distinct=1_000)
