"""Gradient-boosted trees of three libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from calibrant.numerics import FloatArray, IntArray
from calibrant.training.model_base import MOST_ROUNDS, PATIENCE, Model, as_rows, mean_one


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
        n_rounds = int(params.pop("num_boost_round", MOST_ROUNDS if eval_set else 100))
        training = xgb.DMatrix(X, label=codes, weight=mean_one(sample_weight), nthread=self.n_threads)
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
        return as_rows(model.predict(xgb.DMatrix(X, nthread=self.n_threads)), self.n_classes)

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
        n_rounds = int(params.pop("num_boost_round", MOST_ROUNDS if eval_set else 100))
        training = lgb.Dataset(X, label=codes, weight=mean_one(sample_weight), params={"verbosity": -1})
        watched: list[Any] = []
        callbacks: list[Any] = []
        if eval_set is not None:
            watched = [lgb.Dataset(eval_set[0], label=eval_set[1], reference=training)]
            callbacks = [lgb.early_stopping(PATIENCE, verbose=False)]
        self.model_ = lgb.train(params, training, n_rounds, valid_sets=watched, callbacks=callbacks)
        self.n_rounds_ = n_rounds if eval_set is None else int(self.model_.best_iteration)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`."""
        found = self._booster().predict(X, num_iteration=self.n_rounds_, num_threads=self.n_threads)
        return as_rows(found, self.n_classes)

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
            "iterations": MOST_ROUNDS if eval_set else 100,
            "random_seed": self.seed,
            "thread_count": self.n_threads,
            "allow_writing_files": False,
            "logging_level": "Silent",
            **self.params,
        }
        model = CatBoost(params)
        watched = None if eval_set is None else Pool(*eval_set)
        patience = None if eval_set is None else PATIENCE
        model.fit(Pool(X, codes, weight=mean_one(sample_weight)), eval_set=watched, early_stopping_rounds=patience)
        self.model_, self.n_rounds_ = model, int(model.tree_count_)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities; see `Model.predict_proba`."""
        found = self._booster().predict(X, prediction_type="Probability", thread_count=self.n_threads)
        return as_rows(found, self.n_classes)

    def save(self, folder: Path) -> None:
        """Write the trees in CatBoost's binary format."""
        model = self._booster()
        for name in ("train_finish_time", "model_guid"):  # else the same trees make another file each time
            model.get_metadata()[name] = ""
        model.save_model(str(folder / self.file), format="cbm")

    def read(self, folder: Path) -> Self:
        """Read the trees."""
        from catboost import CatBoost

        self.model_ = CatBoost()
        self.model_.load_model(str(folder / self.file), format="cbm")
        self.n_rounds_ = int(self.model_.tree_count_)
        return self
