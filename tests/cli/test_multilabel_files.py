"""Calibrators of several labels, of couplings and of top labels on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
from click.testing import Result

import calibrant as cb

Run = Callable[..., Result]


def multilabel() -> tuple[cb.MultilabelCalibrator, pd.DataFrame]:
    rng = np.random.default_rng(0)
    p = rng.random((300, 2))
    frame = pd.DataFrame(p, columns=["p_cat", "p_dog"])
    labels = pd.DataFrame(rng.random((300, 2)) < p**2, columns=["cat", "dog"])
    return cb.MultilabelCalibrator("beta").fit(frame, labels), frame


def test_several_labels_are_applied_to_a_file_whose_rows_sum_to_anything(run: Run) -> None:
    fitted, frame = multilabel()
    cb.save(fitted, "m.json")
    frame.to_csv("new.csv", index=False)
    result = run("apply m.json new.csv -o out.csv")
    assert result.output == "Wrote out.csv: 300 rows with p_calibrated_cat, p_calibrated_dog\n"
    out = pc.read_csv("out.csv").to_pandas()
    assert out.columns.tolist() == ["p_cat", "p_dog", "p_calibrated_cat", "p_calibrated_dog"]
    np.testing.assert_array_equal(out.to_numpy()[:, 2:], fitted.predict_proba(frame).to_numpy())


def test_columns_given_in_another_order_are_matched_to_the_labels_by_name(run: Run) -> None:
    fitted, frame = multilabel()
    cb.save(fitted, "m.json")
    frame.to_csv("new.csv", index=False)
    run("apply m.json new.csv -o out.csv --score p_dog,p_cat")
    np.testing.assert_array_equal(
        pc.read_csv("out.csv").to_pandas()["p_calibrated_cat"],
        fitted.predict_proba(frame)["p_cat"].to_numpy(),
    )


def test_several_labels_are_applied_to_logits(run: Run) -> None:
    _, frame = multilabel()
    z = np.log(frame) - np.log1p(-frame)
    fitted = cb.MultilabelCalibrator(cb.SigmoidCalibrator(input="logit")).fit(z, frame > 0.6)
    cb.save(fitted, "m.json")
    z.to_csv("new.csv", index=False)
    run("apply m.json new.csv -o out.csv")
    np.testing.assert_array_equal(
        pc.read_csv("out.csv").to_pandas()["p_calibrated_p_cat"],
        fitted.predict_proba(z)["p_cat"].to_numpy(),
    )


def test_score_of_a_label_outside_the_unit_interval_is_refused_by_place(run: Run) -> None:
    fitted, frame = multilabel()
    cb.save(fitted, "m.json")
    frame.loc[5, "p_dog"] = 1.5
    frame.to_csv("new.csv", index=False)
    result = run("apply m.json new.csv -o out.csv")
    assert result.exit_code == 2
    assert "new.csv line 7, column 'p_dog': 1.5 is outside [0, 1]" in result.output


def test_several_labels_are_described_one_by_one(run: Run) -> None:
    fitted, _ = multilabel()
    cb.save(fitted, "m.json")
    shown = run("inspect m.json").output
    assert "calibrator     MultilabelCalibrator('beta')\nlabels         " in shown
    assert "One map per label:\n  'cat': q = expit(" in shown
    assert re.search(r"score +cat +dog\n", shown)


def test_coupling_is_described(run: Run, several: pa.Table) -> None:
    scores = several.select(["p_cat", "p_dog", "p_eel"])
    cb.save(cb.OneVsRestCalibrator("beta", coupling="likelihood").fit(scores, several["y"]), "c.json")
    shown = run("inspect c.json").output
    assert "One map per class, then each row made the most likely distribution:\n  'cat': q = expit(" in shown
    assert re.search(r"Before rows are made the most likely distribution:\nscore +cat", shown)


def test_top_label_is_described_and_applied(run: Run, several: pa.Table) -> None:
    scores = several.select(["p_cat", "p_dog", "p_eel"])
    fitted = cb.TopLabelCalibrator("beta").fit(scores, several["y"])
    cb.save(fitted, "t.json")
    shown = run("inspect t.json").output
    assert "The largest of each row; the others share the rest:\n  q = expit(" in shown
    assert "The largest of a row:\nscore  becomes\n" in shown
    run("apply t.json several.parquet -o out.parquet")
    got = pd.read_parquet("out.parquet")[[f"p_calibrated_{name}" for name in ("cat", "dog", "eel")]]
    np.testing.assert_array_equal(got.to_numpy(), fitted.predict_proba(scores).to_pandas().to_numpy())
    cb.save(cb.TopLabelCalibrator("beta", per_class=True).fit(scores, several["y"]), "t.json")
    shown = run("inspect t.json").output
    assert "The largest of each row, by the class that it is of; the others share the rest:\n  'cat': q = " in shown
    assert "The largest of a row, by its class:\nscore     cat     dog     eel\n" in shown
