"""ProbabilityCalibrator: the specified facade over one-vs-rest calibration, with honest before and after figures."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from calibrant.calibrators import (
    Folding,
    IsotonicCalibrator,
    OneVsRestCalibrator,
    SigmoidCalibrator,
    check_folding,
    fits_by_fold,
    held_out_rows,
    make_binary_calibrator,
    plain_splits,
    warn_of_rows,
)
from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantError, DataWarning, DocumentError, InvalidTypeError, warn
from calibrant.fitted import MapFitted
from calibrant.metrics import Bins, binned_error, brier_of, design_effect, ece_of_new_rows, make_bins
from calibrant.numerics import FloatArray
from calibrant.persistence import load_as, save
from calibrant.results import CalibrationMetrics
from calibrant.rows import Rows, read_rows
from calibrant.storable import register
from calibrant.validation import ArrayLike, InputKind, check_choice, check_integer

Method = Literal["auto", "isotonic", "sigmoid", "platt"]
_N_BINS = 10
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CalibrationConfig:
    """Settings of `ProbabilityCalibrator`.

    Attributes
    ----------
    method : {"auto", "isotonic", "sigmoid", "platt"}
        "auto" is isotonic where the smallest class has at least `min_samples` rows, else sigmoid; its isotonic maps
        are bounded, so that no probability is 0 or 1. Those of "isotonic" are not. "platt" is another name of
        "sigmoid".
    cv : int or splitter
        Number of folds for the out-of-fold figures, at least 2, or what splits rows as scikit-learn does, such as
        `PurgedKFold` or scikit-learn's `GroupKFold`: figures are then of the rows that it holds out. A saved calibrator
        keeps the number of folds.
    min_samples : int
        Rows of the smallest class, by weight, from which "auto" trusts isotonic regression.
    seed : int
        Seed of the folds.
    """

    method: Method = "auto"
    cv: Folding = 5
    min_samples: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(Method))
        check_folding(self.cv)
        check_integer("min_samples", self.min_samples, minimum=1)
        check_integer("seed", self.seed, minimum=0)


@register("probability_calibrator")
class ProbabilityCalibrator(MapFitted):
    """Calibrate the probabilities of a classifier one-vs-rest, and say how much that helped.

    Parameters
    ----------
    config : CalibrationConfig, optional

    Attributes
    ----------
    metrics_ : CalibrationMetrics
        What `fit` measured and returned.
    method_ : str
        The method that was used: "isotonic" or "sigmoid".
    calibrator_ : OneVsRestCalibrator
        The fitted calibrator, with its `map_`.

    Notes
    -----
    A row in which every class gets probability zero becomes uniform. A class without rows keeps its probabilities
    before rows are normalised, with a DataWarning. Rows of the probabilities that go in need not sum to one.

    Examples
    --------
    >>> import numpy as np, calibrant as cb
    >>> rng = np.random.default_rng(42)
    >>> P = rng.dirichlet([1.0, 1.0, 1.0], 1000)
    >>> y = np.array([rng.choice(3, p=p) for p in P])
    >>> overconfident = P**3 / (P**3).sum(axis=1, keepdims=True)
    >>> calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="auto", cv=5, min_samples=100))
    >>> metrics = calibrator.fit(y, overconfident)
    >>> metrics.brier_after < metrics.brier_before and metrics.ece_after < metrics.ece_before
    True
    >>> calibrator.calibrate(overconfident).shape
    (1000, 3)
    """

    called: ClassVar[str] = "a ProbabilityCalibrator"
    fit_call: ClassVar[str] = "fit(y_true, probabilities)"
    score_argument: ClassVar[str] = "probabilities"
    input: InputKind = "probability"
    calibrator_: OneVsRestCalibrator
    #: What was measured; until somebody asks for it, the rows that it was fitted to.
    _measured: CalibrationMetrics | Rows

    def __init__(self, config: CalibrationConfig | None = None) -> None:
        if not isinstance(config, CalibrationConfig | None):
            raise InvalidTypeError(
                f"config={config!r:.80} is a {type(config).__name__}. Pass a CalibrationConfig, such as "
                "CalibrationConfig(method='isotonic', cv=5)."
            )
        self.config = CalibrationConfig() if config is None else config

    def fit(
        self,
        y_true: ArrayLike,
        probabilities: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
    ) -> CalibrationMetrics:
        """Fit one map per class, and measure before and after.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels of any kind.
        probabilities : array-like of shape (n, K) or (n,)
            One column per class in the order of the sorted classes, or the probability of the larger of two.
        sample_weight, classes
            As for `OneVsRestCalibrator.fit`. Integer labels from 0 to K - 1 need no `classes`.
        cluster : array-like of shape (n,), optional
            The cluster of each row, such as a patient: no cluster is in two folds.
        time, label_end : array-like of shape (n,), optional
            When each row was predicted, and when its label was known: folds are blocks in time, and labels that
            overlap those of a held-out block are not fitted to.

        Returns
        -------
        CalibrationMetrics
            The "after" figures are out of fold: what as many new rows would show, see `CalibrationMetrics`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        rows = read_rows(
            probabilities,
            y_true,
            names=("probabilities", "y_true"),
            sum_to_one=False,
            sample_weight=sample_weight,
            classes=classes,
            both_classes=True,
            cluster=cluster,
            time=time,
            label_end=label_end,
        )
        warn_of_rows(rows)
        fitted = self.fresh().fit_rows(rows)
        m = fitted.metrics_  # folds may fail, and an earlier fit then stays
        self.keep(fitted.calibrator_, m)
        figures = (m.brier_before, m.brier_after, m.ece_before, m.ece_after)
        _LOG.info("Calibration complete: Brier %.4f -> %.4f, ECE %.4f -> %.4f", *figures)
        return m

    def fit_rows(self, rows: Rows) -> Self:
        """Fit to rows that the gate has checked, of probabilities; `metrics_` is measured when it is asked for."""
        method = {"platt": "sigmoid"}.get(self.config.method, self.config.method)
        if method == "auto":
            method = "isotonic" if float(rows.class_weight.min()) >= self.config.min_samples else "sigmoid"
        self.keep(_one_vs_rest(method, bounded=self.config.method == "auto").fit_rows(rows), rows)
        if self.config.method == "isotonic":
            _warn_of_certainty(self.calibrator_.map_.apply(rows.scores))
        return self

    @property
    def metrics_(self) -> CalibrationMetrics:
        """What `fit` measured and returned. It takes one more fit for each fold, so it is measured on the first use."""
        self.check_fitted()
        if isinstance(self._measured, Rows):
            self._measured = self._measure(self._measured)
        return self._measured

    def keep(self, calibrator: OneVsRestCalibrator, measured: CalibrationMetrics | Rows) -> None:
        """Keep the fitted calibrator, its map and what it knows of the rows; and its metrics, or the rows for them."""
        self.calibrator_, self.map_, self._measured = calibrator, calibrator.map_, measured
        self.take_over(calibrator)

    def fresh(self) -> Self:
        """Return an unfitted calibrator with the same settings."""
        return type(self)(self.config)

    def calibrate(self, probabilities: ArrayLike) -> Any:
        """Return calibrated probabilities of the rows of a matrix, or of one column, as `predict_proba` does."""
        return self.predict_proba(probabilities)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a ``.json`` or ``.pkl`` file, whole or not at all, as `calibrant.save` does."""
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ProbabilityCalibrator:
        """Read what `save` wrote, or raise DocumentError; loading runs no code from the file."""
        return load_as(cls, path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    @property
    def sums_to_one(self) -> bool:
        return False

    @property
    def widths(self) -> tuple[int, ...]:
        return (1,) if self.takes_one else (len(self.classes_),)

    @property
    def method_(self) -> str:
        """The method that was used: "isotonic" or "sigmoid"."""
        self.check_fitted()
        return make_binary_calibrator(self.calibrator_.calibrator).name

    def encode(self) -> dict[str, Any]:
        self.check_fitted()
        cv = self.config.cv
        return {
            "settings": asdict(replace(self.config, cv=self.metrics_.n_folds) if hasattr(cv, "split") else self.config),
            "calibrator": self.calibrator_.encode(),
            "metrics": self.metrics_.to_dict(),
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        parts = body.members(("settings", "calibrator", "metrics"))
        settings = parts["settings"].members(tuple(CalibrationConfig.__dataclass_fields__))
        method = settings["method"].choice(get_args(Method))
        numbers = {name: settings[name].integer(minimum=0) for name in ("cv", "min_samples", "seed")}
        try:
            made = cls(CalibrationConfig(method=method, **numbers))
        except CalibrantError as error:
            raise DocumentError(f"settings: {error}") from None
        made.keep(OneVsRestCalibrator.decode(parts["calibrator"]), _decode_metrics(parts["metrics"]))
        wanted = {"auto": ("isotonic", "sigmoid"), "platt": ("sigmoid",)}.get(method, (method,))
        found = made.metrics_.method
        known = [repr(_one_vs_rest(found, bounded=bounded)) for bounded in {False, method == "auto"}]
        if found not in wanted or repr(made.calibrator_) not in known:
            parts["calibrator"].refuse(f"is not what the settings and the method {found!r} of the metrics ask for")
        return made

    def _measure(self, rows: Rows) -> CalibrationMetrics:
        splits = plain_splits(rows, self.config.cv, rng=self.config.seed)  # stratified, they tell fits the rates
        held_out = held_out_rows(splits)
        fits = fits_by_fold(rows, splits, lambda rest: self.calibrator_.fresh().fit_rows(rest))
        applied = [_apply_or_leave(fitted) for *_, fitted in fits]
        unseen = np.full(rows.scores.shape, np.nan)
        for split, apply in zip(splits, applied, strict=True):
            unseen[split.held_out] = apply(rows.take(split.held_out))
        in_sample = rows.with_scores(self.calibrator_.map_.apply(rows.scores))
        calibrated, rows = rows.with_scores(unseen).take(held_out), rows.take(held_out)
        before, after = _top_label_bins(rows), _top_label_bins(calibrated)
        top = calibrated.top_label()
        ece_after = ece_of_new_rows(
            top,
            np.array([_of_top_label(apply(rows), calibrated.scores) for apply in applied]),
            _of_top_label(in_sample.scores[held_out], calibrated.scores),
            np.array([split.held_out[held_out] for split in splits]).argmax(axis=0),
            n_bins=_N_BINS,
            effect=design_effect(top),
        )
        constant = np.broadcast_to(rows.class_weight / rows.total_weight, (rows.n_rows, rows.n_classes))
        no_skill = rows.with_scores(constant[:, 1].copy() if rows.is_binary else constant)
        return CalibrationMetrics(
            brier_before=brier_of(rows),
            brier_after=brier_of(calibrated),
            ece_before=binned_error(before, "l1"),
            ece_after=ece_after,
            reliability_bins=_reliability_bins(after),
            brier_in_sample=brier_of(in_sample),
            ece_in_sample=binned_error(_top_label_bins(in_sample), "l1"),
            brier_no_skill=brier_of(no_skill),
            method=self.method_,
            n_rows=rows.n_rows,
            n_folds=len(splits),
        )


def _one_vs_rest(method: str, *, bounded: bool) -> OneVsRestCalibrator:
    return OneVsRestCalibrator(IsotonicCalibrator(bounded=bounded) if method == "isotonic" else SigmoidCalibrator())


def _warn_of_certainty(scores: FloatArray) -> None:
    n_sure = int(np.isin(scores, (0.0, 1.0)).reshape(len(scores), -1).any(axis=1).sum())
    if n_sure:
        warn(
            f"isotonic regression gives probabilities of 0 or 1 to {n_sure:,} of {len(scores):,} rows: where what "
            "they rule out happens, the log loss is infinite. method='auto' keeps them between.",
            DataWarning,
        )


def _apply_or_leave(fitted: OneVsRestCalibrator | None) -> Callable[[Rows], FloatArray]:
    """Return what a fit makes of rows; where a fold's rest shows one class only, they stay as they are."""
    return (lambda rows: rows.scores) if fitted is None else fitted.apply


def _of_top_label(scores: FloatArray, by: FloatArray) -> FloatArray:
    """Return the probability of the label that `by` finds most probable, as `Rows.top_label` takes it."""
    if by.ndim == 1:
        return np.where(by > 0.5, scores, 1.0 - scores)
    return np.take_along_axis(scores, by.argmax(axis=1)[:, None], axis=1)[:, 0]


def _top_label_bins(rows: Rows) -> Bins:
    return make_bins(rows.top_label().summary(), _N_BINS, "uniform")


def _reliability_bins(bins: Bins) -> dict[str, list[float]]:
    """Spread the bins that hold rows over all ten; an empty one has count, accuracy and confidence zero."""
    edges = np.linspace(0.0, 1.0, _N_BINS + 1)
    held = np.searchsorted(edges, bins.edges[:, 0])
    columns = {"bin_accuracies": bins.rate, "bin_confidences": bins.mean_score, "bin_counts": bins.weight}
    spread = {name: np.zeros(_N_BINS) for name in columns}
    for name, values in columns.items():
        spread[name][held] = values
    centers = 0.5 * (edges[:-1] + edges[1:])
    return {"bin_centers": centers.tolist(), **{name: values.tolist() for name, values in spread.items()}}


def _decode_metrics(field: DocumentField) -> CalibrationMetrics:
    parts = field.members(tuple(CalibrationMetrics.__dataclass_fields__))
    bins = parts["reliability_bins"].members(("bin_centers", "bin_accuracies", "bin_confidences", "bin_counts"))
    columns = {name: bins[name].probabilities() for name in list(bins)[:3]}
    columns["bin_counts"] = bins["bin_counts"].numbers()
    for name, column in columns.items():
        if column.size != _N_BINS or column.min() < 0.0:
            bins[name].refuse(f"is no list of {_N_BINS} numbers from 0 on")
    values: dict[str, Any] = {
        "reliability_bins": {name: column.tolist() for name, column in columns.items()},
        "method": parts["method"].choice(("isotonic", "sigmoid")),
        "evaluated_on": parts["evaluated_on"].text(),
        **{name: parts[name].integer(minimum=1) for name in ("n_rows", "n_folds")},
    }
    values |= {name: part.number() for name, part in parts.items() if name not in values}
    return CalibrationMetrics(**values)
