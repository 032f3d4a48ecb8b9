"""
A monitor that may be looked at every day
=========================================

Whoever tests each day at 5% gets a false alarm within weeks. calibrant's monitor bets against the predictions instead.
Calibrated ones raise its alarm in at most one stream of a hundred, however often one looks.
"""

# %%
# Two streams of sixty days
# -------------------------
# Two hundred rows a day. In the first stream nothing is ever wrong. In the second one predictions are too low from day
# thirty on, by seven points.

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

n_days, n_rows, change = 60, 200, 30


def draw_day(rng, shift=0.0):
    """Draw what is predicted on a day, and what happens."""
    p = rng.uniform(0.1, 0.7, n_rows)
    return (rng.random(n_rows) < p + shift).astype(int), p


def watch(rng, shift):
    """Return a monitor of a stream whose rates shift from the day of the change on."""
    monitor = cb.monitor.CalibrationMonitor(alpha=0.01)
    for day in range(n_days):
        monitor.update(*draw_day(rng, shift if day >= change else 0.0), name=str(day))
    return monitor


streams = {
    "nothing wrong": watch(np.random.default_rng(0), 0.0),
    "off since day 30": watch(np.random.default_rng(1), 0.07),
}
for name, monitor in streams.items():
    print(f"{name}: first alarm {monitor.first_alarm}")

# %%
# The evidence of both streams, and what a daily test at 5% would have said.

fig, axes = plt.subplots(2, 2, figsize=(11, 6.2), sharex=True, layout="constrained")
for column, (name, monitor) in zip(axes.T, streams.items(), strict=True):
    gap, low, high, evidence = np.array([(w.gap, w.low, w.high, w.log_e_value) for w in monitor.windows]).T
    excluded = (low > 0) | (high < 0)
    colours = np.where(excluded, "tab:red", "tab:blue")
    column[0].vlines(np.arange(n_days), low, high, color=colours)
    column[0].scatter(np.arange(n_days), gap, color=colours, s=10)
    column[0].axhline(0.0, color="0.5", linewidth=1)
    column[0].set_title(f"{name}: {excluded.sum()} of 60 daily tests object")
    column[1].plot(evidence / np.log(10), color="tab:green")
    column[1].axhline(2.0, color="0.4", linestyle="--", linewidth=1)
    column[1].text(1, 2.2, "alarm", color="0.3")
    column[1].set(xlabel="day", ylim=(-3, 12))
axes[0, 0].set_ylabel("gap of the day, 95%")
axes[1, 0].set_ylabel("evidence, powers of ten")
plt.show()

assert streams["nothing wrong"].first_alarm is None
assert change <= int(streams["off since day 30"].first_alarm) < change + 10
assert sum(w.low > 0 or w.high < 0 for w in streams["nothing wrong"].windows) > 0

# %%
# False alarms, counted
# ---------------------
# Five hundred calibrated streams of sixty days with a daily test, and eight of fifteen days with the monitor, whose
# promise is a theorem: at most one stream in a hundred, ever.

rng = np.random.default_rng(5)
p = rng.uniform(0.1, 0.7, (500, n_days, n_rows))
z = ((rng.random(p.shape) < p) - p).sum(axis=2) / np.sqrt((p * (1 - p)).sum(axis=2))
accused = np.maximum.accumulate(np.abs(z) > 1.96, axis=1).mean(axis=0)

alarms = 0
for _ in range(8):
    monitor = cb.monitor.CalibrationMonitor(alpha=0.01)
    for _day in range(15):
        monitor.update(*draw_day(rng))
    alarms += monitor.is_alarm

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.plot(np.arange(1, n_days + 1), accused, label="a daily test at 5%")
ax.plot([1, n_days], [0.01, 0.01], label="the monitor: at most this, ever")
ax.set(xlabel="days looked at", ylabel="share of calibrated streams accused", ylim=(-0.03, 1.0), title="False alarms")
ax.legend()
plt.show()
print(f"daily tests: {accused[-1]:.0%} of the streams by day {n_days}; monitor: {alarms} of 8")
assert accused[-1] > 0.9
assert alarms == 0

# %%
# Before labels come: drift
# -------------------------
# ``DriftMonitor`` asks whether scores and columns are spread as before, with as few false alarms. Drift is not
# miscalibration, but says that estimates rest on less.

rng = np.random.default_rng(7)
drift = cb.monitor.DriftMonitor({"score": rng.beta(2, 3, 2_000), "age": rng.normal(40, 10, 2_000)})
for day in range(20):
    older = 0.0 if day < 10 else 4.0
    drift.update({"score": rng.beta(2, 3, 200), "age": rng.normal(40 + older, 10, 200)}, name=f"day {day}")
print("drift found on", drift.first_alarm, "in", drift.windows[-1].drifted)
assert drift.windows[-1].drifted == ("age",)
assert drift.first_alarm in {f"day {day}" for day in range(10, 20)}
