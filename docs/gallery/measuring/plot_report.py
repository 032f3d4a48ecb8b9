"""
A page to send around
=====================

``Report`` writes one file that fetches nothing: a verdict in words, scores with intervals, diagrams before and after
calibration, and what decisions would cost. This example writes one for tumours of the breast, and draws its main
pictures by themselves.
"""

# %%
# The model sees two measurements of a cell only, and few rows, so that something is left to do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import calibrant as cb

data = load_breast_cancer()
X, y = data.data[:, [1, 5]], 1 - data.target  # 1: malignant
p = cross_val_predict(KNeighborsClassifier(9), X, y, cv=10, method="predict_proba")[:, 1]
fit, test = np.arange(y.size) % 2 == 0, np.arange(y.size) % 2 == 1

calibrator = cb.SigmoidCalibrator().fit(p[fit], y[fit])
report = cb.Report(
    y[test],
    p[test],
    calibrator=calibrator,
    problem={"wait": {0: 0.0, 1: 40.0}, "biopsy": {0: 10.0, 1: 5.0}},
    title="Malignant tumours from two measurements",
)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "report.html"
    report.write_html(file)
    page = file.read_text(encoding="utf-8")
print(f"{len(page) // 1024} kB in one file")

# %%
# The same as text, for a log or a message:

print(report.markdown().partition("## Reliability")[0])

# %%
# The diagrams of the page can be drawn alone. The reliability diagram has intervals and a histogram, and the second
# picture shows where the Brier score comes from: miscalibration across, discrimination up.

q = calibrator.predict_proba(p[test])
curves = [
    cb.reliability_curve(y[test], each, n_bins=6, label=name) for each, name in ((p[test], "before"), (q, "after"))
]
cb.ReliabilityDisplay(curves).plot()
plt.show()

# %%
# A rising map changes no ranking, so calibration moves a point straight to the left:

cb.DecompositionDisplay.from_predictions(y[test], {"before": p[test], "after": q})
plt.show()

before, after = (cb.metrics.decompose(y[test], each) for each in (p[test], q))
print(f"miscalibration {before.miscalibration:.4f} before, {after.miscalibration:.4f} after")
assert after.miscalibration < before.miscalibration
assert np.isclose(after.discrimination, before.discrimination)
assert "<svg" in page
