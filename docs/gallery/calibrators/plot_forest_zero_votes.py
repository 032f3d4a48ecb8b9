"""
Forest votes with exact zeros, and boosted trees
================================================

A forest of 25 trees gives a class no vote, one vote, or two: a share of exactly 0 says "impossible" where it means
"none of 25". One row where it happens all the same costs an infinite log loss. Boosted trees have the opposite habit:
they are never at 0, and too sure everywhere.
"""

# %%
# Two ensembles
# -------------
# Digits of 8 by 8 pixels, and the question whether one is an 8 or a 9. A few pixels only, so that it is not too easy.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import calibrant as cb

X, digit = load_digits(return_X_y=True)
X = X[:, np.random.default_rng(3).permutation(64)[:14]]
y = (digit >= 8).astype(int)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=0.35, random_state=0, stratify=y)
X_fit, X_test, y_fit, y_test = train_test_split(X_rest, y_rest, train_size=0.5, random_state=0, stratify=y_rest)

forest = RandomForestClassifier(25, max_features=3, random_state=0).fit(X_train, y_train)
boosted = GradientBoostingClassifier(n_estimators=300, learning_rate=0.3, random_state=0).fit(X_train, y_train)
votes_fit, votes = forest.predict_proba(X_fit)[:, 1], forest.predict_proba(X_test)[:, 1]

at_zero = votes == 0.0
print(f"{at_zero.sum()} of {votes.size} rows have no vote; of these {y_test[at_zero].sum()} are positive all the same")
print(f"log loss of the votes: {cb.metrics.log_loss(y_test, votes)}")
assert np.isinf(cb.metrics.log_loss(y_test, votes))

# %%
# What each calibrator makes of a zero
# ------------------------------------
# A calibrator that works on logits must decide where 0 lies. calibrant moves a forest's zero votes to just outside its
# smallest vote, and not to the logit of a tiny constant, where they would be outliers that bend the fit.

makers = {
    "sigmoid": cb.SigmoidCalibrator,
    "beta": cb.BetaCalibrator,
    "isotonic, bounded": lambda: cb.IsotonicCalibrator(bounded=True),
    "Venn-Abers": cb.VennAbersCalibrator,
    "auto": cb.AutoCalibrator,
}
calibrated = {name: make().fit(votes_fit, y_fit) for name, make in makers.items()}
losses = {name: cb.metrics.log_loss(y_test, each.predict_proba(votes)) for name, each in calibrated.items()}
for name, each in calibrated.items():
    print(f"{name:18} no vote becomes {each.predict_proba([0.0])[0]:.4f}   log loss {losses[name]:.4f}")

assert all(np.isfinite(loss) for loss in losses.values())
assert all(0.0 < each.predict_proba([0.0])[0] < 0.04 for each in calibrated.values())  # less than one vote of 25

# %%
# Boosted trees are calibrated from their margins
# -----------------------------------------------
# ``decision_function`` gives the sum of the trees, a logit of unbounded size. ``input="score"`` says so: nothing is
# guessed from the numbers themselves.

margin_fit, margin = boosted.decision_function(X_fit), boosted.decision_function(X_test)
platt = cb.SigmoidCalibrator(input="score").fit(margin_fit, y_fit)
raw, mended = boosted.predict_proba(X_test)[:, 1], platt.predict_proba(margin)
boosted_losses = [cb.metrics.log_loss(y_test, p) for p in (raw, mended)]
print(f"log loss of the boosted trees: {boosted_losses[0]:.3f}, calibrated {boosted_losses[1]:.3f}")

fig, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
shares, counts = np.unique(votes, return_counts=True)
axes[0].bar(shares, counts, width=0.03, color=np.where(shares == 0.0, "tab:red", "tab:blue"))
axes[0].set(xlabel="share of votes", ylabel="test rows", title="Votes come in steps; zero is the largest")
for i, name in enumerate(("sigmoid", "isotonic, bounded", "Venn-Abers")):
    axes[1].plot(shares, calibrated[name].predict_proba(shares), marker="o", markersize=3, color=f"C{i}", label=name)
axes[1].plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1)
axes[1].set(xlabel="share of votes", ylabel="calibrated probability", title="A forest is not sure enough")
axes[1].legend()
for p, name, colour in ((raw, "as they are", "tab:red"), (mended, "calibrated", "tab:green")):
    axes[2].hist(p, bins=20, range=(0, 1), histtype="step", linewidth=2, color=colour, label=name)
axes[2].set(xlabel="probability", ylabel="test rows", title="Boosted trees are too sure", yscale="log")
axes[2].legend()
plt.show()

# %%
# The forest's curves lie above the diagonal: half of the votes mean more than an even chance. The histogram of the
# boosted trees, whose axis is logarithmic, has two towers at the ends, which calibration brings in.

slopes = [cb.metrics.calibration_slope_intercept(y_test, p).slope for p in (raw, mended)]
print(f"slope of the boosted trees: {slopes[0]:.2f}, calibrated {slopes[1]:.2f}")
assert boosted_losses[1] < boosted_losses[0]
assert slopes[0] < 0.7 < slopes[1]
assert calibrated["sigmoid"].predict_proba([0.5])[0] > 0.5
