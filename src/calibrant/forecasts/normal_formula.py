"""The normal CDF in arithmetic and exponentials, for engines of SQL, few of which have an error function.

Rational approximations of erf near zero and of exp(x^2) erfc(x) beyond, as in the Cephes library (Moshier 1989,
*Methods and programs for mathematical functions*, `ndtr.c`), after Cody (1969), *Rational Chebyshev approximations for
the error function*, Mathematics of Computation 23. What is given up is the relative error of probabilities below 1e-29.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from calibrant.terms import Builder, Term

#: erf(x) = x T(x^2) / U(x^2) for x up to 1, coefficients from the highest power.
_T = (
    9.60497373987051638749e0,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)
_U = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)
#: exp(x^2) erfc(x) = P(x) / Q(x) for x from 1 on.
_P = (
    2.46196981473530512524e-10,
    5.64189564831068821977e-1,
    7.46321056442269912687e0,
    4.86371970985681366614e1,
    1.96520832956077098242e2,
    5.26445194995477358631e2,
    9.34528527171957607540e2,
    1.02755188689515710272e3,
    5.57535335369399327526e2,
)
_Q = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3,
    2.24633760818710981792e3,
    1.65666309194161350182e3,
    5.57535340817727675546e2,
)
#: Beyond so many times the square root of two no double tells the probability from zero.
_FARTHEST = 27.0
#: Strict engines refuse squares of less.
_LEAST_SQUARED = 1e-150


def normal_cdf(b: Builder, z: Term) -> Term:
    """Return P(Z <= z) of a standard normal Z."""
    x = b.hold(b.clip(z * math.sqrt(0.5), -_FARTHEST, _FARTHEST))
    size = b.hold(b.abs(x))
    square = b.hold(b.choose(size < _LEAST_SQUARED, b.number(0.0), size * size))
    near = x * (_polynomial(square, _T) / _polynomial(square, _U))
    tail = b.hold(b.exp(-1.0 * square) * (_polynomial(size, _P) / _polynomial(size, _Q)))
    far = b.choose(x > 0.0, 1.0 - 0.5 * tail, 0.5 * tail)
    return b.hold(b.choose(size < 1.0, 0.5 + 0.5 * near, far))


def _polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Return the value of a polynomial, by Horner's rule."""
    first, *others = coefficients
    return reduce(lambda found, c: found * x + c, others[1:], first * x + others[0])
