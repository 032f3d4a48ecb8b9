"""What a run notes of itself: its log, and where it comes from, in versions, commit and the hash of its bars."""

from __future__ import annotations

import json
import logging
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.training.bars import Bars
from calibrant.training.dataset import Dataset
from calibrant.training.models import model_class

#: The logger that a run writes to.
LOGGER = "calibrant.training"
_FORMAT = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
_TIME = "%Y-%m-%d %H:%M:%S"


class _JsonLines(logging.Handler):
    """Writes each message as a line of JSON."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        entry = {"time": when, "level": record.levelname, "name": record.name, "message": record.getMessage()}
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


@contextmanager
def logged_to(path: Path, *, echo: bool) -> Iterator[None]:
    """Write what a run logs to a file as long as the `with` lasts, and to standard error if asked."""
    logger = logging.getLogger(LOGGER)
    handlers: list[logging.Handler] = [_JsonLines(path)]
    if echo:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(logging.Formatter(_FORMAT, _TIME))
        handlers.append(shown)
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def provenance(bars: Bars, data: Dataset, model: str) -> dict[str, Any]:
    """Return what config.toml says of a run beside its settings."""
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        **_first_installed(model_class(model).packages),
        "git_commit": git_commit(),
        "source": bars.source,
        "data_sha256": bars.sha256(),
        "n_bars": bars.n_rows,
        "symbols": list(bars.symbols),
        "bars_from": str(bars.time.min()),
        "bars_to": str(bars.time.max()),
        "n_gaps": len(bars.gaps),
        "features": list(data.names),
        "classes": data.classes.tolist(),
    }


def git_commit() -> str:
    """Return the commit of the working folder, with "-dirty" where files differ from it; empty outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    found = subprocess.run(  # noqa: S603 - a fixed command
        [git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def _first_installed(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the version of the first of the packages that is installed."""
    for package in packages:
        try:
            return {package: version(package)}
        except PackageNotFoundError:
            continue
    return {}
