"""The page of a matrix that got its margins: it says what the diagnostics say, in one safe file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from parsed_page import without_own_script

import calibrant as cb
from calibrant.errors import ShapeError
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, diagnose, rake, solve

RNG = np.random.default_rng(0)
P = pd.DataFrame(RNG.dirichlet(np.ones(3), 120), columns=["cat", "dog", "<b>eel</b>"])
Y = np.array([["cat", "dog", "eel"][RNG.choice(3, p=row)] for row in P.to_numpy()])
RESULT = solve(P, [60.0, 36.0, 24.0])
REPORT = cb.RankPreservingReport(P, RESULT, y=Y)


def test_summary_is_that_of_the_diagnostics() -> None:
    found, summary = diagnose(P, RESULT, y=Y), REPORT.summary()
    assert summary["headline"] == "The order is kept and the margins are met"
    assert summary["mean_moved"] == found.mean_moved
    assert [c["auc_after"] for c in summary["columns"]] == [c.auc_after for c in found.columns]
    assert [r["row"] for r in summary["worst"]] == [r.row for r in found.worst]
    assert summary["solver"]["gap"] == RESULT.gap
    assert json.loads(REPORT.json()) == summary
    summary["columns"].clear()
    assert REPORT.summary()["columns"]


def test_page_shows_every_column_and_the_same_data_give_the_same_bytes() -> None:
    text = REPORT.html()
    assert text == cb.RankPreservingReport(P, RESULT, y=Y).html()
    assert text.count("<svg") == 3
    assert "&lt;b&gt;eel" in text
    assert "<b>eel" not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", without_own_script(text))
    for heading in ("Each column, after against before", "What is left of the ranking", "Rows that moved most"):
        assert f"<h2>{heading}</h2>" in text
    assert "AUC after" in text
    assert "AUC after" not in cb.RankPreservingReport(P, RESULT).html()


def test_order_that_is_broken_and_spread_that_is_lost_are_said() -> None:
    broken = cb.RankPreservingReport(P, rake(P, [60.0, 36.0, 24.0]).Q).summary()
    assert re.fullmatch(r"The order is broken: up to \d+% of a column's rows", broken["headline"])
    assert (broken["state"], broken["solver"]) == ("miscalibrated", None)
    far = cb.RankPreservingReport(P, solve(P, [110.0, 5.0, 5.0])).summary()
    assert far["state"] == "unclear"
    assert "Little of what told rows apart is left" in far["advice"]
    assert "calibrant.prior.prior_shift" in far["advice"]


FAR = [20.0, 70.0, 30.0]


def test_order_that_may_be_broken_is_shown_with_what_it_was_allowed_and_what_it_took() -> None:
    result = solve(P, FAR, nearly=EpsilonSlack(0.03))
    report = cb.RankPreservingReport(P, result)
    summary, text = report.summary(), report.html()
    assert summary["headline"] == "The order is broken by 0.03 at most, as was allowed, and the margins are met"
    assert summary["state"] == "unclear"
    assert summary["solver"]["rank_residual"] == pytest.approx(0.03)
    assert max(column["worst_fall"] for column in summary["columns"]) == pytest.approx(0.03)
    assert "It may be broken by 0.03 at most." in text
    assert "No matrix with these margins and this slack is nearer by more than" in text
    assert "order 3.0e-02" in text
    assert "Worst fall" in text
    assert json.loads(report.json()) == summary
    strict = cb.RankPreservingReport(P, solve(P, FAR, nearly=EpsilonSlack(0.0)))
    assert strict.summary()["headline"] == "The order is kept and the margins are met"
    assert "No matrix with these margins and this order is nearer by more than" in strict.html()
    assert "Worst fall" not in strict.html()


@pytest.mark.parametrize(("pairs", "words"), [("neighbours", "neighbours"), ("all", "all pairs of rows")])
def test_order_at_a_price_is_shown_with_the_price(pairs: str, words: str) -> None:
    text = cb.RankPreservingReport(P, solve(P, FAR, nearly=LambdaPenalty(0.001, pairs))).html()  # type: ignore[arg-type]
    assert f"It may be broken at a price: the squared distance plus 0.001 times the violations of {words}." in text
    assert "No matrix with these margins costs less by more than" in text


def test_groups_are_counted() -> None:
    by = np.arange(120) % 2
    result = solve(P, {0: [20.0, 20.0, 20.0], 1: [30.0, 20.0, 10.0]}, groups=by)
    page = cb.RankPreservingReport(P, result)
    assert "iterations over 2 groups" in page.html()
    assert page.summary()["headline"] == "The order is kept within each group and the margins are met"
    assert [(each["group"], each["wanted"]) for each in page.summary()["totals"]][3:5] == [("1", 30.0), ("1", 20.0)]


def test_it_is_written_whole(tmp_path: Path) -> None:
    REPORT.write_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == REPORT.html()
    assert repr(REPORT) == "<RankPreservingReport: The order is kept and the margins are met, n = 120 rows>"
    with pytest.raises(ShapeError, match="P has shape"):
        cb.RankPreservingReport(P, P.iloc[:5])
