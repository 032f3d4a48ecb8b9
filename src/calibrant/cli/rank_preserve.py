"""calibrant rank-preserve: a matrix of probabilities with the margins that it shall have, beside the old one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant.cli import choices
from calibrant.cli.common import echo, new_command, progress
from calibrant.cli.margins_file import as_targets, count_labels, has_room, read_margins
from calibrant.cli.option_texts import called, check_output, split_names
from calibrant.cli.table_options import format_options
from calibrant.errors import CalibrantError, ConvergenceWarning, InvalidInputError, ShapeError
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.numerics import FloatArray
    from calibrant.rank_preserving import Nearly, RankPreservingResult
    from calibrant.tables import FormatLike

_METHODS = (*choices.RANK_METHODS, "raking", "isotonic-raking")
#: What messages of the library call things, and what the command line does.
_OPTIONS = {
    'Pass margin_kind="totals" for totals or "rates" for rates, or on_mismatch="rescale".': (
        "Add --rates for shares of the rows, leave it out for totals, or add --rescale."
    ),
    'Pass margin_kind="rates"': "Add --rates",
    'Pass on_mismatch="rescale"': "Add --rescale",
    "Divide each row by its sum first.": "Add --normalise to divide each row by its sum.",
    "Pass normalise=True": "Add --normalise",
    "Use solve,": "Use --method auto,",
    'method="auto"': "--method auto",
    'ties="free"': "--ties free",
    "Margins with a tolerance, or": "--tolerance, or",
    "are for solve alone. Pass totals.": "go with --method auto. Leave the tolerance out.",
    "Leave method, ties and order_tol out.": "Leave --method, --ties and --order-tol out.",
    "order_tol": "--order-tol",
    "floor=": "--floor ",
    "Raise max_iter or tol.": "Raise --max-iter.",
    "above tol=": "above ",
    "gap_tol=": "--gap ",
    "gap_tol": "--gap",
    "max_iter=": "--max-iter ",
    "max_iter": "--max-iter",
    "sample_weight": "--weight",
    'method="admm"': "--method admm",
    'method="dykstra"': "--method dykstra",
    'ties="equal"': "--ties equal",
    'Leave method out, or pass "admm".': "Leave --method out.",
    "EpsilonSlack": "--nearly epsilon=",
}


@new_command(
    "rank-preserve",
    "calibrant rank-preserve P.parquet --margins m.json -o Q.parquet",
    "calibrant rank-preserve P.csv --score 'p_*' --margins shares.json --rates --group region -o Q.csv",
)
@click.argument("file")
@click.option(
    "--margins",
    multiple=True,
    metavar="FILE",
    help="JSON or CSV: the total of each class, or of each class by group; one per --group.",
)
@click.option("--label", metavar="COLUMN", help="Column of labels, whose counts are the margins, instead of a file.")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is standard output.")
@click.option(
    "--score", multiple=True, metavar="COLUMNS", help="Column of each class.  [default: those that the margins name]"
)
@click.option("--rates", is_flag=True, help="The margins are shares of the rows, and not totals.")
@click.option("--tolerance", metavar="T|P%", help="How far a total may lie from its margin.  [default: 0]")
@click.option("--rescale", is_flag=True, help="Multiply margins that don't sum to the rows by one number.")
@click.option("--normalise", is_flag=True, help="Divide rows by their sums first, as rounded ones need.")
@click.option(
    "--group",
    multiple=True,
    metavar="COLUMN",
    help="Column of the groups, each of which has margins of its own; several hold at once.",
)
@click.option("--weight", metavar="COLUMN", help="Column of sample weights.")
@click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="auto",
    help="How to find the matrix. All keep the order but raking, which is free to break it.",
)
@click.option(
    "--ties", type=click.Choice(choices.TIES), default="equal", help="Whether rows with equal entries stay equal."
)
@click.option(
    "--nearly", metavar="epsilon=E|lambda=L|lambda-all=L", help="How far, or at what price, an order may be broken."
)
@click.option("--order-tol", type=float, default=0.0, metavar="D", help="Entries this close keep no order.")
@click.option("--floor", type=float, default=0.0, metavar="F", help="Least entry of the answer.")
@click.option("--gap", type=float, metavar="SHARE", help="Gap that is good enough.  [default: 1e-4, or less if small]")
@click.option("--max-iter", type=int, default=20_000, metavar="N", help="Most iterations.")
@click.option("--column", default="q", metavar="NAME", help="What comes before _CLASS in the new columns.")
@click.option("--report", metavar="PAGE", help="Write a page, .html, of what moved.")
@format_options
def command(
    file: str,
    margins: tuple[str, ...],
    label: str | None,
    output: str,
    score: tuple[str, ...],
    rates: bool,
    tolerance: str | None,
    normalise: bool,
    group: tuple[str, ...],
    weight: str | None,
    column: str,
    nearly: str | None,
    report: str | None,
    format: FormatLike,
    table: str | None,
    **options: Any,
) -> None:
    """Give the columns of FILE their margins, and keep the order within each.

    The answer is the nearest matrix of distributions whose columns sum to the margins and rise where the old ones
    do; --method raking leaves the order free. Same rows, same order, and every other column as it was; OUT appears
    whole or not at all.

    The margins are JSON: {"cat": 120, "dog": [75, 85]}, and with --group {"north": {"cat": 20, "dog": 30}, ...}; or
    CSV with the columns class and total, or class, low and high, and with --group the group's, or a column per class.
    Their names are those of the columns, or what is left of these without a common prefix, such as p_. With --group
    region --margins regions.csv --group age --margins ages.csv the totals of both hold at once.

    Margins far from the file's own flatten the columns: look at the line on spread. If only base rates have
    changed, calibrant.prior.prior_shift is the better tool.
    """
    from calibrant.rank_preserving import check_rows, diagnose
    from calibrant.tables import NewColumns, append_columns, check_numbers, is_many, open_rows
    from calibrant.validation import as_groups

    source = _check_source(margins, label, group)
    check_output(output, *margins)
    if file == "-":
        raise InvalidInputError("the file is read twice, which standard input can't be. Name a file.")
    if is_many(file):
        raise InvalidInputError(f"{file} names many files. Pass one of them.")
    options["nearly"] = None if nearly is None else _read_nearly(nearly)
    if report is not None and Path(report).suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"--report {report} is no page. End it in .html.")
    opened = open_rows(file, format=format, table=table)
    labels = None
    if label is not None:
        labels = as_groups(opened.read([label]).column(label), name=called(label, file))
        wanted: dict[str, Any] = {}
        classes = sorted(map(str, labels.classes.tolist()))
    else:
        wanted, classes = read_margins(margins, group)
    names = _columns(opened.select(split_names(score, opened.names)) if score else None, classes, opened.names, source)
    others = [*group, *([] if weight is None else [weight])]
    found = opened.read(list(dict.fromkeys([*names, *others])))
    if len(names) == 1:
        raise ShapeError(f"{source} has one margin, and one column is no matrix. Name at least two classes.")
    for name in [*names, *([] if weight is None else [weight])]:
        check_numbers(found.column(name), called(name, file))
    with _names_of_options():
        p = check_rows(found.select(names), None, normalise=normalise, name=file).scores
    by = {name: found.column(name) for name in group}
    groups = {name: as_groups(of_group, name=called(name, file)) for name, of_group in by.items()}
    w = None if weight is None else found.column(weight)
    if labels is not None:
        wanted = count_labels(labels, classes, groups, None if w is None else w.to_numpy())
    matrix, targets = _framed(p, classes), as_targets(wanted, tolerance, depth=min(len(group), 2))
    with _names_of_options():
        q, line, result = _solved(matrix, targets, by, w, "rates" if rates else "totals", options)
    if report is not None:
        from calibrant.report import RankPreservingReport

        after = _framed(q, classes) if result is None else result
        page = RankPreservingReport(matrix, after, sample_weight=w, title=f"{file}: margins of {source}")
        page.write_html(report)
    outputs = [f"{column}_{label}" for label in classes]
    new = NewColumns(names, outputs, _part_by_part(q))
    done = append_columns(file, output, columns=new, format=format, table=table)
    if output != "-":
        change = diagnose(matrix, _framed(q, classes), sample_weight=w)
        echo(line)
        echo(
            f"Moved {change.mean_moved:.4f} per row on average, {change.largest_moved:.4f} at most; columns keep "
            f"{change.spread:.0%} of their spread, and {change.flattened:.1%} of neighbours became equal"
        )
        overtaken = [f"{each.column} {each.overtaken:.2%}" for each in change.columns if each.overtaken]
        if options["method"] == "raking" and overtaken:
            rows = f"rows that lie below one that was not above them, by column: {listed(overtaken)}"
            echo(f"The order is broken; {rows}. --method auto and isotonic-raking keep it")
        if report is not None:
            echo(f"Wrote {report}")
        echo(f"Wrote {output}: {count(done.n_rows, 'row')} with {listed(outputs)}")


def _solved(
    p: pa.Table,
    targets: Any,
    by: dict[str, Any],
    weight: Any,
    kind: Literal["rates", "totals"],
    options: dict[str, Any],
) -> tuple[FloatArray, str, RankPreservingResult | None]:
    """Return the matrix, a line that says how it was found, and the solver's result if it was the solver's."""
    import numpy as np

    from calibrant.rank_preserving import rake, solve

    method = options["method"]
    common: dict[str, Any] = {
        "margin_kind": kind,
        "on_mismatch": "rescale" if options["rescale"] else "raise",
        "sample_weight": weight,
        "max_iter": options["max_iter"],
    }
    if method.endswith("raking"):
        is_of_solve = bool(by) or options["ties"] != "equal" or options["nearly"] is not None
        if is_of_solve or options["floor"] or options["order_tol"]:
            raise InvalidInputError(
                f"--method {method} takes none of --group, --ties free, --nearly, --floor and --order-tol. Leave them "
                "out."
            )
        raked = rake(p, targets, keep_order=method == "isotonic-raking", **common)
        how = "converged" if raked.converged else "stopped before it had converged"
        return _numbers(raked.Q), f"{method}: {how} after {count(raked.n_iter, 'iteration')}", None
    groups = None if not by else by if len(by) > 1 else next(iter(by.values()))
    common |= {"groups": groups, "ties": options["ties"], "nearly": options["nearly"], "gap_tol": options["gap"]}
    with progress("Solving:", "iterations") as show:
        shown = None if show is None else lambda check: show(check.n_iter)
        common |= {"floor": options["floor"], "order_tol": options["order_tol"], "callback": shown}
        result = solve(p, targets, method=method, **common)
    how = "converged" if result.converged else "stopped before it had converged"
    part = "group" if result.sets is None else "cell"
    parts = "" if result.groups is None else f" over {count(len(result.groups), part)}"
    line = f"{result.method}: {how} after {count(result.n_iter, 'iteration')}{parts}; gap {result.gap:.1e}"
    if options["nearly"] is not None:
        line += f"; order broken by {result.rank_residual:.2g} at most"
    if has_room(targets):
        line += f"; {np.count_nonzero(result.binds):,} of {result.binds.size:,} totals bind"
    return _numbers(result.Q), line, result


def _check_source(margins: tuple[str, ...], label: str | None, group: tuple[str, ...]) -> str:
    """Check that margins come from somewhere, for each set of groups; return what messages call that."""
    if bool(margins) == (label is not None):
        raise InvalidInputError("margins come from a file or from labels. Pass one of --margins and --label.")
    repeated = sorted({name for name in group if group.count(name) > 1})
    if repeated:
        raise InvalidInputError(f"--group {repeated[0]} is there twice. Name each column once.")
    if margins and len(margins) != max(len(group), 1):
        raise InvalidInputError(
            f"{count(len(margins), 'file')} of --margins and {count(len(group), 'column')} of --group. Pass a file of "
            "margins for each --group, in the same order."
        )
    return ", ".join(margins) or f"--label {label}"


@contextmanager
def _names_of_options() -> Iterator[None]:
    """Let errors and warnings of the library name the options of the command line."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    except CalibrantError as error:
        raise type(error)(_renamed(str(error))) from None
    for each in caught:
        if issubclass(each.category, ConvergenceWarning):
            warnings.warn(_renamed(str(each.message)), ConvergenceWarning, stacklevel=3)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _renamed(text: str) -> str:
    text = re.sub(r"nearly=\w+\(.*?\)", "--nearly", text)
    for name, option in _OPTIONS.items():
        text = text.replace(name, option)
    return text


def _read_nearly(text: str) -> Nearly:
    from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty

    kinds: dict[str, Callable[[float], Nearly]] = {
        "epsilon": EpsilonSlack,
        "lambda": LambdaPenalty,
        "lambda-all": partial(LambdaPenalty, pairs="all"),
    }
    name, _, number = text.partition("=")
    try:
        return kinds[name](float(number))
    except (KeyError, ValueError):  # refusals of the library are ValueErrors too
        raise InvalidInputError(
            f"--nearly {text!r:.60} is none of epsilon=E, lambda=L and lambda-all=L with a number of at least 0. "
            "Write it so: --nearly epsilon=0.01."
        ) from None


def _part_by_part(values: FloatArray) -> Callable[[pa.Table], FloatArray]:
    """Return what gives the rows of a matrix that go with the next part of the table, as the file is copied."""
    starts = [0]

    def following(part: pa.Table) -> FloatArray:
        starts.append(starts[-1] + part.num_rows)
        return values[starts[-2] : starts[-1]]

    return following


def _columns(score: list[str] | None, classes: list[str], names: tuple[str, ...], path: str) -> list[str]:
    from calibrant.validation import column_places

    if score is None:
        missing = [label for label in classes if label not in names]
        if missing:
            raise InvalidInputError(
                f"{path} names {missing[0]!r}, which is no column of the file. Name the columns with --score, "
                "such as --score 'p_*'."
            )
        return classes
    if len(score) != len(classes):
        raise ShapeError(
            f"--score names {count(len(score), 'column')}, {listed(score)}, and {path} "
            f"{len(classes)} margins, {listed(classes)}. Name one column per margin."
        )
    places = column_places(score, classes)
    if places is None:
        raise InvalidInputError(
            f"{path} names {listed(classes)}, and none of these names is what is left of {listed(score)} without a "
            "common prefix. Name the margins as the columns are."
        )
    return [score[place] for place in places]


def _numbers(matrix: pa.Table) -> FloatArray:
    import numpy as np

    return np.column_stack([column.to_numpy() for column in matrix.columns])


def _framed(p: FloatArray, classes: list[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({label: p[:, j] for j, label in enumerate(classes)})
