"""The closed set of fitted maps: frozen values of float64 that know how to apply themselves, and nothing else.

Persistence, export and applying at scale are each one exhaustive `match` over `BinaryMap` and `Map`.
"""

from typing import TypeAlias

from calibrant.maps.coupling import COUPLINGS, Coupling
from calibrant.maps.multiclass import LogPoolMap, MixtureMap, MulticlassMap, OneVsRestMap, SoftmaxMap, TopLabelMap
from calibrant.maps.single import (
    IDENTITY,
    IDENTITY_LOGIT,
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    MeanMap,
    QuadraticMap,
    SingleMap,
    StepMap,
    VennAbersMap,
)

Map: TypeAlias = BinaryMap | MulticlassMap

__all__ = [
    "COUPLINGS",
    "IDENTITY",
    "IDENTITY_LOGIT",
    "BetaMap",
    "BinaryMap",
    "BlendMap",
    "Coupling",
    "InterpolatedMap",
    "LogPoolMap",
    "LogisticMap",
    "LogitInterpolatedMap",
    "Map",
    "MeanMap",
    "MixtureMap",
    "MulticlassMap",
    "OneVsRestMap",
    "QuadraticMap",
    "SingleMap",
    "SoftmaxMap",
    "StepMap",
    "TopLabelMap",
    "VennAbersMap",
    "is_binary",
]


def is_binary(fitted: Map) -> bool:
    """Say whether a map takes one score per row."""
    return isinstance(fitted, BinaryMap)
