"""Files of recalibrators of forecasts in format version 2: they are read for ever, to the same distributions.

`version_2_forecasts/expected.json` holds the recalibrated CDFs of `FORECAST` at `POINTS`, which its maps of straight
lines give; those of "variance" go through the normal distribution.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.forecasts import RECALIBRATORS, GridForecast
from calibrant.forecasts.recalibrators.base import LAYERS
from calibrant.persistence import load, read_document, save

FOLDER = Path(__file__).parent / "version_2_forecasts"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
SUFFIXES = (".json", ".pkl")
FORECAST = GridForecast([-2.0, 0.0, 2.0, 4.0], [[0.0, 0.25, 0.75, 1.0], [0.0, 0.5, 0.625, 1.0]])
POINTS = [[-1.0, 0.0, 0.5, 1.0, 3.0]]


def layers(document: dict[str, Any]) -> set[str]:
    return {layer["type"] for layer in document["layers"]}


def test_there_is_a_file_of_every_method_and_layer_in_both_formats() -> None:
    assert set(EXPECTED) == set(RECALIBRATORS)
    assert set().union(*(layers(read_document(FOLDER / f"{name}.json")) for name in EXPECTED)) == set(LAYERS)
    assert {path.name for path in FOLDER.iterdir()} - {"expected.json"} == {
        f"{name}{suffix}" for name in EXPECTED for suffix in SUFFIXES
    }


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXPECTED)
def test_file_loads_to_the_stored_distributions(name: str, suffix: str) -> None:
    loaded = load(FOLDER / f"{name}{suffix}")
    assert type(loaded) is RECALIBRATORS[name]
    np.testing.assert_allclose(loaded.transform(FORECAST).cdf(POINTS), EXPECTED[name], rtol=2e-14, atol=0.0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", EXPECTED)
def test_saving_again_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, suffix: str
) -> None:
    file = FOLDER / f"{name}{suffix}"
    monkeypatch.setattr("calibrant.persistence.documents.__version__", read_document(file)["calibrant"])
    save(load(file), tmp_path / f"r{suffix}")
    assert (tmp_path / f"r{suffix}").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_settings_and_facts_are_those_of_the_fit(suffix: str) -> None:
    found = {name: load(FOLDER / f"{name}{suffix}") for name in EXPECTED}
    assert repr(found["distribution"]) == (
        "DistributionRecalibrator(n_bins=(2, 1), min_leaf=16, n_knots=2, pseudo_counts=4.0)"
    )
    assert repr(found["threshold"]) == "ThresholdRecalibrator(max_rounds=5, seed=3)"
    assert [np.isnan(done.error_after) for done in found["threshold"].rounds_] == [True]
    assert (found["variance"].scale_, found["variance"].shift_) == (2.0, 0.25)
    assert (found["conformal"].conformity, found["conformal"].scores_.tolist()) == ("residual", [-1.0, 0.5, 2.0])
    assert found["average"].metadata_ == {"outcome": "größe", "columns": {"mean": "mu", "std": "sigma"}}
    assert found["average"].facts() == {"recalibrator": "average", "fitted to": "64 rows"}
