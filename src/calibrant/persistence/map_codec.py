"""Maps as plain data and back: each direction is one exhaustive `match`, so a new kind of map fails type checking."""

from __future__ import annotations

from typing import Any, Literal, assert_never, get_args

import numpy as np

from calibrant.maps import (
    COUPLINGS,
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    LogPoolMap,
    Map,
    MeanMap,
    MixtureMap,
    OneVsRestMap,
    QuadraticMap,
    SingleMap,
    SoftmaxMap,
    StepMap,
    TopLabelMap,
    VennAbersMap,
)
from calibrant.numerics import FloatArray
from calibrant.persistence.fields import Field

SingleKind = Literal["logistic", "beta", "step", "interpolated", "logit_interpolated", "quadratic", "venn_abers"]
BinaryKind = Literal[SingleKind, "blend", "mean"]
MapKind = Literal[BinaryKind, "softmax", "mixture", "one_vs_rest", "top_label", "log_pool"]
_SINGLE_KINDS: tuple[SingleKind, ...] = get_args(SingleKind)
_BINARY_KINDS: tuple[BinaryKind, ...] = get_args(BinaryKind)
_MAP_KINDS: tuple[MapKind, ...] = get_args(MapKind)
_POOLED_KINDS: tuple[MapKind, ...] = ("softmax", "one_vs_rest")
#: What rounding may leave of a sum of shares.
_WHOLE_TOL = 1e-9


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
        case MeanMap():
            return "mean"
        case MixtureMap():
            return "mixture"
        case LogPoolMap():
            return "log_pool"
        case SoftmaxMap():
            return "softmax"
        case OneVsRestMap():
            return "one_vs_rest"
        case TopLabelMap():
            return "top_label"
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
        case MeanMap(maps, weights) | MixtureMap(maps, weights):
            return {"maps": [encode_map(m) for m in maps], "weights": weights.tolist()}
        case SoftmaxMap(weight, bias, least):
            return {"weight": weight.tolist(), "bias": bias.tolist(), "clip": _optional(least)}
        case LogPoolMap(maps, weights, clip, uniform):
            parts = {"maps": [encode_map(m) for m in maps], "weights": weights.tolist()}
            return {**parts, "clip": float(clip), "uniform": float(uniform)}
        case OneVsRestMap(maps, is_logit, coupling):
            later = {} if coupling == "normalise" else {"coupling": coupling}
            return {"maps": [encode_map(m) for m in maps], "is_logit": bool(is_logit), **later}
        case TopLabelMap(n_classes, maps, is_logit):
            return {
                "n_classes": int(n_classes),
                "maps": [encode_map(m) for m in maps],
                "is_logit": bool(is_logit),
            }
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
            return _softmax(field)
        case "mixture":
            parts = field.members(("kind", "maps", "weights"))
            softmaxes = tuple(_softmax(item) for item in parts["maps"].items())
            sizes = [m.bias.size for m in softmaxes]
            if len(set(sizes)) > 1:
                parts["maps"].refuse(f"holds maps of {min(sizes)} and of {max(sizes)} classes")
            return MixtureMap(softmaxes, _whole(parts["weights"], len(softmaxes)))
        case "log_pool":
            return _log_pool(field)
        case "one_vs_rest":
            return _one_vs_rest(field)
        case "top_label":
            parts = field.members(("kind", "n_classes", "maps", "is_logit"))
            n_classes = parts["n_classes"].integer(minimum=3)
            maps = _decode_maps(parts["maps"], minimum=1)
            if len(maps) not in (1, n_classes):
                parts["maps"].refuse(f"does not go with {n_classes} classes: one map, or one per class, is needed")
            return TopLabelMap(n_classes, maps, parts["is_logit"].boolean())
        case _:
            return _decode_binary(kind, field)


def _decode_maps(field: Field, *, minimum: int) -> tuple[BinaryMap, ...]:
    items = field.items(minimum=minimum)
    return tuple(_decode_binary(item.member("kind").choice(_BINARY_KINDS), item) for item in items)


def _decode_binary(kind: BinaryKind, field: Field) -> BinaryMap:
    if kind != "blend" and kind != "mean":
        return _decode_single(kind, field)
    clip = ("clip",) if kind == "blend" else ()
    parts = field.members(("kind", "maps", "weights", *clip))
    items = parts["maps"].items()
    maps = tuple(_decode_single(item.member("kind").choice(_SINGLE_KINDS), item) for item in items)
    if clip:
        return BlendMap(maps, _shares(parts["weights"], len(maps)), _clip(parts["clip"]))
    return MeanMap(maps, _whole(parts["weights"], len(maps)))


def _one_vs_rest(field: Field) -> OneVsRestMap:
    parts = field.members(("kind", "maps", "is_logit"), ("coupling",))  # which came after the others
    maps = _decode_maps(parts["maps"], minimum=2)
    coupling = parts["coupling"].choice(COUPLINGS) if "coupling" in parts else "normalise"
    return OneVsRestMap(maps, parts["is_logit"].boolean(), coupling)


def _log_pool(field: Field) -> LogPoolMap:
    parts = field.members(("kind", "maps", "weights", "clip", "uniform"))
    maps = tuple(
        _softmax(item) if item.member("kind").choice(_POOLED_KINDS) == "softmax" else _one_vs_rest(item)
        for item in parts["maps"].items()
    )
    sizes = [m.bias.size if isinstance(m, SoftmaxMap) else len(m.maps) for m in maps]
    if len(set(sizes)) > 1:
        parts["maps"].refuse(f"holds maps of {min(sizes)} and of {max(sizes)} classes")
    weights = _whole(parts["weights"], len(maps))
    if not weights.all():
        parts["weights"].refuse("holds a zero: a map without weight is no part")
    uniform = parts["uniform"].number()
    if not 0.0 <= uniform < 1.0:
        parts["uniform"].refuse("is outside [0, 1)")
    return LogPoolMap(maps, weights, _clip(parts["clip"]), uniform)


def _shares(field: Field, n_maps: int) -> FloatArray:
    weights = field.probabilities()
    if weights.size != n_maps:
        field.refuse(f"does not go with {n_maps} maps: one weight per map is needed")
    return weights


def _whole(field: Field, n_maps: int) -> FloatArray:
    weights = _shares(field, n_maps)
    if abs(float(weights.sum()) - 1.0) > _WHOLE_TOL:
        field.refuse(f"sums to {float(weights.sum())!r}, but shares of a mixture sum to 1")
    return weights


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


def _softmax(field: Field) -> SoftmaxMap:
    field.member("kind").choice(("softmax",))
    parts = field.members(("kind", "weight", "bias", "clip"))
    offsets = parts["bias"].numbers(minimum=2)
    return SoftmaxMap(_weight(parts["weight"], offsets.size), offsets, _optional_clip(parts["clip"]))


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
