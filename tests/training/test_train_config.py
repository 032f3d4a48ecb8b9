"""Settings of a run: checked when made, and the same after TOML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from calibrant.errors import CalibrantError
from calibrant.training.config import TrainConfig, read_config


def test_settings_come_back_from_toml(tmp_path: Path) -> None:
    params = {"max_depth": 3, "eta": 1e-05, "objective": 'a "quoted" \\ \u007f name', "sizes": [1, 2], "odd key": True}
    config = TrainConfig(model="lightgbm", horizon=7, data="b ä.csv", uniqueness=False, band=0.0, params=params)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml({"git_commit": "abc", "classes": [-1, 0, 1]}), encoding="utf-8")
    assert TrainConfig(**read_config(path)) == config


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": "xgbost"}, "unknown model 'xgbost'. Did you mean 'xgboost'?"),
        ({"horizon": 0}, "horizon=0 is too small"),
        ({"horizon": "20"}, "horizon='20' is not a whole number"),
        ({"validation": 1.5}, "validation=1.5 is outside (0, 1)"),
        ({"validation": 0.5, "test": 0.45}, "leave less than a tenth of the rows to train on"),
        ({"calibrator": "platts"}, "unknown calibrator 'platts'. Did you mean 'platt'?"),
        ({"label": "triple"}, "unknown value of label: 'triple'"),
        ({"class_weight": "balance"}, "Did you mean 'balanced'?"),
        ({"profit": 0.0}, "profit=0.0 is outside (0, inf). Pass a number in (0, inf), such as 0.75."),
        ({"stop": float("inf")}, "stop=inf is outside (0, inf)"),
        ({"band": "x"}, "band='x' is not a number"),
        ({"seed": -1}, "seed=-1 is too small"),
        ({"embargo": -1}, "embargo=-1 is too small"),
        ({"uniqueness": "yes"}, "uniqueness='yes' is not True or False"),
        ({"data": 5}, "data=5 is not a string"),
        ({"params": [1]}, "params=[1] is no table"),
        ({"params": {1: 2}}, "params={1: 2} is no table"),
        ({"params": {"max_depth": None}}, "setting 'max_depth' is a NoneType"),
        ({"params": {"a": {"b": [object]}}}, "setting 'b' is a type"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        TrainConfig(**more)


def test_files_that_are_no_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("horizn = 5\n", encoding="utf-8")
    with pytest.raises(CalibrantError, match=r"'horizn'. Did you mean 'horizon'\?"):
        read_config(path)
    path.write_text("horizon = \n", encoding="utf-8")
    with pytest.raises(CalibrantError, match=r"config\.toml: no TOML file: Invalid value \(at line 1"):
        read_config(path)
    with pytest.raises(CalibrantError) as refused:
        read_config(tmp_path)
    assert str(refused.value) == f"{tmp_path}: this is a folder, not a file. Pass the path of an ordinary file."
