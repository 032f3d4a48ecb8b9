"""Maps as plain data and back: each direction is one exhaustive `match`, so a new kind of map fails type checking."""

from __future__ import annotations

from typing import Any, Literal, assert_never, get_args

import numpy as np

from calibrant.maps import (
    BetaMap,
    BinaryMap,
    InterpolatedMap,
    LogisticMap,
    Map,
    OneVsRestMap,
    SoftmaxMap,
    StepMap,
)
from calibrant.numerics import FloatArray
from calibrant.persistence.fields import Field

BinaryKind = Literal["logistic", "beta", "step", "interpolated"]
MapKind = Literal[BinaryKind, "softmax", "one_vs_rest"]
_BINARY_KINDS: tuple[BinaryKind, ...] = get_args(BinaryKind)
_MAP_KINDS: tuple[MapKind, ...] = get_args(MapKind)


def kind_of(fitted: Map) -> MapKind:
    """Return the name of a map's kind in documents."""
    match fitted:
        case LogisticMap():
            return "logistic"
        case BetaMap():
            return "beta"
        case StepMap():
            return "step"
        case InterpolatedMap():
            return "interpolated"
        case SoftmaxMap():
            return "softmax"
        case OneVsRestMap():
            return "one_vs_rest"
        case _:
            assert_never(fitted)


def encode_map(fitted: Map) -> dict[str, Any]:
    """Return a map as plain data."""
    return {"kind": kind_of(fitted), **_values(fitted)}


def _values(fitted: Map) -> dict[str, Any]:
    match fitted:
        case LogisticMap(slope, intercept):
            return {"slope": float(slope), "intercept": float(intercept)}
        case BetaMap(a, b, c, clip):
            return {"a": float(a), "b": float(b), "c": float(c), "clip": float(clip)}
        case StepMap(edges, levels):
            return {"edges": edges.tolist(), "levels": levels.tolist()}
        case InterpolatedMap(x, y):
            return {"x": x.tolist(), "y": y.tolist()}
        case SoftmaxMap(weight, bias, least):
            return {"weight": weight.tolist(), "bias": bias.tolist(), "clip": None if least is None else float(least)}
        case OneVsRestMap(maps, is_logit):
            return {"maps": [encode_map(m) for m in maps], "is_logit": bool(is_logit)}
        case _:
            assert_never(fitted)


def decode_map(field: Field) -> Map:
    """Return the map that a field holds, or refuse it.

    Raises
    ------
    DocumentError
        If a field is missing, unknown, of a wrong type or length, or out of range.
    """
    kind = field.member("kind").choice(_MAP_KINDS)
    match kind:
        case "softmax":
            parts = field.members(("kind", "weight", "bias", "clip"))
            return _softmax(parts["weight"], parts["bias"], parts["clip"])
        case "one_vs_rest":
            parts = field.members(("kind", "maps", "is_logit"))
            columns = parts["maps"].items(minimum=2)
            maps = tuple(_decode_binary(item.member("kind").choice(_BINARY_KINDS), item) for item in columns)
            return OneVsRestMap(maps, parts["is_logit"].boolean())
        case _:
            return _decode_binary(kind, field)


def _decode_binary(kind: BinaryKind, field: Field) -> BinaryMap:
    match kind:
        case "logistic":
            parts = field.members(("kind", "slope", "intercept"))
            return LogisticMap(parts["slope"].number(), parts["intercept"].number())
        case "beta":
            parts = field.members(("kind", "a", "b", "c", "clip"))
            return BetaMap(parts["a"].number(), parts["b"].number(), parts["c"].number(), _clip(parts["clip"]))
        case "step":
            parts = field.members(("kind", "edges", "levels"))
            return _step(parts["edges"], parts["levels"])
        case "interpolated":
            parts = field.members(("kind", "x", "y"))
            return _interpolated(parts["x"], parts["y"])
        case _:
            assert_never(kind)


def _clip(field: Field) -> float:
    clip = field.number()
    if not 0.0 < clip < 0.5:
        field.refuse("is outside (0, 0.5)")
    return clip


def _step(edges: Field, levels: Field) -> StepMap:
    rising, heights = edges.rising(minimum=0), levels.probabilities()
    if heights.size != rising.size + 1:
        levels.refuse(f"does not go with {rising.size:,} edges: one level more than edges is needed")
    return StepMap(rising, heights)


def _interpolated(x: Field, y: Field) -> InterpolatedMap:
    knots, values = x.rising(), y.probabilities()
    if knots.size != values.size:
        y.refuse(f"does not go with {x.path} of {knots.size:,}: one value per knot is needed")
    return InterpolatedMap(knots, values)


def _softmax(weight: Field, bias: Field, clip: Field) -> SoftmaxMap:
    offsets = bias.numbers(minimum=2)
    return SoftmaxMap(_weight(weight, offsets.size), offsets, None if clip.value is None else _clip(clip))


def _weight(field: Field, n_classes: int) -> FloatArray:
    """Return a weight of 0, 1 or 2 dimensions, for a number, a list, or a list of rows."""
    if not isinstance(field.value, list):
        return np.array(field.number())
    if len(field.value) != n_classes:
        field.refuse(f"does not go with a bias of {n_classes}: one weight or row per class is needed")
    if not isinstance(field.value[0], list):
        return field.numbers()
    rows = [item.numbers() for item in field.items()]
    for item, row in zip(field.items(), rows, strict=True):
        if row.size != n_classes:
            item.refuse(f"does not go with {n_classes} classes: one weight per class is needed")
    return np.array(rows)
