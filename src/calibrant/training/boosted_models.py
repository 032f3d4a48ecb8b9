"""Gradient-boosted trees of XGBoost, LightGBM and CatBoost."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import UnknownNameError, did_you_mean
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.training.model_base import FIXED_ROUNDS, MOST_ROUNDS, PATIENCE, EvalSet, Model, TrainedModel

#: Names that libraries have besides those of our defaults; those of LightGBM it lists itself.
_XGBOOST_NAMES = {"eta": ["learning_rate"], "seed": ["random_state"], "nthread": ["n_jobs"]}
_CATBOOST_NAMES = {
    "loss_function": ["objective"],
    "learning_rate": ["eta"],
    "depth": ["max_depth"],
    "iterations": ["num_boost_round", "n_estimators", "num_trees"],
    "random_seed": ["random_state"],
    "logging_level": ["silent", "verbose", "verbose_eval"],
}


class XGBoostModel(Model):
    """Gradient-boosted trees of XGBoost, kept as JSON."""

    name: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "model.json"
    packages: ClassVar[tuple[str, ...]] = ("xgboost", "xgboost-cpu")

    @staticmethod
    def _library() -> Any:
        return import_module("xgboost")

    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:
        xgb = self._library()
        defaults = {
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
        }
        params = self.params_over(defaults, _XGBOOST_NAMES)
        n_rounds = int(params.pop("num_boost_round", MOST_ROUNDS if stop else FIXED_ROUNDS))
        training = xgb.DMatrix(X, label=codes, weight=weight, nthread=self.n_threads)
        self._check_params(params, training)
        watched = [(xgb.DMatrix(stop[0], label=stop[1]), "stop")] if stop else []
        stopping = {"evals": watched, "early_stopping_rounds": PATIENCE if stop else None}
        model = xgb.train(params, training, n_rounds, verbose_eval=False, **stopping)
        best = int(model.best_iteration) + 1 if stop else n_rounds
        return model[:best], best

    def _check_params(self, params: dict[str, Any], training: Any) -> None:
        """Refuse params that XGBoost passes over: it only warns of them, where it may."""
        if not self.params:
            return
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self._library().Booster({**params, "verbosity": 1}, cache=[training]).save_config()
        unused = [text for text in (str(each.message) for each in said) if "are not used" in text]
        names = {name for text in unused for name in re.findall(r'"([^"]+)"', text)}
        _refuse_unknown(self.name, [name for name in self.params if name in names])

    def _predict(self, X: FloatArray) -> FloatArray:
        self.model_.set_param({"nthread": self.n_threads})
        rows = self._library().DMatrix(X, nthread=self.n_threads)
        return _normalised(self.model_.predict(rows), self.n_classes)

    def _write(self, path: Path) -> None:
        self.model_.save_model(path)

    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel:  # noqa: ARG002 - such a file holds no classes
        model = self._library().Booster(model_file=path)
        return model, model.num_boosted_rounds()


class LightGBMModel(Model):
    """Gradient-boosted trees of LightGBM, kept as text."""

    name: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "model.txt"
    packages: ClassVar[tuple[str, ...]] = ("lightgbm",)

    @staticmethod
    def _library() -> Any:
        return import_module("lightgbm")

    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:
        lgb = self._library()
        defaults = {
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
        }
        several = self._names_of_params()
        known = set().union(*several.values())
        _refuse_unknown(self.name, [name for name in self.params if name not in known], known)
        params = self.params_over(defaults, several)
        n_rounds = int(params.pop("num_boost_round", MOST_ROUNDS if stop else FIXED_ROUNDS))
        training = lgb.Dataset(X, label=codes, weight=weight, params={"verbosity": -1})
        if stop is None:
            model = lgb.train(params, training, n_rounds)
            return model, int(model.current_iteration())
        watched = [lgb.Dataset(*stop, reference=training)]
        stopping = [lgb.early_stopping(PATIENCE, verbose=False)]
        model = lgb.train(params, training, n_rounds, valid_sets=watched, callbacks=stopping)
        return model, int(model.best_iteration)

    def _names_of_params(self) -> dict[str, list[str]]:
        """Return all names of each param that LightGBM knows; it passes over others."""
        of_names = self._library().basic._ConfigAliases  # nothing public lists them
        of_names.get("verbosity")  # which reads them
        return dict(of_names.aliases)

    def _predict(self, X: FloatArray) -> FloatArray:
        found = self.model_.predict(X, num_iteration=self.n_rounds_, num_threads=self.n_threads)
        return _normalised(found, self.n_classes)

    def _write(self, path: Path) -> None:
        self.model_.save_model(path, num_iteration=self.n_rounds_)

    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel:  # noqa: ARG002 - such a file holds no classes
        model = self._library().Booster(model_file=path)
        return model, model.current_iteration()


class CatBoostModel(Model):
    """Gradient-boosted trees of CatBoost, kept in its binary format."""

    name: ClassVar[str] = "catboost"
    file: ClassVar[str] = "model.cbm"
    packages: ClassVar[tuple[str, ...]] = ("catboost",)

    @staticmethod
    def _library() -> Any:
        return import_module("catboost")

    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:
        catboost = self._library()
        defaults = {
            "loss_function": "MultiClass",
            "classes_count": self.n_classes,
            "learning_rate": 0.05,
            "depth": 5,
            "iterations": MOST_ROUNDS if stop else FIXED_ROUNDS,
            "random_seed": self.seed,
            "thread_count": self.n_threads,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        params = self.params_over(defaults, _CATBOOST_NAMES)
        watched = catboost.Pool(*stop) if stop else None
        patience = PATIENCE if stop else None
        model = catboost.CatBoost(params)
        model.fit(catboost.Pool(X, codes, weight=weight), eval_set=watched, early_stopping_rounds=patience)
        return model, int(model.tree_count_)

    def _predict(self, X: FloatArray) -> FloatArray:
        found = self.model_.predict(X, prediction_type="Probability", thread_count=self.n_threads)
        return _normalised(found, self.n_classes)

    def _write(self, path: Path) -> None:
        for name in ("train_finish_time", "model_guid"):  # else the same trees make another file each time
            self.model_.get_metadata()[name] = ""
        self.model_.save_model(str(path), format="cbm")

    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel:  # noqa: ARG002 - such a file holds no classes
        model = self._library().CatBoost()
        model.load_model(str(path), format="cbm")
        return model, int(model.tree_count_)


def _normalised(found: Any, n_classes: int) -> FloatArray:
    """Return probabilities in double precision whose rows sum to one; libraries give single precision."""
    p = np.asarray(found, dtype=np.float64).reshape(-1, n_classes)
    p /= p.sum(axis=1, keepdims=True)
    return p


def _refuse_unknown(called: str, names: Sequence[str], known: Collection[str] = ()) -> None:
    if names:
        raise UnknownNameError(
            f"{called} knows no param {quoted(names)}.{did_you_mean(names[0], known)} Correct it or leave it out; "
            "rounds of boosting are num_boost_round."
        )
