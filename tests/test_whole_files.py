"""Targets: whole files or none, through links, with the old file's permissions; one writer at a time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

from calibrant import files
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


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="open files have no paths here")
def test_pipe_without_a_name_is_refused_too() -> None:
    ends = os.pipe()
    try:
        path = Path(f"/dev/fd/{ends[1]}")
        with pytest.raises(InvalidInputError, match=r"is a named pipe\. Pass the name of a file"), open_target(path):
            pass
    finally:
        for end in ends:
            os.close(end)


def test_device_and_pipe_are_refused_and_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(os.devnull)
    for path, kind in ((os.devnull, "a device"), (tmp_path / "link", "a device"), (tmp_path / "pipe", "a named pipe")):
        with pytest.raises(InvalidInputError, match=f"is {kind}. Pass the name of a file to write"), open_target(path):
            pass
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names_in(tmp_path) == ["link", "pipe"]


def test_a_narrow_file_stays_narrow_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with open_target(path) as out:
        assert os.fstat(out.fileno()).st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600
    with open_target(tmp_path / "new", private=True) as out:
        assert os.fstat(out.fileno()).st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    path.chmod(0o640)
    with open_target(path) as out:
        out.write(b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o640)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_a_group_that_cannot_be_kept_gets_no_more_than_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    path.chmod(0o664)
    monkeypatch.setattr(os, "fchown", refuse)
    with open_target(path) as out:
        out.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o644


def test_one_of_two_writers_wins_and_the_other_says_who_it_waits_for(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_target(path) as first:
        first.write(b"first")
        message = rf"process {os.getpid()} is writing .*out\. Wait until it is done, or write somewhere else"
        with pytest.raises(InvalidInputError, match=message), open_target(path):
            pass
    assert path.read_bytes() == b"first"
    assert names_in(tmp_path) == ["out"]


def test_a_writer_that_waits_comes_after_the_one_before(tmp_path: Path) -> None:
    path, began = tmp_path / "out", threading.Event()

    def slow() -> None:
        with open_target(path) as out:
            began.set()
            time.sleep(0.5)
            out.write(b"first")

    writer = threading.Thread(target=slow)
    writer.start()
    began.wait()
    with open_target(path, wait=30.0) as out:
        assert path.read_bytes() == b"first"
        out.write(b"second")
    writer.join()
    assert path.read_bytes() == b"second"
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("again", ["out", "other"])
def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path, again: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=write_and_die, args=(tmp_path / "out",))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    (left,) = names_in(tmp_path)
    assert left.startswith(".calibrant-")
    with open_target(tmp_path / "third"), open_target(tmp_path / again) as out:
        assert len(list(tmp_path.glob(".calibrant-*"))) == 2  # of living processes nothing goes
        out.write(b"new")
    assert names_in(tmp_path) == sorted([again, "third"])
    assert (tmp_path / again).read_bytes() == b"new"


def test_many_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path, said = tmp_path / "out", []

    def write(i: int) -> None:
        for _ in range(20):
            try:
                with open_target(path) as out:
                    out.write(bytes([i]) * 100_000)
            except InvalidInputError as error:
                said.append(str(error))

    writers = [threading.Thread(target=write, args=(i,)) for i in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    data = path.read_bytes()
    assert len(data) == 100_000
    assert len(set(data)) == 1
    assert names_in(tmp_path) == ["out"]
    assert all("is writing" in each for each in said)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    with open_target(tmp_path / "out"):
        (part,) = tmp_path.glob(".calibrant-*")
    (tmp_path / "secret").write_bytes(b"secret")
    part.symlink_to(tmp_path / "secret")
    with (
        pytest.raises(InvalidInputError, match=r"part is a link, and stands in the way .* Remove it"),
        open_target(tmp_path / "out"),
    ):
        pass
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_systems_without_locks_write_whole_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.fcntl, "flock", refuse)
    (tmp_path / ".calibrant-of another.part").write_bytes(b"")
    with open_target(tmp_path / "out") as out:
        out.write(b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert names_in(tmp_path) == [".calibrant-of another.part", "out"]


def test_folder_and_missing_folder_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInputError, match=r"is a folder\. Pass the name of a file to write"),
        open_target(tmp_path),
    ):
        pass
    missing = tmp_path / "no" / "out.csv"
    with pytest.raises(InvalidInputError, match=r"there is no folder .*no\. Make it first"), open_target(missing):
        pass


def refuse(*_: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def write_and_die(path: Path) -> None:
    with open_target(path) as out:
        out.write(b"half")
        out.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_and_stop(path: Path) -> None:
    with open_target(path) as out:
        out.write(b"new")
        raise KeyboardInterrupt
