"""Totals of several sets of groups, and what they leave to the cells: rows that share their group in every set.

Equal rows in each cell have any totals that the cells may have, so an order within cells never decides whether a
matrix has all totals: a linear programme over the totals of the cells does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from calibrant.errors import InvalidInputError
from calibrant.numerics import BoolArray, FloatArray
from calibrant.phrases import listed

#: Totals that an error names at most, and seconds that the search for the smallest contradiction may take.
_MOST_NAMED, _SEARCH_SECONDS = 12, 20.0
#: An equal share of a cell below which there is no room, and a small one.
_NO_ROOM, _SMALL_SHARE = 1e-7, 1e-3
#: Share of the largest contradiction that a smaller one has to have to be named instead.
_WORTH_NAMING = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class CellTotals:
    """What totals of groups ask of the cells: the sum over the cells of group g lies within `room` of `margins[g]`.

    `incidence`, of shape (cells, groups of all sets), is 1 where the cell is of the group; `weight` is that of the
    cells' rows; `names` are the set and the group of each line of `margins`, `columns` the names of its columns. With a
    `floor`, all totals are shares of what is left above this least entry.
    """

    incidence: FloatArray
    weight: FloatArray
    margins: FloatArray
    room: FloatArray
    names: Sequence[tuple[str, object]]
    columns: Sequence[object]
    floor: float = 0.0

    @property
    def of_groups(self) -> FloatArray:
        """Weight of the rows of each group."""
        return self.incidence.T @ self.weight

    def off(self, totals: FloatArray) -> FloatArray:
        """Return what the groups' totals are off where the cells have these, shape (groups, K)."""
        return self.incidence.T @ totals - self.margins

    def residual(self, totals: FloatArray) -> float:
        """Return the largest distance of a group's total from where it may lie, per row of the group."""
        beyond = np.maximum(np.abs(self.off(totals)) - self.room, 0.0)
        return float((beyond / self.of_groups[:, None]).max())

    def inside(self) -> FloatArray:
        """Return totals of the cells that are as far from every limit as can be; raise where there are none.

        The largest t for which each is at least t of an equal share of its cell, and each group's total at least t of
        its room away from both ends. Totals that are 0 in every matrix are 0.
        """
        may_be = self.incidence @ (self.margins + self.room == 0.0) == 0.0
        totals, t = self._innermost(may_be)
        if t < _NO_ROOM:
            totals, _ = self._innermost(self._support())
        return totals

    def _innermost(self, may_be: BoolArray) -> tuple[FloatArray, float]:
        """Return the totals of `inside` and t, where those that may not be are 0."""
        from scipy.optimize import linprog

        n = may_be.size
        cells, groups = self._sums()
        least = np.where(may_be, self.weight[:, None] / len(self.columns), 0.0).reshape(-1, 1)
        room = self.room.reshape(-1, 1)
        system = sparse.bmat([[-sparse.eye(n), least], [groups, room], [-groups, room]], format="csr")
        equal = sparse.hstack((cells, sparse.csr_matrix((cells.shape[0], 1))), format="csr")
        most = np.where(may_be, self.weight[:, None], 0.0).ravel()
        found = linprog(
            np.append(np.zeros(n), -1.0),
            system,
            np.concatenate((np.zeros(n), *self._limits())),
            equal,
            self.weight,
            bounds=[*zip(np.zeros(n), most, strict=True), (0.0, 1.0)],
            method="highs",
        )
        if found.x is None:
            raise InvalidInputError(self._contradiction())
        return np.asarray(found.x[:-1], dtype=float).reshape(may_be.shape), float(found.x[-1])

    def _support(self) -> BoolArray:
        """Return which totals of the cells are above 0 in any matrix: those that are where small ones count alike."""
        from scipy.optimize import linprog

        cells, groups = self._sums()
        n = self.weight.size * len(self.columns)
        small = np.repeat(_SMALL_SHARE * self.weight / len(self.columns), len(self.columns))
        found = linprog(  # totals are the sum of a small part, which counts, and a rest
            np.append(-1.0 / small, np.zeros(n)),
            sparse.hstack((sparse.vstack((groups, -groups)),) * 2, format="csr"),
            np.concatenate(self._limits()),
            sparse.hstack((cells, cells), format="csr"),
            self.weight,
            bounds=[*zip(np.zeros(n), small, strict=True), *[(0.0, None)] * n],
            method="highs",
        )
        return np.reshape(found.x[:n] > _NO_ROOM * small, (self.weight.size, -1))

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """Return the upper ends of the groups' totals, and the lower ones with the other sign, each in one line."""
        return (self.margins + self.room).ravel(), (self.room - self.margins).ravel()

    def nearest(self, totals: FloatArray, inside: FloatArray) -> FloatArray:
        """Return totals of the cells near `totals` that the groups may have, which are `inside` in part where need be.

        What has to hold exactly is put right by the least squares per row, and signs and room by a step to `inside`.
        """
        from scipy.sparse.linalg import lsqr

        cells, groups = self._sums()
        is_exact = self.room.ravel() == 0.0
        exact = sparse.vstack((cells, groups[np.flatnonzero(is_exact)]), format="csr")
        wanted = np.concatenate((self.weight, self.margins.ravel()[is_exact]))
        # totals that are 0 inside are 0 in every matrix, and stay so
        root = np.sqrt(np.repeat(self.weight, len(self.columns)) * (inside.ravel() > 0.0))
        scaled, flat = exact @ sparse.diags(root), np.where(inside > 0.0, totals, 0.0).ravel()
        for _ in range(3):  # the second and third time take off what rounding left
            flat = flat - root * lsqr(scaled, exact @ flat - wanted, atol=1e-15, btol=1e-15)[0]
        found = flat.reshape(totals.shape)
        share, has_room = 0.0, self.room > 0.0
        below = found < 0.0
        if below.any():
            share = float((found[below] / (found[below] - inside[below])).max())
        beyond = (np.abs(self.off(found)) - self.room)[has_room]
        left = (self.room - np.abs(self.off(inside)))[has_room]
        if (beyond > 0.0).any():
            share = max(share, float((beyond / (beyond + left))[beyond > 0.0].max()))
        return np.maximum((1.0 - share) * found + share * inside, 0.0)

    def _sums(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Return the sums over the columns of each cell and over the cells of each group, of totals in one line."""
        n_columns = len(self.columns)
        cells = sparse.kron(sparse.eye(self.weight.size), np.ones((1, n_columns)), format="csr")
        return cells, sparse.kron(self.incidence.T, sparse.eye(n_columns), format="csr")

    def _contradiction(self) -> str:
        """Return what to say of the smallest set of totals that no matrix has together."""
        chosen = self._smallest_contradiction()
        name = [f"{self._named(g, j)} {self._asked(g, j)}" for g, j in chosen]
        number = f"these {len(chosen)} totals" if len(chosen) > 1 else "this total"
        least = f" with entries of at least {self.floor:g}" if self.floor else ""
        return (
            f"margins: no matrix of these rows{least} has {number} at once, though it has all but any one of them: "
            f"{listed(name, most=_MOST_NAMED)}. Correct one, or pass Margins with a tolerance."
        )

    def _named(self, g: int, j: int) -> str:
        of, group = self.names[g]
        return f"column {self.columns[j]!r} of {of} {group!r}"

    def _asked(self, g: int, j: int) -> str:
        total, left = float(self.of_groups[g]), 1.0 - len(self.columns) * self.floor
        middle, room = self.margins[g, j] * left + self.floor * total, self.room[g, j] * left
        weight = f"of {total:.9g} rows"
        if room == 0.0:
            return f"{middle:.9g} {weight}"
        return f"{max(middle - room, 0.0):.9g} to {middle + room:.9g} {weight}"

    def _smallest_contradiction(self) -> list[tuple[int, int]]:
        """Return the fewest totals that contradict each other, as places in `margins`.

        Totals do where multipliers, at least 0 of each end of a total and any of each cell, make a sum of them that no
        matrix has (Farkas); the fewest of which is a mixed integer programme.
        """
        from scipy.optimize import Bounds, LinearConstraint, linprog, milp

        cells, groups = self._sums()
        m, n_cells = groups.shape[0], self.weight.size
        high, low = self._limits()
        # unknowns: a multiplier of each cell, of each upper end and of each lower end; then whether a total takes part
        covers = sparse.hstack((cells.T, groups.T, -groups.T), format="csr")
        proof = np.concatenate((self.weight, high, low))
        bounds = [*[(None, None)] * n_cells, *[(0.0, 1.0)] * (2 * m)]
        largest = linprog(proof, -covers, np.zeros(covers.shape[0]), bounds=bounds, method="highs")
        takes_part = sparse.hstack((sparse.csr_matrix((m, n_cells)), sparse.eye(m), sparse.eye(m), -sparse.eye(m)))
        none, is_whole = np.zeros(m), np.append(np.zeros(n_cells + 2 * m), np.ones(m))
        lowest = np.append(np.full(n_cells, -np.inf), np.zeros(3 * m))
        found = milp(
            is_whole,
            integrality=is_whole,
            bounds=Bounds(lowest, np.where(lowest < 0.0, np.inf, 1.0)),
            constraints=[
                LinearConstraint(sparse.hstack((covers, sparse.csr_matrix((covers.shape[0], m)))), lb=0.0),
                LinearConstraint(np.append(proof / -largest.fun, none)[None, :], ub=-_WORTH_NAMING),
                LinearConstraint(takes_part, ub=0.0),
            ],
            options={"time_limit": _SEARCH_SECONDS},
        )
        multipliers = np.reshape((largest if found.x is None else found).x[n_cells : n_cells + 2 * m], (2, m))
        places = np.flatnonzero(multipliers.max(axis=0) > 1e-9)
        return [divmod(int(place), len(self.columns)) for place in places]
