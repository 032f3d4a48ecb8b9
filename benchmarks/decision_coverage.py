"""How often the interval of a promise holds the loss that decisions really have, on rows whose truth is known."""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np

from benchmarks._harness import Tables, kept
from calibrant.calibrators import make_calibrator
from calibrant.decisions import Policy, Problem, expected_loss
from calibrant.errors import CalibrantWarning
from calibrant.numerics import expit

#: Rows of a fit, and simulated fits of each size.
SIZES = {300: 200, 3_000: 60}
#: New rows that a promise is made for, and rows by which the truth is known.
N_NEW, N_TRUTH = 2_000, 200_000
#: Costs of a false positive, of both errors together 1.
COSTS = (0.05, 0.2, 0.5)
METHODS = ("sigmoid", "beta", "isotonic", "venn_abers")
#: What the rate of an outcome is at a score: a line by logit, which all methods hold, and a wave, which two don't;
#: steps; and rare. The share of the correction that `expected_loss` adds was chosen on the first two.
TRUTHS = ("line", "wave", "steps", "rare")
LEVEL, LOW, HIGH = 0.95, 0.93, 0.975
_SEED = 20_261_123


def run_coverage(tables: Tables) -> None:
    """Simulate all cases, and add their table and the goals."""
    cases = list(product(METHODS, TRUTHS, SIZES, COSTS))
    with ProcessPoolExecutor() as pool:
        found = dict(zip(cases, pool.map(partial(kept, covered, of=SIZES), cases), strict=True))
    lines = []
    for method, truth, n in product(METHODS, TRUTHS, SIZES):
        shares = [found[method, truth, n, cost] for cost in COSTS]
        lines.append([method, truth, f"{n:,}", *(f"{each:.3f}" for each in shares)])
    header = ["method", "truth", "fitted to", *(f"false positive {cost:g}" for cost in COSTS)]
    error = {n: np.sqrt(LEVEL * (1.0 - LEVEL) / runs) for n, runs in SIZES.items()}
    said = ", ".join(f"{error[n]:.3f} of {n:,}" for n in SIZES)
    tables.add(f"expected_loss: share of 95% intervals that hold the truth (standard error {said})", header, lines)
    for n, truths in product(SIZES, (TRUTHS[:2], TRUTHS[2:])):
        shares = [share for (_, truth, size, _), share in found.items() if size == n and truth in truths]
        claim = f"expected_loss, {n:,} rows, {' and '.join(truths)}: mean coverage of {len(shares)} cases"
        tables.goal(claim, float(np.mean(shares)), at_least=LOW, at_most=HIGH)


def covered(case: tuple[str, str, int, float]) -> float:
    """Return the share of simulated fits whose promise holds the true loss of their decisions."""
    method, truth, n, cost = case
    problem = Problem.two_actions(false_positive=cost, false_negative=1.0 - cost)
    scores, rates = draw(np.random.default_rng(_SEED), N_TRUTH, truth)
    hit = partial(_holds, method, truth, n, problem, scores, rates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return float(np.mean([hit(np.random.default_rng([_SEED, n, seed])) for seed in range(SIZES[n])]))


def draw(rng: np.random.Generator, n: int, truth: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of rows, and the rate of the outcome at each."""
    z = rng.normal(-0.5, 1.6, n)
    scores = expit(z)
    match truth:
        case "line":
            return scores, expit(0.6 * z - 0.4)
        case "wave":
            return scores, np.clip(expit(0.9 * z) + 0.12 * np.sin(4.0 * scores), 0.01, 0.99)
        case "steps":
            return scores, np.array([0.05, 0.2, 0.55, 0.9])[np.searchsorted([0.2, 0.45, 0.7], scores)]
        case _:
            return scores, 0.15 * scores**2


def _holds(
    method: str, truth: str, n: int, problem: Problem, scores: np.ndarray, rates: np.ndarray, rng: np.random.Generator
) -> bool:
    s, p = draw(rng, n, truth)
    y = (rng.random(n) < p).astype(np.int64)
    new, _ = draw(rng, N_NEW, truth)
    calibrator = make_calibrator(method).fit(s, y)
    promised = expected_loss(new, problem, calibrator=calibrator, fitted_to=(s, y))
    yes = Policy(problem).decide(calibrator.predict_proba(scores)) == "yes"
    table = problem.table
    assert table is not None
    true = float(np.mean(np.where(yes, (1.0 - rates) * table[1, 0], rates * table[0, 1])))
    return promised.low <= true <= promised.high
