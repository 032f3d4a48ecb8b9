"""The log of a run: lines on standard error, and the same as JSON in the run's folder."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Write what a run logs to a file while the block runs, and to standard error if asked."""
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
