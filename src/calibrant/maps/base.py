"""What every map has: a way to be applied, a formula for SQL and ONNX, a form in documents, and a description."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.numerics import FEW_VALUES, FloatArray, clip_between, clip_open, logit, open_ends, open_expit
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind

#: The maps by their kind in documents. A subclass with a kind enters when it is defined.
MAPS: dict[str, type[Map]] = {}
#: What rounding may leave of a sum of shares.
_SUM_TOLERANCE = 1e-9
#: Probabilities that examples show beside tenths: rare events have no larger ones.
_RARE = np.array([0.001, 0.01])
#: Scores whose arrays stay in a processor's cache while a formula is worked out.
_BLOCK = 1 << 14
#: Classes whose maps a description lists.
MOST_CLASSES = 10

_Map = TypeVar("_Map", bound="Map")


class Examples(NamedTuple):
    """Scores, and what each of several maps of one score makes of them."""

    title: str
    names: list[str]
    scores: FloatArray
    becomes: list[FloatArray]


class Map(ABC):
    """A fitted map: a frozen dataclass of floats, arrays and other maps.

    It says how it is applied and written down, and nothing of how it was fitted.
    """

    __slots__ = ()
    #: The name in documents.
    kind: ClassVar[str]
    #: Whether it takes one score of each row, of the positive class.
    is_binary: ClassVar[bool] = False
    #: Fields that older documents lack: they are zero, or false, there.
    later_fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            MAPS[cls.kind] = cls

    @property
    def has_steps(self) -> bool:
        """Whether the map, or one that it is made of, jumps somewhere."""
        return any(part.has_steps for part in getattr(self, "maps", ()))

    @property
    def n_numbers(self) -> int:
        """How many numbers the map holds."""
        return _count(tuple(getattr(self, part.name) for part in fields(self)))  # type: ignore[arg-type]

    @abstractmethod
    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the positive class of each score, or of all classes of each row of scores."""

    @abstractmethod
    def formula(self, b: Builder, s: Term) -> Term:
        """Return what `apply` does, in the terms of a builder."""

    @abstractmethod
    def describe(self, classes: Sequence[Any]) -> list[str]:
        """Return lines that say in formulas and figures what the map does."""

    def examples(self, classes: Sequence[Any], input: InputKind) -> Examples | None:  # noqa: ARG002
        """Return what the map makes of some scores; None where that takes a row of several scores."""
        return None

    @classmethod
    @abstractmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return the map of checked fields of a document, or refuse them."""

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        """Refuse a map in a document that can't be one of scores of this kind."""

    def encode(self) -> dict[str, Any]:
        """Return the map as plain data, without later fields that are zero."""
        held = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        written = {name: _plain(value) for name, value in held.items() if name not in self.later_fields or value != 0.0}
        return {"kind": self.kind, **written}


class BinaryMap(Map):
    """A map of one score to the probability of the positive class."""

    __slots__ = ()
    is_binary: ClassVar[bool] = True

    @property
    def is_expit(self) -> bool:
        """Whether it is an `ExpitMap` whose outputs are worked out by expit."""
        return False

    @abstractmethod
    def in_words(self) -> str:
        """Return a line that says what the map does."""

    def describe(self, classes: Sequence[Any]) -> list[str]:  # noqa: ARG002
        return [self.in_words()]

    def examples(self, classes: Sequence[Any], input: InputKind) -> Examples | None:  # noqa: ARG002
        return examples_of([self], ["becomes"], input)

    def step_edges(self) -> FloatArray | None:
        """Return all scores above which the map takes another value, rising; None if it isn't made of steps alone."""
        return None

    def fitted_scores(self) -> FloatArray:
        """Return the scores of the fit at or just above which a map of steps changes."""
        return np.empty(0)

    def score_range(self) -> tuple[float, float]:
        """Return a range of raw scores within which most of the map's change lies."""
        return -5.0, 5.0


class LoggedScores:
    """Scores, shape (n,), whose logarithms as probabilities are kept for maps of the same clip."""

    __slots__ = ("_clip", "_logs", "scores")
    _logs: tuple[FloatArray, FloatArray]

    def __init__(self, scores: FloatArray) -> None:
        self.scores = scores
        self._clip: float | None = None

    def logs(self, clip: float) -> tuple[FloatArray, FloatArray]:
        """Return log(p) and log(1 - p) of the scores moved between `open_ends(clip)`, shape (n,) each."""
        if clip != self._clip:
            p = clip_open(self.scores, clip)
            self._logs, self._clip = (np.log(p), np.log1p(-p)), clip
        return self._logs

    def logit(self, clip: float | None) -> FloatArray:
        """Return the logit of the clipped scores; the scores as they are where `clip` is None."""
        if clip is None:
            return self.scores
        of_p, of_rest = self.logs(clip)
        return of_p - of_rest


class BlendPart(BinaryMap):
    """A binary map that a blend may be made of."""

    __slots__ = ()

    def outputs(self, given: LoggedScores) -> FloatArray:
        """Return what `apply` does, of scores whose logarithms may be known."""
        return self.apply(given.scores)

    def output_logits(self, given: LoggedScores, clip: float) -> FloatArray:
        """Return the logits of the outputs, which are moved between `open_ends(clip)`."""
        return logit(clip_open(self.outputs(given), clip))

    def output_logit_formula(self, b: Builder, s: Term, clip: float) -> Term:
        """Return what `output_logits` does, in the terms of a builder."""
        return term_logit(b, b.clip(self.formula(b, s), *open_ends(clip)))


class SingleMap(BlendPart):
    """A binary map that is not made of others."""

    __slots__ = ()


class ExpitMap(SingleMap):
    """A map q = expit(z(s)), kept inside (0, 1)."""

    __slots__ = ()

    @property
    def is_expit(self) -> bool:
        return True

    def apply(self, scores: FloatArray) -> FloatArray:
        return in_blocks(self.outputs, scores)

    def outputs(self, given: LoggedScores) -> FloatArray:
        return open_expit(self.logits(given))

    def output_logits(self, given: LoggedScores, clip: float) -> FloatArray:
        return clip_between(self.logits(given), *_logit_ends(clip))

    @abstractmethod
    def logits(self, given: LoggedScores) -> FloatArray:
        """Return z of each score, shape (n,)."""

    def formula(self, b: Builder, s: Term) -> Term:
        return b.expit(self.logit_formula(b, s))

    def output_logit_formula(self, b: Builder, s: Term, clip: float) -> Term:
        return b.clip(self.logit_formula(b, s), *_logit_ends(clip))

    @abstractmethod
    def logit_formula(self, b: Builder, s: Term) -> Term:
        """Return what `logits` does, in the terms of a builder, as far as expit is not 0 or 1."""


def _logit_ends(clip: float) -> tuple[float, float]:
    low, high = logit(np.array(open_ends(clip))).tolist()
    return low, high


def in_blocks(outputs: Callable[[LoggedScores], FloatArray], scores: FloatArray) -> FloatArray:
    """Return what a function makes of scores, in blocks whose arrays stay in cache."""
    if scores.size <= _BLOCK:
        return outputs(LoggedScores(scores))
    found = np.empty(scores.size)
    for first in range(0, scores.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        found[block] = outputs(LoggedScores(scores[block]))
    return found


def term_logit(b: Builder, p: Term) -> Term:
    """Return the logit of a probability strictly inside (0, 1)."""
    p = b.hold(p)
    return b.ln(p) - b.ln(1.0 - p)


def input_logit(b: Builder, s: Term, clip: float | None) -> Term:
    """Return a score as it is, or the logit of a probability moved between the ends of its clip."""
    return s if clip is None else b.hold(term_logit(b, b.clip(s, *open_ends(clip))))


def apply_each(maps: Sequence[BinaryMap], scores: FloatArray) -> FloatArray:
    """Return what each map makes of its own column of the scores, shape (n, K)."""
    found = np.empty(scores.shape)
    if scores.size >= FEW_VALUES or not all([part.is_expit for part in maps]):  # noqa: C419 - fast for few maps
        for j, part in enumerate(maps):
            found[:, j] = part.apply(np.ascontiguousarray(scores[:, j]))
        return found
    columns = np.ascontiguousarray(scores.T)
    for j, last in enumerate(cast("Sequence[ExpitMap]", maps)):
        found[:, j] = last.logits(LoggedScores(columns[j]))
    return open_expit(found)  # one call for all: the same bits, and cheaper where rows are few


class MulticlassMap(Map):
    """A map of K scores of a row to the probabilities of K classes."""

    __slots__ = ()
    n_classes: int


class PoolPart(MulticlassMap):
    """A map of all classes that a logarithmic pool can be made of."""

    __slots__ = ()

    @abstractmethod
    def log_outputs(self, scores: FloatArray, clip: float) -> FloatArray:
        """Return the logarithms of the outputs, up to a shift of each row that leaves its largest near zero.

        Outputs that may be exactly zero are clipped to at least `clip`.
        """

    @abstractmethod
    def log_formula(self, b: Builder, s: Term, clip: float) -> Term:
        """Return what `log_outputs` does, in the terms of a builder."""


def examples_of(
    maps: Sequence[BinaryMap], names: Sequence[Any], input: InputKind, *, title: str = "", least: float = 0.0
) -> Examples:
    """Return what the first of several maps make of tenths and rarer probabilities, logits, or the scores they know.

    Scores and outputs are `least` at least, which is where the largest of several probabilities begins.
    """
    shown = list(maps[:MOST_CLASSES])
    if input == "probability":
        tenths = np.linspace(0.0, 1.0, 11)
        at = np.concatenate((tenths[:1], _RARE, tenths[1:]))
    else:
        ends = [part.score_range() for part in shown] if input == "score" else [(-5.0, 5.0)]
        at = np.linspace(min(low for low, _ in ends), max(high for _, high in ends), 11)
    at = at[at >= least] if least > 0.0 else at
    becomes = [np.maximum(part.apply(at), least) for part in shown]
    return Examples(title, [str(name) for name in names[: len(shown)]], at, becomes)


def decode_map(field: DocumentField, of: type[_Map] = Map) -> _Map:  # type: ignore[assignment]
    """Return the map that a field of a document holds, of a kind that its place allows, or refuse it."""
    known = {kind: cls for kind, cls in MAPS.items() if issubclass(cls, of)}
    cls = known[field.member("kind").choice(known)]
    held = field.object()
    names = [part.name for part in fields(cls) if part.name not in cls.later_fields or part.name in held]  # type: ignore[arg-type]
    return cls.from_fields(field.members(("kind", *names)))


def decode_maps(field: DocumentField, of: type[_Map], *, minimum: int = 1) -> tuple[_Map, ...]:
    """Return the maps of a list."""
    return tuple(decode_map(item, of) for item in field.items(minimum=minimum))


def decode_shares(field: DocumentField, n_maps: int, *, is_whole: bool = True) -> FloatArray:
    """Return one weight in [0, 1] per map; they sum to one where `is_whole` says so."""
    weights = field.probabilities()
    if weights.size != n_maps:
        field.refuse(f"does not go with {n_maps} maps: one weight per map is needed")
    if is_whole and abs(float(weights.sum()) - 1.0) > _SUM_TOLERANCE:
        field.refuse(f"sums to {float(weights.sum())!r}, but shares of a mixture sum to 1")
    return weights


def decode_clip(field: DocumentField) -> float:
    """Return a clip, strictly between 0 and 1/2."""
    clip = field.number()
    if not 0.0 < clip < 0.5:
        field.refuse("is outside (0, 0.5)")
    return clip


def decode_uniform(field: DocumentField) -> float:
    """Return the share of equal probabilities that is mixed in, from 0 on and below 1."""
    uniform = field.number()
    if not 0.0 <= uniform < 1.0:
        field.refuse("is outside [0, 1)")
    return uniform


def decode_optional_clip(field: DocumentField) -> float | None:
    """Return a clip, or None for maps of logits and raw scores."""
    return None if field.value is None else decode_clip(field)


def mean_of(outputs: Iterable[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the mean of the outputs of maps, by weights that sum to one."""
    weighed = (weight * output for weight, output in zip(weights.tolist(), outputs, strict=True))
    q: FloatArray = reduce(operator.iadd, weighed)
    return np.minimum(q, 1.0, out=q)


def first_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines of a list with one for each class or group, and how many more there are."""
    more = [f"  and {len(lines) - MOST_CLASSES:,} more"] if len(lines) > MOST_CLASSES else []
    return [*lines[:MOST_CLASSES], *more]


def check_reach(field: DocumentField, *terms: float) -> None:
    """Refuse parameters in a document whose terms may have a sum that float64 can't hold."""
    if not math.isfinite(sum(map(abs, terms))):
        field.refuse("makes logits that float64 can't hold")


def check_same_size(maps: Sequence[MulticlassMap], field: DocumentField) -> None:
    """Refuse maps of different numbers of classes."""
    sizes = [part.n_classes for part in maps]
    if len(set(sizes)) > 1:
        field.refuse(f"holds maps of {min(sizes)} and of {max(sizes)} classes")


def check_clip(clip: float | None, input: InputKind, field: DocumentField) -> None:
    """Refuse a clip where scores are no probabilities, and none where they are."""
    if (clip is None) == (input == "probability"):
        field.member("clip").refuse(f"does not go with input {input!r}")


def check_parts(maps: Sequence[Map], input: InputKind, field: DocumentField) -> None:
    """Refuse a part of a map that can't be one of scores of this kind."""
    for item, part in zip(field.member("maps").items(), maps, strict=True):
        part.check_input(input, item)


def signed(value: float) -> str:
    """Write a term of a sum with its sign before it."""
    return f"{'-' if value < 0 else '+'} {abs(value):.6g}"


def _plain(value: Any) -> Any:
    if isinstance(value, Map):
        return value.encode()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _count(value: Any) -> int:
    if isinstance(value, Map):
        return value.n_numbers
    if isinstance(value, tuple):
        return sum(map(_count, value))
    return value.size if isinstance(value, np.ndarray) else 1
