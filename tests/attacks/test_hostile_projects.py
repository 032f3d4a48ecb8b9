"""Files of settings that are none: each is refused by name, as a file of a project and as that of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibrant.errors import CalibrantError
from calibrant.training import TrainConfig
from calibrant.training.config import read_config

#: What stands in the file, and a part of what is said.
CASES: dict[str, tuple[bytes, str]] = {
    "model of another kind": (b"model = 3", "model"),
    "model that is a list": (b"model = []", "model"),
    "model that is a table": (b"[model]\nx = 1", "model"),
    "unknown model": (b'model = "xgbost"', "Did you mean 'xgboost'"),
    "empty model": (b'model = ""', "model"),
    "no horizon": (b"horizon = 0", "horizon"),
    "negative horizon": (b"horizon = -1", "horizon"),
    "half a horizon": (b"horizon = 1.5", "horizon"),
    "text for a horizon": (b'horizon = "20"', "horizon"),
    "true for a horizon": (b"horizon = true", "horizon"),
    "list for a horizon": (b"horizon = [20]", "horizon"),
    "data that are a number": (b"data = 3", "data"),
    "data that are a list": (b'data = ["a"]', "data"),
    "unknown label": (b'label = "barrier"', "label"),
    "label of another kind": (b"label = 1", "label"),
    "label that is a list": (b"label = []", "label"),
    "negative profit": (b"profit = -1.0", "profit"),
    "no profit": (b"profit = 0.0", "profit"),
    "nan for a profit": (b"profit = nan", "profit"),
    "infinite profit": (b"profit = inf", "profit"),
    "text for a profit": (b'profit = "a"', "profit"),
    "true for a profit": (b"profit = true", "profit"),
    "negative stop": (b"stop = -0.5", "stop"),
    "nan for a stop": (b"stop = -nan", "stop"),
    "table for a stop": (b"stop = {}", "stop"),
    "negative band": (b"band = -0.1", "band"),
    "date for a band": (b"band = 1979-05-27", "band"),
    "unknown calibrator": (b'calibrator = "isotonik"', "calibrator"),
    "calibrator of another kind": (b"calibrator = 1", "calibrator"),
    "calibrator that is a list": (b"calibrator = []", "calibrator"),
    "unknown moment": (b'calibrate = "never"', "calibrate"),
    "moment of another kind": (b"calibrate = true", "calibrate"),
    "unknown class weight": (b'class_weight = "equal"', "class_weight"),
    "class weight that is a table": (b"class_weight = {a = 1}", "class_weight"),
    "one for a flag": (b"uniqueness = 1", "uniqueness"),
    "text for a flag": (b'uniqueness = "true"', "uniqueness"),
    "validation of all": (b"validation = 1.0", "validation"),
    "validation of none": (b"validation = 0", "validation"),
    "negative validation": (b"validation = -0.1", "validation"),
    "nan for validation": (b"validation = nan", "validation"),
    "test beyond all": (b"test = 1e999", "test"),
    "text for a test": (b'test = "0.2"', "test"),
    "nothing left to train on": (b"test = 0.5\nvalidation = 0.4", "less than a tenth"),
    "stop share of all": (b"stop_share = 1", "stop_share"),
    "true for a share": (b"stop_share = true", "stop_share"),
    "negative embargo": (b"embargo = -1", "embargo"),
    "half an embargo": (b"embargo = 0.5", "embargo"),
    "negative seed": (b"seed = -1", "seed"),
    "seed that is a float": (b"seed = 1.0", "seed"),
    "seed beyond 64 bits": (b"seed = 99999999999999999999999999", "seed"),
    "no thread": (b"n_threads = 0", "n_threads"),
    "time for threads": (b"n_threads = 07:32:00", "n_threads"),
    "params that are a number": (b"params = 3", "params"),
    "params that are a list": (b"params = [1]", "params"),
    "several params": (b"[[params]]\nx = 1", "params"),
    "unknown setting": (b"horizons = 3", "Did you mean 'horizon'"),
    "setting of Python": (b"__class__ = 3", "__class__"),
    "settings in a table": (b"[train]\nmodel = 'xgboost'", "train"),
    "twice": (b"seed = 1\nseed = 2", "no TOML file"),
    "twice as a table": (b"[params]\n[params]", "no TOML file"),
    "value and table": (b"params = 1\n[params.x]", "no TOML file"),
    "no value": (b"model =", "no TOML file"),
    "no name": (b"= 3", "no TOML file"),
    "word alone": (b"model", "no TOML file"),
    "string without end": (b'model = "xg', "no TOML file"),
    "list without end": (b"params = [", "no TOML file"),
    "many lists without end": (b"params = " + b"[" * 50_000, "no TOML file"),
    "deep tables": (b"params = " + b"{a = " * 5_000 + b"1" + b"}" * 5_000, "no TOML file"),
    "no UTF-8": (b'model = "\xff"', "no TOML file"),
    "UTF-16": ('model = "xgboost"'.encode("utf-16"), "no TOML file"),
    "null character": (b'model = "a\0b"', "no TOML file"),
    "order to a terminal": (b'model = "\x1b[2J"', "no TOML file"),
    "half a surrogate pair": (b'model = "\\ud800"', "no TOML file"),
    "JSON": (b'{"model": "xgboost"}', "no TOML file"),
    "number of many digits": (b"seed = " + b"9" * 5_000, "no TOML file"),
    "impossible date": (b"seed = 1979-13-45", "no TOML file"),
}


def test_there_are_enough() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_hostile_settings_are_refused(tmp_path: Path, name: str) -> None:
    data, said = CASES[name]
    path = tmp_path / "project.toml"
    path.write_bytes(data)
    with pytest.raises(CalibrantError) as raised:
        TrainConfig(**read_config(path))
    assert said in str(raised.value)
    assert path.read_bytes() == data
