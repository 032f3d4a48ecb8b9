"""
Venn-Abers: a probability with a range
======================================

Venn-Abers fits isotonic regression twice for each new score: once as if the new row were negative, once as if it were
positive. The two answers are a range. It is wide where few rows tell what a score means, and shrinks as rows come in.
"""

# %%
# The scores say p where the event happens with probability p squared.

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(4)
p = rng.beta(1.2, 1.6, 4_000)
y = (rng.random(p.size) < p**2).astype(int)
grid = np.linspace(0.01, 0.99, 197)

# %%
# The range of each score, from sixty rows to four thousand
# ---------------------------------------------------------
# ``predict_interval`` gives both fits, and ``predict_proba`` the one probability between them that is least bad
# whichever of the two is right.

sizes = (60, 400, 4_000)
widths = {}
fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
for ax, n in zip(axes, sizes, strict=True):
    calibrator = cb.VennAbersCalibrator().fit(p[:n], y[:n])
    low, high = calibrator.predict_interval(grid)
    widths[n] = high - low
    ax.fill_between(grid, low, high, step="mid", alpha=0.35, label="range")
    ax.plot(grid, calibrator.predict_proba(grid), drawstyle="steps-mid", linewidth=1.5, label="one probability")
    ax.plot(grid, grid**2, color="black", linestyle=":", label="truth")
    ax.plot(p[:n], np.full(n, -0.03), "|", color="0.5", markersize=6, alpha=min(1.0, 200 / n))
    ax.set(title=f"{n:,} rows", xlabel="score", ylim=(-0.06, 1.02))
axes[0].set_ylabel("probability")
axes[0].legend(loc="upper left")
plt.show()

# %%
# The ticks below the curves are the scores of the rows. Where they are sparse, the range is wide.

for n in sizes:
    print(f"{n:5,} rows: the range is {widths[n].mean():.3f} wide on average, {widths[n].max():.3f} at most")

assert widths[60].mean() > 2 * widths[400].mean() > 4 * widths[4_000].mean()
sparse, dense = widths[400][grid > 0.9].mean(), widths[400][(grid > 0.2) & (grid < 0.6)].mean()
assert sparse > dense

# %%
# What the range promises, and what it does not
# ---------------------------------------------
# The promise is about calibration: one of the two probabilities is calibrated for any scores, with any number of rows,
# if rows are exchangeable. It is not an interval that holds the true probability of each score 95 times in 100. How
# often does it? Two hundred draws of 400 rows say:

held = np.zeros(grid.size)
for _ in range(200):
    q = rng.beta(1.2, 1.6, 400)
    low, high = cb.VennAbersCalibrator().fit(q, rng.random(q.size) < q**2).predict_interval(grid)
    held += (low <= grid**2) & (grid**2 <= high)
held /= 200
print(f"the range holds the true probability in {held.mean():.0%} of all cases")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(grid, held, linewidth=2)
ax.axhline(0.95, color="0.6", linestyle="--")
ax.text(0.5, 0.93, "an interval of 95% would lie here", ha="center", va="top", color="0.4")
ax.set(xlabel="score", ylabel="share of draws", ylim=(0, 1.02), title="How often the range holds the truth, 400 rows")
plt.show()

# %%
# Far less often. Take the range as what it is, a measure of how much one more row would change the answer, and take
# ``reliability_curve`` with its intervals to say how often the event happens.

assert held.mean() < 0.8
