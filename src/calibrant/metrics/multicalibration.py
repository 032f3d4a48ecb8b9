"""The multicalibration error: the greatest cumulative calibration error over segments of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from calibrant.metrics.audit import DRAWS, Audit, Target, audit_rows, segment_rows
from calibrant.metrics.segments import SegmentSettings
from calibrant.phrases import capitalised, count, deviations, figure, p_value
from calibrant.results import Plain
from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True, repr=False)
class MulticalibrationError(Plain):
    """The segment that is furthest off, and what its error is worth.

    Attributes
    ----------
    sigma : float
        Its cumulative calibration error in standard deviations, the largest of all segments.
    p_value : float
        Chance that calibrated predictions have a segment with as large a `sigma`, among all that were looked at.
    error : float
        The error in units of probability, or of the outcome: the gap, summed over the rows in the worst range of
        scores, over all rows of the segment.
    error_of_all : float
        The error that all rows would have, were it as many standard deviations: `sigma` times that of the error of all
        rows. By it, segments of different sizes can be compared. Where nothing could vary, `error`.
    critical : float
        The `sigma` that the worst segment of calibrated predictions has at most, with 95%.
    segment : str
        Which rows they are, in words.
    n, n_segments : int
        Number of rows of the segment, and of segments that were looked at.
    target : str
        What was predicted: "class" or "number".
    """

    sigma: float
    p_value: float
    error: float
    error_of_all: float
    critical: float
    segment: str
    n: int
    n_segments: int
    target: Target = "class"

    @classmethod
    def of_audit(cls, found: Audit) -> MulticalibrationError:
        """Return the worst segment of an audit."""
        worst = found.findings[0]
        return cls(
            worst.sigma,
            worst.p_value,
            worst.error,
            worst.sigma * found.spread if found.spread > 0.0 else worst.error,
            found.critical,
            worst.label,
            worst.n,
            len(found.findings),
            found.target,
        )

    @property
    def words(self) -> str:
        """The error in words."""
        unit = " in probability" if self.target == "class" else ""
        return (
            f"{capitalised(deviations(self.sigma))} (p {p_value(self.p_value)}), {figure(self.error)}{unit}: "
            f"{self.segment}, the worst of {count(self.n_segments, 'segment')}."
        )


def multicalibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    features: object,
    categorical: Collection[str] = (),
    target: Target = "class",
    depth: int = 2,
    min_rows: int = 50,
    n_bins: int = 5,
    max_levels: int = 20,
    n_draws: int = DRAWS,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
) -> MulticalibrationError:
    """Measure the greatest cumulative calibration error over segments of rows.

    Parameters are those of `audit`, which lists all segments by the same search.

    Returns
    -------
    MulticalibrationError
        In standard deviations and in probability, with the segment in words and a p-value that is right for the search.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    See `audit` for segments, statistic and p-value. The largest error is biased upward by noise, the more so the more
    segments there are: compare `sigma` with `critical`, and models on the same rows and features only. With distinct
    scores, and numbers cut into as many bins, `sigma` and `error_of_all` are the `mce_sigma` and `mce` of MCGrad's
    `MulticalibrationError` (`n_bins=3`, `max_levels=3`, `min_rows=10` are its defaults), whose p-value is that of the
    worst segment as if no other had been looked at.

    References
    ----------
    Guy, Haimovich, Linder, Okati, Perini, Tax and Tygert (2025), *Measuring multi-calibration*, arXiv 2506.11251.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import multicalibration_error
    >>> rng = np.random.default_rng(0)
    >>> p, age, city = rng.random(4_000), rng.integers(20, 70, 4_000), rng.choice(["Bonn", "Rome"], 4_000)
    >>> y = rng.random(4_000) < np.where((age < 30) & (city == "Rome"), p**2, p)
    >>> found = multicalibration_error(y, p, features={"age": age, "city": city})
    >>> found.segment, round(found.sigma, 1), found.p_value
    ('age 20 to 29, city = Rome', 8.6, 0.002)
    """
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes, "pos_label": pos_label}
    rows = segment_rows(y_true, y_prob, features, categorical, target=target, sample_weight=sample_weight, **what)
    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows, n_bins=n_bins, max_levels=max_levels)
    return MulticalibrationError.of_audit(audit_rows(rows, settings, n_draws=n_draws, rng=rng))
