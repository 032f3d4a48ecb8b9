"""Arrays of other libraries, such as torch: read into NumPy to be calibrated, and given back as they came.

scikit-learn takes them where `sklearn.set_config(array_api_dispatch=True)` says so; without it they are read as any
sequence is, and results are NumPy's. The classifier computes in its library, the calibrator in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import config_context, get_config

from calibrant.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """The library, the device and the dtype of an array that is not NumPy's: `sample` is an empty one of these."""

    sample: Any

    @classmethod
    def of(cls, X: Any) -> Self | None:
        """Return the kind of an array of another library; None where scikit-learn doesn't dispatch, or of NumPy's."""
        if not get_config().get("array_api_dispatch") or isinstance(X, np.ndarray):
            return None
        xp, is_array_api, device = _namespace_of(X)
        if not is_array_api or "numpy" in xp.__name__:
            return None
        return cls(xp.empty((0,), dtype=X.dtype, device=device))  # a slice of X may keep all of X in a pickle

    @property
    def library(self) -> str:
        """The name of the package that its arrays are of."""
        return type(self.sample).__module__.partition(".")[0]

    def wrap(self, values: npt.NDArray[Any]) -> Any:
        """Return numbers as an array of this kind, floating ones in its precision; text stays NumPy's."""
        if values.dtype.kind not in "fiub":
            return values
        with config_context(array_api_dispatch=True):
            xp, _, device = _namespace_of(self.sample)
        is_same = values.dtype.kind == "f" and xp.isdtype(self.sample.dtype, "real floating")
        return xp.asarray(values, dtype=self.sample.dtype if is_same else None, device=device)

    def is_with(self, other: Self | None) -> bool:
        """Say whether another kind is of the same library and on the same device."""
        return other is not None and (self.library, self.sample.device) == (other.library, other.sample.device)

    def __str__(self) -> str:
        return f"arrays of {self.library} on {self.sample.device}"


def _namespace_of(X: Any) -> tuple[Any, bool, Any]:
    from sklearn.utils._array_api import get_namespace_and_device

    xp, is_array_api, device = get_namespace_and_device(X)
    return xp, is_array_api, device


@dataclass(frozen=True, slots=True)
class ArrayCalibrator:
    """A calibrator of a pair whose classifier computes in another library: it takes and gives arrays of this."""

    calibrator: Any
    kind: ArrayKind

    @property
    def beta_(self) -> Any:
        """The inverse temperature of temperature scaling, by the name that scikit-learn gives it."""
        return self.kind.wrap(np.array(self.calibrator.beta_))

    def predict(self, T: Any) -> Any:
        """Return the calibrated probability of each score of one class."""
        return self.kind.wrap(self.calibrator.predict(as_numpy(T, "T")))

    def predict_proba(self, scores: Any) -> Any:
        """Return calibrated probabilities of scores; see `Calibrator.predict_proba`."""
        return self.kind.wrap(self.calibrator.predict_proba(as_numpy(scores, "scores")))


def as_given(values: npt.NDArray[Any], X: Any) -> Any:
    """Return values as an array of the kind that X is of."""
    kind = ArrayKind.of(X)
    return values if kind is None else kind.wrap(values)


def as_numpy(values: Any, name: str) -> Any:
    """Return an array of another library as NumPy's, from whatever device it is on, and anything else as it is."""
    if ArrayKind.of(values) is None:
        return values
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError) as error:  # of another device, or one that gradients go through
        reason = error
    try:
        return np.from_dlpack(values, device="cpu")
    except (RuntimeError, TypeError, ValueError, BufferError):
        raise InvalidTypeError(
            f"{name} is a {type(values).__module__} array that NumPy can't read ({reason}). Calibration computes in "
            "NumPy: pass it from the CPU, without gradients."
        ) from None
