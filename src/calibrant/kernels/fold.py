"""The fold: rows or groups of rows into cells of neighbouring scores, and sorted runs into one.

A score's cell is read from its bits: the binary exponent of its distance to 0, or to 1 beyond one half, and the leading
bits of the fraction, so that cells have the same relative width everywhere. Tables of cells add up, whatever the order
of the rows. Where more has to be told apart, `step_down` finds rows by further bits, and `flag_vertices` says where.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.kernels.pav import pool_weighted
from calibrant.numerics import BoolArray, FloatArray, IntArray

FlagArray = npt.NDArray[np.uint8]
CodeArray = npt.NDArray[np.uint64]
NodeArray = npt.NDArray[np.int32]

#: Columns of a table of cells.
N_COLUMNS = 6
#: Octaves below one half, and from 1 downwards likewise, that have cells of full resolution; and the octaves of the
#: numbers below these, whose cells are `COARSER` powers of two wider.
PROBABILITY_OCTAVES = 150
DEEP_OCTAVES = 1023 - PROBABILITY_OCTAVES
COARSER = 6
#: Binary exponents of the sizes of other scores that have cells of their own: from 2^-30 up to 2^34.
LOWEST_EXPONENT = -30
SCORE_OCTAVES = 64
#: The bits of -0.0, which are those of a sign alone.
_MINUS_ZERO = np.int64(-(1 << 63))
#: Scores whose cells are found at a time: each step is then a short loop that the compiler can vectorise.
_BLOCK = 256


@compiled
def cells_of(
    scores: FloatArray, n_bits: int, is_probability: bool, n_cells: int, size: FloatArray, cell: IntArray
) -> None:
    """Write the cell of each score: the leading bits of its distance to 0, or to 1 beyond one half.

    Cells rise with the score. 0 and 1 have cells of their own. `size` is scratch.
    """
    bits = size.view(np.int64)
    half = n_cells // 2
    shift = 52 - n_bits
    if is_probability:
        deep_shift = 52 - max(n_bits - COARSER, 0)
        lowest = DEEP_OCTAVES << n_bits
        n_deep = DEEP_OCTAVES << max(n_bits - COARSER, 0)
        for i in range(scores.size):
            size[i] = min(scores[i], 1.0 - scores[i])
        for i in range(scores.size):
            fine = (bits[i] >> shift) - lowest
            key = 1 + (n_deep + fine if fine >= 0 else bits[i] >> deep_shift) if size[i] > 0.0 else 0
            cell[i] = n_cells - 1 - key if scores[i] > 0.5 else key
    else:
        lowest = (1023 + LOWEST_EXPONENT) << n_bits
        for i in range(scores.size):
            size[i] = abs(scores[i])
        for i in range(scores.size):
            key = min(max((bits[i] >> shift) - lowest + 1, 1), half - 1) if size[i] > 0.0 else 0
            cell[i] = half - key if scores[i] < 0.0 else half + key


@compiled
def _add_to_cell(
    cells: FloatArray, k: int, s: float, weight: float, squared: float, positives: float | np.uint8
) -> None:
    """Add rows of one score to cell k: weight, its square, positives, weighted score, least and largest score."""
    if cells[k, 0] == 0.0:
        cells[k, 4] = s
        cells[k, 5] = s
    cells[k, 0] += weight
    cells[k, 1] += squared
    cells[k, 2] += positives
    cells[k, 3] += weight * s
    if s < cells[k, 4]:
        cells[k, 4] = s
    if s > cells[k, 5]:
        cells[k, 5] = s


@compiled
def _widen(span: IntArray, cell: IntArray) -> None:
    """Widen a span of cells from its first up to its end to the cells of some rows."""
    low, high = span[0], span[1] - 1
    for i in range(cell.size):
        low, high = min(low, cell[i]), max(high, cell[i])
    span[0], span[1] = low, high + 1


@compiled
def fold_rows(
    scores: FloatArray, positive: BoolArray, n_bits: int, is_probability: bool, cells: FloatArray, span: IntArray
) -> None:
    """Add rows of weight one to a table of cells; widen its span to the cells that they are in."""
    size, cell = np.empty(_BLOCK), np.empty(_BLOCK, np.int64)
    for start in range(0, scores.size, _BLOCK):
        block = scores[start : start + _BLOCK]
        cells_of(block, n_bits, is_probability, cells.shape[0], size, cell)
        for i in range(block.size):
            # a number, where a branch would often be guessed wrong
            _add_to_cell(cells, cell[i], block[i], 1.0, 1.0, np.uint8(positive[start + i]))
        _widen(span, cell[: block.size])


@compiled
def fold_groups(
    scores: FloatArray,
    weight: FloatArray,
    squared: FloatArray,
    positives: FloatArray,
    n_bits: int,
    is_probability: bool,
    cells: FloatArray,
    span: IntArray,
) -> None:
    """Add groups of rows of one score each to a table of cells; widen its span to the cells that they are in."""
    size, cell = np.empty(_BLOCK), np.empty(_BLOCK, np.int64)
    for start in range(0, scores.size, _BLOCK):
        block = scores[start : start + _BLOCK]
        cells_of(block, n_bits, is_probability, cells.shape[0], size, cell)
        for i in range(start, start + block.size):
            _add_to_cell(cells, cell[i - start], scores[i], weight[i], squared[i], positives[i])
        _widen(span, cell[: block.size])


@compiled
def merge_cells(cells: FloatArray, other: FloatArray) -> None:
    """Add one table of cells to another."""
    for k in range(cells.shape[0]):
        if other[k, 0] == 0.0:
            continue
        if cells[k, 0] == 0.0:
            cells[k] = other[k]
            continue
        for j in range(4):
            cells[k, j] += other[k, j]
        cells[k, 4] = min(cells[k, 4], other[k, 4])
        cells[k, 5] = max(cells[k, 5], other[k, 5])


@compiled
def step_down(
    bits: IntArray, root_shift: int, child: NodeArray, shift: FlagArray, kept: CodeArray, node: NodeArray
) -> None:
    """Go from the node that each score is in to its child, told by the next bits of the score's code, in place.

    Codes are in the order of the scores. `child` is the first child of each node, or -1; a score of a node without
    children has the node -1 from there on. With a `root_shift`, a score starts at the node of its leading bits.
    """
    for i in range(bits.size):
        b = bits[i] if bits[i] != _MINUS_ZERO else 0
        code = np.uint64(b ^ ((b >> 63) | _MINUS_ZERO))
        j = np.int32(code >> np.uint64(root_shift)) if root_shift else node[i]
        first = child[j] if j >= 0 else -1
        node[i] = first + np.int32((code >> np.uint64(shift[j])) & kept[j]) if first >= 0 else -1


@compiled
def add_to_leaves(node: NodeArray, positive: BoolArray, weight: FloatArray, sums: FloatArray) -> None:
    """Add rows to weight and positive weight of the leaf of each, which is -1 where there is none."""
    for i in range(node.size):
        k = node[i]
        if k >= 0:
            sums[k, 0] += weight[i]
            sums[k, 1] += weight[i] * np.uint8(positive[i])


@compiled
def merge_runs(
    a: FloatArray, a_columns: FloatArray, b: FloatArray, b_columns: FloatArray, scores: FloatArray, columns: FloatArray
) -> int:
    """Merge two runs of distinct rising scores, adding the columns of equal ones; return the length of the result."""
    n_columns = columns.shape[0]
    i = j = m = 0
    while i < a.size or j < b.size:
        from_a = j == b.size or (i < a.size and a[i] <= b[j])
        from_b = i == a.size or (j < b.size and b[j] <= a[i])
        scores[m] = a[i] if from_a else b[j]
        for c in range(n_columns):
            value = 0.0
            if from_a:
                value += a_columns[c, i]
            if from_b:
                value += b_columns[c, j]
            columns[c, m] = value
        if from_a:
            i += 1
        if from_b:
            j += 1
        m += 1
    return m


@compiled
def flag_vertices(
    weight: FloatArray, positives: FloatArray, is_split: FlagArray, slack: float, flags: FlagArray
) -> None:
    """Flag the cells inside which a block of the exact isotonic regression may begin or end.

    Within a cell the cumulative (weight, positives) lie on or above the corner of all its negatives first. Where that
    corner lies above the convex minorant over the cells' edges, the exact minorant, which is no higher, passes the
    cell by. Cells of one score, or of one class, have no vertex inside.

    Cells are in rising order; `is_split` says whether one holds more than one score, and `slack` is the relative
    rounding that a comparison allows for.
    """
    m = weight.size
    block_weight, block_positives, end = np.empty(m), np.empty(m), np.empty(m, np.int64)
    top = pool_weighted(weight, positives, block_weight, block_positives, end)
    i = 0
    for block in range(top):
        before_weight = before_positives = 0.0
        while i < end[block]:
            if is_split[i] and 0.0 < positives[i] < weight[i]:
                corner = before_weight + weight[i] - positives[i]
                if before_positives * block_weight[block] <= block_positives[block] * corner * (1.0 + slack):
                    flags[i] = 1
            before_weight += weight[i]
            before_positives += positives[i]
            i += 1
