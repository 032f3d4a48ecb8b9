"""
Only the top answer counts: top-label calibration
=================================================

Often only the most probable class is acted on, and the question is how often it is right. Then one curve is enough,
from the confidence in the top class to the share that is right. With ten classes that is far less to learn.
"""

# %%
# Handwritten digits, and a network that was trained until it knew its training rows by heart.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import calibrant as cb

X, digit = load_digits(return_X_y=True)
X = X[:, np.random.default_rng(8).permutation(64)[:16]] / 16.0
X_train, X_rest, y_train, y_rest = train_test_split(X, digit, train_size=0.25, random_state=0, stratify=digit)
X_fit, X_test, y_fit, y_test = train_test_split(X_rest, y_rest, train_size=0.45, random_state=0, stratify=y_rest)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped by the number of passes
    network = MLPClassifier((40,), alpha=0.0, learning_rate_init=0.02, max_iter=150, random_state=0).fit(
        X_train, y_train
    )
p_fit, p = network.predict_proba(X_fit), network.predict_proba(X_test)

# %%
# ``TopLabelCalibrator`` takes any calibrator of one score. It leaves the top class as it is and gives it the calibrated
# confidence. The rest is shared among the other classes as before.

top = cb.TopLabelCalibrator("beta").fit(p_fit, y_fit)
q = top.predict_proba(p)
is_right = p.argmax(axis=1) == y_test
print(f"right {is_right.mean():.3f}, confidence {p.max(axis=1).mean():.3f}, calibrated {q.max(axis=1).mean():.3f}")
print(cb.evaluate(is_right, p.max(axis=1)).verdict)

# %%
# The two diagrams are of the confidence: how often was the top class right, where the network was so sure?

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
for ax, title, each in ((left, "As it is", p), (right, "Top label calibrated", q)):
    curve = cb.reliability_curve(is_right, each.max(axis=1), n_bins=8, label=title)
    ax.errorbar(
        curve.x, curve.y, yerr=[curve.y - curve.low, curve.high - curve.y], marker="o", capsize=3, linewidth=1.5
    )
    ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
    ax.hist(
        each.max(axis=1),
        bins=24,
        range=(0.2, 1.0),
        weights=np.full(len(each), 0.35 / len(each)),
        bottom=0.2,
        color="0.85",
        zorder=0,
    )
    error = cb.metrics.top_label_ece(y_test, each)
    ax.set(title=f"{title}: top-label ECE {error:.3f}", xlabel="confidence", ylabel="share right")
    ax.set(xlim=(0.2, 1.02), ylim=(0.2, 1.02))
plt.show()

# %%
# What it can't do
# ----------------
# The other nine classes are not looked at. If a decision depends on the second best class, or on the probability of one
# class among all rows, take a calibrator of all columns. ``classwise_ece`` looks at each column:

every = cb.DirichletCalibrator().fit(p_fit, y_fit).predict_proba(p)
figures = {}
for name, each in (("as it is", p), ("top label", q), ("Dirichlet", every)):
    figures[name] = [
        cb.metrics.top_label_ece(y_test, each),
        cb.metrics.classwise_ece(y_test, each),
        cb.metrics.log_loss(y_test, each),
    ]
    print("{:18} top-label ECE {:.3f}   class-wise ECE {:.4f}   log loss {:.3f}".format(name, *figures[name]))

assert figures["top label"][0] < 0.5 * figures["as it is"][0]
assert figures["Dirichlet"][2] < figures["top label"][2] < figures["as it is"][2]
print("share of top classes that stay:", (q.argmax(axis=1) == p.argmax(axis=1)).mean())
