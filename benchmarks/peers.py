"""Calibrators of other packages, as far as they are installed, each with the method of ours that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from benchmarks.quality_methods import Method, Predict
from benchmarks.score_sets import ScoreSet
from calibrant.calibrators import BINARY_CALIBRATORS

#: Module and distribution of each package.
PACKAGES = {
    "sklearn": "scikit-learn",
    "betacal": "betacal",
    "netcal": "netcal",
    "probmetrics": "probmetrics",
    "venn_abers": "venn-abers",
}
#: Up to how many classes a method is run that would take minutes beyond.
FEW = 10


def installed() -> dict[str, str]:
    """Return the version of each package, or "absent"."""
    return {name: version(name) if find_spec(module) else "absent" for module, name in PACKAGES.items()}


def binary_peers() -> list[Method]:
    """Return the methods for two classes."""
    return [*_sklearn(), *_betacal(), *_venn_abers(), *_netcal(), *probmetrics_peers(_PROBMETRICS_BINARY)]


def multiclass_peers() -> list[Method]:
    """Return the methods for more classes. Those of two classes that a package applies to columns keep its way."""
    found = [*_sklearn(), *_venn_abers(), *_netcal(), *probmetrics_peers(_PROBMETRICS_MULTICLASS)]
    return [
        replace(m, rival=f"{m.rival} one-vs-rest" if m.rival in BINARY_CALIBRATORS else m.rival)
        for m in found
        if m.most_classes > 2
    ]


class _Fitted(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier whose features are its own scores."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Fitted:
        """Do nothing."""
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the likeliest class."""
        return (x[:, 0] > 0.0).astype(np.int64) if x.shape[1] == 1 else x.argmax(axis=1)


class _Probabilities(_Fitted):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Return the features."""
        return x


class _Decisions(_Fitted):
    def decision_function(self, x: np.ndarray) -> np.ndarray:
        """Return the features, one column of two classes."""
        return x[:, 0] if x.shape[1] == 1 else x


def _sklearn() -> Iterator[Method]:
    for name in ("sigmoid", "isotonic", "temperature"):
        yield peer(f"sklearn {name}", _sklearn_fit(name), name)


def _sklearn_fit(name: str) -> Callable[[ScoreSet], Predict]:
    def features(score_set: ScoreSet) -> np.ndarray:
        if score_set.raw is None:
            return both_columns(score_set.p)
        return score_set.raw[:, None] if score_set.raw.ndim == 1 else score_set.raw

    def fit(calibration: ScoreSet) -> Predict:
        kind = _Probabilities if calibration.raw is None else _Decisions
        every = np.arange(calibration.y.size)
        base = FrozenEstimator(kind(both_columns(calibration.p).shape[1]))
        model = CalibratedClassifierCV(base, method=name, cv=[(every, every)], ensemble=False)
        model.fit(features(calibration), calibration.y)
        return lambda score_set: like(model.predict_proba(features(score_set)), score_set.p)

    return fit


def _betacal() -> Iterator[Method]:
    if find_spec("betacal") is None:
        return
    from betacal import BetaCalibration

    def fit(calibration: ScoreSet) -> Predict:
        model = BetaCalibration().fit(calibration.p[:, None], calibration.y)
        return lambda score_set: np.asarray(model.predict(score_set.p[:, None]))

    yield peer("betacal beta", fit, "beta")


def _venn_abers() -> Iterator[Method]:
    if find_spec("venn_abers") is None:
        return
    from venn_abers import VennAbersCalibrator

    def fit(calibration: ScoreSet) -> Predict:
        model, p, y = VennAbersCalibrator(), both_columns(calibration.p), calibration.y
        return lambda s: like(model.predict_proba(p_cal=p, y_cal=y, p_test=both_columns(s.p)), s.p)

    yield peer("venn-abers venn_abers", fit, "venn_abers", FEW)


def _netcal() -> Iterator[Method]:
    if find_spec("netcal") is None:
        return
    from netcal.binning import BBQ, ENIR, HistogramBinning, IsotonicRegression
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    def fit_of(make: Callable[[], Any]) -> Callable[[ScoreSet], Predict]:
        def fit(calibration: ScoreSet) -> Predict:
            model = make().fit(calibration.p, calibration.y)
            return lambda score_set: np.asarray(model.transform(score_set.p), dtype=np.float64)

        return fit

    yield peer("netcal temperature", fit_of(TemperatureScaling), "temperature")
    yield peer("netcal logistic", fit_of(LogisticCalibration), "sigmoid", 4)
    yield peer("netcal beta", fit_of(BetaCalibration), "beta", 4)
    yield peer("netcal histogram", fit_of(HistogramBinning), "histogram")
    yield peer("netcal isotonic", fit_of(IsotonicRegression), "isotonic")
    yield peer("netcal BBQ", fit_of(BBQ), "", 2, 3_000)
    yield peer("netcal ENIR", fit_of(ENIR), "isotonic", 2, 300)


#: Name here, name or class there, and ours.
_PROBMETRICS_BINARY = (
    ("affine", "affine-scaling", "sigmoid"),
    ("quadratic", "quadratic-scaling", "quadratic"),
    ("temperature", "temp-scaling", "temperature"),
)
_PROBMETRICS_MULTICLASS = (
    ("temperature", "temp-scaling", "temperature"),
    ("temperature with mixing", "ts-mix", "temperature"),
    ("SVS", "svs", "vector"),
    ("SMS", "sms", "matrix"),
    ("ETS", "ETSCalibrator", "ensemble_temperature"),
)


def probmetrics_peers(table: tuple[tuple[str, str, str], ...]) -> Iterator[Method]:
    """Return the methods of a table that are in probmetrics."""
    if find_spec("probmetrics") is None or find_spec("torch") is None:
        return
    import probmetrics.calibrators
    import torch

    torch.set_num_threads(1)

    def make(theirs: str) -> Any:
        if theirs.endswith("Calibrator"):
            return getattr(probmetrics.calibrators, theirs)(**({"loss": "ce"} if theirs == "ETSCalibrator" else {}))
        return probmetrics.calibrators.get_calibrator(theirs)

    def fit_of(theirs: str) -> Callable[[ScoreSet], Predict]:
        def fit(calibration: ScoreSet) -> Predict:
            model = make(theirs)
            model.fit(both_columns(calibration.p), calibration.y)
            return lambda score_set: like(model.predict_proba(both_columns(score_set.p)), score_set.p)

        return fit

    for name, theirs, ours in table:
        yield peer(f"probmetrics {name}", fit_of(theirs), ours)


def peer(
    name: str, fit: Callable[[ScoreSet], Predict], rival: str, most_classes: int = 1_000, most_rows: int = 20_000
) -> Method:
    """Return a method of another package."""
    return Method(name, fit, rival, most_classes, most_rows, is_peer=True)


def both_columns(p: np.ndarray) -> np.ndarray:
    """Return a column per class."""
    return np.column_stack((1.0 - p, p)) if p.ndim == 1 else p


def like(q: Any, p: np.ndarray) -> np.ndarray:
    """Return the positive column where `p` is one column."""
    q = np.asarray(q, dtype=np.float64)
    return q[:, 1] if p.ndim == 1 else q
