"""
Class weights and undersampling, undone
=======================================

``class_weight="balanced"`` tells a model that both classes are equally frequent. Its ranking may gain from that, its
probabilities are lost. The loss is known exactly, so that no labelled rows are needed to undo it.
"""

# %%
# A rare event
# ------------
# One row in thirty is positive. The same logistic regression is fitted as it is, with balanced weights, and to all
# positives with one in ten of the negatives.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant import prior


def draw_rows(n, rng):
    """Draw three features and an event whose logit is linear in them."""
    X = rng.normal(size=(n, 3))
    return X, (rng.random(n) < expit(X @ [1.2, -0.8, 0.5] - 4.3)).astype(int)


rng = np.random.default_rng(0)
X, y = draw_rows(20_000, rng)
X_new, y_new = draw_rows(20_000, rng)
kept = np.where(y == 1, True, rng.random(y.size) < 0.1)
models = {
    "plain": LogisticRegression().fit(X, y),
    "balanced": LogisticRegression(class_weight="balanced").fit(X, y),
    "undersampled": LogisticRegression().fit(X[kept], y[kept]),
}
p = {name: model.predict_proba(X_new)[:, 1] for name, model in models.items()}
for name, each in p.items():
    auc = cb.metrics.roc_auc(y_new, each)
    print(f"{name:13} says {each.mean():.3f} on average, {y_new.mean():.3f} happened; AUC {auc:.4f}")

# %%
# Bayes' rule turns them back
# ---------------------------
# ``undo_class_weight`` takes the weights as scikit-learn was given them, and ``undo_sampling`` the share of rows of
# each class that was kept.

mended = {
    "balanced": prior.undo_class_weight(p["balanced"], class_weight="balanced", y=y),
    "undersampled": prior.undo_sampling(p["undersampled"], kept=[0.1, 1.0]),
}

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
colours = {"plain": "C0", "balanced": "C1", "undersampled": "C2"}
for ax, title, shown in (
    (axes[0], "As the models say", p),
    (axes[1], "After Bayes' rule", {"plain": p["plain"]} | mended),
):
    for name, each in shown.items():
        curve = cb.reliability_curve(y_new, each, n_bins=12)
        ax.errorbar(
            curve.x,
            curve.y,
            yerr=[curve.y - curve.low, curve.high - curve.y],
            color=colours[name],
            marker="o",
            markersize=4,
            capsize=2,
            label=name,
        )
    ax.plot([1e-3, 1], [1e-3, 1], color="0.6", linestyle="--", linewidth=1)
    ax.set(
        xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1), title=title, xlabel="predicted", ylabel="happened"
    )
axes[0].legend(loc="upper left")
plt.show()

# %%
# On logarithmic axes a wrong base rate is a shift to the side. After Bayes' rule the three lie on each other.

for name, each in mended.items():
    before, after = (cb.metrics.log_loss(y_new, q) for q in (p[name], each))
    print(f"{name:13} now says {each.mean():.4f} on average; log loss {before:.4f} before, {after:.4f} after")

plain = cb.metrics.log_loss(y_new, p["plain"])
for name, each in mended.items():
    assert abs(cb.metrics.log_loss(y_new, each) - plain) < 0.001 < cb.metrics.log_loss(y_new, p[name]) - plain
    assert abs(cb.metrics.roc_auc(y_new, each) - cb.metrics.roc_auc(y_new, p["plain"])) < 0.002

# %%
# The correction as something to deploy
# -------------------------------------
# ``PriorShift`` is the same correction as an object that is saved, exported and applied as a calibrator is. In a
# ``Chain`` it can stand before one: first undo the weights, then calibrate what is left.

undo = prior.PriorShift.from_class_weight("balanced", y=y)
sigmoid = cb.SigmoidCalibrator().fit(undo.predict_proba(p["balanced"])[:5_000], y_new[:5_000])
chain = cb.Chain([undo, sigmoid])
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "weights-undone.json"
    cb.save(chain, file)
    again = cb.load(file).predict_proba(p["balanced"])
moved = np.abs(again - mended["balanced"])[5_000:].mean()
print(f"the calibrator moves {moved:.4f} on average: little is left to do")
assert moved < 0.01
