"""calibrant.runtime: documents where NumPy is all that there is, with the bits and the refusals of calibrant.load."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant as cb
from calibrant.applicable import Applicable
from calibrant.errors import CalibrantError, MissingPackageError
from calibrant.numerics import FloatArray

_HERE = Path(__file__).parent
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.DataWarning")
#: Few scores, and enough for the compiled ways to look values up.
_SIZES = (3, 20_000)


def scores_for(fitted: Applicable, width: int, n: int) -> FloatArray:
    """Return scores that the calibrator takes, one row of them certain."""
    rng = np.random.default_rng(n)
    p = rng.random(n) if width == 1 else rng.dirichlet(np.ones(width), n)
    p[0] = 1.0 if width == 1 else np.eye(width)[0]
    if fitted.input == "logit":
        return np.log(np.maximum(p, 1e-9))
    return p


def features_for(n: int) -> dict[str, Any]:
    """Return columns as lists: numbers, levels that are known and not, and values that are missing."""
    age = np.random.default_rng(n).uniform(20.0, 80.0, n).tolist()
    return {"age": [None, *age[1:]], "city": np.resize(["Rome", "Bonn", "Oslo", None], n).tolist()}  # type: ignore[list-item]


def documents() -> dict[str, tuple[str, Any, Any]]:
    """Return the text of each valid document of something that applies, its scores, and what it takes beside them."""
    sys.path.insert(0, str(_HERE / "attacks"))
    from valid_documents import VALID

    found = {}
    means = json.loads((_HERE / "formats" / "version_2" / "segment_mean_calibrator.json").read_text())
    for name, document in {**VALID, "means": means}.items():
        fitted: Any = cb.persistence.from_document(document)
        if isinstance(fitted, Applicable):
            for width in fitted.widths:
                for n in _SIZES:
                    more = {"groups": np.resize([*fitted.groups_, "unseen"], n).tolist()} if name == "grouped" else {}
                    if name in ("segments", "means"):
                        more = {"features": features_for(n)}
                    scores = scores_for(fitted, width, n).tolist()
                    found[f"{name}, {width} wide, {n}"] = (json.dumps(document), scores, more)
    return found


def alone(given: dict[str, tuple[str, Any, Any]], folder: Path) -> dict[str, Any]:
    """Return what a process with nothing but NumPy makes of documents."""
    (folder / "documents").write_text(json.dumps(given))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    words = [sys.executable, str(_HERE / "numpy_alone.py"), str(folder / "documents"), str(folder / "answers")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "answers").read_text())
    return found


def here(text: str, scores: Any, more: dict[str, Any], file: Path) -> Any:
    """Return what calibrant.load makes of a document in this process, where all packages are."""
    file.write_text(text)
    try:
        made = cb.load(file)
        predict = made.predict if isinstance(made, cb.SegmentMeanCalibrator) else made.predict_proba
        return predict(np.array(scores), **more).tolist()
    except CalibrantError as error:
        return str(error)


def _first(value: Any) -> Any:
    """Return the first rows of groups, or of each column of features."""
    return {name: column[:3] for name, column in value.items()} if isinstance(value, dict) else value[:3]


@pytest.mark.slow
def test_numpy_alone_gives_the_same_bits(tmp_path: Path) -> None:
    given = documents()
    assert len(given) > 60
    found = alone(given, tmp_path)
    for name, one in given.items():
        expected = here(*one, tmp_path / "one.json")
        assert not isinstance(expected, str), f"{name}: {expected}"
        assert found[name] == expected, name


@pytest.mark.slow
def test_numpy_alone_refuses_what_load_refuses_in_the_same_words(tmp_path: Path) -> None:
    sys.path.insert(0, str(_HERE / "attacks"))
    from fuzzing import damaged, renumbered, swapped

    given = {}
    valid = list(documents().items())
    for seed in range(300):
        rng = random.Random(seed)
        name, (text, scores, more) = rng.choice(valid)
        broken = rng.choice((damaged, renumbered, swapped))(text.encode(), rng).decode(errors="ignore")
        few = {name: _first(value) for name, value in more.items()}
        given[f"{name}, seed {seed}"] = (broken, scores[:3], few)
    expected = {name: here(*one, tmp_path / "one.json") for name, one in given.items()}
    assert alone(given, tmp_path) == expected
    assert sum(isinstance(answer, str) for answer in expected.values()) > 100


def test_the_import_itself_is_next_to_nothing() -> None:
    script = "import sys; from calibrant.runtime import load; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("calibrant.")}
    assert loaded <= {"calibrant._lazy", "calibrant._version", "calibrant.runtime"}


def test_a_user_reads_what_save_wrote(tmp_path: Path) -> None:
    from calibrant.runtime import load

    fitted = cb.SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    for suffix in ("json", "pkl"):
        cb.save(fitted, tmp_path / f"c.{suffix}")
        assert load(tmp_path / f"c.{suffix}").predict_proba([0.3]) == fitted.predict_proba([0.3])


@pytest.mark.parametrize(
    "wrong", [None, {"p": [0.5]}, 0.5, "0.5", b"0.5", pd.Series([0.5]), pd.DataFrame({"p": [0.5]})]
)
def test_what_is_no_array_is_refused_as_such_without_narwhals(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that held nothing, or a dict, ended in an ImportError of a package that nobody had asked for."""
    rng = np.random.default_rng(0)
    p, city = rng.random(800), np.resize(["Rome", "Bonn"], 800)
    y = rng.random(800) < np.where(city == "Rome", p**3, p)
    segments = cb.SegmentCalibrator("sigmoid").fit(p, y, features={"city": city})
    grouped = cb.GroupedCalibrator().fit(p, y, groups=city)
    assert segments.feature_names == ("city",)
    is_frame = isinstance(wrong, (pd.Series, pd.DataFrame))
    monkeypatch.setitem(sys.modules, "narwhals", None)
    calls = [
        lambda: grouped.predict_proba(wrong, groups=["Rome"]),
        lambda: grouped.predict_proba([0.5], groups=wrong),
        lambda: segments.predict_proba([0.5], features=wrong),
        lambda: segments.predict_proba([0.5], features={"city": wrong}),
    ]
    for call in calls:
        with pytest.raises(CalibrantError) as refused:
            call()
        assert isinstance(refused.value, MissingPackageError) == is_frame
        assert ("pip install narwhals" in str(refused.value)) == is_frame
