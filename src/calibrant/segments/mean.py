"""SegmentMeanCalibrator: predictions of a number by a line of their own, and trees where that is not enough."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from calibrant.applicable import Applicable
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, InvalidScoreError, ShapeError
from calibrant.numerics import LARGEST, LEAST, FloatArray
from calibrant.phrases import count, listed
from calibrant.row_stream import RowStream
from calibrant.rows import Rows, as_column, check_squares, read_number_rows
from calibrant.segments.encoded import EncodedRows
from calibrant.segments.streaming import encode_stream
from calibrant.segments.trees import TREE_SETTINGS, Names, TreesOnFeatures, decode_tree_settings
from calibrant.storable import register
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    Labels,
    Scores,
    at_first,
    feature_columns,
)

#: Between these is the root of any mean of squares.
_LEAST_SCALE, _LARGEST_SCALE = math.sqrt(LEAST), math.sqrt(LARGEST)


@register("segment_mean_calibrator")
class SegmentMeanCalibrator(TreesOnFeatures, Applicable):
    """Correct predictions of a number within segments of rows, so that their mean is that of the outcomes.

    What `SegmentCalibrator` does for probabilities: a line through predictions and outcomes first, then boosted trees
    on the line's value and the features, as many as lower the held-out squared error, or none.

    Parameters
    ----------
    categorical, numeric, cv, seed
        As in `SegmentCalibrator`.

    Attributes
    ----------
    slope_, intercept_ : float
        The line of least squares.
    scale_ : float
        The standard deviation of what the line leaves, in units of the outcomes: trees are grown in units of it.
    trees_, columns_, report_
        As in `SegmentCalibrator`; losses in the report are half the squared error, in units of `scale_`.
    n_rows_ : int
        Number of rows with weight.

    Examples
    --------
    >>> import numpy as np, calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> guess, old = rng.normal(size=4_000), rng.random(4_000) < 0.5
    >>> y = guess + np.where(old, 1.0, 0.0) + rng.normal(size=4_000)
    >>> calibrator = cb.SegmentMeanCalibrator().fit(guess, y, features={"old": old})
    >>> young, old = calibrator.predict([0.0, 0.0], features={"old": [False, True]})
    >>> bool(young < 0.2 < 0.8 < old)
    True
    """

    called = "a calibrator of numbers"
    fit_call = "fit(predictions, y, features=features)"
    next_command = "calibrant apply {} new.csv --score PREDICTION -o out.csv"
    takes_features = takes_numbers = True
    score_argument = makes = "predictions"
    default_column = "calibrated"
    input: InputKind = "score"
    score_names_: tuple[str, ...] | None = None
    takes_one = True
    widths = (1,)
    slope_: float
    intercept_: float
    scale_: float

    def __init__(self, *, categorical: Names = None, numeric: Names = None, cv: int = 5, seed: int = 0) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.cv = cv
        self.seed = seed

    @property
    def n_margins(self) -> int:
        return 1

    @property
    def n_numbers(self) -> int:
        return 3 + self.n_tree_numbers

    @property
    def least_rows(self) -> int:
        """How many rows it is fitted to at least: two in each fold."""
        return 2 * self.cv

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "slope_")

    def fit(
        self,
        predictions: ArrayLike,
        y: ArrayLike,
        *,
        features: object,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
    ) -> Self:
        """Fit the line and the trees.

        Parameters
        ----------
        predictions, y : array-like of shape (n,)
            Finite numbers.
        features, sample_weight, cluster, time, label_end
            As in `SegmentCalibrator.fit`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        MissingPackageError
            If LightGBM is not installed.
        """
        self.check_params()
        what: dict[str, Any] = {"features": feature_columns(features), "feature_kinds": self.named_kinds()}
        what |= {"sample_weight": sample_weight, "cluster": cluster, "time": time, "label_end": label_end}
        return self.fit_rows(read_number_rows(predictions, y, names=("predictions", "y"), **what))

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        self.check_trees()

    def fit_rows(self, rows: Rows) -> Self:
        """Fit to checked rows with features and outcomes."""
        self._check_number(rows.n_rows, "predictions")
        return self._fit_encoded(EncodedRows.of(rows))

    def fit_stream(self, stream: RowStream) -> Self:
        """Fit to rows with features and outcomes that are read in two passes: the fit in memory."""
        encoded = encode_stream(stream)
        self._check_number(encoded.rows.n_rows, stream.labels)
        check_squares(encoded.rows, "predictions", stream.labels)
        return self._fit_encoded(encoded)

    def _check_number(self, n_rows: int, name: str) -> None:
        if n_rows < self.least_rows:
            raise InvalidInputError(f"{name} has {count(n_rows, 'row')} to fit to. Pass {self.least_rows} at least.")

    def _fit_encoded(self, encoded: EncodedRows) -> Self:
        outcomes = encoded.rows.outcomes
        assert outcomes is not None  # noqa: S101 - for the type checker
        # what folds are spread by, as classes are: whether an outcome lies above the middle
        above = Labels((outcomes > np.median(outcomes)).view(np.uint8), np.array([False, True]))
        rows = replace(encoded.rows, labels=above)
        w, x = rows.weights, rows.scores
        x_mean, y_mean = np.average(x, weights=w), np.average(outcomes, weights=w)
        spread = np.average((x - x_mean) ** 2, weights=w)
        slope = np.average((x - x_mean) * (outcomes - y_mean), weights=w) / spread if spread > 0.0 else 0.0
        slope, intercept = float(slope), float(y_mean - slope * x_mean)
        line = intercept + slope * x
        scale = float(np.sqrt(np.average((outcomes - line) ** 2, weights=w))) or 1.0
        self.grow(replace(encoded, rows=rows), "mean", line / scale, outcomes / scale)
        self.slope_, self.intercept_, self.scale_, self.n_rows_ = slope, intercept, scale, rows.n_rows
        return self

    def predict(self, predictions: ArrayLike, *, features: object = None) -> Any:
        """Return corrected predictions, shape (n,), in the container that they came in.

        Parameters
        ----------
        predictions : array-like of shape (n,)
        features : dict or data frame of columns of shape (n,), optional
            As in `SegmentCalibrator.predict_proba`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        CalibrantError
            If an argument can't be used.
        """
        rows = self.read(predictions, features=features)
        return rows.container.wrap(self.apply(rows))

    @property
    def score_range(self) -> tuple[float, float]:
        """The least and the largest prediction whose correction is finite: the line, and the line over the scale."""
        if self.slope_ == 0.0:
            return -LARGEST, LARGEST
        most = 0.5 * LARGEST * min(1.0, self.scale_)
        with np.errstate(over="ignore"):
            low, high = np.sort((np.array([-most, most]) - self.intercept_) / self.slope_)
        return max(float(low), -LARGEST), min(float(high), LARGEST)

    def apply(self, rows: Rows) -> FloatArray:
        line = self.intercept_ + self.slope_ * rows.scores
        return self.scale_ * self.moved(line / self.scale_, rows.features)

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:  # noqa: ARG002
        if self.slope_ != 0.0:
            scores = b.hold_within(scores, *self.score_range)
        line = self.intercept_ + self.slope_ * scores
        return self.scale_ * self.moved_formula(b, b.hold(line / self.scale_))

    def output_names(self, column: str, n_columns: int) -> list[str]:  # noqa: ARG002
        return [column]

    def read_scores(self, scores: ArrayLike, name: str, *, in_given_order: bool = False) -> Scores:  # noqa: ARG002
        checked = as_column(scores, name)
        low, high = self.score_range
        beyond = (checked.values < low) | (checked.values > high)
        if beyond.any():
            value = float(checked.values[int(beyond.argmax())])
            problem = f"{value!r} is too large to be corrected, to within [{low:.3g}, {high:.3g}]"
            raise InvalidScoreError(at_first(beyond, name, problem, "Drop such rows first."))
        return checked

    def check_width(self, n_columns: int, name: str) -> None:
        if n_columns != 1:
            raise ShapeError(f"{name} has {count(n_columns, 'column')}, but this {type(self).__name__} takes one.")

    def facts(self) -> dict[str, str]:
        return {
            "calibrator": repr(self),
            "fitted to": count(self.n_rows_, "row"),
            "prediction column": "not stored: name it with calibrant apply --score",
            "features": self.columns_in_words(),
            "features needed": listed(self.feature_names) or "none",
        }

    def describe(self) -> list[str]:
        line = f"{self.intercept_:.6g} + {self.slope_:.6g} times the prediction"
        return [line, *self.trees_in_words(f"it, times {self.scale_:.6g}", "the line's value")]

    def encode(self) -> dict[str, Any]:
        return {
            "settings": {name: getattr(self, name) for name in TREE_SETTINGS},
            "n_rows": self.n_rows_,
            "slope": self.slope_,
            "intercept": self.intercept_,
            "scale": self.scale_,
            **self.encode_trees(),
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        parts = body.members(("settings", "n_rows", "slope", "intercept", "scale", "columns", "trees", "report"))
        made = cls(**decode_tree_settings(parts["settings"].members(TREE_SETTINGS)))
        made.n_rows_ = parts["n_rows"].integer(minimum=0)
        made.slope_, made.intercept_ = parts["slope"].number(), parts["intercept"].number()
        made.scale_ = parts["scale"].number()
        if not made.scale_ > 0.0:
            parts["scale"].refuse("is not above 0")
        if not _LEAST_SCALE <= made.scale_ <= _LARGEST_SCALE:  # numbers over it, or times it, would not be finite
            parts["scale"].refuse(f"is outside [{_LEAST_SCALE:.2g}, {_LARGEST_SCALE:.2g}], where that of any fit is")
        made.decode_trees(parts)
        return made
