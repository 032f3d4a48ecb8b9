"""One-vs-rest calibration of a matrix of scores."""

from __future__ import annotations

from typing import Any, ClassVar

from calibrant.calibrators.base import BinaryCalibrator, Calibrator, fit_one_vs_rest
from calibrant.calibrators.registry import make_binary_calibrator
from calibrant.maps import Map
from calibrant.numerics import FloatArray
from calibrant.validation import InputKind, Labels


class OneVsRestCalibrator(Calibrator):
    """Calibrate each column against its own class, then divide each row by its sum.

    Parameters
    ----------
    calibrator : str or BinaryCalibrator
        The calibrator of the columns, by name or as an instance, which is left unfitted.

    Notes
    -----
    A row in which every class gets probability zero becomes uniform: all that is known is that no class was ever
    seen at such scores. (scikit-learn decides the same.) A class without rows keeps its probabilities before rows
    are normalised, with a DataWarning. Two columns are calibrated as two separate problems; one column is the
    binary problem itself.

    References
    ----------
    Zadrozny and Elkan (2002), *Transforming classifier scores into accurate multiclass probability estimates*, KDD.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    >>> calibrator = cb.OneVsRestCalibrator("sigmoid").fit(P, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba(P).sum(axis=1).round(12)
    array([1., 1., 1., 1.])
    """

    name: ClassVar[str] = "one_vs_rest"

    def __init__(self, calibrator: str | BinaryCalibrator = "isotonic") -> None:
        self.calibrator = calibrator

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are: as the calibrator of the columns has it."""
        return make_binary_calibrator(self.calibrator).input

    def _check_params(self) -> None:
        make_binary_calibrator(self.calibrator)._check_params()

    def _fit_any(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        inner = make_binary_calibrator(self.calibrator)
        if values.ndim == 1:
            return inner._fit_any(values, labels, weight)
        return fit_one_vs_rest(inner, values, labels, weight)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; with `deep`, those of a calibrator instance too."""
        params: dict[str, Any] = {"calibrator": self.calibrator}
        if deep and isinstance(self.calibrator, Calibrator):
            params |= {f"calibrator__{k}": v for k, v in self.calibrator.get_params().items()}
        return params

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.calibrator!r})"
