"""Over-confident boosted trees on handwritten digits: what calibration repairs, and why.

The trees are boosted until they make no error on the rows that they were trained on, and three of the ten digits were
rare among these. Two things go wrong on new rows: the trees are nearly certain even where they err, and they seldom
say the rare digits. Calibrators are fitted to rows that the trees have not seen, and everything is measured on rows
that neither has seen.

    python examples/overconfident_digits.py [--splits 10]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import calibrant as cb

#: The targets of the specification: Brier score (sum over classes) and calibration error of the predicted class.
BRIER_TARGET, ECE_TARGET = 0.15, 0.05
RARE, N_RARE, N_COMMON = (1, 8, 9), 8, 60
CALIBRATORS = {
    "temperature: one number for how sure": cb.TemperatureCalibrator,
    "isotonic, one-vs-rest (as specified)": lambda: cb.OneVsRestCalibrator("isotonic"),
    "Dirichlet: how sure, and which digits": cb.DirichletCalibrator,
}


def main() -> None:
    """Print the figures of the first split, the mechanism, and how often the targets are met over all splits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=10, help="number of random splits")
    n_splits = parser.parse_args().splits
    warnings.simplefilter("ignore", cb.errors.CalibrantWarning)
    runs = [one_split(seed) for seed in range(n_splits)]
    explain(*trained(0))
    print(f"\nMeans over {n_splits} splits, on rows that neither the trees nor the calibrator has seen:\n")
    print(f"{'':40}{'Brier':>8}{'ECE':>8}{'accuracy':>10}   both targets met")
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        brier, ece, accuracy = values.mean(axis=0)
        met = int(((values[:, 0] < BRIER_TARGET) & (values[:, 1] < ECE_TARGET)).sum())
        print(f"{name:40}{brier:8.3f}{ece:8.3f}{accuracy:10.3f}   {met} of {n_splits}")
    print(f"\nTargets: Brier below {BRIER_TARGET}, ECE below {ECE_TARGET}.")


def trained(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return labels and probabilities of the training, calibration and test rows of one split."""
    X, y = load_digits(return_X_y=True)
    pool, rest = train_test_split(np.arange(y.size), train_size=0.4, random_state=seed, stratify=y)
    fit, test = train_test_split(rest, train_size=0.5, random_state=seed, stratify=y[rest])
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [rng.permutation(pool[y[pool] == digit])[: N_RARE if digit in RARE else N_COMMON] for digit in range(10)]
    )
    trees = HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=200, max_depth=1, min_samples_leaf=5, early_stopping=False, random_state=seed
    )
    with threadpool_limits(1):  # with more threads than free cores these small trees take many times as long
        trees.fit(X[train], y[train])
    return (
        y[train],
        trees.predict_proba(X[train]),
        y[fit],
        trees.predict_proba(X[fit]),
        y[test],
        trees.predict_proba(X[test]),
    )


def one_split(seed: int) -> dict[str, tuple[float, float, float]]:
    """Return Brier score, ECE and accuracy on the test rows: of the trees, and after each calibrator."""
    _, _, y_fit, p_fit, y_test, p_test = trained(seed)
    found = {"raw: as the trees say": figures(y_test, p_test)}
    for name, make in CALIBRATORS.items():
        found[name] = figures(y_test, make().fit(p_fit, y_fit).predict_proba(p_test))
    return found


def figures(y: np.ndarray, prob: np.ndarray) -> tuple[float, float, float]:
    """Return Brier score (sum over classes), ECE of the predicted class, and accuracy."""
    return cb.metrics.brier_score(y, prob), cb.metrics.top_label_ece(y, prob), float((prob.argmax(axis=1) == y).mean())


def explain(
    y_train: np.ndarray,
    p_train: np.ndarray,
    y_fit: np.ndarray,
    p_fit: np.ndarray,
    y_test: np.ndarray,
    p_test: np.ndarray,
) -> None:
    """Show, on the first split, where the raw probabilities go wrong."""
    is_rare = np.isin(y_test, RARE)
    said_rare = np.isin(p_test.argmax(axis=1), RARE)
    temperature = cb.TemperatureCalibrator().fit(p_fit, y_fit)
    print("Where it goes wrong, on the first split:")
    print(f"  training rows: confidence {top(p_train):.3f}, right {right(y_train, p_train):.3f}")
    print(f"  test rows:     confidence {top(p_test):.3f}, right {right(y_test, p_test):.3f}: too sure")
    print(
        f"  digits {', '.join(map(str, RARE))}: {is_rare.mean():.3f} of the test rows, said in {said_rare.mean():.3f}"
    )
    print(
        f"  temperature multiplies the logarithms by {temperature.inverse_temperature_:.2f}: that mends the first, but"
    )
    print("  leaves every prediction as it is; Dirichlet calibration also shifts the classes, and so mends the second")


def top(prob: np.ndarray) -> float:
    """Return the mean confidence in the predicted class."""
    return float(prob.max(axis=1).mean())


def right(y: np.ndarray, prob: np.ndarray) -> float:
    """Return how often the predicted class is right."""
    return float((prob.argmax(axis=1) == y).mean())


if __name__ == "__main__":
    main()
