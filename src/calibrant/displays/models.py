"""The probabilities of one model or of several, as displays take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError

if TYPE_CHECKING:
    from calibrant.validation import ArrayLike


def as_models(y_prob: ArrayLike | Mapping[str, ArrayLike], name: str | None = None) -> list[tuple[str, ArrayLike]]:
    """Return names and probabilities of models: of a mapping's, or of the single one that is given."""
    if not isinstance(y_prob, Mapping):
        return [(name or "", y_prob)]
    if name is not None:
        raise InvalidInputError(f"name={name!r} is for one model, but y_prob names {len(y_prob)}. Leave name out.")
    if not y_prob:
        raise ShapeError("y_prob is an empty mapping. Pass the probabilities of at least one model.")
    for key in y_prob:
        if not isinstance(key, str):
            raise InvalidTypeError(f"y_prob has the key {key!r}, which is not text. Name each model by a string.")
    return list(y_prob.items())
