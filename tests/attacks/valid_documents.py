"""Documents of every kind that are right, for attacks to change."""

from __future__ import annotations

import json
from typing import Any

HEADER = {"format": "calibrant", "version": 2, "calibrant": "0.1.0"}


def calibrator(method: str, settings: dict[str, Any], fitted: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the document of a calibrator of two classes, or of what `changes` say."""
    body = {"method": method, "settings": settings, "classes": [0, 1], "n_rows": 4, "score_names": None, "map": fitted}
    return HEADER | {"kind": "calibrator"} | body | changes


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without its header."""
    return {key: value for key, value in document.items() if key not in (*HEADER, "metadata", "provenance")}


PROBABILITY = {"input": "probability"}
ISOTONIC = {"bounded": False, "input": "probability"}
THREE = {"classes": ["a", "b", "c"], "score_names": ["p0", "p1", "p2"]}
COLUMN = {"kind": "interpolated", "x": [0.1, 0.9], "y": [0.0, 1.0]}
ONE_VS_REST = {"kind": "one_vs_rest", "maps": [COLUMN, COLUMN, COLUMN], "is_logit": False, "coupling": "normalise"}

BINARY = calibrator("isotonic", ISOTONIC, {"kind": "interpolated", "x": [0.1, 0.4, 0.6, 0.9], "y": [0.0, 0.5, 0.5, 1]})
COLUMNS = calibrator(
    "isotonic", ISOTONIC, ONE_VS_REST, **THREE, metadata={"score": ["p0", "p1", "p2"], "label": "y", "rows": 1.5}
)
SOFTMAX = calibrator(
    "temperature", PROBABILITY, {"kind": "softmax", "weight": 0.5, "bias": [0.0, 0.0, 0.0], "clip": 0.001}, **THREE
)
MATRIX = calibrator(
    "matrix",
    {"penalty": "evidence", "input": "logit"},
    {
        "kind": "softmax",
        "weight": [[1.0, 0.1, 0.0], [0.0, 0.9, 0.0], [0.0, -0.2, 1.2]],
        "bias": [0.1, -0.2, 0.1],
        "clip": None,
    },
    **THREE,
)
PROVENANCE = BINARY | {
    "provenance": {
        "fitted_at": "2026-11-23T21:42:01Z",
        "calibrant": "0.1.0",
        "source": "scores.parquet",
        "n_rows": 4,
        "rows_sha256": "0f" * 32,
        "out_of_fold": {
            "n_folds": 2,
            "level": 0.95,
            "before": [{"metric": "brier", "value": 0.25, "low": 0.125, "high": None}],
            "after": [{"metric": "brier", "value": 0.25, "low": 0.125, "high": 0.5}],
        },
    }
}
STEP = calibrator(
    "histogram",
    {"n_bins": 2, "strategy": "quantile", "input": "probability"},
    {"kind": "step", "edges": [0.5], "levels": [0.25, 0.75]},
)
BETA = calibrator("beta", {"form": "abm"}, {"kind": "beta", "a": 1.0, "b": 0.5, "c": 0.0, "clip": 0.01})
LOGISTIC = calibrator("sigmoid", {"input": "logit"}, {"kind": "logistic", "slope": 2.0, "intercept": -1.0})
NESTED = calibrator(
    "one_vs_rest",
    {"calibrator": {"method": "histogram", "settings": STEP["settings"]}, "coupling": "normalise"},
    ONE_VS_REST | {"maps": [STEP["map"]] * 3},
    **THREE,
)
SPLINE = calibrator(
    "spline",
    {"n_knots": 64, "input": "probability"},
    {"kind": "logit_interpolated", "x": [-2.0, 0.0, 2.0], "y": [-1.0, 0.0, 1.0], "clip": 0.01},
)
QUADRATIC = calibrator(
    "quadratic",
    PROBABILITY,
    {"kind": "quadratic", "a": 1.0, "b": 0.1, "c": 0.0, "low": -2.0, "high": 2.0, "clip": 0.01},
)
VENN_ABERS = calibrator(
    "venn_abers",
    PROBABILITY,
    {"kind": "venn_abers", "edges0": [0.5], "levels0": [0.1, 0.6], "edges1": [0.4], "levels1": [0.3, 0.9]},
)
AUTO = {"cv": 5, "seed": 0, "input": "probability", "allow_inversion": False}
BLEND = calibrator(
    "auto",
    AUTO,
    {"kind": "blend", "maps": [BETA["map"], VENN_ABERS["map"]], "weights": [0.5, 0.5], "clip": 0.01},
    report={
        "candidates": [{"name": "none", "log_loss": 0.5, "difference": 0.0, "standard_error": 0.0, "weight": 0.0}],
        "blend": {"name": "blend", "log_loss": 0.4, "difference": -0.1, "standard_error": None, "weight": 1.0},
        "chosen": "blend",
        "reason": "Changed: log loss falls.",
        "n_rows": 4,
        "n_folds": 2,
    },
)
LIKELY = ONE_VS_REST | {"maps": [VENN_ABERS["map"]] * 3, "coupling": "likelihood"}
POOL = calibrator(
    "auto",
    AUTO,
    {"kind": "log_pool", "maps": [SOFTMAX["map"], LIKELY], "weights": [0.25, 0.75], "clip": 0.001, "uniform": 0.01},
    **THREE,
)
EVEN = {"kind": "beta", "a": 1.0, "b": 1.0, "c": 0.0, "clip": 0.01}
FLAT = {"kind": "beta", "a": 0.0, "b": 0.0, "c": 0.0, "clip": 0.01}
MEAN = calibrator(
    "ensemble_temperature",
    PROBABILITY,
    {"kind": "mean", "maps": [EVEN | {"a": 2.0, "b": 2.0}, EVEN, FLAT], "weights": [0.5, 0.3, 0.2]},
)
MIXTURE = calibrator(
    "ensemble_temperature",
    PROBABILITY,
    {
        "kind": "mixture",
        "maps": [SOFTMAX["map"] | {"weight": 2.0}, SOFTMAX["map"] | {"weight": 1.0}, SOFTMAX["map"] | {"weight": 0.0}],
        "weights": [0.5, 0.3, 0.2],
    },
    **THREE,
)
COUPLED = calibrator(
    "one_vs_rest",
    {"calibrator": "isotonic", "coupling": "likelihood"},
    ONE_VS_REST | {"coupling": "likelihood"},
    **THREE,
)
TOP_LABEL = calibrator(
    "top_label",
    {"calibrator": "isotonic", "per_class": True},
    {"kind": "top_label", "n_classes": 3, "maps": [COLUMN, COLUMN, COLUMN], "is_logit": False},
    **THREE,
)
MULTILABEL: dict[str, Any] = {
    **HEADER,
    "kind": "multilabel_calibrator",
    "settings": {"calibrator": "histogram"},
    "label_names": ["a", "b"],
    "n_rows": 4,
    "score_names": ["p0", "p1"],
    "maps": [STEP["map"], {"kind": "interpolated", "x": [0.0, 1.0], "y": [0.0, 1.0]}],
}
GROUPED: dict[str, Any] = {
    **HEADER,
    "kind": "grouped_calibrator",
    "settings": {"calibrator": {"method": "sigmoid", "settings": {"input": "score"}}, "shrinkage": "auto"},
    "classes": [False, True],
    "n_rows": 4,
    "score_names": ["s"],
    "group_name": "region",
    "groups": ["north", "south"],
    "shrinkage": 100.0,
    "map": {"kind": "logistic", "slope": 1.0, "intercept": -0.5},
    "clip": 0.001,
    "group_maps": [
        {"n_rows": 300, "share": 0.75, "clip": 0.001, "map": {"kind": "logistic", "slope": 2.0, "intercept": 0.0}},
        {"n_rows": 2, "share": 0.25, "clip": 0.002, "map": {"kind": "step", "edges": [], "levels": [0.125]}},
    ],
}
PRIOR_SHIFT: dict[str, Any] = {**HEADER, "kind": "prior_shift", "classes": ["no", "yes"], "factor": [1.5, 0.5]}
BINS = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
PROBABILITY_CALIBRATOR: dict[str, Any] = {
    **HEADER,
    "kind": "probability_calibrator",
    "settings": {"method": "auto", "cv": 2, "min_samples": 100, "seed": 0},
    "calibrator": {
        "method": "one_vs_rest",
        "settings": {"calibrator": {"method": "isotonic", "settings": ISOTONIC}, "coupling": "normalise"},
        **THREE,
        "n_rows": 4,
        "map": ONE_VS_REST,
    },
    "metrics": {
        "brier_before": 0.5,
        "brier_after": 0.25,
        "ece_before": 0.1,
        "ece_after": 0.01,
        "reliability_bins": {
            "bin_centers": BINS,
            "bin_accuracies": BINS,
            "bin_confidences": BINS,
            "bin_counts": [1.0] * 10,
        },
        "brier_in_sample": 0.2,
        "ece_in_sample": 0.0,
        "brier_no_skill": 0.6,
        "method": "isotonic",
        "n_rows": 4,
        "n_folds": 2,
        "evaluated_on": "out of fold",
    },
}
CHAIN: dict[str, Any] = {
    **HEADER,
    "kind": "chain",
    "steps": [body_of(BINARY), body_of(PRIOR_SHIFT) | {"classes": [0, 1]}, body_of(BETA)],
}
LN_3 = 1.0986122886681098
SEGMENTS: dict[str, Any] = {
    **HEADER,
    "kind": "segment_calibrator",
    "settings": {
        "calibrator": "isotonic",
        "categorical": ["city"],
        "numeric": ["age"],
        "target": "class",
        "cv": 5,
        "seed": 0,
    },
    "classes": ["no", "yes"],
    "n_rows": 4,
    "score_names": ["score"],
    "map": {"kind": "interpolated", "x": [0.0, 1.0], "y": [0.0, 1.0]},
    "columns": [{"name": "age", "levels": None}, {"name": "city", "levels": ["Bonn", "Rome"]}],
    "trees": {
        "kind": "trees",
        "n_columns": 3,
        "n_outputs": 1,
        "roots": [0, 5],
        "outputs": [0, 0],
        "columns": [1, -1, 2, -1, -1, 0, -1, -1],
        "values": [40.0, LN_3, 0.0, 0.0, -LN_3, 1.0, 0.0, LN_3],
        "left": [1, -1, 3, -1, -1, 6, -1, -1],
        "right": [2, -1, 4, -1, -1, 7, -1, -1],
        "missing_left": [1, 0, 0, 0, 0, 0, 0, 0],
        "set_sizes": [0, 0, 1, 0, 0, 0, 0, 0],
        "set_codes": [1],
    },
    "report": {
        "tried": [{"leaves": 4, "n_rounds": 2, "loss": 0.4}],
        "leaves": 4,
        "n_rounds": 2,
        "share": 1.0,
        "decision": BLEND["report"],
    },
}
VALID = {
    "binary": BINARY,
    "columns": COLUMNS,
    "softmax": SOFTMAX,
    "matrix": MATRIX,
    "step": STEP,
    "beta": BETA,
    "logistic": LOGISTIC,
    "nested": NESTED,
    "spline": SPLINE,
    "quadratic": QUADRATIC,
    "venn_abers": VENN_ABERS,
    "blend": BLEND,
    "log_pool": POOL,
    "mean": MEAN,
    "mixture": MIXTURE,
    "coupled": COUPLED,
    "top_label": TOP_LABEL,
    "multilabel": MULTILABEL,
    "grouped": GROUPED,
    "prior_shift": PRIOR_SHIFT,
    "probability_calibrator": PROBABILITY_CALIBRATOR,
    "chain": CHAIN,
    "segments": SEGMENTS,
    "provenance": PROVENANCE,
}

GONE = object()


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with the value at a path such as ``map.maps.2.x.0`` replaced, added or taken away."""
    document = json.loads(json.dumps(document))  # a copy in which no list is there twice
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = document
    for step in way:
        place = place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return document
