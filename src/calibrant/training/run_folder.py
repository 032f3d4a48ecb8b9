"""Run folders: written under a temporary name and renamed when all is there, so that half a run is never seen."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import persistence
from calibrant._version import __version__
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.files import whole_file
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.phrases import listed
from calibrant.training.bundle import Bundle, Member, Prediction
from calibrant.training.config import FOUND, TrainConfig, read_config
from calibrant.training.dataset import Dataset
from calibrant.training.estimators import short_name
from calibrant.training.models import Model, model_class, read_model
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_ROOT = "experiments/runs"
_RUN = "run.json"
_PARTIAL = ".partial-"


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes
    ----------
    path : Path
        Its folder; its name is the run's id.
    trusted : tuple of str
        Classes beside those of scikit-learn that its models may be made of, as module.Class.
    """

    path: Path
    trusted: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """The name of the folder."""
        return self.path.name

    @cached_property
    def record(self) -> dict[str, Any]:
        """When it ran, how long each step took, and the hash of each file."""
        return _json(self.path / _RUN)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What was measured."""
        return _json(self.path / "metrics.json")

    @cached_property
    def config(self) -> TrainConfig:
        """The settings."""
        return TrainConfig(**read_config(self.path / "config.toml"))

    @cached_property
    def found(self) -> dict[str, Any]:
        """Versions, the hash of the rows, features and classes, as config.toml says them."""
        document = persistence.read_toml(self.path / "config.toml")
        found = document.get(FOUND)
        if not isinstance(found, dict):
            raise DocumentError(f"{self.path / 'config.toml'} has no table [{FOUND}]. Train the model again.")
        return found

    @cached_property
    def models(self) -> dict[str, Model]:
        """The fitted models by name: one, or several of a run of `calibrant oof`."""
        self.check("checkpoints/")
        n_classes, n_threads = len(self.found["classes"]), self.config.n_threads
        return {
            name: read_model(name, n_classes, folder, n_threads=n_threads, trusted=self.trusted)
            for name, folder in self.model_folders().items()
        }

    @cached_property
    def calibrators(self) -> dict[str, Fitted]:
        """What turns the output of each model into calibrated probabilities."""
        self.check("checkpoints/")
        return {name: persistence.load(folder / "calibrator.json") for name, folder in self.model_folders().items()}

    @property
    def model(self) -> Model:
        """The fitted model of a run of one."""
        return self.models[self._only_name("models")]

    @property
    def calibrator(self) -> Fitted:
        """What turns the output of the model of a run of one into calibrated probabilities."""
        return self.calibrators[self._only_name("calibrators")]

    @cached_property
    def bundle(self) -> Bundle:
        """All that turns features, bars or a table into the probabilities that the run is judged by, as one object."""
        self.check("config.toml")
        self.check("metrics.json")
        members, calibration = self.metrics.get("members", {}), self.metrics["calibration"]
        decisions = {name: members[name]["calibration"] if members else calibration for name in self.models}
        return Bundle(
            self.run_id,
            self.config,
            tuple(self.found["features"]),
            np.array(self.found["classes"]),
            tuple(
                Member(name, model, self.calibrators[name], decisions[name]["decision"])
                for name, model in self.models.items()
            ),
            self.found,
        )

    def predict_proba(self, X: ArrayLike, *, calibrated: bool = True, model: str | None = None) -> FloatArray:
        """Return the probability of each class of rows of features, as `Bundle.predict_proba` does."""
        return self.bundle.predict_proba(X, calibrated=calibrated, model=model)

    def predict(self, data: Any, *, raw: bool = False, last: bool = False) -> Prediction:
        """Return the probabilities of bars or rows of a table, with times and symbols, as `Bundle.predict` does."""
        return self.bundle.predict(data, raw=raw, last=last)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return the bundle as one ONNX model, as `Bundle.to_onnx`; a model without such a form is not read."""
        from calibrant.training.bundle_onnx import check_model_name

        for name in self.model_folders():
            check_model_name(name)
        return self.bundle.to_onnx(path)

    def test_labels(self) -> pa.Table:
        """Return time and label of each row that was measured on, sorted: the same where figures can be compared.

        Times with a zone are UTC, which those without one are taken for.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.check("predictions.parquet")
        table = pq.read_table(self.path / "predictions.parquet", columns=["time", "y"])
        kind = table.schema.field("time").type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            table = table.set_column(0, "time", table["time"].cast(pa.timestamp(kind.unit)))
        return table.sort_by([("time", "ascending"), ("y", "ascending")])

    def check(self, prefix: str = "") -> None:
        """Read the files whose names begin so, and refuse the run if one is missing or differs from its noted hash."""
        files = self.record.get("files")
        if not isinstance(files, dict):
            raise DocumentError(f"{self.path / _RUN} notes no hash of the run's files. Train the model again.")
        for name, expected in files.items():
            if name.startswith(prefix):
                file = self.path / name
                if not file.is_file() or _sha256(file) != expected:
                    raise DocumentError(f"{file} is missing or was changed after the run. Train the model again.")

    def model_folders(self) -> dict[str, Path]:
        """Return the folder of each model's checkpoints: a run of several has one for each."""
        root = self.path / "checkpoints"
        names = self.found.get("models")
        return {short_name(self.config.model): root} if names is None else {name: root / name for name in names}

    def _only_name(self, attribute: str) -> str:
        names = list(self.model_folders())
        if len(names) > 1:
            raise InvalidInputError(
                f"{self.run_id} holds {len(names)} models: {listed(names)}. Take one of its {attribute}, as in "
                f"run.{attribute}[{names[0]!r}]."
            )
        return names[0]


@contextmanager
def new_run(root: str | os.PathLike[str], name: str, record: dict[str, Any]) -> Iterator[Path]:
    """Give a folder to write a run into; when the `with` ends without an error, it appears under its own name.

    `name` is what the run's id starts with. `record` gets the id, may be filled meanwhile, and is written to run.json
    at the end with the hash of every file.
    """
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    run_id = f"{name}_{datetime.now(UTC):%Y%m%d_%H%M%S_%f}_{secrets.token_hex(2)}"
    remove_dead(root)
    partial = root / f".{run_id}{_PARTIAL}{_host()}-{os.getpid()}"
    partial.mkdir()
    try:
        record["run_id"] = run_id
        yield partial
        files = sorted(file for file in partial.rglob("*") if file.is_file())
        record["files"] = {file.relative_to(partial).as_posix(): _sha256(file) for file in files}
        write_json(partial / _RUN, record)
        for file in [*files, partial / _RUN]:
            _sync(file)
        for folder in [*(folder for folder in partial.rglob("*") if folder.is_dir()), partial]:
            _sync(folder)
        partial.rename(root / run_id)
        _sync(root)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def remove_dead(root: str | os.PathLike[str]) -> int:
    """Remove what runs on this machine left behind whose processes are gone, and return how many that were.

    A process that was killed can't clean up, so the next run does. A folder names its process and machine: those of
    other machines that share the folder, and of processes that are alive, are left alone.
    """
    n_removed = 0
    for entry in Path(root).glob(f".*{_PARTIAL}*"):
        host, _, process = entry.name.partition(_PARTIAL)[2].rpartition("-")
        if host == _host() and process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(entry, ignore_errors=True)
            n_removed += not entry.exists()
    return n_removed


def load_run(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Run:
    """Return the finished run of a folder, or refuse one that holds none.

    Parameters
    ----------
    path : path-like
    trusted : sequence of str
        Classes of your own that its model may be made of, as module.Class or module:Class. They are imported when
        the model is read, which runs their module: name only what you would run.
    """
    folder = Path(path)
    if _PARTIAL in folder.name or not (folder / _RUN).is_file():
        raise InvalidInputError(f"{os.fspath(path)} holds no finished run. See: calibrant runs list.")
    return Run(folder, tuple(trusted))


def list_runs(root: str | os.PathLike[str] = DEFAULT_ROOT) -> tuple[list[Run], int]:
    """Return the finished runs of a folder, the oldest first, and how many were begun and not finished.

    Parameters
    ----------
    root : str or path
        The folder of runs.
    """
    folder = Path(root)
    if not folder.is_dir():
        return [], 0
    inside = [entry for entry in folder.iterdir() if entry.is_dir()]
    finished = [Run(entry) for entry in inside if _PARTIAL not in entry.name and (entry / _RUN).is_file()]
    n_partial = sum(_PARTIAL in entry.name for entry in inside)
    stamps = re.compile(r"\d{8}_\d{6}_\d{6}")
    return sorted(finished, key=lambda run: (stamps.findall(run.run_id)[:1], run.run_id)), n_partial


def find_run(name: str, root: str | os.PathLike[str] = DEFAULT_ROOT, *, trusted: Sequence[str] = ()) -> Run:
    """Return the run of this id, or of the only id that holds this text; "last" is the latest one.

    Parameters
    ----------
    name : str
        The id of a run, a part of one, or "last".
    root : str or path
        The folder of runs.
    trusted : sequence of str
        See `load_run`.
    """
    if (Path(name) / _RUN).is_file():
        return load_run(name, trusted=trusted)
    runs, _ = list_runs(root)
    matching = runs[-1:] if name == "last" else [run for run in runs if run.run_id == name]
    matching = matching or [run for run in runs if name in run.run_id]
    if len(matching) == 1:
        return load_run(matching[0].path, trusted=trusted)
    if matching:
        shown = ", ".join(run.run_id for run in matching[-5:])
        raise InvalidInputError(f"{name!r} is in the ids of {len(matching)} runs, such as {shown}. Name one of them.")
    raise InvalidInputError(f"no run in {os.fspath(root)} is called {name!r}. See: calibrant runs list.")


def provenance(rows: dict[str, Any], data: Dataset, model: str | None) -> dict[str, Any]:
    """Return what config.toml says of a run beside its settings; `rows` is what their source says of them."""
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        **({} if model is None else _first_installed(model_class(model).packages)),
        "git_commit": git_commit(),
        **rows,
        "features": list(data.names),
        "classes": data.classes.tolist(),
    }


def git_commit() -> str:
    """Return the commit of the working folder, with "-dirty" where files differ from it; empty outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    # describe --dirty would lock the index, and leave the lock behind when the run is killed
    commands = ("rev-parse", "HEAD"), ("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    found = [subprocess.run([git, *words], capture_output=True, text=True, check=False) for words in commands]  # noqa: S603
    if any(done.returncode for done in found):
        return ""
    return found[0].stdout.strip() + ("-dirty" if found[1].stdout else "")


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a document as indented JSON, with keys in the order given."""
    persistence.write_whole(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def write_table(path: Path, columns: dict[str, Any], *, has_zone: bool) -> None:
    """Write columns of NumPy arrays as Parquet, and say of times, where they had a zone, that they are in UTC."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    in_utc = pa.timestamp("us", tz="UTC")
    arrays = {
        name: pa.array(v, in_utc) if has_zone and v.dtype.kind == "M" else v.tolist() if v.dtype == object else v
        for name, v in columns.items()
    }
    with whole_file(path) as file:
        pq.write_table(pa.table(arrays), file)


def _host() -> str:
    """Return the name of this machine, of characters that a file name may hold."""
    return re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()) or "unnamed"


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is no question but an order
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _json(path: Path) -> dict[str, Any]:
    try:
        document = persistence.read_plain(path)
    except FileNotFoundError:
        raise DocumentError(f"{path} is missing. Train the model again.") from None
    except DocumentError as error:
        raise DocumentError(f"{error} Train the model again.") from None
    if not isinstance(document, dict):
        raise DocumentError(f"{path} holds no record. Train the model again.")
    return document


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Have the system write a file or folder to its disk before the run gets its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _first_installed(packages: tuple[str, ...]) -> dict[str, str]:
    for package in packages:
        try:
            return {package: version(package)}
        except PackageNotFoundError:
            continue
    return {}
