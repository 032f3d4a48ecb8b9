"""Changes of documents of trees, each with what its refusal says."""

from __future__ import annotations

from typing import Any

from valid_documents import CHAIN, GONE, SEGMENTS, body_of, changed

THREE_COLUMNS = SEGMENTS["trees"] | {"n_columns": 4}
#: Each node the left child of the one before it, 66 deep.
_DEEP = 66
LADDER = SEGMENTS["trees"] | {
    "roots": [0],
    "outputs": [0],
    "columns": [0] * _DEEP + [-1] * (_DEEP + 1),
    "values": [0.0] * (2 * _DEEP + 1),
    "left": [*range(1, _DEEP + 1), *[-1] * (_DEEP + 1)],
    "right": [*range(_DEEP + 1, 2 * _DEEP + 1), *[-1] * (_DEEP + 1)],
    "missing_left": [0] * (2 * _DEEP + 1),
    "set_sizes": [0] * (2 * _DEEP + 1),
    "set_codes": [],
}
#: As in `hostile_cases`.
TREE_CASES: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    # nodes
    "tree_cycle": (SEGMENTS, "trees.left.2", 0, "trees.left.* has a child that does not come after its parent"),
    "tree_own_child": (SEGMENTS, "trees.left.0", 0, "trees.left.* has a child that does not come after its parent"),
    "tree_cycle_right": (SEGMENTS, "trees.right.5", 5, "trees.right.* has a child that does not come after its parent"),
    "tree_child_beyond": (SEGMENTS, "trees.right.2", 8, r"trees.right\[2\]: 8 is outside \[-1, 7\]"),
    "tree_child_huge": (SEGMENTS, "trees.left.0", 2**62, r"trees.left\[0\]: \d+ is outside \[-1, 7\]"),
    "tree_child_before": (SEGMENTS, "trees.left.0", -2, r"trees.left\[0\]: -2 is outside \[-1, 7\]"),
    "tree_child_gone": (SEGMENTS, "trees.left.0", -1, "trees.left.* has a child that does not come after its parent"),
    "tree_child_float": (SEGMENTS, "trees.left.0", 1.0, r"trees.left\[0\]: 1.0 is not a whole number"),
    "tree_two_parents": (SEGMENTS, "trees.right.0", 3, "trees.left.* reached in two ways, or in none"),
    "tree_leaf_with_child": (SEGMENTS, "trees.left.1", 2, "trees.left.* gives a leaf a child"),
    "tree_root_twice": (SEGMENTS, "trees.roots", [0, 0], "trees.left.* reached in two ways, or in none"),
    "tree_root_beyond": (SEGMENTS, "trees.roots.1", 8, r"trees.roots\[1\]: 8 is outside \[0, 7\]"),
    "tree_root_within": (SEGMENTS, "trees.roots.1", 2, "trees.left.* reached in two ways, or in none"),
    "tree_roots_none": (SEGMENTS, "trees.roots", [], "trees.roots: an empty list is too short"),
    "tree_deep": (SEGMENTS, "trees", LADDER, "trees.left.* makes trees deeper than 64"),
    "tree_inner_as_leaf": (SEGMENTS, "trees.columns.0", -1, "trees.left.* gives a leaf a child"),
    # values and columns
    "tree_threshold_null": (SEGMENTS, "trees.values.0", None, r"trees.values\[0\]: null is not a number"),
    "tree_threshold_text": (SEGMENTS, "trees.values.0", "40", r"trees.values\[0\]: '40' is not a number"),
    "tree_threshold_huge": (SEGMENTS, "trees.values.0", 10**400, r"trees.values\[0\]"),
    "tree_leaf_huge": (SEGMENTS, "trees.values.1", 1.7e308, "trees.values.* has leaves whose sum float64 can't hold"),
    "tree_values_short": (SEGMENTS, "trees.values", [0.0], r"trees.roots\[1\]: 5 is outside \[0, 0\]"),
    "tree_values_none": (SEGMENTS, "trees.values", [], "trees.values: an empty list is too short"),
    "tree_column_beyond": (SEGMENTS, "trees.columns.0", 3, r"trees.columns\[0\]: 3 is outside \[-1, 2\]"),
    "tree_columns_short": (SEGMENTS, "trees.columns", [-1], "trees.columns.* does not go with 8 nodes"),
    "tree_missing_two": (SEGMENTS, "trees.missing_left.0", 2, r"trees.missing_left\[0\]: 2 is outside \[0, 1\]"),
    "tree_missing_true": (SEGMENTS, "trees.missing_left.0", True, r"trees.missing_left\[0\]: true is not a whole"),
    "tree_output_beyond": (SEGMENTS, "trees.outputs.0", 1, r"trees.outputs\[0\]: 1 is outside \[0, 0\]"),
    "tree_outputs_short": (SEGMENTS, "trees.outputs", [0], "trees.outputs.* does not go with 2 trees"),
    "tree_extra": (SEGMENTS, "trees.gain", [1.0], "trees: unknown field 'gain'"),
    "tree_field_gone": (SEGMENTS, "trees.set_codes", GONE, "trees: the field 'set_codes' is missing"),
    "tree_kind_other": (SEGMENTS, "trees", SEGMENTS["map"], "trees.*kind: 'interpolated'"),
    # sets
    "segments_set_on_a_number": (SEGMENTS, "trees.columns.2", 1, "trees.set_sizes.* cuts a column of numbers by a set"),
    "segments_set_on_a_score": (SEGMENTS, "trees.columns.2", 0, "trees.set_sizes.* cuts a column of numbers by a set"),
    "segments_set_gone": (
        SEGMENTS,
        "trees",
        SEGMENTS["trees"] | {"set_sizes": [0] * 8, "set_codes": []},
        "trees.set_sizes.* cuts a category without a set of levels",
    ),
    "segments_set_short": (SEGMENTS, "trees.set_codes", [], "trees.set_sizes.* does not go with set_codes"),
    "segments_set_long": (SEGMENTS, "trees.set_sizes.2", 2, "trees.set_sizes.* does not go with set_codes"),
    "segments_set_of_a_leaf": (
        SEGMENTS,
        "trees.set_sizes",
        [0, 1, 0, 0, 0, 0, 0, 0],
        "trees.set_sizes.* does not go with",
    ),
    "segments_set_code_beyond": (
        SEGMENTS,
        "trees.set_codes.0",
        256,
        r"trees.set_codes\[0\]: 256 is outside \[0, 255\]",
    ),
    "segments_set_code_negative": (
        SEGMENTS,
        "trees.set_codes.0",
        -1,
        r"trees.set_codes\[0\]: -1 is outside \[0, 255\]",
    ),
    "segments_set_twice": (
        SEGMENTS,
        "trees",
        SEGMENTS["trees"] | {"set_sizes": [0, 0, 2, 0, 0, 0, 0, 0], "set_codes": [1, 1]},
        "trees.set_codes.* holds a set whose codes don't rise",
    ),
    # what goes together
    "trees_of_more_columns": (SEGMENTS, "trees", THREE_COLUMNS, "trees.* does not go with 2 features and 1 margins"),
    "trees_of_two_outputs": (SEGMENTS, "trees.n_outputs", 2, "trees.* does not go with 2 features and 1 margins"),
    "trees_columns_zero": (SEGMENTS, "trees.n_columns", 0, r"trees.n_columns: 0 is outside \[1, "),
    "trees_columns_many": (SEGMENTS, "trees.n_columns", 10**9, r"trees.n_columns: 1000000000 is outside \[1, "),
    "segments_column_twice": (SEGMENTS, "columns.1.name", "age", "columns.* names a column twice"),
    "segments_column_number": (SEGMENTS, "columns.0.name", 1, r"columns\[0\].name: 1 is not text"),
    "segments_levels_mixed": (SEGMENTS, "columns.1.levels", ["Bonn", 1], r"columns\[1\].levels"),
    "segments_levels_falling": (SEGMENTS, "columns.1.levels", ["Rome", "Bonn"], r"columns\[1\].levels"),
    "segments_levels_many": (
        SEGMENTS,
        "columns.1.levels",
        list(range(255)),
        r"columns\[1\].levels.* more than 254 levels",
    ),
    "segments_map_of_classes": (SEGMENTS, "classes", ["a", "b", "c"], "map|score_names"),
    "segments_share_above_one": (SEGMENTS, "report.share", 1.5, "report.share: .* outside \\[0, 1\\]"),
    "segments_share_text": (SEGMENTS, "report.share", "1", "report.share: '1' is not a number"),
    "segments_target_unknown": (SEGMENTS, "settings.target", "mean", "settings.target: 'mean' is none of"),
    "segments_folds_one": (SEGMENTS, "settings.cv", 1, "settings.cv: 1 is outside|settings"),
    "segments_categorical_text": (
        SEGMENTS,
        "settings.categorical",
        "city",
        "settings.categorical: 'city' is not a list",
    ),
    "segments_in_chain": (
        CHAIN | {"steps": [body_of(SEGMENTS), *CHAIN["steps"][1:]]},
        "steps.0.trees.left.2",
        0,
        r"steps\[0\].trees.left.* has a child that does not come after its parent",
    ),
}
#: A forest of a million nodes: single leaves.
MILLION = changed(SEGMENTS, "trees.n_columns", 3)
_N = 1_000_000
MILLION["trees"] |= {
    "roots": list(range(_N)),
    "outputs": [0] * _N,
    "columns": [-1] * _N,
    "values": [0.0] * _N,
    "left": [-1] * _N,
    "right": [-1] * _N,
    "missing_left": [0] * _N,
    "set_sizes": [0] * _N,
    "set_codes": [],
}
