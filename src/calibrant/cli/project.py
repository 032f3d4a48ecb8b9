"""The project file: checks that gate files of scores, and defaults of the columns' names for all commands.

It is `calibrant.toml`, or the table `tool.calibrant` of a `pyproject.toml`, in the working directory or the nearest
folder above it that has one. What stands before the first `[[check]]` holds for all checks.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices
from calibrant.cli.common import echo
from calibrant.cli.option_texts import LAYOUT, said_format, without_foreign_layout
from calibrant.errors import InvalidInputError
from calibrant.phrases import listed

if TYPE_CHECKING:
    from calibrant.cli.gates import Gate
    from calibrant.document_field import DocumentField

#: Where a project is looked for, in this order, in each folder.
_NAMES = ("calibrant.toml", "pyproject.toml")
_FIX = "Correct it."
_LONGEST_NAME = 100
#: Settings that other commands take too, unless the option is given, or another one that goes with it.
_SHARED = {
    "label": ("label",),
    "score": ("score",),
    "input": ("input", "score", "calibrator"),
    "weight": ("weight",),
    "positive": ("positive", "label", "calibrator"),
    "classes": ("classes", "score", "calibrator"),
    "cluster": ("cluster", "time", "label_end"),
    "time": ("cluster", "time", "label_end"),
    "label_end": ("cluster", "time", "label_end"),
    **dict.fromkeys(LAYOUT, ("format", *LAYOUT)),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a check, or all checks, say of columns, and gates by metric and bound; None where they say nothing."""

    label: str | None = None
    score: tuple[str, ...] | None = None
    input: str | None = None
    weight: str | None = None
    positive: str | None = None
    classes: str | None = None
    cluster: str | None = None
    time: str | None = None
    label_end: str | None = None
    group: str | None = None
    calibrator: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    table: str | None = None
    missing: str | None = None
    level: float | None = None
    gates: Mapping[tuple[str, str], Gate] | None = None

    def given(self) -> dict[str, Any]:
        """Return what is said, by name."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def over(self, shared: Settings) -> Settings:
        """Return these settings, and those of `shared` where these say nothing of what they go with."""
        own = self.given()
        rest = {
            name: value
            for name, value in shared.given().items()
            if name != "gates" and not any(other in own for other in _SHARED.get(name, (name,)))
        }
        return replace(self, **rest, gates={**(shared.gates or {}), **(self.gates or {})})


@dataclass(frozen=True, slots=True)
class Check:
    """Files that must keep gates; a pattern stands for each file that it matches, and each is measured alone."""

    name: str
    files: tuple[str, ...]
    settings: Settings
    place: str

    @property
    def gates(self) -> list[Gate]:
        """The gates that each of the files must keep."""
        return [*(self.settings.gates or {}).values()]

    def paths(self, folder: Path) -> dict[str, str]:
        """Return the files and folders that are meant, as they are named from the working directory.

        Beside each stands why it can't be read where nothing has that name, else an empty string.
        """
        found: dict[str, str] = {}
        for pattern in self.files:
            if "://" in pattern:
                found[pattern] = ""
                continue
            whole = folder / pattern
            matched = [str(whole)]
            if not whole.exists():
                whole = Path(glob.escape(str(folder)), pattern)
                matched = sorted(glob.glob(str(whole), recursive=True))  # noqa: PTH207 - that takes hidden files too
            if not matched:
                found[pattern] = f"{self.place}: files: nothing is called {pattern!r} in {folder}. {_FIX}"
            found |= dict.fromkeys((_from_here(path) for path in matched), "")
        return found

    def options(self, folder: Path, file: str) -> dict[str, Any]:
        """Return the settings as the options of a request for one of the files."""
        given = without_foreign_layout(self.settings.given(), file)
        if "calibrator" in given:
            given["calibrator"] = _from_here(str(folder / given["calibrator"]))
        given["format"] = said_format(given)
        return {name: value for name, value in given.items() if name not in ("level", "gates", *LAYOUT)}


@dataclass(frozen=True, slots=True)
class Project:
    """A project file: its path, what holds for all checks, and the checks."""

    path: Path
    shared: Settings
    checks: tuple[Check, ...]

    @property
    def folder(self) -> Path:
        """The folder that names of files are relative to."""
        return self.path.parent

    @property
    def where(self) -> str:
        """The path, as it is named from the working directory."""
        return _from_here(str(self.path))


def find_project(start: Path | None = None) -> Path | None:
    """Return the project file of the working directory, or of the nearest folder above it that has one."""
    here = Path.cwd() if start is None else start
    for folder in (here, *here.parents):
        for name in _NAMES:
            if (path := folder / name).is_file() and (name == _NAMES[0] or _is_of_calibrant(path)):
                return path
    return None


def read_project(path: str | os.PathLike[str]) -> Project:
    """Read a project file.

    Raises
    ------
    CalibrantError
        If it is no TOML, or an entry of it is unknown, missing or of another type; the message names its line.
    OSError
        If it can't be read.
    """
    from calibrant import persistence
    from calibrant.document_field import DocumentField, within

    file = Path(path).absolute()
    document = persistence.read_toml(file)
    where = _from_here(str(file))
    lines = _Lines(where, file.read_text(encoding="utf-8"), is_part=file.name == _NAMES[1])
    if lines.is_part:
        with within(where):
            tool = DocumentField(document, fix=_FIX).object().get("tool")
            if not isinstance(tool, dict) or "calibrant" not in tool:
                raise InvalidInputError(f"{where} has no table [tool.calibrant]. Add it, or name another file.")
            document = tool["calibrant"]
    with within(where):
        root = DocumentField(document, fix=_FIX)
        entries = dict(root.object())
    with lines.at(0, "check"):
        # `check` alone isn't a setting, and lists must be told from single tables before their entries are read
        checks = root.member("check").items(minimum=0) if "check" in entries else []
    shared = _settings(DocumentField({k: v for k, v in entries.items() if k != "check"}, fix=_FIX), lines, 0, ["check"])
    found: dict[str, Check] = {}
    for i, each in enumerate(checks):
        check = _check(each, lines, i + 1, shared)
        if check.name in found:
            other = found[check.name].place
            raise InvalidInputError(f"{check.place}: the name was used before ({other}). Give each check its own.")
        found[check.name] = check
    return Project(file, shared, tuple(found.values()))


def with_project_defaults(command: Callable[..., None]) -> Callable[..., None]:
    """Give the function of a command the names of columns that the project file holds, where no option says them.

    Names of the kinds in `_SHARED` only: what is measured of a file, and by which gates, is said by `calibrant check`.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        path = find_project()
        if path is not None:
            options |= _defaults(read_project(path), options)
        command(*args, **options)

    return run


def _defaults(project: Project, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the project says of options that were not given, and tell the user so."""
    context = click.get_current_context()

    def is_given(name: str) -> bool:
        return name in options and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

    taken = {
        name: value
        for name, value in project.shared.given().items()
        if name in options and name in _SHARED and not any(is_given(other) for other in _SHARED[name])
    }
    taken = without_foreign_layout(taken, options.get("file"))
    if taken:
        said = [f"{name.replace('_', '-')} {_in_words(value)}" for name, value in taken.items()]
        echo(f"{listed(said)} by {project.where}", err=True)
    return taken


def _in_words(value: Any) -> str:
    return listed([repr(each) for each in value]) if isinstance(value, tuple) else repr(value)


def _is_of_calibrant(path: Path) -> bool:
    """Whether a pyproject.toml has our table; of one that never names us, nothing is parsed."""
    from calibrant import persistence

    if b"calibrant" not in path.read_bytes():
        return False
    tool = persistence.read_toml(path).get("tool")
    return isinstance(tool, dict) and "calibrant" in tool


def _from_here(path: str) -> str:
    """Return a path as it is named from the working directory, if it lies below."""
    try:
        near = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if near.startswith(os.pardir) else near


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a project file, to say where an entry stands: tables are numbered, from 1, and 0 is the shared one.

    TOML's reader doesn't tell lines. A line is named only if it is the one that begins as the entry must.
    """

    where: str
    text: str
    is_part: bool

    @contextmanager
    def at(self, table: int, key: str | None = None) -> Iterator[None]:
        """Put the file and the line of an entry in front of what a refusal inside says."""
        from calibrant.document_field import within

        with within(self.place(table, key)):
            yield

    def place(self, table: int, key: str | None = None) -> str:
        """Return the file and the line of a table, or of one of its keys."""
        prefix = r"tool\s*\.\s*calibrant\s*\.\s*" if self.is_part else ""
        header = re.compile(rf"\s*\[\[\s*{prefix}check\s*\]\]")
        own = re.compile(r"\s*\[\s*tool\s*\.\s*calibrant\s*\]")
        wanted = None if key is None else re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
        inside, is_open = 0, not self.is_part
        start = line = None
        for number, text in enumerate(self.text.splitlines(), 1):
            if header.match(text):
                inside, is_open = inside + 1, True
                start = number if inside == table else start
            elif text.lstrip().startswith("["):
                is_open = own.match(text) is not None or (is_open and not text.lstrip().startswith("[tool"))
            elif line is None and wanted is not None and inside == table and is_open and wanted.match(text):
                line = number
        found = line or start
        return self.where if found is None else f"{self.where}, line {found}"


def _check(field: DocumentField, lines: _Lines, number: int, shared: Settings) -> Check:
    """Read one [[check]]."""
    place = lines.place(number)
    with lines.at(number):
        members = field.object()
        for key in ("name", "files"):
            if key not in members:
                named = f" of {members['name']!r:.80}" if "name" in members else ""
                raise InvalidInputError(f"{place}: {field.path}{named}: {key!r} is missing. Add it.")
    with lines.at(number, "name"):
        name = field.member("name").text()
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            field.member("name").refuse(f"is no name of 1 to {_LONGEST_NAME} printable characters")
    with lines.at(number, "files"):
        files = _texts(field.member("files"))
    settings = _settings(field.without("name").without("files"), lines, number, ["name", "files"]).over(shared)
    place = f"{place}, check {name!r}"
    if not settings.gates:
        raise InvalidInputError(f"{place}: it has no gate, and could not fail. Add one: max = {{ece_debiased = 0.05}}.")
    return Check(name, files, settings, place)


def _settings(field: DocumentField, lines: _Lines, number: int, others: list[str]) -> Settings:
    """Read the settings of a table."""
    from calibrant.cli.gates import Gate
    from calibrant.errors import DocumentError, did_you_mean
    from calibrant.tables import MISSING
    from calibrant.validation import INPUT_KINDS

    known = [*(entry.name for entry in fields(Settings) if entry.name != "gates"), "max", "min", *others]
    found: dict[str, Any] = {}
    gates: dict[tuple[str, str], Gate] = {}
    for key in field.object():
        with lines.at(number, key):
            if key not in known:
                near = did_you_mean(key, known) or f" There are {', '.join(known)}."
                raise DocumentError(f"{field.path or 'the shared table'}: unknown key {key!r:.80}.{near}")
            each = field.member(key)
            match key:
                case "max" | "min":
                    limits = each.object()
                    gates |= {(key, metric): Gate(metric, key, each.member(metric).number()) for metric in limits}
                case "score":
                    found[key] = _texts(each)
                case "positive":
                    found[key] = _label(each)
                case "classes":
                    found[key] = each.value if isinstance(each.value, str) else _as_csv(map(_label, each.items()))
                case "format":
                    found[key] = each.choice(choices.FORMATS)
                case "input":
                    found[key] = each.choice(INPUT_KINDS)
                case "delimiter" | "decimal" | "encoding":
                    found[key] = each.text()
                    try:
                        said_format({key: found[key]})
                    except InvalidInputError as error:
                        raise DocumentError(str(error)) from None
                case "missing":
                    found[key] = each.choice(MISSING)
                case "level":
                    found[key] = each.number()
                    if not 0.0 < found[key] < 1.0:
                        each.refuse("is outside (0, 1)", "Write such as 0.95.")
                case _:
                    found[key] = each.text()
    return Settings(**found, gates=gates or None)


def _texts(field: DocumentField) -> tuple[str, ...]:
    """Return one text or several."""
    each = [field] if isinstance(field.value, str) else field.items()
    return tuple(text.text() for text in each)


def _label(field: DocumentField) -> str:
    """Return a label as it would be given as an option."""
    value = field.single()
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return str(value).lower() if isinstance(value, bool) else field.refuse("is no label: text or a whole number")
    return str(value)


def _as_csv(texts: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(list(texts))
    return out.getvalue()
