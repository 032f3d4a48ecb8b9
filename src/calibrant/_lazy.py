"""Names that are loaded when they are first used: the package's own, and its compiled loops.

A folder that wants this writes its names once, in its `__init__.pyi`, as type checkers read them:
``from calibrant.metrics import evaluate as evaluate``. This is the only module that imports by a computed name.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The module, by the kind of document, whose import registers the class that reads documents of this kind.
_DOCUMENT_HOMES: dict[str, str] = {}


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` names what it offers.

    Parameters
    ----------
    package, file : str
        The package's `__name__` and `__file__`.
    """
    homes = _read_homes(f"{file}i")

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a module of the package
            return import_module(f"{package}.{name}")
        value = getattr(import_module(homes[name]), name)
        setattr(import_module(package), name, value)  # so that the next use finds it there
        return value

    return get, lambda: sorted(homes), sorted(homes)


def _read_homes(stub: str) -> dict[str, str]:
    """Return the module of each name that a stub imports as itself."""
    homes, module = {}, ""
    with open(stub, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs an import
        for line in file:
            if line.startswith("from "):
                module = line.split()[1]
            for part in line.split(","):
                words = part.split()
                if len(words) > 2 and words[-2] == "as":
                    homes[words[-1]] = module
    return homes


def name_document_homes(homes: dict[str, str]) -> None:
    """Say in which module lies the class that reads each kind of document."""
    _DOCUMENT_HOMES.update(homes)


def document_kinds() -> list[str]:
    """Return the kinds of document that there are."""
    return sorted(_DOCUMENT_HOMES)


def load_document_home(kind: str) -> None:
    """Import the module that registers the class of a kind of document."""
    import_module(_DOCUMENT_HOMES[kind])
