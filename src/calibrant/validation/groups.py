"""Groups of rows: labels of any kind and number, encoded against those that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidLabelError
from calibrant.numerics import IntArray
from calibrant.validation.labels import Labels, label_values, normalise_labels
from calibrant.validation.scores import ArrayLike


def as_groups(groups: ArrayLike, *, name: str = "groups") -> Labels:
    """Check the group of each row, of any kind that labels can be, and encode it against the sorted groups.

    Parameters
    ----------
    groups : array-like of shape (n,)
        Booleans, integers (also as floats), strings, or a categorical of these; one group or many.
    name : str
        What the caller calls them, for the messages.

    Raises
    ------
    InvalidLabelError
        If a group is missing, of another kind than the others, or not a label at all.
    """
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

    Groups of another kind than the known ones are compared as text: types of text files differ from part to part.
    """
    labels = as_groups(groups, name=name)
    found = labels.classes.tolist()
    is_text = isinstance(found[0], str) != isinstance(known.tolist()[0], str)
    if is_text:
        place: dict[Any, int] = {str(label): i for i, label in enumerate(known.tolist())}
        at = np.array([place.get(str(label), -1) for label in found], dtype=np.int64)
        return at[labels.codes], [label for label, i in zip(found, at.tolist(), strict=True) if i < 0]
    place = {_key(label): i for i, label in enumerate(known.tolist())}
    at = np.array([place.get(_key(label), -1) for label in found], dtype=np.int64)
    return at[labels.codes], [label for label, i in zip(found, at.tolist(), strict=True) if i < 0]


def _key(label: object) -> tuple[bool, object]:
    """Tell True from 1, which Python takes for equal."""
    return isinstance(label, bool), label


def _group_values(groups: ArrayLike, name: str) -> npt.NDArray[Any]:
    values = label_values(groups, name)
    if values.dtype.kind == "f":
        odd = np.isfinite(values) & (values != np.floor(values))
        if odd.any():
            row = int(odd.argmax())
            raise InvalidLabelError(
                f"{name} row {row}: {values[row].item()!r} names no group ({odd.sum():,} of {odd.size:,} rows). "
                "Cut numbers into ranges first, and pass the name of each row's range."
            )
    return normalise_labels(values, name)
