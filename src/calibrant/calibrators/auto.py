"""Automatic calibration: a blend of methods, weighted by cross-validation, that leaves alone what is well alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator
from calibrant.errors import CalibrantWarning, DataWarning
from calibrant.folds import stratified_folds
from calibrant.maps import (
    IDENTITY_LOGIT,
    BetaMap,
    BinaryMap,
    BlendMap,
    Map,
    SingleMap,
    SoftmaxMap,
)
from calibrant.numerics import (
    SMALLEST_CLIP,
    FloatArray,
    IntArray,
    clip_open,
    dot,
    expit,
    logit,
    mean_and_error,
    project_simplex,
    softplus,
)
from calibrant.summary import ScoreRows, ScoreSummary
from calibrant.validation import InputKind, Labels, check_integer

#: The candidate that changes nothing.
NONE = "none"
#: Rows that the cross-validation looks at; more would change the weights by less than their own noise.
_MOST_ROWS = 20_000
#: Whole numbers up to here are floats without rounding.
_EXACT = 2**53
#: Strength of the pull of the weights to equal ones, in rows.
_PULL = 5.0
#: Standard errors by which the blend must beat the scores as they are.
_MARGIN = 0.75
#: Candidates of less weight are dropped.
_LEAST_WEIGHT = 1e-3
#: Logits beyond this count as this in the choice of weights: one row must not decide it alone.
_MOST_LOGIT = 20.0
_MAX_ITER = 500
_TOL = 1e-7


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method that was tried.

    Attributes
    ----------
    name : str
        "none" is the scores as they are.
    log_loss : float
        Out of fold, mean over rows.
    difference, standard_error : float
        Mean difference of the log loss to that of "none", and its standard error; NaN where the scores are not
        probabilities.
    weight : float
        Its weight in the blend.
    """

    name: str
    log_loss: float
    difference: float
    standard_error: float
    weight: float


@dataclass(frozen=True, slots=True)
class AutoReport:
    """What was tried, and why it won.

    Attributes
    ----------
    candidates : tuple of Candidate
        Every method, least log loss first.
    blend : Candidate
        The blend of them by their weights. Its figures are a little too good, since the weights were chosen on the
        same rows.
    chosen : str
        "blend", "none", or "base_rate" where all scores are equal; of many classes "temperature" or "none".
    reason : str
        Why, in a sentence.
    n_rows, n_folds : int
        Rows and folds of the cross-validation.
    """

    candidates: tuple[Candidate, ...]
    blend: Candidate
    chosen: str
    reason: str
    n_rows: int
    n_folds: int

    def __str__(self) -> str:
        head = f"{'method':12s} {'log loss':>9s} {'vs none':>9s} {'s.e.':>7s} {'weight':>7s}"
        rows = (
            f"{c.name:12s} {c.log_loss:9.4f} {c.difference:+9.4f} {c.standard_error:7.4f} {c.weight:7.2f}"
            for c in (*self.candidates, self.blend)
        )
        return "\n".join((self.reason, head, *rows))


class AutoCalibrator(BinaryCalibrator):
    """Blend the methods that cross-validation favours, or leave the scores alone.

    Parameters
    ----------
    cv : int
        Number of folds, at least 2.
    seed : int
        Seed of the folds.
    input : {"probability", "logit", "score"}
        What the scores are. Raw scores can't be left alone, since they are no probabilities.

    Attributes
    ----------
    report_ : AutoReport
        What was tried and why it won. Files don't keep it; of columns calibrated one-vs-rest there is none.

    Notes
    -----
    The candidates are the scores as they are, temperature (of raw scores: sigmoid), spline and Venn-Abers. Their
    out-of-fold logits are blended by the weights, none negative and their sum one, that minimise the out-of-fold log
    loss plus a pull towards equal weights that is worth five rows. Where the blend doesn't beat the scores as they
    are by three quarters of the standard error of the difference, they are left alone. All candidates rise with the
    score and so does the blend; none gives exactly 0 or 1. More candidates (sigmoid, beta, quadratic, isotonic) made
    held-out log loss worse on the score sets of the benchmarks: what they can say, the spline says.

    Rows of one score and label are interchangeable here, so the order of rows doesn't matter, and whole weights count
    as so many rows; rows of other weights count as Kish's effective number of rows of equal weight. Of more than
    20,000 rows a sample finds the weights; the maps are fitted to all rows. For more than two classes temperature
    scaling is weighed against leaving the scores alone.

    References
    ----------
    Wolpert (1992), *Stacked generalization*, Neural Networks 5. Breiman (1996), *Stacked regressions*, Machine
    Learning 24.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < truth
    >>> cb.AutoCalibrator().fit(truth, y).report_.chosen
    'none'
    >>> mended = cb.AutoCalibrator().fit(truth**3, y)
    >>> mended.report_.chosen
    'blend'
    >>> mended.predict_proba([0.5**3]).round(1)
    array([0.5])
    """

    name: ClassVar[str] = "auto"
    report_: AutoReport

    def __init__(self, *, cv: int = 5, seed: int = 0, input: InputKind = "probability") -> None:
        self.cv = cv
        self.seed = seed
        self.input = input

    def _check_params(self) -> None:
        check_integer("cv", self.cv, minimum=2)
        check_integer("seed", self.seed, minimum=0)

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (BlendMap, BetaMap) if input == "probability" else (BlendMap,)

    def fit_map(self, data: ScoreRows | ScoreSummary) -> BinaryMap:
        """Weigh the candidates on folds of the rows, and blend their fits to all of them."""
        summary = data.summary()
        if summary.scores.size == 1:
            return self._fit_constant(summary)
        sample = _sample(summary, self.seed)
        n_folds = min(self.cv, sample.scores.size)
        folds = stratified_folds(sample.positive.astype(np.int64), n_folds, self.seed)
        tried = _candidates(self.input)
        z = np.array([_held_out(fit, sample, folds) for fit in tried.values()])
        weights = _blend_weights(z, sample)
        self.report_ = _report(list(tried), z, sample, weights, n_folds)
        if self.report_.chosen == NONE:
            weights = np.array([float(name == NONE) for name in tried])
        shares = zip(tried.values(), weights.tolist(), strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the report says which candidates were of use
            kept = [(fit(summary), share) for fit, share in shares if share >= _LEAST_WEIGHT]
        if isinstance(kept[0][0], BetaMap) and len(kept) == 1:
            return kept[0][0]
        share = np.array([share for _, share in kept])
        return BlendMap(tuple(fitted for fitted, _ in kept), share / share.sum(), SMALLEST_CLIP)

    def _fit_constant(self, summary: ScoreSummary) -> BinaryMap:
        rate = summary.base_rate
        entropy = -rate * float(np.log(rate)) - (1.0 - rate) * float(np.log1p(-rate))
        base = Candidate("base_rate", entropy, np.nan, np.nan, 1.0)
        reason = "Constant scores tell no row from another: they become the base rate."
        self.report_ = AutoReport((), base, base.name, reason, round(summary.total_weight), 0)
        fitted = _fit_of(SigmoidCalibrator(input=self.input))(summary)
        return fitted if isinstance(fitted, BetaMap) else BlendMap((fitted,), np.ones(1), SMALLEST_CLIP)

    def _fit_any(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        if values.ndim == 1 or values.shape[1] == 2:
            return super()._fit_any(values, labels, weight)
        if self.input != "score":
            return self._fit_classes(values, labels, weight)
        fitted = super()._fit_any(values, labels, weight)
        del self.report_  # of the last column only
        return fitted

    def _fit_classes(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        """Weigh temperature scaling of K classes against leaving them alone."""
        temperature = TemperatureCalibrator(input=self.input)
        n = values.shape[0]
        folds = stratified_folds(labels.codes, min(self.cv, n), self.seed)
        loss = {NONE: np.empty(n), "temperature": np.empty(n)}
        none = _leave_alone(values.shape[1], self.input)
        for fold in np.unique(folds):
            held_out = folds == fold
            rest = Labels(labels.codes[~held_out], labels.classes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)  # said, where it matters, by the fit on all rows
                fitted = temperature.fit_checked(
                    values[~held_out], rest, None if weight is None else weight[~held_out]
                ).map_
            own = labels.codes[held_out].astype(np.intp)
            for name, applied in ((NONE, none), ("temperature", fitted)):
                q = applied.apply(values[held_out])
                loss[name][held_out] = -np.log(np.maximum(np.take_along_axis(q, own[:, None], axis=1)[:, 0], 1e-300))
        w = np.ones(n) if weight is None else weight
        mean = {name: float(np.average(values, weights=w)) for name, values in loss.items()}
        difference, error = mean_and_error(loss["temperature"] - loss[NONE], w)
        best = Candidate("temperature", mean["temperature"], difference, error, 1.0)
        chosen, reason = _decide(best)
        alone = Candidate(NONE, mean[NONE], 0.0, 0.0, 0.0)
        ranked = tuple(sorted((best, alone), key=lambda c: c.log_loss))
        self.report_ = AutoReport(ranked, best, chosen, reason, n, int(folds.max()) + 1)
        return none if chosen == NONE else temperature.fit_checked(values, labels, weight).map_


_Fit: TypeAlias = Callable[[ScoreRows | ScoreSummary], SingleMap]


def _candidates(input: InputKind) -> dict[str, _Fit]:
    """Return what is tried on scores of kind `input`, by name."""
    rising = {
        "spline": _fit_of(SplineCalibrator(input=input)),
        "venn_abers": _fit_of(VennAbersCalibrator(input=input)),
    }
    match input:
        case "probability":
            none: SingleMap = BetaMap(1.0, 1.0, 0.0, SMALLEST_CLIP)
        case "logit":
            none = IDENTITY_LOGIT
        case "score":
            return {"sigmoid": _fit_of(SigmoidCalibrator(input=input)), **rising}
    return {NONE: lambda _: none, "temperature": _temperature(input), **rising}


def _fit_of(calibrator: BinaryCalibrator) -> _Fit:
    return lambda data: cast("SingleMap", calibrator.fit_map(data))


def _temperature(input: InputKind) -> _Fit:
    def fit(data: ScoreRows | ScoreSummary) -> SingleMap:
        groups = data.groups()
        scores = np.concatenate((groups.scores, groups.scores))
        codes = np.repeat(np.array([1, 0], np.uint8), groups.scores.size)
        weight = np.concatenate((groups.positives, groups.weight - groups.positives))
        held = weight > 0.0
        labels = Labels(codes[held], np.array([False, True]))
        fitted = TemperatureCalibrator(input=input).fit_checked(scores[held], labels, weight[held]).map_
        return cast("SingleMap", fitted)

    return fit


def _sample(summary: ScoreSummary, seed: int) -> ScoreRows:
    """Return the summary as rows, or a sample of at most 20,000 of them.

    Cells of whole weight hold so many rows of weight one; others Kish's effective number of equal weight. The order
    is that of the scores, positives first, so that it depends on nothing but the summary.
    """
    scores, weight, squared, positives = summary.cells
    parts = np.column_stack((positives, weight - positives))
    if bool((parts == np.floor(parts)).all()) and float(parts.sum()) < _EXACT:
        counts = parts.astype(np.int64)
    else:
        size = weight**2 / squared
        counts = np.where(parts > 0.0, np.maximum(np.rint(size[:, None] * parts / weight[:, None]), 1.0), 0.0)
        counts = counts.astype(np.int64)
    ends = np.cumsum(counts.reshape(-1))
    n = int(ends[-1])
    if n <= _MOST_ROWS:
        taken = np.arange(n)
    else:
        taken = np.sort(np.random.default_rng(seed).choice(n, _MOST_ROWS, replace=False))
    part = np.searchsorted(ends, taken, side="right")
    unit = (parts / np.maximum(counts, 1)).reshape(-1)[part]
    return ScoreRows(scores[part // 2], part % 2 == 0, None if bool((unit == 1.0).all()) else unit)


def _held_out(fit: _Fit, sample: ScoreRows, folds: IntArray) -> FloatArray:
    """Return the logit of each row by a fit to the other folds; where those show one class, by their smoothed rate."""
    out = np.empty(sample.scores.size)
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        weight = None if sample.weight is None else sample.weight[~held]
        rest = ScoreRows(sample.scores[~held], sample.positive[~held], weight)
        n_positive = int(np.count_nonzero(rest.positive))
        if 0 < n_positive < rest.positive.size:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)  # said, where it matters, by the fit on all rows
                q = fit(rest).apply(sample.scores[held])
            out[held] = logit(clip_open(q, SMALLEST_CLIP))
        else:
            out[held] = np.log((n_positive + 1.0) / (rest.positive.size - n_positive + 1.0))
    return out


def _blend_weights(z: FloatArray, sample: ScoreRows) -> FloatArray:
    """Return the weights on the simplex of least log loss, pulled to equal ones, by accelerated projected gradient."""
    n_tried, n = z.shape
    z = np.clip(z, -_MOST_LOGIT, _MOST_LOGIT)
    y = sample.positive.astype(np.float64)
    w = np.full(n, 1.0) if sample.weight is None else sample.weight * (n / sample.weight.sum())
    equal = np.full(n_tried, 1.0 / n_tried)
    gram = np.array([[dot(w * a, b) for b in z] for a in z])
    step = 1.0 / (0.25 * float(np.linalg.eigvalsh(gram)[-1]) + 2.0 * _PULL)
    weights, ahead, momentum = equal, equal, 1.0
    for _ in range(_MAX_ITER):
        residual = w * (expit(np.einsum("j,ji->i", ahead, z)) - y)
        gradient = np.array([dot(row, residual) for row in z]) + 2.0 * _PULL * (ahead - equal)
        moved = project_simplex(ahead - step * gradient)
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        change = moved - weights
        ahead = moved + (momentum - 1.0) / following * change
        weights, momentum = moved, following
        if float(np.abs(change).max()) < _TOL:
            break
    return weights


def _report(names: list[str], z: FloatArray, sample: ScoreRows, weights: FloatArray, n_folds: int) -> AutoReport:
    w = np.ones(sample.scores.size) if sample.weight is None else sample.weight
    y = sample.positive.astype(np.float64)
    logits = {**dict(zip(names, z, strict=True)), "blend": np.einsum("j,ji->i", weights, z)}
    loss = {name: softplus(row) - y * row for name, row in logits.items()}
    share = {**dict(zip(names, weights.tolist(), strict=True)), "blend": 1.0}
    tried = []
    for name, values in loss.items():
        difference, error = mean_and_error(values - loss[NONE], w) if NONE in loss else (np.nan, np.nan)
        tried.append(Candidate(name, float(np.average(values, weights=w)), difference, error, share[name]))
    blend = tried.pop()
    chosen, reason = _decide(blend)
    return AutoReport(tuple(sorted(tried, key=lambda c: c.log_loss)), blend, chosen, reason, y.size, n_folds)


def _decide(best: Candidate) -> tuple[str, str]:
    """Return "none" unless the best beats the scores as they are by the margin, and the reason."""
    if np.isnan(best.difference):
        return best.name, "Raw scores are no probabilities: they can't be left alone."
    figures = f"{best.difference:+.4f} out of fold, standard error {best.standard_error:.4f}"
    if best.difference + _MARGIN * best.standard_error >= 0.0:
        return NONE, f"Left alone: log loss would change by {figures}, which is no clear gain."
    return best.name, f"Changed: log loss falls ({figures})."


def _leave_alone(n_classes: int, input: InputKind) -> SoftmaxMap:
    return SoftmaxMap(np.array(1.0), np.zeros(n_classes), SMALLEST_CLIP if input == "probability" else None)
