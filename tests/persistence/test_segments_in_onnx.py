"""Trees on features in ONNX give what `predict_proba` gives, run in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from segment_documents import COLUMNS, N, features, mean_calibrator, predictions, scores_of, segment_calibrator

import calibrant as cb
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.persistence import to_onnx
from calibrant.segments import FeatureColumn

TOLERANCE = 1e-14


def run(model: Any, scores: Any, table: dict[str, list[Any]]) -> Any:
    """Run a model: texts that are missing are one that is no level, numbers NaN."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {"scores": scores}
    for each in session.get_inputs()[1:]:
        column = table[each.name]
        if each.type == "tensor(string)":
            given[each.name] = np.array(["no level" if v is None else v for v in column], dtype=object)
        else:
            given[each.name] = np.array([np.nan if v is None else v for v in column], dtype=np.float64)
    return session.run(None, given)[0]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_trees_in_onnx_give_what_predict_proba_gives(width: int) -> None:
    calibrator, scores, table = segment_calibrator(max(width, 2)), scores_of(width), features()
    model = to_onnx(calibrator, n_columns=width)
    onnx.checker.check_model(model, full_check=True)
    assert {each.domain: each.version for each in model.opset_import} == {"": 17, "ai.onnx.ml": 5}
    assert [each.name for each in model.graph.input] == ["scores", *calibrator.feature_names]
    got, expected = run(model, scores, table), calibrator.predict_proba(scores, features=table)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.parametrize("seed", range(5))
def test_large_random_forests_and_single_rows(seed: int) -> None:
    calibrator, scores, table = segment_calibrator(2, n_trees=100 + seed, leaves=20), scores_of(1), features()
    model = to_onnx(calibrator)
    expected = calibrator.predict_proba(scores, features=table)
    assert np.abs(run(model, scores, table) - expected).max() <= TOLERANCE
    one = {name: column[7:8] for name, column in table.items()}
    assert np.abs(run(model, scores[7:8], one) - expected[7:8]).max() <= TOLERANCE


def test_chain_and_float32() -> None:
    shift = cb.prior.PriorShift([1.0, 2.0], classes=[0, 1])
    chain = cb.Chain([segment_calibrator(2, n_trees=4), shift, segment_calibrator(2, n_trees=5)])
    scores, table = scores_of(1).astype(np.float32), features()
    expected = chain.predict_proba(scores.astype(np.float64), features=table)
    assert np.abs(run(to_onnx(chain), scores.astype(np.float64), table) - expected).max() <= TOLERANCE
    got = run(to_onnx(chain, dtype="float32"), scores, table)
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() <= 2.0**-24


@pytest.mark.parametrize("n_trees", [30, 0])
def test_corrected_numbers_in_onnx_are_those_of_predict(n_trees: int) -> None:
    calibrator, table = mean_calibrator(n_trees=n_trees), features()
    model = to_onnx(calibrator)
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.output] == ["predictions"]
    assert [each.name for each in model.graph.input] == ["scores", *calibrator.feature_names]
    expected = calibrator.predict(predictions(), features=table)
    np.testing.assert_allclose(run(model, predictions(), table), expected, rtol=1e-13, atol=1e-12)
    odd = np.resize([np.nan, np.inf, -np.inf], N)
    assert np.isnan(run(model, odd, table)).all()


def test_a_feature_has_no_name_of_the_output() -> None:
    calibrator = mean_calibrator()
    calibrator.columns_ = (FeatureColumn("probabilities"), *COLUMNS[1:])
    assert "probabilities" in {each.name for each in to_onnx(calibrator).graph.input}
    calibrator.columns_ = (FeatureColumn("predictions"), *COLUMNS[1:])
    with pytest.raises(InvalidInputError, match="a feature has the name 'predictions', which the model has for its"):
        to_onnx(calibrator)
    with pytest.raises(ShapeError, match="a model of n_columns=2 has 2 columns, but this SegmentMeanCalibrator takes"):
        to_onnx(calibrator, n_columns=2)


def test_infinity_is_missing() -> None:
    calibrator, scores, table = segment_calibrator(2), scores_of(1), features()
    infinite, missing = {**table, "order": [np.inf, -np.inf] * (N // 2)}, {**table, "order": [None] * N}
    found, expected = run(to_onnx(calibrator), scores, infinite), calibrator.predict_proba(scores, features=missing)
    assert np.abs(found - expected).max() <= TOLERANCE


def test_names_of_inputs_are_those_of_columns_and_no_other_tensors() -> None:
    calibrator = segment_calibrator(2)
    calibrator.columns_ = (FeatureColumn("Cast_1"), *COLUMNS[1:])
    table = features()
    table["Cast_1"] = table["age"]
    expected = calibrator.predict_proba(scores_of(1), features=table)
    assert np.abs(run(to_onnx(calibrator), scores_of(1), table) - expected).max() <= TOLERANCE
    for name in ("scores", "probabilities"):
        calibrator.columns_ = (FeatureColumn(name), *COLUMNS[1:])
        with pytest.raises(InvalidInputError, match=f"a feature has the name '{name}', which the model has for its"):
            to_onnx(calibrator)
