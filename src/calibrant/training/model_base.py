"""The one interface of all models; a library is added by what stands between its own functions and these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from calibrant.errors import CalibrantError, InvalidInputError, ShapeError, not_fitted
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import as_probabilities, check_integer

#: Rounds without a better log loss on the rows for early stopping, after which boosting ends.
PATIENCE = 30
#: Rounds of boosting: at most with early stopping, and always without it.
MOST_ROUNDS, FIXED_ROUNDS = 500, 100
#: Features and classes of the rows for early stopping.
EvalSet: TypeAlias = tuple[FloatArray, IntArray]
#: The library's fitted model, and its rounds of boosting.
TrainedModel: TypeAlias = tuple[Any, int]


class Model(ABC):
    """A classifier of K classes, numbered from 0; `params` go to its library, over the defaults of calibrant."""

    #: The name on the command line.
    name: ClassVar[str]
    #: The file that `save` writes.
    file: ClassVar[str]
    #: The packages that hold the library.
    packages: ClassVar[tuple[str, ...]]
    #: The library's own fitted model, and the rounds of boosting that predictions use; 0 where nothing is boosted.
    model_: Any
    n_rounds_: int

    def __init__(self, n_classes: int, /, *, seed: int = 0, n_threads: int = 1, **params: Any) -> None:
        self.n_classes = check_integer("n_classes", n_classes, minimum=2)
        self.seed = check_integer("seed", seed, minimum=0)
        self.n_threads = check_integer("n_threads", n_threads, minimum=1)
        self.params = params

    @property
    def called(self) -> str:
        """What messages call the model."""
        return self.name

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN."""
        return True

    @property
    def takes_weight(self) -> bool:
        """Whether training rows may have weights."""
        return True

    def fit(
        self, X: FloatArray, codes: IntArray, *, sample_weight: FloatArray | None = None, stop: EvalSet | None = None
    ) -> Self:
        """Fit to rows of classes 0 to K - 1; with `stop`, end where their log loss no longer falls.

        Weights are divided by their mean: settings of libraries, such as the least weight of a leaf, count rows.
        """
        weight = None if sample_weight is None else sample_weight / sample_weight.mean()
        with refused_by(self.called, "fitted"):
            self.model_, self.n_rounds_ = self._train(X, codes, weight, stop)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probability of each class, shape (n, K), or refuse an output that is no probabilities."""
        if not hasattr(self, "model_"):
            raise not_fitted(f"this {self.name} model is not fitted. Call fit(X, codes) first.")
        with refused_by(self.called, "asked for probabilities"):
            found = self._predict(X)
        if found.shape != (len(X), self.n_classes):
            raise ShapeError(
                f"the model {self.called} gives probabilities of shape {found.shape} for {len(X):,} rows of "
                f"{self.n_classes} classes. Leave out params that change what it predicts."
            )
        return as_probabilities(found, name=f"the output of the {self.name} model").values

    def save(self, folder: Path) -> None:
        """Write the fitted model into a folder, in its library's own format."""
        self._write(folder / self.file)

    def read(self, folder: Path, *, trusted: Sequence[str] = ()) -> Self:
        """Take over the model that `save` wrote; nothing in the file can run but classes that are named as trusted."""
        self.model_, self.n_rounds_ = self._read(folder / self.file, trusted)
        return self

    def params_over(self, defaults: dict[str, Any], other_names: Mapping[str, Collection[str]]) -> dict[str, Any]:
        """Return the params, and those defaults that they don't name, under any of a default's names.

        Libraries that find both either refuse them or pass over the one that was given.
        """
        given = self.params.keys()
        kept = {name: value for name, value in defaults.items() if given.isdisjoint(other_names.get(name, ()))}
        return kept | self.params

    @classmethod
    def import_library(cls) -> None:
        """Import the library, so that no time that is measured later holds it; say so if it isn't installed."""
        try:
            cls._library()
        except ImportError as error:
            raise InvalidInputError(
                f"model {cls.name!r} needs the package {cls.packages[0]}, which can't be imported ({error}). "
                "Install calibrant[training]."
            ) from None

    @staticmethod
    @abstractmethod
    def _library() -> Any: ...

    @abstractmethod
    def _train(self, X: FloatArray, codes: IntArray, weight: FloatArray | None, stop: EvalSet | None) -> TrainedModel:
        """Fit by weights of mean one."""

    @abstractmethod
    def _predict(self, X: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _write(self, path: Path) -> None: ...

    @abstractmethod
    def _read(self, path: Path, trusted: Sequence[str]) -> TrainedModel: ...


@contextmanager
def refused_by(called: str, what: str) -> Iterator[None]:
    """Say of whatever a library, or a class of the caller's, raises that the model can't be used so, and why."""
    try:
        yield
    except (CalibrantError, MemoryError, OSError):
        raise
    except Exception as error:
        raise InvalidInputError(
            f"the model {called} can't be {what} ({type(error).__name__}: {error!s:.300}). Change its params, its "
            "code, or the model."
        ) from error
