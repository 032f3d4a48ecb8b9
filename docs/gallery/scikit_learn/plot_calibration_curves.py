"""
Calibration curves of naive Bayes and of a support vector machine
=================================================================

scikit-learn's second example, with the import changed. Two classifiers are wrong in opposite ways. Naive Bayes counts
copies of a feature as new evidence and is too sure. A support vector machine looks at rows near its border only, and
its scaled margins are not sure enough.
"""

# %%
# Twenty features, of which two tell something. Ten more are mixtures of these two, and eight are noise. A small part of
# the rows trains, as scikit-learn's example has it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import calibrant as cb
from calibrant import CalibratedClassifierCV, CalibrationDisplay  # was: from sklearn.calibration import ...

X, y = make_classification(10_000, 20, n_informative=2, n_redundant=10, random_state=42)
X_train, X_test, y_train, y_test = X[:1_000], X[1_000:], y[:1_000], y[1_000:]


class ScaledSVC(LinearSVC):
    """A support vector machine whose margins are squeezed into [0, 1], to have something to calibrate."""

    def fit(self, X, y):
        """Fit, and remember the range of the margins."""
        super().fit(X, y)
        margins = self.decision_function(X)
        self.range_ = margins.min(), margins.max()
        return self

    def predict_proba(self, X):
        """Return margins as shares of their range on the training rows."""
        low, high = self.range_
        share = np.clip((self.decision_function(X) - low) / (high - low), 0.0, 1.0)
        return np.column_stack([1.0 - share, share])


# %%
# The display is called as scikit-learn's is: one line per classifier in the same axes. Logistic regression is there for
# comparison: it is fitted by the log loss, and hardly needs calibration here.


def draw(title, base):
    """Draw the curves of a classifier as it is and calibrated, above histograms of what they say."""
    models = {
        "logistic regression": LogisticRegression(),
        title: base,
        "with isotonic": CalibratedClassifierCV(base, method="isotonic", cv=2),
        "with sigmoid": CalibratedClassifierCV(base, method="sigmoid", cv=2),
    }
    axes = plt.figure(figsize=(8.5, 7.4), layout="constrained").subplot_mosaic("AAAA;AAAA;BCDE")
    p = {}
    for i, (name, model) in enumerate(models.items()):
        model.fit(X_train, y_train)
        display = CalibrationDisplay.from_estimator(
            model, X_test, y_test, n_bins=10, name=name, ax=axes["A"], color=f"C{i}", marker="s"
        )
        p[name] = display.y_prob
        axes["BCDE"[i]].hist(p[name], range=(0, 1), bins=10, color=f"C{i}")
        axes["BCDE"[i]].set_title(name, fontsize="small")
        axes["BCDE"[i]].set_xticks([0.0, 0.5, 1.0], ["0", "½", "1"])
        axes["BCDE"[i]].set_yticks([])
    axes["A"].set_title(f"Calibration curves: {title}")
    return p


bayes = draw("naive Bayes", GaussianNB())
plt.show()

# %%
# Naive Bayes has a curve like a lying S: what it calls nearly impossible happens more often, and what it calls nearly
# certain less often. Its histogram has nearly all rows at the two ends. Isotonic regression straightens the curve, the
# sigmoid can't fully.

margins = draw("support vector machine", ScaledSVC(random_state=0))
plt.show()

# %%
# The scaled margins show the opposite: a standing S, and a histogram with a hump in the middle. For this shape both
# methods do well.
#
# The log loss says the same in one number. calibrant's does not cut probabilities off, so that a probability of exactly
# 0 for what then happens costs infinitely much. That is why plain isotonic regression, as in scikit-learn, may have an
# infinite log loss here; ``cb.IsotonicCalibrator(bounded=True)`` never has.

for p in (bayes, margins):
    for name, each in p.items():
        brier, loss = cb.metrics.brier_score(y_test, each), cb.metrics.log_loss(y_test, each)
        print(f"{name:24} Brier score {brier:.4f}   log loss {loss:.4f}")
    print()

# %%
# The slope of the logits tells the two kinds of error apart. It is below 1 where probabilities are too extreme, and
# above 1 where they are not extreme enough.

slopes = {}
for name, p in (("naive Bayes", bayes["naive Bayes"]), ("support vector machine", margins["support vector machine"])):
    inside = (p > 0.0) & (p < 1.0)
    slopes[name] = cb.metrics.calibration_slope_intercept(y_test[inside], p[inside]).slope
    print(f"{name:24} slope {slopes[name]:.2f}")

assert slopes["naive Bayes"] < 1.0 < slopes["support vector machine"]
for p, name in ((bayes, "naive Bayes"), (margins, "support vector machine")):
    for method in ("isotonic", "sigmoid"):
        assert cb.metrics.brier_score(y_test, p[f"with {method}"]) < cb.metrics.brier_score(y_test, p[name])
