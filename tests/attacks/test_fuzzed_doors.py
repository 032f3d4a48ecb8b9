"""Every file that calibrant reads, damaged: read to something that works or refused, in 5 seconds and 1 GB."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import fuzzing
import pytest
from doors import DOORS
from fuzzing import attack, is_refused, limits
from hypothesis import HealthCheck, given, settings, strategies as st

#: 8,000 in all; `make fuzz` takes others for as long as it is told.
N_FILES = {
    "documents": 2_400,
    "states": 800,
    "drift states": 400,
    "run folders": 400,
    "project files": 1_200,
    "check files": 400,
    "margins": 400,
    "tables": 1_600,
    "names": 400,
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_damaged_files_are_read_or_refused(door: str, tmp_path: Path) -> None:
    found = attack(DOORS[door], range(N_FILES[door]), tmp_path)
    assert found.faults == []
    assert found.n == N_FILES[door]
    assert 0 < found.n_refused < found.n or door == "run folders"  # whose commands name what is broken, and go on


@pytest.mark.parametrize("door", DOORS)
def test_files_as_they_are_are_read(door: str, tmp_path: Path) -> None:
    for name, data in DOORS[door].valid().items():
        path = tmp_path / name
        path.write_bytes(data)
        DOORS[door].read(path)


@pytest.mark.parametrize("door", DOORS)
def test_what_hypothesis_damages_is_read_or_refused(door: str, tmp_path: Path) -> None:
    valid = list(DOORS[door].valid().items())

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def attack_once(rng: random.Random) -> None:
        is_refused(DOORS[door], rng, valid, tmp_path)

    with limits():
        attack_once()


def test_a_door_that_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack sees other errors, what asks for too much memory, and what takes too long."""
    monkeypatch.setattr(fuzzing, "MOST_SECONDS", 0.2)
    left = iter((*(None for _ in DOORS["names"].valid()), *range(3)))

    def fail(path: Path) -> None:
        match next(left):
            case None:  # the whole files, before
                pass
            case 0:
                raise KeyError(path.name)
            case 1:
                bytearray(2 << 30)
            case _:
                while True:
                    pass

    found = attack(replace(DOORS["names"], read=fail), range(3), tmp_path, tmp_path / "kept")
    assert [fault.split(": ")[1] for fault in found.faults] == ["KeyError", "MemoryError", "TooSlowError"]
    assert len(list((tmp_path / "kept").iterdir())) == 3
