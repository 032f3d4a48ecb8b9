"""
Learning label by label
=======================

A world that drifts doesn't wait for a refit. ``OnlinePlattCalibrator`` learns from each label as it comes and forgets
what is old. Beside it stand the scores as they are, a sigmoid fitted once, and one refitted every 250 rows.
"""

# %%
# A score whose meaning drifts
# ----------------------------
# Three thousand rows in order. The slope of the true logit on that of the score wanders from 1 down to 0.4, and the
# base rate goes up and down.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

import calibrant as cb

rng = np.random.default_rng(3)
n = 3_000
when = np.arange(n)
slope = 0.4 + 0.3 * (1.0 + np.cos(np.pi * when / n))
shift = 0.9 * np.sin(2.5 * np.pi * when / n)
score = expit(rng.normal(0.0, 1.5, n))
truth = expit(slope * logit(score) + shift)
y = (rng.random(n) < truth).astype(int)

# %%
# Each row is predicted before its label is learnt. ``replay`` does that for rows that are all there.

predicted = {"as it is": score}
once = cb.SigmoidCalibrator().fit(score[:250], y[:250])
predicted["fitted once"] = once.predict_proba(score)
refitted = score.copy()
for start in range(250, n, 250):
    now = slice(start, start + 250)
    refitted[now] = cb.SigmoidCalibrator().fit(score[:start], y[:start]).predict_proba(score[now])
predicted["refitted to all"] = refitted
online = cb.OnlinePlattCalibrator()
predicted["online"] = online.replay(score, y, time=when, label_end=when)

after = slice(250, None)
losses = {name: cb.metrics.log_loss(y[after], p[after]) for name, p in predicted.items()}
best = cb.metrics.log_loss(y[after], truth[after])
for name, loss in losses.items():
    print(f"{name:16} log loss {loss:.4f}, {loss - best:.4f} above the truth")
assert min(losses, key=losses.get) == "online"

# %%
# The upper panel has the regret: the log loss above that of the truth, summed up. The lower one follows what a score of
# 0.7 means.

fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6.6), sharex=True, layout="constrained")
for i, (name, p) in enumerate(predicted.items()):
    regret = truth * np.log(truth / p) + (1 - truth) * np.log((1 - truth) / (1 - p))
    top.plot(when[after], np.cumsum(regret[after]), color=f"C{i}", label=name)
top.set(ylabel="regret so far, nats", title="Log loss above that of the truth, summed up")
top.legend()

follower = cb.OnlinePlattCalibrator()
meaning = []
for start in range(0, n, 50):
    meaning.append(follower.predict_proba([0.7])[0])
    follower.update(score[start : start + 50], y[start : start + 50])
bottom.plot(when, expit(slope * logit(0.7) + shift), color="black", linestyle=":", linewidth=2, label="truth")
bottom.plot(when[::50], meaning, color="C3", label="online")
bottom.axhline(once.predict_proba([0.7])[0], color="C1", label="fitted once")
bottom.axhline(0.7, color="C0", label="as it is")
bottom.set(xlabel="row", ylabel="what 0.7 means", ylim=(0, 1))
bottom.legend(ncols=4, loc="lower left", fontsize="small")
plt.show()

# %%
# The promise
# -----------
# Of any rows, however chosen, the total log loss exceeds that of a sequence of maps by at most a bound, which grows
# with how often the sequence changes:


def path(changes):
    """Return slope and intercept of the true map, held constant between as many changes."""
    at = (n * (np.arange(changes + 1) + 0.5) / (changes + 1)).astype(int)
    return np.column_stack([slope[at], shift[at]])


for changes in (0, 5, 20):
    bound = online.regret_bound(path(changes), n)
    print(f"{changes:2} changes: at most {bound:5.1f} nats above them in {n:,} rows, {bound / n:.4f} a row")

# %%
# Where nothing drifts, a refit to all labels uses its rows better. The online calibrator pays a little for being ready.

steady = (rng.random(n) < expit(0.7 * logit(score) + 0.3)).astype(int)
waiting = score.copy()
for start in range(250, n, 250):
    now = slice(start, start + 250)
    waiting[now] = cb.SigmoidCalibrator().fit(score[:start], steady[:start]).predict_proba(score[now])
ready = cb.OnlinePlattCalibrator().replay(score, steady, time=when, label_end=when)
price = cb.metrics.log_loss(steady[after], ready[after]) - cb.metrics.log_loss(steady[after], waiting[after])
print(f"price without drift: {price:.4f} a row")
assert 0.0 < price < losses["refitted to all"] - losses["online"]
