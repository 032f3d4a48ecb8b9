"""
Several steps ahead: sunspots
=============================

How far ahead is a forecast worth more than the average of the past? The spots of the sun come and go in eleven years,
and an autoregression knows that. Each horizon is judged by itself, with skill against the climatology.
"""

# %%
# The yearly numbers since 1700 come with statsmodels. An autoregression of nine years is fitted to the years before
# 1850, and forecasts one to fifteen years ahead from each year since.

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from calibrant import forecasts

spots = np.sqrt(sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy())  # the root has a steadier spread
year = np.arange(1700, 1700 + spots.size)
first, n_lags, n_ahead = 150, 9, 15

lagged = np.column_stack([spots[n_lags - i - 1 : first - i - 1] for i in range(n_lags)])
design = np.column_stack([np.ones(len(lagged)), lagged])
weights, *_ = np.linalg.lstsq(design, spots[n_lags:first], rcond=None)
noise = np.std(spots[n_lags:first] - design @ weights, ddof=n_lags + 1)

# %%
# A step ahead is uncertain by the noise of one year. Further ahead the noises add up, each with the weight that the
# autoregression passes it on by.

passed_on = np.zeros(n_ahead)
passed_on[0] = 1.0
for step in range(1, n_ahead):
    passed_on[step] = sum(weights[1 + i] * passed_on[step - 1 - i] for i in range(min(n_lags, step)))
spread = noise * np.sqrt(np.cumsum(passed_on**2))

rows = []
for origin in range(first, spots.size - n_ahead):
    past = list(spots[:origin])
    for step in range(n_ahead):
        past.append(weights[0] + np.dot(weights[1:], past[-1 : -n_lags - 1 : -1]))
        rows.append((origin, step + 1, past[-1], spread[step], spots[origin + step]))
origin, ahead, mean, std, happened = np.array(rows).T
made = forecasts.GaussianForecast(mean, std)

# %%
# Each horizon by itself
# ----------------------
# Errors of neighbouring years hang together, so ``time=`` and ``label_end=`` say when a forecast was made and when its
# outcome was known. The intervals allow for that.

steps = np.arange(1, n_ahead + 1)
skill, coverage = [], []
for step in steps:
    at = ahead == step
    known = {"time": origin[at], "label_end": origin[at] + step}
    skill.append(forecasts.skill(made[at], happened[at], history=spots[:first], **known)["skill"])
    within = forecasts.coverage_by_level(made[at], happened[at], levels=[0.05, 0.95], **known)
    coverage.append(within.coverage[0])

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained")
value, low, high = (np.array([getattr(each, end) for each in skill]) for end in ("value", "low", "high"))
left.errorbar(steps, value, yerr=[value - low, high - value], fmt="o", capsize=3)
left.axhline(0.0, color="0.5", linestyle="--", linewidth=1)
left.set(xlabel="years ahead", ylabel="CRPS lower than climatology's by", title="Skill at each horizon")
left.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
value, low, high = (np.array([getattr(each, end) for each in coverage]) for end in ("value", "low", "high"))
right.errorbar(steps, value, yerr=[value - low, high - value], fmt="o", capsize=3)
right.axhline(0.9, color="0.5", linestyle="--", linewidth=1)
right.set(xlabel="years ahead", ylabel="share of outcomes inside", title="What intervals of 90% hold", ylim=(0.5, 1.01))
plt.show()

# %%
# The first years are known well. From the third to the eleventh, one round of the cycle, skill stays where the phase of
# the cycle takes it. After that it falls, as the phase itself gets lost.

value = [each.value for each in skill]
assert value[0] > max(value[2:11])
assert min(value[2:11]) > max(value[12:])
assert skill[-1].low > 0.0

# %%
# ``evaluate_horizons`` does all that in one call, with every score and with what chance makes of each gap. For two
# horizons:

two = np.isin(ahead, (1, 11))
found = forecasts.evaluate_horizons(
    made[two],
    happened[two],
    ahead[two].astype(int),
    history=spots[:first],
    reference="climatology",
    time=origin[two],
    label_end=origin[two] + ahead[two],
)
print(found.verdict)

# %%
# From one origin it looks like this:

at = origin == first + 60
fig, ax = plt.subplots(figsize=(9.5, 3.8), layout="constrained")
low, high = made.interval(0.9)
shown = slice(first + 20, first + 60 + n_ahead)
ax.plot(year[shown], spots[shown], color="black", marker=".", label="what happened")
ahead_years = year[first + 60] + ahead[at] - 1
ax.fill_between(ahead_years, low[at], high[at], alpha=0.3, label="90% of the forecast")
ax.plot(ahead_years, mean[at], label="mean of the forecast")
ax.axhline(spots[:first].mean(), color="0.6", linestyle=":", label="average before 1850")
ax.set(ylabel="root of the sunspot number", title=f"Forecast at the end of {year[first + 59]}")
ax.legend(ncols=4, loc="upper center", fontsize="small")
ax.set_ylim(top=15)
plt.show()
