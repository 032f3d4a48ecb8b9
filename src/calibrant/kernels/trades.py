"""Positions that share one capital: what each may take when it opens, and the capital after each has ended.

One walk over the moments at which positions open or end, in two steps each. Those that end are paid out, then those
that open share what is free, in proportion to what they want: all of it at most, and no more than the limit leaves.
Those that end at once are paid out in the second step.
"""

from __future__ import annotations

from calibrant.kernels._jit import interpreted
from calibrant.numerics import FloatArray, IntArray


@interpreted
def share_capital(
    start: IntArray,
    end: IntArray,
    closing: IntArray,
    wanted: FloatArray,
    gain: FloatArray,
    gross: float,
    taken: FloatArray,
    capital: FloatArray,
    exposure: FloatArray,
) -> int:
    """Open and close positions; return how many were opened.

    Positions are sorted by `start`, the number of the moment at which they open; `closing` numbers them in the order of
    `end`, those that end at the moment of their start last. `wanted` is the share of the capital that a position asks
    for, `gain` what each unit of it earns, both without sign; `gross` is the most that may be open, over the capital.

    Written are `taken`, shape (2, n): the share of the capital that a position got at its start, and how much that was;
    `capital` after each moment, and `exposure`, what is then open over the capital, at the amounts at which it was
    opened. A capital of 0 stays there.
    """
    n = len(start)
    opened = next_in = next_out = n_open = 0
    now, held = 1.0, 0.0
    for step in range(2 * len(capital)):
        moment, has_opened = step // 2, step % 2 == 1
        while next_out < n and end[closing[next_out]] == moment and (has_opened or start[closing[next_out]] < moment):
            row = closing[next_out]
            if taken[1, row] > 0.0:
                now += taken[1, row] * gain[row]
                held -= taken[1, row]
                n_open -= 1
            next_out += 1
        if now <= 0.0:
            now = 0.0
        if has_opened:
            capital[moment] = now
            continue
        if n_open == 0:
            held = 0.0  # without what rounding has left
        total, last = 0.0, next_in
        while last < n and start[last] == moment:
            total += wanted[last]
            last += 1
        free = gross * now - held
        part = 1.0
        if total * now > free:
            part = free / (total * now) if free > 0.0 else 0.0
        for row in range(next_in, last):
            if wanted[row] > 0.0 and part > 0.0 and now > 0.0:
                taken[0, row] = wanted[row] * part
                taken[1, row] = taken[0, row] * now
                held += taken[1, row]
                n_open += 1
                opened += 1
        next_in = last
        exposure[moment] = held / now if now > 0.0 else 0.0
    return opened
