"""The splitting over all cells of several sets of groups, which only the totals of the groups join.

Each step is that of `splitting.split` within each cell, but for the multipliers of the totals: these belong to the
groups of all sets, and a cell has the sum of those of its groups. They solve one linear system per step, with as many
equations as there are groups. A total that has room takes part with what it is off as one more unknown, which the order
side of a step keeps within the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from calibrant import kernels
from calibrant.kernels import RELAXATION, ROW, SHARE, WEIGHT, Rule, SortedColumns, SplittingArrays
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.cell_totals import CellTotals
from calibrant.rank_preserving.certificate import Certificate
from calibrant.rank_preserving.penalties import Penalties
from calibrant.rank_preserving.projection import Errors

#: Eigenvalues of the groups' system below this share of the largest are 0: sets of groups have totals in common.
_NO_EIGENVALUE = 1e-10


class CellSplitting:
    """The iterates of all cells, the multipliers of the groups' totals, and the best lower bound so far."""

    def __init__(
        self,
        certificates: Sequence[Certificate],
        totals: CellTotals,
        *,
        by_row: bool,
        penalty: float | None,
    ) -> None:
        self.certificates, self.totals = certificates, totals
        self.columns = [each.columns.own_order() for each in certificates]
        self.state = [columns.p.copy() for columns in self.columns]
        self.q = [np.empty_like(columns.p) for columns in self.columns]
        self.penalties = Penalties(certificates, by_row=by_row, fixed=penalty)
        ends = np.cumsum([0, *(columns.weight.size for columns in self.columns)]).tolist()
        self.rows = [slice(a, e) for a, e in pairwise(ends)]
        self.first_off = totals.off(np.stack([columns.margins for columns in self.columns]))
        self.has_room = totals.room.max(axis=1) > 0.0
        self.off = self.first_off.copy()  # the iterate of what totals with room are off
        self.row_multipliers = np.zeros(ends[-1])
        self.multipliers = np.zeros_like(totals.margins)
        self.bound, self.prices = 0.0, np.zeros_like(totals.margins)
        self.n_iter, self.residual, self.objective = 0, np.inf, 0.0

    def advance(self, max_iter: int) -> None:
        """Take the steps up to the next check, pool, measure the iterate and take its bound."""
        penalty, common = self.penalties.of_rows(), self.penalties.common
        rule = self.certificates[0].rule(self.penalties.common)
        n_steps = min(self.penalties.next_interval(), max_iter - self.n_iter)
        self._take_steps(penalty, rule, n_steps)
        self.n_iter += n_steps
        for columns, certificate, state, q, rows in self._cells():
            by_row = penalty[rows] * columns.weight
            kernels.pool_columns(columns.replace(p=state), certificate.work, by_row, rule, q)
        self.penalties.change(self._measure(), self.row_multipliers)
        factor = penalty / self.penalties.of_rows()
        for columns, _, state, q, rows in self._cells():
            state -= q
            state *= factor[rows][columns.order]
            state += q
        kept = self._kept()
        self.off = kept + (self.off - kept) * (common / self.penalties.common)

    def cell_totals(self) -> FloatArray:
        """Return the totals of the cells' columns, shape (cells, K)."""
        each = [c.weight[c.order] * q for c, q in zip(self.columns, self.q, strict=True)]
        return np.stack([part.sum(axis=1) for part in each])

    def _cells(self) -> Iterator[tuple[SortedColumns, Certificate, FloatArray, FloatArray, slice]]:
        return zip(self.columns, self.certificates, self.state, self.q, self.rows, strict=True)

    def _kept(self) -> FloatArray:
        """Return what the groups' totals are off in the iterate, within their room."""
        return np.clip(self.off, -self.totals.room, self.totals.room)

    def _take_steps(self, penalty: FloatArray, rule: Rule | None, n_steps: int) -> None:
        totals, n_columns = self.totals, self.totals.margins.shape[1]
        arrays, spread = [], np.empty(len(self.columns))
        for c, (columns, _, state, q, rows) in enumerate(self._cells()):
            table = np.empty((1, columns.weight.size, 4))
            table[0, :, WEIGHT] = columns.weight
            table[0, :, SHARE] = 1.0 / (1.0 + penalty[rows])
            arrays.append(SplittingArrays(state, q, table, np.empty(n_columns), np.zeros(1)))
            spread[c] = float((columns.weight * table[0, :, SHARE]).sum())
        give = np.where(self.has_room, totals.of_groups / self.penalties.common, 0.0)
        system = np.linalg.pinv(
            totals.incidence.T @ (spread[:, None] * totals.incidence) + np.diag(give),
            rcond=_NO_EIGENVALUE,
            hermitian=True,
        )
        mean = np.zeros(give.size)
        for number in range(n_steps + 1):
            for columns, certificate, part in zip(self.columns, self.certificates, arrays, strict=True):
                kernels.take_steps(columns, certificate.work, part, rule, (number, number + 1, n_steps), 0)
            if number < n_steps:
                for columns, part in zip(self.columns, arrays, strict=True):
                    kernels.join_workers(columns, part)
                mean = self._join(arrays, spread, system, give)
        self.multipliers += mean[:, None]
        of_cells = totals.incidence @ mean
        for c, (part, rows) in enumerate(zip(arrays, self.rows, strict=True)):
            table = part.rows[0]
            self.row_multipliers[rows] = table[:, ROW] / table[:, SHARE] - of_cells[c]

    def _join(
        self, arrays: Sequence[SplittingArrays], spread: FloatArray, system: FloatArray, give: FloatArray
    ) -> FloatArray:
        """Give the cells the multipliers of their groups, less their mean over the columns, which is returned."""
        totals = self.totals
        excess = totals.incidence.T @ (spread[:, None] * np.stack([part.column for part in arrays]))
        kept = self._kept()
        mirrored = np.where(self.has_room[:, None], 2.0 * kept - self.off, self.first_off)
        excess += self.first_off - mirrored
        mean: FloatArray = np.divide(excess.mean(axis=1), give, out=np.zeros_like(give), where=self.has_room)
        self.multipliers = system @ (excess - excess.mean(axis=1, keepdims=True))
        moved = mirrored + give[:, None] * (self.multipliers + mean[:, None]) - kept
        self.off += np.where(self.has_room[:, None], RELAXATION * moved, 0.0)
        for part, column in zip(arrays, totals.incidence @ self.multipliers, strict=True):
            part.column[:] = column
        return mean

    def _measure(self) -> Errors:
        """Measure the iterate and take the bound that its multipliers prove; return what is off."""
        totals, price = self.totals, self.multipliers
        of_cells = totals.incidence @ price
        row = distance = bound = sums = lagrangian = 0.0
        found = np.empty_like(of_cells)
        for c, (columns, certificate, _, q, rows) in enumerate(self._cells()):
            work, multiplier = certificate.work, self.row_multipliers[rows]
            distance += certificate.distance(q, columns)
            row = max(row, float(np.abs(work.row).max()))
            product = columns.weight * multiplier * work.row
            sums += 2.0 * float(np.abs(product).sum())
            lagrangian += 2.0 * float(product.sum())
            found[c] = work.total
            bound += certificate.lower_bound((multiplier, of_cells[c]))
        within = 2.0 * float((price * self.first_off - totals.room * np.abs(price)).sum())
        terms = price * (totals.off(found) - self._kept())  # what is off beyond the room that the iterate takes
        bound += within
        lagrangian += distance + 2.0 * float(terms.sum())
        sums += 2.0 * float(np.abs(terms).sum())
        if bound > self.bound:
            self.bound, self.prices = bound, -2.0 * price
        self.residual, self.objective = max(row, totals.residual(found)), distance
        return Errors(sums, lagrangian, distance).less(bound)
