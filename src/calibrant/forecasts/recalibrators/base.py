"""What all recalibrators share: the gate, the fitted layers and applying them, and how documents name and hold them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantError, DocumentError, InvalidTypeError
from calibrant.fitted import Storable, register
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.outcomes import Outcomes, read_outcomes
from calibrant.forecasts.points import LARGEST
from calibrant.forecasts.recalibrated import RecalibratedForecast, RowMaps
from calibrant.numerics import FloatArray
from calibrant.phrases import count
from calibrant.validation import ArrayLike

_RECALIBRATORS: dict[str, type[Recalibrator]] = {}
_LAYERS: dict[str, type[Layer]] = {}
_Named = TypeVar("_Named", bound="type[Recalibrator] | type[Layer]")
_Layer = TypeVar("_Layer", bound="Layer")


def named(name: str) -> Callable[[_Named], _Named]:
    """Enter a class of recalibrators or layers under the name that documents have for it."""

    def enter(cls: _Named) -> _Named:
        cls.document_name = name
        if issubclass(cls, Layer):
            _LAYERS[name] = cls
        else:
            _RECALIBRATORS[name] = cls
        return cls

    return enter


class Layer(ABC):
    """A recalibration of forecasts, fitted: plain arrays, which a document holds beside the layer's name."""

    __slots__ = ()
    document_name: ClassVar[str]

    @abstractmethod
    def apply(self, forecast: Forecast) -> Forecast:
        """Return the recalibrated forecast."""

    def encode(self) -> dict[str, Any]:
        """Return the layer, a dataclass, as plain data: its fields by name."""
        return {field.name: _encoded(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    @abstractmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the layer that they are of."""


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_encoded(each) for each in value]
    return value.encode() if hasattr(value, "encode") and not isinstance(value, str) else value


class MapLayer(Layer):
    """A recalibration that maps the levels of each row."""

    __slots__ = ()

    @abstractmethod
    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the map of each row of a forecast."""

    def apply(self, forecast: Forecast) -> Forecast:
        """Return the forecast with mapped levels."""
        return RecalibratedForecast(forecast, self.rows(forecast))


@register("forecast_recalibrator")
class Recalibrator(Storable):
    """Corrects forecasts of a number by what came of earlier ones: `fit` on those, then `transform` new ones.

    Attributes
    ----------
    layers_ : tuple of Layer
        What was fitted, as data: each layer turns a forecast into another, in this order. Empty where the forecasts
        were best left alone.
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    """

    document_name: ClassVar[str] = ""
    #: Fields that a document of this class has beside those of all, and parameters that it doesn't keep as settings.
    _own_fields: ClassVar[tuple[str, ...]] = ()
    _not_settings: ClassVar[tuple[str, ...]] = ()

    called: ClassVar[str] = "a recalibrator of forecasts"
    fit_call: ClassVar[str] = "fit(forecast, y)"
    next_command: ClassVar[str] = "calibrant forecast apply {} new.csv -o out.csv"
    layers_: tuple[Layer, ...]
    n_rows_: int

    def fit(self, forecast: Forecast, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to forecasts and what came of them.

        Parameters
        ----------
        forecast : Forecast, or frozen distribution of SciPy
            For rows that the forecaster was not trained on.
        y : array-like of shape (n,)
            The outcomes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts as two rows, of 0 as none.
        """
        self._check_settings()
        rows = read_outcomes(forecast, y, sample_weight)
        self.layers_ = self._fit(rows)
        self.n_rows_ = len(rows)
        return self

    def transform(self, forecast: Forecast) -> Forecast:
        """Return the recalibrated forecast.

        Parameters
        ----------
        forecast : Forecast, or frozen distribution of SciPy
            From the same forecaster as those of the fit, of any number of rows.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidTypeError
            If it is no forecast.
        """
        self.check_fitted()
        forecast = as_forecast(forecast)
        for layer in self.layers_:
            forecast = layer.apply(forecast)
        return forecast

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "layers_")

    def in_words(self) -> str:
        """Say in a few words what was fitted; nothing where the method's name says it all."""
        return ""

    def facts(self) -> dict[str, str]:
        return {"recalibrator": self.document_name, "fitted to": count(self.n_rows_, "row")}

    def describe(self) -> list[str]:
        return [self.in_words()] if self.in_words() else []

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that can't be used."""

    @abstractmethod
    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        """Return the layers that the rows ask for."""

    def encode(self) -> dict[str, Any]:
        """Return the body of a document."""
        self.check_fitted()
        if _RECALIBRATORS.get(self.document_name) is not type(self):
            raise InvalidTypeError(
                f"can't save a {type(self).__name__}: only calibrant's own recalibrators have a file format."
            )
        return {
            "method": self.document_name,
            "settings": {key: getattr(self, key) for key in self._settings()},
            "n_rows": self.n_rows_,
            "layers": [{"type": layer.document_name, **layer.encode()} for layer in self.layers_],
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        known = {name: kind for name, kind in _RECALIBRATORS.items() if issubclass(kind, cls)}
        made = known[body.member("method").choice(sorted(known))]()
        found = body.members(("method", "settings", "n_rows", "layers", *made._own_fields))
        made._take_settings(found["settings"])
        made.n_rows_ = found["n_rows"].integer(minimum=1)
        made.layers_ = tuple(map(_decode_layer, found["layers"].items(minimum=0)))
        made._take_own(found)
        return made

    def _take_own(self, found: dict[str, DocumentField]) -> None:
        """Take over the fields of this class's own, and what follows from the layers."""

    @classmethod
    def _settings(cls) -> tuple[str, ...]:
        return tuple(key for key in inspect.signature(cls).parameters if key not in cls._not_settings)

    def _take_settings(self, field: DocumentField) -> None:
        """Take over settings that the class's own checks accept."""
        for key, item in field.members(self._settings()).items():
            setattr(self, key, tuple(item.value) if isinstance(item.value, list) else item.value)
        try:
            self._check_settings()
        except CalibrantError as error:
            raise DocumentError(f"{field.path}: {error}") from None

    def _only_layer(self, kind: type[_Layer], field: DocumentField) -> _Layer:
        """Return the one layer, of a kind, that documents of this class hold."""
        only = self.layers_[0] if len(self.layers_) == 1 else None
        if not isinstance(only, kind):
            field.refuse(f"is not one layer of the type {kind.document_name!r}")
        return only


def _decode_layer(item: DocumentField) -> Layer:
    return _LAYERS[item.member("type").choice(sorted(_LAYERS))].decode(item.without("type"))


def numbers_within_reach(field: DocumentField, values: FloatArray) -> FloatArray:
    """Refuse places on the number line that no outcome may have."""
    if values.size and np.abs(values).max() > LARGEST:
        field.refuse(f"holds a number beyond {LARGEST:g}")
    return values
