"""Scores of parts of the rows, classes or groups, at levels that are corrected for their number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from calibrant.metrics.verdict import verdict
from calibrant.phrases import listed
from calibrant.results import Scores

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class PartScores(ABC):
    """Scores of all rows at `level`, and those of each part at `interval_level`, the worst part first."""

    overall: Scores
    parts: Mapping[Any, Scores]
    level: float
    interval_level: float
    #: What one part is called, and several of them.
    part: ClassVar[tuple[Literal["class", "group"], str]]
    #: What is said of parts that are off, and of none.
    off_words: ClassVar[str] = "off"

    def is_off(self, part: object) -> bool:
        """Say whether one of the gaps by which a part is judged has an interval that excludes zero."""
        return verdict(self.parts[part], of=self.part[0]).is_off

    @property
    def off(self) -> tuple[Any, ...]:
        """The parts that are off, the worst first."""
        return tuple(part for part in self.parts if self.is_off(part))

    @property
    @abstractmethod
    def multiplicity(self) -> str:
        """What the level of the intervals means, in a sentence."""

    @property
    def verdict(self) -> str:
        """Which parts are off, in words."""
        return self.describe(str)

    def describe(self, name: Callable[[object], str]) -> str:
        """Say which parts are off, with `name` to write each of them."""
        off = self.off
        if not off:
            return f"No {self.part[0]} found {self.off_words}. {self.multiplicity}"
        named = listed([name(part) for part in off[:_MOST_NAMED]]) + (", ..." if len(off) > _MOST_NAMED else "")
        said = f"{self.off_words.capitalize()}, worst first: {named} ({len(off):,} of {len(self.parts):,})."
        return f"{said} {self.multiplicity}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        one, several = self.part
        return {
            "level": self.level,
            "interval_level": self.interval_level,
            "verdict": self.verdict,
            "overall": self.overall.to_dict(),
            several: [{one: part, "is_off": self.is_off(part), **s.to_dict()} for part, s in self.parts.items()],
        }

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"{part}: {scores.verdict}" for part, scores in self.parts.items())])
