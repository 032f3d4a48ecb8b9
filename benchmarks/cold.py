"""The first use in a container: processor seconds of commands and calls in fresh processes with an empty numba cache.

Each goal is the one of the issue. `warm` is the second process with the same cache.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._harness import Tables

ROUNDS = 3
N_ROWS = 4_000
_ROOT = Path(__file__).parents[1]

_ROWS = """
import numpy as np
import calibrant as cb
rows = np.loadtxt({scores!r}, delimiter=",", skiprows=1)
y, p = rows[:, 0].astype(int), rows[:, 1]
"""
_CALIBRATORS = {"AutoCalibrator": 2.0, "IsotonicCalibrator": 0.4, "SigmoidCalibrator": 0.4, "BetaCalibrator": 0.4}
#: Commands with their goals in processor seconds with an empty cache.
_COMMANDS: dict[str, tuple[str, float]] = {
    "calibrant fit": ("fit scores.csv --label y --score p -o out.json", 3.5),
    "calibrant evaluate": ("evaluate scores.csv --label y --score p", 1.2),
    "calibrant forecast fit": ("forecast fit forecasts.csv --mean mu --std sigma -o forecast.json", 4.0),
    "calibrant apply, isotonic": ("apply isotonic.json scores.csv --score p -o out.csv", 0.6),
    "calibrant apply, auto": ("apply auto.json scores.csv --score p -o out.csv", 0.6),
    "calibrant apply, spline": ("apply spline.json scores.csv --score p -o out.csv", 0.6),
    "calibrant apply, mimic": ("apply mimic.json scores.csv --score p -o out.csv", 0.6),
}
_HELP_GOAL = 0.15
_WARM_EVALUATE_GOAL = 0.8
#: Commands whose --help is asked for.
_HELPS = (
    *("evaluate", "compare", "audit", "fit", "apply", "rank-preserve", "export", "inspect", "report", "monitor"),
    *("forecast", "forecast fit", "train", "oof", "runs"),
)


def run() -> Tables:
    """Run each case in fresh processes, cold and warm."""
    results = Tables(f"CPU seconds of the first use: fresh processes, {N_ROWS:,} rows, median of {ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder))
        rows = [_case(results, folder, name, code, None) for name, code in _imports().items()]
        for name, (code, goal) in _uses(folder).items():
            rows.append(_case(results, folder, name, code, goal))
    header = ("what", "goal", "cold", "import", "compile", "run", "warm")
    results.add("By part, with an empty cache; warm: the next process", header, rows)
    return results


def _imports() -> dict[str, str]:
    return {
        "python": "",
        "import numpy": "import numpy",
        "import sklearn.calibration": "import sklearn.calibration",
        "import calibrant": "import calibrant",
        "import numba": "import numba",
    }


def _uses(folder: str) -> dict[str, tuple[str, float]]:
    rows = _ROWS.format(scores=f"{folder}/scores.csv")
    found = {f"{name}().fit": (f"{rows}\ncb.{name}().fit(p, y)", goal) for name, goal in _CALIBRATORS.items()}
    found["cb.evaluate"] = (f"{rows}\ncb.evaluate(y, p)", 1.2)
    for name, (line, goal) in _COMMANDS.items():
        found[name] = (_command(line), goal)
    for name in _HELPS:
        found[f"calibrant {name} --help"] = (_command(f"{name} --help"), _HELP_GOAL)
    return found


def _command(line: str) -> str:
    return f"from calibrant.cli import main\nmain({line.split()!r}, prog_name='calibrant')"


def _case(results: Tables, folder: str, name: str, code: str, goal: float | None) -> tuple[str, ...]:
    """Measure a piece of code cold and warm, and judge it."""
    cold, warm = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_measure(code, folder, cache))
            warm.append(_measure(code, folder, cache))
    parts = {part: statistics.median(each[part] for each in cold) for part in cold[0]}
    again = statistics.median(each["total"] for each in warm)
    if goal is not None:
        results.goal(f"{name} cold at most {goal:g} s", parts["total"], at_most=goal)
    if name == "calibrant evaluate":
        results.goal(f"{name} warm at most {_WARM_EVALUATE_GOAL:g} s", again, at_most=_WARM_EVALUATE_GOAL)
    run = parts["total"] - parts["import"] - parts["compile"]
    figures = (parts["total"], parts["import"], parts["compile"], run, again)
    return (name, "" if goal is None else f"{goal:g}", *(f"{figure:.2f}" for figure in figures))


def _measure(code: str, folder: str, cache: str) -> dict[str, float]:
    """Run code in a new process in a folder, with a cache of its own; return its seconds by part."""
    paths = [str(_ROOT), str(_ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._parts", code],
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _write_files(folder: Path) -> None:
    """Write scores, forecasts and calibrators."""
    import calibrant as cb
    from calibrant.calibrators import make_calibrator

    rng = np.random.default_rng(0)
    logit = rng.normal(-1.0, 1.5, N_ROWS)
    p = 1.0 / (1.0 + np.exp(-logit))
    y = (rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-0.6 * logit - 0.2))).astype(int)
    np.savetxt(folder / "scores.csv", np.c_[y, p], delimiter=",", header="y,p", comments="", fmt=["%d", "%.17g"])
    mean, std = rng.normal(size=N_ROWS), rng.uniform(0.5, 1.5, N_ROWS)
    outcome = mean + 1.3 * std * rng.normal(size=N_ROWS)
    forecasts = np.c_[outcome, mean, std]
    np.savetxt(folder / "forecasts.csv", forecasts, delimiter=",", header="y,mu,sigma", comments="")
    for name, how in {"isotonic": {"bounded": True}, "auto": {}, "spline": {}, "mimic": {"bounded": True}}.items():
        cb.save(make_calibrator(name, **how).fit(p, y), folder / f"{name}.json")
