"""Comparison of calibrators on one set of rows: held-out scores with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.calibrators import (
    CALIBRATORS,
    Calibrator,
    Folding,
    Split,
    calibrator_kind,
    check_folding,
    held_out_mean,
    held_out_rows,
    make_calibrator,
    plain_splits,
    probabilities_by_fit,
    refit_variance,
)
from calibrant.dependent_rows import DesignEffects
from calibrant.errors import InvalidInputError
from calibrant.metrics import loss_less, read_models, row_brier, row_log_loss
from calibrant.numerics import FloatArray, normal_quantile
from calibrant.phrases import count
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Plain
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, InputKind, check_fraction, check_integer

NONE = "none"
_LOSSES = (row_log_loss, row_brier)


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Readable):
    """A mean difference to the baseline with its paired interval; below zero is better."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Compared(Readable):
    """One method of a comparison.

    Attributes
    ----------
    name : str
        "none" is the scores as they are; of several models each name begins with that of the model: "new: none".
    log_loss, brier : float
        Mean over rows, each calibrated by a fit that has not seen it. Log loss is infinite where a method gave
        probability zero to what happened.
    log_loss_difference, brier_difference : Difference
        To the baseline, row by row.
    """

    name: str
    log_loss: float
    log_loss_difference: Difference
    brier: float
    brier_difference: Difference

    def row(self) -> dict[str, Any]:
        """Return the figures with plain names, as a row of a table."""
        found: dict[str, Any] = {"method": self.name}
        for name in ("log_loss", "brier"):
            by = getattr(self, f"{name}_difference")
            found |= {name: getattr(self, name), f"{name}_difference": by.value}
            found |= {f"{name}_difference_low": by.low, f"{name}_difference_high": by.high}
        return found

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([self.row()])


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Plain):
    """Methods ranked by held-out log loss, the best first.

    Attributes
    ----------
    methods : tuple of Compared
        Each has `name`, `log_loss`, `log_loss_difference` with `value`, `low` and `high`, and the same of `brier`.
    baseline : str
        The method that differences are to: "none", or where scores are no probabilities the first of the methods, by
        default "sigmoid"; of several models that of the first one.
    n_rows, n_folds : int
    level : float
        Nominal coverage of each interval.
    """

    methods: tuple[Compared, ...]
    baseline: str
    n_rows: int
    n_folds: int
    level: float

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([each.row() for each in self.methods])

    def _before(self) -> list[str]:
        rows = f"{count(self.n_rows, 'row')} in {self.n_folds} folds"
        return [f"Held-out log loss, best first, on {rows}; differences are to {self.baseline!r}, below 0 is better."]


def compare(
    scores: ArrayLike | Mapping[str, ArrayLike],
    y: ArrayLike,
    *,
    methods: Sequence[str | Calibrator] | None = None,
    input: InputKind = "probability",
    cv: Folding = 5,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
) -> Comparison:
    """Fit methods by cross-validation on the same folds, and rank them by held-out log loss.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, K), or mapping of names to such
        A mapping holds the scores of several models for the same rows: all methods of all of them are ranked together,
        on the same folds, with differences to the first model as it is. `compare_models` compares them as they are.
    y : array-like of shape (n,)
        Labels of any kind.
    methods : sequence of str or Calibrator, optional
        Names or unfitted instances; by default every calibrator that takes such scores, none twice: not
        "one_vs_rest", as K columns make any calibrator of one score that, nor "top_label" of two classes. "none" is
        always there where the scores are probabilities or logits.
    input : {"probability", "logit", "score"}
        What the scores are.
    cv : int or splitter
        Number of folds, or what splits rows as scikit-learn does, such as `PurgedKFold`.
    seed : int
        Seed of the folds.
    sample_weight : array-like of shape (n,), optional
    cluster : array-like of shape (n,), optional
        The cluster of each row, such as a patient: no cluster is in two folds, and intervals are between clusters.
    time, label_end : array-like of shape (n,), optional
        When each row was predicted, and when its label was known: folds are blocks in time, labels that overlap those
        of a held-out block are not fitted to, and intervals allow for overlap.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y` may lack some.
    level : float
        Nominal coverage of the intervals.

    Returns
    -------
    Comparison

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Methods are compared row by row, so what all of them find hard cancels. An interval is of the difference that the
    two methods, fitted to all of these rows, show on new rows. Its variance is that of the mean over rows plus a part
    for the fits, which share rows with each other and with what they are measured on: the jackknife variance of each
    row's difference between the fits of the folds (Shao and Wu 1989). Without that part intervals are up to a third
    too narrow (Bengio and Grandvalet 2004; Bates, Hastie and Tibshirani 2023). Where scores are exactly 0 or 1, a row
    that contradicts one is rare and costs more than all others: none among these rows tells nothing of new ones, and
    no interval covers that.

    Folds are drawn without a look at the labels. Folds with the same share of each class, as fits themselves may use,
    tell each fit the class rates of the rows it is measured on, which favours methods that fit a rate over those that
    shrink it, "auto" and temperature. The fits are to a share 1 - 1/k of the rows: those to all rows are a little
    better, by about p / (2 (k - 1) n) of log loss for p parameters, which figures leave out. An interval is for one
    pair: the best of many methods looks better than it is.

    References
    ----------
    Bengio and Grandvalet (2004), *No unbiased estimator of the variance of k-fold cross-validation*, JMLR 5. Bates,
    Hastie and Tibshirani (2023), *Cross-validation: what does it estimate and how well does it do it?*, JASA 119. Shao
    and Wu (1989), *A general theory for jackknife variance estimation*, Annals of Statistics 17.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=1000)
    >>> ranked = cb.compare(truth**3, rng.uniform(size=1000) < truth, methods=["sigmoid", "temperature"])
    >>> [method.name for method in ranked.methods]
    ['sigmoid', 'temperature', 'none']
    """
    what: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
    what |= {"cluster": cluster, "time": time, "label_end": label_end}
    what |= {"input": input, "both_classes": True}
    if isinstance(scores, Mapping):
        models = read_models(y, scores, names=("scores", "y"), **what)
        return compare_rows(models, methods=methods, cv=cv, seed=seed, level=level)
    return compare_rows(read_rows(scores, y, **what), methods=methods, cv=cv, seed=seed, level=level)


def compare_rows(
    models: Rows | Mapping[str, Rows],
    *,
    methods: Sequence[str | Calibrator] | None,
    cv: Folding,
    seed: int,
    level: float,
    on_method: Callable[[int], None] | None = None,
) -> Comparison:
    """Compare methods on checked rows of both classes, as `compare` does.

    A mapping holds the same rows with the scores of each model. `on_method` is called with the number of methods that
    are done.
    """
    named = {f"{name}: ": each for name, each in models.items()} if isinstance(models, Mapping) else {"": models}
    rows = next(iter(named.values()))
    cv, level = check_folding(cv), check_fraction("level", level)
    seed = check_integer("seed", seed, minimum=0)
    smallest = int(np.unique(rows.codes, return_counts=True)[1].min())
    if smallest < 2:
        raise InvalidInputError("a class of y has one row only, which can't be held out. Pass at least two rows of it.")
    splits = plain_splits(rows, cv, rng=seed)
    judge = _Judge(rows.take(held_out_rows(splits)), splits, level)
    n_done = 0
    for model, own in named.items():
        as_they_are = own.probabilities()
        if as_they_are is not None:
            judge.add(f"{model}{NONE}", _unfitted_losses(own.with_scores(as_they_are), splits))
        for name, made in _named(methods, own).items():
            judge.add(f"{model}{name}", _fitted_losses(made, own, splits))
            n_done += 1
            if on_method is not None:
                on_method(n_done)
    ranked = sorted(judge.compared, key=lambda method: (method.log_loss, method.brier))
    return Comparison(tuple(ranked), judge.compared[0].name, judge.rows.n_rows, len(splits), level)


class _Judge:
    """Compares methods to the first, one after the other; only its losses are kept, as those of all fill memory."""

    def __init__(self, rows: Rows, splits: Sequence[Split], level: float) -> None:
        self.rows, self.splits = rows, splits
        self.dependence = DesignEffects.of(rows)
        self.z = normal_quantile(level) * float(np.sqrt(self.dependence.widening(level)))
        self.compared: list[Compared] = []

    def add(self, name: str, losses: list[_Losses]) -> None:
        """Compare a method by its losses, log loss and Brier score."""
        if not self.compared:
            self.first = losses
        # where auto leaves all folds alone, its losses are those of the scores but for rounding
        pairs = zip(losses, self.first, strict=True)
        losses = [b if np.allclose(a.held_out, b.held_out, rtol=1e-12, atol=1e-15) else a for a, b in pairs]
        log_loss, brier = (float(np.average(each.held_out, weights=self.rows.weights)) for each in losses)
        to_log_loss, to_brier = (self._difference(*pair) for pair in zip(losses, self.first, strict=True))
        self.compared.append(Compared(name, log_loss, to_log_loss, brier, to_brier))

    def _difference(self, loss: _Losses, base: _Losses) -> Difference:
        if loss is base:
            return Difference(0.0, 0.0, 0.0)
        with np.errstate(invalid="ignore"):  # infinite losses of other rows on either side have no difference: NaN
            each = loss_less(loss.held_out, base.held_out)
            if not np.isfinite(each).all():
                mean = float(np.average(each, weights=self.rows.weight))
                return Difference(mean, mean, mean)
            refits = refit_variance(loss_less(loss.by_fit, base.by_fit), self.splits)
        mean, error = held_out_mean(each, refits, self.rows, self.dependence)
        error = error if np.isfinite(error) else np.inf
        return Difference(mean, mean - self.z * error, mean + self.z * error)


class _Losses(NamedTuple):
    """A loss of each row that is held out: by the fit that has not seen it, and by the fit of every split, (k, n)."""

    held_out: FloatArray
    by_fit: FloatArray


def _unfitted_losses(rows: Rows, splits: Sequence[Split]) -> list[_Losses]:
    judged = rows.take(held_out_rows(splits))
    values = (loss(judged) for loss in _LOSSES)
    return [_Losses(each, np.broadcast_to(each, (len(splits), each.size))) for each in values]


def _fitted_losses(calibrator: Calibrator, rows: Rows, splits: Sequence[Split]) -> list[_Losses]:
    is_judged = held_out_rows(splits)
    by_fit = np.empty((len(_LOSSES), len(splits), int(is_judged.sum())))
    found = np.empty((len(_LOSSES), by_fit.shape[2]))
    for i, (held_out, probabilities) in enumerate(probabilities_by_fit(calibrator, rows, splits)):
        judged, own = rows.with_scores(probabilities).take(is_judged), held_out[is_judged]
        for j, loss in enumerate(_LOSSES):
            by_fit[j, i] = loss(judged)
            found[j, own] = by_fit[j, i, own]
    return [_Losses(*each) for each in zip(found, by_fit, strict=True)]


def _named(methods: Sequence[str | Calibrator] | None, rows: Rows) -> dict[str, Calibrator]:
    """Return new calibrators by name, the sigmoid first: the baseline where nothing can be left alone."""
    if methods is None:
        methods = sorted(_takers(rows), key=lambda name: name != "sigmoid")
    named: dict[str, Calibrator] = {}
    for method in methods:
        if method == NONE:
            continue
        takes_input = isinstance(method, str) and calibrator_kind(method).takes_input()
        made = make_calibrator(method, **({"input": rows.input} if takes_input else {}))
        made.check_params()
        if made.input != rows.input:
            raise InvalidInputError(
                f"{made!r} takes scores of input={made.input!r}, but input={rows.input!r}. Leave it out or change it."
            )
        named[method if isinstance(method, str) else repr(made)] = made
    return named


def _takers(rows: Rows) -> list[str]:
    """Return the names of calibrators that take such scores, each with a fit of its own."""
    left_out = ("one_vs_rest",) if rows.n_classes > 2 and rows.input != "score" else ("one_vs_rest", "top_label")
    takers = [name for name, kind in CALIBRATORS.items() if rows.input == "probability" or kind.takes_input()]
    return [name for name in takers if name not in left_out]
