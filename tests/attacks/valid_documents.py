"""Documents of every kind that are right, for attacks to change."""

from __future__ import annotations

import json
from typing import Any

BINARY: dict[str, Any] = {
    "format": "calibrant",
    "version": 1,
    "kind": "calibrator",
    "calibrant": "0.1.0",
    "name": "isotonic",
    "params": {"bounded": False, "input": "probability"},
    "classes": [0, 1],
    "n_rows": 4,
    "score_names": None,
    "map": {"kind": "interpolated", "x": [0.1, 0.4, 0.6, 0.9], "y": [0.0, 0.5, 0.5, 1.0]},
}
COLUMN = {"kind": "interpolated", "x": [0.1, 0.9], "y": [0.0, 1.0]}
COLUMNS = BINARY | {
    "classes": ["a", "b", "c"],
    "score_names": ["p0", "p1", "p2"],
    "map": {"kind": "one_vs_rest", "maps": [COLUMN, COLUMN, COLUMN], "is_logit": False},
    "metadata": {"score": ["p0", "p1", "p2"], "label": "y"},
}
SOFTMAX = COLUMNS | {
    "name": "temperature",
    "params": {"input": "probability"},
    "map": {"kind": "softmax", "weight": 0.5, "bias": [0.0, 0.0, 0.0], "clip": 0.001},
}
STEP = BINARY | {
    "name": "histogram",
    "params": {"n_bins": 2, "strategy": "quantile", "input": "probability"},
    "map": {"kind": "step", "edges": [0.5], "levels": [0.25, 0.75]},
}
BETA = BINARY | {
    "name": "beta",
    "params": {"form": "abm"},
    "map": {"kind": "beta", "a": 1.0, "b": 0.5, "c": 0.0, "clip": 0.01},
}
LOGISTIC = BINARY | {
    "name": "sigmoid",
    "params": {"input": "logit"},
    "map": {"kind": "logistic", "slope": 2.0, "intercept": -1.0},
}
NESTED = COLUMNS | {
    "name": "one_vs_rest",
    "params": {"calibrator": {"name": "histogram", "params": STEP["params"]}},
    "map": {"kind": "one_vs_rest", "maps": [STEP["map"]] * 3, "is_logit": False},
}
VALID = {"binary": BINARY, "columns": COLUMNS, "softmax": SOFTMAX, "step": STEP, "beta": BETA, "logistic": LOGISTIC}
VALID |= {"nested": NESTED}
SPLINE = BINARY | {
    "name": "spline",
    "params": {"n_knots": 64, "input": "probability"},
    "map": {"kind": "logit_interpolated", "x": [-2.0, 0.0, 2.0], "y": [-1.0, 0.0, 1.0], "clip": 0.01},
}
QUADRATIC = BINARY | {
    "name": "quadratic",
    "params": {"input": "probability"},
    "map": {"kind": "quadratic", "a": 1.0, "b": 0.1, "c": 0.0, "low": -2.0, "high": 2.0, "clip": 0.01},
}
VENN_ABERS = BINARY | {
    "name": "venn_abers",
    "params": {"input": "probability"},
    "map": {"kind": "venn_abers", "edges0": [0.5], "levels0": [0.1, 0.6], "edges1": [0.4], "levels1": [0.3, 0.9]},
}
BLEND = BINARY | {
    "name": "auto",
    "params": {"cv": 5, "seed": 0, "input": "probability"},
    "map": {"kind": "blend", "maps": [BETA["map"], VENN_ABERS["map"]], "weights": [0.5, 0.5], "clip": 0.01},
}
VALID |= {"spline": SPLINE, "quadratic": QUADRATIC, "venn_abers": VENN_ABERS, "blend": BLEND}

COUPLED = COLUMNS | {
    "name": "one_vs_rest",
    "params": {"calibrator": "isotonic", "coupling": "likelihood"},
    "map": COLUMNS["map"] | {"coupling": "likelihood"},
}
TOP_LABEL = COLUMNS | {
    "name": "top_label",
    "params": {"calibrator": "isotonic", "per_class": True},
    "map": {"kind": "top_label", "n_classes": 3, "maps": [COLUMN, COLUMN, COLUMN], "is_logit": False},
}
MULTILABEL: dict[str, Any] = {
    "format": "calibrant",
    "version": 1,
    "kind": "multilabel_calibrator",
    "calibrant": "0.1.0",
    "calibrator": "histogram",
    "labels": ["a", "b"],
    "n_rows": 4,
    "score_names": ["p0", "p1"],
    "maps": [STEP["map"], {"kind": "interpolated", "x": [0.0, 1.0], "y": [0.0, 1.0]}],
}
VALID |= {"coupled": COUPLED, "top_label": TOP_LABEL, "multilabel": MULTILABEL}

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
