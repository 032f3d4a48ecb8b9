"""Files are written whole or not at all, wherever a path may point."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, InvalidInputError, InvalidTypeError

SUFFIXES = (".json", ".pkl")


@pytest.fixture
def fitted() -> cb.IsotonicCalibrator:
    return cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


@pytest.fixture
def other() -> cb.SigmoidCalibrator:
    return cb.SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


class OwnPath:
    """A path of some other library."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.mark.parametrize("kind", [str, Path, OwnPath, lambda path: os.fsencode(path)])
def test_any_kind_of_path_is_taken(tmp_path: Path, fitted: Any, kind: Any) -> None:
    class BytesPath(OwnPath):
        def __fspath__(self) -> Any:
            return os.fsencode(self.path)

    path = tmp_path / "ä calibrator.JSON"
    argument = kind(path)
    if isinstance(argument, bytes):
        argument = BytesPath(path)
    cb.save(fitted, argument)
    assert repr(cb.load(argument)) == "IsotonicCalibrator()"
    assert [p.name for p in tmp_path.iterdir()] == ["ä calibrator.JSON"]


@pytest.mark.parametrize("path", [None, 3, b"c.json", ["c.json"]])
def test_what_is_no_path_is_refused(fitted: Any, path: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"path=.* is a .*\. Pass the name of a file\."):
        cb.save(fitted, path)
    with pytest.raises(InvalidTypeError, match=r"path=.* is a .*\. Pass the name of a file\."):
        cb.load(path)


def test_null_character_in_a_path_is_refused(fitted: Any) -> None:
    with pytest.raises(InvalidInputError, match="holds a null character"):
        cb.save(fitted, "a\0b.json")
    with pytest.raises(InvalidInputError, match="holds a null character"):
        cb.load("a\0b.json")


@pytest.mark.parametrize("name", ["c.yaml", "c", "c.json.gz", "c.pickle", ".json", ""])
def test_other_suffix_is_refused(tmp_path: Path, fitted: Any, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"ends in '.*'\. End it in \.json \(readable text\) or \.pkl"):
        cb.save(fitted, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_format_is_told_by_content_not_by_name(tmp_path: Path, fitted: Any) -> None:
    for suffix in SUFFIXES:
        cb.save(fitted, tmp_path / f"c{suffix}")
    (tmp_path / "c.json").rename(tmp_path / "a.bin")
    (tmp_path / "c.pkl").rename(tmp_path / "c.json")
    (tmp_path / "a.bin").rename(tmp_path / "c.pkl")
    for suffix in SUFFIXES:
        assert repr(cb.load(tmp_path / f"c{suffix}")) == "IsotonicCalibrator()"


# --- whole or not at all -------------------------------------------------------------------------------------


def fail(error: BaseException) -> Any:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    return failing


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_failure_in_the_middle_leaves_the_old_file_and_no_other(
    tmp_path: Path,
    fitted: Any,
    other: Any,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    step: str,
    error: BaseException,
) -> None:
    path = tmp_path / f"c{suffix}"
    cb.save(fitted, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, step, fail(error))
    with pytest.raises(type(error)):
        cb.save(other, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_says_so(tmp_path: Path, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match=r"can't write the file: No space left on device\. .*c\.json") as caught:
        cb.save(fitted, tmp_path / "c.json")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "c.json")


def test_calibrator_that_can_not_be_stored_leaves_the_old_file(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / "c.json"
    cb.save(fitted, path)
    before = path.read_bytes()
    with pytest.raises(InvalidTypeError):
        cb.save(fitted, path, metadata={"f": print})
    assert path.read_bytes() == before


def test_process_killed_in_the_middle_leaves_the_old_file_whole(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / "c.json"
    cb.save(fitted, path)
    before = path.read_bytes()
    code = (
        "import os, sys, calibrant as cb\n"
        "os.fsync = lambda _: os._exit(9)\n"
        "cb.save(cb.load(sys.argv[1]), sys.argv[1], metadata={'second': True})\n"
    )
    source = str(Path(cb.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, path], env={**os.environ, "PYTHONPATH": source}, check=False)
    assert done.returncode == 9
    assert path.read_bytes() == before


def test_reader_beside_two_writers_always_finds_a_whole_file(tmp_path: Path, fitted: Any, other: Any) -> None:
    path = tmp_path / "c.pkl"
    cb.save(fitted, path)
    faults: list[BaseException] = []

    def write(calibrator: Any) -> None:
        try:
            for _ in range(30):
                cb.save(calibrator, path)
        except BaseException as error:
            faults.append(error)

    writers = [threading.Thread(target=write, args=(c,)) for c in (fitted, other)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert type(cb.load(path)) in (cb.IsotonicCalibrator, cb.SigmoidCalibrator)
    assert faults == []
    assert list(tmp_path.iterdir()) == [path]


# --- where it may be written ---------------------------------------------------------------------------------


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_permissions_are_those_of_any_new_file(tmp_path: Path, fitted: Any, umask: int) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"")
    cb.save(fitted, tmp_path / "c.json")
    assert stat.S_IMODE((tmp_path / "c.json").stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode) == 0o640


def test_permissions_of_the_old_file_stay(tmp_path: Path, fitted: Any, other: Any) -> None:
    path = tmp_path / "c.json"
    cb.save(fitted, path)
    path.chmod(0o600)
    cb.save(other, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_read_only_folder_says_so(tmp_path: Path, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", fail(PermissionError(errno.EACCES, "Permission denied")))
    message = r"can't write the file: Permission denied\. Choose a folder that exists and that you may write to"
    with pytest.raises(PermissionError, match=message) as caught:
        cb.save(fitted, tmp_path / "c.json")
    assert caught.value.filename == str(tmp_path / "c.json")


def test_missing_folder_says_so(tmp_path: Path, fitted: Any) -> None:
    message = r"can't write the file: No such file or directory\. Choose a folder that exists"
    with pytest.raises(FileNotFoundError, match=message):
        cb.save(fitted, tmp_path / "missing" / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*c\.json"):
        cb.load(tmp_path / "c.json")


def test_folder_of_that_name_is_left_alone(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / "c.json"
    path.mkdir()
    with pytest.raises(DocumentError, match=r"c\.json: this is a folder, not a file\."):
        cb.save(fitted, path)
    assert path.is_dir()


def test_named_pipe_of_that_name_is_left_alone(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / "c.pkl"
    os.mkfifo(path)
    with pytest.raises(DocumentError, match=r"c\.pkl: this is a named pipe, not a file\."):
        cb.save(fitted, path)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_symbolic_link_is_written_through(tmp_path: Path, fitted: Any, other: Any) -> None:
    cb.save(fitted, tmp_path / "v1.json")
    latest = tmp_path / "latest.json"
    latest.symlink_to("v1.json")
    cb.save(other, latest)
    assert latest.is_symlink()
    assert repr(cb.load(tmp_path / "v1.json")) == "SigmoidCalibrator()"


def test_longest_file_name_is_taken(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / f"{'c' * 250}.json"
    cb.save(fitted, path)
    assert cb.load(path).n_rows_ == 4


def test_what_can_not_be_read_back_is_not_written(tmp_path: Path, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.persistence.files.MAX_BYTES", 100)
    with pytest.raises(DocumentError, match=r"takes \d+ bytes, more than the 100 that can be read back"):
        cb.save(fitted, tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_many_knots_come_back_bit_for_bit(tmp_path: Path, fitted: Any) -> None:
    rng = np.random.default_rng(0)
    x = np.unique(rng.random(100_000))
    fitted.map_ = type(fitted.map_)(x, np.sort(rng.random(x.size)))
    for suffix in SUFFIXES:
        cb.save(fitted, tmp_path / f"c{suffix}")
        assert cb.load(tmp_path / f"c{suffix}").map_.x.tobytes() == x.tobytes()
