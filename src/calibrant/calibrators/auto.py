"""Automatic calibration: a blend of methods, weighted by cross-validation, that leaves alone what is well alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeAlias, cast

import numpy as np

from calibrant.calibrators import auto_report as limits
from calibrant.calibrators.auto_evidence import gather
from calibrant.calibrators.auto_line import log_bayes_factor
from calibrant.calibrators.auto_multiclass import EXPORTABLE, Exportable, coupling_of, fit_classes
from calibrant.calibrators.auto_report import NONE, AutoReport, Candidate
from calibrant.calibrators.auto_rows import sample_of, some_of, turned
from calibrant.calibrators.auto_weights import MOST_LOGIT, least_weights
from calibrant.calibrators.base import BinaryCalibrator, check_columns, named
from calibrant.calibrators.cross_fit import Split, fits_together, row_splits
from calibrant.calibrators.ensemble_temperature import map_around
from calibrant.calibrators.quadratic import QuadraticCalibrator
from calibrant.calibrators.row_warnings import inverted_share, warn_of_rows
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator
from calibrant.document_field import DocumentField
from calibrant.errors import DataWarning, InvalidInputError, hold_warnings
from calibrant.logistic import base_logit
from calibrant.maps import (
    BetaMap,
    BinaryMap,
    BlendMap,
    BlendPart,
    LoggedScores,
    LogisticMap,
    LogPoolMap,
    Map,
    OneVsRestMap,
    PoolPart,
    SoftmaxMap,
    VennAbersMap,
    line_map,
    mixed_with_half,
)
from calibrant.numerics import (
    LEAST,
    BoolArray,
    FloatArray,
    dot,
    expit,
    own_clip,
    softplus,
)
from calibrant.phrases import under
from calibrant.row_stream import RowStream
from calibrant.rows import Rows, read_rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, InputKind, check_choice, check_flag, check_integer

#: Rows up to which quadratic and ensemble temperature are tried, and what each fold's fit makes of all rows is kept,
#: not of those held out alone.
_MOST_KEPT = 5_000
#: Out-of-fold log likelihood, in nats, that Venn-Abers must add to get weight: chosen among 0 to 8 on the tables of
#: `CHOSEN_ON` (benchmarks/real_tables.py), with the sets of `benchmarks quality` in sight.
_WORTH = 3.0
#: Rows drawn of a stream, as a multiple of those that the choice looks at.
_SPARE = 1.5


@named("auto")
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
    allow_inversion : bool
        Whether scores of two classes that run against the labels, beyond chance, are turned round. A DataWarning and
        `report_` name them in any case.
    exportable : {"sql"}, optional
        Use only what SQL can do, which of more than two classes can't couple the rows of one-vs-rest maps by
        "likelihood": they are coupled by "normalise" instead. SQL for two classes, and ONNX, can all that is used here.

    Attributes
    ----------
    report_ : AutoReport
        What was tried, and why it was chosen. Documents keep it, and `calibrant inspect` shows it.

    Notes
    -----
    The candidates are the scores as they are, temperature, spline, Venn-Abers and, of up to 5,000 rows, quadratic and
    ensemble temperature; of raw scores sigmoid, spline and Venn-Abers. Their out-of-fold logits are blended by the
    weights, none negative and their sum one, that minimise the out-of-fold log loss plus a penalty on unequal weights
    that is worth five rows. Half a row of even odds is mixed in. All candidates rise with the score and so does the
    blend, or it falls where an inversion is found and allowed; none gives exactly 0 or 1.

    Whether scores want a change is asked of rows that the fits have not seen. The blend gains g nats of log-likelihood
    on them: e^g is the ratio of the likelihoods of two forecasters (Dawid 1984), which one row of a heavy tail can't
    hide as it does in a standard error. After prior odds it gives the belief that the change gains. Below one half the
    scores are left alone, unless some are exactly 0 or 1; from there on the weights are drawn to the scores as they are
    by what is left of it. Up to 3,000 rows g is measured on folds that are drawn without a look at the labels. Of more
    rows, or with fewer than ten of a class, the folds hold the same share of each class, which tells whatever fits a
    rate of each about one nat for each class but one: it is taken off. Of rows that depend on each other g is divided
    by its design effect, and by more where clusters are few. Probabilities that are votes, as those of a forest, have
    zeros counted as half a vote where they are left alone: a new row may be unanimous.

    Of few rows those held out tell little. So all rows at once are asked about lines a + b z through the logits, a and
    b normal beforehand around 0 and 1 with standard deviation .3. The logarithm of their Bayes factor against the
    scores as they are, divided by the same effect, is a second gain. The mean of both counts, after prior odds of 1 to
    e. Of more than two classes g alone counts, after prior odds of 1 to e^2.5.

    Rows of one score and label are interchangeable here, so the order of rows doesn't matter, and whole weights count
    as so many rows; rows of other weights count as Kish's effective number of rows of equal weight. With more than
    20,000 rows a sample decides on the weights, of two classes one of up to 200,000 rows where 200 of the rarer class
    take so many; the maps are fitted to all rows.

    Of more than two classes the candidates are the scores as they are, temperature, matrix scaling, and spline
    one-vs-rest with "likelihood" coupling, or "normalise" where the result is to go to SQL; of more than 100 classes
    vector scaling takes the place of the last two. Where more than a hundredth of the probabilities is below 1e-12,
    matrix scaling is tried with these at 1e-12 too: whether they tell more differs between models. Log-probabilities
    are blended and decided on by the same rule: the result is their weighted product, divided by its sum. Equal
    probabilities are mixed in with the weight of half a row, so that a few rows that are all classified correctly make
    no class impossible. Rows may change their order of classes. The order of rows and that of classes matter by
    rounding only. Raw scores enter temperature and matrix scaling as logits do; where a class has fewer than two rows
    of them, only these two are blended.

    Venn-Abers gets no weight where the out-of-fold log loss of all rows then rises by less than three nats, as its
    steps follow chance where a smooth curve does as well; spline of more than two classes where it rises by less than
    one nat and 1e-4 per row: a weight that is fitted to the rows gains about one nat on them that it doesn't on
    others. Their tables would be most of a document. Matrix scaling's folds take the penalty of all rows.

    References
    ----------
    Wolpert (1992), *Stacked generalization*, Neural Networks 5. Breiman (1996), *Stacked regressions*, Machine
    Learning 24. Genest and Zidek (1986), *Combining probability distributions*, Statistical Science 1, on logarithmic
    pools. Dawid (1984), *Statistical theory: the prequential approach*, JRSS A 147.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < truth
    >>> cb.AutoCalibrator().fit(truth, y).report_.chosen
    'none'
    >>> calibrator = cb.AutoCalibrator().fit(truth**3, y)
    >>> calibrator.report_.chosen
    'blend'
    >>> calibrator.predict_proba([0.5**3]).round(1)
    array([0.5])
    """

    map_kinds = (BlendMap, BetaMap, LogisticMap)
    later_settings = ("allow_inversion", "exportable")
    report_: AutoReport

    def __init__(
        self,
        *,
        cv: int = 5,
        seed: int = 0,
        input: InputKind = "probability",
        allow_inversion: bool = False,
        exportable: Exportable | None = None,
    ) -> None:
        self.cv = cv
        self.seed = seed
        self.input = input
        self.allow_inversion = allow_inversion
        self.exportable = exportable

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        features: object = None,
    ) -> Self:
        """Choose and fit the blend.

        Parameters
        ----------
        scores, y, sample_weight, classes
            As for every calibrator.
        cluster : array-like of shape (n,), optional
            The cluster of each row, such as a patient: no cluster is fitted to and held out at once, and the standard
            errors of the choice are between clusters.
        time, label_end : array-like of shape (n,), optional
            When each row was predicted, and when its label was known: folds are blocks in time, and labels that
            overlap those of a held-out block are not fitted to.
        features : None
            Refused: what is fitted here is one map of scores. `SegmentCalibrator` takes features, and chooses between
            this calibrator alone and segments on top of it, by the same rule.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        self.check_params()
        if features is not None:
            raise InvalidInputError(
                "an AutoCalibrator is one map of scores, which can't depend on features. Call "
                f"SegmentCalibrator({self!r}).fit(scores, y, features=features): it leaves segments out where held-out "
                "loss doesn't fall."
            )
        what: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
        what |= {"cluster": cluster, "time": time, "label_end": label_end}
        rows = read_rows(scores, y, input=self.input, both_classes=True, **what)
        warn_of_rows(rows, allow_inversion=self.allow_inversion)
        return self.fit_rows(rows)

    def encode(self) -> dict[str, Any]:
        found = super().encode()
        return {**found, "report": self.report_.encode()} if hasattr(self, "report_") else found

    def read_report(self, field: DocumentField) -> None:
        self.report_ = AutoReport.decode(field)

    def describe(self) -> list[str]:
        tried = under("How it was chosen", str(self.report_).split("\n")) if hasattr(self, "report_") else []
        return [*super().describe(), *tried]

    def check_params(self) -> None:
        super().check_params()
        check_integer("cv", self.cv, minimum=2)
        check_integer("seed", self.seed, minimum=0)
        check_flag("allow_inversion", self.allow_inversion)
        if self.exportable is not None:
            check_choice("exportable", self.exportable, EXPORTABLE)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        summary = data.summary()
        if summary.scores.size == 1:
            return self._fit_constant(summary)
        in_order = inverted_share(summary, data if isinstance(data, Rows) else None)
        falls = in_order is not None and self.allow_inversion
        if falls:  # the rising fits are of the negative class
            data = turned(data)
            summary = data.summary()
        if isinstance(data, Rows) and data.declared:
            sample, n = some_of(data, self.seed), data.n_rows
        else:
            sample, n = sample_of(summary, self.seed)
        tried = _candidates(self.input, is_small=sample.n_rows <= _MOST_KEPT)
        may_go = np.array([name == "venn_abers" for name in tried])
        evidence, z, weights = gather(
            sample,
            row_splits(sample, self.cv, rng=self.seed),
            lambda folds: _by_fit(tried, sample, folds),
            lambda held: _blend_weights(held, sample, may_go),
            seed=self.seed,
        )
        uniform = limits.SPARE / (n + limits.SPARE)
        sign = np.where(sample.positive, 1.0, -1.0)

        def of_blend(weights: FloatArray) -> FloatArray:
            return -np.log(mixed_with_half(expit(sign * np.einsum("j,jki->ki", weights, z)), uniform))

        loss = {name: softplus(-sign * each) for name, each in zip(tried, z, strict=True)}
        is_certain = self.input == "probability" and not 0.0 < summary.scores[0] <= summary.scores[-1] < 1.0
        at_once = None
        if NONE in tried and not is_certain:
            as_they_are = cast("BetaMap | LogisticMap", tried[NONE]([sample], {})[0])
            at_once = log_bayes_factor(as_they_are.logits(LoggedScores(sample.scores)), sample)
        self.report_, weights = evidence.weigh(loss, of_blend, weights, is_certain=is_certain, at_once=at_once)
        self.report_ = limits.sampled_report(self.report_, n)
        if in_order is not None:
            self.report_ = limits.inverted_report(self.report_, in_order, is_turned=falls)
        used = weights >= limits.LEAST_WEIGHT
        with hold_warnings(DataWarning):  # the report says which candidates were of use
            (kept,) = _fit_all(dict(itertools.compress(tried.items(), used)), [summary])
        if self.report_.chosen == NONE:
            return cast("BetaMap", kept[0])
        return BlendMap(kept, weights[used] / weights[used].sum(), LEAST, uniform, falls)

    def _fit_constant(self, summary: ScoreSummary) -> BinaryMap:
        rate = summary.base_rate
        entropy = -rate * float(np.log(rate)) - (1.0 - rate) * float(np.log1p(-rate))
        base = Candidate("base_rate", entropy, np.nan, np.nan, 1.0)
        reason = "Constant scores tell no row from another: they become the base rate."
        self.report_ = AutoReport((), base, base.name, reason, round(summary.total_weight), 0)
        fitted = cast("BetaMap | LogisticMap", SigmoidCalibrator(input=self.input).fit_map(summary))
        return fitted if isinstance(fitted, BetaMap) else BlendMap((fitted,), np.ones(1), LEAST)

    def map_of(self, rows: Rows) -> Map:
        if rows.n_classes == 2:
            return super().map_of(rows)
        self._check_classes(rows.n_classes)
        fitted, self.report_ = fit_classes(rows, **self._how())
        return fitted

    def map_of_stream(self, stream: RowStream) -> Map:
        """Weigh the candidates on a sample of the rows, and fit those that count to all of them."""
        if len(stream.classes) == 2:
            return super().map_of_stream(stream)
        self._check_classes(len(stream.classes))
        sample = stream.sample(_SPARE * limits.MOST_ROWS, rng=self.seed)
        fitted, self.report_ = fit_classes(sample, stream=stream, **self._how())
        return fitted

    def _how(self) -> dict[str, Any]:
        return {"input": self.input, "cv": self.cv, "seed": self.seed, "coupling": coupling_of(self.exportable)}

    def _check_classes(self, n_classes: int) -> None:
        if self.allow_inversion:
            raise InvalidInputError(f"allow_inversion is for two classes, and there are {n_classes}. Leave it out.")

    def takes_summary(self, stream: RowStream) -> bool:
        return stream.is_binary

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        if n_classes > 2 and isinstance(fitted, SoftmaxMap):
            fitted.check_fit(self.input, n_classes, field)
        elif n_classes > 2 and isinstance(fitted, LogPoolMap):
            for item, part in zip(field.member("maps").items(), fitted.maps, strict=True):
                self._check_part(part, n_classes, item)
        else:
            super().check_map(fitted, n_classes, field)

    def _check_part(self, part: PoolPart, n_classes: int, field: DocumentField) -> None:
        if isinstance(part, SoftmaxMap):
            part.check_fit(self.input, n_classes, field)
            return
        assert isinstance(part, OneVsRestMap)  # noqa: S101 - for the type checker: there are no other parts
        wanted = coupling_of(self.exportable)
        if part.coupling != wanted:
            field.refuse(f"couples rows by {part.coupling!r}, but {self!r} couples them by {wanted!r}")
        is_steps = any(isinstance(m, VennAbersMap) for m in part.maps)
        columns = VennAbersCalibrator if is_steps else SplineCalibrator
        check_columns(columns(input=self.input), part, n_classes, field)


#: A candidate: its map for each of several parts of the rows, given those of the candidates before it by their names.
_Fit: TypeAlias = Callable[[Sequence[Rows | ScoreSummary], Mapping[str, Sequence[BlendPart]]], Sequence[BlendPart]]


def _candidates(input: InputKind, *, is_small: bool) -> dict[str, _Fit]:
    """Return what is tried on scores of kind `input`, by name. Of many rows spline does what quadratic does."""
    rising = {"spline": _fit_of(SplineCalibrator(input=input)), "venn_abers": _fit_of(VennAbersCalibrator(input=input))}
    if input == "score":
        sigmoid = SigmoidCalibrator(input=input)

        def fit_sigmoid(data: Rows | ScoreSummary) -> BlendPart:
            found = cast("LogisticMap", sigmoid.fit_map(data))
            return found if found.slope >= 0.0 else LogisticMap(0.0, base_logit(data.tied()))

        return {"sigmoid": _one_by_one(fit_sigmoid), **rising}

    def as_it_is(data: Rows | ScoreSummary) -> BlendPart:
        ties = data.tied()
        return line_map(1.0, 0.0, own_clip(ties.scores, float(ties.weight.sum())) if input == "probability" else None)

    def scaled(data: Rows | ScoreSummary) -> BlendPart:
        return cast("BlendPart", TemperatureCalibrator(input=input).map_of(Rows.of_ties(data.tied())))

    tried: dict[str, _Fit] = {
        NONE: _one_by_one(as_it_is),
        "temperature": _one_by_one(scaled),
    }
    if is_small:
        tried["ensemble_temperature"] = _fit_mixture(tried["temperature"])
        tried["quadratic"] = _fit_of(QuadraticCalibrator(input=input))
    return {**tried, **rising}


def _fit_of(calibrator: BinaryCalibrator) -> _Fit:
    return lambda data, _: cast("list[BlendPart]", calibrator.fit_maps(data))


def _fit_mixture(fit_temperature: _Fit) -> _Fit:
    """Return ensemble temperature as a candidate, around the temperature where that has been fitted already."""

    def fit(data: Sequence[Rows | ScoreSummary], made: Mapping[str, Sequence[BlendPart]]) -> list[BlendPart]:
        first = made.get("temperature") or fit_temperature(data, made)
        scaled = cast("Sequence[BetaMap | LogisticMap]", first)
        return [
            cast("BlendPart", map_around(each, Rows.of_ties(part.tied())))
            for each, part in zip(scaled, data, strict=True)
        ]

    return fit


def _one_by_one(fit: Callable[[Rows | ScoreSummary], BlendPart]) -> _Fit:
    """Return a candidate whose fits share no work."""
    return lambda data, _: [fit(each) for each in data]


def _fit_all(tried: Mapping[str, _Fit], parts: Sequence[Rows | ScoreSummary]) -> list[tuple[BlendPart, ...]]:
    """Return, for each part of the rows, the map that each candidate fits to it."""
    made: dict[str, Sequence[BlendPart]] = {}
    for name, fit in tried.items():
        made[name] = fit(parts, made)
    return list(zip(*made.values(), strict=True))


def _by_fit(tried: dict[str, _Fit], sample: Rows, folds: list[Split]) -> FloatArray:
    """Return the logit of each row by each candidate's fit without each fold, shape (J, k, n).

    Where the rest shows one class it is that of its smoothed rate, but for scores as they are. Of many rows only the
    logits of those held out are kept, and k is one.
    """
    is_kept = sample.n_rows <= _MOST_KEPT
    out = np.empty((len(tried), len(folds) if is_kept else 1, sample.n_rows))
    for i, (held, rest, fitted) in enumerate(fits_together(sample, folds, partial(_fit_all, tried))):
        at = (i, slice(None)) if is_kept else (0, held)
        n_positive = int(np.count_nonzero(rest.positive))
        given = LoggedScores(sample.scores[at[1]])
        out[:, *at] = np.log((n_positive + 1.0) / (rest.n_rows - n_positive + 1.0))
        for j, (name, fit) in enumerate(tried.items()):
            if fitted is not None or name == NONE:  # which takes no labels
                part = fit([rest], {})[0] if fitted is None else fitted[j]
                out[j, *at] = part.output_logits(given, LEAST)
    return out


def _blend_weights(z: FloatArray, sample: Rows, may_go: BoolArray) -> FloatArray:
    """Return the weights of the candidates in a mean of their logits `z`, shape (J, n)."""
    n_tried, n = z.shape
    z = np.clip(z, -MOST_LOGIT, MOST_LOGIT)
    y = sample.positive.astype(np.float64)
    w = sample.weights * (n / sample.total_weight)

    def log_loss(weights: FloatArray) -> float:
        mean = np.einsum("j,ji->i", weights, z)
        return dot(w, softplus(mean) - y * mean)

    def derivatives(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = expit(np.einsum("j,ji->i", weights, z))
        bent = z * np.sqrt(w * q * (1.0 - q))
        return np.einsum("ji,i->j", z, w * (q - y)), np.einsum("ji,li->jl", bent, bent)

    return least_weights(log_loss, derivatives, n_tried=n_tried, may_go=may_go, most_rise=_WORTH)
