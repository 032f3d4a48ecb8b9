"""
Champion against challengers
============================

A new model is better on a test set, a little. Is it better, or lucky? Both predicted the same rows, so that the
difference can be taken row by row, and its interval is far narrower than that of either score.
"""

# %%
# The champion is logistic regression on four measurements of a tumour. Challengers are a regression with one more, a
# boosted model of all five, and the champion's own copy with a coin thrown into each logit.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant as cb

data = load_breast_cancer()
y = 1 - data.target
few, more = data.data[:, [1, 4, 5, 8]], data.data[:, [1, 4, 5, 8, 9]]


def out_of_fold(model, X):
    """Return probabilities of models that have not seen the row, as the least distant from 0 and 1 as 0.001."""
    return np.clip(cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1], 0.001, 0.999)


regression = make_pipeline(StandardScaler(), LogisticRegression())
champion = out_of_fold(regression, few)
models = {
    "champion": champion,
    "one more feature": out_of_fold(regression, more),
    "boosted": out_of_fold(GradientBoostingClassifier(n_estimators=80, learning_rate=0.5, random_state=0), more),
    "champion and a coin": expit(logit(champion) + np.random.default_rng(0).choice([-0.15, 0.15], y.size)),
}

# %%
# One call compares them all
# --------------------------
# The intervals of the three differences hold together, with 95%.

found = cb.compare_models(y, models)
print(found.verdict)
print()
for name, each in found.differences.items():
    print(f"{name}: {each.verdict}")

assert "one more feature" in found.better
assert "champion and a coin" not in found.better

# %%
# On the left are the scores with an interval each, which overlap. On the right are the differences, row by row. That
# the coin does nothing good can't be seen on the left at all.

fig, (left, right) = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
for i, name in enumerate(models):
    score = found.models[name]["log_loss"]
    left.errorbar(score.value, i, xerr=[[score.value - score.low], [score.high - score.value]], fmt="o", capsize=4)
left.set_yticks(range(len(models)), list(models))
left.invert_yaxis()
left.set(xlabel="log loss, 95% interval", title="Each model by itself")
for i, each in enumerate(found.differences.values(), start=1):
    score = each["log_loss_difference"]
    right.errorbar(
        score.value, i, xerr=[[score.value - score.low], [score.high - score.value]], fmt="o", capsize=4, color=f"C{i}"
    )
right.axvline(0.0, color="0.5", linestyle="--", linewidth=1)
right.set_yticks(range(1, len(models)), list(found.differences))
right.invert_yaxis()
right.set(xlabel="log loss less that of the champion", title="Paired differences, all at once with 95%")
plt.show()

alone = found.models["champion and a coin"]["log_loss"]
paired = found.differences["champion and a coin"]["log_loss_difference"]
print(f"intervals: {alone.high - alone.low:.4f} wide by itself, {paired.high - paired.low:.4f} as a difference")
assert paired.high - paired.low < 0.3 * (alone.high - alone.low)

# %%
# Better in what?
# ---------------
# A model can predict better because it tells cases apart, or because it is calibrated. Points further up discriminate
# more, points to the left are better calibrated.

cb.DecompositionDisplay.from_predictions(y, models)
plt.show()

# %%
# The boosted model is up and to the right of the champion: it tells cases apart better and is calibrated worse. So it
# deserves to be calibrated before it is judged:

p = models["boosted"]
folds = np.arange(y.size) % 5
calibrated = np.empty(y.size)
for fold in range(5):
    is_fold = folds == fold
    calibrated[is_fold] = cb.SigmoidCalibrator().fit(p[~is_fold], y[~is_fold]).predict_proba(p[is_fold])
again = cb.compare_models(y, {"champion": champion, "boosted, calibrated": calibrated})
print(again.verdict)
assert cb.metrics.log_loss(y, calibrated) < cb.metrics.log_loss(y, p)
