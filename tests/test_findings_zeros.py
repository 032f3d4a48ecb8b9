"""Findings on zeros, ties, low scores and rare events: each as the case that showed it."""

from __future__ import annotations

import re
import sqlite3
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

import calibrant as cb
from calibrant.calibrators import make_calibrator
from calibrant.cli import main
from calibrant.cli.run_text import skill_lines
from calibrant.errors import DataWarning
from calibrant.rows import read_rows
from calibrant.training.calibration import calibrate_rows, new_calibrator


def test_the_facade_gives_no_zeros_and_ones_unless_asked_to_and_then_says_so() -> None:
    """Isotonic zeros made the log loss of a run infinite where 4 of 1,831 rows were of the class ruled out."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 1.0, 2.0], 2_000)
    y = (p.cumsum(axis=1) < rng.random((2_000, 1))).sum(axis=1)
    chosen = cb.ProbabilityCalibrator()
    assert chosen.fit(y, p).method == "isotonic"
    new = np.vstack([np.eye(3), p])
    assert 0.0 < chosen.predict_proba(new).min()
    assert chosen.predict_proba(new).max() < 1.0
    asked = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="isotonic"))
    with pytest.warns(DataWarning, match=r"0 or 1 to [\d,]+ of 2,000 rows: .* method='auto' keeps them between"):
        asked.fit(y, p)
    assert asked.predict_proba(new).min() == 0.0


def scores_down_to(least: float, n: int = 4_000, *, n_zeros: int = 40) -> tuple[Any, Any]:
    """Return scores of a naive Bayes model, far too sure of themselves, with zeros among them, and labels."""
    rng = np.random.default_rng(0)
    z = np.maximum(rng.normal(-30.0, 120.0, n), np.log(least))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-z / 60.0))
    p = np.minimum(1.0 / (1.0 + np.exp(-z)), 1.0 - 1e-12)
    p[:n_zeros] = 0.0
    return p, y


@pytest.mark.parametrize("name", ["sigmoid", "temperature", "spline", "beta", "quadratic"])
def test_low_scores_keep_their_order_and_their_area(name: str) -> None:
    """Scores below 1e-12 were tied: the area of crime with naive Bayes fell from .8917 to .8776."""
    p, y = scores_down_to(1e-300)
    assert (p < 1e-12).mean() > 0.4
    fitted = make_calibrator(name).fit(p, y)
    assert roc_auc_score(y, fitted.predict_proba(p)) == roc_auc_score(y, p)
    low = fitted.predict_proba([0.0, p[p > 0.0].min(), 1e-100, 1e-15])
    assert (np.diff(low) > 0.0).all()


def test_leaving_low_scores_alone_keeps_their_order() -> None:
    p = np.concatenate(([1e-300, 1e-200, 1e-100], np.logspace(-20.0, -1e-3, 3_000)))
    y = np.random.default_rng(0).random(p.size) < p
    fitted = cb.AutoCalibrator().fit(p, y)
    assert fitted.report_.chosen == "none"
    q = fitted.predict_proba(p)
    assert (np.diff(q) > 0.0).all()
    np.testing.assert_allclose(q, p, rtol=1e-9)


@pytest.mark.parametrize(
    "make", [cb.SigmoidCalibrator, cb.TemperatureCalibrator, cb.BetaCalibrator, cb.SplineCalibrator]
)
def test_a_zero_vote_is_taken_as_half_a_vote(make: Any) -> None:
    """Votes in steps of .1 of 1,000 rows were clipped at .0005, far outside the smallest vote."""
    rng = np.random.default_rng(0)
    rate = rng.beta(0.5, 1.5, 1_000)
    votes, y = rng.binomial(10, rate) / 10, rng.random(1_000) < rate
    fitted = make().fit(votes, y).map_
    assert fitted.clip == 0.05
    assert make().fit(votes[votes != 0.1], y[votes != 0.1]).map_.clip == 0.05  # by the step, not the smallest score


def means_of_votes(n: int = 2_000) -> tuple[Any, Any, Any]:
    """Return means of ten votes added in any order, the same means rounded, and labels."""
    rng = np.random.default_rng(0)
    rate = rng.random(n)
    votes = 0.07 * (rng.random((n, 10)) < rate[:, None]) + 0.021 * (rng.random((n, 10)) < 0.3)
    means = np.full(n, 0.01)
    for vote in rng.permuted(votes, axis=1).T:
        means = means + vote
    return means, means.round(9), rng.random(n) < rate


@pytest.mark.parametrize("is_weighted", [False, True])
def test_isotonic_regression_of_means_of_votes_is_that_of_scikit_learn(is_weighted: bool) -> None:
    """Scores within a few units in the last place were many scores: 1,581 of 2,000 outputs moved, by up to .18."""
    means, rounded, y = means_of_votes()
    assert np.unique(means).size > 1.5 * np.unique(rounded).size
    w = np.random.default_rng(1).random(means.size) if is_weighted else None
    there = IsotonicRegression(out_of_bounds="clip").fit(means, y, sample_weight=w).predict(means)
    ours = cb.IsotonicCalibrator().fit(means, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict_proba(means), there, atol=1e-13)


@pytest.mark.parametrize(
    "calibrator",
    [
        cb.IsotonicCalibrator(),
        cb.CenteredIsotonicCalibrator(),
        cb.VennAbersCalibrator(),
        cb.HistogramCalibrator(),
        cb.HistogramCalibrator(n_bins=10, strategy="uniform"),
        cb.MimicCalibrator(),
    ],
    ids=repr,
)
def test_scores_within_a_few_units_in_the_last_place_are_one_score(calibrator: Any) -> None:
    """They moved outputs by up to .18 (isotonic), .07 (Venn-Abers), .06 (centred) and .14 (histogram)."""
    means, rounded, y = means_of_votes()
    expected = calibrator.fit(rounded, y).predict_proba(rounded)
    for moved in (means, rounded + 3.0 * np.spacing(rounded), rounded - 3.0 * np.spacing(rounded)):
        np.testing.assert_allclose(calibrator.predict_proba(moved), expected, atol=1e-12)
        np.testing.assert_allclose(calibrator.fit(moved, y).predict_proba(rounded), expected, atol=1e-12)
        calibrator.fit(rounded, y)


def test_measures_that_tie_scores_tie_means_of_votes() -> None:
    """The miscalibration of `decompose` was .0018 where it is .0013."""
    means, rounded, y = means_of_votes()
    nearly, exactly = (cb.metrics.decompose(y, p) for p in (means, rounded))
    assert nearly.miscalibration == pytest.approx(exactly.miscalibration, abs=1e-9)
    curves = [cb.metrics.reliability_curve(y, p, strategy="quantile") for p in (means, rounded)]
    np.testing.assert_allclose(curves[0].y, curves[1].y, atol=1e-9)


def test_streamed_fits_tie_means_of_votes_as_fits_in_memory_do(tmp_path: Any) -> None:
    means, _, y = means_of_votes()
    means = np.concatenate((means, np.nextafter([0.5, 0.25, 0.5, 0.25], 0.0), [0.5, 0.25, 0.5, 0.25]))  # ends of cells
    y = np.concatenate((y, [True, True, False, False] * 2))
    file = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"p": means, "y": y}), file, row_group_size=100)
    expected = cb.IsotonicCalibrator().fit(means, y).map_
    for limit in (1 << 20, 40):
        found = cb.engines.fit(cb.IsotonicCalibrator(), file, score="p", label="y", max_distinct=limit).map_
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.y, expected.y)


def forest_votes(n: int = 1_000) -> tuple[Any, Any]:
    """Return shares of ten votes, with rows of the positive class among those that have none."""
    rng = np.random.default_rng(0)
    rate = rng.beta(0.4, 4.0, n)
    p, y = rng.binomial(10, rate) / 10, rng.random(n) < rate
    assert y[p == 0.0].any()
    return p, y


def written(tmp_path: Any, p: Any, y: Any) -> str:
    file = tmp_path / "rows.csv"
    file.write_text("p,y\n" + "".join(f"{a!r},{int(b)}\n" for a, b in zip(p.tolist(), y, strict=True)))
    return str(file)


def test_infinite_losses_are_said_in_words(tmp_path: Any) -> None:
    """`compare` printed -inf and nan on a forest's scores, and `fit` inf."""
    p, y = forest_votes()
    ends = np.where(p > 0.2, 1.0, 0.0)  # isotonic of these gives no 0: its loss is finite
    for scores in (p, ends):
        file = written(tmp_path, scores, y)
        data = [file, "--score", "p", "--label", "y"]
        for command in (["compare", *data, "--methods", "sigmoid,isotonic"], ["evaluate", *data]):
            output = CliRunner().invoke(main, command).output
            assert "infinite" in output
            assert not re.search(r"\binf\b|\bnan\b", output), output
    compared = CliRunner().invoke(main, ["compare", *data, "--methods", "sigmoid"]).output
    assert re.search(r"'sigmoid', log loss 0\.\d+, where that of 'none' is infinite", compared)
    assert re.search(r"\nnone +infinite ", compared)
    fitted = CliRunner().invoke(main, ["fit", *data, "-o", str(tmp_path / "c.json")]).output
    assert re.search(r"log_loss +infinite ", fitted)


def test_a_chart_of_methods_beside_infinite_losses_is_not_empty() -> None:
    p, y = forest_votes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cb.compare(p, y, methods=["sigmoid", "mimic"])
        display = cb.ComparisonDisplay.from_comparison(found)
    assert found.methods[-1].name == "none"
    assert found.methods[-1].log_loss == np.inf
    drawn = [line.get_xdata()[0] for line in display.ax_.lines]
    assert sorted(drawn) == sorted(method.log_loss for method in found.methods[:-1])
    assert "uncalibrated scores is infinite" in display.ax_.get_xlabel()


def test_figures_of_rare_events_keep_two_digits(tmp_path: Any) -> None:
    """Tables said that 0.0000 was predicted and had happened, and `inspect` went from 0 to .1."""
    rng = np.random.default_rng(0)
    p = 2e-4 * rng.random(200_000)
    y = rng.random(p.size) < p
    output = CliRunner().invoke(main, ["evaluate", written(tmp_path, p, y), "--score", "p", "--label", "y"]).output
    for name in ("brier", "mean_gap", "base_rate", "ece", "uncertainty"):
        (value,) = re.findall(rf"\n{name} +(-?[\d.]+)", output)
        assert len(value.lstrip("-").replace(".", "").lstrip("0")) >= 2, (name, value)
    scores = cb.evaluate(y, p)
    assert "0.0000 " not in str(scores["base_rate"])
    saved = tmp_path / "c.json"
    cb.save(cb.SigmoidCalibrator().fit(p, y), saved)
    shown = CliRunner().invoke(main, ["inspect", str(saved)]).output
    assert re.search(r"\n0\.001 +0\.00[01]\d+\n", shown)


@pytest.mark.parametrize("name", ["isotonic", "centered_isotonic", "mimic"])
def test_plain_fits_say_where_they_give_0_or_1_and_bounded_ones_do_not_give_them(name: str) -> None:
    """Plain isotonic regression made the log loss of a run infinite; mimic ended in exact 1."""
    rng = np.random.default_rng(0)
    p = rng.random(2_000)
    y = rng.random(p.size) < np.clip(1.4 * p - 0.2, 0.0, 1.0)
    message = rf"{name} gives probabilities of 0 or 1 to ([\d,]+) of 2,000 rows: .*bounded"
    with pytest.warns(DataWarning, match=message) as warned:
        plain = make_calibrator(name).fit(p, y).predict_proba(p)
    (n_certain,) = re.findall(message, str(warned[0].message))
    assert int(n_certain.replace(",", "")) == np.isin(plain, (0.0, 1.0)).sum() > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bounded = make_calibrator(name, bounded=True).fit(p, y).predict_proba(np.append(p, [0.0, 1.0]))
    least = 1.0 / 2_002.0
    assert least <= bounded.min() < bounded.max() <= 1.0 - least
    np.testing.assert_allclose(bounded[:-2], plain, rtol=0.0, atol=1.001 * least)


@pytest.mark.parametrize("name", ["specified", "isotonic", "mimic", "centered_isotonic", "one_vs_rest", "temperature"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_run_rules_anything_out(name: str, n_classes: int) -> None:
    """23 of 30 specified runs failed, as isotonic regression gave 0 to what then happened."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(n_classes), 600)
    y = (p.cumsum(axis=1) ** 2 < rng.random((600, 1))).sum(axis=1)
    rows = read_rows(p, y, input="probability")
    fitted = calibrate_rows(new_calibrator(name), rows, when="always").calibrator
    ends = np.vstack((np.eye(n_classes), p))
    q = fitted.predict_proba(ends)
    assert 0.0 < q.min() < q.max() < 1.0


def test_words_about_skill_come_from_the_raw_and_the_calibrated_model_apart() -> None:
    """ "This model has nothing to act on" was said of a raw skill of 8.4%, as the calibrated loss was infinite."""

    def said(raw: float, calibrated: float, *, width: float = 0.02) -> str:
        """Say it of log losses so much larger than that of class frequencies; documents hold no infinity.

        `width` is half that of the interval of the calibrated one.
        """
        found: dict[str, Any] = {"forecasts": {}, "differences": {}}
        for name, gap in (("raw", raw), ("calibrated", calibrated)):
            is_known = np.isfinite(gap)
            loss = {"value": 1.0 + gap if is_known else None, "skill": -gap if is_known else None}
            found["forecasts"][name] = {"log_loss": loss}
            half = 0.02 if name == "raw" else width
            ends = {"low": gap - half, "high": gap + half} if is_known else {"low": None, "high": None}
            change = {"value": gap if is_known else None, "standard_error": 0.01 if is_known else None, **ends}
            found["differences"][f"log_loss_{name}_minus_class_frequencies"] = change
        change = calibrated - raw
        known = {"value": change, "standard_error": 0.01} if np.isfinite(change) else {}
        found["differences"]["log_loss_calibrated_minus_raw"] = {"value": None, "standard_error": None, **known}
        return " ".join(skill_lines(found))

    harm = "the raw model has a skill of 0.0840 in log loss; calibrated, "
    assert harm + "its log loss is infinite" in said(-0.084, np.inf)
    assert harm + "it is lost" in said(-0.084, 0.3)
    wider = said(-0.084, -0.1, width=0.2)  # a gain, and an interval that reaches beyond none
    assert "a skill of 0.0840 in log loss, and calibrated one of 0.1000, which chance alone could give" in wider
    assert "calibration did no harm that shows" in wider
    assert "act on its calibrated probabilities" in said(np.inf, -0.05)
    assert "No demonstrable skill" in said(0.2, 0.1)
    assert "log loss less theirs: [-0.0300, 0.0100]" in said(-0.015, -0.01)
    assert said(-0.05, -0.06) == ""


@pytest.mark.parametrize("name", ["sigmoid", "temperature", "beta", "spline"])
def test_low_scores_keep_their_area_in_streamed_fits_too(name: str, tmp_path: Any) -> None:
    """Scores below 2^-150 were one cell."""
    p, y = scores_down_to(1e-300, 40_000)
    file = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"p": p, "y": y}), file, row_group_size=5_000)
    streamed = make_calibrator(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of cells, which the spline is fitted to
        cb.engines.fit(streamed, file, score="p", label="y", max_distinct=2_000)
    expected = make_calibrator(name).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(streamed.predict_proba(p), expected, atol=1e-3 if name == "spline" else 1e-9)
    assert roc_auc_score(y, streamed.predict_proba(p)) == pytest.approx(roc_auc_score(y, p), abs=1e-5)


def test_low_scores_keep_their_order_in_exported_sql() -> None:
    p, y = scores_down_to(1e-300)
    fitted = cb.SigmoidCalibrator().fit(p, y)
    found = sqlite3.connect(":memory:")
    found.execute("create table t (p real)")
    found.executemany("insert into t values (?)", [(value,) for value in np.sort(p).tolist()])
    q = np.array(found.execute(cb.persistence.to_sql(fitted, columns="p", table="t", dialect="sqlite")).fetchall())[
        :, -1
    ]
    np.testing.assert_allclose(q, fitted.predict_proba(np.sort(p)), rtol=1e-12)
    assert np.unique(q).size == np.unique(fitted.predict_proba(p)).size
