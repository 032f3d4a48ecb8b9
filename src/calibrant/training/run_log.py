"""The log of a run: a file of JSON lines, and standard error."""

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


@contextmanager
def logged_to(path: Path, *, echo: bool) -> Iterator[None]:
    """Write what a run logs to a file as long as the `with` lasts, and to standard error if asked."""
    logger = logging.getLogger(LOGGER)
    handlers: list[logging.Handler] = [logging.FileHandler(path, "w", encoding="utf-8")]
    handlers[0].setFormatter(_AsJson())
    if echo:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[1].setFormatter(logging.Formatter(_FORMAT, _TIME))
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


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        entry = {"time": when, "level": record.levelname, "name": record.name, "message": record.getMessage()}
        return json.dumps(entry)
