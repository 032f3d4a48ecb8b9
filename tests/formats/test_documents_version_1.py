"""Documents of kinds other than a single calibrator, as version 1 wrote them: read for ever, to the same outputs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from calibrant.forecasts import GaussianForecast
from calibrant.persistence import load, read_document, save

FOLDER = Path(__file__).parent / "version_1_documents"
NAMES = (
    "forecast_conformal",
    "forecast_threshold",
    "forecast_variance_scaling",
    "grouped_calibrator",
    "multilabel_calibrator",
    "prior_shift",
    "rank_preserving_calibrator",
)


def expit(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def test_there_is_a_file_of_each_in_both_formats() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}{suffix}" for name in NAMES for suffix in (".json", ".pkl")
    }


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_grouped_calibrator_gives_the_mean_logit_of_its_maps(suffix: str) -> None:
    """All rows: s - 0.5; north: 2 s with the share 3/4; south: a constant 1/8 with the share 1/4."""
    loaded = load(FOLDER / f"grouped_calibrator{suffix}")
    north, south = loaded.predict_proba([1.0, 1.0], by=["north", "south"]).tolist()
    assert north == pytest.approx(expit(0.25 * 0.5 + 0.75 * 2.0), rel=1e-14)
    assert south == pytest.approx(expit(0.75 * 0.5 - 0.25 * math.log(7.0)), rel=1e-14)
    assert loaded.groups_.tolist() == ["north", "south"]
    assert loaded.shrinkage == "auto"
    assert loaded.shrinkage_ == 100.0
    assert loaded.metadata_ == {"group": "region"}


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_multilabel_calibrator_gives_each_label_its_logistic_curve(suffix: str) -> None:
    """First label: 2 s - 1; second: s / 2 + 1 / 4."""
    loaded = load(FOLDER / f"multilabel_calibrator{suffix}")
    (row,) = loaded.predict_proba([[1.5, -2.0]]).tolist()
    assert row == pytest.approx([expit(2.0), expit(-0.75)], rel=1e-14)
    assert loaded.label_names_ == ("größe", "b")
    assert loaded.score_names_ == ("s_1", "s_2")
    assert loaded.n_rows_ == 64
    assert loaded.input == "score"
    assert loaded.metadata_ == {"note": "two labels"}


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_prior_shift_gives_bayes_rule(suffix: str) -> None:
    loaded = load(FOLDER / f"prior_shift{suffix}")
    assert loaded.predict_proba([0.5]).tolist() == [0.25]
    assert loaded.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_rank_preserving_calibrator_gives_its_straight_lines(suffix: str) -> None:
    """Columns 1/4 + p / 2, 1/8 + p / 2 and 1/8 + p / 2: rows sum to one."""
    loaded = load(FOLDER / f"rank_preserving_calibrator{suffix}")
    (row,) = loaded.transform([[0.5, 0.25, 0.25]]).tolist()
    assert row == [0.5, 0.25, 0.25]
    (row,) = loaded.transform([[0.0, 1.0, 0.0]]).tolist()
    assert row == [0.25, 0.625, 0.125]
    assert loaded.classes_.tolist() == ["a", "b", "ß"]
    assert loaded.margins_.tolist() == [0.5, 0.25, 0.25]
    assert (loaded.maps, loaded.n_rows_, loaded.score_names_) == ("straight", 32, ("p_a", "p_b", "p_ß"))


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_threshold_recalibrator_gives_the_levels_of_its_layers(suffix: str) -> None:
    """Two maps, through (1/2, 1/4) and (1/2, 3/4): the split takes the second where P(Y <= 1) > 1/2.

    The level 1/2 of the first row becomes 3/4, 7/8, the mean of 7/8 and 15/16, 55/64, and half of that and of its
    map's 119/128; that of the second row 1/4, 3/8, the mean of 3/8 and 3/16, 9/64, and half of that and of 27/128.
    """
    loaded = load(FOLDER / f"forecast_threshold{suffix}")
    forecast = loaded.transform(GaussianForecast([0.0, 2.0], 1.0))
    assert forecast.cdf([0.0, 2.0]).tolist() == [229 / 256, 45 / 256]
    assert (loaded.n_rows_, loaded.choice_, loaded.cv_) == (256, "rounds", None)
    (made,) = loaded.rounds_
    assert (made.y0, made.alpha, made.error_before, made.error_after) == (1.0, 0.5, 0.25, 0.125)
    assert (made.n_left, made.n_right) == (100.0, 156.0)
    assert loaded.metadata_ == {"outcome": "größe", "columns": {"mean": "mu", "std": "sigma"}}


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_conformal_recalibrator_gives_straight_lines_between_its_scores(suffix: str) -> None:
    loaded = load(FOLDER / f"forecast_conformal{suffix}")
    assert loaded.transform(GaussianForecast([0.0], 2.0)).cdf([[-2.0, 1.0, 2.0]]).tolist() == [[0.25, 0.625, 0.75]]
    assert (loaded.n_rows_, loaded.conformity) == (3, "normalised")


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_variance_scaling_recalibrator_gives_its_normal_distributions(suffix: str) -> None:
    loaded = load(FOLDER / f"forecast_variance_scaling{suffix}")
    forecast = loaded.transform(GaussianForecast([1.0], 3.0))
    assert (forecast.mean().tolist(), forecast.std().tolist()) == ([2.5], [6.0])
    assert (loaded.scale_, loaded.shift_) == (2.0, 0.5)


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("name", NAMES)
def test_saving_again_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, suffix: str
) -> None:
    file = FOLDER / f"{name}{suffix}"
    stored: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert repr(read_document(file)) == repr(stored)
    monkeypatch.setattr("calibrant.persistence.documents.__version__", stored["calibrant"])
    save(load(file), tmp_path / f"c{suffix}")
    assert (tmp_path / f"c{suffix}").read_bytes() == file.read_bytes()
