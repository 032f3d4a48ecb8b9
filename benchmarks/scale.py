"""Rows that outgrow memory: seconds per row and peak memory against a plain scan of the same columns."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks._harness import Results, Rounds
from benchmarks.scale_rows import write_rows
from benchmarks.scale_spark import run_spark

#: Rows of each size; 1e8 takes about 1 GB of disk for the rows and 2 GB for what apply writes.
SIZES = (1_000_000, 10_000_000, 100_000_000)
#: Rounds of each size: every step once in each, so that whatever else the machine does meets them alike.
_ROUNDS = {1_000_000: 5, 10_000_000: 3, 100_000_000: 1}
_SUMMARISE_GOAL = 3.0
_ISOTONIC_GOAL = 6.0
_APPLY_GOAL = 3.0
#: The largest growth exponent that n log n has between these sizes.
_GROWTH_GOAL = 1.1
_MEMORY_GOAL = 1.25
#: Megabytes that a page on the most rows takes at most, the program itself included.
_REPORT_GOAL = 400.0

_START = """\
import json, os, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import calibrant as cb

def peak_mb():
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)

def scan(folder):
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1 << 17, columns=["p", "y"]):
                yield batch

def plain_scan(folder, out):
    for batch in scan(folder):
        pass

def plain_copy(folder, out):
    os.makedirs(out, exist_ok=True)
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow.append(pa.field("q", pa.float64()))
            with pq.ParquetWriter(Path(out) / path.name, schema) as writer:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group)
                    writer.write_table(pa.table([*table.columns, table["p"]], schema=schema))

def summarise(folder, out):
    cb.engines.summarise(folder)

def summarise_in_cells(folder, out):
    cb.engines.summarise(folder, exact=False)

def fit_isotonic(folder, out):
    cb.engines.fit(cb.IsotonicCalibrator(), folder)

def fit_sigmoid(folder, out):
    cb.engines.fit(cb.SigmoidCalibrator(), folder)

def apply(folder, out):
    p = [i / 2000 for i in range(2001)]
    calibrator = cb.IsotonicCalibrator().fit(p, [i * 7919 % 2000 < i for i in range(2001)])
    cb.engines.apply(calibrator, folder, out, score="p")

def report(folder, out):
    from calibrant.cli import main
    os.makedirs(out, exist_ok=True)
    main(["report", folder, "--score", "p", "--label", "y", "-o", out + "/page.html"], standalone_mode=False)

step, small, folder, out = sys.argv[1:]
run = globals()[step]
run(small, out + "-small")
before = peak_mb()
cpu, wall = time.process_time(), time.perf_counter()
run(folder, out)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, peak_mb()]))
"""
_STEPS = (
    "plain_scan",
    "summarise",
    "summarise_in_cells",
    "fit_isotonic",
    "fit_sigmoid",
    "plain_copy",
    "apply",
    "report",
)


class Measured(NamedTuple):
    """What one step took."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def run() -> Results:
    """Measure each step at each size, each in a process of its own after a small run that compiles its loops."""
    results = Results("Rows beyond memory: Parquet files of score and label, all scores distinct, against a plain scan")
    found: dict[tuple[str, int], list[Measured]] = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_rows(root / "small", 50_000)
        for n in SIZES:
            write_rows(root / "rows", n)
            measure("plain_scan", root)  # what comes first would read from a cold disk
            for _ in range(_ROUNDS[n]):
                for step in _STEPS:
                    found.setdefault((step, n), []).append(measure(step, root))
            clear(root / "rows")
            judge(results, n, found)
    grow(results, found)
    run_spark(results)
    return results


def measure(step: str, root: Path) -> Measured:
    """Run a step in a new process; what it writes goes away."""
    args = [sys.executable, "-c", _START, step, str(root / "small"), str(root / "rows"), str(root / "out")]
    done = subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    for folder in root.glob("out*"):
        clear(folder)
    return Measured(*json.loads(done.stdout.splitlines()[-1]))


def clear(folder: Path) -> None:
    """Remove a folder of files."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def judge(results: Results, n: int, found: dict[tuple[str, int], list[Measured]]) -> None:
    """Note the steps of one size, and their ratios to the scan and the copy."""
    case = f"{n:.0e} rows"
    rounds = {}
    for step in _STEPS:
        measured = found[step, n]
        rounds[step] = Rounds([m.wall_s for m in measured], [m.cpu_s for m in measured])
        speed, peak_mb = n / least_cpu_s(measured) / 1e6, max(m.peak_mb for m in measured)
        results.note(case, {f"{step}: {speed:.1f} Mrows per CPU second, peak {peak_mb:,.0f} MB": rounds[step]})
    scan, copy = rounds["plain_scan"], rounds["plain_copy"]
    results.ratio(case, "summarise / scan", rounds["summarise"], scan, at_most=_SUMMARISE_GOAL)
    results.ratio(case, "summarise in cells / scan", rounds["summarise_in_cells"], scan, at_most=_SUMMARISE_GOAL)
    goal = _ISOTONIC_GOAL if n == SIZES[-1] else None
    results.ratio(case, "exact isotonic fit / scan", rounds["fit_isotonic"], scan, at_most=goal)
    results.ratio(case, "sigmoid fit / scan", rounds["fit_sigmoid"], scan)
    results.ratio(case, "apply / read and write", rounds["apply"], copy, at_most=_APPLY_GOAL)
    if n == SIZES[-1]:
        most = max(m.peak_mb for m in found["report", n])
        results.difference(case, "report: peak memory, MB", most, at_most=_REPORT_GOAL)


def least_cpu_s(measured: list[Measured]) -> float:
    """Return the processor time of the round that was disturbed least."""
    return min(m.cpu_s for m in measured)


def grow(results: Results, found: dict[tuple[str, int], list[Measured]]) -> None:
    """Note how time and memory grow from each size to the next."""
    for low, high in pairwise(SIZES):
        case = f"{low:.0e} to {high:.0e} rows"
        for step in _STEPS[1:]:
            if step in ("plain_copy", "report"):  # the page is of scores where they fit into memory, else of cells
                continue
            before, after = found[step, low], found[step, high]
            exponent = math.log(least_cpu_s(after) / least_cpu_s(before)) / math.log(high / low)
            results.difference(case, f"{step}: growth exponent", exponent, at_most=_GROWTH_GOAL)
            ratio = max(m.peak_mb for m in after) / max(m.peak_mb for m in before)
            limit = _MEMORY_GOAL if low >= SIZES[1] else math.inf
            results.difference(case, f"{step}: peak memory, times", ratio, at_most=limit)
