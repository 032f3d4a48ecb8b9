"""
The base rate has moved, and nobody has labels yet
==================================================

A model was calibrated where 30% of cases were positive. It is used where the share is another one, which no label has
shown so far. If only the base rate has changed, the probabilities themselves tell what it is now.
"""

# %%
# A clinic, and a screening of everybody
# --------------------------------------
# Among patients of a clinic 30% are ill. The test's score has a bell curve for the ill and one for the healthy. In a
# screening the same test meets many more healthy people.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

import calibrant as cb
from calibrant import prior

rng = np.random.default_rng(2)


def draw_people(n, rate):
    """Draw who is ill, and the probability that is right where 30% are."""
    y = (rng.random(n) < rate).astype(int)
    score = rng.normal(1.8 * y, 1.0)
    return y, expit(1.8 * score - 1.62 + logit(0.3))


clinic, p_clinic = draw_people(3_000, 0.30)
screened, p = draw_people(3_000, 0.05)
print("clinic:   ", cb.evaluate(clinic, p_clinic).verdict)
print("screening:", cb.evaluate(screened, p).verdict)

# %%
# Estimate, then correct
# ----------------------
# ``estimate_prior`` finds the base rate under which the new probabilities are most likely, with an interval. It looks
# at no label.

estimate = prior.estimate_prior(p, old=[0.70, 0.30])
share, low, high = estimate.new[1], estimate.low[1], estimate.high[1]
print(f"share of ill people: {share:.3f}, 95% interval {low:.3f} to {high:.3f}; truth 0.050")
q = prior.prior_shift(p, old=0.30, new=share)

assert low < 0.05 < high
print("screening, after the shift:", cb.evaluate(screened, q).verdict)
assert cb.evaluate(screened, p).verdict.startswith("Not calibrated")
assert cb.evaluate(screened, q).verdict.startswith("No miscalibration found")

# %%
# On the left the diagrams before and after. On the right the estimate for screenings of any true share, with its
# intervals: they get narrow with three thousand people, and lie on the diagonal.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
for name, each in (("as calibrated in the clinic", p), ("after the shift", q)):
    curve = cb.reliability_curve(screened, each, n_bins=10)
    left.errorbar(curve.x, curve.y, yerr=[curve.y - curve.low, curve.high - curve.y], marker="o", capsize=3, label=name)
left.plot([0, 0.8], [0, 0.8], color="0.6", linestyle="--", linewidth=1)
left.set(xlabel="predicted", ylabel="happened", title="People who were screened")
left.legend()

rates = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8])
found = [prior.estimate_prior(draw_people(3_000, rate)[1], old=[0.70, 0.30]) for rate in rates]
middle, low, high = (np.array([getattr(each, name)[1] for each in found]) for name in ("new", "low", "high"))
right.errorbar(rates, middle, yerr=[middle - low, high - middle], fmt="o", capsize=3)
right.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
right.set(xlabel="true share", ylabel="estimated share", title="Estimated without labels")
plt.show()

held = np.mean((low <= rates) & (rates <= high))
print(f"{held:.0%} of the intervals hold the true share")
assert held > 0.7

# %%
# When not to do this
# -------------------
# All rests on the two bell curves being the same in both places. If ill people in the screening have milder forms, the
# meaning of a score has changed, and only labels can show it. :func:`calibrant.prior.estimate_prior_bbse` estimates the
# same from how a classifier confuses the classes, which needs no calibrated probabilities.

bbse = prior.estimate_prior_bbse(clinic, p_clinic, new_predictions=p)
print(f"by confusion: {bbse.new[1]:.3f}, 95% interval {bbse.low[1]:.3f} to {bbse.high[1]:.3f}")
assert abs(bbse.new[1] - share) < 0.03
