"""The import layers: lower never imports higher, neighbours don't import each other, heavy packages load late.

Imports are found wherever they stand: statements at any depth, calls of `import_module`, and strings that name a
module of the package. Only `_lazy`, at the bottom, imports by a computed name, from tables that modules at the top
give it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "calibrant"

#: From the ground up. Modules on one line are neighbours.
LAYERS = (
    ("_lazy", "_version", "errors", "phrases", "sketch"),
    ("numerics", "readable", "settings"),
    ("document_field", "files", "kernels", "results", "terms", "validation"),
    ("dependence", "summary"),
    ("quantised", "rows", "splits"),
    ("dependent_rows", "row_stream"),
    ("logistic", "maps", "provenance", "softmax_fit"),
    ("storable",),
    ("applicable",),
    ("fitted",),
    ("calibrators", "chain", "metrics", "online"),
    ("persistence",),
    ("tables",),
    ("engines",),
    ("decisions",),
    ("comparison", "forecasts", "grouped", "multilabel", "prior", "probability", "segments"),
    ("classifier", "rank_preserving"),
    ("displays",),
    ("report",),
    ("monitor",),
    ("training",),
    ("cli",),
    ("__init__", "__main__", "runtime"),
)
#: Slow to import, or not everybody's: each is imported by the function that needs it.
HEAVY = (
    "catboost",
    "duckdb",
    "jinja2",
    "lightgbm",
    "matplotlib",
    "mlflow",
    "numba",
    "onnx",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "scipy.stats",
    "skl2onnx",
    "sklearn",
    "skops",
    "sqlglot",
    "xgboost",
)


class Import(NamedTuple):
    """One import: of what, on which line, and whether importing the module itself runs it."""

    target: str
    line: int
    runs_at_import: bool


def test_no_module_imports_a_higher_layer_or_a_neighbour() -> None:
    assert list(layer_faults(PACKAGE)) == []


def test_every_module_has_a_layer() -> None:
    known = [name for layer in LAYERS for name in layer]
    assert len(known) == len(set(known)), "each name once"
    assert sorted(top_level_modules(PACKAGE) - set(known)) == []


def test_contributing_names_every_layer() -> None:
    table = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text("utf-8").partition("| from the ground up | |")[2]
    named = set(re.findall(r"`(\w+)`", table.partition("\n\n")[0]))
    assert {name for layer in LAYERS for name in layer if not name.startswith("_")} <= named


def test_heavy_packages_are_imported_inside_functions() -> None:
    assert list(heavy_faults(PACKAGE)) == []


def test_only_kernels_import_numba() -> None:
    modules = top_level_modules(PACKAGE)
    importers = {
        path.relative_to(PACKAGE).parts[0]
        for path in sources(PACKAGE)
        for found in imports(path, PACKAGE, modules)
        if is_within(found.target, "numba")
    }
    assert importers == {"kernels"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("numerics.py", "from calibrant.summary import ScoreSummary"),
        ("numerics.py", "import calibrant.summary"),
        ("numerics.py", "from calibrant import summary"),
        ("numerics.py", "from .summary import ScoreSummary"),
        ("numerics.py", "from . import summary"),
        ("numerics.py", "def f():\n    from calibrant.summary import ScoreSummary"),
        ("numerics.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import calibrant.summary"),
        ("numerics.py", "from importlib import import_module\nimport_module('calibrant.summary')"),
        ("numerics.py", "import importlib\nname = 'x'\nimportlib.import_module(f'calibrant.summary.{name}')"),
        ("numerics.py", "name = 'x'\n__import__(f'calibrant.{name}')"),
        ("numerics.py", "HOME = 'calibrant.summary:ScoreSummary'"),
        ("numerics.py", "import pkgutil\npkgutil.resolve_name('calibrant.summary:ScoreSummary')"),
        ("numerics.py", "import calibrant as cb"),
        ("numerics.py", "from calibrant import ScoreSummary"),
        ("kernels/pav.py", "from calibrant.validation import as_scores"),
        ("kernels/pav.py", "from ..validation import as_scores"),
        ("kernels/__init__.py", "from ..validation import as_scores"),
        ("metrics/ece.py", "from calibrant.calibrators import IsotonicCalibrator"),
        ("metrics/__init__.py", "from ..calibrators.base import Calibrator"),
        ("cli/main.py", "from calibrant import __version__"),
    ],
)
def test_walker_finds_an_upward_or_sideways_import(tmp_path: Path, path: str, code: str) -> None:
    write_module(tmp_path, path, code)
    (fault,) = layer_faults(tmp_path)
    assert fault.startswith(f"{path}:{len(code.splitlines())} imports ")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("summary.py", "from calibrant import kernels\nfrom calibrant.numerics import FloatArray"),
        ("kernels/pav.py", "from calibrant.kernels._jit import compiled\nfrom ._jit import compiled"),
        ("kernels/__init__.py", "from . import pav\nfrom ..numerics import FloatArray"),
        ("kernels/__init__.py", "name = 'pav'\n__import__(f'calibrant.kernels.{name}')"),
        ("__init__.py", "name = 'x'\n__import__(f'calibrant.{name}')\nfrom calibrant.cli import main"),
        ("cli/main.py", "from calibrant._version import __version__\nfrom calibrant.report import Report"),
        ("numerics.py", "import numpy, calibrant_extras\nfrom ._version import __version__"),
        ("numerics.py", "'''calibrant.summary stands above.'''\nTEXT = 'pip install calibrant'"),
        ("_lazy.py", "from importlib import import_module\ndef load(name): return import_module(name)"),
    ],
)
def test_walker_lets_downward_imports_pass(tmp_path: Path, path: str, code: str) -> None:
    write_module(tmp_path, path, code)
    assert list(layer_faults(tmp_path)) == []


def test_walker_names_a_module_without_a_layer(tmp_path: Path) -> None:
    write_module(tmp_path, "utils.py", "")
    write_module(tmp_path, "helpers/__init__.py", "")
    write_module(tmp_path, "folder_of_data/table.json", "")
    assert top_level_modules(tmp_path) == {"utils", "helpers"}
    write_module(tmp_path, "numerics.py", "import calibrant.utils")
    assert list(layer_faults(tmp_path)) == ["numerics.py:1 imports utils, which has no layer"]


@pytest.mark.parametrize(
    ("path", "code", "is_fault"),
    [
        ("report/render.py", "import jinja2", True),
        ("report/render.py", "from jinja2 import Environment", True),
        ("report/render.py", "try:\n    import jinja2\nexcept ImportError:\n    jinja2 = None", True),
        ("report/render.py", "class A:\n    import jinja2", True),
        ("report/render.py", "def f(x=__import__('jinja2')): ...", True),
        ("report/render.py", "def f():\n    import jinja2", False),
        ("report/render.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jinja2", False),
        ("report/render.py", "import typing\nif not typing.TYPE_CHECKING:\n    import jinja2", True),
        ("numerics.py", "from scipy import stats", True),
        ("numerics.py", "import scipy.stats as st", True),
        ("numerics.py", "import scipy.optimize", False),
        ("numerics.py", "import numba", True),
        ("kernels/pav.py", "import numba", False),
        ("kernels/__init__.py", "import numba", True),
        ("kernels/pav.py", "import pandas", True),
    ],
)
def test_walker_finds_a_heavy_import_that_runs_at_import(tmp_path: Path, path: str, code: str, is_fault: bool) -> None:
    write_module(tmp_path, path, code)
    assert bool(list(heavy_faults(tmp_path))) == is_fault


# --- the walker ----------------------------------------------------------------------------------------------


def layer_faults(package: Path) -> Iterator[str]:
    """Name each import of a higher layer, of a neighbour, or of a module that no layer holds."""
    level, modules = {name: i for i, layer in enumerate(LAYERS) for name in layer}, top_level_modules(package)
    for path in sources(package):
        own = top_level_name(path, package)
        for found in imports(path, package, modules):
            if not is_within(found.target, "calibrant"):
                continue
            imported = home(found.target, modules)
            place = f"{path.relative_to(package).as_posix()}:{found.line}"
            if imported not in level:
                yield f"{place} imports {imported}, which has no layer"
            elif imported != own and own in level and level[imported] >= level[own]:
                yield f"{place} imports {found.target}, which is not below {own}"


def heavy_faults(package: Path) -> Iterator[str]:
    """Name each import of a heavy package that runs when its module is imported."""
    modules = top_level_modules(package)
    for path in sources(package):
        place = path.relative_to(package)
        may_compile = place.parts[0] == "kernels" and place.name != "__init__.py"
        is_estimator = place.parts[0] == "classifier"  # scikit-learn's own classes are its bases
        for found in imports(path, package, modules):
            for heavy in HEAVY:
                may_import = (heavy == "numba" and may_compile) or (heavy == "sklearn" and is_estimator)
                if found.runs_at_import and is_within(found.target, heavy) and not may_import:
                    yield f"{place.as_posix()}:{found.line} imports {heavy} when it is imported"


def imports(path: Path, package: Path, modules: set[str]) -> tuple[Import, ...]:
    """Return every import of a file: statements and calls, at any depth."""
    return _imports(path, package, frozenset(modules))


@cache
def _imports(path: Path, package: Path, modules: frozenset[str]) -> tuple[Import, ...]:
    inside = ("calibrant", *path.relative_to(package).parent.parts)
    tree = ast.parse(path.read_text("utf-8"))
    if path.name == "_lazy.py":  # which is given the names that it imports
        tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    found = list(_imports_of(tree, inside, True))
    known = {(each.target, each.line) for each in found}
    named = _named_in_strings(tree, modules)
    return (*found, *(each for each in named if (each.target, each.line) not in known))


def _named_in_strings(tree: ast.Module, modules: Set[str]) -> Iterator[Import]:
    """Yield the modules of the package that strings name; texts that go on after a name are none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("calibrant."):
            name = node.value.replace(":", ".")
            if all(part.isidentifier() for part in name.split(".")) and home(name, modules) != "__init__":
                yield Import(name, node.lineno, False)


def _imports_of(node: ast.AST, inside: tuple[str, ...], runs: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names, lineno=line):
            yield from (Import(alias.name, line, runs) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level, lineno=line):
            base = [*inside[: len(inside) - level + 1]] if level else []
            base += [module] if module else []
            yield from (Import(".".join([*base, alias.name]), line, runs) for alias in names)
        case ast.Call(func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module")):
            yield Import(_constant_start(node.args[0]), node.lineno, runs)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for part in [*node.decorator_list, node.args]:
                yield from _imports_of(part, inside, runs)
            for part in node.body:
                yield from _imports_of(part, inside, False)
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for part in node.body:
                yield from _imports_of(part, inside, False)
            for part in node.orelse:
                yield from _imports_of(part, inside, runs)
            return
    for child in ast.iter_child_nodes(node):
        yield from _imports_of(child, inside, runs)


def _constant_start(name: ast.expr) -> str:
    """Return what is known of a computed module name: all of a literal, the start of a formatted string."""
    match name:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text.rstrip(".")
    raise AssertionError(f"line {name.lineno}: import of a name that nobody can read from the code")


def home(target: str, modules: set[str]) -> str:
    """Return the top-level module that an import of calibrant loads; "__init__" for the package's own names."""
    parts = target.split(".")
    if len(parts) == 1:
        return "__init__"
    is_module = parts[1] in {name for layer in LAYERS for name in layer} | modules
    return parts[1] if is_module else "__init__"


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def top_level_modules(package: Path) -> set[str]:
    return {top_level_name(path, package) for path in sources(package)}


def top_level_name(path: Path, package: Path) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


def is_within(target: str, package: str) -> bool:
    return target == package or target.startswith(f"{package}.")


def write_module(package: Path, path: str, code: str) -> None:
    file = package / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code, "utf-8")
