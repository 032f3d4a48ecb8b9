"""
Mimic calibration, step by step
===============================

Mimic calibration cuts the sorted scores into small bins of equally many positives, merges neighbours until the rates
rise, and joins the bins by straight lines. It keeps its history, so one can watch it work. How does it compare with
isotonic regression and with Platt's sigmoid?
"""

# %%
# A rare event
# ------------
# Mimic was made for events that are rare, where bins of equally many rows would hold no positive at all. Here about one
# row in twenty is positive, and the scores are twice as sure as they should be.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

import calibrant as cb


def draw_scores(n, rng):
    """Draw scores, outcomes and the true probabilities: the logit of a score is 1.6 times that of the truth, plus 1."""
    p_true = expit(rng.normal(-3.6, 1.4, n))
    return expit(1.6 * logit(p_true) + 1.0), (rng.random(n) < p_true).astype(int), p_true


scores, y, _ = draw_scores(3_000, np.random.default_rng(5))
print(f"{y.sum()} positives in {y.size:,} rows")

# %%
# The history
# -----------
# ``record_history=True`` keeps the bins after every pass. ``MimicDisplay`` draws them from light to dark, beside the
# curve that they leave and its two rivals, fitted to the same rows.

mimic = cb.MimicCalibrator(5, record_history=True)
display = cb.MimicDisplay.from_calibrator(mimic, scores, y)
plt.show()

# %%
# The same as numbers. Each pass merges bins that have a lower rate than the one before them, and the last table is the
# calibrator:

sizes = [table.size for table in display.passes]
print("bins after each pass:", ", ".join(map(str, sizes)))
table = display.calibrator.calibrated_model_
for field in ("n", "positives", "score_mean", "rate"):
    print(f"{field:10}", " ".join(f"{value:6.3g}" for value in table[field]))

assert (np.diff(sizes) < 0).all()
assert (np.diff(table["rate"]) >= 0).all()

# %%
# Against its rivals, on new rows
# -------------------------------
# One draw tells little, so each method is fitted to forty draws and judged by the true probabilities of new rows. The
# cost is the log loss in expectation, above that of the truth.

makers = {
    "mimic, 5 positives": lambda: cb.MimicCalibrator(5, bounded=True),
    "mimic, 20 positives": lambda: cb.MimicCalibrator(20, bounded=True),
    "isotonic": lambda: cb.IsotonicCalibrator(bounded=True),
    "sigmoid (Platt)": cb.SigmoidCalibrator,
    "spline": cb.SplineCalibrator,
}
rng = np.random.default_rng(0)
new, _, p_new = draw_scores(4_000, rng)
least = -np.mean(p_new * np.log(p_new) + (1 - p_new) * np.log1p(-p_new))
cost = {name: [] for name in makers}
for _ in range(40):
    p, happened, _ = draw_scores(1_500, rng)
    for name, make in makers.items():
        q = make().fit(p, happened).predict_proba(new)
        cost[name].append(-np.mean(p_new * np.log(q) + (1 - p_new) * np.log1p(-q)) - least)

rows = []
for name, values in cost.items():
    mean, error = np.mean(values), np.std(values) / np.sqrt(len(values))
    rows.append((name, mean, mean - 1.96 * error, mean + 1.96 * error))
as_it_is = -np.mean(p_new * np.log(new) + (1 - p_new) * np.log1p(-new)) - least
print(f"as it is: {as_it_is:.4f}")
cb.ComparisonDisplay(rows, reference_name="the truth", xlabel="Log loss above that of the truth, 1,500 rows").plot()
plt.show()

# %%
# The truth is a sigmoid here, so Platt's method has the right shape and can't be beaten. Of the methods that assume no
# shape, mimic's straight lines do better than the steps of isotonic regression, and a smooth spline does better still.
# All of them are better than leaving the scores alone.

mean = {name: np.mean(values) for name, values in cost.items()}
assert mean["sigmoid (Platt)"] == min(mean.values())
assert mean["spline"] < mean["mimic, 5 positives"] < mean["isotonic"]
assert max(mean.values()) < as_it_is
