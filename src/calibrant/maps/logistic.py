"""Maps of one score that are a formula with a few parameters: logistic, beta and quadratic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.maps.base import (
    ExpitMap,
    LoggedScores,
    check_clip,
    check_reach,
    decode_clip,
    decode_optional_clip,
    input_logit,
    signed,
)
from calibrant.numerics import LARGEST, SMALLEST_CLIP, FloatArray, clip_between, open_ends
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind

#: expit is 0 or 1 to the last bit beyond this.
EXPIT_SATURATES = 1_600.0


@dataclass(frozen=True, slots=True)
class LogisticMap(ExpitMap):
    """q = expit(slope * s + intercept), of a score or logit s."""

    kind: ClassVar[str] = "logistic"
    clip: ClassVar[None] = None
    slope: float
    intercept: float

    def logits(self, given: LoggedScores) -> FloatArray:
        with np.errstate(over="ignore"):  # infinity is right: the probability is as near to 0 or 1 as can be
            return self.slope * given.scores + self.intercept

    def logit_formula(self, b: Builder, s: Term) -> Term:
        if self.slope != 0.0:  # the product must not overflow
            with np.errstate(over="ignore"):
                ends = np.sort((np.array([-EXPIT_SATURATES, EXPIT_SATURATES]) - self.intercept) / self.slope)
            low, high = np.clip(ends, -LARGEST, LARGEST).tolist()
            s = b.hold_within(s, low, high)
        return self.slope * s + self.intercept

    def in_words(self) -> str:
        return f"q = expit({self.slope:.6g} * s {signed(self.intercept)})"

    def score_range(self) -> tuple[float, float]:
        if self.slope == 0.0:
            return -5.0, 5.0
        middle, half = -self.intercept / self.slope, 5.0 / abs(self.slope)  # where the logit is 0, and goes to -5 and 5
        return middle - half, middle + half

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        if input == "probability":
            field.member("kind").refuse(f"does not go with input {input!r}")

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        return cls(parts["slope"].number(), parts["intercept"].number())


@dataclass(frozen=True, slots=True)
class BetaMap(ExpitMap):
    """q = expit(a * log(p) - b * log(1 - p) + c), of a probability p moved between `open_ends(clip)`."""

    kind: ClassVar[str] = "beta"
    a: float
    b: float
    c: float
    clip: float

    @property
    def is_expit(self) -> bool:
        return (self.a, self.b, self.c) != (1.0, 1.0, 0.0)  # by which scores stay as they are, to the last bit

    def outputs(self, given: LoggedScores) -> FloatArray:
        return ExpitMap.outputs(self, given) if self.is_expit else clip_between(given.scores, *open_ends(self.clip))

    def formula(self, b: Builder, s: Term) -> Term:
        return ExpitMap.formula(self, b, s) if self.is_expit else b.clip(s, *open_ends(self.clip))

    def logits(self, given: LoggedScores) -> FloatArray:
        if self.a == self.b == 0.0:
            return np.full(given.scores.shape, self.c)
        of_p, of_rest = given.logs(self.clip)
        return self.a * of_p - self.b * of_rest + self.c

    def logit_formula(self, b: Builder, s: Term) -> Term:
        p = b.hold(b.clip(s, *open_ends(self.clip)))
        return self.a * b.ln(p) - self.b * b.ln(1.0 - p) + self.c

    def in_words(self) -> str:
        formula = f"q = expit({self.a:.6g} * log p {signed(-self.b)} * log(1 - p) {signed(self.c)})"
        return f"{formula}, p clipped to [{self.clip:.3g}, 1 - {max(self.clip, SMALLEST_CLIP):.3g}]"

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        if input != "probability":
            field.member("kind").refuse(f"does not go with input {input!r}")

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        a, b, c = (parts[name].number() for name in "abc")
        clip = decode_clip(parts["clip"])
        check_reach(parts["a"], a * math.log(clip), b * math.log(clip), c)
        return cls(a, b, c, clip)


@dataclass(frozen=True, slots=True)
class QuadraticMap(ExpitMap):
    """q = expit(c + a t + b t^2), t the place of z in [low, high] as a number from -1 to 1, z clipped to this range.

    z = logit(p) with p clipped to [clip, 1 - clip], or a score where `clip` is None. The parabola doesn't fall:
    |2 b| <= a. In z itself the terms would cancel where scores lie far from 0.
    """

    kind: ClassVar[str] = "quadratic"
    a: float
    b: float
    c: float
    low: float
    high: float
    clip: float | None

    def logits(self, given: LoggedScores) -> FloatArray:
        z = given.logit(self.clip)
        middle, half = self._range()
        t = (np.clip(z, self.low, self.high) - middle) / half if half > 0.0 else np.zeros(z.shape)
        from_vertex = 1.0 + math.copysign(1.0, self.b) * t
        spare = self.a - 2.0 * abs(self.b)
        # the same parabola as a sum of terms that rise with t, so that rounding can't make it fall
        return (self.c - self.b) + spare * t + self.b * (from_vertex * from_vertex)

    def logit_formula(self, b: Builder, s: Term) -> Term:
        middle, half = self._range()
        z = input_logit(b, s, self.clip)
        t = b.hold((b.clip(z, self.low, self.high) - middle) / half) if half > 0.0 else 0.0 * s
        from_vertex = b.hold(1.0 + math.copysign(1.0, self.b) * t)
        spare = self.a - 2.0 * abs(self.b)
        return (self.c - self.b) + spare * t + self.b * (from_vertex * from_vertex)

    def in_words(self) -> str:
        formula = f"q = expit({self.a:.6g} * t {signed(self.b)} * t^2 {signed(self.c)})"
        return f"{formula}, t from -1 to 1 for z from {self.low:.6g} to {self.high:.6g}"

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_clip(self.clip, input, field)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        a, b, c, low, high = (parts[name].number() for name in ("a", "b", "c", "low", "high"))
        if not low <= high:
            parts["high"].refuse("is below the lower end of the range")
        if abs(2.0 * b) > a:
            parts["b"].refuse("makes the parabola fall within [low, high]")
        check_reach(parts["a"], a, 5.0 * b, c)
        return cls(a, b, c, low, high, decode_optional_clip(parts["clip"]))

    def _range(self) -> tuple[float, float]:
        """Return the middle of the range and half its width."""
        return 0.5 * self.low + 0.5 * self.high, 0.5 * self.high - 0.5 * self.low


def line_map(slope: float, intercept: float, clip: float | None) -> LogisticMap | BetaMap:
    """Return the map of a line over the logit of a probability, clipped by `clip`, or over a score where it is None."""
    return LogisticMap(slope, intercept) if clip is None else BetaMap(slope, slope, intercept, clip)


#: The map of a logit to its probability.
IDENTITY_LOGIT = LogisticMap(1.0, 0.0)
