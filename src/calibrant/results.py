"""Values that calibrant gives back: a figure with its interval and origin, a curve, metrics of a fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from calibrant.errors import unknown_name
from calibrant.numerics import FloatArray
from calibrant.phrases import bracketed, count, figure
from calibrant.readable import Readable, rows_as_columns
from calibrant.sketch import sketch_of_curve

#: Columns of scores in a frame, in this order.
_IN_FRAMES = ("name", "value", "low", "high", "level", "n", "n_eff", "method", "evaluated_on", "where", "note")


class Plain(Readable):
    """A dataclass whose fields can be had as plain Python values, as a table and as a data frame."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; what is not finite becomes None."""
        return {key: plain(value) for key, value in asdict(cast("Any", self)).items()}


@dataclass(frozen=True, slots=True, repr=False)
class Score(Plain):
    """A measured value with its interval, and where both come from.

    Attributes
    ----------
    name : str
        Name of the metric.
    value : float
        The estimate; NaN where the data can't define it, with the reason in `note`.
    low, high : float
        Ends of the interval at `level`; NaN where there is none.
    level : float
        Nominal coverage of the interval.
    n : int
        Number of rows.
    method : str
        How the interval was found.
    evaluated_on : str
        What the rows were: "given data" unless the caller said more, such as "held-out".
    note : str
        What a reader must know, or an empty string.
    where : str
        Which part of the rows it is of, such as a bin or a class; an empty string where it is of all of them.
    n_eff : float
        Number of independent rows of equal weight that say as much: Kish's of the weights, over the design effect of
        clusters or overlapping labels and what few of them ask for. By default all rows.
    """

    name: str
    value: float
    low: float
    high: float
    level: float
    n: int
    method: str
    evaluated_on: str = "given data"
    note: str = ""
    where: str = ""
    n_eff: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.n_eff):
            object.__setattr__(self, "n_eff", float(self.n))

    def __str__(self) -> str:
        return f"{self.name} {figure(self.value)} {bracketed(self.low, self.high)}".rstrip()


@dataclass(frozen=True, slots=True, repr=False)
class JointTest(Plain):
    """One test of calibration against all ways of being off; see `calibrant.metrics.joint_test`.

    Attributes
    ----------
    p_value : float
        Chance of evidence as strong, all ways of being off together, if the probabilities are calibrated.
    parts : dict of float
        The p-value of each way alone: "mean", "slope", "confidence", "bend", "range" and "bins" where they can be
        told, and "impossible", 0, where something happened that had probability 0. Of several classes those of the top
        label, and that of all classes under the name of the class that is furthest off.
    """

    p_value: float
    parts: Mapping[str, float]

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {"part": ["all", *self.parts], "p_value": [self.p_value, *self.parts.values()]}

    @property
    def strongest(self) -> str:
        """The part that found most; an empty string where there is none."""
        return min(self.parts, key=self.parts.__getitem__, default="")


class Scores(Readable, Mapping[str, Score]):
    """Scores by name, in the order they were measured in.

    Attributes
    ----------
    verdict : str
        What the scores say, in a sentence or two.
    test : JointTest or None
        The test of calibration that the verdict goes by, of rows and of groups of rows.
    notes : list of str
        What a reader must know of the rows: which label was taken for the positive one, where nobody said it, and a
        sign that rows are not independent, where nothing was declared.
    n_skipped : int
        Number of rows that were left out because they lack a value, where this was asked for.
    """

    n_skipped: int = 0
    _left_to_frames = ("level", "n", "n_eff", "method", "evaluated_on", "where", "note")

    def __init__(
        self, scores: list[Score], *, verdict: str, test: JointTest | None = None, notes: Sequence[str] = ()
    ) -> None:
        self._by_name = {score.name: score for score in scores}
        self.verdict = verdict
        self.test = test
        self.notes = list(notes)

    def __getitem__(self, name: str) -> Score:
        if name not in self._by_name:
            raise _MissingScoreError(str(unknown_name("score", name, self._by_name)))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def level(self) -> float | None:
        """Nominal coverage of the intervals; None where there are no scores."""
        return next((score.level for score in self.values()), None)

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([{part: getattr(score, part) for part in _IN_FRAMES} for score in self.values()])

    def _before(self) -> list[str]:
        return [self.verdict, *self.notes]

    def _after(self) -> list[str]:
        notes = [f"{score.name}: {score.note}" for score in self.values() if score.note]
        skipped = [f"{count(self.n_skipped, 'row')} left out for missing values"] if self.n_skipped else []
        return [*notes, *skipped]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and every score as plain Python values."""
        more: dict[str, Any] = {"notes": self.notes} if self.notes else {}
        more |= {} if self.test is None else {"test": self.test.to_dict()}
        more |= {"n_skipped": self.n_skipped} if self.n_skipped else {}
        scores = {name: score.to_dict() for name, score in self.items()}
        return {"verdict": self.verdict, **more, "scores": scores}


class _MissingScoreError(KeyError):
    """A KeyError, as mappings raise, whose text reads like a sentence."""

    def __str__(self) -> str:
        return str(self.args[0])


def scores_as_columns(rows: Sequence[Scores]) -> dict[str, Sequence[Any]]:
    """Return the scores that all of several measurements have, as columns with one row for each measurement."""
    shown = [name for name in rows[0] if all(name in scores for scores in rows)]
    columns: dict[str, Sequence[Any]] = {"n": [scores[shown[0]].n for scores in rows]}
    for name in shown:
        columns[name] = [scores[name].value for scores in rows]
        for end in ("low", "high"):
            columns[f"{name}_{end}"] = [getattr(scores[name], end) for scores in rows]
    return columns


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Curve(Readable):
    """A reliability curve: how often the event happened against how often it was predicted.

    Attributes
    ----------
    x : ndarray of shape (m,)
        Mean predicted probability in each bin.
    y : ndarray of shape (m,)
        Observed rate in each bin.
    low, high : ndarray of shape (m,)
        Pointwise interval of the rate.
    n : ndarray of shape (m,)
        Weight in each bin; the number of rows where unweighted.
    edges : ndarray of shape (m, 2)
        Lower and upper end of each bin.
    level : float
        Nominal coverage of the intervals.
    strategy : str
        How the bins were made.
    label : str
        What the curve shows, for a legend.
    band_low, band_high : ndarray of shape (m,) or None
        Pointwise consistency band: where the rates of calibrated probabilities would lie, at `level`.
    """

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    n: FloatArray
    edges: FloatArray
    level: float
    strategy: str
    label: str = ""
    _of_ends = ("edges",)
    band_low: FloatArray | None = None
    band_high: FloatArray | None = None

    def _picture(self) -> str:
        end = max(*self.x.tolist(), *self.y.tolist())
        top = 1.0 if end > 0.5 else end * 1.1 or 1.0
        bars = zip(self.x.tolist(), self.low.tolist(), np.minimum(self.high, top).tolist(), strict=True)
        words = f"Reliability curve{f', {self.label}' if self.label else ''}, of {count(self.x.size, 'bin')}"
        axes = ("predicted", "observed")
        x, y = self.x.tolist(), self.y.tolist()
        return sketch_of_curve(x, y, x_range=(0.0, top), top=top, words=words, axes=axes, bars=bars, dots=True)


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationMetrics(Plain):
    """What `ProbabilityCalibrator.fit` measured.

    The "after" figures are out of fold: every row was calibrated by a map that was fitted without it. The
    "in_sample" figures score the final map on the rows it was fitted on, and flatter it.

    Attributes
    ----------
    brier_before, brier_after : float
        Brier score, mean over rows: the squared error of one column of probabilities, in [0, 1], or the sum of those of
        all columns, in [0, 2].
    ece_before, ece_after : float
        Expected calibration error of the top label, ten equal bins, that as many new rows would show. Both hold what
        noise adds to the error of so many rows. That of `reliability_bins` is lower than `ece_after`: the maps of the
        folds are fitted to the rows that each other is measured on, so that their errors cancel where folds are
        pooled. The difference is made up for; see Notes.
    reliability_bins : dict
        `bin_centers`, `bin_accuracies`, `bin_confidences`, `bin_counts`: ten equal bins of the calibrated top-label
        confidence, out of fold. Accuracy and confidence of an empty bin are 0, with count 0.
    brier_in_sample, ece_in_sample : float
        The final map on its own rows.
    brier_no_skill : float
        Brier score of predicting the class frequencies for every row.
    method : str
        The method that was used, "isotonic" or "sigmoid".
    n_rows, n_folds : int
        Rows, and folds of the out-of-fold figures.
    evaluated_on : str
        What the "after" figures were measured on.

    Notes
    -----
    A bin's gap between probability and rate varies more on new rows than it does out of fold, by twice the covariance
    of its mean probability and its rate. This is estimated by how much leaving out a fold moves the one and the other,
    a covariance penalty (Efron 2004), and `ece_after` is the expected absolute gap with a normal error of that variance
    added. On real and simulated score sets its mean was within a tenth of that of new rows from 100 to 3,000 rows; that
    of a single set varies as any ECE of so many rows does.

    References
    ----------
    Efron (2004), *The estimation of prediction error: covariance penalties and cross-validation*, JASA 99.
    """

    brier_before: float
    brier_after: float
    ece_before: float
    ece_after: float
    reliability_bins: dict[str, list[float]]
    brier_in_sample: float = float("nan")
    ece_in_sample: float = float("nan")
    brier_no_skill: float = float("nan")
    method: str = ""
    n_rows: int = 0
    n_folds: int = 0
    evaluated_on: str = "out of fold"

    def _columns(self) -> dict[str, Sequence[Any]]:
        none = float("nan")
        return {
            "score": ["brier", "ece"],
            "before": [self.brier_before, self.ece_before],
            "after": [self.brier_after, self.ece_after],
            "in_sample": [self.brier_in_sample, self.ece_in_sample],
            "no_skill": [self.brier_no_skill, none],
        }

    def _before(self) -> list[str]:
        rows = f", {count(self.n_rows, 'row')} in {self.n_folds} folds" if self.n_rows else ""
        return [f"{self.method}{rows}; after is {self.evaluated_on}".lstrip(", ")]


def plain(value: Any) -> Any:
    """Return dicts, lists and Python scalars of the same content; what is not finite, which JSON lacks, as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
