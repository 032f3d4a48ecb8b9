"""
Decisions at a threshold: the gap before and after
==================================================

A forecast can be calibrated on average and still mislead every decision. Sahoo et al. (2021) define threshold
calibration: wherever a rule says "act if the chance of staying below y0 is at most alpha", what happens is what was
promised. This example draws their figure, the decision gap before and after.
"""

# %%
# A forecast that is right on average only
# ----------------------------------------
# The noise is small where the mean is low and large where it is high. The forecast has one spread for all, which is
# right on average. Over all rows its intervals hold what they should.

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb
from calibrant import forecasts

rng = np.random.default_rng(0)
mean = rng.normal(size=4_000)
spread = np.where(mean > 0, 1.5, 0.4)
y = mean + spread * rng.normal(size=mean.size)
forecast = forecasts.GaussianForecast(mean, np.full(mean.size, np.sqrt(np.mean(spread**2))))
average = forecasts.AverageRecalibrator().fit(forecast[:1_000], y[:1_000])  # as many do: over all rows
base = average.transform(forecast)
fit, test = slice(1_000, 2_500), slice(2_500, None)

held = forecasts.coverage(base[test], y[test], level=0.9)
print(f"90% intervals hold {held:.1%} of all outcomes")
assert abs(held - 0.9) < 0.02

# %%
# Thresholds, before and after
# ----------------------------
# ``ThresholdRecalibrator`` splits rows by rules and recalibrates both sides, round by round, until no rule's sides are
# off. The family of rules has twelve thresholds and as many levels, and each has losses in both directions.

recalibrator = forecasts.ThresholdRecalibrator().fit(base[fit], y[fit])
mended = recalibrator.transform(base[test])

y0, alpha = np.quantile(y[fit], np.linspace(0.05, 0.95, 12)), np.linspace(0.05, 0.95, 12)
gaps = {
    name: forecasts.reliability_gaps(each, y[test], y0=y0, alpha=alpha)
    for name, each in (("calibrated on average", base[test]), ("threshold recalibrated", mended))
}
cb.ReliabilityGapDisplay(gaps).plot()
plt.show()

# %%
# The maps show the gap between promised and realised loss for each rule: yellow is bad. On the right each rule and loss
# is a point, with what it promised across and what it cost up. On the diagonal a promise is kept.

for name, each in gaps.items():
    print(f"{name:24} mean gap {each.mean:.3f}, largest {each.max:.3f}")
assert gaps["threshold recalibrated"].mean < 0.6 * gaps["calibrated on average"].mean

# %%
# One rule, from near
# -------------------
# "Act where staying below 0 has a chance of at most 0.3." The curves are of the rows where the rule says yes.

rule = forecasts.ThresholdRule(0.0, 0.3)
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
errors = {}
for (name, each), colour in zip(
    (("calibrated on average", base[test]), ("threshold recalibrated", mended)), ("C1", "C0"), strict=True
):
    yes, _ = forecasts.threshold_curves(each, y[test], rule)
    errors[name] = yes.error
    ax.fill_between(yes.levels, yes.low, yes.high, alpha=0.2, color=colour, linewidth=0)
    ax.plot(yes.levels, yes.share, color=colour, label=f"{name}, {yes.n:,} rows")
ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
ax.set(xlabel="level of the quantile", ylabel="share of outcomes below it", title="Rows where the rule says yes")
ax.legend()
plt.show()
print({name: round(error, 3) for name, error in errors.items()})
assert errors["threshold recalibrated"] < errors["calibrated on average"]

# %%
# What was paid for it? The CRPS of all rows falls too, since the recalibrated forecast knows where it is noisy.

crps = [forecasts.crps(each, y[test]) for each in (base[test], mended)]
print(f"CRPS {crps[0]:.4f} before, {crps[1]:.4f} after")
assert crps[1] < crps[0]

# %%
# Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS.
