"""
The calibrator as SQL and as ONNX
=================================

A fitted calibrator is a small piece of data, so it can go where the scores are: into a database as one SELECT, or into
an inference server as a graph. Both give the probabilities that Python gives.
"""

# %%
# A calibrator of each shape: a sigmoid has two numbers, isotonic regression a table of steps, and a spline a table of
# curved pieces.

import tempfile
import time
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pyarrow as pa

import calibrant as cb

rng = np.random.default_rng(0)
p = rng.beta(1.2, 1.6, 5_000)
y = (rng.random(p.size) < p**1.7).astype(int)
calibrators = {
    "sigmoid": cb.SigmoidCalibrator().fit(p, y),
    "isotonic": cb.IsotonicCalibrator(bounded=True).fit(p, y),
    "spline": cb.SplineCalibrator().fit(p, y),
}

# %%
# One SELECT
# ----------
# ``to_sql`` writes it in the dialect of DuckDB, Spark, PostgreSQL, BigQuery, Snowflake or SQLite.

sql = cb.persistence.to_sql(calibrators["sigmoid"], "duckdb", columns="p", table="scores", keep=["id"])
print(sql)

# %%
# Two hundred thousand rows, in all three ways
# --------------------------------------------
# SQL runs in DuckDB and the graph in ONNX Runtime. A missing score becomes NULL there.

n = 200_000
new = rng.beta(1.2, 1.6, n)
scores = pa.table({"id": np.arange(n), "p": new})
database = duckdb.connect()
database.register("scores", scores)

distance, rows_per_second = {}, {}
for name, calibrator in calibrators.items():
    expected = calibrator.predict_proba(new)
    query = cb.persistence.to_sql(calibrator, "duckdb", columns="p", table="scores", keep=["id"])
    graph = onnxruntime.InferenceSession(cb.persistence.to_onnx(calibrator).SerializeToString())
    feed = {graph.get_inputs()[0].name: new}
    runs = {
        "Python": lambda calibrator=calibrator: calibrator.predict_proba(new),
        "DuckDB": lambda query=query: database.sql(query).order("id").fetchnumpy()["p_calibrated"],
        "ONNX Runtime": lambda graph=graph, feed=feed: graph.run(None, feed)[0],
    }
    for engine, run in runs.items():
        began = time.perf_counter()
        found = np.asarray(run())
        rows_per_second[name, engine] = n / (time.perf_counter() - began)
        found = found[:, -1] if found.ndim == 2 else found
        distance[name, engine] = np.abs(found - expected).max()

for (name, engine), each in distance.items():
    print(f"{name:9} in {engine:13} is off by at most {each:.1e}")
assert max(distance.values()) < 1e-9

# %%
# The distances are those of one rounding of ``exp`` and ``ln``. The times are of this page's build, with a single run
# each: they say the order of magnitude and no more.

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
grid = np.linspace(0.001, 0.999, 500)
for name, calibrator in calibrators.items():
    left.plot(grid, calibrator.predict_proba(grid), label=name)
left.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
left.set(xlabel="score", ylabel="probability", title="Three maps")
left.legend()
engines = ["Python", "DuckDB", "ONNX Runtime"]
for i, name in enumerate(calibrators):
    right.barh(
        np.arange(3) + (i - 1) * 0.27, [rows_per_second[name, each] / 1e6 for each in engines], height=0.25, label=name
    )
right.set_yticks(np.arange(3), engines)
right.invert_yaxis()
right.set(xlabel="millions of rows per second", title="One run of 200,000 rows")
right.legend(loc="lower right")
plt.show()

# %%
# The file
# --------
# What is saved is text that can be read, and checked before it is used. Nothing in it can run.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "calibrator.json"
    cb.save(calibrators["sigmoid"], file)
    print(file.read_text(encoding="utf-8"))
    again = cb.load(file)
assert (again.predict_proba(new) == calibrators["sigmoid"].predict_proba(new)).all()
