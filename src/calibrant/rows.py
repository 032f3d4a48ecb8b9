"""Rows: the one type of checked rows. `read_rows` makes them; whatever takes them checks nothing again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import (
    Dependence,
    TimeArray,
    as_label_times,
    check_both_times,
    cluster_folds,
    effective_rows,
    stratified_folds,
    time_blocks,
)
from calibrant.errors import CalibrantError, InvalidInputError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray, expit, kish_size, softmax
from calibrant.summary import ScoreSummary, TiedScores
from calibrant.validation import (
    NUMPY,
    ArrayLike,
    Container,
    Feature,
    FeatureKind,
    InputKind,
    Labels,
    Scores,
    as_groups,
    as_labels,
    as_scores,
    as_weight,
    check_both_classes,
    check_one_column,
    check_same_length,
    match_classes,
    read_features,
    series_name,
)

_BINARY = np.array([False, True])
#: Between these are the largest errors of predictions of a number: sums of their squares are numbers.
_LEAST_ERROR, _LARGEST_ERROR = 1e-140, 1e140


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Checked rows: scores, and what else is known of each row.

    Rows of weight zero have been dropped. All arrays have one entry per row; what is not known is None, as is `weight`
    where all are one. `scores` are those of the positive class, shape (n,), or one column for each of the sorted
    classes, shape (n, K), whose names are `columns`. Scores may be predictions of a number: `outcomes` are what came.
    `groups` are columns that name subgroups of rows, `features` columns by which segments are found. Not independent
    are rows of one `cluster`, numbered from 0, and labels whose spans, from `time` to `label_end`, overlap. `container`
    is what the scores came in, so that results go out as the same kind.
    """

    scores: FloatArray
    labels: Labels | None = None
    weight: FloatArray | None = None
    input: InputKind = "probability"
    columns: tuple[str, ...] | None = None
    groups: Mapping[str, Labels] = field(default_factory=dict)
    features: Mapping[str, Feature] | None = None
    cluster: IntArray | None = None
    time: TimeArray | None = None
    label_end: TimeArray | None = None
    outcomes: FloatArray | None = None
    container: Container = NUMPY

    @classmethod
    def of_positives(cls, scores: FloatArray, positive: BoolArray, weight: FloatArray | None = None) -> Rows:
        """Make rows of one score from checked arrays."""
        return cls(scores, Labels(positive.view(np.uint8), _BINARY), weight)

    @classmethod
    def of_ties(cls, ties: TiedScores) -> Rows:
        """Make a positive and a negative row of each tie, of its weight, where it has any."""
        weight = np.concatenate((ties.positives, ties.weight - ties.positives))
        positive = np.repeat(np.array([True, False]), ties.scores.size)
        kept = weight > 0.0
        return cls.of_positives(np.concatenate((ties.scores, ties.scores))[kept], positive[kept], weight[kept])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scores)

    @property
    def n_columns(self) -> int:
        """Number of columns of scores."""
        return 1 if self.is_binary else self.scores.shape[1]

    @property
    def declared(self) -> tuple[str, ...]:
        """What is declared of rows that depend on each other: of "cluster", "label_end" and "time"."""
        return tuple(name for name in ("cluster", "label_end", "time") if getattr(self, name) is not None)

    @property
    def is_binary(self) -> bool:
        """Whether there is one score per row, of the positive class."""
        return self.scores.ndim == 1

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The sorted classes, shape (K,)."""
        return self.checked_labels().classes

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def codes(self) -> npt.NDArray[np.integer[Any]]:
        """The index of each row's label among the classes, shape (n,)."""
        return self.checked_labels().codes

    @property
    def positive(self) -> BoolArray:
        """Whether each row is of the last of two classes, shape (n,)."""
        return self.checked_labels().positive

    @property
    def residuals(self) -> FloatArray:
        """Outcome less score of each row, shape (n,); the outcome of a positive row is 1, of a negative one 0."""
        return (self.positive if self.outcomes is None else self.outcomes) - self.scores

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the number of rows where all are one."""
        return float(self.n_rows) if self.weight is None else float(self.weight.sum())

    @property
    def effective_size(self) -> float:
        """The number of independent rows of equal weight that say as much.

        Kish's (sum w)^2 / sum w^2. With clusters, w are the sums of their weights, as if all rows of a cluster said the
        same. With labels that overlap in time, it is multiplied by the mean uniqueness of a label (López de Prado 2018,
        section 4.3).
        """
        if self.cluster is not None:
            return kish_size(np.bincount(self.cluster, weights=self.weights).astype(np.float64))
        size = float(self.n_rows) if self.weight is None else kish_size(self.weight)
        if self.time is None or self.label_end is None:
            return size
        return size * effective_rows(self.time, self.label_end) / self.n_rows

    @property
    def class_weight(self) -> FloatArray:
        """Sum of the weights of each class, shape (K,): the number of rows where all are one."""
        return np.bincount(self.codes, weights=self.weight, minlength=self.n_classes).astype(np.float64)

    def counted(self) -> Rows:
        """Return the rows whose weight is above zero, with the groups and clusters that they show."""
        if self.weight is None or self.weight.all():
            return self
        kept = self.part(self.weight > 0.0)
        groups = {name: labels.present() for name, labels in kept.groups.items()}
        return replace(kept, weight=as_weight(kept.weight, kept.n_rows), groups=groups)

    def part(self, at: IntArray | BoolArray) -> Rows:
        """Return some of the rows as rows of their own: as `take`, with the clusters that they show."""
        kept = self.take(at)
        if kept.cluster is None:
            return kept
        return replace(kept, cluster=np.unique(kept.cluster, return_inverse=True)[1])

    def take(self, at: IntArray | BoolArray) -> Rows:
        """Return some of the rows, by number or by a mask; all classes stay, also those that lose their rows."""

        def some(values: Any) -> Any:
            return None if values is None else values[at]

        return replace(
            self,
            scores=self.scores[at],
            labels=None if self.labels is None else self.labels.take(at),
            weight=some(self.weight),
            groups={name: labels.take(at) for name, labels in self.groups.items()},
            features=self.features and {name: column.take(at) for name, column in self.features.items()},
            cluster=some(self.cluster),
            time=some(self.time),
            label_end=some(self.label_end),
            outcomes=some(self.outcomes),
        )

    def with_scores(self, scores: FloatArray, *, input: InputKind = "probability") -> Rows:
        """Return the same rows with other scores, such as calibrated probabilities."""
        return replace(self, scores=scores, input=input)

    def probabilities(self) -> FloatArray | None:
        """Return the scores as probabilities, without calibration; None for raw scores."""
        match self.input:
            case "probability":
                return self.scores
            case "logit":
                return expit(self.scores) if self.is_binary else softmax(self.scores)
            case "score":
                return None

    def folds(self, n_folds: int, *, rng: int = 0, strata: IntArray | None = None) -> IntArray:
        """Return the fold, 0 to `n_folds` - 1, of each row; the same seed `rng` gives the same folds.

        Each class is spread evenly over the folds, or each stratum, where `strata` numbers them from 0; clusters stay
        whole. Rows with times make consecutive blocks: among shuffled ones, neighbours with almost the same label would
        tell it.
        """
        if self.cluster is not None:
            return cluster_folds(self.codes if strata is None else strata, self.cluster, n_folds, rng)
        if self.time is not None:
            return time_blocks(self.time, n_folds)
        return stratified_folds(self.codes if strata is None else strata, n_folds, rng)

    def split(self, folds: IntArray, fold: int) -> tuple[Rows, Rows]:
        """Return the rows to fit to where a fold is held out, and the rows of the fold."""
        held_out = folds == fold
        return self.take(self.fitted_without(folds, fold)), self.take(held_out)

    def fitted_without(self, folds: IntArray, fold: int) -> BoolArray:
        """Say which rows may be fitted to where a fold is held out: those whose labels overlap no label of the fold."""
        return Dependence(time=self.time, label_end=self.label_end).fitted_without(folds, fold)

    def of_class(self, k: int) -> Rows:
        """Return class `k` against the rest: its column of scores, and whether each row is of it."""
        if self.is_binary:
            column = self.scores if k == 1 else 1.0 - self.scores
        else:
            column = np.ascontiguousarray(self.scores[:, k])
        return self._one_score(column, self.codes == k)

    def one_column(self) -> Rows:
        """Return binary rows as they are, and the top label of others."""
        return self if self.is_binary else self.top_label()

    def top_label(self) -> Rows:
        """Return the largest probability of each row, of equal ones the first, and whether the row is of its class."""
        if self.is_binary:
            return self._one_score(np.maximum(self.scores, 1.0 - self.scores), (self.scores > 0.5) == self.positive)
        top = self.scores.argmax(axis=1)
        return self._one_score(np.take_along_axis(self.scores, top[:, None], axis=1)[:, 0], top == self.codes)

    def summary(self) -> ScoreSummary:
        """Sort rows of one score into a summary."""
        return ScoreSummary.from_rows(self.scores, self.positive, self.weight)

    def tied(self) -> TiedScores:
        """Return each row of one score as a tie of its own, without sorting."""
        positive = self.positive
        if self.weight is None:
            one = np.broadcast_to(1.0, self.scores.shape)  # costs no memory
            return TiedScores(self.scores, one, positive.astype(np.float64))
        return TiedScores(self.scores, self.weight, np.where(positive, self.weight, 0.0))

    def _one_score(self, scores: FloatArray, positive: BoolArray) -> Rows:
        return replace(self, scores=scores, labels=Labels(positive.view(np.uint8), _BINARY), columns=None)

    def checked_labels(self) -> Labels:
        """Return the labels, or say that there are none."""
        if self.labels is None:
            raise InvalidInputError("these rows have no labels. Pass rows with labels.")
        return self.labels


def read_rows(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    names: tuple[str, ...] = ("scores", "y"),
    where: str = "",
    input: InputKind = "probability",
    sum_to_one: bool = True,
    match_names: bool = True,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: object = None,
    both_classes: bool = False,
    groups: Mapping[str, ArrayLike] | None = None,
    features: object = None,
    feature_kinds: Mapping[str, FeatureKind] | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    outcomes: FloatArray | None = None,
) -> Rows:
    """Check all that describes rows, match columns of scores to classes by name, and drop rows of weight zero.

    See `Rows` for most arguments. `names` is what the caller calls scores, labels and weights, for the messages, and
    `where` the file whose columns the others are; `classes` are all classes, sorted, where `y` may lack some;
    `pos_label` is the positive one of two labels, by default the larger; with `both_classes`, rows of one class only
    are refused; with `sum_to_one`, each row of K probabilities must sum to one; without `match_names`, columns stand
    in the order of the classes, whatever they are called; `outcomes` have been checked. Raises CalibrantError where an
    argument can't be used.
    """
    try:
        checked = as_scores(scores, name=names[0], input=input, sum_to_one=sum_to_one, takes_one_column=True)
    except InvalidInputError:
        _refuse_swapped(scores, y, names)
        raise
    n, n_columns = checked.values.shape[0], checked.n_columns
    if n_columns > 1 and pos_label is not None:
        raise InvalidInputError(
            f"pos_label={pos_label!r} is for one column of probabilities, but {names[0]} has {n_columns}. "
            "Leave pos_label out: columns follow the sorted classes."
        )
    labels = as_labels(y, name=names[1], classes=classes, pos_label=pos_label, n_columns=n_columns)
    check_one_column(labels, n_columns, names[1], names[0])
    if names[1] == "y_true":  # the caller's labels come first
        check_same_length(labels.codes.size, n, names[1], names[0])
    else:
        check_same_length(n, labels.codes.size, *names[:2])
    checked = by_class(checked, labels.classes, names[0]) if match_names else checked
    weight = as_weight(sample_weight, n, rows=names[0], name=names[2] if len(names) > 2 else "sample_weight")
    if both_classes:
        check_both_classes(labels, names[1], weight)
    check_both_times(time, label_end)
    start, end = (None, None) if time is None or label_end is None else as_label_times(time, label_end)
    if start is not None:
        check_same_length(n, start.size, names[0], "time")
    own_name = series_name(scores) if n_columns == 1 else None
    rows = Rows(
        checked.values,
        labels,
        weight,
        input=input,
        columns=checked.container.columns if own_name is None else (own_name,),
        groups={name: _grouped(column, name, n, names[0], where) for name, column in (groups or {}).items()},
        features=None if features is None else read_features(features, n, names[0], kinds=feature_kinds, where=where),
        cluster=None if cluster is None else _grouped(cluster, "cluster", n, names[0], where).codes.astype(np.int64),
        time=start,
        label_end=end,
        outcomes=outcomes,
        container=checked.container,
    )
    return rows.counted()


def read_number_rows(predictions: ArrayLike, y: ArrayLike, *, names: tuple[str, ...], **what: Any) -> Rows:
    """Check predictions of a number, the outcomes `y`, and what else describes the rows: `what`, as in `read_rows`."""
    values, outcomes = as_column(predictions, names[0]).values, as_column(y, names[1]).values
    check_same_length(values.size, outcomes.size, *names[:2])
    no_classes = np.zeros(values.size, dtype=np.bool_)
    rows = read_rows(values, no_classes, names=names, input="score", classes=_BINARY, outcomes=outcomes, **what)
    check_squares(rows, *names[:2])
    return rows


def check_squares(rows: Rows, predictions: str, outcomes: str) -> None:
    """Refuse predictions of a number where the square of an error overflows, or those of all errors vanish."""
    with np.errstate(over="ignore"):
        most = float(np.abs(rows.residuals).max(initial=0.0))
    if most != 0.0 and not _LEAST_ERROR <= most <= _LARGEST_ERROR:
        raise InvalidInputError(
            f"{outcomes} and {predictions} differ by up to {most:.3g}, of which squares are no numbers. Give both in "
            "units that are nearer to their size."
        )


def as_column(values: ArrayLike, name: str) -> Scores:
    """Check one finite number per row."""
    checked = as_scores(values, name=name, input="score", sum_to_one=False)
    if checked.values.ndim != 1:
        raise InvalidInputError(f"{name} has shape {checked.values.shape}. Pass one number per row, shape (n,).")
    return checked


def _refuse_swapped(scores: ArrayLike, y: ArrayLike, names: tuple[str, ...]) -> None:
    """Raise where a matrix of probabilities stands in the place of the labels."""
    try:
        found = as_scores(y, name=names[1], input="probability", sum_to_one=False)
        as_labels(scores, name=names[0])
    except CalibrantError:
        return
    if found.n_columns > 1:
        called = names[::-1][-2:] if names[1] == "y_true" else names[:2]
        raise ShapeError(
            f"{names[1]} has {found.n_columns} columns of probabilities and {names[0]} holds labels "
            f"({found.values.shape[0]:,} rows): the two are swapped. Pass {called[0]} first, {called[1]} second."
        )


def by_class(scores: Scores, classes: npt.NDArray[Any], name: str) -> Scores:
    """Put the columns of scores into the order of the classes, where their names say which is which."""
    if scores.container.columns is None or scores.n_columns == 1:
        return scores
    return scores.ordered(match_classes(scores.container.columns, classes.tolist(), name=name))


def _grouped(column: ArrayLike, name: str, n: int, scores: str, where: str) -> Labels:
    called = f"column {name!r} of {where}" if where else name
    labels = as_groups(column, name=called)
    check_same_length(n, labels.codes.size, scores, called)
    return labels
