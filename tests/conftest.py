"""Settings of the whole suite: the same examples in every run, and no window for a picture."""

from __future__ import annotations

import os

from hypothesis import settings

from spark_session import spark as spark

#: Several folders have a conftest.py; looked through for examples, they would clash by name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

os.environ["MPLBACKEND"] = "Agg"
# Boosting libraries with more threads than free cores run many times slower, and tests may run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a compiled loop takes seconds: a deadline would measure the compiler.
settings.register_profile("calibrant", deadline=None, derandomize=True, database=None)
settings.load_profile("calibrant")
