"""
Selective prediction: which cases go to a person?
=================================================

A machine that reads digits may hand doubtful ones to a person. How many errors are left if it keeps the surest 90%? A
ranking of doubts is enough for that question. To say where to stop, with costs, the doubts must be probabilities.
"""

# %%
# Forty trees read digits of eight by eight pixels, of which they see a fifth.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

import calibrant as cb
from calibrant import decisions

X, digit = load_digits(return_X_y=True)
X = X[:, np.random.default_rng(0).permutation(64)[:13]]
X_train, X_rest, y_train, y_rest = train_test_split(X, digit, train_size=0.4, random_state=0, stratify=digit)
X_fit, X_test, y_fit, y_test = train_test_split(X_rest, y_rest, train_size=0.5, random_state=0, stratify=y_rest)
trees = ExtraTreesClassifier(40, max_features=2, min_samples_leaf=4, random_state=0).fit(X_train, y_train)
p_fit, p = trees.predict_proba(X_fit), trees.predict_proba(X_test)
q = cb.TemperatureCalibrator().fit(p_fit, y_fit).predict_proba(p)
for name, each in (("as it is", p), ("calibrated", q)):
    print(f"{name:11} right {(each.argmax(axis=1) == y_test).mean():.3f}, confidence {each.max(axis=1).mean():.3f}")

# %%
# Risk over coverage, and the price of a rule
# -------------------------------------------
# On the left the surest rows come first. The area below a curve is the error rate, averaged over all shares that could
# be kept. The two curves nearly agree, as a temperature hardly changes which rows are surest.
#
# On the right is the price. An error costs 50 cents, and a person as much as the axis says. The rule "hand over where
# an error would cost more than a person on expectation" is right only if confidences are.

curves = [
    decisions.risk_coverage_curve(y_test, each, label=name) for name, each in (("as it is", p), ("calibrated", q))
]
digits = list(range(10))
losses = {f"read {d}": {each: 0.0 if each == d else 0.5 for each in digits} for d in digits}
cost, promised, handed = {}, {}, {}
for price in (0.05, 0.10, 0.20, 0.30):
    problem = decisions.Problem(losses, abstain=price)
    for name, each in (("as it is", p), ("calibrated", q)):
        found = decisions.evaluate(y_test, each, problem)
        cost[name, price], promised[name, price] = found["realised"].value, found["promised"].value
        handed[name, price] = np.mean(np.asarray(decisions.Policy(problem).decide(each)) == "abstain")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
cb.RiskCoverageDisplay(curves).plot(left)
left.set_title("Errors among the rows that are kept")
prices = sorted({price for _, price in cost})
for name, colour in (("as it is", "tab:blue"), ("calibrated", "tab:orange")):
    right.plot(prices, [cost[name, price] for price in prices], color=colour, marker="o", label=f"{name}: paid")
    right.plot(
        prices, [promised[name, price] for price in prices], color=colour, linestyle=":", label=f"{name}: promised"
    )
right.plot(prices, prices, color="0.6", linewidth=1, label="all to a person")
right.set(
    xlabel="price of a person, euros", ylabel="cost of a digit, euros", title="What the rule costs", ylim=(0, 0.31)
)
right.legend(fontsize="small")
plt.show()

# %%
# These trees are not sure enough, so that far too much goes to a person, and the promise is too high. Calibrated, the
# paid cost is lower at every price, and close to what was promised.

for price in (0.10, 0.20):
    a, b = handed["as it is", price], handed["calibrated", price]
    print(f"a person at {price:.2f}: {a:.0%} handed over as it is, {b:.0%} calibrated")

assert all(cost["calibrated", price] < cost["as it is", price] for price in prices)
gaps = {
    name: max(abs(cost[name, price] - promised[name, price]) for price in prices) for name in ("as it is", "calibrated")
}
assert gaps["calibrated"] < 0.5 * gaps["as it is"]
