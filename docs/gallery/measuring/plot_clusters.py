"""
Rows that hang together: patients, users, households
====================================================

A thousand rows of fifty patients are not a thousand independent rows. Whoever ignores it gets intervals that are too
narrow and finds miscalibration where there is none. ``cluster=`` says which rows hang together.
"""

# %%
# Fifty patients with twenty visits each
# --------------------------------------
# The probabilities are calibrated: over all patients, of rows with p the share p is positive. But a patient's visits
# resemble each other. A bell-shaped number of the patient decides all of his or her outcomes together with chance.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr, ndtri

import calibrant as cb


def draw_patients(rng, n_patients=50, n_visits=20, share=0.5):
    """Draw calibrated probabilities, outcomes that are correlated within a patient, and the patient of each row."""
    patient = np.repeat(np.arange(n_patients), n_visits)
    p = ndtr(rng.normal(0.0, 0.8, patient.size))
    own = rng.normal(size=n_patients)[patient]
    number = np.sqrt(share) * own + np.sqrt(1 - share) * rng.normal(size=patient.size)
    return (number < ndtri(p)).astype(int), p, patient


y, p, patient = draw_patients(np.random.default_rng(5))
naive, honest = cb.evaluate(y, p), cb.evaluate(y, p, cluster=patient)
print("rows taken as independent:", naive.verdict)
print("with cluster=patient:     ", honest.verdict)
print(f"{honest['mean_gap'].n:,} rows are worth about {honest['mean_gap'].n_eff:.0f} independent ones")

assert naive.verdict.startswith("Not calibrated")
assert honest.verdict.startswith("No miscalibration found")

# %%
# How often is a calibrated model accused?
# ----------------------------------------
# Sixty studies of the same kind. An interval of 95% should miss the true gap, which is 0, in three of them. The rate of
# all rows with its interval is a reliability curve of a single bin.

rng = np.random.default_rng(0)
intervals = {"as independent": [], "cluster=": []}
for _ in range(60):
    y, p, patient = draw_patients(rng)
    for name, cluster in (("as independent", None), ("cluster=", patient)):
        all_rows = cb.reliability_curve(y, p, cluster=cluster, n_bins=1)
        intervals[name].append([float(p.mean() - end[0]) for end in (all_rows.y, all_rows.high, all_rows.low)])

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained")
missed = {}
for ax, (name, each) in zip(axes, intervals.items(), strict=True):
    value, low, high = np.array(each).T
    order = np.argsort(value)
    is_missed = (low > 0) | (high < 0)
    missed[name] = is_missed.sum()
    colours = np.where(is_missed, "tab:red", "tab:blue")[order]
    ax.vlines(np.arange(60), low[order], high[order], color=colours)
    ax.scatter(np.arange(60), value[order], color=colours, s=10)
    ax.axhline(0.0, color="0.4", linewidth=1)
    ax.set(xlabel="study, sorted by its gap", title=f"{name}: {missed[name]} of 60 miss the truth")
axes[0].set_ylabel("mean gap with 95% interval")
plt.show()

assert missed["as independent"] > 15
assert missed["cluster="] <= 8

# %%
# The same goes for fits
# ----------------------
# ``cluster=`` in a calibrator's ``fit`` and in ``compare`` keeps a patient's rows in one fold, so that no fold is
# judged by rows that resemble those it was fitted to. What ``AutoCalibrator`` says of its own gain is then honest too:

for name, cluster in (("as independent", None), ("cluster=", patient)):
    auto = cb.AutoCalibrator().fit(p, y, cluster=cluster)
    print(f"{name:15} {auto.report_}".replace("\n", "\n" + " " * 16))
