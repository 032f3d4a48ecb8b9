"""Classifiers of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import DocumentError
from calibrant.numerics import FloatArray, IntArray
from calibrant.training.model_base import MOST_ROUNDS, PATIENCE, Model, mean_one

#: What trees are made of; everything else that skops doesn't trust is refused.
_TREES = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.tree._tree.Tree")


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
            more[self._weight_name(model)] = mean_one(sample_weight)
        with _threads(self.n_threads):
            self.model_ = model.fit(X, codes, **more)
            if "X_val" in more and hasattr(self.model_, "validation_score_"):  # which keeps the rounds after the best
                best = max(int(np.argmax(self.model_.validation_score_)), 1)
                again = {name: value for name, value in more.items() if name not in ("X_val", "y_val")}
                self.model_ = self._make(can_stop=True).set_params(max_iter=best, early_stopping=False)
                self.model_.fit(X, codes, **again)
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

    def _make(self, *, can_stop: bool) -> Any:  # noqa: ARG002
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
            "max_iter": MOST_ROUNDS if can_stop else 100,
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
