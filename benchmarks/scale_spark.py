"""The same work on Spark, against Spark's own scan of the same columns and its own copy of the table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks._harness import Results, Rounds
from benchmarks.scale_rows import write_rows

SIZES = (1_000_000, 10_000_000)
_ROUNDS = 3
#: The goals of the issue, in scans and copies.
_EXACT_GOAL, _CELLS_GOAL, _APPLY_GOAL = 6.0, 3.0, 2.0

#: A process that measures itself, its Java and its Python workers, by the clocks of all of them.
_START = """\
import json, os, shutil, sys, time
from pathlib import Path
import numpy as np
import calibrant as cb
from calibrant.maps import StepMap
from pyspark.sql import SparkSession

def cpu_s():
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = stat.read_text().rpartition(")")[2].split()
        except OSError:  # that process has just ended
            continue
        parents[int(stat.parent.name)] = int(rest[1])
        ticks[int(stat.parent.name)] = sum(map(int, rest[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")

folder, root, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
out = root / "out"
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.local.dir", str(root / "blocks"))
    .config("spark.sql.warehouse.dir", str(root / "tables"))
    .config("spark.sql.files.maxPartitionBytes", str(1 << 24))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
rows = spark.read.parquet(folder)
p = np.linspace(0.0, 1.0, 3_001)
few = cb.HistogramCalibrator(n_bins=20).fit(p, np.arange(3_001) * 7_919 % 3_000 < np.arange(3_001))
many = cb.HistogramCalibrator(n_bins=20).fit(p, np.arange(3_001) * 7_919 % 3_000 < np.arange(3_001))
many.map_ = StepMap(p[1:-1], p[1:])
steps = {
    "scan": lambda: rows.select("p", "y").write.format("noop").mode("overwrite").save(),
    "summarise": lambda: cb.engines.summarise(rows),
    "summarise in cells": lambda: cb.engines.summarise(rows, exact=False),
    "copy": lambda: rows.withColumn("q", rows.p).write.parquet(str(out)),
    "apply in SQL": lambda: cb.engines.apply(few, rows, out, score="p"),
    "apply in Python": lambda: cb.engines.apply(many, rows, out, score="p"),
}
found = {name: ([], []) for name in steps}
for i in range(rounds + 1):
    for name, step in steps.items():
        cpu, wall = cpu_s(), time.perf_counter()
        step()
        if i:  # the first round compiles
            found[name][0].append(time.perf_counter() - wall)
            found[name][1].append(cpu_s() - cpu)
        shutil.rmtree(out, ignore_errors=True)
print(json.dumps(found))
spark.stop()
"""


def run_spark(results: Results) -> None:
    """Add the rounds of each step at each size; where Spark can't run, say why."""
    reason = _missing()
    if reason:
        print(f"Spark is left out: {reason}.")
        return
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for n in SIZES:
            write_rows(root / "rows", n)
            _report(results, n, _measure(root))
            shutil.rmtree(root / "rows")


def _missing() -> str:
    """Say what Spark lacks here, or nothing."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    said = "" if java is None else subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        return "it needs Java 17 or newer"
    return "" if Path("/proc/self/stat").exists() else "times of its processes are read from /proc"


def _measure(root: Path) -> dict[str, Rounds]:
    args = [sys.executable, "-c", _START, str(root / "rows"), str(root), str(_ROUNDS)]
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(args, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    return {name: Rounds(*times) for name, times in json.loads(done.stdout.splitlines()[-1]).items()}


def _report(results: Results, n: int, found: dict[str, Rounds]) -> None:
    case = f"Spark local[2], {n:.0e} rows"
    results.note(case, found)
    results.ratio(case, "summarise / scan", found["summarise"], found["scan"], at_most=_EXACT_GOAL)
    results.ratio(case, "summarise in cells / scan", found["summarise in cells"], found["scan"], at_most=_CELLS_GOAL)
    results.ratio(case, "apply in SQL / copy", found["apply in SQL"], found["copy"], at_most=_APPLY_GOAL)
    results.ratio(case, "apply in Python / copy", found["apply in Python"], found["copy"], at_most=_APPLY_GOAL)
