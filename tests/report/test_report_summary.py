"""The summary: plain data that agrees with the metrics, and its JSON and Markdown."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_cases import CASES, HOSTILE, binary, hostile_report, multiclass

import calibrant as cb
from calibrant.errors import InvalidInputError, InvalidProbabilityError, InvalidTypeError, ShapeError
from calibrant.report.scores import MEANINGS

pytestmark = pytest.mark.usefixtures("unrendered")


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def test_summary_is_plain_and_survives_json(report: cb.Report) -> None:
    summary = report.summary()
    assert {type(leaf) for leaf in leaves(summary)} <= {str, int, float, bool, type(None)}
    text = report.json()
    assert json.loads(text) == summary
    assert not re.search(r"\b(NaN|Infinity)\b", re.sub(r'"(\\.|[^"\\])*"', "", text))
    text.encode("utf-8")


def test_summary_is_the_callers_to_change() -> None:
    report = CASES["30 rows"]()
    before = report.json()
    report.summary()["scores"].clear()
    report.summary()["curve"]["bins"].clear()
    assert report.json() == before


def test_scores_are_those_of_evaluate(report: cb.Report) -> None:
    assert list(report.summary()["scores"])[:4] == ["brier", "log_loss", "ece", "ece_debiased"]


@pytest.mark.parametrize("weight", [None, np.arange(500) % 3 + 0.5], ids=["unweighted", "weighted"])
def test_scores_and_bins_equal_the_metrics(weight: Any) -> None:
    y, p = binary(500, sharpness=1.5)
    summary = cb.Report(y, p, sample_weight=weight, n_bins=7, level=0.9, rng=3).summary()
    expected = cb.evaluate(y, p, sample_weight=weight, level=0.9, rng=3)
    assert list(summary["scores"]) == list(expected)
    for name, score in expected.items():
        assert summary["scores"][name] == {**score.to_dict(), "is_infinite": False}
    assert summary["verdict"]["in_short"] == expected.verdict
    curve = cb.reliability_curve(y, p, sample_weight=weight, n_bins=7, level=0.9, band="consistency", rng=3)
    bins = summary["curve"]["bins"]
    assert [row["predicted"] for row in bins] == curve.x.tolist()
    assert [row["observed"] for row in bins] == curve.y.tolist()
    assert [row["low"] for row in bins] == curve.low.tolist()
    assert [row["high"] for row in bins] == curve.high.tolist()
    assert [row["band_low"] for row in bins] == curve.band_low.tolist()
    assert [row["band_high"] for row in bins] == curve.band_high.tolist()
    assert [row["n"] for row in bins] == curve.n.tolist()
    assert [row["gap"] for row in bins] == (curve.x - curve.y).tolist()
    total = 500.0 if weight is None else weight.sum()
    assert sum(summary["curve"]["histogram"]["n"]) == pytest.approx(total)
    assert summary["data"]["total_weight"] == pytest.approx(total)


def test_class_curves_are_one_against_the_rest() -> None:
    y, p = multiclass(600, 3)
    curves = cb.Report(y, p).summary()["class_curves"]
    assert sorted(curve["label"] for curve in curves) == ["0", "1", "2"]
    for curve in curves:
        k = int(curve["label"])
        expected = cb.reliability_curve(y == k, p[:, k], n_bins=10, strategy="uniform")
        assert [row["observed"] for row in curve["bins"]] == expected.y.tolist()
        assert curve["mean_error"] == cb.metrics.ece(y == k, p[:, k], n_bins=10, strategy="quantile")
        assert curve["mean_predicted"] == pytest.approx(p[:, k].mean())
        assert curve["mean_observed"] == pytest.approx((y == k).mean())


@pytest.mark.slow
def test_of_many_classes_the_worst_have_a_panel_and_all_are_in_the_summary() -> None:
    y, p = multiclass(3_000, 15, sharpness=2.0)
    summary = cb.Report(y, p).summary()
    found = cb.metrics.evaluate_classes(y, p)
    assert len(found.off) > 3
    assert [row["label"] for row in summary["classes"]["rows"]] == [str(k) for k in found.classes]
    assert [curve["label"] for curve in summary["class_curves"]] == [str(k) for k in found.classes][:12]
    assert summary["classes"]["n_off"] == len(found.off)
    for row, scores in zip(summary["classes"]["rows"], found.classes.values(), strict=True):
        for name in ("mean_prob", "base_rate", "mean_gap", "brier", "ece_debiased", "slope", "auc", "top_gap"):
            assert row[name] == scores[name].to_dict()
        assert row["words"] == scores.verdict


def test_what_rows_were_instead_of_the_most_probable_class_is_counted() -> None:
    y, p = multiclass(800, 4, sharpness=2.0)
    w = np.random.default_rng(0).gamma(2.0, 0.5, 800)
    top = p.argmax(axis=1)
    for row in cb.Report(y, p, sample_weight=w).summary()["classes"]["rows"]:
        k = int(row["label"])
        kept = top == k
        share = np.array([w[kept & (y == j)].sum() for j in range(4)]) / w[kept].sum()
        share[k] = 0.0
        assert [int(other["label"]) for other in row["instead"]] == np.argsort(-share)[:2].tolist()
        for other in row["instead"]:
            j = int(other["label"])
            assert other["observed"] == pytest.approx(share[j])
            assert other["predicted"] == pytest.approx(np.average(p[kept, j], weights=w[kept]))


def test_a_class_that_is_never_on_top_and_one_that_is_always_right_are_said() -> None:
    p = np.array([[0.6, 0.25, 0.15], [0.2, 0.65, 0.15], [0.55, 0.3, 0.15]] * 40)
    report = cb.Report(np.array([0, 1, 2] * 40), p)
    rows = {row["label"]: row for row in report.summary()["classes"]["rows"]}
    assert (rows["2"]["n_on_top"], rows["2"]["top_gap"]["value"], rows["2"]["instead"]) == (0, None, [])
    assert rows["1"]["instead"] == []
    assert [other["label"] for other in rows["0"]["instead"]] == ["2"]
    assert "Never the most probable class." in report.html()
    assert "Always right." in report.html()
    assert "| 2 | 0 | never |" in report.markdown()


def test_panels_of_the_classes_share_their_axes() -> None:
    curves = CASES["15 classes"]().summary()["class_curves"]
    assert len({curve["upper"] for curve in curves}) == 1
    assert max(max(row["predicted"], row["high"]) for c in curves for row in c["bins"]) <= curves[0]["upper"]


def test_axes_close_up_on_rare_events_and_count_what_lies_above() -> None:
    p = np.append(np.linspace(0.0, 0.02, 5_000), [0.9])
    curve = cb.Report(np.append(np.arange(5_000) % 100 == 0, [False]), p).summary()["curve"]
    assert curve["upper"] == 0.05
    assert curve["n_above"] == 1
    assert sum(curve["histogram"]["n"]) == 5_001


def test_labels_of_any_kind_give_the_same_report() -> None:
    y, p = binary(300, sharpness=2.0)
    expected = cb.Report(y, p).summary()
    for labels, options in (
        (np.where(y, 1, -1), {}),
        (np.where(y, "yes", "no"), {}),
        (pd.Series(np.where(y, "bad", "good")).astype("category"), {"pos_label": "bad"}),
    ):
        summary = cb.Report(labels, pd.Series(p), **options).summary()
        assert summary["scores"] == expected["scores"]
        assert summary["curve"] == expected["curve"]
    assert summary["data"]["positive_class"] == "bad"
    assert [entry["label"] for entry in summary["data"]["classes"]] == ["good", "bad"]


def test_classes_that_the_rows_lack_are_kept() -> None:
    y, p = multiclass(200, 3)
    summary = cb.Report(np.array(["a", "b", "a"])[y], p, classes=["a", "b", "c"]).summary()
    assert [(entry["label"], entry["n"] > 0) for entry in summary["data"]["classes"]] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]


def test_weight_two_equals_two_rows() -> None:
    y, p = binary(200, sharpness=2.0)
    weighted = cb.Report(y, p, sample_weight=np.full(200, 2.0), n_bins=5).summary()["curve"]["bins"]
    repeated = cb.Report(np.repeat(y, 2), np.repeat(p, 2), n_bins=5).summary()["curve"]["bins"]
    for key in ("predicted", "observed", "n"):
        assert [row[key] for row in weighted] == pytest.approx([row[key] for row in repeated])


def test_infinite_scores_are_marked_and_none() -> None:
    score = CASES["infinite loss"]().summary()["scores"]["log_loss"]
    assert (score["value"], score["low"], score["high"], score["is_infinite"]) == (None, None, None, True)


def test_control_characters_and_half_surrogates_become_printable() -> None:
    report = cb.Report(*binary(50), title="a\x00b\ud800c\nd", source="e\x1bf")
    assert report.summary()["title"] == "a\N{REPLACEMENT CHARACTER}b?c d"
    assert report.summary()["data"]["source"] == "e\N{REPLACEMENT CHARACTER}f"
    (report.html() + report.markdown() + report.json()).encode("utf-8")


def test_generator_as_seed_gives_a_report() -> None:
    assert cb.Report(*binary(50), rng=np.random.default_rng(0)).summary()["data"]["n_rows"] == 50


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([0, 1], [0.5, 1.5]), {}, InvalidProbabilityError, r"y_prob row 1: 1.5 is outside \[0, 1\]"),
        (([0, 1], [0.5]), {}, ShapeError, "y_true has 2 rows and y_prob has 1"),
        (([0, 1], [0.5, 0.6]), {"level": 95}, InvalidInputError, r"level=95 is outside \(0, 1\)"),
        (([0, 1], [0.5, 0.6]), {"n_bins": 0}, InvalidInputError, "n_bins=0 is too small"),
        (([0, 1], [0.5, 0.6]), {"n_bins": 2.5}, InvalidTypeError, "n_bins=2.5 is not a whole number"),
        (([0, 1], [0.5, 0.6]), {"rng": "a"}, InvalidTypeError, "rng='a' is"),
        (([0, 1], [0.5, 0.6]), {"score_names": ["a", "b"]}, ShapeError, "score_names has 2 names for 1 columns"),
    ],
)
def test_refusals_say_what_is_wrong(
    arguments: tuple[Any, Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cb.Report(*arguments, **options)


@pytest.mark.parametrize(
    ("data", "scores"),
    [
        (binary(2_000, sharpness=2.0), "SCORE"),
        (binary(20_000, sharpness=2.0), "SCORE"),
        (multiclass(2_000, 3, sharpness=2.0), "SCORES --method auto"),
    ],
)
def test_command_names_a_method_that_exists_and_helps(data: tuple[Any, Any], scores: str) -> None:
    from calibrant.calibrators import make_calibrator

    y, p = data
    assert (
        cb.Report(y, p).summary()["verdict"]["command"]
        == f"calibrant fit FILE --label LABEL --score {scores} -o calibrator.json"
    )
    mended = make_calibrator("auto").fit(p[::2], y[::2]).predict_proba(p[1::2])
    assert cb.metrics.log_loss(y[1::2], mended) < cb.metrics.log_loss(y[1::2], p[1::2])


def test_command_has_the_names_that_are_known(tmp_path: Path) -> None:
    y, p = binary(2_000, sharpness=2.0)
    file = tmp_path / "our scores.csv"
    pd.DataFrame({"default flag": y, "p raw": p}).to_csv(file, index=False)
    found = cb.Report.from_source(file, label="default flag", score="p raw").summary()["verdict"]["command"]
    assert shlex.split(found)[3:7] == ["--label", "default flag", "--score", "p raw"]
    assert shlex.split(found)[2].endswith("our scores.csv")
    named = cb.Report(pd.Series(y, name="y"), p, score_names="it's p").summary()["verdict"]["command"]
    assert shlex.split(named)[2:] == ["FILE", "--label", "y", "--score", "it's p", "-o", "calibrator.json"]


# --- Markdown ------------------------------------------------------------------------------------------------


def test_markdown_holds_the_verdict_and_every_table(report: cb.Report) -> None:
    text, summary = report.markdown(), report.summary()
    lines = text.splitlines()
    assert lines[0].startswith("# ")
    assert f"**{summary['verdict']['headline']}**" in lines
    tables = [list(rows) for rows in table_blocks(lines)]
    shown = MEANINGS.keys() & summary["scores"].keys()
    first = shown & {"brier", "log_loss", "ece_debiased", "mean_gap", "slope", "auc"}
    expected = [len(summary["curve"]["bins"]), len(first), len(shown - first)]
    expected += [len(summary["class_curves"])] * (3 if summary["classes"] else 1) if summary["class_curves"] else []
    expected += [len(summary["groups"]["curves"])] if summary["groups"] else []
    expected += [len(summary["segments"]["rows"])] if summary["segments"] else []
    assert [len(rows) - 2 for rows in tables] == expected
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "all rows have as many cells"
    assert "\n\n\n" not in text
    assert text == report.markdown()
    assert text.endswith("\n")


def test_markdown_of_hostile_names_is_text() -> None:
    text = hostile_report().markdown()
    assert "<script" not in text.replace("\\<", "")
    assert re.search(r"(?<!\\)[<>]", text) is None
    assert HOSTILE[:8] not in text


def test_markdown_shows_the_command_as_code() -> None:
    text = CASES["over-confident"]().markdown()
    assert "```\ncalibrant fit FILE --label LABEL --score SCORE -o calibrator.json\n```" in text


def table_blocks(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("|"):
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]
