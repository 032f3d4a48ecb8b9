"""Constructor arguments as settings, by scikit-learn's rules: read, changed, copied and shown."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self

from calibrant.errors import InvalidInputError, unknown_name


class Configured:
    """An object that its constructor's arguments describe; one of these may be another such object.

    The constructor keeps each argument as it is under its own name; `fit` checks them.
    """

    @classmethod
    @cache  # a signature takes longer to read than a small fit
    def param_names(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments."""
        return tuple(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments; with `deep`, also those of an argument that has some: `outer__inner`."""
        params = {name: getattr(self, name) for name in self.param_names()}
        if deep:
            inner = {name: value.get_params() for name, value in params.items() if isinstance(value, Configured)}
            params |= {f"{name}__{key}": value for name in inner for key, value in inner[name].items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments; `outer__inner` is one of an argument that has some itself."""
        for key in sorted(params, key=lambda key: "__" in key):  # whole arguments first
            name, _, inner = key.partition("__")
            if name not in self.param_names():
                raise unknown_name(f"parameter of {type(self).__name__}", name, self.param_names())
            if not inner:
                setattr(self, name, params[key])
                continue
            target = getattr(self, name)
            if not isinstance(target, Configured):
                raise InvalidInputError(
                    f"{name}={target!r} has no parameters to set. Pass an instance of a calibrator instead."
                )
            target.set_params(**{inner: params[key]})
        return self

    def fresh(self) -> Self:
        """Return an unfitted object with the same settings."""
        return type(self)(**self.get_params(deep=False))

    def __repr__(self) -> str:
        defaults, params = inspect.signature(type(self)).parameters, self.get_params(deep=False)
        first = [repr(params.pop("calibrator"))] if "calibrator" in params else []
        changed = [f"{name}={value!r}" for name, value in params.items() if value != defaults[name].default]
        return f"{type(self).__name__}({', '.join(first + changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of the objects that it is handed; nobody else calls it."""
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()
