"""
What a probability is worth in money
====================================

A machine can be left alone, looked at, or repaired before it breaks. Which is best depends on the probability that it
breaks and on what each mistake costs. Calibrated probabilities make the cheapest choice, and they say beforehand what
it will cost.
"""

# %%
# Machines, and a model that is too sure
# --------------------------------------
# The sensors of six thousand machines are simulated, with an event of about one in seven. Boosted trees that run too
# long learn their training rows by heart.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import GradientBoostingClassifier

import calibrant as cb
from calibrant import decisions

rng = np.random.default_rng(0)
X = rng.normal(size=(6_000, 6))
breaks = (rng.random(6_000) < expit(X[:, 0] + X[:, 1] * X[:, 2] - 0.5 * X[:, 3] ** 2 - 1.9)).astype(int)
train, fit, test = slice(0, 1_000), slice(1_000, 3_000), slice(3_000, 6_000)
model = GradientBoostingClassifier(n_estimators=250, learning_rate=0.3, random_state=0).fit(X[train], breaks[train])
p_fit, p = (model.predict_proba(X[rows])[:, 1] for rows in (fit, test))
calibrator = cb.SplineCalibrator().fit(p_fit, breaks[fit])
q = calibrator.predict_proba(p)

# %%
# The costs, in euros
# -------------------
# A breakdown costs 2,000 if nobody came, and 900 if somebody had a look. A look costs 90, a repair 400.

costs = {
    "leave": {0: 0.0, 1: 2000.0},
    "look": {0: 90.0, 1: 900.0},
    "repair": {0: 400.0, 1: 400.0},
}
problem = decisions.Problem(costs)
policy = decisions.Policy(problem)
grid = np.linspace(0.0, 1.0, 1_001)
chosen = policy.decide(grid)
changes = grid[1:][np.asarray(chosen)[1:] != np.asarray(chosen)[:-1]]
print("the cheapest action changes at", ", ".join(f"{each:.3f}" for each in changes))

fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for name, cost in costs.items():
    ax.plot(grid, (1 - grid) * cost[0] + grid * cost[1], label=name)
least = np.min([(1 - grid) * cost[0] + grid * cost[1] for cost in costs.values()], axis=0)
ax.plot(grid, least, color="black", linewidth=3, alpha=0.3, label="the cheapest")
for change in changes:
    ax.axvline(change, color="0.6", linestyle=":", linewidth=1)
ax.set(
    xlabel="probability of a breakdown", ylabel="expected cost, euros", ylim=(0, 1_000), title="What each action costs"
)
ax.legend()
plt.show()

# %%
# Promise and bill
# ----------------
# ``evaluate`` compares what decisions promised with what they cost. Each point of the picture is an action: what the
# probabilities promised of the machines that got it, and what these cost.

found = {name: decisions.evaluate(breaks[test], each, policy) for name, each in (("as it is", p), ("calibrated", q))}
fig, axes = plt.subplots(2, 1, figsize=(8, 6.4), sharex=True, layout="constrained")
for ax, (name, scores) in zip(axes, found.items(), strict=True):
    cb.PromiseDisplay(scores).plot(ax)
    ax.set_title(name, loc="left")
axes[0].set_xlabel("")
plt.show()

for name, scores in found.items():
    print(f"{name}: {scores.verdict}")

# %%
# The model as it is promises little and costs more: it is sure of breakdowns that don't come, and of quiet that does
# not last. Calibrated, the promise is kept and the bill is smaller, with the same model and the same costs.

cheaper = found["as it is"]["realised"].value - found["calibrated"]["realised"].value
print(f"saved: {cheaper:.0f} euros a machine")
assert cheaper > 0
assert found["as it is"]["gap"].low > 0
assert found["calibrated"]["gap"].low < 0 < found["calibrated"]["gap"].high

# %%
# The promise before any outcome is known
# ---------------------------------------
# ``expected_loss`` needs no outcomes of the new machines. It takes the calibrator and the rows that it was fitted to,
# so that its interval knows how sure the calibration is.

promise = decisions.expected_loss(p, problem, calibrator=calibrator, fitted_to=(p_fit, breaks[fit]), about="rows")
print(promise, "   realised:", round(found["calibrated"]["realised"].value, 1))
assert promise.low < found["calibrated"]["realised"].value < promise.high

# %%
# If there is room for 100 repairs and 300 looks among these machines, ``capacity=`` gives them to those that gain most:

limited = decisions.Policy(decisions.Problem(costs, capacity={"repair": 100, "look": 300}))
for name, each in (("free", policy), ("limited", limited)):
    actions, counts = np.unique(np.asarray(each.decide(q)), return_counts=True)
    print(f"{name:8}", dict(zip(actions.tolist(), counts.tolist(), strict=True)))
