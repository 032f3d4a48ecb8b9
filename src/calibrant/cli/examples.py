"""Commands whose help ends with examples to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class ExamplesMixin:
    """Shows examples at the end of the help, each on a line of its own."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Command(ExamplesMixin, click.Command):
    """A command with examples."""
