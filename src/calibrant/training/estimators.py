"""Classifiers of one's own, named as module:Class, so that settings in a file can say which one a run trains."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from calibrant.errors import InvalidInputError, did_you_mean

_NAME = re.compile(r"{0}(\.{0})*:{0}(\.{0})*".format(r"[A-Za-z_]\w*"))
#: Parameters that a run sets itself.
_SET_BY_RUN = ("random_state",)


def is_estimator_name(name: str) -> bool:
    """Say whether this names a classifier as module:Class."""
    return _NAME.fullmatch(name) is not None


def short_name(name: str) -> str:
    """Return what files and columns call a model: its own name, or that of the class."""
    return name.rpartition(":")[2].rpartition(".")[2]


def import_estimator(name: str) -> Any:
    """Return an unfitted classifier of the class, or of the function or object, that module:Class names.

    The module is looked for where Python looks, and then in the working directory. It is imported, which runs it: only
    a name that the caller gave, or that is in settings the caller chose, comes here.
    """
    module_name, _, path = name.partition(":")
    found: Any = _import(module_name, f"model={name!r}")
    for part in path.split("."):
        if not hasattr(found, part):
            near = did_you_mean(part, dir(found))
            raise InvalidInputError(f"model={name!r}: {module_name} has no {path!r}.{near}")
        found = getattr(found, part)
    if isinstance(found, type) or (callable(found) and not hasattr(found, "predict_proba")):
        try:
            found = found()
        except Exception as error:  # whatever the caller's code raises
            raise InvalidInputError(
                f"model={name!r} can't be made without arguments ({error}). Give them defaults, or name a function "
                "without arguments that returns the classifier; params set what differs."
            ) from error
    return found


def setting_of(estimator: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the name by which `import_estimator` finds the class of a classifier, and the parameters that differ.

    None where there is no such name, as of a class within a function, or where a file of settings can't hold a
    parameter, as another classifier.
    """
    kind = type(estimator)
    module, path = kind.__module__, kind.__qualname__
    if module == "__main__" or "<" in path:
        return None
    parent = module.rpartition("._")[0]  # scikit-learn's modules are private, and their parents are not
    if parent and getattr(sys.modules.get(parent), path, None) is kind:
        module = parent
    name = f"{module}:{path}"
    try:
        usual = import_estimator(name).get_params(deep=False)
    except (InvalidInputError, AttributeError):
        return None
    given = estimator.get_params(deep=False)
    params = {key: value for key, value in given.items() if key not in _SET_BY_RUN and not _is_same(value, usual[key])}
    return (name, params) if all(_is_plain(value) for value in params.values()) else None


def import_trusted(names: Sequence[str]) -> None:
    """Import the modules of classes that the caller trusts, as module.Class or module:Class."""
    for name in names:
        _import(name.replace(":", ".").rpartition(".")[0], f"trusted={name!r}")


def _import(module_name: str, who: str) -> Any:
    try:
        return _resolve(module_name, who)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidInputError(
                f"{who}: {module_name} needs a module that isn't there ({error}). Install it."
            ) from None
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return _resolve(module_name, who)
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"{who}: {error}. Name an installed module, or one in the working directory, as in mymodels:MyModel."
        ) from None


def _resolve(module_name: str, who: str) -> Any:
    """Import a module; of one that ends in an error, say so: the error is that of the module's code."""
    try:
        return resolve_name(f"{module_name}:")
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"{who}: {module_name} can't be imported ({type(error).__name__}: {error}). Mend the module; "
            f"python -c 'import {module_name}' shows where."
        ) from error


def _is_same(value: Any, usual: Any) -> bool:
    return value is usual or (_is_plain(value) and type(value) is type(usual) and value == usual)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))
