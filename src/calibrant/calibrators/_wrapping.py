"""Calibrators of several columns that are made from a calibrator of one score."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self

from calibrant.calibrators.base import BinaryCalibrator, Calibrator
from calibrant.calibrators.registry import make_binary_calibrator, make_calibrator
from calibrant.errors import InvalidInputError
from calibrant.maps import Map
from calibrant.validation import InputKind

_INNER = "calibrator__"


class WrappingCalibrator(Calibrator):
    """A calibrator whose first argument is another one, by name or as an instance, which is left unfitted."""

    calibrator: str | BinaryCalibrator

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are: as the calibrator of the columns has it."""
        return self.inner().input

    def inner(self) -> BinaryCalibrator:
        """Return a new, unfitted calibrator of one score."""
        return make_binary_calibrator(self.calibrator)

    def check_params(self) -> None:
        """Raise if a constructor argument, or one of the calibrator of the columns, can't be used."""
        self.inner().check_params()

    def map_kinds(self, input: InputKind) -> tuple[type[Map], ...]:
        """Return the kinds of map that a fit to one score of kind `input` can give."""
        return self.inner().map_kinds(input)

    @classmethod
    def takes_input(cls) -> bool:
        """Say that the calibrator of the columns can be told what its scores are."""
        return True

    @classmethod
    def adapted(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Hand `input` on to the calibrator of the columns."""
        given = dict(params)
        if "input" in given:
            inner = given.pop("calibrator", inspect.signature(cls).parameters["calibrator"].default)
            given["calibrator"] = make_calibrator(inner, input=given.pop("input"))
        return given

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; with `deep`, those of a calibrator instance too."""
        params = super().get_params()
        if deep and isinstance(self.calibrator, Calibrator):
            params |= {f"calibrator__{k}": v for k, v in self.calibrator.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments; `calibrator__name` is that of a calibrator instance."""
        inner = {key.removeprefix(_INNER): value for key, value in params.items() if key.startswith(_INNER)}
        super().set_params(**{key: value for key, value in params.items() if not key.startswith(_INNER)})
        if inner and not isinstance(self.calibrator, Calibrator):
            raise InvalidInputError(
                f"calibrator={self.calibrator!r} has no parameters to set. Pass an instance of a calibrator instead."
            )
        if isinstance(self.calibrator, Calibrator):
            self.calibrator.set_params(**inner)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        rest = self.get_params(deep=False)
        inner = rest.pop("calibrator")
        changed = "".join(f", {name}={value!r}" for name, value in rest.items() if value != defaults[name].default)
        return f"{type(self).__name__}({inner!r}{changed})"
