"""The options that say what decisions cost, and the columns of a file that hold costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant.errors import CalibrantError, InvalidInputError

if TYPE_CHECKING:
    from calibrant.cli.data import FileRows, OpenedFile, Request
    from calibrant.decisions import Problem

COST_OPTIONS = [
    click.option("--costs", metavar="JSON", help="A file of losses: {action: {class: loss}}, or a problem."),
    click.option("--false-positive", type=float, metavar="COST", help="What a wrong yes costs; instead of --costs."),
    click.option("--false-negative", type=float, metavar="COST", help="What a wrong no costs."),
    click.option("--true-positive", type=float, metavar="BENEFIT", help="What a right yes is worth.  [default: 0]"),
    click.option("--true-negative", type=float, metavar="BENEFIT", help="What a right no is worth.  [default: 0]"),
    click.option("--threshold", type=float, metavar="P", help="Say yes from this probability on.  [default: by cost]"),
    click.option("--per", metavar="COLUMN", help="What capacities are for each of: a day."),
]
_AS_JSON = 'Write losses as JSON: {"no": {"0": 0, "1": 4}, "yes": {"0": 1, "1": 0}}.'
_NAMES = ("costs", "false_positive", "false_negative", "true_positive", "true_negative", "threshold", "per")


def asks_for_decisions(options: dict[str, Any]) -> bool:
    """Say whether any of the options was given; take them out where none was."""
    if any(options[name] is not None for name in _NAMES):
        return True
    for name in _NAMES:
        del options[name]
    return False


def read_problem(options: dict[str, Any]) -> tuple[Problem, float | None, str | None]:
    """Take what options say of the losses, and return the problem, its threshold, and the column of --per."""
    from calibrant import persistence
    from calibrant.decisions import Problem
    from calibrant.validation import check_number

    costs, threshold, per = (options.pop(name) for name in ("costs", "threshold", "per"))
    given = {name: options.pop(name) for name in ("false_positive", "false_negative", "true_positive", "true_negative")}
    named = [name for name, value in given.items() if value is not None]
    if costs is not None:
        if named:
            raise InvalidInputError(f"--{named[0].replace('_', '-')} stands beside --costs. Leave one of them out.")
        document: Any = persistence.read_plain(costs, fix=_AS_JSON)
        try:
            return Problem.from_dict(document), threshold, per
        except CalibrantError as error:
            raise type(error)(f"{costs}: {error}") from None
    if given["false_positive"] is None or given["false_negative"] is None:
        raise InvalidInputError(
            "what do decisions cost? Pass --false-positive and --false-negative, or a file of losses with --costs."
        )
    for name, value in given.items():
        if value is not None:
            check_number(f"--{name.replace('_', '-')}", value, minimum=0.0)
    problem = Problem.two_actions(
        false_positive=given["false_positive"],
        false_negative=given["false_negative"],
        true_positive_benefit=given["true_positive"] or 0.0,
        true_negative_benefit=given["true_negative"] or 0.0,
    )
    return problem, threshold, per


def with_costs(request: Request, problem: Problem | None, per: str | None) -> Request:
    """Return a request that reads the columns of costs and of --per too."""
    return replace(
        request, needed=(*([] if problem is None else problem.cost_columns), *([] if per is None else [per]))
    )


def read_with_costs(opened: OpenedFile) -> tuple[FileRows, Any]:
    """Read the rows, and the columns of costs and of --per beside them, of rows with weight."""
    import numpy as np

    weight, names = opened.request.weight, opened.request.needed
    found = opened.read()
    if not names:
        return found, None
    beside = opened.source.read(list(dict.fromkeys([*names, *([weight] if weight else [])])))
    if weight is not None:
        beside = beside.filter(np.asarray(beside.column(weight), dtype=np.float64) > 0.0)
    return found, beside


def read_in_memory(request: Request) -> tuple[FileRows, Any]:
    """Read the rows, and the columns of costs and of --per beside them, of rows with weight."""
    opened = request.open()
    if opened.is_large:
        raise InvalidInputError(
            f"{request.file} has more rows than are held in memory. Take a sample of them, or of their days."
        )
    return read_with_costs(opened)
