"""The gate: any container to float64 arrays and back, with every refusal said once and precisely.

Each public function passes its arguments through here; everything below trusts what it is given.
"""

from calibrant.validation.arguments import (
    as_generator,
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_number,
    check_same_length,
)
from calibrant.validation.groups import as_groups, match_groups
from calibrant.validation.labels import (
    Labels,
    as_indicators,
    as_labels,
    check_both_classes,
    check_one_column,
    label_values,
)
from calibrant.validation.scores import (
    INPUT_KINDS,
    ArrayLike,
    Container,
    InputKind,
    Scores,
    as_columns,
    as_probabilities,
    as_scores,
    as_weight,
)

__all__ = [
    "INPUT_KINDS",
    "ArrayLike",
    "Container",
    "InputKind",
    "Labels",
    "Scores",
    "as_columns",
    "as_generator",
    "as_groups",
    "as_indicators",
    "as_labels",
    "as_probabilities",
    "as_scores",
    "as_weight",
    "check_both_classes",
    "check_choice",
    "check_flag",
    "check_fraction",
    "check_integer",
    "check_number",
    "check_one_column",
    "check_same_length",
    "label_values",
    "match_groups",
]
