"""calibrant inspect: what a saved calibrator does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from calibrant.cli.common import echo, new_command, table, write_json
from calibrant.phrases import clean, figure, listed, shorten

if TYPE_CHECKING:
    from calibrant.storable import Storable

_MOST_LETTERS = 400


@new_command("inspect", "calibrant inspect calibrator.json", "calibrant inspect calibrator.json --json")
@click.argument("calibrator")
@click.option("--json", "as_json", is_flag=True, help="Print the document as it was saved.")
def command(calibrator: str, as_json: bool) -> None:
    """Show what the saved CALIBRATOR is, what it was fitted to, and what it makes of some scores."""
    from calibrant import persistence
    from calibrant.cli.fit import as_table

    if as_json:
        write_json(persistence.read_document(calibrator))
        return
    fitted: Storable = persistence.load(calibrator)
    facts = fitted.facts()
    facts |= {name: _in_words(value) for name, value in fitted.metadata_.items() if name not in facts}
    known = fitted.provenance_
    facts |= {} if known is None else known.facts()
    width = max(len(name) for name in facts)
    echo(f"{calibrator}\n")
    for name, text in facts.items():
        echo(f"{name:<{width}}  {text}")
    if known is not None and known.out_of_fold is not None:
        echo("\n".join(["", *as_table(known.out_of_fold)]))
    echo("")
    for i, line in enumerate(fitted.describe()):
        is_heading = line.endswith(":") and not line.startswith(" ")
        echo(f"\n{line}" if i and is_heading else line)  # a part with a heading stands apart
    examples = fitted.examples()
    if examples is not None:
        header = ["score", *examples.names]
        rows = [[f"{s:.4g}", *(figure(q[i]) for q in examples.becomes)] for i, s in enumerate(examples.scores.tolist())]
        echo("\n".join(["", *([examples.title] if examples.title else []), table(header, rows, left=0)]))
    echo(f"\nNext:  {fitted.next_command.format(shlex.quote(calibrator))}")


def _in_words(value: object) -> str:
    """Return what was saved beside the calibrator, in one line."""
    if isinstance(value, Mapping):
        value = listed([f"{name} = {_in_words(each)}" for name, each in value.items()])
    elif isinstance(value, (list, tuple)):
        value = listed(value)
    return shorten(clean(value), _MOST_LETTERS)
