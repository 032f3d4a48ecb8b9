"""What to do with it: the page's figures of decisions are those of calibrant.decisions, and of arithmetic by hand."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from parsed_page import ParsedPage
from report_cases import CASES, HOSTILE, binary, multiclass

import calibrant as cb
from calibrant.decisions import Policy, Problem, decision_curve, evaluate
from calibrant.errors import InvalidInputError, InvalidTypeError

pytestmark = pytest.mark.usefixtures("unrendered")

TWO = Problem.two_actions(false_positive=1.0, false_negative=4.0)
THREE = {"wait": {0: 0.0, 1: 5.0, 2: 9.0}, "treat": {0: 2.0, 1: 1.0, 2: 1.5}, "send home": {0: -1.0, 1: 7.0, 2: 12.0}}


def decided(report: cb.Report) -> dict[str, Any]:
    found: dict[str, Any] = report.summary()["decisions"]
    return found


def section(report: cb.Report) -> str:
    page = ParsedPage(report.html())
    (found,) = [each for each in page.all("section") if each.text.startswith("What to do with it")]
    return re.sub(r'" (.*?) "', r'"\1"', found.text)  # names are elements of their own


@pytest.mark.parametrize("weight", [None, np.arange(800) % 3 + 0.5], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("cluster", [None, np.arange(800) // 4], ids=["independent", "clusters"])
def test_figures_are_those_of_decisions(weight: Any, cluster: Any) -> None:
    y, p = binary(800, sharpness=2.0)
    how: dict[str, Any] = {"sample_weight": weight, "cluster": cluster, "level": 0.9}
    found = decided(cb.Report(y, p, problem=TWO, **how))
    expected = evaluate(y, p, TWO, **how)
    assert found["scores"] == {name: score.to_dict() for name, score in expected.items()}
    assert found["verdict"] == expected.verdict
    for part in found["by_action"]:
        own = expected.by_action[part["action"]]
        assert {name: part[name] for name in own} == {name: score.to_dict() for name, score in own.items()}
    curve = decision_curve(y, p, thresholds=found["curve"]["threshold"], **how)
    assert found["curve"] == curve.to_dict()


def test_losses_are_those_of_arithmetic_by_hand() -> None:
    y, p = binary(3_000, sharpness=2.0)
    found = decided(cb.Report(y, p, problem=TWO))
    says_yes = p > 0.2
    lost = np.where(says_yes, np.where(y, 0.0, 1.0), np.where(y, 4.0, 0.0))
    promised = np.where(says_yes, 1.0 - p, 4.0 * p)
    assert found["threshold"] == pytest.approx(0.2)
    assert found["scores"]["realised"]["value"] == pytest.approx(lost.mean())
    assert found["scores"]["promised"]["value"] == pytest.approx(promised.mean())
    none, everyone = found["one_action"]
    for each, of_all in ((none, np.where(y, 4.0, 0.0)), (everyone, np.where(y, 0.0, 1.0))):
        saved = of_all - lost
        assert each["loss"]["value"] == pytest.approx(of_all.mean())
        assert each["saved"]["value"] == pytest.approx(saved.mean())
        half = 1.96 * saved.std() / 3_000**0.5  # the interval is paired by row, here near the normal one
        assert each["saved"]["low"] == pytest.approx(saved.mean() - half, abs=0.1 * half)
        assert each["saved"]["high"] == pytest.approx(saved.mean() + half, abs=0.1 * half)


def test_section_says_what_is_decided_and_whether_it_beats_one_action_for_all() -> None:
    y, p = binary(3_000)
    text = section(cb.Report(y, p, problem=TWO))
    assert 'The action is "yes" where the probability of True is above 20%, else "no": at 20% both' in text
    assert 'Of one action for all rows "yes" costs least: the decisions save' in text
    noise = np.random.default_rng(9).random(3_000)
    assert "it is better than the decisions, by" in section(cb.Report(y, noise, problem=TWO))
    tied = np.full(3_000, 0.9)
    assert "and is what the decisions come to." in section(cb.Report(y, tied, problem=TWO))
    few = slice(0, 60)
    unsure = section(cb.Report(y[few], np.where(np.arange(60) % 6, 0.9, p[few]), problem=TWO))
    assert "these rows don't show that the decisions save anything beside it" in unsure


def test_given_threshold_capacity_and_losses_of_rows_are_said() -> None:
    y, p = binary(400)
    assert 'is at least 35%, else "no": the threshold was given' in section(
        cb.Report(y, p, problem=Policy(TWO, threshold=0.35))
    )
    losses = {"no": {0: 0.0, 1: 4.0}, "yes": {0: 1.0, 1: 0.0}}
    full = Problem(losses, capacity={"yes": 5})
    days = pd.Series(np.arange(400) % 8, name="day")
    report = cb.Report(y.astype(int), p, problem=full, per=days)
    assert 'At most 5 rows for each day may get "yes": those that gain most by it.' in section(report)
    assert "More rows than it may have." in section(report)
    assert decided(report)["by_action"][1]["share"]["value"] == pytest.approx(5 * 8 / 400)
    fee = np.linspace(0.5, 2.0, 400)
    by_row = cb.Report(y, p, problem=Problem.two_actions(false_positive=fee, false_negative=4.0))
    assert "Each row gets the one of 2 actions that is expected to cost least. Losses differ" in section(by_row)
    assert decided(by_row)["losses"] is None
    named = Problem({"no": {0: 0.0, 1: 4.0}, "yes": {0: "fee", 1: 0.0}})
    by_column = cb.Report(y.astype(int), p, problem=named, costs=pd.DataFrame({"fee": fee}))
    assert decided(by_column)["scores"] == decided(by_row)["scores"]
    assert "column fee" in section(by_column)


def test_several_classes_and_actions() -> None:
    y, p = multiclass(900, 3, sharpness=2.0)
    report = cb.Report(y, p, problem=THREE)
    found = decided(report)
    assert found["scores"] == {name: score.to_dict() for name, score in evaluate(y, p, THREE).items()}
    assert (found["curve"], found["threshold"]) == (None, None)
    assert [each["action"] for each in found["one_action"]] == ["wait", "treat", "send home"]
    text = section(report)
    assert "Each row gets the one of 3 actions that is expected to cost least." in text
    assert "Losses below 0 are gains." in text


def test_losses_of_many_classes_have_a_row_for_each_class_and_of_many_actions_too_are_left_to_json() -> None:
    y, p = multiclass(300, 6)
    table = np.arange(12.0).reshape(2, 6)
    few = cb.Report(y, p, problem=Problem(table, actions=["wait", "treat"]))
    (losses,) = [
        each for each in ParsedPage(few.html()).all("div", class_="scroll") if each.attributes["aria-label"] == "Losses"
    ]
    assert losses.text.startswith("Class Loss of wait Loss of treat 0 0 6 1 1 7 2 2 8")
    many = cb.Report(y, p, problem=Problem(1.0 - np.eye(6)))
    assert "What the 6 actions lose with the 6 classes is in this report as JSON." in section(many)
    assert decided(many)["losses"] == (1.0 - np.eye(6)).tolist()


def test_two_columns_and_another_positive_class_give_the_same_decisions() -> None:
    y, p = binary(500, sharpness=2.0)
    labels = np.where(y, "bad", "good")
    problem = Problem({"refuse": {"good": 1.0, "bad": 0.0}, "accept": {"good": 0.0, "bad": 4.0}})
    one = decided(cb.Report(labels, p, pos_label="bad", problem=problem))
    both = decided(cb.Report(labels, np.column_stack((p, 1.0 - p)), problem=problem))
    for name in ("realised", "promised", "gap"):
        assert one["scores"][name]["value"] == pytest.approx(both["scores"][name]["value"])
    assert one["scores"]["realised"] == evaluate(labels, np.column_stack((p, 1.0 - p)), problem)["realised"].to_dict()


def test_decision_curve_is_drawn_with_the_threshold_and_told_in_words() -> None:
    page = ParsedPage(cb.Report(*binary(800), problem=TWO).html())
    (svg,) = [each for each in page.all("svg") if page.within(each, "title")[0].text == "Decision curve"]
    assert "Of acting on none it is 0." in page.within(svg, "desc")[0].text
    rare = cb.Report(np.arange(5_000) % 100 == 0, np.linspace(0.0, 0.02, 5_000), problem=TWO)
    thresholds = decided(rare)["curve"]["threshold"]
    assert 0.2 < max(thresholds) < 0.25  # rare events: as far as somebody might act


def test_source_gives_the_same_decisions_and_refuses_what_it_cant() -> None:
    y, p = binary(600, sharpness=2.0)
    table = pa.table({"p": p, "y": y})
    assert decided(cb.Report.from_source(table, problem=TWO)) == decided(cb.Report(y, p, problem=TWO))
    with pytest.raises(InvalidInputError, match=r"more than max_distinct=100 of them"):
        cb.Report.from_source(table, problem=TWO, max_distinct=100)
    with pytest.raises(InvalidInputError, match="differ from row to row"):
        cb.Report.from_source(table, problem={"no": {0: 0.0, 1: "fee"}, "yes": {0: 1.0, 1: 0.0}})


def test_json_and_markdown_hold_the_section_and_bytes_are_the_same() -> None:
    first, second = (cb.Report(*binary(400), problem=TWO) for _ in range(2))
    assert json.loads(first.json())["decisions"] == decided(first)
    text = first.markdown()
    assert "## What to do with it" in text
    assert "| For all rows | Loss | 95% interval | Saved | 95% interval |" in text
    assert (first.html(), text, first.json()) == (second.html(), second.markdown(), second.json())


def test_no_section_where_no_problem_is_given() -> None:
    report = CASES["30 rows"]()
    assert decided(report) is None
    assert "What to do with it" not in report.html()


def test_hostile_names_of_actions_stay_text() -> None:
    y, p = multiclass(300, 3)
    problem = Problem(np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0]]), actions=[HOSTILE, "b\ud800\x1b"])
    report = cb.Report(y, p, problem=problem)
    page = ParsedPage(report.html())
    assert not {"img"} & {element.tag for element in page.elements}
    assert len(page.all("script")) == 1
    (report.html() + report.markdown() + report.json()).encode("utf-8")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"problem": 3}, InvalidTypeError, "problem is a int. Pass a Policy, or a Problem"),
        ({"per": np.arange(4)}, InvalidInputError, "costs and per are of a problem"),
        ({"problem": THREE}, Exception, "the losses are of the classes 0, 1, 2"),
        (
            {
                "problem": Problem({"no": {0: 0.0, 1: 1.0}, "yes": {0: 1.0, 1: 0.0}}, capacity={"yes": 1}),
                "per": np.arange(4),
                "sample_weight": [1.0, 0.0, 1.0, 1.0],
            },
            InvalidInputError,
            "sample_weight is 0 in 1 of 4 rows",
        ),
    ],
)
def test_refusals_say_what_is_wrong(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cb.Report([0, 1, 0, 1], [0.1, 0.6, 0.4, 0.8], **options)
