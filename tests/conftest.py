"""Settings of the whole suite: the same examples in every run, and no window for a picture."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

from spark_session import spark as spark

#: Several folders have a conftest.py; looked through for examples, they would clash by name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

os.environ["MPLBACKEND"] = "Agg"
# Boosting libraries with more threads than free cores run many times slower, and tests may run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a compiled loop takes seconds: a deadline would measure the compiler.
settings.register_profile("calibrant", deadline=None, derandomize=True, database=None)
settings.load_profile("calibrant")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process run all tests on Spark, which then start it once: those whose file or parameter says Spark."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "Spark" if "spark" in nodeid.lower() else nodeid

    return Scheduling(config, log)
