"""Maps of any values come back from documents and files, bit for bit."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from round_trips import SUFFIXES, bits, state, through_file

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.document_field import DocumentField
from calibrant.maps import (
    COUPLINGS,
    BetaMap,
    InterpolatedMap,
    LogisticMap,
    Map,
    OneVsRestMap,
    SoftmaxMap,
    StepMap,
    TopLabelMap,
    decode_map,
)
from calibrant.persistence import from_document, to_document

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3]),
)
UNIT = st.one_of(st.floats(0.0, 1.0), st.sampled_from([-0.0, 5e-324, 1.0 - 2.0**-53, 1e-310]))
#: Whose terms have a sum that float64 holds, whatever the score.
BOUNDED = st.one_of(st.floats(-1e300, 1e300), st.sampled_from([-0.0, 5e-324, -5e-324, 0.1, 1 / 3]))
FLOOR = st.floats(0.0, 0.5, exclude_min=True, exclude_max=True)
CLIP = st.floats(2.0**-53, 0.5, exclude_max=True)


@st.composite
def knots(draw: st.DrawFn, minimum: int = 1) -> np.ndarray[Any, Any]:
    return np.array(sorted(draw(st.lists(FINITE, min_size=minimum, max_size=8, unique=True))), dtype=np.float64)


@st.composite
def interpolated(draw: st.DrawFn) -> Map:
    x = draw(knots())
    return InterpolatedMap(x, np.array([draw(UNIT) for _ in x]))


@st.composite
def steps(draw: st.DrawFn) -> Map:
    edges = draw(knots(0))
    return StepMap(edges, np.array([draw(UNIT) for _ in range(edges.size + 1)]))


LOGISTIC = st.builds(LogisticMap, FINITE, FINITE)


BETA = st.builds(BetaMap, BOUNDED, BOUNDED, BOUNDED, CLIP)


@st.composite
def softmaxes(draw: st.DrawFn) -> Map:
    shape = draw(st.sampled_from([(), (3, 3)]))
    weight = np.array([draw(BOUNDED) for _ in range(int(np.prod(shape)))]).reshape(shape)
    return SoftmaxMap(weight, np.array([draw(BOUNDED) for _ in range(3)]), draw(st.none() | FLOOR))


BINARY = st.one_of(interpolated(), steps(), LOGISTIC, BETA)


ONE_VS_REST = st.builds(
    OneVsRestMap, st.lists(BINARY, min_size=2, max_size=4).map(tuple), st.booleans(), st.sampled_from(COUPLINGS)
)


TOP_LABEL = st.one_of(
    st.builds(TopLabelMap, st.integers(3, 9), BINARY.map(lambda m: (m,)), st.booleans()),
    st.builds(TopLabelMap, st.just(3), st.lists(BINARY, min_size=3, max_size=3).map(tuple), st.booleans()),
)


@given(st.one_of(BINARY, softmaxes(), ONE_VS_REST, TOP_LABEL))
def test_any_map_comes_back_bit_for_bit(fitted: Map) -> None:
    document = fitted.encode()
    through_json = json.loads(json.dumps(document, allow_nan=False))
    through_pickle = pickle.loads(pickle.dumps(document))
    assert bits(decode_map(DocumentField(through_json, "map"))) == bits(fitted)
    assert bits(decode_map(DocumentField(through_pickle, "map"))) == bits(fitted)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any_map")


def calibrator_of(fitted: Map) -> Any:
    match fitted:
        case InterpolatedMap(x, y):
            made: Any = cb.IsotonicCalibrator()
            fitted = InterpolatedMap(x, np.sort(y))
        case StepMap():
            made = cb.HistogramCalibrator()
        case BetaMap():
            made = cb.SigmoidCalibrator()
        case _:
            made = cb.SigmoidCalibrator(input="score")
    made.map_, made.classes_, made.n_rows_, made.score_names_ = fitted, np.array([False, True]), 10, None
    return made


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_calibrator_comes_back_from_a_file_bit_for_bit(folder: Path, suffix: str) -> None:
    @given(BINARY)
    def check(fitted: Map) -> None:
        assert state(through_file(calibrator_of(fitted), folder, suffix)) == state(calibrator_of(fitted))

    check()


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.just(0.0) | st.floats(1e-6, 1e6)), min_size=2, max_size=30),
    st.sampled_from(["isotonic", "histogram"]),
)
def test_every_weighted_fit_can_be_saved(found: list[tuple[float, bool, float]], name: str) -> None:
    scores, y, weight = (np.array(column) for column in zip(*found, strict=True))
    if len(set(y[weight > 0.0].tolist())) < 2:
        return
    fitted = CALIBRATORS[name]().fit(scores, y, sample_weight=weight)
    assert state(from_document(to_document(fitted))) == state(fitted)
