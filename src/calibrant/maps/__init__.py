"""The closed set of fitted maps: frozen values of float64 that know how they are applied and written down."""

from calibrant.maps.base import (
    MAPS as MAPS,
    BinaryMap as BinaryMap,
    BlendPart as BlendPart,
    Examples as Examples,
    LoggedScores as LoggedScores,
    Map as Map,
    MulticlassMap as MulticlassMap,
    PoolPart as PoolPart,
    SingleMap as SingleMap,
    apply_each as apply_each,
    decode_clip as decode_clip,
    decode_map as decode_map,
    examples_of as examples_of,
    first_lines as first_lines,
    term_logit as term_logit,
)
from calibrant.maps.blends import BlendMap as BlendMap, MeanMap as MeanMap, mixed_with_half as mixed_with_half
from calibrant.maps.columns import LogPoolMap as LogPoolMap, OneVsRestMap as OneVsRestMap, TopLabelMap as TopLabelMap
from calibrant.maps.coupling import COUPLINGS as COUPLINGS, Coupling as Coupling, most_likely as most_likely
from calibrant.maps.logistic import (
    IDENTITY_LOGIT as IDENTITY_LOGIT,
    BetaMap as BetaMap,
    LogisticMap as LogisticMap,
    QuadraticMap as QuadraticMap,
    line_map as line_map,
)
from calibrant.maps.softmax import (
    MixtureMap as MixtureMap,
    SoftmaxMap as SoftmaxMap,
    softmax_formula as softmax_formula,
)
from calibrant.maps.tables import (
    IDENTITY as IDENTITY,
    InterpolatedMap as InterpolatedMap,
    LogitInterpolatedMap as LogitInterpolatedMap,
    StepMap as StepMap,
    VennAbersMap as VennAbersMap,
    is_identity as is_identity,
    step_levels as step_levels,
)
from calibrant.maps.trees import MOST_LEVELS as MOST_LEVELS, TreesMap as TreesMap
