"""Every public method and property says what it does, or overrides or implements one that says it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from calibrant.row_stream import RowStream

PACKAGE = Path(__file__).parents[1] / "src" / "calibrant"


def modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def undocumented(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class, own ones, without a docstring of their own or inherited."""
    for name, value in vars(cls).items():
        is_method = inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
        bases = (*cls.__mro__, RowStream)  # a protocol, which streams implement without inheriting from it
        said = any(vars(base)[name].__doc__ for base in bases if name in vars(base))
        if is_method and not name.startswith("_") and not said:
            yield name


@pytest.mark.parametrize("module", list(modules()))
def test_every_public_method_is_documented(module: str) -> None:
    loaded = import_module(module)
    classes = [value for value in vars(loaded).values() if inspect.isclass(value) and value.__module__ == module]
    public = [cls for cls in classes if not cls.__name__.startswith("_")]
    assert [f"{cls.__name__}.{name}" for cls in public for name in undocumented(cls)] == []


def test_an_overriding_method_may_leave_its_docstring_out_and_a_new_one_may_not() -> None:
    class Base:
        def apply(self) -> None:
            """Apply it."""

        @property
        def size(self) -> int:
            """The size."""
            return 0

    class Derived(Base):
        def apply(self) -> None: ...

        @property
        def size(self) -> int:
            return 1

        def other(self) -> None: ...

    assert list(undocumented(Derived)) == ["other"]
