"""
Four classifiers as they are
============================

scikit-learn's fourth example, with the import changed. How well are common classifiers calibrated if nothing is done?
It depends on what they minimise, and on how few rows they have seen.
"""

# %%
# All four are trained on 100 rows only, so that their habits show. Everything else judges them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import calibrant as cb
from calibrant import CalibrationDisplay  # was: from sklearn.calibration import CalibrationDisplay

X, y = make_classification(20_000, 20, n_informative=2, n_redundant=2, random_state=42)
X_train, X_test, y_train, y_test = X[:100], X[100:], y[:100], y[100:]


class ScaledSVC(LinearSVC):
    """A support vector machine whose margins are squeezed into [0, 1]."""

    def predict_proba(self, X):
        """Return margins as shares of the range from -2 to 2."""
        share = np.clip((self.decision_function(X) + 2.0) / 4.0, 0.0, 1.0)
        return np.column_stack([1.0 - share, share])


classifiers = {
    "logistic regression": LogisticRegression(),
    "naive Bayes": GaussianNB(),
    "support vector machine": ScaledSVC(random_state=0),
    "random forest": RandomForestClassifier(random_state=42),
}

fig, axes = plt.subplot_mosaic("AAAA;AAAA;BCDE", figsize=(8.5, 7.4), layout="constrained")
p = {}
for i, (name, model) in enumerate(classifiers.items()):
    model.fit(X_train, y_train)
    display = CalibrationDisplay.from_estimator(
        model, X_test, y_test, n_bins=10, name=name, ax=axes["A"], color=f"C{i}", marker="^vso"[i]
    )
    p[name] = display.y_prob
    axes["BCDE"[i]].hist(p[name], range=(0, 1), bins=10, color=f"C{i}")
    axes["BCDE"[i]].set_title(name, fontsize="small")
    axes["BCDE"[i]].set_xticks([0.0, 0.5, 1.0], ["0", "½", "1"])
    axes["BCDE"[i]].set_yticks([])
axes["A"].set_title("Calibration curves of four classifiers")
plt.show()

# %%
# Logistic regression lies nearest to the diagonal. The forest avoids the ends, since a mean of votes is 0 only where
# all trees agree. Naive Bayes pushes rows to the ends, as it counts copies of a feature as new evidence. The margins of
# the support vector machine are about distance and not about how often, so nothing holds its curve to the diagonal.
#
# One number for each, with an interval
# -------------------------------------
# ``ece_debiased`` is the calibration error freed of what noise adds to it. The picture has its 95% intervals.

found = {name: cb.evaluate(y_test, each) for name, each in p.items()}
errors = {name: scores["ece_debiased"] for name, scores in found.items()}
rows = [(name, each.value, each.low, each.high) for name, each in errors.items()]
display = cb.ComparisonDisplay(rows, reference_name="calibrated", xlabel="Debiased calibration error").plot()
plt.show()

# %%
# The verdict in words says of each which way it is off:

for name, scores in found.items():
    print(f"{name}: {scores.verdict}\n")

assert min(errors, key=lambda name: errors[name].value) == "logistic regression"
