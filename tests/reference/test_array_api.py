"""Arrays of other libraries go through a calibrated classifier as through scikit-learn's own.

SciPy reads SCIPY_ARRAY_API when it is imported, so all of these run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_sklearn_suite import run

import calibrant as cb

CASES = Path(__file__).with_name("array_api_cases.py")
DISPATCH = {"SCIPY_ARRAY_API": "1"}
#: Why a case may be skipped: a library that is not installed, or a device that the machine doesn't have.
NOT_HERE = ("cupy is not installed", "dpnp is not installed", "torch is not installed", "is not available")

pytest.importorskip("array_api_strict", reason="array-api-strict of the test group is not installed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "chosen", "n_passed"),
    [
        ("sklearn.tests.test_calibration", "array_api", 24),
        ("sklearn.tests.test_common", "CalibratedClassifierCV and array_api", 4),
    ],
)
def test_scikit_learns_tests_of_arrays(tmp_path: Path, module: str, chosen: str, n_passed: int) -> None:
    outcome = run(tmp_path, module, "-k", chosen, env=DISPATCH)
    assert outcome.failed == {}
    assert len(outcome.passed) >= n_passed
    assert {why for why in outcome.skipped.values() if not any(text in why for text in NOT_HERE)} == set()
    (owners,) = outcome.owners.values()
    assert owners["CalibratedClassifierCV"].startswith("calibrant.")


@pytest.mark.slow
def test_arrays_of_other_libraries_go_through_every_method() -> None:
    """Without torch its cases are skipped: PyPI has no wheel of it for CPUs alone."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-o", "addopts=", str(CASES)]
    places = [str(Path(cb.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | DISPATCH | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    env.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, env=env, cwd=CASES.parent, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skips if "torch has no wheel" not in line] == []
