"""What is compared of objects that were saved and loaded, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.persistence import load, save

SUFFIXES = (".json", ".pkl")


def bits(value: object) -> object:
    """Spell a map out to its last bit, with the kinds and shapes of its parts."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, *(bits(getattr(value, f.name)) for f in dataclasses.fields(value)))
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    return value


def state(calibrator: Any) -> object:
    """Everything that a fitted calibrator knows."""
    settings = {k: getattr(v, "item", lambda v=v: v)() for k, v in calibrator.get_params(deep=False).items()}
    return (
        type(calibrator),
        {k: (type(v), v.get_params()) if isinstance(v, Calibrator) else v for k, v in settings.items()},
        [(type(c), c) for c in calibrator.classes_.tolist()],
        calibrator.n_rows_,
        calibrator.score_names_,
        bits(calibrator.map_),
    )


def through_file(calibrator: Any, folder: Path, suffix: str) -> Any:
    path = folder / f"calibrator{suffix}"
    save(calibrator, path)
    return load(path)
