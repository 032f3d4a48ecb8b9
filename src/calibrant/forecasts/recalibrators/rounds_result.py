"""How rounds of threshold recalibration ended: what stopped them, which errors are left, and what that promises.

Two errors are told apart by name. The *stopping error* is the one that the rounds went by: the greatest over the splits
that were searched, which leave enough rows on both sides. The *greatest threshold calibration error* is over all splits
at the same thresholds, down to a single row on a side, where it is mostly noise: it is what the algorithm never saw.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Literal, Self, TypeAlias, get_args

from calibrant.document_field import DocumentField
from calibrant.errors import ConvergenceWarning, DataWarning, warn
from calibrant.forecasts.calibration import table_of_errors
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray
from calibrant.phrases import count, figure
from calibrant.readable import Readable

StoppedBy: TypeAlias = Literal["epsilon", "max_rounds", "no split", "held-out rows"]
Measure: TypeAlias = Literal["threshold calibration error", "root mass-weighted Cramer-von Mises distance"]
#: The measure that each algorithm goes by.
MEASURES: dict[str, Measure] = dict(zip(("paper", "regularised"), get_args(Measure), strict=True))
#: Rows below which rounds that no held-out row stops warn: the paper's 200 on a side are a quarter of these. Of
#: forecasts that were right, 40 of its rounds raise the reliability gap from .009 to .30 (30 rows fitted to), .10
#: (200), .059 (400), .028 (800) and .014 (3,000).
FEW_ROWS = 800


@dataclass(frozen=True, slots=True, repr=False)
class RoundsResult(Readable):
    """How the rounds of a `ThresholdRecalibrator` ended, on the rows that it was fitted to.

    Attributes
    ----------
    stopped_by : {"epsilon", "max_rounds", "no split", "held-out rows"}
        The stopping error was at most `epsilon`; `max_rounds` were made; no split leaves `least_side` on both sides;
        or held-out rows chose how many rounds to make.
    n_rounds : int
        Rounds that were kept, in all folds where these were kept.
    epsilon : float
        What was asked for.
    stopping_measure : str
        Which error the rounds go by: of "paper" the threshold calibration error as the official code counts it, of
        "regularised" the root of the mass-weighted Cramer-von Mises distance.
    stopping_error : float
        The greatest one left over the splits searched; NaN where there is none.
    least_side : float
        Fewest rows, or least weight, on a side of the splits searched.
    max_error : float
        The greatest threshold calibration error (definition 4 of the paper) over all splits at the same thresholds that
        leave a row on both sides, after all layers; NaN where there is none.
    max_error_y0, max_error_alpha, max_error_side : float
        Where it is, and the weight of the smaller side there.

    Notes
    -----
    What is guaranteed is in `guarantee`: a bound of the stopping error, of splits with `least_side` on both sides, on
    the rows fitted to. No bound of smaller sides, of the loss of other decisions, or of new rows follows from it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, ThresholdRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=2000)
    >>> y = mean + np.where(mean > 0, 2.0, 0.5) * rng.normal(size=2000)
    >>> fitted = ThresholdRecalibrator("paper", epsilon=0.02).fit(GaussianForecast(mean, np.ones(2000)), y)
    >>> fitted.result_.stopped_by, fitted.result_.n_rounds, fitted.result_.is_within_epsilon
    ('epsilon', 7, True)
    >>> fitted.result_.stopping_error < 0.02 < fitted.result_.max_error
    True
    """

    stopped_by: StoppedBy
    n_rounds: int
    epsilon: float
    stopping_measure: Measure
    stopping_error: float
    least_side: float
    max_error: float
    max_error_y0: float
    max_error_alpha: float
    max_error_side: float

    @property
    def is_within_epsilon(self) -> bool:
        """Whether the stopping error ended at or below `epsilon`; without a split to search there is none."""
        return not self.stopping_error > self.epsilon

    @property
    def guarantee(self) -> str:
        """What holds after the rounds, and of what nothing follows."""
        least = f"{math.ceil(self.least_side):,}"
        if math.isnan(self.stopping_error):
            return f"Guaranteed: nothing, as no split leaves {least} rows on both sides."
        return (
            f"Guaranteed: of the rows fitted to, every split searched ({least} or more rows on both sides) has a "
            f"{self.stopping_measure} of at most {figure(self.stopping_error)}. "
            "Nothing follows for smaller sides or for new rows."
        )

    def describe(self) -> list[str]:
        """Return what ended the rounds, both errors and the guarantee, a line each."""
        why = f"epsilon={self.epsilon:g}" if self.stopped_by == "epsilon" else self.stopped_by
        lines = [f"ended by {why}; stopping error, over the splits searched: {figure(self.stopping_error)}"]
        if not math.isnan(self.max_error):
            lines.append(
                f"greatest threshold calibration error of all splits: {figure(self.max_error)}, at y0 = "
                f"{self.max_error_y0:.4g} and alpha = {self.max_error_alpha:.2g}, where a side has "
                f"{count(round(self.max_error_side), 'row')}"
            )
        return [*lines, self.guarantee]

    def _after(self) -> list[str]:
        return self.describe()

    def encode(self) -> dict[str, object]:
        """Return the fields as plain data."""
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self).items()}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the result that they are of."""
        found = body.members([field.name for field in fields(cls)])
        numbers = {
            key: item.number(null=math.nan)
            for key, item in found.items()
            if key not in ("stopped_by", "stopping_measure", "n_rounds")
        }
        return cls(
            stopped_by=found["stopped_by"].choice(get_args(StoppedBy)),
            stopping_measure=found["stopping_measure"].choice(get_args(Measure)),
            n_rounds=found["n_rounds"].integer(minimum=0),
            **numbers,
        )

    def warn_above_epsilon(self, most: int) -> None:
        """Warn where rounds that should end at an error ended above it, with what helps."""
        if self.epsilon <= 0.0 or self.is_within_epsilon:
            return
        helps = {
            "max_rounds": f"Raise max_rounds (now {most:,}), epsilon or min_leaf.",
            "held-out rows": 'Held-out rows asked for no more rounds; stopping="epsilon" goes on nevertheless.',
        }.get(self.stopped_by, "Pass more rows, or a greater epsilon.")
        warn(
            f"threshold recalibration ended above epsilon={self.epsilon:g}: after {count(self.n_rounds, 'round')} "
            f"({self.stopped_by}) the stopping error, the greatest {self.stopping_measure} of splits with "
            f"{math.ceil(self.least_side):,} or more rows on both sides, is {figure(self.stopping_error)}. {helps}",
            ConvergenceWarning,
        )


def rounds_result(
    rows: Outcomes,
    thresholds: FloatArray,
    alphas: FloatArray | None,
    *,
    stopped_by: StoppedBy,
    n_rounds: int,
    epsilon: float,
    stopping_measure: Measure,
    stopping_error: float,
    least_side: float,
) -> RoundsResult:
    """Return how rounds ended; `rows` hold the recalibrated forecasts of the rows fitted to."""
    errors = table_of_errors(rows, thresholds, alphas, min_rows=1)
    y0, alpha, side = math.nan, math.nan, math.nan
    if errors.worst is not None:
        y0, alpha = errors.worst
        left = float(rows.weights[rows.forecast.cdf(y0) <= alpha].sum())
        side = min(left, float(rows.weights.sum()) - left)
    return RoundsResult(
        stopped_by, n_rounds, epsilon, stopping_measure, stopping_error, least_side, errors.max, y0, alpha, side
    )


def warn_of_few_rows(n: float, least_side: float, *, is_checked: bool) -> None:
    """Warn where rows are too few: for rounds that no held-out row stops, or for any split at all."""
    if not is_checked and n < FEW_ROWS:
        warn(
            f"few rows: threshold recalibration to {count(round(n), 'row')}, by rounds that no held-out row stops, "
            "fits noise. "
            "Of forecasts that were right, 40 rounds of the paper's algorithm raised the reliability gap of new rows "
            "from .009 to .30 (30 rows), .10 (200) and .03 (800). Use the default, which lets held-out rows choose, or "
            "AverageRecalibrator.",
            DataWarning,
        )
    elif is_checked and n < 2 * least_side:
        warn(
            f"few rows: of {count(round(n), 'row')}, no split leaves {math.ceil(least_side):,} on both sides, so that "
            "no more than one map for all rows can be fitted. Pass more rows, or a smaller min_leaf.",
            DataWarning,
        )
