"""Files of format version 1, as they were written when it was new: they are read for ever, to the same outputs.

`version_1/expected.json` holds scores and the probabilities that exact arithmetic gives for them, rounded once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from calibrant.persistence.map_codec import MapKind, kind_of

from calibrant.maps import encode_map
from calibrant.persistence import load, read_document, save

FOLDER = Path(__file__).parent / "version_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
SUFFIXES = (".json", ".pkl")
#: Maps of sums and products only, which every processor rounds alike; exp and log differ in the last bits.
EXACT = {"interpolated", "step", "one_vs_rest"}
#: Forms of a kind of map that came after its first.
FORMS = {"one_vs_rest_likelihood": "one_vs_rest"}


def test_there_is_a_file_of_every_kind_of_map_in_both_formats() -> None:
    kinds = {name for member in get_args(MapKind) for name in (get_args(member) or (member,))}
    kinds |= set(FORMS)
    assert set(EXPECTED) == kinds
    found = {path.name for path in FOLDER.iterdir()} - {"expected.json"}
    assert found == {f"{kind}{suffix}" for kind in kinds for suffix in SUFFIXES}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", EXPECTED)
def test_file_loads_to_the_stored_outputs(kind: str, suffix: str) -> None:
    loaded = load(FOLDER / f"{kind}{suffix}")
    assert kind_of(loaded.map_) == FORMS.get(kind, kind)
    scores = np.array(EXPECTED[kind]["scores"])
    wanted = np.array(EXPECTED[kind]["probabilities"])
    if kind in EXACT:
        assert loaded.predict_proba(scores).tobytes() == wanted.tobytes()
    else:
        np.testing.assert_allclose(loaded.predict_proba(scores), wanted, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", EXPECTED)
def test_file_loads_to_the_stored_numbers_bit_for_bit(kind: str, suffix: str) -> None:
    stored: dict[str, Any] = json.loads((FOLDER / f"{kind}.json").read_text("utf-8"))
    loaded = load(FOLDER / f"{kind}{suffix}")
    assert repr(encode_map(loaded.map_)) == repr(stored["map"])  # by repr, which tells -0.0 from 0.0
    assert repr(loaded.classes_.tolist()) == repr(stored["classes"])
    assert loaded.n_rows_ == stored["n_rows"]
    assert loaded.score_names_ == (None if stored["score_names"] is None else tuple(stored["score_names"]))
    assert repr(getattr(loaded, "metadata_", None)) == repr(stored.get("metadata"))
    assert repr(read_document(FOLDER / f"{kind}{suffix}")) == repr(stored)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", EXPECTED)
def test_saving_again_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, suffix: str
) -> None:
    written_by = read_document(FOLDER / f"{kind}{suffix}")["calibrant"]
    monkeypatch.setattr("calibrant.persistence.documents.__version__", written_by)
    save(load(FOLDER / f"{kind}{suffix}"), tmp_path / f"c{suffix}")
    assert (tmp_path / f"c{suffix}").read_bytes() == (FOLDER / f"{kind}{suffix}").read_bytes()
