"""Each kind and version of a document finds its class, and is read by what that class knows of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import calibrant as cb
from calibrant import storable
from calibrant.document_field import DocumentField
from calibrant.errors import DocumentError
from calibrant.persistence import documents, from_document, load, save, to_document
from calibrant.storable import Storable, register

SUFFIXES = (".json", ".pkl")


@pytest.fixture
def fitted() -> cb.IsotonicCalibrator:
    return cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


class Offset(Storable):
    """A fitted thing of some higher layer: version 2 called its number `by`, version 3 calls it `offset`."""

    def __init__(self, by: float) -> None:
        self.by = by

    @property
    def is_fitted(self) -> bool:
        return True

    def facts(self) -> dict[str, str]:
        return {}

    def describe(self) -> list[str]:
        return []

    def encode(self) -> dict[str, Any]:
        return {"offset": [self.by]}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        if body.version < 3:
            return cls(body.members(("by",))["by"].number())
        (item,) = body.members(("offset",))["offset"].items()
        assert item.version == body.version
        return cls(item.number())


@pytest.fixture
def later_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter the kind "offset", and write documents of version 3: what a change of format touches beside the class."""
    monkeypatch.setattr(storable, "_CLASSES", dict(storable._CLASSES))
    register("offset")(Offset)
    monkeypatch.setattr(documents, "VERSION", 3)


@pytest.mark.usefixtures("later_release")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_registered_kind_is_saved_and_loaded_with_metadata(tmp_path: Path, suffix: str) -> None:
    save(Offset(0.1), tmp_path / f"o{suffix}", metadata={"label": "y"})
    loaded = load(tmp_path / f"o{suffix}")
    assert (type(loaded), loaded.by, loaded.metadata_) == (Offset, 0.1, {"label": "y"})


@pytest.mark.usefixtures("later_release")
def test_registered_kind_is_refused_by_field() -> None:
    document = to_document(Offset(0.5))
    with pytest.raises(DocumentError, match=r"offset\[0\]: true is not a number"):
        from_document(document | {"offset": [True]})
    with pytest.raises(DocumentError, match=r"unknown field 'ofset'.*Did you mean 'offset'"):
        from_document(document | {"ofset": 1.0})


@pytest.mark.usefixtures("later_release")
def test_document_of_an_older_version_is_read_by_what_its_class_knows_of_it() -> None:
    assert to_document(Offset(0.5))["version"] == 3
    older = {"format": "calibrant", "version": 2, "calibrant": "0.2.0", "kind": "offset", "by": 0.25}
    assert from_document(older).by == 0.25
    with pytest.raises(DocumentError, match="the field 'offset' is missing"):
        from_document(older | {"version": 3})


@pytest.mark.slow
def test_kind_of_a_higher_module_is_found_in_a_fresh_process(tmp_path: Path) -> None:
    p = np.random.default_rng(0).random(200)
    fitted = cb.GroupedCalibrator("sigmoid").fit(p, p > 0.5, groups=np.arange(200) % 2)
    save(fitted, tmp_path / "c.json")
    code = (
        "import sys; from calibrant.persistence import load\n"
        "assert 'calibrant.grouped' not in sys.modules\n"
        "print(load(sys.argv[1]).predict_proba([0.25], groups=[1]).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "c.json"],
        env={"PYTHONPATH": str(Path(cb.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(fitted.predict_proba([0.25], groups=[1]).tolist())


def test_unknown_kind_is_refused_by_name(fitted: Any) -> None:
    with pytest.raises(DocumentError, match=r"kind: 'calibrater' is none of 'calibrator'.*Did you mean 'calibrator'"):
        from_document(to_document(fitted) | {"kind": "calibrater"})
