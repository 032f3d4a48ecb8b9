"""The models by name: gradient-boosted trees of three libraries, and those of scikit-learn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant.errors import DocumentError, InvalidInputError, ShapeError, unknown_name
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.training.boosted_models import CatBoostModel, LightGBMModel, XGBoostModel
from calibrant.training.estimators import import_estimator, import_trusted, is_estimator_name
from calibrant.training.given_model import GivenModel
from calibrant.training.model_base import (
    FIXED_ROUNDS,
    MOST_ROUNDS,
    PATIENCE,
    EvalSet,
    Model as Model,
    TrainedModel,
    refused_by,
)

#: What trees are made of; everything else that skops doesn't trust is refused.
_TREES = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.tree._tree.Tree")
#: Rows that a classifier of scikit-learn is given at once, always as many: a product of matrices rounds by their
#: number, and tomorrow's one row has to become what it becomes among thousands.
_ROWS_AT_ONCE = 256


class SklearnModel(Model):
    """Any classifier of scikit-learn, unfitted; rows for early stopping are used by those that take them."""

    name: ClassVar[str] = "sklearn"
    file: ClassVar[str] = "model.skops"
    packages: ClassVar[tuple[str, ...]] = ("scikit-learn",)

    @staticmethod
    def _library() -> Any:
        return import_module("sklearn.ensemble")

    def __init__(
        self, n_classes: int, /, *, estimator: Any = None, seed: int = 0, n_threads: int = 1, **params: Any
    ) -> None:
        super().__init__(n_classes, seed=seed, n_threads=n_threads, **params)
        self.estimator = estimator

    @property
    def called(self) -> str:
        """What messages call the model: the name of the class of a classifier that was given."""
        return self.name if self.estimator is None else type(self.estimator).__name__

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN, as the classifier says; of a pipeline, up to the step that fills them in."""
        model = self.model_ if hasattr(self, "model_") else self._unfitted(can_stop=False)
        for _, step in getattr(model, "steps", [("", model)]):
            if type(step).__name__.endswith("Imputer"):
                return True
            if not _allows_nan(step):
                return False
        return True

    @property
    def takes_weight(self) -> bool:
        """Whether training rows may have weights."""
        from sklearn.utils.validation import has_fit_parameter

        model = self._unfitted(can_stop=False)
        steps = getattr(model, "steps", None)
        return bool(has_fit_parameter(steps[-1][1] if steps else model, "sample_weight"))

    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:
        from sklearn.utils.validation import has_fit_parameter

        model = self._unfitted(can_stop=stop is not None)
        steps = getattr(model, "steps", None)  # a pipeline takes weights by the name of its last step
        named = f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"
        more = {} if weight is None or not self.takes_weight else {named: weight}
        watched = {}
        if stop and set(np.unique(stop[1])) <= set(np.unique(codes)) and has_fit_parameter(model, "X_val"):
            watched = {"X_val": stop[0], "y_val": stop[1]}
        elif getattr(model, "early_stopping", None) is True:
            model.set_params(early_stopping=False)
        with _thread_pools(len(sys.modules)).limit(limits=self.n_threads):
            model = model.fit(X, codes, **more, **watched)
            if watched and hasattr(model, "validation_score_"):  # it keeps the rounds after the best one
                best = max(int(np.argmax(model.validation_score_)), 1)
                model = self._unfitted(can_stop=True).set_params(max_iter=best, early_stopping=False)
                model.fit(X, codes, **more)
        return model, _rounds(model)

    def _predict(self, X: FloatArray) -> FloatArray:
        out = np.zeros((len(X), self.n_classes))  # a class without training rows gets 0
        with _thread_pools(len(sys.modules)).limit(limits=self.n_threads):
            classes = self.model_.classes_
            for start in range(0, len(X), _ROWS_AT_ONCE):
                rows = X[start : start + _ROWS_AT_ONCE]
                filled = np.concatenate((rows, np.repeat(rows[-1:], _ROWS_AT_ONCE - len(rows), axis=0)))
                found = np.asarray(self.model_.predict_proba(filled), dtype=np.float64)
                if found.shape != (_ROWS_AT_ONCE, len(classes)):
                    raise ShapeError(
                        f"predict_proba of {self.called} gives shape {found.shape} for {_ROWS_AT_ONCE} rows and "
                        f"{len(classes)} classes. Return a row for each row, and a column for each of its classes_."
                    )
                out[start : start + len(rows), classes] = found[: len(rows)]
        return out

    def _write(self, path: Path) -> None:
        import skops.io

        try:
            skops.io.dump(self.model_, path)
            own = skops.io.get_untrusted_types(file=path)
            if own:  # a file that can't be read is no use, and was made here: to load it runs nothing new
                skops.io.load(path, trusted=own)
        except Exception as error:  # whatever an object of the caller's raises
            raise InvalidInputError(
                f"the fitted {type(self.model_).__name__} can't be saved by skops ({type(error).__name__}: "
                f"{error!s:.200}). Keep in its attributes numbers, arrays and scikit-learn's classifiers only."
            ) from error

    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel:
        """Read a classifier made of types that skops or the caller trusts, and of trees with sound links."""
        import skops.io

        known = [*_TREES, *(name.replace(":", ".") for name in trusted)]
        unknown = [kind for kind in skops.io.get_untrusted_types(file=path) if kind not in known]
        if unknown:
            kinds, are_own = ("type", "it is your own") if len(unknown) == 1 else ("the types", "you know them")
            raise DocumentError(
                f"{path} holds objects of {kinds} {quoted(unknown)}, which calibrant doesn't load, as a class can run "
                f"code. If {are_own}: --trust {','.join(unknown)}, or load_run(..., trusted={unknown!r}). Else train "
                "the model again."
            )
        import_trusted(trusted)
        model = skops.io.load(path, trusted=known)
        check_trees(model, str(path))
        return model, _rounds(model)

    def _unfitted(self, *, can_stop: bool) -> Any:  # noqa: ARG002
        from sklearn.base import clone

        model = clone(self.estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=self.seed)
        return _with_params(model, self.params)


class HistGradientBoostingModel(SklearnModel):
    """scikit-learn's histogram gradient boosting."""

    name: ClassVar[str] = "hist_gradient_boosting"

    @property
    def takes_missing(self) -> bool:
        """Features may be NaN."""
        return True

    def _unfitted(self, *, can_stop: bool) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        params = {
            "learning_rate": 0.05,
            "max_iter": MOST_ROUNDS if can_stop else FIXED_ROUNDS,
            "max_leaf_nodes": 15,
            "early_stopping": can_stop,
            "n_iter_no_change": PATIENCE,
            "random_state": self.seed,
        }
        return _with_params(HistGradientBoostingClassifier(**params), self.params)


class LogisticModel(SklearnModel):
    """Multinomial logistic regression of standardised features."""

    name: ClassVar[str] = "logistic"

    @property
    def takes_missing(self) -> bool:
        """Features may not be NaN."""
        return False

    def _unfitted(self, *, can_stop: bool) -> Any:  # noqa: ARG002
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        regression = _with_params(LogisticRegression(C=0.1, max_iter=1000), self.params)
        return make_pipeline(StandardScaler(), regression)


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:  # noqa: ARG001 - an import may bring a library: they are looked for anew
    """Return the libraries with threads of their own: to find them takes longer than a row's prediction."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _with_params(estimator: Any, params: dict[str, Any]) -> Any:
    """Set parameters of a classifier, or say which it doesn't have."""
    known = estimator.get_params()
    for name in params:
        if name not in known:
            raise unknown_name(f"param of {type(estimator).__name__}:", name, known)
    return estimator.set_params(**params)


def _allows_nan(step: Any) -> bool:
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(step).input_tags.allow_nan)
    except AttributeError:  # a class that isn't one of scikit-learn's, or "passthrough", doesn't say
        return step in (None, "passthrough")


def check_trees(model: Any, where: str) -> None:
    """Refuse trees of which a child is no later node, or a feature doesn't exist: compiled code would follow them."""
    for left, right, feature, is_leaf in _tree_links(model):
        inner = np.flatnonzero(~is_leaf)
        child = np.concatenate((left[inner], right[inner])).astype(np.int64)
        used = feature[inner].astype(np.int64)
        is_link = (child > np.tile(inner, 2)) & (child < left.size)
        is_feature = (used >= 0) & (used < model.n_features_in_)
        if not (is_link.all() and is_feature.all()):
            raise DocumentError(f"{where} holds a broken tree. Train the model again.")


def _tree_links(model: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Return left and right children, features, and which nodes are leaves, of every tree of a model."""
    boosted = [tree.nodes for step in getattr(model, "_predictors", []) for tree in step]
    found = [(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"].astype(bool)) for nodes in boosted]
    for part in [model, *np.ravel(getattr(model, "estimators_", []))]:
        tree = getattr(part, "tree_", None)
        if tree is not None:
            found.append((tree.children_left, tree.children_right, tree.feature, tree.children_left < 0))
    return found


def _rounds(model: Any) -> int:
    """Return the rounds of boosting; 0 for other classifiers, whose `n_iter_` counts something else."""
    return int(model.n_iter_) if type(model).__name__ == "HistGradientBoostingClassifier" else 0


MODELS: dict[str, type[Model]] = {
    kind.name: kind for kind in (XGBoostModel, LightGBMModel, CatBoostModel, HistGradientBoostingModel, LogisticModel)
}


def make_model(
    model: Any, n_classes: int, *, seed: int = 0, n_threads: int = 1, params: dict[str, Any] | None = None
) -> Model:
    """Return an unfitted model: one of `MODELS` by its name, or of an unfitted classifier with `predict_proba`.

    A classifier is given as it is, or as module:Class.

    `params` are settings of the library. It takes one thread by default, as boosting with more threads than there are
    free cores can be a hundred times slower.
    """
    given = {"seed": seed, "n_threads": n_threads, **(params or {})}
    if not isinstance(model, str):
        from sklearn.base import clone

        ready = model
        if hasattr(model, "get_params"):  # some have predict_proba by their params only, as SGDClassifier by its loss
            with refused_by(type(model).__name__, "copied"):
                ready = _with_params(clone(model), params or {})
        lacking = next((name for name in ("predict_proba", "get_params") if not hasattr(ready, name)), None)
        if lacking is not None:
            raise InvalidInputError(
                f"model={ready!r:.80} has no {lacking}. Pass a classifier of scikit-learn, or one of: "
                f"{quoted(list(MODELS))}."
            )
        return SklearnModel(n_classes, estimator=model, **given)
    if is_estimator_name(model):
        return make_model(import_estimator(model), n_classes, seed=seed, n_threads=n_threads, params=params)
    if model == SklearnModel.name:
        raise InvalidInputError(
            "model='sklearn' doesn't say which classifier. Pass it from Python, or name its class, as in "
            "sklearn.ensemble:RandomForestClassifier."
        )
    if model not in MODELS:
        raise unknown_name("model", model, MODELS)
    MODELS[model].import_library()
    return MODELS[model](n_classes, **given)


def model_class(name: str) -> type[Model]:
    """Return the class of the models of this name; any other name is that of a classifier of scikit-learn."""
    return MODELS.get(name, SklearnModel)


def read_model(name: str, n_classes: int, folder: Path, *, n_threads: int = 1, trusted: Sequence[str] = ()) -> Model:
    """Return the fitted model that a model of this name saved in a folder, made of classes that may be loaded."""
    kind = GivenModel if (folder / GivenModel.file).is_file() else model_class(name)
    return kind(n_classes, n_threads=n_threads).read(folder, trusted=trusted)


def check_features(model: Model, X: FloatArray, names: Sequence[str], time: npt.NDArray[Any]) -> None:
    """Refuse rows that miss a feature, where a model takes no missing values."""
    missing = np.isnan(X)
    if missing.any() and not model.takes_missing:
        j = int(missing.any(axis=0).argmax())
        takers = [name for name in MODELS if name != LogisticModel.name]
        raise InvalidInputError(
            f"feature {names[j]!r} is missing in {missing[:, j].sum():,} of {len(X):,} rows, first in that of "
            f"{time[missing[:, j].argmax()]}, and {model.called} takes no missing values. Fill them in, drop these "
            f"rows, or use one of: {quoted(takers)}."
        )
