"""
Right on the whole, wrong for groups
====================================

A model that doesn't know something about people is right on average and wrong for those whom it matters for. ``audit``
finds such groups, and ``GroupedCalibrator`` gives each its own map, drawn towards that of all rows where it is small.
"""

# %%
# A survey, and a model that wasn't told how marriages are
# --------------------------------------------------------
# The survey of 6,366 women by Fair (1978) comes with statsmodels. The question is whether somebody had an affair. The
# model knows age, years of marriage, children and education. It does not know how the marriage was rated, from 1 to 5.

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant as cb

survey = sm.datasets.fair.load_pandas().data
y = (survey["affairs"] > 0).to_numpy().astype(int)
rating = survey["rate_marriage"].astype(int).to_numpy()
religious = survey["religious"].astype(int).to_numpy()
X = survey[["age", "yrs_married", "children", "educ"]].to_numpy()

part = np.random.default_rng(0).integers(0, 3, y.size)
train, fit, test = (part == i for i in range(3))
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])
p = model.predict_proba(X)[:, 1]

# %%
# The second part of the rows calibrates it, and the third judges. On the whole nothing is found wrong:

pooled = cb.SplineCalibrator().fit(p[fit], y[fit]).predict_proba(p[test])
whole = cb.evaluate(y[test], pooled)
print(whole.verdict)
assert whole.verdict.startswith("No miscalibration found")

# %%
# Who is wronged?
# ---------------
# ``audit`` searches the values of one feature and of two, in all ranges of the score. Its p-values allow for the many
# segments that it looks at.

features = {"rating": rating[test], "religious": religious[test]}
audit = cb.metrics.audit(y[test], pooled, features=features)
print(audit.verdict)
for finding in audit.findings[:3]:
    print(f"  {finding.label}: predicted {finding.predicted:.2f}, happened {finding.observed:.2f} of {finding.n} rows")

assert audit.off
assert all("rating" in dict(finding.where) for finding in audit.findings[:3])

# %%
# A map for each group
# --------------------
# Fitted to other rows, of which the worst rating has few. ``shrinkage`` says for how many rows the map of all counts.

grouped = cb.GroupedCalibrator("sigmoid").fit(p[fit], y[fit], groups=rating[fit])
q = grouped.predict_proba(p[test], groups=rating[test])
print(f"the map of all rows counts for {grouped.shrinkage_:g} rows in each group")
losses = {
    name: cb.metrics.log_loss(y[test], each)
    for name, each in (("as it is", p[test]), ("one map for all", pooled), ("a map per group", q))
}
for name, loss in losses.items():
    print(f"{name:16} log loss {loss:.4f}")

# %%
# The gap of each rating, predicted less happened, with 95% intervals that allow for the five groups:

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for shift, (name, each) in zip((-0.12, 0.12), (("one map for all", pooled), ("a map per group", q)), strict=True):
    found = cb.metrics.evaluate_groups(y[test], each, groups=rating[test])
    gaps = [found.groups[level]["mean_gap"] for level in range(1, 6)]
    middle, low, high = (np.array([getattr(gap, side) for gap in gaps]) for side in ("value", "low", "high"))
    left.errorbar(np.arange(1, 6) + shift, middle, yerr=[middle - low, high - middle], fmt="o", capsize=4, label=name)
left.axhline(0.0, color="0.5", linestyle="--", linewidth=1)
counts = [(rating[test] == level).sum() for level in range(1, 6)]
left.set_xticks(range(1, 6), [f"{level}\n{n:,} rows" for level, n in zip(range(1, 6), counts, strict=True)])
left.set(xlabel="rating of the marriage", ylabel="predicted less happened", title="Gap by group")
left.legend()
grid = np.linspace(0.1, 0.8, 50)
for level, colour in zip(range(1, 6), plt.get_cmap("viridis")(np.linspace(0.0, 0.9, 5)), strict=True):
    right.plot(grid, grouped.predict_proba(grid, groups=[level] * grid.size), color=colour, label=f"rating {level}")
right.plot(grid, grid, color="0.6", linestyle="--", linewidth=1)
right.set(xlabel="the model says", ylabel="calibrated for the group", title="What the groups' maps do")
right.legend(fontsize="small")
plt.show()

# %%
# Of women who rate their marriage low, the model said far too little, and of the happiest too much. The maps mend it,
# and the log loss of all rows falls, which one map for all can't do.

assert losses["a map per group"] < losses["one map for all"] - 0.01
off = [cb.metrics.evaluate_groups(y[test], each, groups=rating[test]).off for each in (pooled, q)]
print("ratings that are off:", sorted(off[0]), "before,", sorted(off[1]), "after")
assert len(off[1]) < len(off[0])
