"""Centred isotonic calibration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.maps import BinaryMap, InterpolatedMap
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import InputKind


@named
class CenteredIsotonicCalibrator(BinaryCalibrator):
    """Centred isotonic regression: strictly rising between the centres of isotonic regression's blocks.

    Parameters
    ----------
    bounded : bool
        Keep outputs inside [1 / (n + 2), 1 - 1 / (n + 2)], n the total weight: an event unseen in n rows may still
        happen. By default the outer blocks keep their rates, which are often 0 and 1.
    input : {"probability", "logit", "score"}
        What the scores are. Outputs are interpolated in them, so unlike isotonic regression it matters.

    Notes
    -----
    Each block of pooled scores becomes one knot: its rate, at the weighted mean of its scores. Between knots the map
    is linear and strictly rising: scores that differ there stay different, so the ranking is kept. Below the first
    knot and above the last it is flat, as in the authors' program: the data say no more there than their block does.

    References
    ----------
    Oron and Flournoy (2017), *Centered isotonic regression: point and interval estimation for dose-response studies*,
    Statistics in Biopharmaceutical Research 9(3), section 3.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.CenteredIsotonicCalibrator().fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.25, 0.4, 0.55])
    array([0.25, 0.5 , 0.75])
    """

    name: ClassVar[str] = "centered_isotonic"
    rises: ClassVar[bool] = True

    def __init__(self, *, bounded: bool = False, input: InputKind = "probability") -> None:
        self.bounded = bounded
        self.input = input

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (InterpolatedMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Pool the rows or their summary into one knot per block."""
        summary = data.summary()
        blocks = summary.isotonic_blocks()
        rate = blocks.rate
        if self.bounded:
            least = 1.0 / (summary.total_weight + 2.0)
            rate = np.clip(rate, least, 1.0 - least)
        scores, weight = summary.scores, summary.weight
        first = np.searchsorted(scores, blocks.first)
        n_scores = np.diff(first, append=scores.size)
        # shares and distances within the block: sums of large scores would overflow, and of close ones lose digits
        share = weight / np.repeat(blocks.weight, n_scores)
        half_way = 0.5 * scores - np.repeat(0.5 * blocks.first, n_scores)
        centre = blocks.first + 2.0 * np.add.reduceat(share * half_way, first)
        return InterpolatedMap(np.clip(centre, blocks.first, blocks.last), rate)
