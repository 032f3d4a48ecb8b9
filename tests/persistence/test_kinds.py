"""Objects of higher layers join documents by registering their kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.persistence import Field, documents, from_document, load, register_kind, save, to_document


class Offset:
    """A fitted thing of some higher layer."""

    def __init__(self, by: float) -> None:
        self.by = by


@pytest.fixture
def offset_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_KINDS", dict(documents._KINDS))
    register_kind("offset", Offset, lambda o: {"by": o.by}, lambda b: Offset(Field(b).members(("by",))["by"].number()))


@pytest.mark.usefixtures("offset_kind")
@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_registered_kind_is_saved_and_loaded_with_metadata(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"o{suffix}"
    save(Offset(0.1), path, metadata={"label": "y"})
    loaded = load(path)
    assert type(loaded) is Offset
    assert loaded.by == 0.1
    assert loaded.metadata_ == {"label": "y"}


@pytest.mark.usefixtures("offset_kind")
def test_registered_kind_is_refused_by_field() -> None:
    document = to_document(Offset(0.5))
    assert document["kind"] == "offset"
    with pytest.raises(DocumentError, match="by: true is not a number"):
        from_document(document | {"by": True})
    with pytest.raises(DocumentError, match="unknown field 'bye'"):
        from_document(document | {"bye": 1.0})


@pytest.mark.usefixtures("offset_kind")
def test_kind_is_not_taken_from_another_class() -> None:
    with pytest.raises(InvalidInputError, match="the kind 'offset' is taken by Offset"):
        register_kind("offset", Path, lambda _: {}, lambda b: b)


def test_kind_of_a_higher_module_is_found_in_a_fresh_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=2))
    calibrator.fit(np.array([rng.choice(3, p=row) for row in p]), p)
    calibrator.save(tmp_path / "c.json")
    code = (
        "import sys; from calibrant.persistence import load\n"
        "assert 'calibrant.probability' not in sys.modules\n"
        "print(load(sys.argv[1]).calibrate([[0.2, 0.3, 0.5]]).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "c.json"],
        env={"PYTHONPATH": str(Path(cb.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(calibrator.calibrate(np.array([[0.2, 0.3, 0.5]])).tolist())


def test_unknown_kind_is_refused_by_name() -> None:
    fitted = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    document = to_document(fitted) | {"kind": "calibrater"}
    with pytest.raises(DocumentError, match=r"kind: 'calibrater' is none of 'calibrator'.*Did you mean 'calibrator'"):
        from_document(document)
