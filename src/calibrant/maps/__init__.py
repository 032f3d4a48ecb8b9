"""The closed set of fitted maps: frozen values of float64 that know how to apply themselves, and nothing else.

Persistence, export and applying at scale are each one exhaustive `match` over `BinaryMap` and `Map`.
"""

from typing import TypeAlias

from calibrant.maps.multiclass import MulticlassMap, OneVsRestMap, SoftmaxMap
from calibrant.maps.single import (
    IDENTITY,
    IDENTITY_LOGIT,
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    QuadraticMap,
    SingleMap,
    StepMap,
    VennAbersMap,
)

Map: TypeAlias = BinaryMap | MulticlassMap

__all__ = [
    "IDENTITY",
    "IDENTITY_LOGIT",
    "BetaMap",
    "BinaryMap",
    "BlendMap",
    "InterpolatedMap",
    "LogisticMap",
    "LogitInterpolatedMap",
    "Map",
    "MulticlassMap",
    "OneVsRestMap",
    "QuadraticMap",
    "SingleMap",
    "SoftmaxMap",
    "StepMap",
    "VennAbersMap",
    "is_binary",
]


def is_binary(fitted: Map) -> bool:
    """Say whether a map takes one score per row."""
    return isinstance(fitted, BinaryMap)
