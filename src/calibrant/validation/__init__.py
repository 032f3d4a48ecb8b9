"""The gate: any container to float64 arrays and back, with every refusal said once and precisely.

Each public function passes its arguments through here; private code trusts what it is given. Nothing here is public.
"""

from calibrant.validation.arguments import (
    as_generator as as_generator,
    at_first as at_first,
    check_choice as check_choice,
    check_flag as check_flag,
    check_fraction as check_fraction,
    check_integer as check_integer,
    check_number as check_number,
    check_same_length as check_same_length,
)
from calibrant.validation.features import (
    Feature as Feature,
    FeatureKind as FeatureKind,
    Features as Features,
    as_feature as as_feature,
    feature_columns as feature_columns,
    read_features as read_features,
)
from calibrant.validation.frames import read_native as read_native
from calibrant.validation.labels import (
    Labels as Labels,
    as_groups as as_groups,
    as_indicators as as_indicators,
    as_labels as as_labels,
    check_both_classes as check_both_classes,
    check_one_column as check_one_column,
    is_missing as is_missing,
    label_values as label_values,
    match_groups as match_groups,
    normalise_labels as normalise_labels,
)
from calibrant.validation.levels import match_levels as match_levels
from calibrant.validation.names import (
    check_sorted as check_sorted,
    column_places as column_places,
    match_classes as match_classes,
    match_columns as match_columns,
    match_names as match_names,
    places_either_way as places_either_way,
    read_names as read_names,
)
from calibrant.validation.scores import (
    INPUT_KINDS as INPUT_KINDS,
    LOGIT_ADVICE as LOGIT_ADVICE,
    NUMPY as NUMPY,
    ArrayLike as ArrayLike,
    Container as Container,
    InputKind as InputKind,
    Scores as Scores,
    arrow_numbers as arrow_numbers,
    as_columns as as_columns,
    as_probabilities as as_probabilities,
    as_scores as as_scores,
    as_weight as as_weight,
    one_array as one_array,
    series_name as series_name,
)
