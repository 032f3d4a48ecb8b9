"""The built site, for all tests that look at it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from page_runner import ROOT

SITE = ROOT / "docs" / "_build" / "html"


@pytest.fixture(scope="session")
def site() -> Path:
    """Build what has changed since the last build, one process after the other."""
    SITE.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    with (SITE.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([*command, str(ROOT / "docs"), str(SITE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return SITE
