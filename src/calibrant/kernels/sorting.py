"""Sorting of 64-bit keys, and the pass that turns sorted keys into a summary.

A row of one score and one label is one key: the bits of the score, which rise with scores from 0 up, above the label in
bit 0. `radix_sort` sorts by counting four bytes, each pass stable, from the highest bit that varies down (Knuth, The
art of computer programming 3, section 5.2.5). What the bits below decide is finished by insertion, which moves few keys
unless most agree in these four bytes; it then gives up. `weighted_runs` and `finish_order` do the same for rows with
weights, whose order is sorted instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled, compiled_with, interpreted
from calibrant.numerics import FloatArray, IntArray

KeyArray = npt.NDArray[np.uint64]

#: The label in a key.
KEY_ONE = np.uint64(1)
#: Scores so many units in the last place above the lowest of a tie belong to it; zero is a tie of its own.
NEAR = 8
_NEAR = np.uint64(NEAR)
_SIGN, _ALL = np.uint64(1 << 63), np.uint64((1 << 64) - 1)


@compiled
def radix_sort(keys: KeyArray, scratch: KeyArray, n_ignored: int) -> int:
    """Sort `keys` by four bytes below their highest varying bit, then by insertion.

    Keys that differ in their lowest `n_ignored` bits only may come in any order. Returns 0 where the result lies in
    `keys`, 1 where it lies in `scratch`, and 2 where so many keys agree in those four bytes that insertion would take
    long: `keys` then holds all of them, not sorted.
    """
    n = keys.size
    low = high = keys[0]
    for i in range(n):
        low = min(low, keys[i])
        high = max(high, keys[i])
    n_bits = 0
    while n_bits < 64 and ((high - low) >> np.uint64(n_bits)) != 0:
        n_bits += 1
    drop = np.uint64(max(n_bits - 32, 0))
    counts = np.zeros((4, 256), np.int64)
    for i in range(n):
        value = (keys[i] - low) >> drop
        counts[0, np.int64(value & np.uint64(255))] += 1
        counts[1, np.int64((value >> np.uint64(8)) & np.uint64(255))] += 1
        counts[2, np.int64((value >> np.uint64(16)) & np.uint64(255))] += 1
        counts[3, np.int64(value >> np.uint64(24))] += 1
    source, target, place = keys, scratch, 0
    for byte in range(4):
        shift = np.uint64(8 * byte)
        start = counts[byte]
        if start[np.int64((((source[0] - low) >> drop) >> shift) & np.uint64(255))] == n:
            continue
        total = 0
        for digit in range(256):
            size = start[digit]
            start[digit] = total
            total += size
        for i in range(n):
            value = source[i]
            slot = np.int64((((value - low) >> drop) >> shift) & np.uint64(255))
            target[start[slot]] = value
            start[slot] += 1
        source, target = target, source
        place = 1 - place
    ignored = np.uint64(n_ignored)
    moves = 0
    for i in range(1, n):
        value = source[i]
        j = i
        while j > 0 and (source[j - 1] >> ignored) > (value >> ignored):
            source[j] = source[j - 1]
            j -= 1
        source[j] = value
        moves += i - j
        if moves > 8 * n:
            if place == 1:
                keys[:] = source
            return 2
    return place


@compiled
def pack_signed(bits: KeyArray, label: npt.NDArray[np.uint8], n_negative: int, keys: KeyArray) -> None:
    """Write the packed keys of scores of both signs, those of the `n_negative` negative ones first.

    Shifting drops the sign bit; of two negative scores the one with smaller bits is larger.
    """
    one = np.uint64(1)
    negative = 0
    rest = n_negative
    for i in range(bits.size):
        b = bits[i]
        if b >> np.uint64(63):
            keys[negative] = (~b << one) | np.uint64(label[i])
            negative += 1
        else:
            keys[rest] = (b << one) | np.uint64(label[i])
            rest += 1


@compiled
def finish_order(scores: FloatArray, order: IntArray) -> bool:
    """Sort a nearly sorted `order` of the scores by insertion; give up, returning false, where it is far from sorted.

    Rows of equal scores keep their order.
    """
    moves = 0
    n = order.size
    for i in range(1, n):
        row = order[i]
        value = scores[row]
        j = i
        while j > 0 and scores[order[j - 1]] > value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = row
        moves += i - j
        if moves > 8 * n:
            return False
    return True


@compiled_with(inline="always")
def is_near(code: np.uint64, first: np.uint64) -> bool:
    """Say whether a score belongs to the tie whose lowest score is `first`, not above it, by their bits."""
    return bool(code == first or (first != 0 and code - first <= _NEAR))


@interpreted
def near_starts(bits: KeyArray, starts: IntArray) -> int:
    """Write the index of the first score of each tie of rising distinct scores, given by their bits; count the ties."""
    n = 0
    is_negative, first = False, bits[0] if len(bits) else KEY_ONE
    for i in range(len(bits)):
        code = bits[i]
        was_negative = is_negative
        is_negative = code >= _SIGN
        if is_negative:
            code = _ALL - code
        if i == 0 or is_negative != was_negative or not is_near(code, first):
            starts[n] = i
            n += 1
            first = code
    return n


@interpreted
def count_distinct(keys: KeyArray, n_negative: int) -> int:
    """Count the distinct scores among sorted packed keys; the first `n_negative` are of negative scores."""
    distinct = 0
    before = keys[0] if len(keys) else KEY_ONE
    for i in range(len(keys)):
        code = keys[i] >> KEY_ONE
        if i == 0 or i == n_negative or code != before:
            distinct += 1
        before = code
    return distinct


@interpreted
def run_lengths(keys: KeyArray, n_negative: int, codes: KeyArray, count: FloatArray, positives: FloatArray) -> None:
    """Write code, row count and positive count of each distinct score of sorted packed keys."""
    k = -1
    for i in range(len(keys)):
        code = keys[i] >> KEY_ONE
        if i == 0 or i == n_negative or code != codes[k]:
            k += 1
            codes[k] = code
            count[k] = 0.0
            positives[k] = 0.0
        count[k] += 1.0
        positives[k] += keys[i] & KEY_ONE


@compiled
def weighted_runs(scores: FloatArray, signed: FloatArray, out: FloatArray) -> int:
    """Sum the weights of equal neighbours in sorted `scores`; return the number of distinct scores.

    `signed` holds the weight of each row, negative for rows of the negative class; rows of weight zero don't count.
    The four rows of `out` get the scores, their weights, squared weights and positive weights.
    """
    k = -1
    for i in range(scores.size):
        w = signed[i]
        if w == 0.0:
            continue
        if k < 0 or scores[i] != out[0, k]:
            k += 1
            out[0, k] = scores[i]
            out[1, k] = out[2, k] = out[3, k] = 0.0
        out[1, k] += abs(w)
        out[2, k] += w * w
        if w > 0.0:
            out[3, k] += w
    return k + 1
