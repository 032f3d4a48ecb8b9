"""Random damage to valid files: they load to a calibrator that can be saved again, or are refused, and nothing else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import check_answers
from hypothesis import given, settings, strategies as st

import calibrant as cb
from calibrant.errors import CalibrantError
from calibrant.numerics import FloatArray, IntArray
from calibrant.persistence import from_document, load, save, to_document


def fits() -> list[Any]:
    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(3), 40)
    y = np.array([rng.choice(3, p=row) for row in p])
    one = p[:, 0]
    return [
        cb.IsotonicCalibrator().fit(one, y == 0),
        cb.HistogramCalibrator(n_bins=3).fit(one, np.where(y == 0, "yes", "no")),
        cb.TemperatureCalibrator().fit(p, y),
        cb.OneVsRestCalibrator(cb.SigmoidCalibrator()).fit(p, y),
        cb.OneVsRestCalibrator("beta", coupling="likelihood").fit(p, y),
        cb.TopLabelCalibrator("beta").fit(p, y),
        cb.MultilabelCalibrator("beta").fit(p, np.eye(3)[y]),
        cb.SplineCalibrator(n_knots=4).fit(one, y == 0),
        cb.QuadraticCalibrator().fit(one, y == 0),
        cb.VennAbersCalibrator().fit(one[:9], y[:9] == 0),
        cb.AutoCalibrator().fit(one, y == 0),
        cb.EnsembleTemperatureCalibrator().fit(p, y),
        cb.MatrixScalingCalibrator(input="logit").fit(np.log(p), y),
        cb.GroupedCalibrator("sigmoid").fit(one, y == 0, groups=np.resize(["a", "b"], 40)),
        cb.prior.PriorShift([1.0, 2.0, 0.5]),
        facade(p, y),
        cb.Chain([cb.BetaCalibrator().fit(one, y == 0), cb.prior.PriorShift([0.5, 1.5], classes=[False, True])]),
    ]


def facade(p: FloatArray, y: IntArray) -> cb.ProbabilityCalibrator:
    calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=2))
    calibrator.fit(y, p)
    return calibrator


FITS = fits()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Change, drop, insert, repeat or swap bytes in some places."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 12)))
        inserted = draw(
            st.one_of(
                st.just(b""),
                st.binary(max_size=4),
                st.just(data[start:stop] * 2),
                st.sampled_from(
                    [b"NaN", b"1e999", b"-", b"[", b"}", b'"', b"null", b"true", b",", b"0", b"\\", b"e", b"."]
                ),
                st.sampled_from(
                    [b"c", b"\x93", b"R", b"b", b"\x94", b"h\x00", b"]", b"(", b"s", b"u", b"G", b"Q", b"\x88"]
                ),
            )
        )
        data = data[:start] + inserted + data[stop:]
    return data


def check(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        loaded = load(path)
    except CalibrantError as error:
        refusal = str(error)
    else:
        check_answers(loaded)
        refusal = f"{path}: "
    assert refusal.startswith(f"{path}: ")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("index", range(len(FITS)))
def test_damaged_bytes_load_to_a_calibrator_or_are_refused(folder: Path, suffix: str, index: int) -> None:
    path = folder / f"c{suffix}"
    save(FITS[index], path)
    valid = path.read_bytes()

    @settings(max_examples=150)
    @given(damage(valid))
    def attack(data: bytes) -> None:
        check(path, data)

    attack()


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_every_cut_is_refused(folder: Path, suffix: str) -> None:
    path = folder / f"cut{suffix}"
    save(FITS[0], path)
    data = path.read_bytes()
    whole = len(data.rstrip(b"\n"))
    for length in range(whole):
        path.write_bytes(data[:length])
        with pytest.raises(CalibrantError):
            load(path)


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["calibrator", "isotonic", "step", "x", "maps", "chain", "prior_shift", "__class__"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_any_field_replaced_by_anything_loads_or_is_refused(data: st.DataObject) -> None:
    document = copy.deepcopy(to_document(FITS[data.draw(st.integers(0, len(FITS) - 1))], metadata={"label": "y"}))
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(PLAIN)
    try:
        loaded = from_document(document)
    except CalibrantError:
        return
    check_answers(loaded)
