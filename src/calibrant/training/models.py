"""The models by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.errors import InvalidInputError, unknown_name
from calibrant.training.boosted_models import CatBoostModel, LightGBMModel, XGBoostModel
from calibrant.training.model_base import Model
from calibrant.training.sklearn_models import HistGradientBoostingModel, LogisticModel, SklearnModel

__all__ = ["MODELS", "Model", "make_model", "read_model"]

MODELS: dict[str, type[Model]] = {
    kind.name: kind for kind in (XGBoostModel, LightGBMModel, CatBoostModel, HistGradientBoostingModel, LogisticModel)
}


def make_model(
    model: Any, n_classes: int, *, seed: int = 0, n_threads: int = 1, params: dict[str, Any] | None = None
) -> Model:
    """Return an unfitted model.

    Parameters
    ----------
    model : str or scikit-learn classifier
        One of `MODELS`, or an unfitted classifier with `predict_proba`.
    n_classes : int
    seed : int
    n_threads : int
        One by default: boosting with more threads than there are free cores can be a hundred times slower.
    params : dict, optional
        Settings of the library.

    Raises
    ------
    CalibrantError
        If there is no such model, or its library isn't installed.
    """
    given = {} if params is None else params
    if not isinstance(model, str):
        if not hasattr(model, "predict_proba") or not hasattr(model, "get_params"):
            raise InvalidInputError(
                f"model={model!r:.80} has no predict_proba. Pass a classifier of scikit-learn, or one of: "
                f"{', '.join(map(repr, MODELS))}."
            )
        return SklearnModel(n_classes, estimator=model, seed=seed, n_threads=n_threads, **given)
    if model not in MODELS:
        raise unknown_name("model", model, MODELS)
    import_library(model)
    return MODELS[model](n_classes, seed=seed, n_threads=n_threads, **given)


def read_model(name: str, n_classes: int, folder: Path, *, n_threads: int = 1) -> Model:
    """Return the fitted model that a model of this name saved in a folder."""
    kind = MODELS.get(name, SklearnModel)
    return kind(n_classes, n_threads=n_threads).read(folder)


def import_library(name: str) -> None:
    """Import the library of a model, so that no measured time holds it.

    Raises
    ------
    InvalidInputError
        If it isn't installed.
    """
    try:
        match name:
            case "xgboost":
                import xgboost  # noqa: F401
            case "lightgbm":
                import lightgbm  # noqa: F401
            case "catboost":
                import catboost  # noqa: F401
            case _:
                import sklearn.ensemble  # noqa: F401
    except ImportError as error:
        package = name if name in ("xgboost", "lightgbm", "catboost") else "scikit-learn"
        raise InvalidInputError(
            f"model {name!r} needs the package {package}, which can't be imported ({error}). "
            "Install calibrant[training]."
        ) from None
