"""Targets: whole files or none, through links, with the old file's permissions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calibrant.errors import InvalidInputError
from calibrant.files import open_target


def test_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_and_stop(path)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["out.csv"]


def test_file_appears_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with open_target(path) as out:
        out.write(b"new")
        out.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["out.csv"]


def test_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    with open_target(link) as out:
        out.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with open_target(tmp_path / "out") as out:
        out.write(b"new")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_longest_file_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".csv")
    with open_target(path) as out:
        out.write(b"new")
    assert path.read_bytes() == b"new"


def test_device_is_written_to_and_not_replaced() -> None:
    with open_target(os.devnull) as out:
        out.write(b"new")
    assert not Path(os.devnull).is_file()


def test_folder_and_missing_folder_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInputError, match=r"is a folder\. Pass the name of a file to write"),
        open_target(tmp_path),
    ):
        pass
    missing = tmp_path / "no" / "out.csv"
    with pytest.raises(InvalidInputError, match=r"there is no folder .*no\. Make it first"), open_target(missing):
        pass


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_and_stop(path: Path) -> None:
    with open_target(path) as out:
        out.write(b"new")
        raise KeyboardInterrupt
