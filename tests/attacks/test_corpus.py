"""The corpus as a whole: every kind of attack that a reader of files must expect is in it."""

from __future__ import annotations

import pytest
import test_hostile_documents
import test_hostile_files
import test_hostile_pickles

#: Each kind of attack, and where it is.
KINDS = {
    "NaN": ("files", "nan"),
    "Infinity": ("files", "infinity"),
    "minus Infinity": ("files", "minus_infinity"),
    "1e999": ("files", "overflow"),
    "an integer of many digits": ("files", "huge_integer"),
    "duplicate keys": ("files", "key_twice"),
    "duplicate keys by escapes": ("files", "key_twice_by_escapes"),
    "another format": ("documents", "format_other"),
    "wrong kind": ("documents", "kind_unknown"),
    "wrong version": ("documents", "version_zero"),
    "version of another type": ("documents", "version_text"),
    "unknown field": ("documents", "extra"),
    "dunder field": ("documents", "extra_dunder"),
    "missing field": ("documents", "map_gone"),
    "unknown calibrator": ("documents", "method_unknown"),
    "settings out of range": ("documents", "param_out_of_range"),
    "a calibrator within itself": ("documents", "nested_itself"),
    "map of another calibrator": ("documents", "map_of_another_calibrator"),
    "unsorted knots": ("documents", "x_not_rising"),
    "knots of the two zeros": ("documents", "x_both_zeros"),
    "values above 1": ("documents", "y_above_one"),
    "values below 0": ("documents", "y_negative"),
    "lying lengths": ("documents", "x_short"),
    "text for a number": ("documents", "x_text"),
    "a boolean for a number": ("documents", "x_boolean"),
    "null for a number": ("documents", "x_null"),
    "ragged matrix": ("documents", "softmax_weight_ragged"),
    "unsorted classes": ("documents", "classes_unsorted"),
    "classes of mixed kinds": ("documents", "classes_mixed"),
    "maps within maps": ("documents", "maps_in_maps"),
    "blends within blends": ("documents", "blend_in_blend"),
    "a pair that divides by zero": ("documents", "venn_abers_divides_by_zero"),
    "slopes beyond float64": ("documents", "spline_too_steep"),
    "half a surrogate pair": ("documents", "half_a_surrogate_pair"),
    "deep nesting": ("sizes", "deep_lists"),
    "nesting without end": ("sizes", "deep_lists_without_end"),
    "too many values": ("sizes", "many_numbers"),
    "cut in a list": ("files", "cut_in_an_array"),
    "cut in a string": ("files", "cut_in_a_string"),
    "empty file": ("files", "empty"),
    "two documents": ("files", "two_documents"),
    "not UTF-8": ("files", "not_utf_8"),
    "UTF-16": ("files", "utf_16"),
    "overlong UTF-8": ("files", "overlong_utf_8"),
    "zip archive": ("others", "zip"),
    "joblib or zlib": ("others", "zlib"),
    "pickled global": ("pickles", "global"),
    "pickled reduce": ("pickles", "reduce_protocol_4"),
    "pickled global through the memo": ("pickles", "stack_global_through_the_memo"),
    "pickled instance": ("pickles", "inst"),
    "pickled extension code": ("pickles", "extension_code"),
    "pickled eval": ("pickles", "eval"),
    "pickled billion laughs": ("broken", "laughs"),
    "pickle cut short": ("broken", "cut"),
}
#: Attacks that need more than bytes have a test of their own.
SPECIAL = {
    "over the size cap": "test_file_beyond_the_size_limit_is_refused",
    "folder": "test_folder_is_refused",
    "named pipe": "test_named_pipe_is_refused_without_waiting",
    "link to a named pipe": "test_link_to_a_named_pipe_is_refused_without_waiting",
    "device": "test_device_is_refused",
    "socket": "test_socket_is_refused",
}
CORPUS = {
    "documents": test_hostile_documents.CASES,
    "files": test_hostile_files.TEXTS,
    "sizes": test_hostile_files.SIZES,
    "others": test_hostile_files.OTHERS,
    "pickles": test_hostile_pickles.RUNNING,
    "broken": test_hostile_pickles.BROKEN,
    "wrong": test_hostile_pickles.WRONG,
    "instructions": test_hostile_pickles.INSTRUCTIONS,
}


@pytest.mark.parametrize(("place", "name"), KINDS.values(), ids=KINDS)
def test_kind_of_attack_is_in_the_corpus(place: str, name: str) -> None:
    assert name in CORPUS[place]


@pytest.mark.parametrize("name", SPECIAL.values(), ids=SPECIAL)
def test_special_file_has_a_test(name: str) -> None:
    assert callable(getattr(test_hostile_files, name))


def test_corpus_is_large() -> None:
    n_attacks = sum(map(len, CORPUS.values())) + len(SPECIAL)
    print(f"{len(KINDS) + len(SPECIAL)} named kinds, {n_attacks} hostile files")
    assert len(KINDS) + len(SPECIAL) >= 60
    assert n_attacks >= 200
