"""
Shares that must match a census
===============================

A classifier guesses the work of people from what a register knows. A census says how many there are of each kind in
each region. The probabilities should add up to that, and whoever was more likely than others before should stay so.
"""

# %%
# People, regions, and a classifier
# ---------------------------------
# Three hundred people in three regions, with probabilities for work, study and home. They are simulated, as is the
# census, whose counts are rounded to the nearest five to protect people.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import softmax

import calibrant as cb
from calibrant import rank_preserving

rng = np.random.default_rng(3)
classes = ["work", "study", "home"]
regions = np.repeat(["north", "middle", "south"], [80, 100, 120])
lean = pd.DataFrame({"north": [0.5, 0.3, 0.0], "middle": [0.6, 0.0, 0.0], "south": [0.2, 0.0, 0.6]}, index=classes)
logits = rng.normal(0.0, 1.1, (regions.size, 3)) + np.array([0.6, 0.0, 0.0])
P = pd.DataFrame(softmax(logits, axis=1), columns=classes)
p_true = softmax(logits + 1.3 * lean[regions].to_numpy().T, axis=1)
truth = np.array(classes)[(rng.random((regions.size, 1)) > p_true.cumsum(axis=1)).sum(axis=1)]

census = 5 * (pd.crosstab(regions, truth).loc[["north", "middle", "south"], classes] / 5).round()
predicted = P.groupby(regions).sum().loc[census.index]
census.index.name = census.columns.name = None
print("the census:", census, "", "the classifier:", predicted.round(1), sep="\n")

# %%
# Totals that can't be met to the last digit
# ------------------------------------------
# Rounded counts of a region don't add up to its people. ``Margins`` with a tolerance asks for totals within 5% and one
# person, whichever is nearest to what the classifier said. The frame has the regions as its index, the classes as its
# columns, and is matched by name.

low, high = census * 0.95 - 1.0, census * 1.05 + 1.0
margins = {
    region: rank_preserving.Margins(low=low.loc[region].to_dict(), high=high.loc[region].to_dict())
    for region in census.index
}
result = rank_preserving.solve(P, margins, groups=regions)
Q = result.Q
after = Q.groupby(regions).sum().loc[census.index]
print(after.round(1))
print(f"converged: {result.converged}, in {result.n_iter} iterations")

assert result.converged
assert ((after > low - 1e-6) & (after < high + 1e-6)).all(axis=None)

# %%
# Before, the sums of the south were far from the census. Afterwards each lies within its interval:

fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for ax, region in zip(axes, census.index, strict=True):
    x = np.arange(3)
    ax.bar(x - 0.2, predicted.loc[region], width=0.38, color="0.75", label="the classifier")
    ax.bar(x + 0.2, after.loc[region], width=0.38, color="tab:blue", label="with the census")
    ax.errorbar(
        x + 0.2,
        census.loc[region],
        yerr=[census.loc[region] - low.loc[region], high.loc[region] - census.loc[region]],
        fmt="_",
        color="black",
        capsize=5,
        label="census and tolerance",
    )
    ax.set_xticks(x, classes)
    ax.set_title(f"{region}: {np.sum(regions == region)} people")
axes[0].set_ylabel("expected people")
axes[1].legend(fontsize="small")
plt.show()

# %%
# Nobody overtakes anybody
# ------------------------
# Within a region and a class, the order of people is kept. The picture has a panel for each class, before across and
# after up, for the people of the south.

south = regions == "south"
cb.RankPreservingDisplay.from_matrices(P[south], Q[south])
plt.show()

for name in classes:
    order = np.argsort(P.loc[south, name].to_numpy())
    assert (np.diff(Q.loc[south, name].to_numpy()[order]) > -1e-9).all()

# %%
# Was it worth it? The people's true classes say so:

before_loss, after_loss = (cb.metrics.log_loss(truth, each) for each in (P, Q.clip(lower=1e-4)))
print(f"log loss {before_loss:.4f} before, {after_loss:.4f} after")
assert after_loss < before_loss

# %%
# When not to do this
# -------------------
# If only the base rates have changed, Bayes' rule (:func:`calibrant.prior.prior_shift`) is exact and lets people move
# past each other where it is right. Rank preservation is for totals that come from elsewhere, where the ranking itself
# is what somebody relies on. Very distant totals leave little of the differences between people: of a total of 90% each
# row can only become nearly the same.

far = rank_preserving.solve(P[south], {"work": 0.9, "study": 0.05, "home": 0.05}, margin_kind="rates")
spread = [rank_preserving.diagnose(P[south], each).spread for each in (Q[south], far)]
print(f"spread that is left: {spread[0]:.0%} with the census, {spread[1]:.0%} with a total of 90%")
assert spread[1] < 0.5 * spread[0]
