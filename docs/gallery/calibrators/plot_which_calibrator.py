"""
Which calibrator, for how many rows?
====================================

A calibrator with two numbers can be wrong for ever, and one that may draw any curve needs rows to learn it from. Which
of the two costs more depends on how many labelled rows there are. Here the truth is known, so the cost is exact.
"""

# %%
# A model and what is true
# ------------------------
# The model says p, and the event happens with the probability below. It is over-confident at both ends, has a bend that
# no sigmoid follows, and is too high on the whole.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

import calibrant as cb


def truth(p):
    """Return how probable the event is where the model says p."""
    z = logit(p)
    return expit(0.25 * z + 0.9 * np.tanh(1.4 * z) - 0.3)


def draw_scores(n, rng):
    """Draw what the model says of n rows, and what happens."""
    p = expit(rng.normal(0.0, 2.0, n))
    return p, (rng.random(n) < truth(p)).astype(int)


# %%
# The cost of a calibrator is the log loss that it has in expectation above that of the truth: a Kullback-Leibler
# divergence, which is 0 for the truth itself. Two thousand scores at quantiles of the model's own distribution stand
# for all rows to come.

grid = expit(2.0 * norm.ppf((np.arange(2_000) + 0.5) / 2_000))
right = truth(grid)


def excess(q):
    """Return the expected log loss of q less that of the truth."""
    with np.errstate(divide="ignore"):
        return np.mean(right * np.log(right / q) + (1 - right) * np.log((1 - right) / (1 - q)))


# %%
# Eight methods, four sizes
# -------------------------
# Each method is fitted to six draws of each size. What stays is the mean over the draws.

methods = {
    "temperature": cb.TemperatureCalibrator(),
    "sigmoid": cb.SigmoidCalibrator(),
    "beta": cb.BetaCalibrator(),
    "spline": cb.SplineCalibrator(),
    "isotonic, bounded": cb.IsotonicCalibrator(bounded=True),
    "histogram": cb.HistogramCalibrator(),
    "Venn-Abers": cb.VennAbersCalibrator(),
    "auto": cb.AutoCalibrator(),
}
sizes = [100, 400, 1_600, 6_400]
cost = {name: [] for name in methods}
for n in sizes:
    rng = np.random.default_rng(n)
    draws = [draw_scores(n, rng) for _ in range(6)]
    for name, calibrator in methods.items():
        cost[name].append(np.mean([excess(calibrator.fit(p, y).predict_proba(grid)) for p, y in draws]))

nothing = excess(grid)
print(f"{'':18}" + "".join(f"{n:>9,}" for n in sizes))
print(f"{'as it is':18}" + f"{nothing:9.4f}" * len(sizes))
for name, values in cost.items():
    print(f"{name:18}" + "".join(f"{value:9.4f}" for value in values))

# %%
# Doing nothing costs 0.0413. The lines of temperature, sigmoid and beta end in a plateau: what is left is not chance
# but shape. The others go on falling. A histogram has no cost that could be drawn until each of its bins has seen both
# outcomes: before that it says 0 or 1, and where that is wrong the log loss is infinite.

fig, (left, right_ax) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
for i, (name, values) in enumerate(cost.items()):
    colour, width = ("black", 2.6) if name == "auto" else (f"C{i}", 1.5)
    left.plot(sizes, values, marker="o", markersize=5, color=colour, linewidth=width, label=name)
left.axhline(nothing, color="0.5", linestyle="--", label="as it is")
left.set(xscale="log", yscale="log", xlabel="labelled rows", ylabel="log loss above that of the truth")
left.set_xticks(sizes, [f"{n:,}" for n in sizes])
left.minorticks_off()
left.set_title("Cost, mean of 6 draws")
left.legend(fontsize="small", ncols=2, loc="lower left")

p, y = draw_scores(400, np.random.default_rng(1))
for name, colour in (("sigmoid", "C1"), ("spline", "C3"), ("isotonic, bounded", "C4")):
    right_ax.plot(grid, methods[name].fit(p, y).predict_proba(grid), color=colour, label=name)
right_ax.plot(grid, right, color="0.3", linestyle=":", linewidth=2.5, label="truth")
right_ax.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
right_ax.set(xlabel="the model says", ylabel="calibrated probability", title="Three fits to the same 400 rows")
right_ax.legend(fontsize="small")
plt.show()

# %%
# What to take from it
# --------------------
# * With a hundred rows bins and steps cost more than doing nothing. Take a method of few numbers, or one that smooths.
# * With thousands take a curve: a spline, Venn-Abers, or ``auto``, which blends them.
# * A method that can't bend doesn't get better with more rows.
#
# On rows of your own the truth is not known, but held-out rows rank methods nearly as well: see
# :func:`calibrant.compare`.

few, many = ({name: values[i] for name, values in cost.items()} for i in (0, -1))
assert min(few["histogram"], few["isotonic, bounded"]) > nothing > max(few["sigmoid"], few["beta"], few["spline"])
assert max(many["spline"], many["Venn-Abers"], many["auto"]) < 0.5 * min(many["sigmoid"], many["beta"])
assert cost["sigmoid"][-1] > 0.9 * cost["sigmoid"][-2]
assert round(nothing, 4) == 0.0413
assert all(value < nothing for value in cost["auto"])

found = cb.compare(*draw_scores(1_600, np.random.default_rng(2)), methods=["sigmoid", "beta", "spline", "histogram"])
cb.ComparisonDisplay.from_comparison(found)
plt.show()
