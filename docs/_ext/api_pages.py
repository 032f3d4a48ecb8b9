"""The pages of the API: one list for each public module, from which autosummary makes a page for each name."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from calibrant.storable import Storable
from public_names import public_modules, public_objects

#: The names of the package itself, by what they are for; what is in none of these is a mistake.
SECTIONS = {
    "Calibrators": lambda name: name.endswith("Calibrator") or name == "Chain",
    "The facade and the classifier": lambda name: name in {"CalibratedClassifierCV", "CalibrationConfig"},
    "Measuring": lambda name: name[0].islower() and name not in {"load", "save"},
    "Files": lambda name: name in {"load", "save"},
    "Pictures": lambda name: name.endswith("Display"),
    "Pages": lambda name: name.endswith("Report"),
    "Values": lambda name: name in {"CalibrationMetrics", "Comparison", "Curve", "Score", "ScoreSummary", "Scores"},
}

#: A bar that is not in code.
_BAR = re.compile(r"\|(?=[^`]*(?:`[^`]*`[^`]*)*$)")


def write_pages(app: Sphinx, config: Config) -> None:  # noqa: ARG001
    """Write api/*.rst before the build looks for its sources."""
    folder = Path(app.srcdir) / "api"
    objects = public_objects()
    for name in public_modules():
        module = f"calibrant.{name}"
        homes = [home for full, home in objects.items() if full.rpartition(".")[0] == module]
        doc = (import_module(module).__doc__ or "").strip()
        _write(folder / f"{module}.rst", _heading(module) + doc + "\n\n" + _list(homes))
    top = [full for full in objects if full.count(".") == 1]
    parts = [_heading("calibrant")]
    placed = set()
    for title, is_of in SECTIONS.items():
        names = [full for full in top if is_of(full.rpartition(".")[2])]
        placed.update(names)
        parts.append(f"{title}\n{'-' * len(title)}\n\n{_list(names)}")
    if set(top) - placed:
        raise ValueError(f"these names are in no section of the API: {sorted(set(top) - placed)}")
    _write(folder / "calibrant.rst", "".join(parts))


#: Names of classes that are not public themselves, which are for users although they say nothing of arguments.
FOR_USERS = frozenset({"describe", "fit_summary", "get_params", "metadata_", "provenance_", "set_params"})


@cache
def contract() -> frozenset[str]:
    """Return the names by which calibrant itself uses what is fitted: those that say nothing of arguments to users."""
    named = public_objects()
    public = [getattr(import_module(full.rpartition(".")[0]), full.rpartition(".")[2]) for full in named]
    stored = [one for one in public if isinstance(one, type) and issubclass(one, Storable)]
    bases = {base for one in stored for base in one.__mro__ if base.__module__.startswith("calibrant")} - set(public)
    members = [(name, value) for base in bases for name, value in vars(base).items() if not name.startswith("_")]
    kept = {name for name, value in members if "Parameters\n" in (value.__doc__ or "")}
    return frozenset({name for name, _ in members} - kept - FOR_USERS)


def skip_internal(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:  # noqa: ARG001
    """Leave out what other packages put into our classes, and what only calibrant itself calls of a fitted thing."""
    home = getattr(value, "__module__", None) or getattr(getattr(value, "fget", None), "__module__", None)
    is_foreign = home is not None and not home.startswith("calibrant")
    return True if is_foreign or name in contract() else None


def escape_bars(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Take the bars of |x| for what they are, and not for a substitution of reStructuredText."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else _BAR.sub(r"\\|", line) for line in lines]


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n"


def _list(names: list[str]) -> str:
    lines = "".join(f"   ~{name}\n" for name in names)
    return f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{lines}\n"


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-skip-member", skip_internal)
    app.connect("autodoc-process-docstring", escape_bars, priority=400)  # before numpydoc's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
