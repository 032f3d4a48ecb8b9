"""Names that options offer, said here so that `--help` imports nothing; a test compares them with those they name."""

from __future__ import annotations

#: The methods of `calibrant.calibrators`.
METHODS = (
    *("one_vs_rest", "temperature", "matrix", "spline", "vector", "quadratic", "sigmoid", "venn_abers", "auto", "beta"),
    *("dirichlet", "ensemble_temperature", "histogram", "isotonic", "centered_isotonic", "mimic", "top_label"),
)
#: The recalibrators of `calibrant.forecasts`.
RECALIBRATORS = ("average", "distribution", "variance", "conformal", "threshold")
#: Of `calibrant.rank_preserving`: the methods of `solve`, and what becomes of ties.
RANK_METHODS, TIES = ("auto", "adaptive", "admm", "dykstra"), ("equal", "free")
#: What `calibrant.tables` reads.
FORMATS = ("parquet", "arrow", "csv", "tsv", "jsonl")
#: What `calibrant.persistence` writes SQL for, and the types of an ONNX model.
DIALECTS = ("duckdb", "spark", "postgres", "bigquery", "snowflake", "sqlite")
FLOAT_TYPES = ("float64", "float32")
#: Bins of `calibrant.metrics`.
SCORE_BINS = 15
#: Where `calibrant.training` keeps its runs.
RUNS_ROOT = "experiments/runs"
#: Models and kinds of labels of `calibrant.training`, its name for the specified calibrator, and usual settings.
MODELS = ("xgboost", "lightgbm", "catboost", "hist_gradient_boosting", "logistic")
LABEL_KINDS = ("triple_barrier", "sign", "binary")
SPECIFIED = "specified"
TRAINING = {
    "model": "xgboost",
    "data": "",
    "table": "",
    "time": "",
    "label_end": "",
    "symbol": "",
    "price_return": "",
    "horizon": 20,
    "label": "triple_barrier",
    "profit": 0.75,
    "stop": 0.75,
    "calibrator": "temperature",
    "calibrate": "auto",
    "class_weight": "none",
    "validation": 0.2,
    "test": 0.2,
    "embargo": 0,
    "walk_forward": "",
    "history": "expanding",
    "stakes": "linear",
    "cost_bp": 5.0,
    "seed": 0,
    "n_threads": 1,
}
