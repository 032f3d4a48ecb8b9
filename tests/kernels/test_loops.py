"""Loops in Python and in machine code give the same bits, and run where nothing can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import calibrant
from calibrant.kernels import _jit, pav, sorting, trades

SCORES = st.lists(st.sampled_from([-2.0, -1e-300, 0.0, 5e-324, 0.25, np.nextafter(0.25, 1.0), 0.5, 1.0]), max_size=40)


def run_both(loop, *args):
    """Run a loop in Python and compiled; return what either returns and writes."""
    found = []
    for run in (loop.interpret, loop.compile()):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        found.append((run(*own), [a.tobytes() for a in own if isinstance(a, np.ndarray)]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_python_and_machine_code_pool_to_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    n = 300
    p = np.sort(rng.random(n).round(2 + seed))
    keys = np.sort((p.view(np.uint64) << np.uint64(1)) | (rng.random(n) < p).astype(np.uint64))
    for n_negative in (-1, 0, 50):
        room = [np.zeros(n, np.int64) for _ in range(3)]
        in_python, compiled = run_both(pav.pool_keys, keys, n_negative, *room)
        assert in_python == compiled
        in_python, compiled = run_both(sorting.count_distinct, keys, n_negative)
        assert in_python == compiled
        codes, count, positives = np.zeros(n, np.uint64), np.zeros(n), np.zeros(n)
        in_python, compiled = run_both(sorting.run_lengths, keys, n_negative, codes, count, positives)
        assert in_python == compiled
    weight = rng.random(n)
    given_ = weight, weight * rng.random(n), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    in_python, compiled = run_both(pav.pool_weighted, *given_)
    assert in_python == compiled
    start = np.sort(rng.integers(0, 40, n))
    end = start + rng.integers(0, 6, n)
    closing = np.lexsort((start == end, end))
    rates = rng.random(n) / 20.0, rng.normal(0.0, 0.05, n)
    room = [np.zeros((2, n)), np.zeros(46), np.zeros(46)]
    in_python, compiled = run_both(trades.share_capital, start, end, closing, *rates, 0.7, *room)
    assert in_python == compiled


@settings(deadline=None)
@given(SCORES)
def test_python_and_machine_code_tie_the_same_scores(values):
    scores = np.unique(np.array(values, dtype=np.float64))
    in_python, compiled = run_both(sorting.near_starts, scores.view(np.uint64), np.zeros(scores.size, np.int64))
    assert in_python == compiled


def test_a_loop_is_compiled_when_it_has_run_for_long(monkeypatch):
    monkeypatch.setattr(_jit, "_steps_left", [10])

    def add(values):
        total = 0.0
        for i in range(len(values)):
            total += values[i]
        return total

    loop = _jit.Loop(add, is_interpreted=True)
    assert loop(np.ones(6)) == 6.0
    assert loop.kept()[0] == 0
    assert loop(np.ones(6)) == 6.0  # two times six are more than ten
    assert loop.kept()[0] == 1
    monkeypatch.setattr(_jit, "_loops", [loop])
    assert _jit.kept_loops()[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("home_is_writable", [False, True])
def test_read_only_packages_work_and_fall_back_to_the_users_cache(tmp_path, home_is_writable):
    """Folders that can't be made stand for folders that can't be written, which stop no superuser."""
    site, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(Path(calibrant.__file__).parent, site / "calibrant", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "calibrant" / "kernels" / "__pycache__").write_text("no folder")
    if home_is_writable:
        home.mkdir()
    else:
        home.write_text("no folder")
    code = (
        "import numpy as np, calibrant as cb\n"
        "from calibrant.kernels._jit import compile_at_once\n"
        "compile_at_once()\n"
        "p = np.linspace(0.01, 0.99, 50)\n"
        "print(cb.VennAbersCalibrator().fit(p, p > 0.4).predict_proba([0.5])[0])\n"
        "from calibrant import kernels\n"
        "print(kernels.kept_loops())"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    env |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    value, kept = done.stdout.splitlines()
    assert 0.5 < float(value) < 1.0
    assert (str(home) in kept) == home_is_writable
    assert not kept.startswith("(0,")
