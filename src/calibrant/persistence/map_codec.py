"""Maps as plain data and back: each direction is one exhaustive `match`, so a new kind of map fails type checking."""

from __future__ import annotations

from typing import Any, Literal, assert_never, get_args

import numpy as np

from calibrant.maps import (
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    Map,
    OneVsRestMap,
    QuadraticMap,
    SingleMap,
    SoftmaxMap,
    StepMap,
    VennAbersMap,
)
from calibrant.numerics import FloatArray
from calibrant.persistence.fields import Field

SingleKind = Literal["logistic", "beta", "step", "interpolated", "logit_interpolated", "quadratic", "venn_abers"]
BinaryKind = Literal[SingleKind, "blend"]
MapKind = Literal[BinaryKind, "softmax", "one_vs_rest"]
_SINGLE_KINDS: tuple[SingleKind, ...] = get_args(SingleKind)
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
        case LogitInterpolatedMap():
            return "logit_interpolated"
        case QuadraticMap():
            return "quadratic"
        case VennAbersMap():
            return "venn_abers"
        case BlendMap():
            return "blend"
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
        case LogitInterpolatedMap(x, y, clip):
            return {"x": x.tolist(), "y": y.tolist(), "clip": _optional(clip)}
        case QuadraticMap(a, b, c, low, high, clip):
            values = {"a": a, "b": b, "c": c, "low": low, "high": high}
            return {**{name: float(value) for name, value in values.items()}, "clip": _optional(clip)}
        case VennAbersMap(edges0, levels0, edges1, levels1):
            arrays = {"edges0": edges0, "levels0": levels0, "edges1": edges1, "levels1": levels1}
            return {name: array.tolist() for name, array in arrays.items()}
        case BlendMap(maps, weights, clip):
            return {"maps": [encode_map(m) for m in maps], "weights": weights.tolist(), "clip": float(clip)}
        case SoftmaxMap(weight, bias, least):
            return {"weight": weight.tolist(), "bias": bias.tolist(), "clip": _optional(least)}
        case OneVsRestMap(maps, is_logit):
            return {"maps": [encode_map(m) for m in maps], "is_logit": bool(is_logit)}
        case _:
            assert_never(fitted)


def _optional(clip: float | None) -> float | None:
    return None if clip is None else float(clip)


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
    if kind != "blend":
        return _decode_single(kind, field)
    parts = field.members(("kind", "maps", "weights", "clip"))
    items = parts["maps"].items()
    maps = tuple(_decode_single(item.member("kind").choice(_SINGLE_KINDS), item) for item in items)
    weights = parts["weights"].numbers()
    if weights.size != len(maps):
        parts["weights"].refuse(f"does not go with {len(maps)} maps: one weight per map is needed")
    parts["weights"].probabilities()  # shares of the blend
    return BlendMap(maps, weights, _clip(parts["clip"]))


def _decode_single(kind: SingleKind, field: Field) -> SingleMap:
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
        case "logit_interpolated":
            parts = field.members(("kind", "x", "y", "clip"))
            return _logit_interpolated(parts["x"], parts["y"], parts["clip"])
        case "quadratic":
            parts = field.members(("kind", "a", "b", "c", "low", "high", "clip"))
            a, b, c, low, high = (parts[name].number() for name in ("a", "b", "c", "low", "high"))
            if not low <= high:
                parts["high"].refuse("is below the lower end of the range")
            if abs(2.0 * b) > a:
                parts["b"].refuse("makes the parabola fall within [low, high]")
            return QuadraticMap(a, b, c, low, high, _optional_clip(parts["clip"]))
        case "venn_abers":
            parts = field.members(("kind", "edges0", "levels0", "edges1", "levels1"))
            lower, upper = (_rising_step(parts[f"edges{k}"], parts[f"levels{k}"]) for k in (0, 1))
            return _venn_abers(VennAbersMap(lower.edges, lower.levels, upper.edges, upper.levels), parts["levels0"])
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


def _rising_step(edges: Field, levels: Field) -> StepMap:
    found = _step(edges, levels)
    if (found.levels[1:] < found.levels[:-1]).any():
        levels.refuse("falls somewhere, but these must not")
    return found


def _venn_abers(found: VennAbersMap, levels0: Field) -> VennAbersMap:
    """Refuse a pair that crosses; both rise, so p1 is smallest where p0 takes a new level."""
    p0, p1 = found.pair(np.append(-np.inf, found.edges0))
    if (p0 > p1).any():
        i = int((p0 > p1).argmax())
        levels0.refuse(
            f"holds p0 = {p0[i].item()!r} for scores where p1 = {p1[i].item()!r}, but p0 must not be above p1"
        )
    return found


def _interpolated(x: Field, y: Field) -> InterpolatedMap:
    knots, values = x.rising(), y.probabilities()
    if knots.size != values.size:
        y.refuse(f"does not go with {x.path} of {knots.size:,}: one value per knot is needed")
    return InterpolatedMap(knots, values)


def _logit_interpolated(x: Field, y: Field, clip: Field) -> LogitInterpolatedMap:
    knots, values = x.rising(), y.numbers()
    if knots.size != values.size:
        y.refuse(f"does not go with {x.path} of {knots.size:,}: one value per knot is needed")
    if (values[1:] < values[:-1]).any():
        y.refuse("falls somewhere, but these must not")
    with np.errstate(over="ignore", invalid="ignore"):
        is_steep = ~np.isfinite(np.diff(values) / np.diff(knots)) | ~np.isfinite(np.diff(knots))
    if is_steep.any():
        y.refuse(f"rises from {x.path}[{int(is_steep.argmax())}] to the next by more than float64 can hold")
    return LogitInterpolatedMap(knots, values, _optional_clip(clip))


def _optional_clip(field: Field) -> float | None:
    return None if field.value is None else _clip(field)


def _softmax(weight: Field, bias: Field, clip: Field) -> SoftmaxMap:
    offsets = bias.numbers(minimum=2)
    return SoftmaxMap(_weight(weight, offsets.size), offsets, _optional_clip(clip))


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
