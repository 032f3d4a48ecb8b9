"""Grouped calibrators as plain data and back."""

from __future__ import annotations

import math
from typing import Any

from calibrant import persistence
from calibrant.calibrators import make_calibrator
from calibrant.grouped.calibrator import GroupedCalibrator
from calibrant.grouped.fitting import GroupMap
from calibrant.maps import LogPoolMap, Map, MixtureMap, OneVsRestMap, SoftmaxMap, TopLabelMap
from calibrant.persistence.calibrator_codec import decode_labels
from calibrant.persistence.fields import Field, within

KIND = "grouped_calibrator"


def _encode(calibrator: GroupedCalibrator) -> dict[str, Any]:
    calibrator._check_fitted()
    pooled = make_calibrator(calibrator.calibrator)
    pooled.map_, pooled.classes_ = calibrator.pooled_, calibrator.classes_
    pooled.n_rows_, pooled.score_names_ = calibrator.n_rows_, calibrator.score_names_
    groups = calibrator.group_maps_
    strength = calibrator.shrinkage_
    return {
        "pooled": persistence.encode_calibrator(pooled),
        "pooled_clip": calibrator._pooled_clip,
        "is_auto": calibrator.shrinkage == "auto",
        "shrinkage": None if math.isinf(strength) else strength,
        "groups": calibrator.groups_.tolist(),
        "group_rows": [group.n_rows for group in groups],
        "shares": [group.share for group in groups],
        "clips": [group.clip for group in groups],
        "maps": [persistence.encode_map(group.map) for group in groups],
    }


def _decode(body: dict[str, Any]) -> GroupedCalibrator:
    columns = ("groups", "group_rows", "shares", "clips", "maps")
    fields = Field(body).members(("pooled", "pooled_clip", "is_auto", "shrinkage", *columns))
    with within("pooled"):
        pooled = persistence.decode_calibrator(fields["pooled"].object())
    strength = math.inf if fields["shrinkage"].value is None else fields["shrinkage"].number()
    if strength < 0.0:
        fields["shrinkage"].refuse("is below 0")
    made = GroupedCalibrator(make_calibrator(pooled), shrinkage="auto" if fields["is_auto"].boolean() else strength)
    made.pooled_, made.classes_ = pooled._fitted_map(), pooled.classes_
    made.n_rows_, made.score_names_ = pooled.n_rows_, pooled.score_names_
    made.shrinkage_, made.cv_log_loss_ = strength, None
    made._pooled_clip = _decode_clip(fields["pooled_clip"])
    made.groups_ = decode_labels(fields["groups"])
    items = {name: fields[name].items() for name in columns}
    for name, each in items.items():
        if len(each) != len(made.groups_):
            fields[name].refuse(f"does not go with {len(made.groups_):,} groups: one item for each is needed")
    shares = fields["shares"].probabilities().tolist()
    made.group_maps_ = tuple(
        GroupMap(n.integer(minimum=1), share, _decode_clip(clip), _decode_map(field, made.pooled_))
        for n, share, clip, field in zip(items["group_rows"], shares, items["clips"], items["maps"], strict=True)
    )
    return made


def _decode_clip(field: Field) -> float:
    clip = field.number()
    if not 0.0 < clip < 0.5:
        field.refuse("is outside (0, 0.5)")
    return clip


def _decode_map(field: Field, pooled: Map) -> Map:
    """Return the map of a group, which takes what the map of all rows takes."""
    fitted = persistence.decode_map(field)
    if _n_outputs(fitted) != _n_outputs(pooled):
        field.refuse("takes another number of columns than the map of all rows")
    return fitted


def _n_outputs(fitted: Map) -> int:
    match fitted:
        case OneVsRestMap(maps=maps):
            return len(maps)
        case TopLabelMap(n_classes=n_classes):
            return n_classes
        case SoftmaxMap(bias=bias):
            return int(bias.size)
        case MixtureMap(maps=(first, *_)) | LogPoolMap(maps=(first, *_)):
            return _n_outputs(first)
        case _:
            return 1


persistence.register_kind(KIND, GroupedCalibrator, _encode, _decode)
