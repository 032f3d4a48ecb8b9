"""The weights of automatic calibration's candidates: of a penalised log loss on the simplex, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.numerics import BoolArray, FloatArray, dot, project_simplex

#: Strength of the penalty on unequal weights, in rows.
PULL = 5.0
#: Gain of the log loss of all rows, in nats, that no step towards the weights is worth.
_LEAST_GAIN = 1e-9
#: Logits beyond this count as this in the choice of weights: one row must not decide it alone.
MOST_LOGIT = 20.0


def least_weights(
    log_loss: Callable[[FloatArray], float],
    derivatives: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    *,
    n_tried: int,
    may_go: BoolArray,
    most_rise: float,
) -> FloatArray:
    """Return the weights on the simplex that minimise a log loss, in rows, plus PULL |weights - equal ones|^2.

    `derivatives` gives the gradient and the Hessian of `log_loss`. Candidates that `may_go` get no weight
    where `log_loss` then rises by less than `most_rise`.
    """
    equal = np.full(n_tried, 1.0 / n_tried)

    def loss(at: FloatArray) -> float:
        return log_loss(at) + PULL * dot(at - equal, at - equal)

    def pulled(at: FloatArray) -> tuple[FloatArray, FloatArray]:
        gradient, hessian = derivatives(at)
        return gradient + 2.0 * PULL * (at - equal), hessian + 2.0 * PULL * np.eye(n_tried)

    found = newton_on_simplex(loss, pulled, equal, least_gain=_LEAST_GAIN)
    return without_idle(found, log_loss, pulled, may_go=may_go, most_rise=most_rise)


def newton_on_simplex(
    loss: Callable[[FloatArray], float],
    derivatives: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    *,
    least_gain: float,
    max_iter: int = 50,
) -> FloatArray:
    """Return the weights, none negative and their sum one, that minimise a strictly convex function.

    `derivatives` gives its gradient and its Hessian. Each step goes to the point of the simplex that minimises the
    parabola there, or half as far, again and again, until the function falls enough. The step is the last by which the
    parabola, which is nearly the function by then, gains less than `least_gain`.
    """
    weights, value = start, loss(start)
    for _ in range(max_iter):
        gradient, hessian = derivatives(weights)
        step = quadratic_on_simplex(hessian, gradient - np.einsum("jl,l->j", hessian, weights), weights) - weights
        slope = dot(gradient, step)
        if slope >= -least_gain:
            weights = weights + step
            break
        share, moved = 1.0, weights + step
        new_value = loss(moved)
        while new_value > value + 1e-4 * share * slope and share > 1e-6:
            share *= 0.5
            moved = weights + share * step
            new_value = loss(moved)
        if share <= 1e-6:  # no descent left beyond rounding
            break
        weights, value = moved, new_value
    return project_simplex(weights)


def quadratic_on_simplex(hessian: FloatArray, linear: FloatArray, start: FloatArray) -> FloatArray:
    """Return the weights, none negative and their sum one, that minimise w'Hw / 2 + c'w of a positive definite H.

    An active-set method: the optimum among the weights that are not held at zero; where it has negative ones, the first
    that a step towards it meets is held too, and where the gradient shows that one that is held would rise, the one of
    the steepest gradient is let go. It ends after finitely many changes (Nocedal and Wright 2006, algorithm 16.3).
    """
    n = linear.size
    weights, is_free = start.copy(), start > 0.0
    scale = float(np.abs(hessian).max() + np.abs(linear).max())
    for _ in range(10 * n):
        free = np.flatnonzero(is_free)
        system = np.ones((free.size + 1, free.size + 1))
        system[:-1, :-1] = hessian[np.ix_(free, free)]
        system[-1, -1] = 0.0
        *inner, multiplier = np.linalg.solve(system, np.append(-linear[free], 1.0)).tolist()
        wanted = np.zeros(n)
        wanted[free] = inner
        falls = is_free & (wanted < 0.0)
        if falls.any():
            shares = np.full(n, np.inf)
            shares[falls] = weights[falls] / (weights[falls] - wanted[falls])
            first = int(shares.argmin())
            weights = np.maximum(weights + shares[first] * (wanted - weights), 0.0)
            weights[first], is_free[first] = 0.0, False
            continue
        weights = wanted
        gradient = np.einsum("jl,l->j", hessian, weights) + linear + multiplier
        gradient[is_free] = 0.0
        steepest = int(gradient.argmin())
        if gradient[steepest] >= -1e-12 * scale:
            break
        is_free[steepest] = True
    return project_simplex(weights)


def without_idle(
    weights: FloatArray,
    cost: Callable[[FloatArray], float],
    derivatives: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    *,
    may_go: BoolArray,
    most_rise: float,
) -> FloatArray:
    """Return the minimiser of `newton_on_simplex` without weights that hardly lower the cost.

    The others are moved to where the parabola at the minimiser is then least. Of the weights that may go, the one
    without which this rises least becomes zero if the cost, the function or a part of it, rises by less than
    `most_rise`; and so on.
    """
    value, is_in = cost(weights), np.ones(weights.size, dtype=np.bool_)
    while True:
        gradient, hessian = derivatives(weights)
        tried = []
        for j in np.flatnonzero(may_go & (weights > 0.0)).tolist():
            rest = np.flatnonzero(is_in & (np.arange(weights.size) != j))
            total = float(weights[rest].sum())
            if total == 0.0:
                continue
            moved = np.zeros_like(weights)
            linear = gradient[rest] - np.einsum("jl,l->j", hessian[rest], weights)
            moved[rest] = quadratic_on_simplex(hessian[np.ix_(rest, rest)], linear, weights[rest] / total)
            step = moved - weights
            tried.append((dot(gradient, step) + 0.5 * float(np.einsum("j,jl,l->", step, hessian, step)), j, moved))
        if not tried:
            return weights
        _, j, moved = min(tried)
        new_value = cost(moved)
        if new_value - value >= most_rise:
            return weights
        weights, value, is_in[j] = moved, new_value, False
