"""Fitted recalibrators as plain data and back."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from calibrant import persistence
from calibrant.errors import CalibrantError, DocumentError, InvalidTypeError
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.points import LARGEST
from calibrant.forecasts.recalibrators.average import AverageRecalibrator
from calibrant.forecasts.recalibrators.base import Recalibrator
from calibrant.forecasts.recalibrators.conformal import CONFORMITIES, ConformalRecalibrator, ConformalScores
from calibrant.forecasts.recalibrators.direct import ThresholdLevels
from calibrant.forecasts.recalibrators.distribution import BinnedMaps, DistributionRecalibrator
from calibrant.forecasts.recalibrators.layers import Layer, MeanOfChains, OneMap, ThresholdChain
from calibrant.forecasts.recalibrators.level_maps import Knots
from calibrant.forecasts.recalibrators.rounds import ThresholdRound
from calibrant.forecasts.recalibrators.stopping import CHOICES
from calibrant.forecasts.recalibrators.threshold import ThresholdRecalibrator
from calibrant.forecasts.recalibrators.variance_scaling import ProbitScale, VarianceScalingRecalibrator
from calibrant.numerics import FloatArray
from calibrant.persistence import Field, as_plain

KIND = "forecast_recalibrator"
_METHODS: dict[str, type[Recalibrator]] = {
    "average": AverageRecalibrator,
    "conformal": ConformalRecalibrator,
    "distribution": DistributionRecalibrator,
    "threshold": ThresholdRecalibrator,
    "variance_scaling": VarianceScalingRecalibrator,
}
_LAYERS = ("binned_maps", "conformal_scores", "mean_of_chains", "one_map", "probit_scale", "rounds", "threshold_levels")
_ROUND = ("y0", "alpha", "error_before", "error_after", "n_left", "n_right")


def _encode(recalibrator: Recalibrator) -> dict[str, Any]:
    recalibrator._check_fitted()
    name = next((name for name, cls in _METHODS.items() if type(recalibrator) is cls), None)
    if name is None:
        raise InvalidTypeError(
            f"can't save a {type(recalibrator).__name__}: only calibrant's own recalibrators have a file format."
        )
    body: dict[str, Any] = {
        "method": name,
        "n_rows": recalibrator.n_rows_,
        "layers": [_encode_layer(layer) for layer in recalibrator.layers_],
    }
    plain = {key: as_plain(getattr(recalibrator, key), f"settings.{key}") for key in _settings(name)}
    changed = {key: plain[key] for key, default in _settings(name).items() if plain[key] != as_plain(default, key)}
    if changed:
        body["settings"] = changed
    if isinstance(recalibrator, ThresholdRecalibrator):
        body["choice"] = recalibrator.choice_
        body["rounds"] = [_encode_round(r) for r in recalibrator.rounds_]
    return body


def _settings(method: str) -> dict[str, object]:
    """Return the names of a method's settings, with their defaults, but for what its layer says or no file can."""
    parameters = inspect.signature(_METHODS[method]).parameters
    return {key: each.default for key, each in parameters.items() if key not in ("conformity", "progress")}


def _decode_settings(method: str, field: Field) -> Recalibrator:
    """Return an unfitted recalibrator, made from settings that its own checks accept."""
    known = _settings(method)
    given = {key: item.value for key, item in field.members((), tuple(known)).items()}
    pairs = {key: tuple(value) for key, value in given.items() if isinstance(value, list)}
    made = _METHODS[method](**{**given, **pairs})
    try:
        made._check_settings()
    except CalibrantError as error:
        raise DocumentError(f"{field.path}: {error}") from None
    return made


def _encode_round(made: ThresholdRound) -> dict[str, Any]:
    values = {key: getattr(made, key) for key in _ROUND}
    return {key: None if math.isnan(value) else value for key, value in values.items()}


def _encode_layer(layer: Layer) -> dict[str, Any]:
    match layer:
        case OneMap(x=x, y=y):
            return {"type": "one_map", "x": x.tolist(), "y": y.tolist()}
        case ThresholdChain():
            return {"type": "rounds", **_encode_chain(layer)}
        case MeanOfChains(chains=chains):
            return {"type": "mean_of_chains", "chains": [_encode_chain(chain) for chain in chains]}
        case BinnedMaps(edges=edges, width_edges=width_edges, maps=maps):
            return {
                "type": "binned_maps",
                "edges": edges.tolist(),
                "width_edges": width_edges.tolist(),
                "maps": _encode_maps(maps),
            }
        case ThresholdLevels(thresholds=thresholds, maps=maps, share=share):
            return {
                "type": "threshold_levels",
                "thresholds": thresholds.tolist(),
                "maps": _encode_maps(maps),
                "share": share,
            }
        case ProbitScale(scale=scale, shift=shift):
            return {"type": "probit_scale", "scale": scale, "shift": shift}
        case ConformalScores(conformity=conformity, at=at, levels=levels, mass=mass):
            arrays = {"at": at.tolist(), "levels": levels.tolist(), "mass": mass.tolist()}
            return {"type": "conformal_scores", "conformity": conformity, **arrays}
        case _:
            raise InvalidTypeError(f"can't save a layer of type {type(layer).__name__}: it has no file format.")


def _encode_chain(chain: ThresholdChain) -> dict[str, Any]:
    return {
        "thresholds": chain.thresholds.tolist(),
        "column": chain.column.tolist(),
        "alpha": chain.alpha.tolist(),
        "maps": _encode_maps(chain.maps),
    }


def _encode_maps(maps: PackedMaps) -> list[dict[str, list[float]]]:
    knots = (maps.knots(j) for j in range(len(maps)))
    return [{"x": x.tolist(), "y": y.tolist()} for x, y in knots]


def _decode(body: dict[str, Any]) -> Recalibrator:
    root = Field(body)
    method = root.member("method").choice(sorted(_METHODS))
    of_threshold = ("choice", "rounds") if method == "threshold" else ()
    fields = root.members(("method", "n_rows", "layers", *of_threshold), ("settings",))
    recalibrator = _decode_settings(method, fields["settings"]) if "settings" in fields else _METHODS[method]()
    recalibrator.n_rows_ = fields["n_rows"].integer(minimum=1)
    recalibrator.layers_ = tuple(_decode_layer(item) for item in fields["layers"].items(minimum=0))
    only = recalibrator.layers_[0] if len(recalibrator.layers_) == 1 else None
    if isinstance(recalibrator, ThresholdRecalibrator):
        recalibrator.choice_ = fields["choice"].choice(CHOICES)
        recalibrator.rounds_ = tuple(_decode_round(item) for item in fields["rounds"].items(minimum=0))
        recalibrator.cv_ = None
    if isinstance(recalibrator, VarianceScalingRecalibrator):
        if not isinstance(only, ProbitScale):
            fields["layers"].refuse("is not one layer of the type 'probit_scale'")
        recalibrator.scale_, recalibrator.shift_ = only.scale, only.shift
    if isinstance(recalibrator, ConformalRecalibrator):
        if not isinstance(only, ConformalScores):
            fields["layers"].refuse("is not one layer of the type 'conformal_scores'")
        recalibrator.conformity, recalibrator.scores_ = only.conformity, only.at
    return recalibrator


def _decode_round(item: Field) -> ThresholdRound:
    fields = item.members(_ROUND)
    numbers = [
        math.nan if key == "error_after" and fields[key].value is None else fields[key].number() for key in _ROUND
    ]
    return ThresholdRound(*numbers)


def _decode_layer(item: Field) -> Layer:
    kind = item.member("type").choice(_LAYERS)
    match kind:
        case "one_map":
            fields = item.members(("type", "x", "y"))
            return OneMap(*_decode_knots(fields))
        case "rounds":
            return _decode_chain(item, ("type",))
        case "mean_of_chains":
            fields = item.members(("type", "chains"))
            return MeanOfChains(tuple(_decode_chain(chain) for chain in fields["chains"].items()))
        case "binned_maps":
            fields = item.members(("type", "edges", "width_edges", "maps"))
            edges = _decode_edges(fields["edges"])
            rows = fields["width_edges"].items()
            if len(rows) != edges.size + 1:
                fields["width_edges"].refuse(f"does not go with {edges.size} edges: one list for each bin is needed")
            widths = [_decode_edges(row) for row in rows]
            for row, width in zip(rows, widths, strict=True):
                if width.size != widths[0].size:
                    row.refuse("is not as long as the first list")
            maps = _decode_maps(fields["maps"], len(rows) * (widths[0].size + 1), rises=True)
            return BinnedMaps(edges, np.array(widths).reshape(len(rows), -1), maps)
        case "threshold_levels":
            fields = item.members(("type", "thresholds", "maps", "share"))
            thresholds = _within_reach(fields["thresholds"], fields["thresholds"].rising())
            share = fields["share"].number()
            if not 0.0 <= share <= 1.0:
                fields["share"].refuse("is outside [0, 1]")
            return ThresholdLevels(thresholds, _decode_maps(fields["maps"], thresholds.size, rises=False), share)
        case "probit_scale":
            fields = item.members(("type", "scale", "shift"))
            scale, shift = fields["scale"].number(), fields["shift"].number()
            if scale <= 0.0:
                fields["scale"].refuse("is not above 0")
            _within_reach(fields["scale"], np.array([scale]))
            _within_reach(fields["shift"], np.array([shift]))
            return ProbitScale(scale, shift)
        case _:
            return _decode_scores(item)


def _decode_scores(item: Field) -> ConformalScores:
    fields = item.members(("type", "conformity", "at", "levels", "mass"))
    conformity = fields["conformity"].choice(CONFORMITIES)
    at, levels, mass = fields["at"].rising(), fields["levels"].rising(), fields["mass"].numbers()
    for key, values in (("at", at), ("mass", mass)):
        _within_reach(fields[key], values)
    for key, values in (("levels", levels), ("mass", mass)):
        if values.size != at.size:
            fields[key].refuse(f"does not go with {at.size} scores: one number for each is needed")
    if levels[0] <= 0.0 or levels[-1] >= 1.0:
        fields["levels"].refuse("has a level outside (0, 1)")
    if (mass <= 0.0).any():
        fields["mass"].refuse("holds a weight that is not above 0")
    return ConformalScores(conformity, at, levels, mass)


def _decode_chain(item: Field, more: tuple[str, ...] = ()) -> ThresholdChain:
    fields = item.members((*more, "thresholds", "column", "alpha", "maps"))
    columns = fields["column"].items(minimum=0)
    thresholds = _within_reach(fields["thresholds"], fields["thresholds"].rising()) if columns else np.empty(0)
    column = np.array([c.integer(minimum=0, maximum=thresholds.size - 1) for c in columns], dtype=np.int64)
    alpha = fields["alpha"].numbers(minimum=0)
    if alpha.size != column.size:
        fields["alpha"].refuse(f"does not go with {column.size} rounds: one number for each is needed")
    return ThresholdChain(thresholds, column, alpha, _decode_maps(fields["maps"], 2 * column.size, rises=True))


def _decode_maps(field: Field, n: int, *, rises: bool) -> PackedMaps:
    items = field.items(minimum=0)
    if len(items) != n:
        field.refuse(f"has {len(items)} maps where {n} are needed")
    return PackedMaps.pack([_decode_knots(item.members(("x", "y")), rises=rises) for item in items])


def _decode_knots(fields: dict[str, Field], *, rises: bool = True) -> Knots:
    """Return knots from (0, 0) to (1, 1) that rise; only a map that is never inverted may be flat."""
    x = fields["x"].rising(minimum=2)
    y = fields["y"].rising(minimum=2) if rises else fields["y"].numbers(minimum=2)
    if x.size != y.size:
        fields["y"].refuse(f"does not go with {x.size} knots: one number for each is needed")
    for key, values in (("x", x), ("y", y)):
        if values[0] != 0.0 or values[-1] != 1.0:
            fields[key].refuse("does not run from 0 to 1")
        if (np.diff(values) < 0.0).any():
            fields[key].refuse("holds a number that is below the one before")
    return x, y


def _within_reach(field: Field, values: FloatArray) -> FloatArray:
    """Refuse places on the number line that no outcome may have."""
    if values.size and np.abs(values).max() > LARGEST:
        field.refuse(f"holds a number beyond {LARGEST:g}")
    return values


def _decode_edges(field: Field) -> FloatArray:
    """Return numbers that don't fall; there may be none."""
    edges = _within_reach(field, field.numbers(minimum=0))
    if (np.diff(edges) < 0.0).any():
        field.refuse("holds a number that is below the one before")
    return edges


persistence.register_kind(KIND, Recalibrator, _encode, _decode)
