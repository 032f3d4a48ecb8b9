"""Groups of rows: labels of any kind and number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidLabelError
from calibrant.numerics import IntArray
from calibrant.validation.arguments import at_first
from calibrant.validation.labels import Labels, label_values, normalise_labels
from calibrant.validation.scores import ArrayLike


def as_groups(groups: ArrayLike, *, name: str = "groups") -> Labels:
    """Check the group of each row, of any kind that labels can be, and encode it against the sorted groups."""
    values = _group_values(groups, name)
    if values.dtype.kind == "O":
        found = sorted(set(values.tolist()))
        place = {label: i for i, label in enumerate(found)}
        codes = np.fromiter((place[v] for v in values.tolist()), dtype=np.intp, count=values.size)
        return Labels(codes, np.array(found, dtype=object))
    distinct, codes = np.unique(values, return_inverse=True)
    return Labels(codes.reshape(-1), distinct)


def match_groups(groups: ArrayLike, known: npt.NDArray[Any], *, name: str = "groups") -> tuple[IntArray, list[Any]]:
    """Return the place of each row's group among the `known` ones, -1 for any other, and the others, sorted.

    Groups of another kind than the known ones are compared as text, since parts of text files may differ in type.
    """
    labels = as_groups(groups, name=name)
    found = labels.classes.tolist()
    is_text = isinstance(found[0], str) != isinstance(known.tolist()[0], str)

    def key(label: object) -> object:
        return str(label) if is_text else (isinstance(label, bool), label)  # Python takes True and 1 for equal

    place = {key(label): i for i, label in enumerate(known.tolist())}
    at = np.array([place.get(key(label), -1) for label in found], dtype=np.int64)
    return at[labels.codes], [label for label, i in zip(found, at.tolist(), strict=True) if i < 0]


def _group_values(groups: ArrayLike, name: str) -> npt.NDArray[Any]:
    values = label_values(groups, name)
    if values.dtype.kind == "f":
        odd = np.isfinite(values) & (values != np.floor(values))
        if odd.any():
            problem = f"{values[odd.argmax()].item()!r} names no group"
            fix = "Cut numbers into ranges first, and pass the name of each row's range."
            raise InvalidLabelError(at_first(odd, name, problem, fix))
    return normalise_labels(values, name)
