"""The one interface of all models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import NotFittedError
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import check_integer

#: Rounds without a better log loss on the slice for early stopping, after which boosting ends.
PATIENCE = 30
MOST_ROUNDS = 500


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


def mean_one(sample_weight: FloatArray | None) -> FloatArray | None:
    """Return weights of mean one: settings of libraries, such as the least weight of a leaf, count rows."""
    return None if sample_weight is None else sample_weight / sample_weight.mean()


def as_rows(found: Any, n_classes: int) -> FloatArray:
    """Return probabilities in double precision, whose rows sum to one."""
    p = np.asarray(found, dtype=np.float64).reshape(-1, n_classes)
    p /= p.sum(axis=1, keepdims=True)
    return p
