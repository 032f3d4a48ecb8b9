"""Champion against challenger in words and tables: verdicts, several challengers and classes, models of real data."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from model_pairs import KEYS, delong, differences, draw
from scipy import stats
from scipy.special import expit

import calibrant as cb
from calibrant import metrics
from calibrant.errors import CalibrantError


def test_the_verdict_says_which_is_better_and_in_what() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000)
    y = rng.random(3000) < expit(z)
    blurred, sharp = expit(0.7 * (z + 0.7 * rng.normal(size=3000))), expit(3.0 * z)
    found = cb.compare_models(y, {"old": blurred, "new": expit(z)})
    assert found.verdict.startswith("'new' predicts better than 'old': its log loss is lower by 0.0")
    assert "'new' ranks better (AUC higher by 0.0" in found.verdict
    back = cb.compare_models(y, {"new": expit(z), "old": blurred})
    assert back.verdict.startswith("'old' predicts worse than 'new': its log loss is higher by 0.0")
    words = cb.compare_models(y, {"old": blurred, "sharp": sharp}).verdict
    assert "'sharp' ranks better (AUC higher by 0.0" in words
    assert "and is worse calibrated (calibration error higher by 0." in words
    assert words.endswith("A calibrator can mend its calibration and keeps its order.")


def test_no_difference_is_said_so() -> None:
    y, a, _ = draw()
    words = cb.compare_models(y, {"a": a, "b": np.clip(a + 1e-3 * (-1) ** np.arange(600), 0.001, 0.999)}).verdict
    assert words.startswith("'b' and 'a': no difference that these rows show (log loss of the first less that of the")
    assert "Neither order nor calibration alone is shown to differ." in words


def test_an_infinite_loss_is_said_in_words_and_has_no_interval() -> None:
    y, a, b = draw()
    wrong = b.copy()
    wrong[np.flatnonzero(y)[0]] = 0.0
    found = cb.compare_models(y, {"a": a, "wrong": wrong})
    score = found.differences["wrong"]["log_loss_difference"]
    assert (score.value, score.low, score.high) == (math.inf,) * 3
    said = "'wrong' predicts worse than 'a' by log loss, which is infinite: something happened that it had given"
    assert found.verdict.startswith(f"{said} probability 0. Its Brier score is ")
    back = cb.compare_models(y, {"wrong": wrong, "a": a}).verdict
    assert back.startswith("'a' predicts better than 'wrong', whose log loss is infinite: something happened")
    assert str(found).count("infinite: something happened") == 1, "of the score, and not of its difference again"
    other = a.copy()
    other[np.flatnonzero(y)[1]] = 0.0
    both = cb.compare_models(y, {"other": other, "wrong": wrong})
    assert math.isnan(both.differences["wrong"]["log_loss_difference"].value)
    assert "Brier score" in both.verdict
    json.dumps(both.to_dict(), allow_nan=False)


def test_several_challengers_share_the_level() -> None:
    y, a, b = draw()
    c = expit(np.log(b / (1 - b)) * 0.5)
    found = cb.compare_models(y, {"a": a, "b": b, "c": c})
    assert (found.champion, list(found.differences), found.difference_level) == ("a", ["b", "c"], 0.975)
    for name, p in (("b", b), ("c", c)):
        alone = cb.compare_models(y, {"a": a, name: p}, level=0.975).differences[name]
        for key, score in found.differences[name].items():
            assert (score.low, score.high, score.level) == (alone[key].low, alone[key].high, 0.975)
    assert "so that all hold at once with 95%" in " ".join(str(found).split())
    assert found.models["c"]["brier"].level == 0.95
    assert set(found.figures) >= {"a:log_loss", "c:auc_difference"}
    assert "auc_difference" not in found.figures
    assert "auc_difference" in cb.compare_models(y, {"a": a, "b": b}).figures


def test_several_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 2.0, 3.0], 500)
    y = (p.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    q = p**1.7 / (p**1.7).sum(axis=1, keepdims=True)
    found = differences(y, p, q)
    rows = np.arange(500)
    each = np.log(p[rows, y]) - np.log(q[rows, y])
    plain = stats.ttest_1samp(each, 0.0).confidence_interval(0.95)
    assert found["log_loss"].value == pytest.approx(each.mean())
    assert (found["log_loss"].low, found["log_loss"].high) == pytest.approx(tuple(plain), abs=0.005)
    of_brier = ((q - np.eye(3)[y]) ** 2 - (p - np.eye(3)[y]) ** 2).sum(axis=1)
    assert found["brier"].value == pytest.approx(of_brier.mean())
    assert found["auc"].value == pytest.approx(metrics.roc_auc(y, q) - metrics.roc_auc(y, p))


def test_two_columns_say_of_the_auc_what_one_says() -> None:
    y, a, b = draw()
    one, two = differences(y, a, b), differences(y, *(np.column_stack([1 - p, p]) for p in (a, b)))
    assert (two["auc"].low, two["auc"].high) == pytest.approx((one["auc"].low, one["auc"].high), rel=0.01)
    assert (two["log_loss"].low, two["log_loss"].high) == pytest.approx((one["log_loss"].low, one["log_loss"].high))
    assert two["brier"].value == pytest.approx(2.0 * one["brier"].value)


def test_the_table_has_a_row_for_every_score_and_difference_within_80_columns() -> None:
    y, a, b = draw()
    found = cb.compare_models(y, {"champion": a, "challenger of long name": b})
    shown = str(found).splitlines()
    assert max(map(len, shown)) <= 80
    frame = found.to_frame("pandas")
    assert frame.shape[0] == 12
    assert frame["score"].tolist() == list(itertools.chain.from_iterable([key] * 3 for key in KEYS))
    assert frame["figure"].tolist() == ["value", "value", "difference"] * 4
    of = frame.set_index(["score", "figure", "model"]).loc[("brier", "difference", "challenger of long name")]
    assert of["low"] == found.differences["challenger of long name"]["brier_difference"].low


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([[0.1, 0.9], [0.2, 0.8]], "models is a list. Pass a mapping of names to probabilities"),
        ({"a": [0.1, 0.9]}, "models has 1 model. Pass two or more, the champion first"),
        ({"a": [0.1, 0.9], 2: [0.1, 0.8]}, "models has the key 2, which is not text"),
        ({"a": [0.1, 0.9], "b": [[0.9, 0.1], [0.2, 0.8]]}, "'b' has 2 columns of scores and 'a' one score per row"),
        ({"a": [0.1, 0.9], "b": [0.1, 1.9]}, r"models\['b'\] row 1: 1.9"),
        ({"a": [0.1, 0.9], "b": [0.1]}, r"models\['b'\] has 1"),
    ],
)
def test_what_can_not_be_compared_is_refused(models: Any, message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        cb.compare_models([0, 1], models)


# --- real models ---------------------------------------------------------------------------------------------


def scores_folder() -> Path:
    folder = os.environ.get("CALIBRANT_DATA")
    if folder is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/niamey_precip_2016.csv and others")
    return Path(folder) / "scores"


def test_forecasters_of_rain_have_the_published_brier_scores() -> None:
    """Dimitriadis, Gneiting and Jordan (2021), PNAS 118, table 1: .206, .232, .266 and .234 on 92 days in Niamey."""
    rain = pd.read_csv(scores_folder() / "niamey_precip_2016.csv")
    found = cb.compare_models(rain["obs"], {name: rain[name] for name in ("Logistic", "EMOS", "ENS", "EPC")})
    assert [round(scores["brier"].value, 3) for scores in found.models.values()] == [0.206, 0.232, 0.266, 0.234]
    ens = found.differences["ENS"]["brier_difference"]
    reference = stats.ttest_rel((rain["ENS"] - rain["obs"]) ** 2, (rain["Logistic"] - rain["obs"]) ** 2)
    plain = reference.confidence_interval(ens.level)
    assert (ens.low, ens.high) == pytest.approx(tuple(plain), abs=0.1 * (plain.high - plain.low))


def test_boosting_predicts_better_than_naive_bayes_on_adult() -> None:
    scores = pd.read_parquet(scores_folder() / "tabular_models_binary.parquet")
    adult = scores[scores["dataset"] == "adult"]
    models = {name: adult[adult["model"] == name].reset_index(drop=True) for name in ("nb", "hgb")}
    y = models["nb"]["y"].to_numpy()
    assert (models["hgb"]["y"].to_numpy() == y).all()
    a, b = (models[name]["s"].to_numpy() for name in ("nb", "hgb"))
    found = cb.compare_models(y, {"nb": a, "hgb": b})
    assert "'hgb' predicts better" in found.verdict
    assert "'hgb' ranks better" in found.verdict
    score = found.differences["hgb"]["auc_difference"]
    value, error = delong(y[:4000], a[:4000], b[:4000])
    part = differences(y[:4000], a[:4000], b[:4000])["auc"]
    assert (part.value, part.high - part.low) == pytest.approx((value, 2 * stats.norm.ppf(0.975) * error), rel=1e-6)
    assert score.low > 0.0


def test_one_impossible_event_does_not_decide_against_the_brier_score() -> None:
    y, a, _ = draw()
    better = np.clip(0.9 * y + 0.05, 0.0, 1.0)
    better[np.flatnonzero(y)[0]] = 0.0
    found = cb.compare_models(y, {"a": a, "better": better})
    assert (found.better, found.worse, found.contradicted) == ((), (), ("better",))
    assert math.isinf(found.differences["better"]["log_loss_difference"].value)
    assert found.differences["better"]["brier_difference"].high < 0.0
    said = "'better' and 'a': log loss and Brier score contradict each other. The log loss of 'better' is infinite:"
    assert found.verdict.startswith(said)
    back = cb.compare_models(y, {"better": better, "a": a})
    assert (back.better, back.worse, back.contradicted) == ((), (), ("a",))
    assert "The log loss of 'better' is infinite" in back.verdict
    assert "The Brier score of 'a' is higher by " in back.verdict
    assert json.loads(json.dumps(found.to_dict()))["contradicted"] == ["better"]
    pair = cb.ModelComparisonReport(y, {"a": a, "better": better}).markdown()
    assert "**Log loss and Brier score contradict each other**" in pair
    assert "Keep 'a' for now. 'better': one log loss is infinite" in pair
    page = cb.ModelComparisonReport(y, {"a": a, "better": better, "squared": a**2}).markdown()
    assert "No challenger is shown to predict better than 'a'" in page
    assert "Log loss and Brier score contradict each other: 'better'" in page.replace("log loss and", "Log loss and")
    assert "Compare them once probabilities are kept off 0 and 1." in page
