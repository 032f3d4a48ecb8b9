"""The experiment of threshold calibration: its split, its figures against brute force, its intervals, its refusals."""

from __future__ import annotations

import json
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from calibrant.displays import DecisionExperimentDisplay
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, UnknownNameError
from calibrant.forecasts import (
    RECALIBRATORS,
    AverageRecalibrator,
    GaussianForecast,
    VarianceScalingRecalibrator,
    crps,
    decision_experiment,
    persistence,
    reliability_gaps,
)

mpl.use("Agg")
GRID: dict[str, Any] = {"y0": [-1.0, 0.0, 1.0], "alpha": [0.2, 0.5, 0.8], "cost": [0.2, 0.5, 0.8]}


def wrong(n: int, seed: int = 0) -> tuple[GaussianForecast, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n)
    return GaussianForecast(mean, 0.5), mean + rng.normal(size=n)


def test_figures_are_those_of_brute_force_on_the_rows_held_out() -> None:
    forecast, y = wrong(300)
    held_out = np.arange(300) % 3 == 0
    found = decision_experiment(forecast, y, recalibrators=["average"], held_out=held_out, **GRID)
    made = AverageRecalibrator().fit(forecast[~held_out], y[~held_out])
    rows = {"none": forecast[held_out], "average": made.transform(forecast[held_out])}
    assert (found.n_fitted, found.n_held_out) == (200, 100)
    for name, each in rows.items():
        scores = found.scores[name]
        promised, true = np.zeros((3, 3, 3)), np.zeros((3, 3, 3))
        for k, y0 in enumerate(GRID["y0"]):
            chance, event = each.cdf(y0), y[held_out] <= y0
            for a, alpha in enumerate(GRID["alpha"]):
                yes = chance <= alpha
                for c, cost in enumerate(GRID["cost"]):
                    promised[k, a, c] = 10.0 * np.where(yes, (1.0 - cost) * chance, cost * (1.0 - chance)).mean()
                    true[k, a, c] = 10.0 * np.where(yes, (1.0 - cost) * event, cost * ~event).mean()
        assert scores["gap"].value == pytest.approx(np.abs(promised - true).mean())
        assert scores["max_gap"].value == pytest.approx(np.abs(promised - true).max())
        own = np.arange(3)  # the best level for a cost ratio is the ratio
        assert scores["decision_loss"].value == pytest.approx(true[:, own, own].mean())
        assert scores["promised_loss"].value == pytest.approx(promised[:, own, own].mean())
        assert scores["regret"].value == pytest.approx((true[:, own, own] - true.min(axis=1)).mean())
        assert scores["crps"].value == pytest.approx(crps(each, y[held_out]))
        gaps = reliability_gaps(each, y[held_out], **GRID)
        np.testing.assert_allclose(found.gaps[name].values, gaps.values, atol=1e-12)
        held = 0
        for y0 in GRID["y0"]:
            chance, event = each.cdf(y0), y[held_out] <= y0
            for alpha in GRID["alpha"]:
                for cost in GRID["cost"]:
                    own_gap = (chance - event) * ((chance <= alpha) - cost)
                    least = (chance * (1.0 - chance) * ((chance <= alpha) - cost) ** 2).mean() / 100.0
                    error = np.sqrt(max(own_gap.var(ddof=1) / 100.0, least))
                    held += abs(own_gap.mean()) <= 1.9842169515864174 * error  # Student's t of 99 degrees
        assert scores["within_chance"].value == pytest.approx(held / 27.0)


def test_the_change_is_paired_and_its_interval_tells_better_from_worse() -> None:
    forecast, y = wrong(2_000)
    found = decision_experiment(forecast, y, recalibrators={"mine": AverageRecalibrator(n_knots=20)}, **GRID)
    change = found.scores["mine"]["change"]
    assert change.value == pytest.approx(found.scores["mine"]["gap"].value - found.scores["none"]["gap"].value)
    assert change.high < 0.0
    assert found.best == "mine"
    assert "After recalibration by mine it is" in found.verdict
    assert (found.scores["none"]["change"].value, found.scores["none"]["change"].low) == (0.0, 0.0)


def test_the_interval_of_the_change_covers_its_mean_over_samples_of_as_many_rows() -> None:
    """Of 100 samples of 400 rows held out. Gaps of so many rows are biased: their mean is what is covered."""

    class Fixed(VarianceScalingRecalibrator):
        """Scales by two, whatever the rows: what is measured is the same in every sample."""

        def _fit(self, rows: Any) -> Any:
            mean = rows.forecast.mean()
            sure = GaussianForecast(mean[:2], 1.0)
            return super()._fit(type(rows)(sure, mean[:2] + np.array([-2.0, 2.0]), None))

    def change(n: int, seed: int) -> Any:
        how = {"recalibrators": {"two": Fixed()}, "held_out": np.arange(n + 40) >= 40, **GRID}
        return decision_experiment(*wrong(n + 40, seed), **how).scores["two"]["change"]

    found = [change(400, seed) for seed in range(100)]
    truth = np.mean([each.value for each in found])
    assert 0.88 <= np.mean([each.low <= truth <= each.high for each in found]) < 1.0


@pytest.mark.parametrize("n", [300, 1_500])
def test_of_forecasts_that_are_right_nearly_all_gaps_are_within_chance(n: int) -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mean = rng.normal(size=n + 20)
        result = decision_experiment(
            GaussianForecast(mean, 1.0),
            mean + rng.normal(size=n + 20),
            recalibrators={},
            held_out=np.arange(n + 20) >= 20,
        )
        found.append(result.scores["none"]["within_chance"].value)
        assert result.best == "none"
    assert 0.92 < np.mean(found) < 0.99
    assert result.verdict.endswith("No recalibrator has a smaller gap.")


def test_a_recalibrator_that_refuses_the_forecasts_is_left_out_of_the_default_set_and_named() -> None:
    _, y = wrong(101)
    forecast = persistence(y[:-1])
    found = decision_experiment(forecast, y[1:], **GRID)
    assert list(found.scores) == ["none", *(name for name in RECALIBRATORS if name != "conformal")]
    assert list(found.left_out) == ["conformal"]
    assert 'ConformalRecalibrator("residual")' in found.left_out["conformal"]
    assert "Left out is conformal: standard deviation of the forecast" in " ".join(repr(found).split())
    assert found.to_dict()["left_out"] == found.left_out
    with pytest.raises(InvalidInputError, match="standard deviation of the forecast"):
        decision_experiment(forecast, y[1:], recalibrators=["conformal"], **GRID)


def test_clusters_are_held_out_whole_and_widen_the_bounds() -> None:
    forecast, y = wrong(100)
    rows = np.repeat(np.arange(100), 6)
    alone, together = (
        decision_experiment(forecast[rows], y[rows], recalibrators=["variance"], cluster=cluster, **GRID)
        for cluster in (None, rows)
    )
    assert together.n_held_out % 6 == 0
    widths = [found.scores["none"]["gap"].high - found.scores["none"]["gap"].low for found in (alone, together)]
    assert widths[1] > widths[0]
    assert together.scores["none"]["within_chance"].value >= alone.scores["none"]["within_chance"].value


def test_the_result_is_a_table_a_document_and_a_picture() -> None:
    found = decision_experiment(*wrong(300), recalibrators=["average", "variance"], scale=1.0, **GRID)
    header, lines = found.lines()
    assert header[:4] == ["recalibrator", "gap", "95% bounds", "by chance"]
    assert [line[0] for line in lines] == ["none", "average", "variance"]
    assert all(len(line) == len(header) for line in lines)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["y0"] == GRID["y0"]
    assert [each["name"] for each in document["recalibrators"]] == ["none", "average", "variance"]
    assert np.shape(document["recalibrators"][1]["mean_gap"]) == (3, 3)
    display = DecisionExperimentDisplay(found).plot()
    left, right = display.axes_
    assert [text.get_text() for text in left.get_yticklabels()] == ["none", "average", "variance"]
    shown = {line.get_label(): line.get_xdata() for ax in (left, right) for line in ax.get_lines()}
    np.testing.assert_allclose(shown["gap, 95% bounds"], [scores["gap"].value for scores in found.scores.values()])
    np.testing.assert_allclose(shown["came true"], [s["decision_loss"].value for s in found.scores.values()])
    with pytest.raises(InvalidTypeError, match="Pass what decision_experiment returns"):
        DecisionExperimentDisplay(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"recalibrators": ["treshold"]}, UnknownNameError, "Did you mean 'threshold'"),
        ({"recalibrators": {"a": 3}}, InvalidTypeError, r"recalibrators\['a'\] is a int"),
        ({"recalibrators": {"none": AverageRecalibrator()}}, InvalidInputError, "stands for the forecasts as they are"),
        ({"recalibrators": 3}, InvalidTypeError, "Pass names"),
        ({"held_out": 1.5}, CalibrantError, "held_out=1.5"),
        ({"held_out": 0.05}, InvalidInputError, "5 of 100 rows would be held out: each part needs 20"),
        ({"held_out": np.zeros(100, dtype=bool)}, InvalidInputError, "0 of 100 rows"),
        ({"held_out": np.arange(100)}, InvalidTypeError, "neither a share nor booleans"),
        ({"cost": [-0.1]}, CalibrantError, "cost row 0: -0.1 is outside"),
    ],
)
def test_what_cannot_be_tried_is_refused(settings: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        decision_experiment(*wrong(100), **settings)
