"""Files of format version 2, as they were written when it was new: they are read for ever, to the same outputs.

`version_2/expected.json` holds scores, and the probabilities that exact arithmetic gives for them, rounded once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.fitted import fitted_kinds
from calibrant.maps import MAPS
from calibrant.persistence import load, read_document, save

FOLDER = Path(__file__).parent / "version_2"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
STORED: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json") if path.stem != "expected"
}
SUFFIXES = (".json", ".pkl")
#: Sums, products and quotients only, which every processor rounds alike; exp and log differ in the last bits.
EXACT = {"interpolated", "step", "one_vs_rest", "centered_isotonic", "mimic", "two_columns"}
#: Kinds whose classes have no `decode` yet: each gets files here before the first release.
WITHOUT_FILES = {
    "forecast_recalibrator": "it makes no probabilities of scores: version_2_forecasts holds its files",
    "rank_preserving_calibrator": "its class is being moved to the contract",
}


def parts(value: Any) -> list[dict[str, Any]]:
    """Return all objects in a document, itself among them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] * isinstance(value, dict) + [part for each in inner for part in parts(each)]


def test_there_is_a_file_of_every_kind_method_and_map_in_both_formats() -> None:
    objects = [part for document in STORED.values() for part in parts(document)]
    kinds = {part["kind"] for part in objects if "kind" in part}
    assert kinds == {*fitted_kinds(), *MAPS} - set(WITHOUT_FILES)
    assert {part["method"] for part in objects if "settings" in part and "method" in part} == set(CALIBRATORS)
    assert set(STORED) == set(EXPECTED)
    assert {path.name for path in FOLDER.iterdir()} - {"expected.json"} == {
        f"{name}{suffix}" for name in EXPECTED for suffix in SUFFIXES
    }


def test_maps_take_one_score_two_and_three() -> None:
    assert {np.shape(case["scores"])[1:] for case in EXPECTED.values()} == {(), (2,), (3,)}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXPECTED)
def test_file_loads_to_the_stored_outputs(name: str, suffix: str) -> None:
    loaded = load(FOLDER / f"{name}{suffix}")
    scores, wanted = np.array(EXPECTED[name]["scores"]), np.array(EXPECTED[name]["probabilities"])
    groups = {"groups": EXPECTED[name]["groups"]} if loaded.needs_groups else {}
    found = loaded.predict_proba(scores, **groups)
    if name in EXACT:
        assert found.tobytes() == wanted.tobytes()
    else:
        np.testing.assert_allclose(found, wanted, rtol=2e-14, atol=0.0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXPECTED)
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
