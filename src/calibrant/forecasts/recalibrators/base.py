"""What all recalibrators share: the gate, the fitted layers and applying them, and how documents hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantError, DocumentError, InvalidTypeError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import LARGEST
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import FloatArray
from calibrant.phrases import count
from calibrant.settings import Configured
from calibrant.storable import Storable, register
from calibrant.validation import ArrayLike

#: Recalibrators and layers by the names that documents, and the command line, have for them. They enter by `named`.
RECALIBRATORS: dict[str, type[Recalibrator]] = {}
LAYERS: dict[str, type[Layer]] = {}

_Named = TypeVar("_Named", bound="type[Recalibrator] | type[Layer]")
_Layer = TypeVar("_Layer", bound="Layer")


def named(name: str) -> Callable[[_Named], _Named]:
    """Return a class decorator that enters a class of recalibrators or layers under a name."""

    def enter(cls: _Named) -> _Named:
        cls.name = name
        if issubclass(cls, Layer):
            LAYERS[name] = cls
        else:
            RECALIBRATORS[name] = cls
        return cls

    return enter


class Layer(ABC):
    """A fitted recalibration of forecasts: a dataclass of plain arrays, which a document holds beside its name."""

    __slots__ = ()
    name: ClassVar[str]

    @abstractmethod
    def apply(self, forecast: Forecast) -> Forecast:
        """Return the recalibrated forecast."""

    def encode(self) -> dict[str, Any]:
        """Return the fields as plain data."""
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


@register("forecast_recalibrator")
class Recalibrator(Configured, Storable):
    """Corrects forecasts of a number by what came of earlier ones: `fit` on those, then `transform` new ones.

    Attributes
    ----------
    layers_ : tuple of Layer
        What was fitted, as data: each layer turns a forecast into another, in this order. Empty where the forecasts
        were best left alone.
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    """

    name: ClassVar[str] = ""
    #: Settings that documents leave out: what no document can hold, and what a layer has too.
    unsaved: ClassVar[tuple[str, ...]] = ()
    called: ClassVar[str] = "a recalibrator of forecasts"
    fit_call: ClassVar[str] = "fit(forecast, y)"
    next_command: ClassVar[str] = "calibrant forecast apply {} new.csv -o out.csv"
    layers_: tuple[Layer, ...]
    n_rows_: int

    def fit(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
    ) -> Self:
        """Fit to forecasts and what came of them.

        Parameters
        ----------
        forecast : Forecast, or frozen distribution of SciPy
            For rows that the forecaster was not trained on.
        y : array-like of shape (n,)
            The outcomes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts as two rows, of 0 as none.
        cluster : array-like of shape (n,), optional
            What rows that are not independent share, such as a patient. A method that holds rows out holds whole
            clusters out, and "conformal" counts each cluster once; maps of all rows are the same.
        time : array-like of shape (n,), optional
            When each row was predicted: rows held out are then consecutive in time.
        label_end : array-like of shape (n,), optional
            When each outcome was known: no outcome is fitted to that overlaps one held out.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        self._check_settings()
        rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
        self.layers_ = self._fit(rows.as_joined())
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
        """
        self.check_fitted()
        forecast = as_forecast(forecast)
        for layer in self.layers_:
            forecast = layer.apply(forecast)
        return forecast

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "layers_")

    def facts(self) -> dict[str, str]:
        return {"recalibrator": self.name, "fitted to": count(self.n_rows_, "row")}

    def describe(self) -> list[str]:
        return []  # the method's name says it all

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that can't be used."""

    @abstractmethod
    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        """Return the layers that the rows ask for."""

    def encode(self) -> dict[str, Any]:
        self.check_fitted()
        if RECALIBRATORS.get(self.name) is not type(self):
            raise InvalidTypeError(
                f"can't save a {type(self).__name__}: only calibrant's own recalibrators have a file format."
            )
        return {
            "method": self.name,
            "settings": {key: value for key, value in self.get_params().items() if key not in self.unsaved},
            "n_rows": self.n_rows_,
            "layers": [{"type": layer.name, **layer.encode()} for layer in self.layers_],
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        known = {name: kind for name, kind in RECALIBRATORS.items() if issubclass(kind, cls)}
        made = known[body.member("method").choice(known)]()
        made.restore(body)
        return made

    def restore(self, body: DocumentField) -> None:
        """Take over what a document holds: settings that the class's own checks accept, and layers."""
        parts = body.members(("method", "settings", "n_rows", "layers"))
        settings = parts["settings"]
        given = settings.members([key for key in self.param_names() if key not in self.unsaved])
        values = {key: item.value for key, item in given.items()}
        self.set_params(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
        try:
            self._check_settings()
        except CalibrantError as error:
            raise DocumentError(f"{settings.path}: {error}") from None
        self.n_rows_ = parts["n_rows"].integer(minimum=1)
        items = parts["layers"].items(minimum=0)
        self.layers_ = tuple(LAYERS[item.member("type").choice(LAYERS)].decode(item.without("type")) for item in items)

    def _only_layer(self, kind: type[_Layer], body: DocumentField) -> _Layer:
        """Return the layer, of a kind, that documents of this class hold and no other."""
        only = self.layers_[0] if len(self.layers_) == 1 else None
        if not isinstance(only, kind):
            body.member("layers").refuse(f"is not one layer of the type {kind.name!r}")
        return only


def numbers_within_reach(field: DocumentField, values: FloatArray) -> FloatArray:
    """Refuse places on the number line that no outcome may have."""
    if values.size and np.abs(values).max() > LARGEST:
        field.refuse(f"holds a number beyond {LARGEST:g}")
    return values
