"""
Estimates before there are labels
=================================

Calibrated probabilities say how good they are: of a row with 0.9 the class is right nine times in ten. So accuracy,
losses and ranking of new rows can be estimated before any label has come. It goes wrong where calibration does, and
this example shows both.
"""

# %%
# Customers who leave
# -------------------
# The model was trained and calibrated last year. Month by month the customers get younger, and younger ones are harder
# to tell apart. From month seven on, a competitor changes what the score means.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import calibrant as cb

rng = np.random.default_rng(2)


def draw_month(month, n=1_500):
    """Draw scores and what happens: logits get nearer to 0, and from month seven on are 0.9 too low."""
    sharpness = 2.2 - 0.2 * min(month, 6)
    logits = sharpness * rng.normal(size=n) - 0.8
    return expit(1.8 * logits), (rng.random(n) < expit(logits + (0.9 if month >= 7 else 0.0))).astype(int)


score, y = draw_month(0, 4_000)
calibrator = cb.TemperatureCalibrator().fit(score, y)

# %%
# Each month: the estimate first, then the labels
# -----------------------------------------------
# ``expected_scores`` takes probabilities alone. Its intervals are for what will be measured on these very rows.

names = ("accuracy", "brier", "auc")
expected = {name: [] for name in names}
measured = {name: [] for name in names}
raw = []
for month in range(1, 10):
    score, y = draw_month(month)
    q = calibrator.predict_proba(score)
    promise = cb.metrics.expected_scores(q)
    for name in names:
        expected[name].append((promise[name].value, promise[name].low, promise[name].high))
    raw.append(cb.metrics.expected_scores(score)["accuracy"].value)
    measured["accuracy"].append(np.mean((q >= 0.5) == y))
    measured["brier"].append(cb.metrics.brier_score(y, q))
    measured["auc"].append(cb.metrics.roc_auc(y, q))

months = np.arange(1, 10)
fig, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for ax, name in zip(axes, names, strict=True):
    value, low, high = np.array(expected[name]).T
    ax.fill_between(months, low, high, alpha=0.25)
    ax.plot(months, value, label="estimated without labels")
    ax.plot(months, measured[name], "o", color="black", markersize=5, label="measured with labels")
    ax.axvspan(6.5, 9.5, color="tab:red", alpha=0.07)
    ax.set(title=name, xlabel="month")
axes[0].plot(months, raw, color="tab:orange", linestyle="--", label="from scores that are not calibrated")
axes[0].set_ylim(bottom=0.5)
axes[0].legend(fontsize="small", loc="lower left")
plt.show()

# %%
# In the first six months the estimates follow what is measured, although the rows change: the band holds nearly all
# points. Scores that were never calibrated promise far too much. In the red months the meaning of a score has changed,
# and accuracy and Brier score are far from what was estimated: nothing in the rows could say so. The ranking stayed as
# it was, and so its estimate still holds.

inside = {
    name: np.array([low <= m <= high for (_, low, high), m in zip(expected[name], measured[name], strict=True)])
    for name in names
}
for name, held in inside.items():
    print(f"{name:9} held in {held[:6].sum()} of 6 months before the change, in {held[6:].sum()} of 3 after it")

assert sum(held[:6].sum() for held in inside.values()) >= 15
assert inside["accuracy"][6:].sum() == 0
assert np.min(np.array(raw)[:6] - np.array(measured["accuracy"])[:6]) > 0.03

# %%
# What helps
# ----------
# Labels of a few rows. With a hundred labels of month seven, the calibration test objects, long before all are there:

score, y = draw_month(7)
q = calibrator.predict_proba(score)
for n in (100, 400):
    print(f"{n} labels: {cb.evaluate(y[:n], q[:n]).verdict}")
assert cb.evaluate(y[:400], q[:400]).verdict.startswith("Not calibrated")
