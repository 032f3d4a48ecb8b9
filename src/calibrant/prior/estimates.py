"""What an estimate of class priors is: old and new rates, intervals, a test, and the correction that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import DataWarning, warn
from calibrant.numerics import FloatArray, least_output
from calibrant.prior.shift import PriorShift
from calibrant.results import Plain


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate(Plain):
    """Base rates of rows without labels, estimated from their predictions.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    old : ndarray of shape (K,)
        Base rates that the predictions were made for.
    new, low, high : ndarray of shape (K,)
        Estimated base rates, which sum to one, and the ends of the interval of each.
    level : float
        Nominal coverage of each interval.
    n : int
        Number of rows without labels.
    method : str
        How rates and intervals were found.
    statistic, p_value : float
        Test of "no shift": chi-squared with K - 1 degrees of freedom.
    """

    classes: npt.NDArray[Any]
    old: FloatArray
    new: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    n: int
    method: str
    statistic: float
    p_value: float

    def shift(self) -> PriorShift:
        """Return the correction from the old rates to the new ones.

        A class whose new rate is below 1 / (n + 2) gets that rate, and a warning says so: no number of rows shows
        that a class is absent, and its probabilities could never rise again.
        """
        least = least_output(self.n)
        rare = self.new < least
        if rare.any():
            named = ", ".join(repr(label) for label in self.classes[rare].tolist())
            warn(
                f"the new rate of {named} is below {least:.2g}, one row in {self.n + 2:,}, and is taken as that. "
                "Use PriorShift.from_priors to set the rates yourself.",
                DataWarning,
            )
        new = np.maximum(self.new, least)
        return PriorShift.from_priors(old=self.old, new=new / new.sum(), classes=self.classes.tolist())

    def __str__(self) -> str:
        rows = zip(self.classes.tolist(), self.old, self.new, self.low, self.high, strict=True)
        lines = [f"{label}: {new:.4f} [{low:.4f}, {high:.4f}], was {old:.4f}" for label, old, new, low, high in rows]
        return "\n".join([*lines, f"no shift: p = {self.p_value:.2g}"])
