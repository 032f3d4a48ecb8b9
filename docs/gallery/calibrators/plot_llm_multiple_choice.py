"""
Confidences of a language model that answers multiple choice
============================================================

A language model answers questions with the letters A to D. Its log-probabilities of the four letters are a confidence,
and after fine-tuning on people's preferences that confidence is mostly too high. Calibrating it says when to trust an
answer, and a bias towards one letter can be taken out too.
"""

# %%
# The log-probabilities are simulated
# -----------------------------------
# Real log-probabilities come with licences, so these follow a law. A question has a difficulty, and the model's
# evidence for the right option shrinks with it. The truth is a softmax of the evidence. The model says three times
# that, as fine-tuned models do, likes the letter A, and gives a part of its probability to tokens that are no letter at
# all.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import log_softmax, softmax

import calibrant as cb

letters = np.array(list("ABCD"))


def draw_questions(n, rng):
    """Draw log-probabilities of four letters, and the right letter."""
    evidence = rng.normal(0.0, 1.0, (n, 4))
    evidence[np.arange(n), rng.integers(0, 4, n)] += rng.gamma(2.0, 0.9, n)
    p_true = softmax(evidence, axis=1)
    right = letters[(rng.random((n, 1)) > p_true.cumsum(axis=1)).sum(axis=1)]
    said = log_softmax(3.0 * evidence + [1.5, 0.0, 0.0, 0.0], axis=1)
    elsewhere = rng.uniform(0.01, 0.4, (n, 1))  # the share of tokens that are no letter
    return said + np.log1p(-elsewhere), right


rng = np.random.default_rng(1)
log_p_fit, right_fit = draw_questions(800, rng)
log_p, right = draw_questions(3_000, rng)
shown = ", ".join(f"{letter} {share:.3f}" for letter, share in zip(letters, np.exp(log_p[0]), strict=True))
print(f"the first question: {shown}; right is {right[0]}")

# %%
# The four numbers of a row don't sum to one, and they need not: ``input="logit"`` says that they are logarithms up to a
# constant. Nothing has to be normalised by hand, and nothing is guessed from the numbers.

before = softmax(log_p, axis=1)
temperature = cb.TemperatureCalibrator(input="logit").fit(log_p_fit, right_fit)
vector = cb.VectorScalingCalibrator(input="logit").fit(log_p_fit, right_fit)
answers = {
    "as it is": before,
    "temperature": temperature.predict_proba(log_p),
    "vector scaling": vector.predict_proba(log_p),
}
print(f"the logits are multiplied by {temperature.inverse_temperature_:.3f}, a third would undo the law")
figures = {}
for name, p in answers.items():
    accuracy = (letters[p.argmax(axis=1)] == right).mean()
    figures[name] = accuracy, p.max(axis=1).mean(), cb.metrics.log_loss(right, p), (p.argmax(axis=1) == 0).mean()
    words = "right {:.3f}   confidence {:.3f}   log loss {:.3f}   answers A {:.3f}".format(*figures[name])
    print(f"{name:15} {words}")

# %%
# The temperature makes the confidence honest and changes no answer. Vector scaling also takes the bias for A out, and
# more answers are right.

assert (
    abs(figures["temperature"][1] - figures["temperature"][0]) < 0.03 < figures["as it is"][1] - figures["as it is"][0]
)
assert figures["temperature"][0] == figures["as it is"][0] < figures["vector scaling"][0]
assert figures["vector scaling"][2] < figures["temperature"][2] < figures["as it is"][2]

# %%
# How sure, and how often right
# -----------------------------

fig, (left, right_ax) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for name, p in answers.items():
    hit = letters[p.argmax(axis=1)] == right
    curve = cb.reliability_curve(hit, p.max(axis=1), n_bins=10)
    left.errorbar(
        curve.x,
        curve.y,
        yerr=[curve.y - curve.low, curve.high - curve.y],
        marker="o",
        markersize=4,
        capsize=2,
        label=name,
    )
left.plot([0.2, 1], [0.2, 1], color="0.6", linestyle="--", linewidth=1)
left.set(xlabel="confidence in the answer", ylabel="share of answers that are right", title="Reliability of the answer")
left.legend()

curves = [
    cb.decisions.risk_coverage_curve(right, p, label=name) for name, p in answers.items() if name != "temperature"
]
cb.RiskCoverageDisplay(curves).plot(right_ax)
right_ax.set_title("Answer only the surest questions")
plt.show()

# %%
# On the right is what the confidence is for. If a person may take over a part of the questions, how many of the others
# are wrong? With calibrated confidences the rule "answer where an error costs less than a person" can be written down
# in money: a person costs 0.35, a wrong answer 1.

losses = {f"answer {letter}": {each: float(each != letter) for each in letters} for letter in letters}
problem = cb.decisions.Problem(losses, abstain=0.35)
cost = {}
for name, p in answers.items():
    found = cb.decisions.evaluate(right, p, problem)
    asked = np.mean(cb.decisions.Policy(problem).decide(p) == "abstain")
    cost[name] = found["realised"].value
    promised = found["promised"].value
    print(f"{name:15} promised {promised:.3f}, cost {cost[name]:.3f} a question; a person was asked for {asked:.1%}")

assert max(cost["vector scaling"], cost["temperature"]) < cost["as it is"]
