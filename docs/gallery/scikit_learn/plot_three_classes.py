"""
Three classes on the simplex
============================

scikit-learn's third example, with the import changed. A forest that is fitted to few rows gives a class all or nothing
of its votes. The arrows show where calibration takes each prediction in the triangle of three probabilities.
"""

# %%
# One forest is fitted to a few hundred rows and then calibrated on others. ``FrozenEstimator`` says that it is not to
# be fitted again.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import calibrant as cb
from calibrant import CalibratedClassifierCV  # was: from sklearn.calibration import CalibratedClassifierCV

X, y = make_blobs(2_000, centers=3, cluster_std=5.0, random_state=42)
train, fit, test = slice(0, 600), slice(600, 1_000), slice(1_000, 2_000)
forest = RandomForestClassifier(25, random_state=42).fit(X[train], y[train])
calibrated = CalibratedClassifierCV(FrozenEstimator(forest), method="sigmoid").fit(X[fit], y[fit])

before, after = forest.predict_proba(X[test]), calibrated.predict_proba(X[test])
losses = {}
for name, p in (("forest", before), ("calibrated", after)):
    losses[name] = cb.metrics.brier_score(y[test], p)
    print(f"{name:10}  Brier score {losses[name]:.3f}   log loss {cb.metrics.log_loss(y[test], p):.3f}")

# %%
# The forest's log loss is infinite: some rows got no vote for the class that they turned out to be of. The Brier score
# tells the two apart all the same, and the calibrated probabilities are better.

assert losses["calibrated"] < losses["forest"]
assert np.isinf(cb.metrics.log_loss(y[test], before))
assert np.isfinite(cb.metrics.log_loss(y[test], after))

# %%
# Where each prediction goes
# --------------------------
# A point of the triangle is a row's three probabilities, and a corner is a class that is held for certain. On the left
# are the test rows, with an arrow from what the forest says to what calibration makes of it. On the right the same map
# is taken over the whole triangle: ``calibrated_classifiers_[0].calibrators`` has a fitted map for each class, as in
# scikit-learn.

grid = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)]) / 20
maps = calibrated.calibrated_classifiers_[0].calibrators
moved = np.column_stack([each.predict(p) for each, p in zip(maps, grid.T, strict=True)])
moved /= moved.sum(axis=1, keepdims=True)


def place(p):
    """Return where three probabilities lie in a triangle with equal sides."""
    return p[:, 1] + p[:, 2] / 2, p[:, 2] * np.sqrt(3) / 2


def draw_arrows(ax, start, end, colours, title):
    """Draw the triangle and one arrow per row."""
    corners = np.vstack([np.eye(3), np.eye(3)[:1]])
    ax.plot(*place(corners), color="0.4", linewidth=1)
    (x, y_), (to_x, to_y) = place(start), place(end)
    ax.quiver(
        x,
        y_,
        to_x - x,
        to_y - y_,
        color=colours,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.0035,
        headwidth=4,
        alpha=0.8,
    )
    for name, (at_x, at_y), (dx, dy) in zip(
        "012", np.column_stack(place(np.eye(3))), ((0, -0.06), (0, -0.06), (0, 0.02)), strict=True
    ):
        ax.text(at_x + dx, at_y + dy, f"class {name}", ha="center")
    ax.set(title=title, aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.1, 0.97))
    ax.axis("off")


fig, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
some = slice(0, 250)
palette = np.array(["tab:red", "tab:green", "tab:blue"])
draw_arrows(left, before[some], after[some], palette[y[test][some]], "Test rows, coloured by their class")
draw_arrows(right, grid, moved, palette[grid.argmax(axis=1)], "The learned map, coloured by the nearest corner")
plt.show()

# %%
# Arrows lead away from the corners, so no row stays certain: a class without a vote is still possible. How sure is the
# top class on average, and how often is it right?

for name, p in (("forest", before), ("calibrated", after)):
    right_share = (p.argmax(axis=1) == y[test]).mean()
    print(f"{name:10}  confidence {p.max(axis=1).mean():.3f}   right {right_share:.3f}")

gaps = [abs(p.max(axis=1).mean() - (p.argmax(axis=1) == y[test]).mean()) for p in (before, after)]
assert gaps[1] < gaps[0]
assert after.max() < 1.0
