"""What a command costs before it begins: no import for its help, and compiled loops that were kept."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import pytest

from calibrant import calibrators, forecasts, metrics, persistence, rank_preserving, tables, training
from calibrant.cli import choices

SLOW_TO_IMPORT = ("numpy", "scipy", "numba", "pyarrow", "matplotlib", "pandas", "sklearn", "narwhals", "rich")
HELPED = (
    *("evaluate", "check", "compare", "audit", "fit", "apply", "export", "inspect", "report", "monitor", "warm-up"),
    *("runs", "train", "oof", "predict", "refresh", "forecast", "forecast fit", "forecast evaluate", "forecast apply"),
    "decide experiment",
    "rank-preserve",
    *("decide", "decide evaluate", "decide promise", "decide curve"),
)


def in_new_process(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout


def test_options_offer_what_there_is():
    assert sorted(choices.METHODS) == sorted(calibrators.CALIBRATORS)
    assert tuple(forecasts.RECALIBRATORS) == choices.RECALIBRATORS
    assert get_args(rank_preserving.Method) == choices.RANK_METHODS
    assert get_args(rank_preserving.Ties) == choices.TIES
    assert tables.FORMATS == choices.FORMATS
    assert persistence.DIALECTS == choices.DIALECTS
    assert persistence.FLOAT_TYPES == choices.FLOAT_TYPES
    assert training.DEFAULT_ROOT == choices.RUNS_ROOT
    assert tuple(training.MODELS) == choices.MODELS
    assert training.LABEL_KINDS == choices.LABEL_KINDS
    assert training.SPECIFIED == choices.SPECIFIED
    usual = training.TrainConfig().to_dict()
    assert {name: usual[name] for name in choices.TRAINING} == choices.TRAINING
    assert metrics.SCORE_BINS == choices.SCORE_BINS


@pytest.mark.parametrize("command", HELPED)
def test_help_imports_no_package_that_takes_long(command):
    code = (
        "import sys\nfrom calibrant.cli import main\n"
        f"main({[*command.split(), '--help']!r}, standalone_mode=False)\n"
        f"print('imported:', [name for name in {SLOW_TO_IMPORT!r} if name in sys.modules])"
    )
    assert in_new_process(code).splitlines()[-1] == "imported: []"


@pytest.mark.parametrize("command", ["evaluate rows.csv", "apply fitted.json rows.csv --score p -o out.csv"])
def test_small_files_need_neither_scipy_nor_pandas_nor_arrow_s_functions(tmp_path, command):
    rows = "y,p\n" + "".join(f"{int(i % 10 < i // 20)},{i / 200}\n" for i in range(1, 200))
    (tmp_path / "rows.csv").write_text(rows)
    fit = "fit rows.csv --label y --score p --method isotonic --bounded -o fitted.json"
    begin = f"import os, sys\nfrom calibrant.cli import main\nos.chdir({str(tmp_path)!r})\n"
    in_new_process(f"{begin}main({fit.split()!r}, standalone_mode=False)")
    code = (
        f"{begin}main({command.split()!r}, standalone_mode=False)\n"
        "print('imported:', [name for name in ('numba', 'scipy', 'pandas', 'pyarrow.compute') if name in sys.modules])"
    )
    assert in_new_process(code).splitlines()[-1] == "imported: []"


def test_a_fit_of_forecasts_needs_no_pandas(tmp_path):
    """pyarrow imports it to make arrays of NumPy."""
    rows = "y,mu,sigma\n" + "".join(f"{i * 37 % 100},{i},{1 + i % 3}\n" for i in range(100))
    (tmp_path / "rows.csv").write_text(rows)
    command = "forecast fit rows.csv --mean mu --std sigma --method average -o f.json"
    code = (
        f"import os, sys\nfrom calibrant.cli import main\nos.chdir({str(tmp_path)!r})\n"
        f"main({command.split()!r}, standalone_mode=False)\nprint('imported:', 'pandas' in sys.modules)"
    )
    assert in_new_process(code).splitlines()[-1] == "imported: False"


@pytest.mark.slow
def test_warm_up_keeps_the_loops_that_a_default_fit_needs(tmp_path):
    found = in_new_process("from calibrant.cli import main; main(['warm-up'])", NUMBA_CACHE_DIR=str(tmp_path))
    assert "Compiled" in found
    assert str(tmp_path) in found
    before = sorted(tmp_path.rglob("*.nbc"))
    code = (
        "import numpy as np, calibrant as cb\n"
        "rng = np.random.default_rng(1)\n"
        "p = rng.random(3_000)\n"
        "y = rng.random(3_000) < p\n"
        "cb.AutoCalibrator().fit(p, y).predict_proba(p)\n"
        "cb.evaluate(y, p)"
    )
    in_new_process(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert sorted(tmp_path.rglob("*.nbc")) == before
