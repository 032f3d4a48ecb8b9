"""A model that was trained elsewhere, of which there are predictions alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from calibrant.errors import DocumentError, InvalidInputError
from calibrant.numerics import FloatArray, IntArray, two_columns
from calibrant.persistence import read_plain, write_whole
from calibrant.training.model_base import EvalSet, Model, TrainedModel


class GivenModel(Model):
    """A model that was trained elsewhere: its "features" are the columns of its predictions."""

    name: ClassVar[str] = "given"
    file: ClassVar[str] = "columns.json"
    packages: ClassVar[tuple[str, ...]] = ("calibrant",)
    #: The places of its columns among those of all models, in the order of the classes; one for the larger of two.
    model_: tuple[int, ...]

    @classmethod
    def of(cls, places: Sequence[int], n_classes: int) -> GivenModel:
        """Return the model whose predictions are in the columns at these places."""
        made = cls(n_classes)
        made.model_, made.n_rounds_ = tuple(places), 0
        return made

    @staticmethod
    def _library() -> Any:
        return None

    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:  # noqa: ARG002
        raise InvalidInputError("predictions that exist are calibrated, and no model is trained. Name a model.")

    def _predict(self, X: FloatArray) -> FloatArray:
        found = X[:, list(self.model_)]
        return two_columns(found[:, 0] if len(self.model_) == 1 else found)

    def _write(self, path: Path) -> None:
        write_whole(path, (json.dumps({"places": list(self.model_)}) + "\n").encode())

    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel:  # noqa: ARG002 - the file holds numbers
        document = read_plain(path)
        if not isinstance(document, dict) or not isinstance(document.get("places"), list):
            raise DocumentError(f"{path} holds no places of columns. Calibrate the predictions again.")
        return tuple(int(place) for place in document["places"]), 0
