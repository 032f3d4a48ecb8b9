"""The probabilities of one model or of several, as displays take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError

if TYPE_CHECKING:
    from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True)
class Case:
    """What one curve is measured on, and what the legend calls it."""

    name: str
    y_true: ArrayLike
    y_prob: ArrayLike
    weight: ArrayLike | None


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


def as_cases(
    y_true: ArrayLike | Mapping[str, ArrayLike],
    y_prob: ArrayLike | Mapping[str, ArrayLike],
    sample_weight: ArrayLike | Mapping[str, ArrayLike] | None,
    name: str | None = None,
) -> list[Case]:
    """Return labels, probabilities and weights of each curve: labels are shared unless a mapping names them."""
    models = as_models(y_prob, name)
    if not isinstance(y_true, Mapping):
        return [Case(key, y_true, prob, sample_weight) for key, prob in models]
    named: dict[str, ArrayLike] = {"y_true": y_true}
    if sample_weight is not None:
        named["sample_weight"] = sample_weight
    for argument, values in named.items():
        if not isinstance(values, Mapping) or set(values) != {key for key, _ in models}:
            raise InvalidInputError(
                f"{argument} has not the names of y_prob: where y_true is a mapping, y_prob and sample_weight are "
                "mappings with the same names."
            )
    weights = {} if sample_weight is None else sample_weight
    return [Case(key, y_true[key], prob, weights.get(key)) for key, prob in models]
