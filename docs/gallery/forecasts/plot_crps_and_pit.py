"""
Forecasts of a number: CRPS, PIT, and recalibration
===================================================

A forecast of a number is a distribution. Its PIT, the level at which the outcome fell, is uniform if the forecast is
calibrated. Its CRPS is a price for being wrong that rewards being sharp too. Recalibration learns from earlier outcomes
what the levels mean.
"""

# %%
# A model that doesn't know how noisy it is
# -----------------------------------------
# The progress of diabetes in 442 people comes with scikit-learn. Ridge regression predicts it, and its forecast is a
# normal distribution with the spread of the residuals on its training rows. It has many features for few rows, so that
# these residuals are too small.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import calibrant as cb
from calibrant import forecasts

X, y = load_diabetes(return_X_y=True)
order = np.random.default_rng(0).permutation(y.size)
train, known, later = order[:120], order[120:270], order[270:]
model = make_pipeline(StandardScaler(), PolynomialFeatures(2, interaction_only=True), Ridge(5.0)).fit(
    X[train], y[train]
)
spread = np.std(y[train] - model.predict(X[train]))


def forecast(rows):
    """Forecast rows by normal distributions of one spread."""
    mean = model.predict(X[rows])
    return forecasts.GaussianForecast(mean, np.full(mean.size, spread))


before = forecasts.evaluate(forecast(later), y[later])
print(before.verdict)

# %%
# Recalibrate
# -----------
# Three recalibrators learn from 150 people whose outcome is known, and are judged on the other 172. ``VarianceScaling``
# has one number, ``Average`` a curve of levels, ``Conformal`` takes the residuals as they fell.

recalibrators = {
    "variance scaling": forecasts.VarianceScalingRecalibrator(),
    "average": forecasts.AverageRecalibrator(),
    "conformal": forecasts.ConformalRecalibrator(),
}
made = {"as it is": forecast(later)}
for name, recalibrator in recalibrators.items():
    made[name] = recalibrator.fit(forecast(known), y[known]).transform(forecast(later))

crps = {name: forecasts.crps(each, y[later]) for name, each in made.items()}
held = {name: forecasts.coverage(each, y[later], level=0.9) for name, each in made.items()}
for name in made:
    print(f"{name:17} CRPS {crps[name]:.2f}   90% intervals hold {held[name]:.1%}")
print(forecasts.evaluate(made["average"], y[later]).verdict)

# %%
# The PIT histograms: two towers at the ends mean that outcomes fall outside of what was thought likely. The grey band
# is where bars of a calibrated forecast lie.

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
for ax, name in zip(axes, ("as it is", "average"), strict=True):
    cb.PitDisplay(forecasts.pit_histogram(made[name], y[later], n_bins=12)).plot(ax)
    ax.set_title(name)
plt.show()

# %%
# The same over levels: how often did outcomes fall below the quantile of each level?

curves = [forecasts.level_curve(made[name], y[later], label=name) for name in ("as it is", "average", "conformal")]
cb.ForecastReliabilityDisplay(curves).plot()
plt.show()

# %%
# What the intervals look like
# ----------------------------
# Thirty people, sorted by their forecast. Dots outside of the bars are red.

some = np.argsort(model.predict(X[later]))[::6][:30]
fig, axes = plt.subplots(1, 2, figsize=(10.5, 4), sharey=True, layout="constrained")
for ax, name in zip(axes, ("as it is", "average"), strict=True):
    low, high = made[name].interval(0.9)
    outside = (y[later] < low) | (y[later] > high)
    ax.vlines(np.arange(some.size), low[some], high[some], linewidth=5, alpha=0.35)
    ax.scatter(
        np.arange(some.size), y[later][some], s=18, color=np.where(outside[some], "tab:red", "tab:blue"), zorder=3
    )
    ax.set(title=f"{name}: 90% intervals hold {1 - outside.mean():.0%} of all", xlabel="person")
axes[0].set_ylabel("progress of diabetes")
plt.show()

for name in recalibrators:
    assert abs(held[name] - 0.9) < 0.07 < 0.9 - held["as it is"]
    assert crps[name] < crps["as it is"]
