"""
More rows than memory
=====================

All that a calibrator of one score needs to know of its rows fits into a small table: the distinct scores and their
counts. ``calibrant.engines`` folds files of any size into it, batch by batch, and gives the fit that memory would give.
"""

# %%
# A folder of files
# -----------------
# Eight Parquet files of fifty thousand rows each stand for something much larger. Scores have four decimals, as those
# in files often do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

import calibrant as cb

workplace = tempfile.TemporaryDirectory()
folder = Path(workplace.name) / "scores"
folder.mkdir()
rng = np.random.default_rng(0)
parts = []
for i in range(8):
    p = rng.beta(1.0, 2.0, 50_000).round(4)
    part = pa.table({"p": p, "y": (rng.random(p.size) < p**1.5).astype(np.int8)})
    parquet.write_table(part, folder / f"part-{i}.parquet")
    parts.append(part)
everything = pa.concat_tables(parts)

# %%
# Fit, evaluate, apply: each takes the folder
# -------------------------------------------

calibrator = cb.engines.fit(cb.IsotonicCalibrator(bounded=True), folder, score="p", label="y")
found = cb.engines.evaluate(folder, score="p", label="y")
print(found.verdict)
done = cb.engines.apply(calibrator, folder, Path(workplace.name) / "calibrated", score="p")
print(f"{done.n_rows:,} rows written in {done.n_parts} files")
workplace.cleanup()

in_memory = cb.IsotonicCalibrator(bounded=True).fit(everything["p"], everything["y"])
grid = np.linspace(0, 1, 1_001)
same = (calibrator.predict_proba(grid) == in_memory.predict_proba(grid)).all()
print("the same bits as in memory:", bool(same))
assert same
assert done.n_rows == everything.num_rows

# %%
# The summary
# -----------
# ``ScoreSummary`` is the table. Those of parts merge into that of the whole, in any order, on any number of machines.

summaries = [cb.ScoreSummary.from_arrays(part["p"], part["y"]) for part in parts]
distinct, merged = [], None
for summary in summaries:
    merged = summary if merged is None else merged.merge(summary)
    distinct.append(len(merged.scores))
again = cb.IsotonicCalibrator(bounded=True).fit_summary(merged)
assert (again.predict_proba(grid) == in_memory.predict_proba(grid)).all()

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained")
rows = 50_000 * np.arange(1, 9)
left.plot(rows, rows, color="tab:red", marker="o", label="rows")
left.plot(rows, distinct, color="tab:blue", marker="o", label="distinct scores, all that is kept")
left.set(xlabel="rows read", ylabel="table entries", yscale="log", title="What has to be kept")
left.xaxis.set_major_formatter(lambda x, _: f"{x / 1_000:.0f}k")
left.legend(loc="center right")
right.plot(grid, calibrator.predict_proba(grid), label="from the folder")
right.plot(grid, grid**1.5, color="black", linestyle=":", label="truth")
right.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
right.set(xlabel="score", ylabel="calibrated probability", title="Isotonic regression of 400,000 rows")
right.legend()
plt.show()

print(f"{everything.num_rows:,} rows, {distinct[-1]:,} distinct scores")
assert distinct[-1] <= 10_001

# %%
# Scores with all their digits
# ----------------------------
# Then nearly every score is distinct. Beyond four million of them, scores are put into cells of neighbours, and bounds
# say what that can change at most. ``exact=False`` asks for cells at once:

fine = pa.table({"p": rng.beta(1.0, 2.0, 100_000)})
fine = fine.append_column("y", pa.array((rng.random(100_000) < fine["p"].to_numpy() ** 1.5).astype(np.int8)))
few = cb.engines.summarise(fine, score="p", label="y", exact=False)
print(f"{len(few.scores):,} cells; bounds: {few.bounds.in_words}")
in_cells = cb.IsotonicCalibrator(bounded=True).fit_summary(few).predict_proba(grid)
exact = cb.IsotonicCalibrator(bounded=True).fit(fine["p"], fine["y"]).predict_proba(grid)
apart = np.abs(in_cells - exact)
print(f"the two fits differ by {apart.max():.4f} at most, by {apart.mean():.5f} on average")
assert apart.mean() < 0.005
