"""
How many rows does a calibration error need?
============================================

A calibration error without an interval says little: perfect probabilities have an ECE above zero in any sample. How
wide are the intervals, and how many rows does it take before an error of a given size can be seen, or ruled out?
"""

# %%
# Two models
# ----------
# One is right: what it says is what happens. The other one is too sure, with logits 1.4 times what they should be.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import calibrant as cb


def draw_rows(n, rng, factor):
    """Draw probabilities whose logits are `factor` times those of the truth, and outcomes."""
    logits = rng.normal(0.0, 1.5, n)
    return (rng.random(n) < expit(logits)).astype(int), expit(factor * logits)


# %%
# The plain ECE can't tell them apart at first
# --------------------------------------------
# Forty draws of each size, of each model. The band holds nine of ten draws.

sizes = np.array([100, 300, 1_000, 3_000, 10_000])
models = {"right": 1.0, "too sure": 1.4}
metrics = {"ece": cb.metrics.ece, "ece_debiased": cb.metrics.ece_debiased}
rng = np.random.default_rng(0)
found = {(name, metric): np.empty((sizes.size, 40)) for name in models for metric in metrics}
for name, factor in models.items():
    for i, n in enumerate(sizes):
        for draw in range(40):
            y, p = draw_rows(n, rng, factor)
            for metric, function in metrics.items():
                found[name, metric][i, draw] = function(y, p)

truth = {}
for (
    name,
    factor,
) in models.items():  # the root mean square of all gaps, and their mean: by a million rows without chance
    logits = np.random.default_rng(1).normal(0.0, 1.5, 1_000_000)
    gap = expit(factor * logits) - expit(logits)
    truth[name, "ece"], truth[name, "ece_debiased"] = np.abs(gap).mean(), np.sqrt(np.mean(gap**2))

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained")
for ax, metric, title in zip(axes, metrics, ("ECE, 15 bins", "ECE, freed of noise"), strict=True):
    for name, colour in (("right", "tab:green"), ("too sure", "tab:red")):
        draws = found[name, metric]
        ax.fill_between(sizes, *np.quantile(draws, [0.05, 0.95], axis=1), color=colour, alpha=0.25)
        ax.plot(sizes, draws.mean(axis=1), color=colour, marker="o", label=f"a model that is {name}")
        ax.axhline(truth[name, metric], color=colour, linestyle=":", linewidth=1.5)
    ax.set(xscale="log", xlabel="rows", title=title)
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
axes[0].set_ylabel("calibration error")
axes[0].legend()
plt.show()

# %%
# The dotted lines are the truth. With a hundred rows the plain ECE of a model that is right lies above the line of the
# model that is too sure: what it measures is noise. Its bias shrinks, and is gone with thousands of rows only. Freed of
# noise, the error of the model that is too sure is right on average at every size. That of the model that is right is
# never below 0, and so a little above it on average.

first, last = found["right", "ece"][0].mean(), found["right", "ece"][-1].mean()
print(f"mean ECE of the model that is right: {first:.3f} with 100 rows, {last:.3f} with 10,000")
assert first > truth["too sure", "ece"]
noise_free = found["too sure", "ece_debiased"].mean(axis=1)
assert np.all(np.abs(noise_free - truth["too sure", "ece_debiased"]) < 0.015)
assert last < 0.25 * truth["too sure", "ece"]

# %%
# How many rows does a question need?
# -----------------------------------
# ``evaluate`` gives every figure with a 95% interval. Its width falls with the square root of the rows: a hundred times
# as many rows for one more digit.

wide = []
for n in sizes:
    y, p = draw_rows(n, rng, 1.4)
    gap, error = (cb.evaluate(y, p)[name] for name in ("mean_gap", "ece_debiased"))
    wide.append((n, gap.high - gap.low, error.low, error.value, error.high))
    print(f"{n:6,} rows: mean gap known to {gap.high - gap.low:.3f}; {error}")

wide = np.array(wide)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.errorbar(wide[:, 0], wide[:, 3], yerr=[wide[:, 3] - wide[:, 2], wide[:, 4] - wide[:, 3]], fmt="o", capsize=4)
ax.axhline(truth["too sure", "ece_debiased"], color="tab:red", linestyle=":", label="truth")
ax.set(
    xscale="log", xlabel="rows", ylabel="debiased calibration error", title="The model that is too sure, 95% intervals"
)
ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# A rule of thumb: a mean gap is known to about four standard deviations of a coin over the root of the rows, which is 2
# / sqrt(n) at most. For a gap of two points that is ten thousand rows.

assert np.all(wide[:, 1] < 2 / np.sqrt(wide[:, 0]))
assert np.all((wide[-2:, 2] > 0) & (wide[-2:, 2] < truth["too sure", "ece_debiased"]) & (wide[-2:, 4] > 0.04))
