"""
Decision curves: useful at which threshold?
===========================================

Doctors disagree about how many needless biopsies one found tumour is worth. A decision curve doesn't ask: it shows the
net benefit at every threshold, beside that of a biopsy for all and of one for none. A model with the better ranking can
lose to a weaker one that is honest.
"""

# %%
# Two measurements
# ----------------
# The patients are simulated, so that the truth is known. One model has both measurements and is too sure: its logits
# are three times those of the truth, and too high. The other one has the first measurement only, and is honest about
# it.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant import decisions

rng = np.random.default_rng(1)
first, second = rng.normal(size=(2, 6_000))
logit = -1.8 + 1.2 * first + 1.0 * second
y = (rng.random(logit.size) < expit(logit)).astype(int)
fit, test = slice(0, 2_000), slice(2_000, None)

both = expit(3.0 * (logit + 1.0))
one = LogisticRegression().fit(first[fit, None], y[fit]).predict_proba(first[:, None])[:, 1]
calibrated = cb.BetaCalibrator().fit(both[fit], y[fit]).predict_proba(both)
p = {"both, too sure": both[test], "one, honest": one[test], "both, calibrated": calibrated[test]}
auc = {name: cb.metrics.roc_auc(y[test], each) for name, each in p.items()}
for name, each in p.items():
    print(f"{name:17} AUC {auc[name]:.3f}   Brier score {cb.metrics.brier_score(y[test], each):.4f}")

# %%
# The curves
# ----------
# A threshold of one in five says that one found tumour is worth four needless biopsies. The bands are 95% intervals.

thresholds = np.linspace(0.02, 0.7, 35)
fig, ax = plt.subplots(figsize=(8.5, 5), layout="constrained")
cb.DecisionCurveDisplay.from_predictions(y[test], p, thresholds=thresholds, ax=ax)
ax.set_ylim(-0.06, 0.22)
plt.show()

# %%
# From a threshold of 0.55 on, the model that is too sure does more harm than it is worth: its net benefit is below that
# of no biopsy at all, where the dashed line is. The weaker but honest model is better there, and harms nowhere.
# Calibrated, the better ranking wins at all thresholds.

curves = {name: decisions.decision_curve(y[test], each, thresholds=thresholds) for name, each in p.items()}
high = thresholds > 0.35
for name, curve in curves.items():
    print(f"{name:17} least net benefit above 0.35: {curve.net_benefit[high].min():+.4f}")

assert auc["both, too sure"] > auc["one, honest"] + 0.03
assert curves["both, too sure"].net_benefit[thresholds > 0.55].max() < 0.0
assert (curves["both, calibrated"].net_benefit > curves["one, honest"].net_benefit - 0.003).all()
assert curves["both, calibrated"].net_benefit.min() > -0.003

# %%
# Costs instead of benefits
# -------------------------
# A cost curve says the same with all ratios of costs on one axis. The dashed line is what the best threshold for each
# ratio could have reached. The room between the two is what calibration can save.

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), sharey=True, layout="constrained")
areas = {}
for ax, name in zip(axes, ("both, too sure", "both, calibrated"), strict=True):
    curve = decisions.cost_curve(y[test], p[name])
    areas[name] = curve.area - curve.best_area
    ax.fill_between(curve.probability_cost, curve.low, curve.high, alpha=0.25)
    ax.plot(curve.probability_cost, curve.expected_cost, label="acting on the probabilities")
    ax.plot(curve.probability_cost, curve.best, linestyle="--", color="tab:green", label="best threshold in hindsight")
    ax.plot(curve.probability_cost, curve.trivial, color="0.6", linewidth=1, label="one action for all")
    ax.set(title=f"{name}: {areas[name]:.4f} to save", xlabel="probability cost of a missed tumour")
axes[0].set_ylabel("normalised expected cost")
axes[0].legend(fontsize="small")
plt.show()

assert areas["both, calibrated"] < 0.3 * areas["both, too sure"]
