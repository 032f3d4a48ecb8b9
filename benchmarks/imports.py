"""`import calibrant` takes at most three times `import numpy`; and what the first use of a name adds to it."""

from __future__ import annotations

from benchmarks._fresh import Fresh, race_fresh
from benchmarks._harness import Results

ROUNDS = 9


def run() -> Results:
    """Time imports in fresh processes."""
    results = Results("Imports, each in a fresh process whose files are in the page cache")
    case = "fresh process"
    times = results.note(
        case,
        race_fresh(
            {
                "import numpy": Fresh("import numpy"),
                "import calibrant": Fresh("import calibrant"),
                "calibrant.IsotonicCalibrator": Fresh("import calibrant; calibrant.IsotonicCalibrator"),
                "calibrant.evaluate": Fresh("import calibrant; calibrant.evaluate"),
                "import sklearn.isotonic": Fresh("import sklearn.isotonic"),
                "import sklearn.calibration": Fresh("import sklearn.calibration"),
            },
            rounds=ROUNDS,
        ),
    )
    numpy = times["import numpy"]
    results.ratio(case, "import calibrant / import numpy", times["import calibrant"], numpy, at_most=3.0)
    for name in ("calibrant.IsotonicCalibrator", "calibrant.evaluate", "import sklearn.calibration"):
        results.ratio(case, f"{name} / import numpy", times[name], numpy)
    return results
