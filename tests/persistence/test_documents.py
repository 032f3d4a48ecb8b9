"""What is saved is what is loaded, bit for bit, in both formats."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from round_trips import SUFFIXES, state, through_file

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS
from calibrant.errors import DataWarning, DocumentError, InvalidTypeError, NotFittedError
from calibrant.persistence import fingerprint, from_document, load, read_document, save, to_document

LABELS = {
    "bool": np.array([False, True]),
    "minus_one": np.array([-1, 1]),
    "text": np.array(["no", "yes"], dtype=object),
    "uint64": np.array([3, 2**64 - 1], dtype=np.uint64),
}
UNFITTED = {
    "isotonic": cb.IsotonicCalibrator(),
    "isotonic_bounded": cb.IsotonicCalibrator(bounded=True, input="score"),
    "isotonic_logit": cb.IsotonicCalibrator(input="logit"),
    "sigmoid": cb.SigmoidCalibrator(),
    "sigmoid_logit": cb.SigmoidCalibrator(input="logit"),
    "sigmoid_score": cb.SigmoidCalibrator(input="score"),
    "beta": cb.BetaCalibrator(),
    "beta_a": cb.BetaCalibrator(form="a"),
    "histogram": cb.HistogramCalibrator(n_bins=np.int64(7)),
    "histogram_uniform": cb.HistogramCalibrator(n_bins=4, strategy="uniform", input="logit"),
    "histogram_one_bin": cb.HistogramCalibrator(n_bins=1),
    "venn_abers": cb.VennAbersCalibrator(),
    "venn_abers_score": cb.VennAbersCalibrator(input="score"),
    "mimic": cb.MimicCalibrator(),
    "mimic_score": cb.MimicCalibrator(np.int64(2), record_history=True, boundary="unweighted", input="score"),
    "temperature": cb.TemperatureCalibrator(),
    "temperature_logit": cb.TemperatureCalibrator(input="logit"),
    "vector": cb.VectorScalingCalibrator(),
    "vector_logit": cb.VectorScalingCalibrator(penalty=np.float64(3.0), input="logit"),
    "matrix": cb.MatrixScalingCalibrator(),
    "matrix_score": cb.MatrixScalingCalibrator(penalty=2, input="score"),
    "dirichlet": cb.DirichletCalibrator(),
    "dirichlet_penalty": cb.DirichletCalibrator(penalty=0.5),
    "ensemble_temperature": cb.EnsembleTemperatureCalibrator(),
    "ensemble_temperature_logit": cb.EnsembleTemperatureCalibrator(input="logit"),
    "spline": cb.SplineCalibrator(n_knots=np.int64(20)),
    "spline_score": cb.SplineCalibrator(input="score"),
    "quadratic": cb.QuadraticCalibrator(),
    "quadratic_logit": cb.QuadraticCalibrator(input="logit"),
    "auto": cb.AutoCalibrator(),
    "auto_logit": cb.AutoCalibrator(input="logit"),
    "auto_score": cb.AutoCalibrator(input="score", seed=1),
    "centered_isotonic": cb.CenteredIsotonicCalibrator(bounded=True, input="score"),
    "one_vs_rest_default": cb.OneVsRestCalibrator(),
    "one_vs_rest_alias": cb.OneVsRestCalibrator("platt"),
    "one_vs_rest_instance": cb.OneVsRestCalibrator(cb.HistogramCalibrator(n_bins=3, input="logit")),
    "one_vs_rest_likelihood": cb.OneVsRestCalibrator("beta", coupling="likelihood"),
    "top_label": cb.TopLabelCalibrator(),
    "top_label_per_class": cb.TopLabelCalibrator("venn_abers", per_class=True),
    "top_label_logit": cb.TopLabelCalibrator(cb.SplineCalibrator(input="logit")),
    "one_vs_rest_score": cb.OneVsRestCalibrator(cb.SigmoidCalibrator(input="score")),
}


def rows(calibrator: Any, n_classes: int, labels: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(n_classes), 200)
    y = labels[[rng.choice(n_classes, p=row) for row in p]]
    scores = {"probability": p, "logit": np.log(p), "score": 3.0 * p - 1.0}[calibrator.input]
    return (scores[:, 1] if n_classes == 2 else scores), y


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("unfitted", UNFITTED.values(), ids=UNFITTED)
def test_binary_calibrator_comes_back_bit_for_bit(
    tmp_path: Path, unfitted: Any, labels: np.ndarray[Any, Any], suffix: str
) -> None:
    scores, y = rows(unfitted, 2, labels)
    fitted = unfitted.fit(scores, y)
    loaded = through_file(fitted, tmp_path, suffix)
    assert state(loaded) == state(fitted)
    assert loaded.predict_proba(scores).tobytes() == fitted.predict_proba(scores).tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("unfitted", UNFITTED.values(), ids=UNFITTED)
def test_multiclass_calibrator_comes_back_bit_for_bit(tmp_path: Path, unfitted: Any, suffix: str) -> None:
    scores, y = rows(unfitted, 4, np.array(["a", "b", "ß", "語"], dtype=object))
    fitted = unfitted.fit(scores, y)
    loaded = through_file(fitted, tmp_path, suffix)
    assert state(loaded) == state(fitted)
    assert loaded.predict_proba(scores).tobytes() == fitted.predict_proba(scores).tobytes()


def test_every_calibrator_is_among_those_tested() -> None:
    assert {type(c) for c in UNFITTED.values()} == set(CALIBRATORS.values())


@pytest.mark.parametrize("name", BINARY_CALIBRATORS)
def test_calibrator_fitted_to_a_summary_comes_back(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(3)
    p, weight = rng.random(300), rng.exponential(size=300)
    summary = cb.ScoreSummary.from_arrays(p, rng.random(300) < p, sample_weight=weight, input="probability")
    fitted = BINARY_CALIBRATORS[name]().fit_summary(summary)
    assert state(through_file(fitted, tmp_path, ".json")) == state(fitted)


def test_class_without_rows_comes_back_as_the_identity(tmp_path: Path) -> None:
    scores, y = rows(cb.SigmoidCalibrator(), 3, np.arange(3))
    scores = np.column_stack((scores, np.zeros(len(y))))
    with pytest.warns(DataWarning, match="class 3 has no rows"):
        fitted = cb.SigmoidCalibrator().fit(scores, y, classes=[0, 1, 2, 3])
    assert state(through_file(fitted, tmp_path, ".json")) == state(fitted)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_loaded_calibrator_takes_and_gives_frames_and_refits(tmp_path: Path, suffix: str) -> None:
    scores, y = rows(cb.IsotonicCalibrator(), 3, np.arange(3))
    frame = pd.DataFrame(scores, columns=["p_a", "p_b", "p_c"])
    fitted = cb.IsotonicCalibrator(bounded=True).fit(frame, y)
    loaded = through_file(fitted, tmp_path, suffix)
    assert loaded.score_names_ == ("p_a", "p_b", "p_c")
    pd.testing.assert_frame_equal(loaded.predict_proba(frame), fitted.predict_proba(frame))
    assert state(loaded.fit(frame, y)) == state(fitted)


def test_column_names_of_other_kinds_are_kept_as_text(tmp_path: Path) -> None:
    scores, y = rows(cb.IsotonicCalibrator(), 3, np.arange(3))
    fitted = cb.IsotonicCalibrator().fit(pd.DataFrame(scores), y)
    assert through_file(fitted, tmp_path, ".json").score_names_ == ("0", "1", "2")


# --- the document --------------------------------------------------------------------------------------------


@pytest.fixture
def fitted() -> cb.IsotonicCalibrator:
    return cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def test_document_says_what_it_is(fitted: Any) -> None:
    assert to_document(fitted, metadata={"score": ["p"], "label": "y"}) == {
        "format": "calibrant",
        "version": 2,
        "calibrant": cb.__version__,
        "kind": "calibrator",
        "method": "isotonic",
        "settings": {"bounded": False, "input": "probability"},
        "classes": [0, 1],
        "n_rows": 4,
        "score_names": None,
        "map": {"kind": "interpolated", "x": [0.1, 0.4, 0.6, 0.9], "y": [0.0, 0.5, 0.5, 1.0]},
        "metadata": {"score": ["p"], "label": "y"},
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_read_document_gives_the_document_that_was_written(tmp_path: Path, fitted: Any, suffix: str) -> None:
    path = tmp_path / f"calibrator{suffix}"
    save(fitted, path, metadata={"label": "y"})
    assert read_document(path) == to_document(fitted, metadata={"label": "y"})


def test_json_file_is_utf_8_json_that_any_reader_reads(tmp_path: Path) -> None:
    p = np.linspace(0.1, 0.9, 30)
    fitted = cb.IsotonicCalibrator().fit(p, np.where(np.arange(30) % 3 == 0, "größer", "λ"))
    save(fitted, tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text("utf-8")
    assert '["größer", "λ"]' in text
    assert json.loads(text) == to_document(fitted)


def test_pickle_file_holds_the_document_and_nothing_else(tmp_path: Path, fitted: Any) -> None:
    save(fitted, tmp_path / "c.pkl")
    data = (tmp_path / "c.pkl").read_bytes()
    assert data[:2] == b"\x80\x04"
    assert pickle.loads(data) == to_document(fitted)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_same_calibrator_gives_the_same_bytes(tmp_path: Path, fitted: Any, suffix: str) -> None:
    word = "".join(["weig", "ht"])
    save(fitted, tmp_path / f"a{suffix}", metadata={"a": word, "b": word})  # one object twice
    save(fitted, tmp_path / f"b{suffix}", metadata={"a": "".join(["wei", "ght"]), "b": "".join(["we", "ight"])})
    save(load(tmp_path / f"a{suffix}"), tmp_path / f"c{suffix}")
    first = (tmp_path / f"a{suffix}").read_bytes()
    assert (tmp_path / f"b{suffix}").read_bytes() == first
    assert (tmp_path / f"c{suffix}").read_bytes() == first


def test_metadata_comes_back_and_stays_through_another_save(tmp_path: Path, fitted: Any) -> None:
    metadata = {"score": ("p",), "n": np.int64(3), "x": np.float64(0.1), "rows": np.arange(2), "deep": {"ok": [None]}}
    save(fitted, tmp_path / "c.json", metadata=metadata)
    plain = {"score": ["p"], "n": 3, "x": 0.1, "rows": [0, 1], "deep": {"ok": [None]}}
    assert load(tmp_path / "c.json").metadata_ == plain
    save(load(tmp_path / "c.json"), tmp_path / "d.pkl")
    assert load(tmp_path / "d.pkl").metadata_ == plain
    save(load(tmp_path / "d.pkl"), tmp_path / "e.json", metadata={})
    assert load(tmp_path / "e.json").metadata_ == {}


def test_without_metadata_there_is_none_after_loading(tmp_path: Path, fitted: Any) -> None:
    save(fitted, tmp_path / "c.json")
    assert load(tmp_path / "c.json").metadata_ == {} == fitted.metadata_
    assert "metadata" not in read_document(tmp_path / "c.json")


def test_loaded_calibrator_shares_nothing_with_its_document(fitted: Any) -> None:
    document = to_document(fitted, metadata={"a": [1]})
    loaded = from_document(document)
    document["metadata"]["a"].append(2)
    document["map"]["x"][0] = 0.05
    assert loaded.metadata_ == {"a": [1]}
    assert loaded.map_.x[0] == 0.1


# --- what can't be saved -------------------------------------------------------------------------------------


def test_unfitted_calibrator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match=r"this BetaCalibrator is not fitted. Call fit"):
        save(cb.BetaCalibrator(), tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_other_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match=r"can't save 'isotonic' of type str. Pass a fitted calibrator."):
        save("isotonic", tmp_path / "c.json")


def test_foreign_subclass_is_refused(tmp_path: Path) -> None:
    class Mine(cb.IsotonicCalibrator):
        """A user's own."""

    mine = Mine().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    with pytest.raises(InvalidTypeError, match="a Mine can't be saved: documents hold calibrant's own"):
        save(mine, tmp_path / "c.json")


def test_foreign_subclass_of_what_has_a_kind_of_its_own_is_refused(tmp_path: Path) -> None:
    """It came back as its base class."""
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y, g = (rng.random(60) < p).astype(int), np.arange(60) % 2
    two = np.column_stack([p, p])
    fits: dict[Any, Callable[[Any], Any]] = {
        cb.ProbabilityCalibrator: lambda made: made.fit(y, p),
        cb.GroupedCalibrator: lambda made: made.fit(p, y, groups=g),
        cb.SegmentCalibrator: lambda made: made.fit(p, y, features={"g": g}),
        cb.SegmentMeanCalibrator: lambda made: made.fit(p, y, features={"g": g}),
        cb.MultilabelCalibrator: lambda made: made.fit(two, np.column_stack([y, g])),
    }
    for base, fit in fits.items():
        own, mine = base(), type("Mine", (base,), {})()
        for made in (own, mine):
            fit(made)
        save(own, tmp_path / "c.json")
        with pytest.raises(InvalidTypeError, match=f"a Mine can't be saved: .* come back as a {base.__name__}"):
            save(mine, tmp_path / "mine.json")
    assert not (tmp_path / "mine.json").exists()


@pytest.mark.parametrize(
    ("metadata", "kind", "message"),
    [
        ({"when": np.datetime64("2024-01-01")}, InvalidTypeError, r"metadata.when: .* of type date can't be stored"),
        ({"f": print}, InvalidTypeError, "metadata.f: .* of type builtin_function_or_method can't be stored"),
        ({1: "a"}, InvalidTypeError, "metadata: 1 of type int can't be stored.* keys of text"),
        ({"x": float("nan")}, DocumentError, "metadata.x: nan is not a finite number"),
        ({"x": [1.0, float("inf")]}, DocumentError, r"metadata.x\[1\]: inf is not a finite number"),
        ({"x": 2**64}, DocumentError, "metadata.x: .* needs more than 64 bits"),
        ({"x": "\udc80"}, DocumentError, "metadata.x: .* half a surrogate pair"),
        ("text", DocumentError, "metadata: 'text' is not an object"),
    ],
)
def test_metadata_that_could_not_be_read_back_is_refused(
    tmp_path: Path, fitted: Any, metadata: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        save(fitted, tmp_path / "c.json", metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_holds_itself_is_refused(tmp_path: Path, fitted: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(DocumentError, match="nested deeper than 32 levels"):
        save(fitted, tmp_path / "c.json", metadata={"loop": loop})


def test_parameters_changed_after_the_fit_are_refused(tmp_path: Path) -> None:
    fitted = cb.SigmoidCalibrator(input="score").fit([-1.0, 0.5, 1.0, 2.0], [0, 1, 0, 1])
    fitted.set_params(input="probability")
    with pytest.raises(DocumentError, match=r"map.kind: 'logistic' does not go with input 'probability'"):
        save(fitted, tmp_path / "c.json")


def test_map_that_went_wrong_is_refused(tmp_path: Path, fitted: Any) -> None:
    fitted.map_.y[1] = np.nan
    with pytest.raises(DocumentError, match=r"map.y\[1\]: nan is not a finite number"):
        save(fitted, tmp_path / "c.pkl")


def test_nothing_warns(tmp_path: Path, fitted: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        through_file(fitted, tmp_path, ".json")
        through_file(fitted, tmp_path, ".pkl")


def test_fingerprint_is_of_the_object_and_of_nothing_beside_it(fitted: Any) -> None:
    alone = fingerprint(fitted)
    assert fingerprint(from_document(to_document(fitted, metadata={"label": "y"}))) == alone
    assert fingerprint(cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])) == alone
    assert fingerprint(cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1])) != alone
    assert fingerprint(cb.IsotonicCalibrator(bounded=True).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])) != alone
    with pytest.raises(NotFittedError):
        fingerprint(cb.IsotonicCalibrator())
