"""The loops' way from Python to machine code: when it is taken, and the compiler's settings.

To import numba and compile a first loop takes about as long as Python takes to run half a million steps of a loop.
Loops marked `@interpreted` run in Python until their steps together come to half of that, as many programs need no
more; both give the same bits, as these loops only add, multiply, divide and compare. Where numba isn't installed, all
loops run in Python, and maps are applied by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import chain
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from calibrant.kernels.compiling_note import is_watched, watched

P = ParamSpec("P")
R = TypeVar("R")

#: Steps that Python takes in this process before loops are compiled.
_MOST_STEPS = 250_000
_steps_left = [_MOST_STEPS]
_loops: list[Loop[..., Any]] = []


class Loop(Generic[P, R]):
    """A function that is compiled when it is first called, or when it has run for long.

    Parameters
    ----------
    function : function
        The loop in Python. Where `is_interpreted`, its arrays are memoryviews when Python runs it: it reads and writes
        single items, and asks for `len`.
    is_interpreted : bool
        Whether Python may run it on little data.
    options : object
        For numba.
    """

    def __init__(self, function: Callable[P, R], *, is_interpreted: bool = False, **options: Any) -> None:
        self.function = function
        self.is_interpreted = is_interpreted
        self.options = options
        self._machine: Callable[P, R] | None = None
        self._callee: Callable[P, R] | None = None
        self._python: Callable[..., R] | None = None
        _loops.append(self)
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the loop."""
        if self._machine is None:
            if self.is_interpreted and not kwargs:
                n_steps = max((a.size for a in args if isinstance(a, np.ndarray)), default=1)
                if n_steps <= _steps_left[0]:
                    _steps_left[0] -= n_steps
                    return self.interpret(*args)
            self._machine = self.compile() if can_compile() else self._as_python()
            if is_watched() and can_compile():
                with watched(self._machine):
                    return self._machine(*args, **kwargs)
        return self._machine(*args, **kwargs)

    def interpret(self, *args: Any) -> R:
        """Run the loop in Python."""
        return self.in_python()(*(a.data if isinstance(a, np.ndarray) else a for a in args))

    def _as_python(self) -> Callable[P, R]:
        """Return what runs the loop in Python for good."""
        return cast("Callable[P, R]", self.interpret if self.is_interpreted else self.in_python())

    def in_python(self) -> Callable[..., R]:
        """Return the function, which calls others in Python too."""
        if self._python is None:
            self._python = self._linked(Loop.in_python)
            known = self._python.__globals__  # a copy
            known.update({name: int(value) for name, value in known.items() if isinstance(value, np.integer)})
        return self._python

    def compile(self) -> Callable[P, R]:
        """Return the compiled loop, without the GIL; its machine code is kept on disk where that can be written."""
        import numba

        function = self._linked(Loop.as_callee)
        try:
            return cast("Callable[P, R]", numba.njit(function, cache=True, nogil=True, **self.options))
        except RuntimeError:  # no writable cache folder: a read-only install without a home directory
            return cast("Callable[P, R]", numba.njit(function, nogil=True, **self.options))

    def kept(self) -> tuple[int, str]:
        """Return how many forms of the loop this process has as machine code, and the folder in which they are kept."""
        machine: Any = self._machine
        return (0, "") if machine is None else (len(machine.signatures), machine.stats.cache_path or "")

    def as_callee(self) -> Callable[P, R]:
        """Return what other loops call: without the code that Python would call, and kept on disk within theirs."""
        if self._callee is None:
            import numba

            options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **self.options}
            self._callee = cast("Callable[P, R]", numba.njit(self._linked(Loop.as_callee), **options))
        return self._callee

    def _linked(self, form: Callable[[Loop[..., Any]], Callable[..., Any]]) -> Callable[P, R]:
        """Return the function with a form of each loop that it calls."""
        function = cast("FunctionType", self.function)
        known = function.__globals__
        callees = {name: form(loop) for name in _names(function) if isinstance(loop := known.get(name), Loop)}
        found = FunctionType(
            function.__code__, {**known, **callees}, function.__name__, function.__defaults__, function.__closure__
        )
        found.__module__, found.__qualname__ = function.__module__, function.__qualname__
        return cast("Callable[P, R]", found)


def _names(function: FunctionType) -> list[str]:
    """Return the names that a function reads, and those that functions within it read."""
    codes = [function.__code__, *(code for code in function.__code__.co_consts if hasattr(code, "co_names"))]
    return list(chain.from_iterable(code.co_names for code in codes))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call."""
    return Loop(function)


def compiled_with(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile on first call, with options of numba's."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        return Loop(function, **options)

    return decorate


def interpreted(function: Callable[P, R]) -> Callable[P, R]:
    """Let Python run a loop on little data, and compile it when loops so marked have run for long."""
    return Loop(function, is_interpreted=True)


@cache
def can_compile() -> bool:
    """Say whether numba is installed."""
    try:
        return find_spec("numba") is not None
    except ImportError:
        return False


def compile_at_once() -> None:
    """Let Python run no loop from now on in this process."""
    _steps_left[0] = 0


def kept_loops() -> tuple[int, list[str]]:
    """Return the number of compiled forms of loops in this process, and the folders in which they are kept."""
    found = [loop.kept() for loop in _loops]
    return sum(n for n, _ in found), sorted({folder for _, folder in found if folder})
