"""Classifiers of one kind of interface: boosted trees of three libraries, and those of scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import DocumentError, InvalidInputError, NotFittedError, unknown_name
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import check_integer

#: Rounds without a better log loss on the slice for early stopping, after which boosting ends.
PATIENCE = 30
_MOST_ROUNDS = 500
#: What trees are made of; everything else that skops calls unknown is refused.
_TREES = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.tree._tree.Tree")


class Model(ABC):
    """A classifier of K classes, numbered from 0.

    Parameters
    ----------
    n_classes : int
    seed : int
    n_threads : int
    params : dict
        Settings that go to the library as they are, over the defaults of calibrant.

    Attributes
    ----------
    n_rounds_ : int
        Rounds of boosting that predictions use; 0 for a model that isn't boosted.
    """

    #: The name on the command line.
    name: ClassVar[str]
    #: The file that `save` writes.
    file: ClassVar[str]
    n_rounds_: int

    def __init__(self, n_classes: int, *, seed: int = 0, n_threads: int = 1, **params: Any) -> None:
        self.n_classes = check_integer("n_classes", n_classes, minimum=2)
        self.seed = check_integer("seed", seed, minimum=0)
        self.n_threads = check_integer("n_threads", n_threads, minimum=1)
        self.params = params

    @abstractmethod
    def fit(
        self,
        X: FloatArray,
        codes: IntArray,
        *,
        sample_weight: FloatArray | None = None,
        eval_set: tuple[FloatArray, IntArray] | None = None,
    ) -> Self:
        """Fit to rows of classes 0 to K - 1; with `eval_set`, stop where its log loss no longer falls."""

    @abstractmethod
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probability of each class, shape (n, K)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into a folder, in its library's own format."""

    @abstractmethod
    def read(self, folder: Path) -> Self:
        """Take over the model that `save` wrote; nothing in the file can run."""

    def _booster(self) -> Any:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {self.name} model is not fitted. Call fit(X, codes) first.")
        return self.model_


class XGBoostModel(Model):
    """Gradient-boosted trees of XGBoost."""

    name: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "model.json"

    def fit(
        self,
        X: FloatArray,
        codes: IntArray,
        *,
        sample_weight: FloatArray | None = None,
        eval_set: tuple[FloatArray, IntArray] | None = None,
    ) -> Self:
        """Fit; see `Model.fit`."""
        import xgboost as xgb

        params = {
            "objective": "multi:softprob",
            "num_class": self.n_classes,
            "eval_metric": "mlogloss",
            "eta": 0.05,
            "max_depth": 4,
            "subsample": 0.8,
            "colsample_bytree": 0.8,
            "tree_method": "hist",
            "seed": self.seed,
            "nthread": self.n_threads,
            "verbosity": 0,
            **self.params,
        }
        n_rounds = int(params.pop("num_boost_round", _MOST_ROUNDS if eval_set else 100))
        training = xgb.DMatrix(X, label=codes, weight=sample_weight, nthread=self.n_threads)
        watched = [] if eval_set is None else [(xgb.DMatrix(eval_set[0], label=eval_set[1]), "stop")]
        patience = None if eval_set is None else PATIENCE
        model = xgb.train(params, training, n_rounds, evals=watched, early_stopping_rounds=patience, verbose_eval=False)
        self.n_rounds_ = n_rounds if eval_set is None else int(model.best_iteration) + 1
        self.model_ = model[: self.n_rounds_]
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`."""
        import xgboost as xgb

        model = self._booster()
        model.set_param({"nthread": self.n_threads})
        return _as_rows(model.predict(xgb.DMatrix(X, nthread=self.n_threads)), self.n_classes)

    def save(self, folder: Path) -> None:
        """Write the trees as JSON."""
        self._booster().save_model(folder / self.file)

    def read(self, folder: Path) -> Self:
        """Read the trees from JSON."""
        import xgboost as xgb

        self.model_ = xgb.Booster(model_file=folder / self.file)
        self.n_rounds_ = self.model_.num_boosted_rounds()
        return self


class LightGBMModel(Model):
    """Gradient-boosted trees of LightGBM."""

    name: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "model.txt"

    def fit(
        self,
        X: FloatArray,
        codes: IntArray,
        *,
        sample_weight: FloatArray | None = None,
        eval_set: tuple[FloatArray, IntArray] | None = None,
    ) -> Self:
        """Fit; see `Model.fit`."""
        import lightgbm as lgb

        params = {
            "objective": "multiclass",
            "num_class": self.n_classes,
            "metric": "multi_logloss",
            "learning_rate": 0.05,
            "num_leaves": 15,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "feature_fraction": 0.8,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.n_threads,
            "verbosity": -1,
            **self.params,
        }
        n_rounds = int(params.pop("num_boost_round", _MOST_ROUNDS if eval_set else 100))
        training = lgb.Dataset(X, label=codes, weight=sample_weight, params={"verbosity": -1})
        watched, callbacks = [], []
        if eval_set is not None:
            watched = [lgb.Dataset(eval_set[0], label=eval_set[1], reference=training)]
            callbacks = [lgb.early_stopping(PATIENCE, verbose=False)]
        self.model_ = lgb.train(params, training, n_rounds, valid_sets=watched, callbacks=callbacks)
        self.n_rounds_ = n_rounds if eval_set is None else int(self.model_.best_iteration)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`."""
        found = self._booster().predict(X, num_iteration=self.n_rounds_, num_threads=self.n_threads)
        return _as_rows(found, self.n_classes)

    def save(self, folder: Path) -> None:
        """Write the trees as text."""
        self._booster().save_model(folder / self.file, num_iteration=self.n_rounds_)

    def read(self, folder: Path) -> Self:
        """Read the trees from text."""
        import lightgbm as lgb

        self.model_ = lgb.Booster(model_file=folder / self.file)
        self.n_rounds_ = self.model_.current_iteration()
        return self


class CatBoostModel(Model):
    """Gradient-boosted trees of CatBoost."""

    name: ClassVar[str] = "catboost"
    file: ClassVar[str] = "model.cbm"

    def fit(
        self,
        X: FloatArray,
        codes: IntArray,
        *,
        sample_weight: FloatArray | None = None,
        eval_set: tuple[FloatArray, IntArray] | None = None,
    ) -> Self:
        """Fit; see `Model.fit`."""
        from catboost import CatBoost, Pool

        params = {
            "loss_function": "MultiClass",
            "classes_count": self.n_classes,
            "learning_rate": 0.05,
            "depth": 5,
            "iterations": _MOST_ROUNDS if eval_set else 100,
            "random_seed": self.seed,
            "thread_count": self.n_threads,
            "allow_writing_files": False,
            "logging_level": "Silent",
            **self.params,
        }
        model = CatBoost(params)
        watched = None if eval_set is None else Pool(*eval_set)
        patience = None if eval_set is None else PATIENCE
        model.fit(Pool(X, codes, weight=sample_weight), eval_set=watched, early_stopping_rounds=patience)
        self.model_, self.n_rounds_ = model, int(model.tree_count_)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`."""
        found = self._booster().predict(X, prediction_type="Probability", thread_count=self.n_threads)
        return _as_rows(found, self.n_classes)

    def save(self, folder: Path) -> None:
        """Write the trees in CatBoost's binary format."""
        self._booster().save_model(str(folder / self.file), format="cbm")

    def read(self, folder: Path) -> Self:
        """Read the trees."""
        from catboost import CatBoost

        self.model_ = CatBoost()
        self.model_.load_model(str(folder / self.file), format="cbm")
        self.n_rounds_ = int(self.model_.tree_count_)
        return self


class SklearnModel(Model):
    """A classifier of scikit-learn, by default its histogram gradient boosting.

    `estimator` is any unfitted classifier with `predict_proba`. Rows for early stopping are used by those that take
    them; the others don't see them.
    """

    name: ClassVar[str] = "sklearn"
    file: ClassVar[str] = "model.skops"

    def __init__(
        self, n_classes: int, *, estimator: Any = None, seed: int = 0, n_threads: int = 1, **params: Any
    ) -> None:
        super().__init__(n_classes, seed=seed, n_threads=n_threads, **params)
        self.estimator = estimator

    def fit(
        self,
        X: FloatArray,
        codes: IntArray,
        *,
        sample_weight: FloatArray | None = None,
        eval_set: tuple[FloatArray, IntArray] | None = None,
    ) -> Self:
        """Fit; see `Model.fit`."""
        from sklearn.utils.validation import has_fit_parameter

        model = self._make(can_stop=eval_set is not None)
        known = eval_set is not None and set(np.unique(eval_set[1])) <= set(np.unique(codes))
        more: dict[str, Any] = {}
        if known and eval_set is not None and has_fit_parameter(model, "X_val"):
            more = {"X_val": eval_set[0], "y_val": eval_set[1]}
        elif getattr(model, "early_stopping", None) is True:
            model.set_params(early_stopping=False)
        if sample_weight is not None:
            more[self._weight_name(model)] = sample_weight
        with _threads(self.n_threads):
            self.model_ = model.fit(X, codes, **more)
        self.n_rounds_ = int(getattr(self.model_, "n_iter_", 0)) if self._is_boosted() else 0
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`. A class without training rows gets 0."""
        model = self._booster()
        with _threads(self.n_threads):
            found = np.asarray(model.predict_proba(X), dtype=np.float64)
        out = np.zeros((len(found), self.n_classes))
        out[:, model.classes_] = found
        return out

    def save(self, folder: Path) -> None:
        """Write the classifier as a skops archive."""
        import skops.io

        skops.io.dump(self._booster(), folder / self.file)

    def read(self, folder: Path) -> Self:
        """Read the classifier, made of types that skops trusts and of trees with sound links."""
        import skops.io

        path = folder / self.file
        unknown = [kind for kind in skops.io.get_untrusted_types(file=path) if kind not in _TREES]
        if unknown:
            raise DocumentError(
                f"{path} holds objects of type {unknown[0]!r}, which calibrant doesn't load. Train the model again."
            )
        self.model_ = skops.io.load(path, trusted=list(_TREES))
        check_trees(self.model_, str(path))
        self.n_rounds_ = int(getattr(self.model_, "n_iter_", 0)) if self._is_boosted() else 0
        return self

    def _make(self, *, can_stop: bool) -> Any:
        """Return the unfitted classifier."""
        from sklearn.base import clone

        model = clone(self.estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=self.seed)
        return model.set_params(**self.params) if self.params else model

    def _weight_name(self, model: Any) -> str:
        """Return the name by which the fit takes weights: in a pipeline, those of its last step."""
        steps = getattr(model, "steps", None)
        return f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"

    def _is_boosted(self) -> bool:
        return type(self.model_).__name__ == "HistGradientBoostingClassifier"


class HistGradientBoostingModel(SklearnModel):
    """scikit-learn's histogram gradient boosting."""

    name: ClassVar[str] = "hist_gradient_boosting"

    def _make(self, *, can_stop: bool) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        params = {
            "learning_rate": 0.05,
            "max_iter": _MOST_ROUNDS if can_stop else 100,
            "max_leaf_nodes": 15,
            "early_stopping": can_stop,
            "n_iter_no_change": PATIENCE,
            "random_state": self.seed,
            **self.params,
        }
        return HistGradientBoostingClassifier(**params)


class LogisticModel(SklearnModel):
    """Multinomial logistic regression of standardised features."""

    name: ClassVar[str] = "logistic"

    def _make(self, *, can_stop: bool) -> Any:  # noqa: ARG002
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        params = {"C": 0.1, "max_iter": 1000, **self.params}
        return make_pipeline(StandardScaler(), LogisticRegression(**params))


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
    _check_installed(model)
    return MODELS[model](n_classes, seed=seed, n_threads=n_threads, **given)


def read_model(name: str, n_classes: int, folder: Path, *, n_threads: int = 1) -> Model:
    """Return the fitted model that a model of this name saved in a folder."""
    kind = MODELS.get(name, SklearnModel)
    return kind(n_classes, n_threads=n_threads).read(folder)


def check_trees(model: Any, where: str) -> None:
    """Refuse trees whose links lead out of them or in circles: compiled code would follow them.

    Raises
    ------
    DocumentError
        If a child is no later node of its tree, or a node splits by a feature that doesn't exist.
    """
    for left, right, feature, is_leaf in _tree_links(model):
        place = np.arange(left.size)
        child = np.concatenate((left[~is_leaf], right[~is_leaf])).astype(np.int64)
        parent = np.concatenate((place[~is_leaf], place[~is_leaf]))
        used = feature[~is_leaf].astype(np.int64)
        if (
            (child <= parent).any()
            or (child >= left.size).any()
            or (used < 0).any()
            or (used >= model.n_features_in_).any()
        ):
            raise DocumentError(f"{where} holds a broken tree. Train the model again.")


def _tree_links(model: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Return left and right children, features, and which nodes are leaves, of every tree of a model."""
    found = []
    for step in getattr(model, "_predictors", []):
        for tree in step:
            nodes = tree.nodes
            found.append((nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"].astype(bool)))
    for part in [model, *np.ravel(getattr(model, "estimators_", []))]:
        tree = getattr(part, "tree_", None)
        if tree is not None:
            found.append((tree.children_left, tree.children_right, tree.feature, tree.children_left < 0))
    return found


def _threads(n_threads: int) -> Any:
    """Limit the threads of the libraries below scikit-learn."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=n_threads)


def _check_installed(name: str) -> None:
    from importlib.util import find_spec

    package = {"hist_gradient_boosting": "sklearn", "logistic": "sklearn"}.get(name, name)
    if find_spec(package) is None:
        raise InvalidInputError(f"model {name!r} needs the package {package}. Install calibrant[training].")


def _as_rows(found: Any, n_classes: int) -> FloatArray:
    """Return probabilities in double precision, whose rows sum to one."""
    p = np.asarray(found, dtype=np.float64).reshape(-1, n_classes)
    p /= p.sum(axis=1, keepdims=True)
    return p
