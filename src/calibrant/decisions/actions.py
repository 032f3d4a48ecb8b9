"""The actions of a problem: those that losses were given for, and those that were added, of a constant loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.decisions.arguments import as_name
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.validation import check_number

ABSTAIN = "abstain"


@dataclass(frozen=True, slots=True)
class Actions:
    """All actions, of which the first wins ties.

    `given` have losses of their own, in this order; `added` lose the same whatever comes; `names` are both.
    """

    given: tuple[str, ...]
    added: Mapping[str, float]
    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[str], do_nothing: str | None, abstain: float | None) -> Actions:
        """Add what does nothing, which stands first, and abstaining, which stands last."""
        added, names = dict[str, float](), list(given)
        if do_nothing is not None:
            if as_name(do_nothing, "do_nothing") not in names:
                added[do_nothing] = 0.0
            names = [do_nothing, *(name for name in names if name != do_nothing)]
        if abstain is not None:
            if ABSTAIN in names:
                raise InvalidInputError(f"there is an action {ABSTAIN!r} already. Leave abstain= out.")
            added[ABSTAIN] = check_number("abstain", abstain)
            names.append(ABSTAIN)
        if len(names) < 2:
            raise ShapeError(f"there is one action, {names[0]!r}. Name another, or add one by do_nothing= or abstain=.")
        return cls(tuple(given), added, tuple(names))

    def complete(self, own: FloatArray, *, axis: int, is_variance: bool = False) -> FloatArray:
        """Return what is of all actions, from what is of the given ones along an axis; constants don't vary."""
        place = {name: i for i, name in enumerate(self.given)}
        shape = np.delete(own.shape, axis)
        parts = [
            np.take(own, place[name], axis=axis)
            if name in place
            else np.full(shape, 0.0 if is_variance else self.added[name])
            for name in self.names
        ]
        return np.stack(parts, axis=axis)
