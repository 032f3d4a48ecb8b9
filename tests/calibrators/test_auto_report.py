"""The report of automatic calibration: what was tried, what was chosen and why, and that documents keep it."""

from __future__ import annotations

import numpy as np
import pytest
from auto_draws import draw
from click.testing import CliRunner

import calibrant as cb
from calibrant.cli import main
from calibrant.errors import DocumentError
from calibrant.persistence import from_document, to_document

#: What is tried on few rows of probabilities.
CANDIDATES = ("none", "temperature", "ensemble_temperature", "quadratic", "spline", "venn_abers")


def test_the_report_says_what_was_tried_and_why_it_won():
    report = cb.AutoCalibrator().fit(*draw()).report_
    assert {c.name for c in report.candidates} == set(CANDIDATES)
    assert [c.log_loss for c in report.candidates] == sorted(c.log_loss for c in report.candidates)
    assert sum(c.weight for c in report.candidates) == pytest.approx(1.0)
    assert (report.n_rows, report.n_folds) == (1500, 5)
    assert report.reason.startswith("Changed: log loss falls (-")
    assert "spline" in str(report)
    none = next(c for c in report.candidates if c.name == "none")
    assert none.difference == 0.0
    assert report.blend.difference == pytest.approx(report.blend.log_loss - none.log_loss)
    alone = cb.AutoCalibrator().fit(*draw(power=1.0)).report_
    assert alone.reason.startswith("Left alone: ")


def test_reason_says_of_which_rows_it_is_and_shows_small_figures() -> None:
    rng = np.random.default_rng(0)
    p = np.exp(rng.normal(-8.0, 1.0, 30_000))
    report = cb.AutoCalibrator().fit(p, rng.random(30_000) < p).report_
    assert "0.0000 " not in report.reason.replace(",", " ")
    assert "sample" not in report.reason
    many = cb.AutoCalibrator().fit(p**0.2, rng.random(30_000) < p**0.2).report_
    assert many.n_rows == 20_000
    assert many.reason.endswith(" Decided on a sample of 20,000 rows.")
    z = rng.normal(size=(30_000, 3))
    assert "a sample of 20,000 rows" in cb.AutoCalibrator(input="logit").fit(z, z.argmax(axis=1)).report_.reason


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_report_is_kept_and_shown(tmp_path, input, suffix):
    p, y = draw(300)
    s = p if input == "probability" else np.log(p) - np.log1p(-p)
    fitted = cb.AutoCalibrator(input=input).fit(s, y)
    cb.save(fitted, tmp_path / f"c{suffix}")
    again = cb.load(tmp_path / f"c{suffix}")
    assert repr(again.report_) == repr(fitted.report_)  # by repr, in which NaN is NaN
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / f"c{suffix}")]).output
    assert fitted.report_.reason in shown
    assert all(candidate.name in shown for candidate in fitted.report_.candidates)
    older = to_document(fitted)
    del older["report"]
    assert not hasattr(from_document(older), "report_")
    assert (from_document(older).predict_proba(s) == fitted.predict_proba(s)).all()


def test_report_of_several_classes_is_kept():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    fitted = cb.AutoCalibrator().fit(P, [int(np.random.default_rng(i).choice(3, p=row)) for i, row in enumerate(P)])
    assert from_document(to_document(fitted)).report_ == fitted.report_


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("chosen", "all"),
        ("chosen", None),
        ("reason", 3),
        ("n_rows", -1),
        ("n_folds", 2.5),
        ("candidates", {}),
        ("candidates", [3]),
        ("blend", []),
        ("blend", {"name": "blend"}),
        ("further", 1),
        ("blend.weight", 1.5),
        ("blend.weight", float("nan")),
        ("blend.log_loss", "0.5"),
        ("blend.log_loss", None),
        ("blend.difference", float("inf")),
        ("blend.name", 3),
    ],
)
def test_hostile_reports_are_refused(path, value):
    document = to_document(cb.AutoCalibrator().fit(*draw(100)))
    *above, last = path.split(".")
    holder = document["report"][above[0]] if above else document["report"]
    holder[last] = value
    with pytest.raises(DocumentError, match=r"^report"):
        from_document(document)


def test_report_of_what_chooses_nothing_is_refused():
    document = to_document(cb.AutoCalibrator().fit(*draw(100)))
    other = to_document(cb.SigmoidCalibrator().fit(*draw(100)))
    with pytest.raises(DocumentError, match=r"report.*does not go with SigmoidCalibrator"):
        from_document(other | {"report": document["report"]})
