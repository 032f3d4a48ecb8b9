"""Files of format version 2, as they were written when it was new: they are read for ever, to the same outputs.

`version_2/expected.json` holds scores, and the probabilities that exact arithmetic gives for them, rounded once. The
bodies were written by hand, with numbers for which that is known; `save(from_document(...))` gave both files of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.forecasts import GaussianForecast
from calibrant.maps import MAPS
from calibrant.persistence import load, read_document, save
from calibrant.storable import fitted_kinds

FOLDER = Path(__file__).parent / "version_2"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
STORED: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json") if path.stem != "expected"
}
SUFFIXES = (".json", ".pkl")
#: Sums, products and quotients only, which every processor rounds alike; exp and log differ in the last bits.
EXACT = {
    "interpolated",
    "step",
    "one_vs_rest",
    "centered_isotonic",
    "mimic",
    "two_columns",
    "rank_preserving_calibrator",
    "provenance",
}
#: Recalibrators of forecasts: their levels at `points` of normal forecasts of these means, of width 1 or as named.
FORECASTS: dict[str, tuple[list[float], float, Any, list[Any]]] = {
    "forecast_average": ([0.0, 2.0], 1.0, [0.0, 2.0], [0.75, 0.75]),
    "forecast_conformal": ([0.0], 2.0, [[-2.0, 1.0, 2.0]], [[0.25, 0.625, 0.75]]),
    "forecast_distribution": ([0.0, 2.0], 1.0, [0.0, 2.0], [0.25, 0.75]),
    "forecast_threshold": ([0.0, 2.0], 1.0, [0.0, 2.0], [229 / 256, 45 / 256]),
    "forecast_variance": ([1.0], 3.0, [[2.5]], [[0.5]]),
}
#: Calibrators of means: predictions and features, and what becomes of them: of x, 2 (z + trees), z = (1 + x) / 2.
MEANS: dict[str, tuple[list[float], dict[str, list[Any]], list[float]]] = {
    "segment_mean_calibrator": (
        [1.0, 1.0, 3.0, 3.0],
        {"age": [30.0, 50.0, 50.0, None], "city": ["Bonn", "Rome", "Oslo", "Rome"]},
        [4.0, 3.0, 2.5, 6.5],
    ),
}
NAMES = [*EXPECTED, *FORECASTS, *MEANS]


def parts(value: Any) -> list[dict[str, Any]]:
    """Return all objects in a document, itself among them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] * isinstance(value, dict) + [part for each in inner for part in parts(each)]


def test_there_is_a_file_of_every_kind_method_and_map_in_both_formats() -> None:
    objects = [part for document in STORED.values() for part in parts(document)]
    kinds = {part["kind"] for part in objects if "kind" in part}
    assert kinds == {*fitted_kinds(), *MAPS}
    methods = {part["method"] for part in objects if "settings" in part and "method" in part}
    assert methods == {*CALIBRATORS, *(name.removeprefix("forecast_") for name in FORECASTS)}
    assert set(STORED) == set(NAMES)
    assert {path.name for path in FOLDER.iterdir()} - {"expected.json"} == {
        f"{name}{suffix}" for name in NAMES for suffix in SUFFIXES
    }


def test_maps_take_one_score_two_and_three() -> None:
    assert {np.shape(case["scores"])[1:] for case in EXPECTED.values()} == {(), (2,), (3,)}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXPECTED)
def test_file_loads_to_the_stored_outputs(name: str, suffix: str) -> None:
    loaded = load(FOLDER / f"{name}{suffix}")
    scores, wanted = np.array(EXPECTED[name]["scores"]), np.array(EXPECTED[name]["probabilities"])
    more = {beside: EXPECTED[name][beside] for beside in ("groups", "features") if beside in EXPECTED[name]}
    found = loaded.predict_proba(scores, **more)
    if name in EXACT:
        assert found.tobytes() == wanted.tobytes()
    else:
        np.testing.assert_allclose(found, wanted, rtol=2e-14, atol=0.0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", FORECASTS)
def test_recalibrator_of_forecasts_gives_the_stored_levels(name: str, suffix: str) -> None:
    """Each level of one half goes through maps of straight lines from (1/2, 1/4) and (1/2, 3/4).

    The threshold recalibrator has a layer of every type. The split takes its second map where P(Y <= 1) > 1/2, so the
    level 1/2 of the first row becomes 3/4, 7/8, the mean of 7/8 and 15/16, 55/64, and half of that and of its map's
    119/128; that of the second row 1/4, 3/8, the mean of 3/8 and 3/16, 9/64, and half of that and of 27/128.
    """
    mean, std, points, wanted = FORECASTS[name]
    found = load(FOLDER / f"{name}{suffix}").transform(GaussianForecast(mean, std)).cdf(points)
    assert found.tolist() == wanted


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", MEANS)
def test_calibrator_of_means_gives_the_stored_numbers(name: str, suffix: str) -> None:
    predictions, features, wanted = MEANS[name]
    assert load(FOLDER / f"{name}{suffix}").predict(predictions, features=features).tolist() == wanted


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", NAMES)
def test_saving_again_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, suffix: str
) -> None:
    file = FOLDER / f"{name}{suffix}"
    assert repr(read_document(file)) == repr(STORED[name])  # by repr, which tells -0.0 from 0.0
    monkeypatch.setattr("calibrant.persistence.documents.__version__", STORED[name]["calibrant"])
    save(load(file), tmp_path / f"c{suffix}")
    assert (tmp_path / f"c{suffix}").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_settings_and_facts_are_those_of_the_fit(suffix: str) -> None:
    grouped = load(FOLDER / f"grouped_calibrator{suffix}")
    assert repr(grouped) == "GroupedCalibrator(SigmoidCalibrator(input='score'))"
    assert (grouped.group_name_, grouped.shrinkage_, grouped.n_rows_) == ("region", 100.0, 333)
    assert [(g.n_rows, g.share) for g in grouped.group_maps_] == [(300, 0.75), (33, 0.25)]
    assert grouped.metadata_ == {"note": "größe"}
    assert grouped.provenance_ is None
    known = load(FOLDER / f"provenance{suffix}").provenance_
    assert (known.fitted_at, known.calibrant, known.source) == ("2026-11-23T21:42:01Z", "0.2.0", "größe.parquet")
    assert (known.n_rows, known.rows_sha256) == (12, "0123456789abcdef" * 4)
    assert (known.out_of_fold.n_folds, known.out_of_fold.level, known.out_of_fold.before) == (5, 0.95, None)
    assert known.out_of_fold.after["brier"] == (0.25, 0.125, 0.375)
    assert np.isnan(known.out_of_fold.after["log_loss"]).all()
    free = load(FOLDER / f"grouped_calibrator_of_classes{suffix}")
    assert (free.calibrator, free.shrinkage, free.shrinkage_) == ("temperature", np.inf, np.inf)
    labels = load(FOLDER / f"multilabel_calibrator{suffix}")
    assert (labels.label_names_, labels.score_names_, labels.n_rows_) == (("größe", "b"), ("s_1", "s_2"), 64)
    shift = load(FOLDER / f"prior_shift{suffix}")
    assert (shift.factor.tolist(), shift.classes_.tolist()) == ([3.0, 1.0], ["no", "yes"])
    facade = load(FOLDER / f"probability_calibrator{suffix}")
    assert facade.config == cb.CalibrationConfig(method="auto", cv=4, min_samples=20, seed=3)
    assert (facade.method_, facade.metrics_.brier_after, facade.metrics_.n_folds) == ("isotonic", 0.4375, 4)
    chain = load(FOLDER / f"chain{suffix}")
    assert [type(step).__name__ for step in chain.steps] == ["PriorShift", "BetaCalibrator", "PriorShift"]
    assert load(FOLDER / f"logistic{suffix}").classes_.tolist() == [0, 2**63]
    mimic = load(FOLDER / f"mimic{suffix}")
    assert (mimic.threshold_pos, mimic.record_history, mimic.boundary) == (3, True, "median")
    ranks = load(FOLDER / f"rank_preserving_calibrator{suffix}")
    assert (ranks.maps, ranks.n_rows_, ranks.score_names_) == ("straight", 32, ("p_a", "p_b", "p_ß"))
    assert (ranks.classes_.tolist(), ranks.margins_.tolist()) == (["a", "b", "ß"], [0.5, 0.25, 0.25])
    splits = load(FOLDER / f"forecast_threshold{suffix}")
    assert (splits.n_rows_, splits.choice_, splits.cv_, splits.epsilon) == (256, "rounds", None, 0.0625)
    (made,) = splits.rounds_
    assert (made.y0, made.alpha, made.error_before, made.error_after) == (1.0, 0.5, 0.25, 0.125)
    assert (made.n_left, made.n_right) == (100.0, 156.0)
    assert splits.metadata_ == {"outcome": "größe", "columns": {"mean": "mu", "std": "sigma"}}
    scaled = load(FOLDER / f"forecast_variance{suffix}")
    assert (scaled.scale_, scaled.shift_, scaled.shift) == (2.0, 0.5, True)
    assert load(FOLDER / f"forecast_distribution{suffix}").n_bins == (2, 1)
