"""calibrant decide experiment: what decisions on forecasts promise and lose, before and after each recalibrator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common
from calibrant.cli.completing import Names
from calibrant.cli.forecast_columns import forecast_options, numbers_in, read_forecasts
from calibrant.cli.gates import check_gates, gate_results, judge, parse_gates
from calibrant.cli.option_texts import check_output, check_suffix, split_list
from calibrant.errors import unknown_name
from calibrant.files import open_target

if TYPE_CHECKING:
    from calibrant.forecasts import DecisionExperiment

_PICTURES = (".png", ".svg", ".pdf")


@common.new_command(
    "experiment",
    "calibrant decide experiment forecasts.parquet --mean mu --std sigma",
    "calibrant decide experiment forecasts.csv --quantiles 'q*' --method threshold --max gap=0.06",
    "calibrant decide experiment forecasts.parquet --mean mu --std sigma -o decisions.png --json",
    short_help="Compare what decisions promise and lose, before and after recalibration.",
)
@click.argument("file")
@forecast_options(outcomes=True)
@click.option(
    "--method",
    type=Names(choices.RECALIBRATORS),
    metavar="NAMES",
    help="Recalibrators to compare: average,threshold.  [default: all]",
)
@click.option("--held-out", default=0.5, metavar="SHARE", help="Share of the rows that is measured on.")
@click.option("--thresholds", metavar="NUMBERS", help="Thresholds y0 of decisions.  [default: 50 over the outcomes]")
@click.option("--costs", metavar="NUMBERS", help="Cost ratios between 0 and 1.  [default: 50 from 0.05 to 0.95]")
@common.level_option("the gaps' bounds")
@common.seed_option("the held-out rows and simulated intervals")
@click.option(
    "--judge", "judged", metavar="NAME", help="Whose figures --max and --min judge.  [default: the least gap]"
)
@click.option("--max", "at_most", multiple=True, metavar="NAME=VALUE", help="Exit 1 if a figure is above: gap=0.06.")
@click.option(
    "--min", "at_least", multiple=True, metavar="NAME=VALUE", help="Exit 1 if it is below: within_chance=0.9."
)
@click.option("-o", "--output", metavar="OUT", help="Also write a picture, .png, .svg or .pdf, or the document, .json.")
@common.json_option
@click.pass_context
def experiment_command(
    ctx: click.Context,
    /,
    method: str | None,
    held_out: float,
    thresholds: str | None,
    costs: str | None,
    level: float,
    seed: int,
    judged: str | None,
    at_most: tuple[str, ...],
    at_least: tuple[str, ...],
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare what decisions on the forecasts in FILE promise to lose and lose, before and after recalibration.

    Decisions say yes where the forecast gives values up to y0 a probability of at most alpha. Recalibrators are fitted
    to one part of the rows; all figures are of the other. The gap is the distance between the loss that the forecasts
    promise and the one that comes, on average over thresholds, levels and cost ratios; "by chance" is what a forecast
    that is right would show.

    --max and --min make it a gate on one of the rows of the table: exit 1 if a figure is out of bounds.
    """
    from calibrant.forecasts import decision_experiment

    gates = parse_gates(at_most, at_least)
    if output is not None:
        check_suffix(output, *_PICTURES, ".json")
        check_output(output, options["file"])
    rows = read_forecasts(**options)
    how: dict[str, Any] = {**rows.known, "held_out": held_out, "level": level, "rng": seed}
    how["recalibrators"] = None if method is None else split_list(method)
    how["y0"] = None if thresholds is None else numbers_in("--thresholds", thresholds, "0,10")
    how["cost"] = None if costs is None else numbers_in("--costs", costs, "0.1,0.5")
    found = decision_experiment(rows.forecast, rows.y, **how)
    name = found.best if judged is None else judged
    if name not in found.scores:
        raise unknown_name("recalibrator of --judge", name, found.scores)
    check_gates(gates, found.scores[name])
    document = {"file": rows.file, "n": rows.y.size, "columns": rows.columns, **found.to_dict()}
    document |= {"judged": name, **gate_results(gates, found.scores[name])} if gates else {}
    if as_json:
        common.write_json(document)
    else:
        said = f"{rows.describe()}; {found.n_fitted:,} to fit to, {found.n_held_out:,} held out"
        common.echo(f"{said}\n\n{found.verdict}\n")
        common.echo(common.table(*found.lines()))
        for note in found.notes:
            common.echo(note)
    if output is not None:
        _write(found, document, output)
        common.echo(f"Wrote {output}", err=as_json)
    if gates and not as_json:
        common.echo(f"Figures of {name}:")
    ctx.exit(judge(gates, found.scores[name], as_json=as_json))


def _write(found: DecisionExperiment, document: dict[str, Any], output: str) -> None:
    """Write the document or the picture."""
    with open_target(output) as file:
        if Path(output).suffix.lower() == ".json":
            file.write((json.dumps(document, indent=2, allow_nan=False) + "\n").encode())
            return
        from calibrant.displays import DecisionExperimentDisplay

        figure = DecisionExperimentDisplay(found).plot().figure_
        figure.savefig(file, format=Path(output).suffix[1:].lower(), dpi=150)
