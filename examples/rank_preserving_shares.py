"""Class shares that are known to have changed: a classifier's probabilities are given the new shares.

A logistic regression learns handwritten digits, grouped into three classes, where all are equally frequent. Then it
meets rows of which one class is frequent and one rare, and somebody counted how many there are of each. Prints what
each way of giving the probabilities these totals does to them, and what happens where the totals have to be estimated.

When not to use rank preservation: where only the base rates have changed, as here. Then Bayes' rule (prior_shift) is
exact, and its log loss is among the lowest. Keep the order where rankings within each class decide, and the totals are
given by somebody else. Where these are far off, the columns are flattened: of what told the rows apart little is left.

    python examples/rank_preserving_shares.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import calibrant as cb
from calibrant import rank_preserving

#: Digits that are 0 to 3, 4 to 6 or 7 to 9, and the shares of these after the change.
NAMES = np.array(["high", "low", "middle"])
SHARES = {"high": 0.10, "low": 0.55, "middle": 0.35}
N_ROWS, N_PIXELS = 400, 12


def main() -> None:
    """Run the example."""
    rng = np.random.default_rng(0)
    X, digit = load_digits(return_X_y=True)
    X = X[:, rng.permutation(X.shape[1])[:N_PIXELS]] / 16.0  # a few pixels: a classifier that is not sure
    y = NAMES[np.where(digit <= 3, 1, np.where(digit <= 6, 2, 0))]
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = LogisticRegression(max_iter=1_000).fit(X_train, y_train)

    rows = np.concatenate(
        [rng.choice(np.flatnonzero(y_rest == name), round(N_ROWS * share)) for name, share in SHARES.items()]
    )
    predicted, truth = model.predict_proba(X_rest[rows]), y_rest[rows]
    P = pa.table(dict(zip(NAMES, predicted.T, strict=True)))

    totals = rank_preserving.margins_from_labels(truth)
    print(f"{N_ROWS} rows; share of each class in training, predicted and counted:")
    trained = cb.prior.class_rates(y_train).rates
    for name, before, mean, counted in zip(NAMES, trained, predicted.mean(axis=0), totals.rates, strict=True):
        print(f"  {name:<6}  {before:.3f}  {mean:.3f}  {counted:.3f}")

    print("\nThe counted totals, given to the probabilities in every way:")
    print(rank_preserving.compare(P, totals, y=truth))

    result = rank_preserving.solve(P, totals)
    print(f"\nKeeping the order: {result.n_iter} iterations, gap {result.gap:.1e}")
    print(rank_preserving.diagnose(P, result, y=truth, n_worst=3))

    estimate = cb.prior.estimate_prior(P, old=trained, classes=NAMES.tolist())
    print("\nHad nobody counted, the shares could be estimated from the probabilities (95% intervals):")
    print(rank_preserving.margins_from_estimate(estimate))

    far = rank_preserving.solve(P, [0.9, 0.05, 0.05], margin_kind="rates")
    print("\nWhen not to: totals of 90%, 5% and 5% leave little to act on:")
    print(rank_preserving.diagnose(P, far, y=truth, n_worst=3))


if __name__ == "__main__":
    main()
