"""What `import calibrant` loads, and what it offers."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module

import pytest

import calibrant as cb
from public_names import public_objects

LATE = ("duckdb", "jinja2", "matplotlib", "numba", "pandas", "polars", "pyarrow", "scipy.stats", "sklearn")


def modules_after(code: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after running the code."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_import_loads_no_heavy_package() -> None:
    loaded = modules_after("import calibrant")
    assert "calibrant" in loaded
    assert loaded.isdisjoint(LATE)


@pytest.mark.slow
def test_fit_and_apply_of_arrays_load_no_table_or_picture_package() -> None:
    loaded = modules_after(
        "import calibrant as cb\ncb.IsotonicCalibrator().fit([0.1, 0.6, 0.4, 0.9], [0, 1, 0, 1]).predict_proba([0.5])"
    )
    assert "calibrant.calibrators.isotonic" in loaded
    assert loaded.isdisjoint({"jinja2", "matplotlib", "pandas", "polars", "pyarrow", "sklearn"})


@pytest.mark.parametrize("name", cb.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(cb, name) is not None


def test_public_names_are_unique_and_listed_by_dir() -> None:
    assert len(set(cb.__all__)) == len(cb.__all__)
    assert set(cb.__all__) <= set(dir(cb))


def test_what_public_functions_return_is_public() -> None:
    """What `evaluate` or `compare` returns has a page of its own, which says what it holds."""
    found = {
        full: getattr(import_module(full.rpartition(".")[0]), full.rpartition(".")[2]) for full in public_objects()
    }
    public = {value.__name__ for value in found.values() if isinstance(value, type)}
    hidden = set()
    for full, function in found.items():
        if not inspect.isfunction(function):
            continue
        returned = str(inspect.unwrap(function).__annotations__.get("return", ""))
        named = {name: inspect.unwrap(function).__globals__.get(name) for name in re.findall(r"\b[A-Z]\w+", returned)}
        ours = {k for k, v in named.items() if isinstance(v, type) and v.__module__.startswith("calibrant.")}
        abstract = {k for k in ours if inspect.isabstract(named[k]) or getattr(named[k], "_is_protocol", False)}
        hidden |= {f"{full} -> {name}" for name in ours - abstract - public}
    assert not hidden


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'calibrant' has no attribute 'IsotonicCalibrater'"):
        _ = cb.IsotonicCalibrater


def test_the_classifier_says_which_package_it_needs() -> None:
    script = "import sys\nsys.modules['sklearn'] = None\nimport calibrant\ncalibrant.CalibratedClassifierCV"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (
        "ImportError: CalibratedClassifierCV wraps scikit-learn's classifiers: pip install 'calibrant[sklearn]'"
        in done.stderr
    )
