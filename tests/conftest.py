"""Settings of the whole suite: the same examples in every run, and no window for a picture."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from postgres_server import postgres as postgres
from spark_session import spark as spark
from unrendered import unrendered as unrendered

#: Several folders have a conftest.py; looked through for examples, they would clash by name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

os.environ["MPLBACKEND"] = "Agg"
# Boosting libraries with more threads than free cores run many times slower, and tests may run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Hundreds of tests start a Python of their own, which would compile each module anew, as pytest would each test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The first call of a compiled loop takes seconds: a deadline would measure the compiler.
settings.register_profile("calibrant", deadline=None, derandomize=True, database=None)
settings.load_profile("calibrant")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `make test-fast` passes."""
    parser.addoption("--fast", action="store_true", help="run the first case of each test, and few random examples")


class ClosedFigures:
    """Every test, and every example of the documentation, ends without figures: past 20, matplotlib warns."""

    @pytest.fixture(autouse=True)
    def closed_figures(self) -> Iterator[None]:
        yield
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of tests that take long, draw few random examples in a fast run, and leave no figure open."""
    config.pluginmanager.register(ClosedFigures())
    config.addinivalue_line("markers", "slow: left out by --fast, as other tests of the module are quicker")
    config.addinivalue_line("markers", "rendered: pictures are looked at, and so rendered")
    if config.getoption("--fast"):
        settings.register_profile("fast", settings.get_profile("calibrant"), max_examples=5)
        settings.load_profile("fast")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep, in a fast run, the first case of each test, and none of the slow ones."""
    if not config.getoption("--fast"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            first.setdefault(item.nodeid.partition("[")[0], item)
    kept = {id(item) for item in first.values()}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = list(first.values())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected out of garbage collections: to walk through all tests takes a third of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let noise floors and bounds of forecasts, most of their `evaluate`, be drawn few times and at few thresholds."""
    from calibrant.forecasts import evaluation

    monkeypatch.setattr(evaluation, "_FLOOR_DRAWS", 3)
    monkeypatch.setattr(evaluation, "_NOISE_THRESHOLDS", 4)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process run the tests of a file, which share what they make; one all those on Spark, and of the site."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if "tests/docs/test_site" in nodeid:
                return "site"
            return "Spark" if "spark" in nodeid.lower() else nodeid.partition("::")[0]

    return Scheduling(config, log)
