"""The contract of everything fitted, and chains of several: composition, formulas, documents, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.errors import (
    ColumnOrderError,
    DocumentError,
    InvalidInputError,
    InvalidTypeError,
    NotFittedError,
    ShapeError,
    UnsupportedVersionError,
)
from calibrant.fitted import Fitted
from calibrant.persistence import from_document, to_document, to_onnx, to_sql
from calibrant.prior import PriorShift
from calibrant.storable import fitted_kinds

CLASSES = {2: ["no", "yes"], 3: ["a", "b", "c"]}


def draw(k: int, n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Return overconfident probabilities of two classes, as one column, or of three, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n)
    y = np.array(CLASSES[k])[(p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)]
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    return (sharp[:, 1].copy() if k == 2 else sharp), y


def shift(k: int) -> PriorShift:
    return PriorShift([0.5, 2.0, 1.0][:k], classes=CLASSES[k])


def chain(k: int, name: str = "beta") -> cb.Chain:
    """Return what a pipeline deploys: class weights undone, calibrated, shifted to new base rates."""
    p, y = draw(k)
    undo = PriorShift([1.0, 0.25, 3.0][:k], classes=CLASSES[k])
    return cb.Chain([undo, make_calibrator(name).fit(undo.predict_proba(p), y), shift(k)])


both = pytest.mark.parametrize("k", [2, 3])


# --- chains --------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", ["beta", "isotonic", "temperature", "spline"])
def test_a_chain_is_the_composition_of_its_steps(k: int, name: str) -> None:
    made, new = chain(k, name), draw(k, seed=1)[0]
    wanted = new
    for step in made.steps:
        wanted = step.predict_proba(wanted)
    np.testing.assert_array_equal(made.predict_proba(new), wanted)


def test_a_chain_of_two_classes_takes_both_columns_too() -> None:
    made, new = chain(2), draw(2, seed=1)[0]
    frame = pd.DataFrame({"p_yes": new, "p_no": 1 - new})
    out = made.predict_proba(frame)
    assert out.columns.tolist() == ["p_yes", "p_no"]
    np.testing.assert_allclose(out["p_yes"], made.predict_proba(new), rtol=1e-12)


@both
def test_a_chain_says_what_its_first_step_takes(k: int) -> None:
    made = chain(k)
    assert made.is_fitted
    assert (made.input, made.classes_.tolist(), made.n_rows_) == ("probability", CLASSES[k], 400)
    assert made.takes_one == (k == 2)
    assert made.widths == ((1, 2) if k == 2 else (3,))
    assert made.output_names("p", 1) == (["p"] if k == 2 else ["p_a", "p_b", "p_c"])
    p, y = draw(k)
    logit = make_calibrator("temperature", input="logit").fit(np.log(p) - np.log1p(-p) if k == 2 else np.log(p), y)
    assert cb.Chain([logit, shift(k)]).input == "logit"
    assert cb.Chain([logit, shift(k)]).score_range == (-np.finfo(float).max, np.finfo(float).max)


def test_a_chain_matches_names_to_those_of_its_first_step() -> None:
    p, y = draw(3)
    first = cb.TemperatureCalibrator().fit(pd.DataFrame(p, columns=["s1", "s2", "s3"]), y)
    made = cb.Chain([first, shift(3)])
    assert made.score_names_ == ("s1", "s2", "s3")
    out = made.predict_proba(pd.DataFrame(p[:, [2, 0, 1]], columns=["s3", "s1", "s2"]))
    np.testing.assert_array_equal(out[["s1", "s2", "s3"]], made.predict_proba(p))
    with pytest.raises(ColumnOrderError, match=r"scores has the columns .* but this Chain has"):
        made.predict_proba(pd.DataFrame(p, columns=["x", "y", "z"]))


@both
def test_chains_of_chains_are_chains(k: int) -> None:
    made, new = chain(k), draw(k, seed=1)[0]
    outer = cb.Chain([made, shift(k)])
    np.testing.assert_array_equal(outer.predict_proba(new), shift(k).predict_proba(made.predict_proba(new)))
    assert repr(outer).count("PriorShift") == 3


@both
def test_formula_in_sql_gives_what_apply_gives(k: int) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    made, new = chain(k, "beta"), draw(k, 200, seed=1)[0]
    names = ["score"] if k == 2 else [f"p_{label}" for label in CLASSES[k]]
    new = np.asarray(new).reshape(len(new), -1)
    scores = pd.DataFrame(new, columns=names)  # noqa: F841 - DuckDB reads it by its name
    found = duckdb.sql(to_sql(made, "duckdb", columns=names, table="scores")).df().to_numpy()
    wanted = made.predict_proba(new[:, 0] if k == 2 else new)
    np.testing.assert_allclose(found[:, 0] if k == 2 else found, wanted, rtol=1e-12, atol=1e-15)


@both
def test_formula_in_onnx_gives_what_apply_gives(k: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made, new = chain(k, "spline"), draw(k, 200, seed=1)[0]
    model = to_onnx(made, dtype="float64")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: new})
    np.testing.assert_allclose(found, made.predict_proba(new), rtol=1e-9, atol=1e-12)


@both
@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_a_chain_comes_back_bit_for_bit(tmp_path: Path, k: int, suffix: str) -> None:
    made, new = chain(k, "isotonic"), draw(k, seed=1)[0]
    cb.save(made, tmp_path / f"c{suffix}", metadata={"city": "Bonn"})
    loaded = cb.load(tmp_path / f"c{suffix}")
    assert isinstance(loaded, cb.Chain)
    assert repr(loaded) == repr(made)
    assert to_document(loaded) == {**to_document(made), "metadata": {"city": "Bonn"}}
    np.testing.assert_array_equal(loaded.predict_proba(new), made.predict_proba(new))


def test_a_chain_describes_each_of_its_steps() -> None:
    lines = chain(2).describe()
    assert [line for line in lines if not line.startswith(" ")] == [
        "1. PriorShift:",
        "2. BetaCalibrator:",
        "3. PriorShift:",
    ]
    assert all(line.strip() for line in lines)


P2, Y2 = draw(2)
P3, Y3 = draw(3)
BETA, SIGMOID = cb.BetaCalibrator().fit(P2, Y2), cb.SigmoidCalibrator(input="logit").fit(P2, Y2)
GROUPED = cb.GroupedCalibrator("beta", shrinkage=1).fit(P2, Y2, groups=np.arange(400) % 2)
LABELS = cb.MultilabelCalibrator().fit(pd.DataFrame(P3, columns=CLASSES[3]), (P3 > 0.4).astype(int))
FACADE = cb.ProbabilityCalibrator()
FACADE.fit(Y2, np.column_stack((1 - P2, P2)))
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "one step": ([BETA], InvalidInputError, "steps holds 1 object\\. Pass two or more"),
    "no step": ([], InvalidInputError, "steps holds 0 objects"),
    "none": (None, InvalidTypeError, "steps is a NoneType. Pass a list of two or more fitted calibrators"),
    "not a list": (BETA, InvalidTypeError, "steps is a BetaCalibrator. Pass a list"),
    "no calibrator": ([BETA, "beta"], InvalidTypeError, r"steps\[1\] is a str. Pass fitted calibrators"),
    "not fitted": ([BETA, cb.BetaCalibrator()], NotFittedError, "this BetaCalibrator is not fitted"),
    "groups": ([BETA, GROUPED], InvalidInputError, r"steps\[1\], a GroupedCalibrator, needs groups"),
    "logits": (
        [BETA, SIGMOID],
        InvalidInputError,
        r"steps\[1\] takes input='logit', but the step before it gives prob",
    ),
    "classes": (
        [BETA, PriorShift([1, 2])],
        ColumnOrderError,
        r"steps\[1\] has the classes 0, 1, and steps\[0\] 'no', 'y",
    ),
    "labels": (
        [LABELS, shift(3)],
        InvalidInputError,
        r"steps\[1\] and steps\[0\] differ in whether a row is of one class",
    ),
    "shapes": (
        [cb.SigmoidCalibrator(input="score").fit(P2, Y2), FACADE],
        InvalidInputError,
        "no number of columns goes through all steps",
    ),
}


@pytest.mark.parametrize(("steps", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_steps_that_do_not_go_together_are_refused(steps: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        cb.Chain(steps)


def change(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = to_document(chain(2))
    target: Any = document
    for key in path[:-1]:
        target = target[key]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("steps",), [], "steps: an empty list is too short: it needs at least 2"),
        (("steps", 1, "kind"), "wheel", r"steps\[1\].kind: 'wheel' is none of 'calibrator', 'chain'"),
        (("steps", 1, "kind"), None, r"steps\[1\]: the field 'kind' is missing"),
        (("steps", 1, "method"), "sigmoid", r"steps\[1\].settings"),
        (("steps", 2, "factor"), [1.0, -1.0], r"steps\[2\].factor: .* holds a number that is not above 0"),
        (("steps", 2, "classes"), ["a", "b"], r"steps: .* can't be a chain: steps\[2\] has the classes 'a', 'b'"),
        (("steps", 0, "extra"), 1, r"steps\[0\]: unknown field 'extra'"),
        (("more",), 1, "unknown field 'more'"),
    ],
)
def test_a_changed_document_is_refused_by_field(path: tuple[Any, ...], value: Any, text: str) -> None:
    with pytest.raises(DocumentError, match=text):
        from_document(change(path, value))


def test_a_document_of_the_first_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        from_document(change(("version",), 1))


# --- the contract --------------------------------------------------------------------------------------------


KNOWN = {"calibrator", "chain", "grouped_calibrator", "multilabel_calibrator", "prior_shift", "probability_calibrator"}
FITTED: dict[str, Fitted] = {
    **{name: make_calibrator(name).fit(P3, Y3) for name in CALIBRATORS},
    "binary": BETA,
    "logit": SIGMOID,
    "labels": LABELS,
    "facade": FACADE,
    "shift": shift(3),
    "chain": chain(3),
}


def test_every_kind_of_document_is_read_by_the_class_that_wrote_it() -> None:
    assert set(fitted_kinds()) >= KNOWN >= {fitted.document_kind for fitted in FITTED.values()}
    assert all(type(from_document(to_document(fitted))) is type(fitted) for fitted in FITTED.values())


@pytest.mark.parametrize("fitted", FITTED.values(), ids=FITTED)
def test_what_is_fitted_says_what_it_takes_and_what_it_is(fitted: Fitted) -> None:
    assert fitted.is_fitted
    assert fitted.__sklearn_is_fitted__()
    assert fitted.document_kind in KNOWN
    assert all(isinstance(line, str) and line for line in fitted.describe())
    for n_columns in fitted.widths:
        assert len(fitted.output_names("p", n_columns)) == max(n_columns, 1)
    n_columns = fitted.widths[-1]
    assert fitted.read(np.full((4, n_columns), 1.0 / n_columns) if n_columns > 1 else [0.5] * 4).n_rows == 4
    with pytest.raises(ShapeError, match=r"scores has 7 columns, but|probabilities has 7 columns, but"):
        fitted.predict_proba(np.full((4, 7), 1 / 7))
    with pytest.raises(InvalidInputError, match=r"was not fitted by group\. Leave groups out"):
        fitted.predict_proba([0.5], groups=["a"])


@pytest.mark.parametrize("make", [lambda: make_calibrator("beta"), cb.ProbabilityCalibrator, cb.MultilabelCalibrator])
def test_what_is_not_fitted_refuses_to_be_applied(make: Any) -> None:
    assert not make().is_fitted
    with pytest.raises(NotFittedError, match=r"is not fitted\. Call fit\("):
        make().predict_proba([0.5])
