"""Documents that were broken, changed or made up: each is refused by the field, the value and a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from valid_documents import (
    BETA,
    BINARY,
    BLEND,
    COLUMN,
    COLUMNS,
    COUPLED,
    GONE,
    LOGISTIC,
    MULTILABEL,
    NESTED,
    QUADRATIC,
    SOFTMAX,
    SPLINE,
    STEP,
    TOP_LABEL,
    VALID,
    VENN_ABERS,
    changed,
)

from calibrant.errors import DocumentError
from calibrant.persistence import from_document, load, read_document


@pytest.mark.parametrize("document", VALID.values(), ids=VALID)
def test_documents_that_the_attacks_change_are_valid(document: dict[str, Any]) -> None:
    assert from_document(document).n_rows_ == 4


CASES: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    # the header
    "format_gone": (BINARY, "format", GONE, "this is not a calibrant document: it has no field 'format'"),
    "format_other": (BINARY, "format", "xgboost", "this is not a calibrant document: its format is 'xgboost'"),
    "format_list": (BINARY, "format", ["calibrant"], "this is not a calibrant document: its format is a list of 1"),
    "version_gone": (BINARY, "version", GONE, r"the field 'version' is missing"),
    "version_text": (BINARY, "version", "1", "version: '1' is not a whole number"),
    "version_boolean": (BINARY, "version", True, "version: true is not a whole number"),
    "version_float": (BINARY, "version", 1.0, "version: 1.0 is not a whole number"),
    "version_zero": (BINARY, "version", 0, r"version: 0 is outside \[1, "),
    "kind_unknown": (BINARY, "kind", "calibrater", r"kind: 'calibrater' is none of .* Did you mean 'calibrator'\?"),
    "kind_list": (BINARY, "kind", [], "kind: an empty list is not text"),
    "kind_gone": (BINARY, "kind", GONE, "the field 'kind' is missing"),
    "release_number": (BINARY, "calibrant", 1, "calibrant: 1 is not text"),
    "metadata_list": (COLUMNS, "metadata", [1], "metadata: a list of 1 is not an object"),
    "metadata_null": (COLUMNS, "metadata", None, "metadata: null is not an object"),
    # fields missing and added
    "name_gone": (BINARY, "name", GONE, "the document: the field 'name' is missing"),
    "map_gone": (BINARY, "map", GONE, "the document: the field 'map' is missing"),
    "n_rows_gone": (BINARY, "n_rows", GONE, "the document: the field 'n_rows' is missing"),
    "score_names_gone": (BINARY, "score_names", GONE, "the document: the field 'score_names' is missing"),
    "extra": (BINARY, "clases", [0, 1], r"the document: unknown field 'clases'\. Did you mean 'classes'\? Remove it"),
    "extra_dunder": (BINARY, "__class__", "os.system", "the document: unknown field '__class__'"),
    "extra_in_map": (BINARY, "map.z", [], r"map: unknown field 'z'"),
    "extra_in_column": (COLUMNS, "map.maps.1.apply", "x", r"map.maps\[1\]: unknown field 'apply'"),
    "extra_param": (BINARY, "params.out_of_bounds", "clip", "params: unknown field 'out_of_bounds'"),
    # the calibrator
    "name_unknown": (BINARY, "name", "isotonik", r"name: 'isotonik' is none of .*Did you mean 'isotonic'\?"),
    "name_dunder": (BINARY, "name", "__init__", "name: '__init__' is none of"),
    "name_object": (BINARY, "name", {}, "name: an empty object is not text"),
    "params_list": (BINARY, "params", [], "params: an empty list is not an object"),
    "param_gone": (BINARY, "params.input", GONE, "params: the field 'input' is missing"),
    "param_of_another": (BETA, "params", {"input": "probability"}, "params: the field 'form' is missing"),
    "param_number_for_boolean": (BINARY, "params.bounded", 1, "params.bounded: 1 is not true or false"),
    "param_boolean_for_number": (STEP, "params.n_bins", True, "params.n_bins: true is not a whole number"),
    "param_out_of_range": (STEP, "params.n_bins", 0, "params: n_bins=0 is too small"),
    "param_unknown_choice": (STEP, "params.strategy", "kmeans", "params: unknown value of strategy: 'kmeans'"),
    "param_input": (BINARY, "params.input", "logits", r"params.input: 'logits' is none of .* Did you mean 'logit'\?"),
    "nested_unknown": (NESTED, "params.calibrator", "temperature", "params.calibrator: 'temperature' is none of"),
    "nested_itself": (
        NESTED,
        "params.calibrator",
        {"name": "one_vs_rest", "params": {"calibrator": "isotonic"}},
        "params.calibrator.name: 'one_vs_rest' is none of",
    ),
    "nested_params": (NESTED, "params.calibrator.params.n_bins", -3, "params.calibrator.params: n_bins=-3 is too"),
    "nested_extra": (NESTED, "params.calibrator.map", {}, "params.calibrator: unknown field 'map'"),
    "n_rows_negative": (BINARY, "n_rows", -1, r"n_rows: -1 is outside \[0, "),
    "n_rows_float": (BINARY, "n_rows", 4.0, "n_rows: 4.0 is not a whole number"),
    "n_rows_boolean": (BINARY, "n_rows", True, "n_rows: true is not a whole number"),
    "score_names_number": (COLUMNS, "score_names.1", 7, r"score_names\[1\]: 7 is not text"),
    "score_names_short": (COLUMNS, "score_names", ["p0", "p1"], "score_names: a list of 2 does not go with 3 classes"),
    "score_names_empty": (BINARY, "score_names", [], "score_names: an empty list is too short"),
    # the classes
    "classes_unsorted": (BINARY, "classes", [1, 0], r"classes\[1\]: 0 is not above the class before it"),
    "classes_twice": (COLUMNS, "classes.2", "b", r"classes\[2\]: 'b' is not above the class before it"),
    "classes_mixed": (
        COLUMNS,
        "classes.2",
        3,
        r"classes\[2\]: 3 is of another kind than classes\[0\]: all must be text",
    ),
    "classes_boolean_among_integers": (BINARY, "classes", [0, True], r"classes\[1\]: true is of another kind"),
    "classes_floats": (BINARY, "classes", [0.0, 1.0], r"classes\[0\]: 0.0 is not a class label"),
    "classes_null": (BINARY, "classes", [None, 1], r"classes\[0\]: null is not a class label"),
    "classes_one": (BINARY, "classes", [1], "classes: a list of 1 is too short: it needs at least 2"),
    "classes_three_for_a_binary_map": (
        BINARY,
        "classes",
        [0, 1, 2],
        r"map.kind: 'interpolated' is a kind of map that IsotonicCalibrator\(\) doesn't produce for 3 classes",
    ),
    "classes_beyond_both_kinds_of_64_bits": (BINARY, "classes", [-1, 2**64 - 1], r"classes\[0\]: -1 is outside \[0, "),
    "classes_four_for_three_maps": (
        changed(COLUMNS, "score_names", None),
        "classes",
        ["a", "b", "c", "d"],
        "map.maps: a list of 3 does not go with 4 classes: one map per class",
    ),
    # the map
    "map_list": (BINARY, "map", [], "map: an empty list is not an object"),
    "map_kind_unknown": (BINARY, "map.kind", "spline", "map.kind: 'spline' is none of"),
    "map_kind_of_other_fields": (BINARY, "map.kind", "step", "map: the field 'edges' is missing"),
    "map_of_another_calibrator": (
        SOFTMAX,
        "map",
        COLUMNS["map"],
        r"map.kind: 'one_vs_rest' is a kind of map that TemperatureCalibrator\(\) doesn't produce",
    ),
    "step_of_a_temperature": (
        changed(BINARY, "name", "temperature") | {"params": {"input": "logit"}},
        "map",
        STEP["map"],
        r"map.kind: 'step' is a kind of map that TemperatureCalibrator\(input='logit'\) doesn't produce for 2 classes",
    ),
    "softmax_of_an_isotonic": (COLUMNS, "map", SOFTMAX["map"], "map.kind: 'softmax' is a kind of map that Isotonic"),
    "columns_of_a_binary_calibrator": (
        changed(BINARY, "map", {"kind": "one_vs_rest", "maps": [COLUMN, COLUMN], "is_logit": False}),
        "n_rows",
        4,
        r"map.kind: 'one_vs_rest' is a kind of map that IsotonicCalibrator\(\) doesn't produce for 2 classes",
    ),
    "logistic_of_probabilities": (LOGISTIC, "params.input", "probability", "map.kind: 'logistic' is a kind of map"),
    "x_short": (BINARY, "map.x", [0.1, 0.4], "map.y: a list of 4 does not go with map.x of 2"),
    "x_empty": (BINARY, "map.x", [], "map.x: an empty list is too short: it needs at least 1"),
    "y_empty": (BINARY, "map.y", [], "map.y: an empty list is too short"),
    "x_text": (BINARY, "map.x.2", "0.6", r"map.x\[2\]: '0.6' is not a number"),
    "x_boolean": (BINARY, "map.x.0", False, r"map.x\[0\]: false is not a number"),
    "x_null": (BINARY, "map.x.0", None, r"map.x\[0\]: null is not a number"),
    "x_lists": (BINARY, "map.x", [[0.1], [0.2]], r"map.x\[0\]: a list of 1 is not a number"),
    "x_object": (BINARY, "map.x", {"0": 0.1}, "map.x: an object of 1 is not a list"),
    "x_whole_number_too_large": (BINARY, "map.x.3", 2**53 + 1, r"map.x\[3\]: 9007199254740993 is a whole number that"),
    "x_not_rising": (BINARY, "map.x.2", 0.4, r"map.x\[2\]: 0.4 is not above map.x\[1\] = 0.4"),
    "x_both_zeros": (BINARY, "map.x", [-0.0, 0.0, 0.6, 0.9], r"map.x\[1\]: 0.0 is not above map.x\[0\] = -0.0"),
    "x_falling_in_a_column": (
        COLUMNS,
        "map.maps.2.x",
        [0.9, 0.1],
        r"map.maps\[2\].x\[1\]: 0.1 is not above map.maps\[2\].x\[0\] = 0.9",
    ),
    "y_above_one": (BINARY, "map.y.3", 1.0000000000000002, r"map.y\[3\]: 1.0000000000000002 is outside \[0, 1\]"),
    "y_negative": (BINARY, "map.y.0", -5e-324, r"map.y\[0\]: -5e-324 is outside \[0, 1\]"),
    "y_in_a_column": (COLUMNS, "map.maps.1.y.0", -0.5, r"map.maps\[1\].y\[0\]: -0.5 is outside \[0, 1\]"),
    "edges_not_rising": (
        STEP,
        "map",
        {"kind": "step", "edges": [0.5, 0.5], "levels": [0, 1, 1]},
        r"map.edges\[1\]: 0.5",
    ),
    "levels_too_many": (STEP, "map.levels", [0.1, 0.2, 0.3], "map.levels: a list of 3 does not go with 1 edges"),
    "levels_empty": (STEP, "map.levels", [], "map.levels: an empty list is too short"),
    "levels_above_one": (STEP, "map.levels.1", 75, r"map.levels\[1\]: 75 is outside \[0, 1\]"),
    "clip_zero": (BETA, "map.clip", 0.0, r"map.clip: 0.0 is outside \(0, 0.5\)"),
    "clip_half": (BETA, "map.clip", 0.5, r"map.clip: 0.5 is outside \(0, 0.5\)"),
    "clip_null": (BETA, "map.clip", None, "map.clip: null is not a number"),
    "slope_list": (LOGISTIC, "map.slope", [2.0], "map.slope: a list of 1 is not a number"),
    "softmax_clip_null": (SOFTMAX, "map.clip", None, "map.clip: null does not go with input 'probability'"),
    "softmax_clip_of_logits": (SOFTMAX, "params.input", "logit", "map.clip: 0.001 does not go with input 'logit'"),
    "softmax_clip_large": (SOFTMAX, "map.clip", 0.9, r"map.clip: 0.9 is outside \(0, 0.5\)"),
    "softmax_bias_short": (SOFTMAX, "map.bias", [0.0, 0.0], "map.bias: a list of 2 does not go with 3 classes"),
    "softmax_weight_vector": (SOFTMAX, "map.weight", [1.0, 1.0, 1.0], "map.weight: a list of 3 is not one number"),
    "softmax_weight_short": (SOFTMAX, "map.weight", [1.0], "map.weight: a list of 1 does not go with a bias of 3"),
    "softmax_weight_ragged": (
        SOFTMAX,
        "map.weight",
        [[1.0, 0.0, 0.0], [0.0, 1.0], [0.0, 0.0, 1.0]],
        r"map.weight\[1\]: a list of 2 does not go with 3 classes",
    ),
    "maps_of_one": (COLUMNS, "map.maps", [COLUMN], "map.maps: a list of 1 is too short: it needs at least 2"),
    "maps_too_many": (COLUMNS, "map.maps", [COLUMN] * 4, "map.maps: a list of 4 does not go with 3 classes"),
    "maps_in_maps": (COLUMNS, "map.maps.0", COLUMNS["map"], r"map.maps\[0\].kind: 'one_vs_rest' is none of 'logistic'"),
    "maps_of_another_calibrator": (
        COLUMNS,
        "map.maps.1",
        STEP["map"],
        r"map.maps\[1\].kind: 'step' is a kind of map that IsotonicCalibrator\(\) doesn't produce for one class",
    ),
    "column_that_only_looks_like_the_identity": (NESTED, "map.maps.1", COLUMN, r"map.maps\[1\].kind: 'interpolated'"),
    "is_logit_number": (COLUMNS, "map.is_logit", 0, "map.is_logit: 0 is not true or false"),
    "is_logit_of_probabilities": (COLUMNS, "map.is_logit", True, "map.is_logit: true does not go with input 'probab"),
    # the maps on the logit, Venn-Abers pairs and blends
    "spline_x_not_rising": (SPLINE, "map.x.1", -2.0, r"map.x\[1\]: -2.0 is not above map.x\[0\] = -2.0"),
    "spline_x_text": (SPLINE, "map.x.0", "-2", r"map.x\[0\]: '-2' is not a number"),
    "spline_x_short": (SPLINE, "map.x", [0.0], "map.y: a list of 3 does not go with map.x of 1: one value per knot"),
    "spline_y_falls": (SPLINE, "map.y.1", -3.0, "map.y: a list of 3 falls somewhere, but these must not"),
    "spline_y_empty": (SPLINE, "map.y", [], "map.y: an empty list is too short"),
    "spline_too_steep": (
        SPLINE,
        "map",
        SPLINE["map"] | {"x": [0.0, 5e-324, 1.0], "y": [0.0, 1e308, 1e308]},
        r"map.y: a list of 3 rises from map.x\[0\] to the next by more than float64 can hold",
    ),
    "spline_too_wide": (
        SPLINE,
        "map",
        SPLINE["map"] | {"x": [-1e308, 1e308], "y": [0.0, 1.0]},
        r"map.y: a list of 2 rises from map.x\[0\] to the next by more than float64 can hold",
    ),
    "spline_clip_zero": (SPLINE, "map.clip", 0.0, r"map.clip: 0.0 is outside \(0, 0.5\)"),
    "spline_clip_gone": (SPLINE, "map.clip", GONE, "map: the field 'clip' is missing"),
    "spline_clip_null": (SPLINE, "map.clip", None, "map.clip: null does not go with input 'probability'"),
    "spline_clip_of_logits": (SPLINE, "params.input", "logit", "map.clip: 0.01 does not go with input 'logit'"),
    "quadratic_ends_crossed": (QUADRATIC, "map.low", 3.0, "map.high: 2.0 is below the lower end of the range"),
    "quadratic_falls": (QUADRATIC, "map.b", -1.0, r"map.b: -1.0 makes the parabola fall within \[low, high\]"),
    "quadratic_end_gone": (QUADRATIC, "map.low", GONE, "map: the field 'low' is missing"),
    "quadratic_list": (QUADRATIC, "map.a", [1.0], "map.a: a list of 1 is not a number"),
    "quadratic_clip_null": (QUADRATIC, "map.clip", None, "map.clip: null does not go with input 'probability'"),
    "venn_abers_edges_not_rising": (VENN_ABERS, "map.edges0", [0.5, 0.5], r"map.edges0\[1\]: 0.5 is not above"),
    "venn_abers_levels_fall": (VENN_ABERS, "map.levels0", [0.6, 0.1], "map.levels0: a list of 2 falls somewhere"),
    "venn_abers_levels_many": (VENN_ABERS, "map.levels1", [0.3, 0.9, 0.95], "map.levels1: a list of 3 does not go"),
    "venn_abers_level_above_one": (VENN_ABERS, "map.levels1.1", 1.5, r"map.levels1\[1\]: 1.5 is outside \[0, 1\]"),
    "venn_abers_crossed": (VENN_ABERS, "map.levels1", [0.0, 0.9], r"map.levels0: .* p0 must not be above p1"),
    "venn_abers_divides_by_zero": (
        VENN_ABERS,
        "map",
        {"kind": "venn_abers", "edges0": [], "levels0": [1.0], "edges1": [], "levels1": [0.0]},
        "map.levels0: a list of 1 holds p0 = 1.0 for scores where p1 = 0.0, but p0 must not be above p1",
    ),
    "venn_abers_edges_gone": (VENN_ABERS, "map.edges1", GONE, "map: the field 'edges1' is missing"),
    "blend_in_blend": (BLEND, "map.maps.0", BLEND["map"], r"map.maps\[0\].kind: 'blend' is none of 'logistic'"),
    "blend_of_columns": (BLEND, "map.maps.0", COLUMNS["map"], r"map.maps\[0\].kind: 'one_vs_rest' is none of"),
    "blend_of_nothing": (BLEND, "map.maps", [], "map.maps: an empty list is too short"),
    "blend_part_broken": (BLEND, "map.maps.1.levels0.0", -0.1, r"map.maps\[1\].levels0\[0\]: -0.1 is outside \[0, 1\]"),
    "blend_part_extra": (BLEND, "map.maps.0.d", 1.0, r"map.maps\[0\]: unknown field 'd'"),
    "blend_weights_short": (BLEND, "map.weights", [1.0], "map.weights: a list of 1 does not go with 2 maps"),
    "blend_weight_text": (BLEND, "map.weights.0", "1", r"map.weights\[0\]: '1' is not a number"),
    "blend_weight_negative": (BLEND, "map.weights.0", -0.5, r"map.weights\[0\]: -0.5 is outside \[0, 1\]"),
    "blend_weight_huge": (BLEND, "map.weights.1", 1e308, r"map.weights\[1\]: 1e\+308 is outside \[0, 1\]"),
    "blend_clip_zero": (BLEND, "map.clip", 0.0, r"map.clip: 0.0 is outside \(0, 0.5\)"),
    "blend_of_an_isotonic": (BINARY, "map", BLEND["map"], r"map.kind: 'blend' is a kind of map that Isotonic"),
    "blend_part_without_a_clip": (
        BLEND,
        "map.maps.1",
        SPLINE["map"] | {"clip": None},
        r"map.maps\[1\].clip: null does not go with input 'probability'",
    ),
    # couplings, top labels and several labels
    "coupling_unknown": (COUPLED, "map.coupling", "likely", r"map.coupling: 'likely' is none of 'normalise', 'likel"),
    "coupling_null": (COUPLED, "map.coupling", None, "map.coupling: null is not text"),
    "coupling_param_unknown": (COUPLED, "params.coupling", "likely", "params: unknown value of coupling: 'likely'"),
    "coupling_param_null": (COUPLED, "params.coupling", None, "params.coupling: null is not text"),
    "coupling_of_another": (
        COUPLED,
        "map.coupling",
        "normalise",
        r"map.coupling: 'normalise' does not go with OneVsRestCalibrator\('isotonic', coupling='likelihood'\)",
    ),
    "coupling_only_in_the_params": (COUPLED, "map", COLUMNS["map"], "map: an object of 3 does not go with OneVsRest"),
    "coupling_only_in_the_map": (
        COUPLED,
        "params",
        {"calibrator": "isotonic"},
        r"map.coupling: 'likelihood' does not go with OneVsRestCalibrator\('isotonic'\), which couples rows by 'norm",
    ),
    "coupling_of_an_isotonic": (
        COLUMNS,
        "map.coupling",
        "likelihood",
        r"map.coupling: 'likelihood' does not go with IsotonicCalibrator\(\)",
    ),
    "coupling_of_a_binary_map": (BINARY, "map.coupling", "likelihood", "map: unknown field 'coupling'"),
    "top_label_classes_text": (TOP_LABEL, "map.n_classes", "3", "map.n_classes: '3' is not a whole number"),
    "top_label_classes_two": (TOP_LABEL, "map.n_classes", 2, r"map.n_classes: 2 is outside \[3, "),
    "top_label_classes_other": (
        changed(TOP_LABEL, "map.maps", [COLUMN]),
        "map.n_classes",
        4,
        "map.n_classes: 4 does not go with the 3 classes of the document",
    ),
    "top_label_classes_gone": (TOP_LABEL, "map.n_classes", GONE, "map: the field 'n_classes' is missing"),
    "top_label_maps_two": (TOP_LABEL, "map.maps", [COLUMN] * 2, "map.maps: a list of 2 does not go with 3 classes"),
    "top_label_maps_none": (TOP_LABEL, "map.maps", [], "map.maps: an empty list is too short"),
    "top_label_maps_several_for_one": (TOP_LABEL, "params.per_class", False, "map.maps: a list of 3 does not go with"),
    "top_label_param_number": (TOP_LABEL, "params.per_class", 1, "params.per_class: 1 is not true or false"),
    "top_label_map_of_another": (TOP_LABEL, "map.maps.1", STEP["map"], r"map.maps\[1\].kind: 'step' is a kind of map"),
    "top_label_in_top_label": (
        TOP_LABEL,
        "map.maps.1",
        TOP_LABEL["map"],
        r"map.maps\[1\].kind: 'top_label' is none of",
    ),
    "top_label_logit": (TOP_LABEL, "map.is_logit", True, "map.is_logit: true does not go with input 'probability'"),
    "top_label_of_raw_scores": (
        TOP_LABEL,
        "params.calibrator",
        {"name": "isotonic", "params": {"bounded": False, "input": "score"}},
        "map: an object of 4 takes probabilities or logits, not raw scores",
    ),
    "top_label_of_an_isotonic": (
        COLUMNS,
        "map",
        TOP_LABEL["map"],
        "map.kind: 'top_label' is a kind of map that Isoton",
    ),
    "top_label_with_columns": (TOP_LABEL, "map", COLUMNS["map"], "map.kind: 'one_vs_rest' is a kind of map that TopLa"),
    "top_label_with_softmax": (TOP_LABEL, "map", SOFTMAX["map"], "map.kind: 'softmax' is a kind of map that TopLabel"),
    "multilabel_calibrator_unknown": (MULTILABEL, "calibrator", "temperature", "calibrator: 'temperature' is none of"),
    "multilabel_labels_twice": (MULTILABEL, "labels.1", "a", r"labels\[1\]: 'a' is there twice"),
    "multilabel_labels_number": (MULTILABEL, "labels.1", 1, r"labels\[1\]: 1 is not text"),
    "multilabel_labels_one": (MULTILABEL, "labels", ["a"], "labels: a list of 1 is too short: it needs at least 2"),
    "multilabel_names_short": (
        changed(MULTILABEL, "labels", ["a", "b", "c"]) | {"maps": [STEP["map"]] * 3},
        "score_names",
        ["p0", "p1"],
        "score_names: a list of 2 does not go with 3 labels",
    ),
    "multilabel_maps_short": (
        changed(MULTILABEL, "score_names", None),
        "labels",
        ["a", "b", "c"],
        "maps: a list of 2 does not go with 3 labels: one map per label is needed",
    ),
    "multilabel_map_of_another": (
        MULTILABEL,
        "maps.1.y",
        [0.0, 0.9],
        r"maps\[1\].kind: 'interpolated' is a kind of map that HistogramCalibrator\(\) doesn't produce",
    ),
    "multilabel_map_of_columns": (
        MULTILABEL,
        "maps.1",
        COLUMNS["map"],
        r"maps\[1\].kind: 'one_vs_rest' is a kind of map",
    ),
    "multilabel_rows_negative": (MULTILABEL, "n_rows", -1, r"n_rows: -1 is outside \[0, "),
    "multilabel_extra": (MULTILABEL, "params", {}, "the document: unknown field 'params'"),
    # plain data
    "half_a_surrogate_pair": (BINARY, "score_names", ["a", "\ud800"], r"score_names\[1\]: .* half a surrogate pair"),
    "whole_number_of_65_bits": (COLUMNS, "metadata.n", 2**64, "metadata.n: 18446744073709551616 needs more than 64 b"),
}


@pytest.mark.parametrize(("document", "path", "value", "message"), CASES.values(), ids=CASES)
def test_changed_document_is_refused_by_field_value_and_fix(
    tmp_path: Path, document: dict[str, Any], path: str, value: Any, message: str
) -> None:
    attack = changed(document, path, value)
    file = tmp_path / "c.json"
    file.write_text(json.dumps(attack), "utf-8")
    for read in (load, read_document):
        with pytest.raises(DocumentError, match=message) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file}: ")
        assert str(caught.value).endswith((".", "?"))
    with pytest.raises(DocumentError, match=message):
        from_document(attack)
