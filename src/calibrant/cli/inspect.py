"""calibrant inspect: what a saved calibrator does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from calibrant import persistence
from calibrant.cli.apply import Fitted, stored_columns
from calibrant.cli.examples import Command
from calibrant.cli.forecast_fit import describe as describe_fit
from calibrant.cli.output import count, listed, number, table, write_json
from calibrant.forecasts import Recalibrator
from calibrant.grouped import GroupedCalibrator
from calibrant.maps import (
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    LogPoolMap,
    Map,
    MeanMap,
    MixtureMap,
    OneVsRestMap,
    QuadraticMap,
    SoftmaxMap,
    StepMap,
    TopLabelMap,
    VennAbersMap,
)
from calibrant.multilabel import MultilabelCalibrator
from calibrant.numerics import FloatArray
from calibrant.probability import ProbabilityCalibrator
from calibrant.validation import InputKind

_MOST_CLASSES = 10
_MOST_GROUPS = 20
_MOST_ROUNDS = 10
_COUPLED = {
    "normalise": "divided by {} sum",
    "likelihood": "made the most likely distribution",
}


@click.command(
    "inspect",
    cls=Command,
    examples=[
        "calibrant inspect calibrator.json",
        "calibrant inspect calibrator.json --json",
    ],
)
@click.argument("calibrator")
@click.option("--json", "as_json", is_flag=True, help="Print the document as it was saved.")
def command(calibrator: str, as_json: bool) -> None:
    """Show what the saved CALIBRATOR is, what it was fitted to, and what it makes of some scores."""
    if as_json:
        write_json(persistence.read_document(calibrator))
        return
    loaded = persistence.load(calibrator)
    if isinstance(loaded, Recalibrator):
        click.echo(f"{calibrator}\n\n{describe_recalibrator(loaded)}")
        click.echo(f"\nNext:  calibrant forecast apply {shlex.quote(calibrator)} new.csv -o out.csv")
        return
    columns = stored_columns(loaded)
    facts = [
        ("calibrator", repr(loaded)),
        ("labels" if isinstance(loaded, MultilabelCalibrator) else "classes", listed(loaded.classes_.tolist())),
        ("fitted to", count(loaded.n_rows_, "row")),
        ("score columns", listed(columns) if columns else "not stored: name them with calibrant apply --score"),
        ("scores are", input_of(loaded)),
    ]
    click.echo(f"{calibrator}\n")
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        click.echo(f"{name:<{width}}  {text}")
    click.echo()
    if isinstance(loaded, GroupedCalibrator):
        click.echo(describe_groups(loaded))
        click.echo("\nAll rows:")
    example: str | None
    if isinstance(loaded, MultilabelCalibrator):
        lines = ["One map per label:", *_describe_each(loaded.label_names_, loaded.maps_)]
        example = examples_of(loaded.maps_[:_MOST_CLASSES], list(loaded.label_names_), loaded.input)
    else:
        lines = describe(loaded.map_, loaded.classes_.tolist())
        example = examples(loaded.map_, loaded.classes_.tolist(), input_of(loaded))
    click.echo("\n".join(lines))
    if example is not None:
        click.echo(f"\n{example}")
    click.echo(f"\nNext:  calibrant apply {shlex.quote(calibrator)} new.csv -o out.csv")


def describe_recalibrator(loaded: Recalibrator) -> str:
    """Return lines that say what recalibrates forecasts, and the first rounds of a threshold recalibrator."""
    lines = [f"recalibrator of forecasts: {describe_fit(loaded)}"]
    stored = getattr(loaded, "metadata_", {}).get("columns")
    if isinstance(stored, dict):
        lines += [f"{key}: {listed(value) if isinstance(value, list) else value}" for key, value in stored.items()]
    rounds = getattr(loaded, "rounds_", ())
    if rounds:
        rows = [
            (
                f"{made.y0:.4g}",
                f"{made.alpha:.3f}",
                number(made.error_before),
                f"{made.n_left:,g}",
                f"{made.n_right:,g}",
            )
            for made in rounds[:_MOST_ROUNDS]
        ]
        lines += ["", table(("y0", "alpha", "error before", "rows up to alpha", "above"), rows, left=0)]
        lines += [f"and {count(len(rounds) - len(rows), 'round')} more: see --json"] * (len(rounds) > len(rows))
    return "\n".join(lines)


def input_of(calibrator: Fitted) -> InputKind:
    """Return what the scores are that a calibrator takes."""
    return "probability" if isinstance(calibrator, ProbabilityCalibrator) else calibrator.input


def describe_groups(loaded: GroupedCalibrator) -> str:
    """Return a table of the groups, and how much of its own map each has."""
    shown = list(zip(loaded.groups_.tolist(), loaded.group_maps_, strict=True))
    shown = sorted(shown, key=lambda item: -item[1].n_rows)[:_MOST_GROUPS]
    rows = [(str(group), f"{own.n_rows:,}", f"{own.share:.0%}") for group, own in shown]
    left = len(loaded.groups_) - len(rows)
    more = f"\nand {count(left, 'group')} more" if left else ""
    return table(("group", "rows", "share of its own map"), rows) + more


def describe(fitted: Map, classes: list[Any]) -> list[str]:
    """Return lines that say in formulas and figures what a map does."""
    match fitted:
        case OneVsRestMap(maps=maps, coupling=coupling):
            return [
                f"One map per class, then each row {_COUPLED[coupling].format('its')}:",
                *_describe_each(classes, maps),
            ]
        case TopLabelMap(maps=(only,)):
            return ["The largest of each row; the others share the rest:", f"  {describe_binary(only)}"]
        case TopLabelMap(maps=maps):
            first = "The largest of each row, by the class that it is of; the others share the rest:"
            return [first, *_describe_each(classes, maps)]
        case MixtureMap(maps=parts, weights=weights):
            lines = (
                f"{w:.3g} of {line}" for w, m in zip(weights.tolist(), parts, strict=True) for line in describe(m, [])
            )
            return ["Mean of probabilities:", *(f"  {line}" for line in lines)]
        case LogPoolMap(maps=pooled, weights=weights, uniform=uniform):
            lines = (
                f"{w:.3g} of {line}" if i == 0 else line
                for w, m in zip(weights.tolist(), pooled, strict=True)
                for i, line in enumerate(describe(m, classes))
            )
            mixed = f", mixed with {uniform:.3g} of equal ones" if uniform > 0.0 else ""
            first = f"Product of probabilities, each to the power of its weight{mixed}:"
            return [first, *(f"  {line}" for line in lines)]
        case SoftmaxMap(weight=weight, bias=bias, clip=clip):
            z = "z" if clip is None else "log p"
            by = f"{weight.item():.6g} * {z}" if weight.ndim == 0 else f"W {z}, W of shape {weight.shape}"
            plus = f" + b, b from {bias.min():.6g} to {bias.max():.6g}" if bias.any() else ""
            return [f"softmax of {by}{plus}"]
        case _:
            return [describe_binary(fitted)]


def _describe_each(labels: Sequence[Any], maps: Sequence[BinaryMap]) -> list[str]:
    lines = [f"  {label!r}: {describe_binary(m)}" for label, m in zip(labels, maps, strict=True)]
    more = [f"  and {len(maps) - _MOST_CLASSES:,} more"] if len(maps) > _MOST_CLASSES else []
    return [*lines[:_MOST_CLASSES], *more]


def describe_binary(fitted: BinaryMap) -> str:
    """Return a line that says what a map of one score does."""
    match fitted:
        case LogisticMap(slope=slope, intercept=intercept):
            return f"q = expit({slope:.6g} * s {_signed(intercept)})"
        case BetaMap(a=a, b=b, c=c, clip=clip):
            formula = f"q = expit({a:.6g} * log p {_signed(-b)} * log(1 - p) {_signed(c)})"
            return f"{formula}, p clipped to [{clip:.3g}, 1 - {clip:.3g}]"
        case StepMap(levels=levels):
            return f"{count(levels.size, 'step')} with levels from {levels.min():.6g} to {levels.max():.6g}"
        case InterpolatedMap(x=x, y=y):
            return (
                f"linear between {count(x.size, 'knot')} at scores from {x[0]:.6g} to {x[-1]:.6g}, "
                f"outputs from {y.min():.6g} to {y.max():.6g}"
            )
        case LogitInterpolatedMap(x=x, y=y):
            return f"q = expit(f(z)), f linear between {count(x.size, 'knot')} at z from {x[0]:.6g} to {x[-1]:.6g}"
        case QuadraticMap(a=a, b=b, c=c, low=low, high=high):
            formula = f"q = expit({a:.6g} * t {_signed(b)} * t^2 {_signed(c)})"
            return f"{formula}, t from -1 to 1 for z from {low:.6g} to {high:.6g}"
        case VennAbersMap(levels0=levels0, levels1=levels1):
            return (
                f"q = p1 / (1 - p0 + p1), p0 of {count(levels0.size, 'step')} and p1 of {count(levels1.size, 'step')}"
            )
        case BlendMap(maps=maps, weights=weights):
            parts = (f"{w:.3g} of {describe_binary(m)}" for w, m in zip(weights.tolist(), maps, strict=True))
            return f"mean logit: {'; '.join(parts)}"
        case MeanMap(maps=maps, weights=weights):
            parts = (f"{w:.3g} of {describe_binary(m)}" for w, m in zip(weights.tolist(), maps, strict=True))
            return f"mean: {'; '.join(parts)}"


def examples(fitted: Map, classes: list[Any], input: InputKind) -> str | None:
    """Return a table of scores and what they become; None where a row of several scores is needed."""
    maps: tuple[BinaryMap, ...]
    kind: InputKind
    least = 0.0
    match fitted:
        case SoftmaxMap() | MixtureMap() | LogPoolMap():
            return None
        case TopLabelMap(maps=(only,)):
            maps, title, names, kind = (only,), "The largest of a row:\n", ["becomes"], "probability"
            least = 1.0 / fitted.n_classes
        case OneVsRestMap(maps=several, coupling=coupling):
            maps, title = several[:_MOST_CLASSES], f"Before rows are {_COUPLED[coupling].format('their')}:\n"
            names = [str(label) for label in classes[: len(maps)]]
            kind = "probability" if fitted.is_logit else input
        case TopLabelMap(maps=several):
            maps, title = several[:_MOST_CLASSES], "The largest of a row, by its class:\n"
            names, kind = [str(label) for label in classes[: len(maps)]], "probability"
            least = 1.0 / fitted.n_classes
        case _:
            maps, title, names, kind = (fitted,), "", ["becomes"], input
    return title + examples_of(maps, names, kind, least=least)


def examples_of(maps: Sequence[BinaryMap], names: list[str], kind: InputKind, *, least: float = 0.0) -> str:
    """Return a table of scores and what each map makes of them; probabilities that are at least `least`."""
    at = example_scores(maps, kind)
    if least > 0.0:
        at = at[at >= least]
    columns = [np.maximum(m.apply(at), least) for m in maps]
    rows = [[f"{s:.4g}", *(number(column[i]) for column in columns)] for i, s in enumerate(at.tolist())]
    return table(["score", *names[: len(maps)]], rows, left=0)


def example_scores(maps: Sequence[BinaryMap], input: InputKind) -> FloatArray:
    """Return scores to show: tenths of probabilities, whole logits, or the range that a map of scores knows."""
    if input == "probability":
        return np.linspace(0.0, 1.0, 11)
    ends = [_range(m) for m in maps] if input == "score" else [(-5.0, 5.0)]
    return np.linspace(min(low for low, _ in ends), max(high for _, high in ends), 11)


def _range(fitted: BinaryMap) -> tuple[float, float]:
    """Return a range of raw scores over which the map does most of its work."""
    match fitted:
        case InterpolatedMap(x=at) | StepMap(edges=at) | VennAbersMap(edges1=at) if at.size > 1:
            return float(at[0]), float(at[-1])
        case LogisticMap(slope=slope, intercept=intercept) if slope != 0.0:
            return -intercept / slope - 5.0 / abs(slope), -intercept / slope + 5.0 / abs(slope)
        case _:
            return -5.0, 5.0


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.6g}"
