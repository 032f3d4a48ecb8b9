"""What is public: the names that the package offers, and those of its modules."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import calibrant

#: Modules that are public although the package's face, which must stay cheap to import, doesn't name them.
BESIDE = ("runtime", "training")


def names_of(module: ModuleType) -> list[str]:
    """Return a module's public names: those that it lists, or those that it defines or offers as a folder's face."""
    file = Path(module.__file__ or "")
    stub = file.with_suffix(".pyi")
    if hasattr(module, "__all__") and not stub.exists():
        return list(module.__all__)
    face, *_ = (stub if stub.exists() else file).read_text("utf-8").split("# For other folders of calibrant")
    imports = [node for node in ast.parse(face).body if isinstance(node, ast.ImportFrom)]
    own = [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__]
    return own + [alias.asname for node in imports for alias in node.names if alias.asname]


def public_modules() -> list[str]:
    """Return the names of the public modules below the package."""
    named = [name for name in names_of(calibrant) if isinstance(getattr(calibrant, name), ModuleType)]
    return sorted([*named, *BESIDE])


def public_objects() -> dict[str, str]:
    """Return where each public name is documented: the shortest of the names that it has."""
    found: dict[int, str] = {}
    documented = {}
    for module_name in ("calibrant", *(f"calibrant.{name}" for name in public_modules())):
        module = import_module(module_name)
        for name in names_of(module):
            value = getattr(module, name)
            if isinstance(value, ModuleType) or name.startswith("__"):
                continue
            full = f"{module_name}.{name}"
            home = found.setdefault(id(value), full) if callable(value) else full
            documented[full] = home
    return documented
