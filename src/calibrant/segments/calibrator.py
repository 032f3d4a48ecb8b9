"""SegmentCalibrator: the scores by a map of their own, and trees that find where that is not enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from calibrant.calibrators import (
    Calibrator,
    decode_calibrator_setting,
    encode_calibrator_setting,
    make_calibrator,
    warn_of_rows,
)
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.fitted import MapFitted, apply_map, as_one_score
from calibrant.maps import Map, decode_map, softmax_formula, term_logit
from calibrant.numerics import LEAST, FloatArray, clip_open, expit, logit, open_ends, softmax, two_columns
from calibrant.phrases import listed, under
from calibrant.row_stream import RowStream
from calibrant.rows import Rows, read_rows
from calibrant.segments.encoded import EncodedRows
from calibrant.segments.streaming import encode_stream
from calibrant.segments.trees import TREE_SETTINGS, Names, TreesOnFeatures, decode_tree_settings
from calibrant.storable import register
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    Labels,
    as_scores,
    as_weight,
    check_both_classes,
    check_choice,
    check_same_length,
    feature_columns,
)

#: What the labels are: classes, or the share of a row's weight that is of the positive class.
Target: TypeAlias = Literal["class", "share"]
_TARGETS: tuple[Target, ...] = ("class", "share")


@register("segment_calibrator")
class SegmentCalibrator(TreesOnFeatures, MapFitted):
    """Calibrate scores within segments of rows: subgroups that trees find in features.

    A model can be calibrated overall and wrong for some of the rows. The scores get a calibrator of their own first;
    then gradient boosting from their calibrated logit, on this logit and the features, finds where the outcomes differ
    from it. How many trees there are, of what size and how much of them is used is chosen by cross-validation; where
    held-out loss does not fall beyond noise, there are none.

    Parameters
    ----------
    calibrator : str or Calibrator
        The calibrator of the scores, by name or as an instance, which is left unfitted.
    categorical, numeric : sequence of str, optional
        Names of features that are read as categories, such as codes of places, and as numbers. Others are read by their
        types: text, truth values and categoricals are categories, numbers are numbers.
    target : {"class", "share"}
        What `y` is: classes, or soft labels in [0, 1], the share of each row that is of the positive class, for scores
        of two classes.
    cv : int
        Number of folds, at least 2. Of 20,000 rows and more three of them are held out, each from all other rows.
    seed : int
        Seed of the folds.

    Attributes
    ----------
    map_ : Map
        The map of the scores.
    trees_ : TreesMap or None
        The sum of trees that is added to the logit, or to the log-probability of each class; None for none.
    columns_ : tuple of FeatureColumn
        The features of the fit, with the levels of categories.
    report_ : SegmentReport
        What was tried, and why it was chosen. Documents keep it, and `calibrant inspect` shows it.

    Notes
    -----
    With z the logit of the calibrated score, q = expit(z + f(z, features)), f being a sum of trees of LightGBM's with
    penalised leaves. Of K classes z has one log-probability for each, and q is the softmax. Numbers are cut at 250
    quantiles at most; of a category 254 levels are told apart, the most frequent ones. A missing value goes with what
    helps most on rows of the fit that lack it, and a level that the fit has not seen counts as missing.

    Folds are drawn without a look at the labels, and keep clusters, or overlapping labels, on one side. The map of the
    scores is fitted to all rows before the folds are drawn: it has few parameters, and its fit to the rows held out
    makes the trees' gain look a little smaller than it is. The sum of the trees is multiplied by the factor in [0, 1]
    of the least held-out loss. Then the belief that the change gains, by the likelihoods of the rows held out and the
    prior odds of `AutoCalibrator`, multiplies it again; below one half there are no trees. The trees of the result are
    grown on all rows, for as many more rounds than those of the folds as they are more rows. Each split chooses among
    half of the columns, four at least, drawn at random.

    Probabilities are then calibrated within groups, as far as the rows show that they are not; this says nothing of
    other criteria of fairness, and the ranking of rows changes. The same rows in the same order and the same seed give
    the same trees at any number of threads.

    References
    ----------
    Friedman (2001), *Greedy function approximation: a gradient boosting machine*, Annals of Statistics 29.
    Hebert-Johnson, Kim, Reingold and Rothblum (2018), *Multicalibration: calibration for the (computationally
    identifiable) masses*, ICML.

    Examples
    --------
    >>> import numpy as np, calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> p, age, city = rng.random(4_000), rng.uniform(20, 80, 4_000), rng.choice(["Bonn", "Rome"], 4_000)
    >>> y = rng.random(4_000) < np.where((age < 40) & (city == "Rome"), p**3, p)
    >>> calibrator = cb.SegmentCalibrator().fit(p, y, features={"age": age, "city": city})
    >>> calibrator.report_.chosen
    'segments'
    >>> q = calibrator.predict_proba([0.5, 0.5], features={"age": [30, 30], "city": ["Rome", "Bonn"]})
    >>> bool(q[0] < 0.25), bool(abs(q[1] - 0.5) < 0.1)
    (True, True)
    """

    takes_features = True
    fit_call: ClassVar[str] = "fit(scores, y, features=features)"

    def __init__(
        self,
        calibrator: str | Calibrator = "auto",
        *,
        categorical: Names = None,
        numeric: Names = None,
        target: Target = "class",
        cv: int = 5,
        seed: int = 0,
    ) -> None:
        self.calibrator = calibrator
        self.categorical = categorical
        self.numeric = numeric
        self.target = target
        self.cv = cv
        self.seed = seed

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are that the calibrator takes."""
        return make_calibrator(self.calibrator).input

    @property
    def n_numbers(self) -> int:
        return super().n_numbers + self.n_tree_numbers

    @property
    def n_margins(self) -> int:
        return 1 if self.takes_one else len(self.classes_)

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        features: object,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
    ) -> Self:
        """Fit the map of the scores, and the trees.

        Parameters
        ----------
        scores, y, sample_weight, classes
            As for `Calibrator.fit`; with ``target="share"`` y holds numbers in [0, 1].
        features : dict or data frame of columns of shape (n,)
            The features by name, all of which are used. Text, truth values and numbers; None or NaN where a value is
            missing.
        cluster, time, label_end : array-like of shape (n,), optional
            Rows that are not independent, as for `AutoCalibrator.fit`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        MissingPackageError
            If LightGBM is not installed.
        """
        self.check_params()
        what: dict[str, Any] = {"features": feature_columns(features), "feature_kinds": self.named_kinds()}
        what |= {"input": self.input, "cluster": cluster, "time": time, "label_end": label_end}
        if self.target == "share":
            rows = _rows_of_shares(scores, y, sample_weight, **what)
        else:
            rows = read_rows(scores, y, sample_weight=sample_weight, classes=classes, both_classes=True, **what)
        warn_of_rows(rows)
        return self.fit_rows(rows)

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        make_calibrator(self.calibrator).check_params()
        check_choice("target", self.target, _TARGETS)
        self.check_trees()

    def fit_rows(self, rows: Rows) -> Self:
        """Fit to checked rows with features."""
        return self._fit_encoded(EncodedRows.of(rows))

    def fit_stream(self, stream: RowStream) -> Self:
        """Fit to rows with features that are read in two passes: the fit in memory, of rows held as small as can be."""
        if self.target == "share":
            raise InvalidInputError('target="share" takes rows in memory only. Read them, and pass them to fit.')
        encoded = encode_stream(stream)
        check_both_classes(encoded.rows.checked_labels(), stream.labels)
        return self._fit_encoded(encoded)

    def _fit_encoded(self, encoded: EncodedRows) -> Self:
        rows = encoded.rows
        fitted = make_calibrator(self.calibrator).fit_rows(rows)
        is_binary = fitted.map_.is_binary
        target = as_one_score(rows, self.input).positive if is_binary else rows.codes
        margins = self._margins(fitted.map_, rows)
        self.grow(encoded, "binary" if is_binary else "classes", margins, target.astype(np.float64))
        self.map_ = fitted.map_
        self.take_over(fitted)
        return self

    def _margins(self, fitted: Map, rows: Rows) -> FloatArray:
        """Return the logit of each calibrated score, shape (n,), or the log-probabilities of all classes, (n, K)."""
        if fitted.is_binary:
            return logit(clip_open(fitted.apply(as_one_score(rows, self.input).scores), LEAST))
        return np.log(np.maximum(fitted.apply(rows.scores), LEAST))

    def apply(self, rows: Rows) -> FloatArray:
        if self.trees_ is None:
            return apply_map(self.map_, rows.scores, self.input)
        moved = self.moved(self._margins(self.map_, rows), rows.features)
        if not self.map_.is_binary:
            return softmax(moved)
        q = expit(moved)
        return q if rows.is_binary else two_columns(q)

    def facts(self) -> dict[str, str]:
        needed = listed(self.feature_names) or "none"
        return {**super().facts(), "features": self.columns_in_words(), "features needed": needed}

    def describe(self) -> list[str]:
        lines = under("The scores", super().describe())
        added_to = "the logit" if self.map_.is_binary else "the log-probabilities"
        return [*lines, *self.trees_in_words(added_to, "score")]

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        if self.trees_ is None:
            return super().formula(b, scores, n_columns)
        if not self.map_.is_binary:
            logs = b.hold(b.ln(b.clip(self.map_.formula(b, scores), LEAST, 1.0)))
            return softmax_formula(b, self.moved_formula(b, logs))
        q = super().formula(b, scores, n_columns)
        positive = q if n_columns == 1 else b.column(q, 1)
        z = b.hold(term_logit(b, b.clip(positive, *open_ends(LEAST))))
        out = b.hold(b.expit(self.moved_formula(b, z)))
        return out if n_columns == 1 else b.columns([1.0 - out, out])

    def encode(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in (*TREE_SETTINGS, "target")}
        return {
            "settings": {"calibrator": encode_calibrator_setting(self.calibrator), **settings},
            "classes": self.classes_,
            "n_rows": self.n_rows_,
            "score_names": self.score_names_,
            "map": self.fitted_map.encode(),
            **self.encode_trees(),
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        names = ("settings", "classes", "n_rows", "score_names", "map", "columns", "trees", "report")
        parts = body.members(names)
        settings = parts["settings"].members(("calibrator", *TREE_SETTINGS, "target"))
        made = cls(
            decode_calibrator_setting(settings["calibrator"], Calibrator),
            target=settings["target"].choice(_TARGETS),
            **decode_tree_settings(settings),
        )
        made.classes_ = parts["classes"].labels(minimum=2)
        n_classes = len(made.classes_)
        made.n_rows_ = parts["n_rows"].integer(minimum=0)
        made.score_names_ = parts["score_names"].score_names(n_classes, or_one=n_classes == 2)
        made.map_ = decode_map(parts["map"])
        make_calibrator(made.calibrator).check_map(made.map_, n_classes, parts["map"])
        made.decode_trees(parts)
        return made


def _rows_of_shares(scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, **what: Any) -> Rows:
    """Return rows of soft labels as two rows each, of the share that is positive and of the rest, in one cluster."""
    share = as_scores(y, name="y", input="probability", sum_to_one=False).values
    if share.ndim != 1:
        raise InvalidInputError(f'y has {share.shape[1]} columns. With target="share" pass one share per row.')
    n = share.size
    weight = as_weight(sample_weight, n, rows="y", name="sample_weight")
    rows = read_rows(scores, np.arange(n) % 2, names=("scores", "y"), **what)
    if rows.n_classes != 2 or (rows.scores.ndim > 1 and rows.scores.shape[1] > 2):
        raise InvalidInputError('target="share" is for two classes. Pass the scores of the positive class.')
    check_same_length(rows.n_rows, n, "scores", "y")
    w = np.ones(n) if weight is None else weight
    twice = rows.take(np.concatenate((np.arange(n), np.arange(n))))
    codes = np.repeat(np.array([1, 0], dtype=np.uint8), n)
    twice = replace(
        twice,
        labels=Labels(codes, np.array([0, 1])),
        weight=np.concatenate((w * share, w * (1.0 - share))),
        cluster=np.tile(np.arange(n), 2) if rows.cluster is None and rows.time is None else twice.cluster,
    )
    if not 0.0 < float(w @ share) < float(w.sum()):
        raise InvalidInputError(f"y is {share.max():g} in every row with weight. Pass rows of both classes.")
    return twice.counted()
