"""
Many classes: one number, or a matrix?
======================================

With K classes a calibrator may have one number (temperature), 2 K numbers (vector scaling), K squared (matrix scaling,
Dirichlet), or a curve per class. Which pays off depends on what is wrong and on how many rows there are.
"""

# %%
# A network that confuses cat and dog
# -----------------------------------
# Six animals. The network's logits are those of the truth, but for three faults. It is too sure of all classes. It says
# "dog" too often. And what it sees as a dog is often a cat, so that the two columns need to be mixed.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

import calibrant as cb

animals = np.array(["bird", "cat", "cow", "dog", "fish", "frog"])
cat, dog = 1, 3
mixing = np.eye(6)
mixing[cat, dog] = 0.7  # a part of the evidence for a cat is counted for a dog
bias = np.where(np.arange(6) == dog, 0.8, 0.0)


def draw_rows(n, rng):
    """Draw what the network says, the label, and the true probabilities."""
    logits = rng.normal(0.0, 1.0, (n, 6))
    logits[np.arange(n), rng.integers(0, 6, n)] += 1.5
    p_true = softmax(1.2 * logits, axis=1)
    label = animals[(rng.random((n, 1)) > p_true.cumsum(axis=1)).sum(axis=1)]
    return softmax(2.0 * (logits @ mixing + bias), axis=1), label, p_true


rng = np.random.default_rng(0)
new, label_new, p_new = draw_rows(4_000, rng)
before = cb.metrics.evaluate_classes(label_new, new)
print("classes that are off:", ", ".join(map(str, before.off)))
print("dog:", before.classes["dog"].verdict)

# %%
# Fits to few rows and to many
# ----------------------------
# The cost is the expected log loss above that of the truth.

makers = {
    "temperature": cb.TemperatureCalibrator,
    "vector scaling": cb.VectorScalingCalibrator,
    "matrix scaling": cb.MatrixScalingCalibrator,
    "Dirichlet": cb.DirichletCalibrator,
    "one-vs-rest isotonic": lambda: cb.OneVsRestCalibrator(cb.IsotonicCalibrator(bounded=True)),
}


def excess(q):
    """Return the expected log loss of q on the new rows, less that of the truth."""
    return np.mean(np.sum(p_new * np.log(p_new / q), axis=1))


sizes = (100, 500, 2_500)
cost = {name: [] for name in makers}
for n in sizes:
    draws = [draw_rows(n, rng)[:2] for _ in range(4)]
    for name, make in makers.items():
        cost[name].append(np.mean([excess(make().fit(p, label).predict_proba(new)) for p, label in draws]))

for name, values in cost.items():
    print(f"{name:22}" + "".join(f"{value:8.3f}" for value in values))

fig, ax = plt.subplots(figsize=(9, 4), layout="constrained")
for i, (name, values) in enumerate(cost.items()):
    places = np.arange(len(sizes)) + (i - 2) * 0.16
    bars = ax.bar(places, values, width=0.15, label=name)
    ax.bar_label(bars, fmt="%.2f", fontsize=7)
ax.axhline(excess(new), color="0.4", linestyle="--", label="as it is")
ax.set_xticks(np.arange(len(sizes)), [f"{n:,} rows" for n in sizes])
ax.set(ylabel="log loss above that of the truth", title="What each fit costs on new rows", ylim=(0, 1.12 * excess(new)))
ax.legend(fontsize="small", ncols=3, loc="upper center", bbox_to_anchor=(0.5, 0.9))
plt.show()

# %%
# Temperature mends the over-confidence and nothing else, so it stops there. Matrix scaling and Dirichlet calibration
# unmix the columns. Their matrices are drawn to temperature scaling where rows are few, which is why they do no harm at
# a hundred rows.

last = {name: values[-1] for name, values in cost.items()}
assert max(last["matrix scaling"], last["Dirichlet"]) < 0.5 * last["vector scaling"] < 0.2 * last["temperature"]
assert max(cost["matrix scaling"][0], cost["Dirichlet"][0]) < cost["temperature"][0]

# %%
# What matrix scaling has learned
# -------------------------------
# The panels have a curve per class, on new rows: first of the network, then after matrix scaling.

p, label, _ = draw_rows(2_500, rng)
matrix = cb.MatrixScalingCalibrator().fit(p, label)
cb.MulticlassReliabilityDisplay.from_predictions(label_new, new)
plt.suptitle("The network as it is", fontsize="large")
cb.MulticlassReliabilityDisplay.from_predictions(label_new, matrix.predict_proba(new))
plt.suptitle("After matrix scaling", fontsize="large")
plt.show()

after = cb.metrics.evaluate_classes(label_new, matrix.predict_proba(new))
print("classes that are off after matrix scaling:", ", ".join(map(str, after.off)) or "none")
right = {
    name: (animals[q.argmax(axis=1)] == label_new).mean()
    for name, q in (("network", new), ("matrix", matrix.predict_proba(new)))
}
print(f"right before {right['network']:.3f}, after {right['matrix']:.3f}")
assert len(before.off) > len(after.off)
assert right["matrix"] > right["network"]
