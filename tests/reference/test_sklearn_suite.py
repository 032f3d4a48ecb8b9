"""scikit-learn's own tests of its calibration module pass on ours, which stand in its place."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

import pytest
import sklearn
from sklearn_plugin import NAMES, OWNERS

import calibrant as cb

HERE = Path(__file__).parent
#: Tests that build scikit-learn's private classes and touch none of the public names: they would test scikit-learn.
PRIVATE = {
    "test_calibration_zero_probability": "builds _CalibratedClassifier",
    "test_sigmoid_calibration": "calls _sigmoid_calibration and _SigmoidCalibration",
    "test_sigmoid_calibration_max_abs_prediction_threshold": "calls _sigmoid_calibration",
    "test_temperature_scaling_input_validation": "fits _TemperatureScaling",
}
#: Why a test of scikit-learn may skip itself: the array API, which needs a variable. Those run in test_array_api.py.
ARRAY_API = "not checking array_api input"


@dataclass
class Outcome:
    """What a run of scikit-learn's tests said."""

    owners: dict[str, dict[str, str]]
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def run(
    folder: Path,
    module: str,
    *options: str,
    plugin: str = "sklearn_plugin",
    env: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """Run an installed test module of scikit-learn with a plugin, away from our own settings of pytest."""
    settings, results = folder / "pytest.ini", folder / "results.xml"
    settings.write_text("[pytest]\n", "utf-8")
    places = [str(folder), str(HERE), str(Path(cb.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(folder), "-p", plugin]
    command += ["--pyargs", module, "-q", "-s", "-W", "ignore", "-p", "no:cacheprovider", f"--junitxml={results}"]
    full = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places)), "MPLBACKEND": "Agg"} | env
    full.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run([*command, *options], cwd=folder, env=full, capture_output=True, text=True, check=False)
    assert results.exists(), f"{done.stdout}{done.stderr}"
    said = next(line for line in done.stdout.splitlines() if line.startswith(OWNERS))
    outcome = Outcome(json.loads(said.removeprefix(OWNERS)))
    for case in ElementTree.parse(results).iter("testcase"):
        name = case.attrib["name"]
        skip, fault = case.find("skipped"), case.find("failure")
        fault = case.find("error") if fault is None else fault
        if skip is not None:
            outcome.skipped[name] = f"{skip.attrib.get('message', '')} {skip.text or ''}"
        elif fault is not None:
            outcome.failed[name] = f"{fault.attrib.get('message', '')} {fault.text or ''}"
        else:
            outcome.passed.append(name)
    return outcome


def check_all_passed(outcome: Outcome, module: str, *, at_least: int, may_skip: tuple[str, ...] = ()) -> None:
    print(f"{module}: {len(outcome.passed)} passed, {len(outcome.skipped)} skipped, {len(outcome.failed)} failed")
    assert outcome.failed == {}
    odd = {n: why for n, why in outcome.skipped.items() if not any(text in why for text in (ARRAY_API, *may_skip))}
    assert odd == {}, "skipped for another reason than the array API"
    assert len(outcome.passed) >= at_least
    (owners,) = outcome.owners.values()
    assert owners
    assert all(owner.startswith("calibrant.") for owner in owners.values()), owners


@pytest.mark.slow
def test_calibration_module(tmp_path: Path) -> None:
    private = [f"--deselect=::{name}" for name in PRIVATE]
    outcome = run(tmp_path, "sklearn.tests.test_calibration", *private)
    check_all_passed(outcome, "test_calibration", at_least=100)
    assert set(outcome.owners["sklearn.tests.test_calibration"]) == set(NAMES)
    ran = {name.partition("[")[0] for name in (*outcome.passed, *outcome.skipped)}
    assert ran & set(PRIVATE) == set()
    for name, reason in PRIVATE.items():
        print(f"left out: {name} {reason}")


def test_tests_left_out_are_there_and_touch_private_names_only() -> None:
    suite = ast.parse((Path(sklearn.__file__).parent / "tests" / "test_calibration.py").read_text("utf-8"))
    imported = [
        node for node in suite.body if isinstance(node, ast.ImportFrom) and node.module == "sklearn.calibration"
    ]
    hidden = {alias.name for node in imported for alias in node.names if alias.name.startswith("_")}
    tests = {node.name: node for node in suite.body if isinstance(node, ast.FunctionDef)}
    there = PRIVATE.keys() & tests.keys()
    is_older = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)
    assert there == set(PRIVATE) or is_older
    for name in there:
        used = {node.id for node in ast.walk(tests[name]) if isinstance(node, ast.Name)}
        assert used & set(NAMES) == set()
        assert used & hidden != set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "n_passed"),
    [
        ("sklearn.metrics._plot.tests.test_common_curve_display", "CalibrationDisplay", 11),
        ("sklearn.tests.test_metaestimators_metadata_routing", "CalibratedClassifierCV", 8),
        ("sklearn.tests.test_common", "CalibratedClassifierCV", 65),
    ],
)
def test_tests_that_all_displays_and_estimators_share(tmp_path: Path, module: str, name: str, n_passed: int) -> None:
    outcome = run(tmp_path, module, "-k", name)
    # scikit-learn's display has no from_cv_results either; its own class skips the check of writeable input too
    own_skips = ("`from_cv_results` not implemented", "doesn't require writeable input")
    check_all_passed(outcome, module, at_least=n_passed, may_skip=own_skips)


@pytest.mark.slow
def test_a_broken_stub_fails(tmp_path: Path) -> None:
    """The tests reach what the plugin puts in place: a curve that is wrong is found."""
    stub = "import sklearn_plugin\nfrom sklearn_plugin import *\n\n"
    stub += "def pytest_configure():\n    sklearn_plugin.pytest_configure()\n    import sklearn.calibration as module\n"
    stub += "    module.calibration_curve = lambda *_, **__: ([0.5], [0.5])\n\n"
    stub += "pytest_collection_finish = sklearn_plugin.pytest_collection_finish\n"
    (tmp_path / "broken_plugin.py").write_text(stub, "utf-8")
    outcome = run(tmp_path, "sklearn.tests.test_calibration", "-k", "test_calibration_curve", plugin="broken_plugin")
    assert not outcome.owners["sklearn.tests.test_calibration"]["calibration_curve"].startswith("calibrant.")
    assert {name.partition("[")[0] for name in outcome.failed} == {
        "test_calibration_curve",
        "test_calibration_curve_pos_label",
        "test_calibration_curve_pos_label_error_str",
    }
