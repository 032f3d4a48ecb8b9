"""ONNX says what `predict_proba` says, in float64 and float32, run in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from export_cases import CASES, fitted_calibrator, scores_of

import calibrant as cb
from calibrant.errors import InvalidTypeError, NotFittedError, ShapeError, UnknownNameError
from calibrant.maps import StepMap
from calibrant.numerics import FloatArray
from calibrant.persistence import to_onnx

TOLERANCE = 1e-12
#: Half a unit in the last place of a probability in float32.
FLOAT32_TOLERANCE = 2.0**-24


def run(model: Any, scores: Any, name: str = "scores") -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: scores})[0]


def steps(edges: Any, levels: Any) -> Any:
    return fitted_calibrator("probability", StepMap(np.array(edges, dtype=np.float64), np.array(levels)))


@pytest.mark.parametrize("name", CASES)
def test_every_map_in_onnx_gives_what_predict_proba_gives(name: str) -> None:
    kind, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(kind, fitted), scores_of(kind, fitted)
    assert len(scores) >= 10_000
    got = run(to_onnx(calibrator), scores)
    expected = calibrator.predict_proba(scores)
    assert got.dtype == np.float64
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_float32_scores_give_what_predict_proba_makes_of_them(name: str) -> None:
    """Also where knots lie closer than float32 can tell: the search is in float64."""
    kind, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(kind, fitted), scores_of(kind, fitted)
    with np.errstate(over="ignore"):
        single = scores.astype(np.float32)
    single = single[np.isfinite(single).reshape(len(single), -1).all(axis=1)]
    got = run(to_onnx(calibrator, dtype="float32"), single)
    assert got.dtype == np.float32
    assert np.abs(got - calibrator.predict_proba(single.astype(np.float64))).max() <= FLOAT32_TOLERANCE


def test_prior_shift_keeps_0_and_1_and_what_is_near_them() -> None:
    p = np.array([0.0, 1e-300, 1e-20, 1e-12, 0.3, 1.0 - 1e-13, 1.0 - 2.0**-53, 1.0])
    for weight in (1e6, 1e-6):
        shift = cb.prior.PriorShift.from_class_weight({0: 1.0, 1: weight})
        chain = cb.Chain([shift, cb.prior.PriorShift([2.0, 1.0])])
        for scores in (p, np.column_stack((1.0 - p, p))):
            for fitted in (shift, chain):
                got = run(to_onnx(fitted, n_columns=scores.ndim), scores)
                np.testing.assert_allclose(got, fitted.predict_proba(scores), rtol=1e-14)


def test_steps_are_exact_to_the_last_bit() -> None:
    """A score on an edge, and its two neighbours: what sklearn-onnx has been asked for (issue 1151)."""
    edges = np.sort(np.random.default_rng(0).random(999))
    scores = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, 1.0)])
    calibrator = steps(edges, np.linspace(0.0, 1.0, 1_000))
    assert np.array_equal(run(to_onnx(calibrator), scores), calibrator.predict_proba(scores))
    for n in (0, 1, 2, 3, 4, 7, 8, 9):
        few = steps(edges[:n], np.linspace(0.0, 1.0, n + 1))
        assert np.array_equal(run(to_onnx(few), scores), few.predict_proba(scores))


def test_fitted_isotonic_with_ties_is_exact() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3_000).round(2)
    calibrator = cb.IsotonicCalibrator().fit(p, rng.random(3_000) < p**2)
    scores = np.concatenate([p, rng.random(10_000)])
    assert np.array_equal(run(to_onnx(calibrator), scores), calibrator.predict_proba(scores))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_predict_proba_refuses_is_nan(dtype: Any) -> None:
    scores = np.array([0.25, -1e-30, 1.0000002, np.nan, np.inf, -np.inf], dtype=dtype)
    got = run(to_onnx(steps([0.5], [0.25, 0.75]), dtype=dtype), scores)
    assert got[0] == 0.25
    assert np.isnan(got[1:]).all()
    rows = np.array([[0.2, 0.3, 0.5, 0.0], [0.2, 0.2, 0.2, 0.2], [np.nan, 0.5, 0.5, 0.0], [1.5, -0.5, 0.0, 0.0]], dtype)
    got = run(to_onnx(fitted_calibrator("probability", CASES["softmax of probabilities"][1]), dtype=dtype), rows)
    assert np.isfinite(got[0]).all()
    assert np.isnan(got[1:]).all()
    logits = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, np.inf]], dtype)
    got = run(to_onnx(fitted_calibrator("logit", CASES["softmax of logits"][1]), dtype=dtype), logits)
    assert np.isnan(got[1]).all()
    assert np.isfinite(got[0]).all()


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("step of a probability", 0.0),
        ("interpolated of a probability", 0.0),
        ("top_label, per class of probabilities", 1e-15),
        ("one_vs_rest, likelihood of probabilities", 1e-15),
    ],
)
def test_row_alone_gives_the_same_as_in_a_batch(name: str, tolerance: float) -> None:
    """To the last bit where the runtime's exp and log, which round otherwise for few numbers, have no part in it."""
    kind, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(kind, fitted), scores_of(kind, fitted)[:40]
    model = to_onnx(calibrator)
    alone = np.concatenate([run(model, scores[i : i + 1]) for i in range(8)])
    assert np.abs(alone - run(model, scores)[:8]).max() <= tolerance
    assert run(model, scores[:0]).shape == (0, *scores.shape[1:])


def test_two_columns_of_two_classes() -> None:
    p: FloatArray = np.random.default_rng(2).random(50)
    both = np.column_stack((1.0 - p, p))
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    assert np.abs(run(to_onnx(calibrator, n_columns=2), both) - calibrator.predict_proba(both)).max() <= TOLERANCE


def test_other_kinds_of_calibrators() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    facade = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=2, min_samples=50))
    facade.fit(y, p)
    assert np.abs(run(to_onnx(facade), p) - facade.calibrate(p)).max() <= TOLERANCE
    for calibrator in (
        cb.prior.PriorShift([1.0, 2.0, 0.5]),
        cb.MultilabelCalibrator("isotonic").fit(p, np.column_stack((y == 0, y == 1, y > 0))),
        cb.AutoCalibrator().fit(p, y),
    ):
        assert np.abs(run(to_onnx(calibrator), p) - np.asarray(calibrator.predict_proba(p))).max() <= TOLERANCE


def test_model_is_written_whole_and_the_same_each_time(tmp_path: Path) -> None:
    calibrator = fitted_calibrator("probability", CASES["blend of a probability"][1])
    model = to_onnx(calibrator, tmp_path / "a.onnx")
    to_onnx(calibrator, str(tmp_path / "b.onnx"))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert onnx.load(tmp_path / "a.onnx") == model
    onnx.checker.check_model(model, full_check=True)
    used = {name for node in model.graph.node for name in node.input}
    assert {each.name for each in model.graph.initializer} <= used
    assert {each.domain for each in model.opset_import} == {""}
    with pytest.raises(OSError, match="can't write"):
        to_onnx(calibrator, tmp_path / "nowhere" / "a.onnx")


def test_arguments_are_refused_by_name() -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    with pytest.raises(UnknownNameError, match="unknown dtype 'float16'"):
        to_onnx(calibrator, dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="a model of n_columns=3 has 3 columns, but this calibrator was fitted for"):
        to_onnx(calibrator, n_columns=3)
    with pytest.raises(InvalidTypeError, match="n_columns='2' is not a whole number"):
        to_onnx(calibrator, n_columns="2")  # type: ignore[arg-type]
    with pytest.raises(NotFittedError, match="this BetaCalibrator is not fitted"):
        to_onnx(cb.BetaCalibrator())
    with pytest.raises(InvalidTypeError, match="can't export 'x' of type str"):
        to_onnx("x")


#: Values that no probability or score of a model is, and some at the ends of float64 and float32.
ODD = [np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e-40, 1.7e308, -1.7e308, 3.4e38, -3.4e38, 1e300]


@pytest.mark.parametrize("kind_of_float", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_no_value_fails_the_batch_and_rows_beside_odd_ones_are_as_alone(name: str, kind_of_float: str) -> None:
    kind, fitted = CASES[name]
    calibrator, usable = fitted_calibrator(kind, fitted), scores_of(kind, fitted)[:50]
    model = to_onnx(calibrator, dtype=kind_of_float)
    with np.errstate(over="ignore", under="ignore"):
        usable, odd = usable.astype(kind_of_float), np.array(ODD).astype(kind_of_float)
    usable = usable[np.isfinite(usable).reshape(len(usable), -1).all(axis=1)]
    if usable.ndim == 2:
        odd = np.vstack([np.full((1, usable.shape[1]), value, dtype=odd.dtype) for value in odd])
        one = np.repeat(usable[:1], len(odd), axis=0)
        one[:, 0] = odd[:, 0]
        odd = np.vstack((odd, one))
    together = run(model, np.concatenate((odd, usable)))
    assert np.abs(together[len(odd) :] - run(model, usable)).max() <= TOLERANCE
    found = together[: len(odd)]
    assert np.all(np.isnan(found) | ((found >= 0.0) & (found <= 1.0)))
    bad = ~np.isfinite(odd.reshape(len(odd), -1)).all(axis=1)
    assert np.isnan(found.reshape(len(odd), -1)[bad]).all()
    assert run(model, usable[:0]).shape == usable[:0].shape
