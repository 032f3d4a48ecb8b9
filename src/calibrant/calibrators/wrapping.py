"""Calibrators that stand on another one, which they fit to columns or to the top label."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from calibrant.calibrators.base import BinaryCalibrator, Calibrator, make_binary_calibrator, make_calibrator
from calibrant.document_field import DocumentField
from calibrant.maps import Map
from calibrant.validation import InputKind


class WrappingCalibrator(Calibrator):
    """A calibrator whose first argument is another one, by name or as an instance, which is left unfitted."""

    calibrator: str | BinaryCalibrator

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are that the calibrator of the columns takes."""
        return self.inner().input

    def inner(self) -> BinaryCalibrator:
        """Return a new, unfitted calibrator of one score."""
        return make_binary_calibrator(self.calibrator)

    def check_params(self) -> None:
        self.inner().check_params()

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        if n_classes != 2:
            self.refuse_map(n_classes, field)
        self.inner().check_map(fitted, n_classes, field)

    @classmethod
    def takes_input(cls) -> bool:
        return True

    @classmethod
    def adapted(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Hand `input` on to the calibrator of the columns."""
        given = dict(params)
        if "input" in given:
            inner = given.pop("calibrator", inspect.signature(cls).parameters["calibrator"].default)
            given["calibrator"] = make_calibrator(inner, input=given.pop("input"))
        return given
