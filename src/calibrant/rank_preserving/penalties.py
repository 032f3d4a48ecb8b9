"""Penalties of a splitting, one for each row, and how they change from check to check."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.certificate import Certificate
from calibrant.rank_preserving.column_workers import row_scale
from calibrant.rank_preserving.projection import Errors

#: Iterations between two checks, at most.
_LONGEST_INTERVAL = 200
#: Largest change of the penalty's logarithm at a check, divided by one plus half the number of turns so far.
_LARGEST_CHANGE = 0.5
#: Power by which changes of the penalty fade, so that in the end it is constant and the iteration converges.
_FADING_POWER = 2.0
#: The schedule after a warm start: its first penalty, its checks, its iterations, and its last penalty, which above so
#: many rows grows with the fourth root of their number.
_HIGHEST_PENALTY, _DESCENT_CHECKS, _DESCENT_ITERATIONS = 20_000.0, 24, 264
_LOWEST_PENALTY, _LOWEST_PENALTY_ROWS = 50.0, 100_000
#: A descent's iterates are worth a projection from this multiple of its lowest penalty on.
_WORTH_A_PROJECTION = 4.0
#: A row's penalty grows with this power of its multiplier over the median one, between these ratios.
_POWER, _LEAST_RATIO, _LARGEST_RATIO = 0.75, 0.1, 1e3


class Penalties:
    """The penalty of each row, a common one times a ratio, and how both change from check to check.

    The common penalty rises where the sums are met too loosely, and falls where the objective is. After a warm start
    it is lowered by a fixed schedule first, here called a descent.
    """

    def __init__(self, certificates: Sequence[Certificate], *, by_row: bool, fixed: float | None) -> None:
        certificate = certificates[0]  # of the first part of the rows; all are of one kind
        n = sum(each.columns.weight.size for each in certificates)
        self.is_fixed, self.by_row = fixed is not None, by_row
        self.growth, self.fading_after = certificate.growth, certificate.fading_after
        self.common, self.ratio = certificate.first_penalty if fixed is None else fixed, np.ones(n)
        self.scale = np.concatenate([row_scale(each.columns) for each in certificates]) if by_row else np.ones(1)
        self.lowest = _LOWEST_PENALTY * max(n / _LOWEST_PENALTY_ROWS, 1.0) ** 0.25
        self.descent: list[float] = []  # penalties to come
        self.is_descending = self.is_started = False
        self.interval = float(certificate.first_check)
        self.n_turns = self.last_sign = self.n_checks = self.n_steps = 0

    def descend(self, row_multipliers: FloatArray, max_iter: int) -> None:
        """Start from multipliers that nearly certify the affine point, with the schedule that lowers the penalty."""
        n_checks = min(_DESCENT_CHECKS, max_iter)
        self.n_steps = min(_DESCENT_ITERATIONS, max_iter) // max(n_checks, 1)
        shares = [min(check / max(n_checks - 1, 1), 1.0) for check in range(1, n_checks + 1)]
        self.descent = [_HIGHEST_PENALTY * (self.lowest / _HIGHEST_PENALTY) ** share for share in shares]
        self.common, self.ratio = _HIGHEST_PENALTY, _row_ratio(row_multipliers)
        self.scale, self.is_started = np.ones(1), True

    def next_interval(self) -> int:
        """Return the steps up to the next check."""
        self.is_descending = bool(self.descent)
        return self.n_steps if self.is_descending else int(self.interval)

    @property
    def may_project(self) -> bool:
        """Whether iterates are worth a projection."""
        return not self.is_descending or self.common <= self.lowest * _WORTH_A_PROJECTION

    def of_rows(self) -> FloatArray:
        """Return the penalty of each row."""
        penalty = self.common * self.ratio
        penalty *= self.scale
        return penalty

    def change(self, errors: Errors, row_multipliers: FloatArray) -> None:
        """Change the penalties after a check, from what was off and its multipliers."""
        pace = 1.0
        if self.is_descending:
            self.common = self.descent.pop(0)
        else:
            sign = 1 if (errors.gap < 0.0 if self.is_started else errors.is_loose) else -1
            self.n_turns += self.last_sign * sign < 0
            self.last_sign = sign
            self.n_checks += 1
            pace = min(1.0, (self.fading_after / self.n_checks) ** _FADING_POWER)
            if not self.is_fixed:
                self.common *= math.exp(sign * pace * _LARGEST_CHANGE / (1.0 + 0.5 * self.n_turns))
            self.interval = min(self.interval * self.growth, _LONGEST_INTERVAL)
        if self.by_row:
            self.ratio **= 1.0 - 0.5 * pace
            self.ratio *= _row_ratio(row_multipliers) ** (0.5 * pace)


def _row_ratio(row_multipliers: FloatArray) -> FloatArray:
    """Return how large each row's penalty should be, from the size of its multiplier."""
    size = np.abs(row_multipliers)
    middle = float(np.median(size))
    if middle == 0.0:
        return np.ones_like(size)
    size /= middle
    np.clip(size, _LEAST_RATIO, _LARGEST_RATIO, out=size)
    size **= _POWER
    return size
