"""MultilabelCalibrator: each label by its own map, rows that sum to anything, and what the gate refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant as cb
from calibrant.calibrators import make_calibrator
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    DocumentError,
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    NotFittedError,
    ShapeError,
    UnknownNameError,
)
from calibrant.maps import IDENTITY, IDENTITY_LOGIT

NAMES = ["cat", "dog", "eel"]


def draw(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.random((n, 3))
    return p, (rng.random((n, 3)) < p ** [0.5, 1.0, 2.0]).astype(np.int64)


def test_each_label_is_what_scikit_learn_fits_to_its_column() -> None:
    from sklearn.isotonic import IsotonicRegression

    p, Y = draw()
    q = cb.MultilabelCalibrator("isotonic").fit(p, Y).predict_proba(p)
    for j in range(3):
        wanted = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p[:, j], Y[:, j]).predict(p[:, j])
        np.testing.assert_allclose(q[:, j], wanted, atol=1e-9)
    assert np.abs(q.sum(axis=1) - 1.0).max() > 1.0


@pytest.mark.parametrize("name", ["sigmoid", "beta", "isotonic", "venn_abers", "spline"])
@pytest.mark.parametrize("kind", ["probability", "logit", "score"])
def test_each_label_has_the_bits_of_its_own_calibrator(name: str, kind: Any) -> None:
    if (name, kind) in {("beta", "logit"), ("beta", "score")}:
        return  # beta takes probabilities only
    p, Y = draw()
    scores = p if kind == "probability" else np.log(p) - np.log1p(-p)
    inner = make_calibrator(name, **({} if name == "beta" else {"input": kind}))
    q = cb.MultilabelCalibrator(inner).fit(scores, Y).predict_proba(scores)
    for j in range(3):
        alone = make_calibrator(inner).fit(scores[:, j], Y[:, j]).predict_proba(scores[:, j])
        np.testing.assert_array_equal(q[:, j], alone)


def test_weight_two_equals_two_rows_and_zero_none() -> None:
    p, Y = draw()
    w = np.random.default_rng(1).integers(0, 3, len(p))
    weighted = cb.MultilabelCalibrator("beta").fit(p, Y, sample_weight=w)
    repeated = cb.MultilabelCalibrator("beta").fit(np.repeat(p, w, axis=0), np.repeat(Y, w, axis=0))
    np.testing.assert_allclose(weighted.predict_proba(p), repeated.predict_proba(p), atol=1e-9)
    assert weighted.n_rows_ == (w > 0).sum()


def test_one_row_alone_has_the_bits_of_the_row_in_a_batch() -> None:
    p, Y = draw()
    fitted = cb.MultilabelCalibrator("venn_abers").fit(p, Y)
    q = fitted.predict_proba(p)
    for i in (0, 199, 399):
        np.testing.assert_array_equal(fitted.predict_proba(p[i : i + 1])[0], q[i])


@pytest.mark.parametrize("kind", [bool, np.float32, np.int8, object])
def test_labels_of_any_dtype_give_the_same(kind: Any) -> None:
    p, Y = draw()
    wanted = cb.MultilabelCalibrator().fit(p, Y).predict_proba(p)
    np.testing.assert_array_equal(cb.MultilabelCalibrator().fit(p, Y.astype(kind)).predict_proba(p), wanted)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_come_out_as_frames_and_name_the_labels(frame: Any) -> None:
    p, Y = draw()
    scores = frame({f"p_{name}": p[:, j] for j, name in enumerate(NAMES)})
    labels = frame({name: Y[:, j] for j, name in enumerate(NAMES)})
    fitted = cb.MultilabelCalibrator().fit(scores, labels)
    assert fitted.label_names_ == tuple(NAMES)
    assert fitted.score_names_ == ("p_cat", "p_dog", "p_eel")
    assert fitted.classes_.tolist() == NAMES
    out = fitted.predict_proba(scores)
    assert type(out) is frame
    assert list(out.columns) == ["p_cat", "p_dog", "p_eel"]
    np.testing.assert_array_equal(out.to_numpy(), fitted.predict_proba(p))


def test_labels_are_named_by_the_scores_or_counted_where_nothing_names_them() -> None:
    p, Y = draw()
    assert cb.MultilabelCalibrator().fit(pd.DataFrame(p, columns=NAMES), Y).label_names_ == tuple(NAMES)
    assert cb.MultilabelCalibrator().fit(p, Y).label_names_ == ("0", "1", "2")
    assert cb.MultilabelCalibrator().fit(p, Y).score_names_ is None


def test_columns_of_the_same_names_are_matched_and_others_stay_in_their_order() -> None:
    p, Y = draw()
    wanted = cb.MultilabelCalibrator().fit(p, Y).predict_proba(p)
    scores, labels = pd.DataFrame(p, columns=NAMES), pd.DataFrame(Y, columns=NAMES)
    fitted = cb.MultilabelCalibrator().fit(scores, labels[["eel", "cat", "dog"]])
    assert fitted.label_names_ == tuple(NAMES)
    np.testing.assert_array_equal(fitted.predict_proba(scores), wanted)
    named = cb.MultilabelCalibrator().fit(scores.add_prefix("p_"), labels)
    np.testing.assert_array_equal(named.predict_proba(scores.add_prefix("p_")), wanted)


@pytest.mark.parametrize("value", [0, 1])
def test_label_of_one_class_keeps_its_scores_and_a_warning_names_it(value: int) -> None:
    p, Y = draw()
    Y[:, 1] = value
    with pytest.warns(DataWarning, match="1 of 3 labels have rows of one class only .* as they are: 'dog'") as said:
        fitted = cb.MultilabelCalibrator("beta").fit(p, pd.DataFrame(Y, columns=NAMES))
    assert said[0].filename == __file__
    assert fitted.maps_[1] is IDENTITY
    np.testing.assert_array_equal(fitted.predict_proba(p)[:, 1], p[:, 1])


def test_logits_of_a_label_of_one_class_become_its_probabilities() -> None:
    p, Y = draw()
    Y[:, 2] = 0
    z = np.log(p) - np.log1p(-p)
    with pytest.warns(DataWarning, match="'2'"):
        fitted = cb.MultilabelCalibrator(cb.IsotonicCalibrator(input="logit")).fit(z, Y)
    assert fitted.maps_[2] is IDENTITY_LOGIT
    np.testing.assert_allclose(fitted.predict_proba(z)[:, 2], p[:, 2], rtol=1e-12)


def test_a_label_whose_only_other_row_has_no_weight_is_of_one_class() -> None:
    p, Y = draw(50)
    Y[:, 0] = 0
    Y[3, 0] = 1
    w = np.ones(50)
    w[3] = 0.0
    with pytest.warns(DataWarning, match="1 of 3 labels have rows of one class only"):
        cb.MultilabelCalibrator().fit(p, Y, sample_weight=w)


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, suffix: str, kind: Any) -> None:
    p, Y = draw()
    Y[:, 1] = 1
    scores = p if kind == "probability" else np.log(p) - np.log1p(-p)
    inner = cb.IsotonicCalibrator(bounded=True, input=kind)
    with pytest.warns(DataWarning, match="one class only"):
        fitted = cb.MultilabelCalibrator(inner).fit(pd.DataFrame(scores, columns=NAMES), Y)
    cb.save(fitted, tmp_path / f"c{suffix}", metadata={"score": NAMES})
    loaded = cb.load(tmp_path / f"c{suffix}")
    assert repr(loaded) == repr(fitted)
    assert (loaded.label_names_, loaded.score_names_, loaded.n_rows_) == (tuple(NAMES), tuple(NAMES), 400)
    assert loaded.metadata_ == {"score": NAMES}
    np.testing.assert_array_equal(loaded.predict_proba(scores), fitted.predict_proba(scores))
    cb.save(loaded, tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"c{suffix}").read_bytes()


def test_parameters_changed_after_the_fit_are_refused(tmp_path: Path) -> None:
    fitted = cb.MultilabelCalibrator("beta").fit(*draw()).set_params(calibrator="histogram")
    with pytest.raises(DocumentError, match=r"maps\[0\].kind: 'beta' is a kind of map that HistogramCalibrator\(\)"):
        cb.save(fitted, tmp_path / "c.json")


P, Y3 = draw(60)
BAD = np.where(np.arange(180).reshape(60, 3) == 16, 0.0, 1.0)  # row 5, column 1


def at(value: Any) -> np.ndarray:
    return np.where(BAD == 0.0, value, P)


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], type[CalibrantError], str]] = {
    "NaN": (at(np.nan), Y3, {}, InvalidScoreError, r"scores row 5, column 1: nan is not finite \(1 of 60 rows\)"),
    "above one": (at(1.5), Y3, {}, InvalidProbabilityError, r"scores row 5, column 1: 1.5 is outside \[0, 1\]"),
    "one column": (P[:, 0], Y3, {}, ShapeError, r"scores has one column, shape \(60,\). Pass one column per label"),
    "single column": (P[:, :1], Y3, {}, ShapeError, r"scores has shape \(60, 1\)"),
    "three dimensions": (P[None], Y3, {}, ShapeError, "scores has 3 dimensions"),
    "empty": (P[:0], Y3[:0], {}, ShapeError, "scores is empty"),
    "text": (np.full((60, 3), "a"), Y3, {}, InvalidTypeError, "scores holds text such as 'a'"),
    "one row short": (P[1:], Y3, {}, ShapeError, "scores has 59 rows and Y has 60"),
    "one column short": (P, Y3[:, :2], {}, ShapeError, "scores has 3 columns and Y has 2. Pass one of each per label"),
    "labels of one column": (P, Y3[:, 0], {}, ShapeError, r"Y has one column, shape \(60,\)"),
    "label NaN": (P, np.where(BAD == 0, np.nan, Y3), {}, InvalidLabelError, "Y row 5, column 1: nan is not finite"),
    "label two": (
        P,
        np.where(BAD == 0, 2, Y3),
        {},
        InvalidLabelError,
        r"Y row 5, column 1: 2.0 is neither 0 nor 1 \(1 of 60 rows\). Pass 1 where a row has the label, else 0",
    ),
    "label in a frame": (
        P,
        pd.DataFrame(np.where(BAD == 0, -1, Y3), columns=NAMES),
        {},
        InvalidLabelError,
        "Y row 5, column 'dog': -1.0 is neither 0 nor 1",
    ),
    "swapped": (Y3, P, {}, InvalidLabelError, "Y row 0, column 0: 0.* is neither 0 nor 1"),
    "label text": (P, np.full((60, 3), "yes"), {}, InvalidTypeError, "Y holds text such as 'yes'"),
    "label missing": (P, np.where(BAD == 0, None, Y3), {}, InvalidLabelError, "Y row 5: missing value"),
    "all of one class": (P, np.ones((60, 3)), {}, InvalidLabelError, "Y holds one class only in each of its 3 columns"),
    "weight negative": (P, Y3, {"sample_weight": BAD[:, 1] - 0.5}, InvalidWeightError, "sample_weight row 5: -0.5 is"),
    "weight short": (P, Y3, {"sample_weight": np.ones(59)}, ShapeError, "sample_weight has 59"),
}


@pytest.mark.parametrize(("scores", "labels", "more", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_used_is_refused_by_place(
    scores: Any, labels: Any, more: dict[str, Any], kind: type[CalibrantError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        cb.MultilabelCalibrator().fit(scores, labels, **more)


def test_raw_scores_of_a_label_of_one_class_are_refused() -> None:
    p, Y = draw()
    Y[:, 1] = 0
    with pytest.raises(InvalidInputError, match="Y column '1' holds one class only, so nothing says what its raw scor"):
        cb.MultilabelCalibrator(cb.SigmoidCalibrator(input="score")).fit(p, Y)


def test_new_rows_are_checked() -> None:
    with pytest.raises(NotFittedError, match=r"this MultilabelCalibrator is not fitted. Call fit\(scores, Y\) first"):
        cb.MultilabelCalibrator().predict_proba(P)
    fitted = cb.MultilabelCalibrator().fit(P, Y3)
    with pytest.raises(ShapeError, match=r"scores has 2 columns, but .* for the 3 labels '0', '1', '2'\."):
        fitted.predict_proba(P[:, :2])
    with pytest.raises(InvalidProbabilityError, match=r"scores row 5, column 1: -1.0 is outside"):
        fitted.predict_proba(at(-1.0))


def test_calibrators_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'sigmoid'"):
        cb.MultilabelCalibrator("sigmoit").fit(P, Y3)
    with pytest.raises(InvalidTypeError, match="'temperature' calibrates all columns at once"):
        cb.MultilabelCalibrator("temperature").fit(P, Y3)
    with pytest.raises(UnknownNameError, match="unknown parameter of MultilabelCalibrator"):
        cb.MultilabelCalibrator().set_params(calibrater="beta")


def test_scikit_learn_can_clone() -> None:
    from sklearn.base import clone

    assert repr(clone(cb.MultilabelCalibrator(cb.BetaCalibrator()))) == "MultilabelCalibrator(BetaCalibrator())"
