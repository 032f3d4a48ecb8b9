"""
Labels that overlap in time
===========================

"Is the price higher in twenty days?" asked every day gives labels that share nineteen days with their neighbours. They
are hardly independent, and folds that are dealt at random let the future into the past.
"""

# %%
# A random walk that nobody can predict
# -------------------------------------
# The right probability of a rise is one half, every day. The model says something within ten points of it, which drifts
# slowly and means nothing.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import calibrant as cb

horizon = 20


def draw_walk(n, rng):
    """Draw what a model says each day, whether the walk is higher after the horizon, and the days."""
    walk = np.cumsum(rng.normal(size=n + horizon))
    drift = np.cumsum(rng.normal(size=n))
    p = 0.5 + 0.1 * np.sin((drift - drift.mean()) / 6)
    return (walk[horizon:] > walk[:-horizon]).astype(int), p, np.arange(n)


y, p, day = draw_walk(1_500, np.random.default_rng(6))
naive = cb.evaluate(y, p)
honest = cb.evaluate(y, p, time=day, label_end=day + horizon)
for name, scores in (("as independent", naive), ("time=, label_end=", honest)):
    gap = scores["mean_gap"]
    print(f"{name:18} mean gap {gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], worth {gap.n_eff:,.0f} rows")

assert honest["mean_gap"].n_eff < 0.2 * naive["mean_gap"].n
assert honest["mean_gap"].high - honest["mean_gap"].low > 2 * (naive["mean_gap"].high - naive["mean_gap"].low)

# %%
# The stripes below are the labels. A block of one colour is one move of the walk that is counted up to twenty times.

fig, (top, bottom) = plt.subplots(2, 1, figsize=(9.5, 4.6), sharex=True, height_ratios=[3, 1], layout="constrained")
rolling = np.convolve(y, np.ones(60) / 60, mode="same")
top.plot(day[:600], p[:600], label="the model says")
top.plot(day[30:600], rolling[30:600], color="tab:orange", label="share of rises in 60 days around it")
top.axhline(0.5, color="0.5", linestyle="--", linewidth=1)
top.set(ylabel="probability", ylim=(0, 1), title="Probabilities that mean nothing, and overlapping labels")
top.legend(loc="upper right", ncols=2)
bottom.imshow(y[None, :600], aspect="auto", cmap="Blues", extent=(0, 600, 0, 1), interpolation="nearest", vmin=-0.3)
bottom.set(yticks=[], xlabel="day", ylabel="label")
plt.show()

# %%
# Folds that are dealt at random invent skill
# -------------------------------------------
# A calibrator that may bend freely learns which stretch of days had rises, if a row's neighbours are in its training
# folds. ``PurgedKFold`` leaves out every row whose label reaches into the test fold. The picture shows one test fold of
# each kind.

purged = cb.splits.PurgedKFold(5, times=day, label_end=day + horizon, embargo=horizon)
fig, axes = plt.subplots(2, 1, figsize=(9.5, 3.0), sharex=True, layout="constrained")
in_test = np.zeros((2, day.size))
in_test[0, np.random.default_rng(0).permutation(day.size)[: day.size // 5]] = 2
train, test = list(purged.split(day))[2]
in_test[1, :] = 1
colours = ListedColormap(["tab:blue", "white", "tab:orange"])
in_test[1, train], in_test[1, test] = 0, 2
for ax, row, title in zip(axes, in_test, ("dealt at random", "purged"), strict=True):
    ax.imshow(row[None], aspect="auto", cmap=colours, extent=(0, day.size, 0, 1), interpolation="nearest")
    ax.set(yticks=[], title=f"{title}: training rows blue, test rows orange, left out white")
axes[1].set_xlabel("day")
plt.show()

gains = {"dealt at random": [], "purged": []}
rng = np.random.default_rng(1)
for _ in range(8):
    y, p, day = draw_walk(1_500, rng)
    late = {"time": day, "label_end": day + horizon}
    for name, what in (("dealt at random", {}), ("purged", late)):
        found = cb.compare(np.round(p, 3), y, methods=["spline", "histogram"], **what)
        gains[name].append(min(each.log_loss_difference.value for each in found.methods if each.name != found.baseline))
for name, each in gains.items():
    print(f"{name:16} best method's log loss, less that of the scores as they are: {np.mean(each):+.4f}")

assert np.mean(gains["dealt at random"]) < 0.0
assert np.mean(gains["purged"]) > np.mean(gains["dealt at random"]) + 0.01
