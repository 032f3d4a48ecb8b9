"""
Naive Bayes on three blobs, with weights
========================================

scikit-learn's first example of calibration, with the import changed. Two classes share a blob in which nobody can tell
them apart. Naive Bayes draws one bell curve per class, so it is sure of itself exactly there.
"""

# %%
# The data
# --------
# Rows come from three blobs. The lower one is all of class 0 and the upper one all of class 1. The blob in the middle
# has rows of both classes, dealt at random, so that the right probability there is a half. Rows carry weights, as they
# would in a survey.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibrant as cb
from calibrant import CalibratedClassifierCV  # was: from sklearn.calibration import CalibratedClassifierCV

rng = np.random.default_rng(42)
n = 6_000
blob = np.repeat([0, 1, 2], n // 3)
X = 5.0 * (blob[:, None] - 1) + rng.normal(size=(n, 2))
y = np.where(blob == 1, rng.integers(0, 2, n), blob == 2).astype(int)
weight = rng.uniform(size=n)
rows = train_test_split(X, y, weight, blob, test_size=0.8, random_state=0)
X_train, X_test, y_train, y_test, weight_train, weight_test, _, blob_test = rows

# %%
# Three classifiers
# -----------------
# The plain one, and two whose probabilities are calibrated by cross-validation on the training rows.

models = {
    "as it is": GaussianNB(),
    "isotonic": CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
    "sigmoid": CalibratedClassifierCV(GaussianNB(), method="sigmoid", cv=2),
}
found = {}
for name, model in models.items():
    model.fit(X_train, y_train, sample_weight=weight_train)
    found[name] = model.predict_proba(X_test)[:, 1]

briers = {name: cb.metrics.brier_score(y_test, p, sample_weight=weight_test) for name, p in found.items()}
for name, brier in briers.items():
    print(f"Brier score, {name:9} {brier:.4f}")

# %%
# Smaller is better, and both calibrators are better than the plain classifier. Isotonic regression is free to draw a
# step where the middle blob lies, which a sigmoid can't.

assert briers["isotonic"] < briers["sigmoid"] < briers["as it is"]

# %%
# What happens in the middle
# --------------------------
# On the left the rows, coloured by class. On the right they are sorted by the probability of the plain classifier. The
# grey steps are how often class 1 comes in twenty-five parts of as many rows each.

order = np.argsort(found["as it is"], kind="stable")
parts = np.array_split(order, 25)
places = [np.arange(order.size)[i * order.size // 25] for i in range(25)] + [order.size]
rates = [np.average(y_test[part], weights=weight_test[part]) for part in parts]

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for label, colour in ((0, "tab:blue"), (1, "tab:orange")):
    is_class = y_test == label
    left.scatter(*X_test[is_class].T, s=9, alpha=0.5, color=colour, linewidth=0, label=f"class {label}")
left.set(xlabel="first feature", ylabel="second feature", title="Rows of the test part", aspect="equal")
left.legend(loc="upper left", markerscale=2)
right.stairs(rates, places, baseline=None, color="0.5", linewidth=2, label="happened")
for name, p in found.items():
    right.plot(p[order], linewidth=1.8, label=f"{name} ({briers[name]:.3f})")
right.set(xlabel="row, sorted by the plain classifier", ylabel="probability of class 1", title="Predicted and happened")
right.legend(loc="upper left", title="Brier score in brackets", fontsize="small", title_fontsize="small")
plt.show()

# %%
# The plain curve climbs from 0 to 1 inside the middle blob, where it should stay at a half. How far off is it there?

is_middle = blob_test == 1
for name, p in found.items():
    print(f"{name:9} mean distance from a half in the middle blob: {np.abs(p[is_middle] - 0.5).mean():.3f}")

assert np.abs(found["isotonic"][is_middle] - 0.5).mean() < 0.1 < np.abs(found["as it is"][is_middle] - 0.5).mean()
