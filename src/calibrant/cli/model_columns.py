"""Columns of several models in one file, by the options --score and --versus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calibrant.cli.option_texts import split_names
from calibrant.errors import InvalidInputError

if TYPE_CHECKING:
    from calibrant.tables import RowSource


def check_versus(versus: Sequence[str], said: Mapping[str, str | None]) -> None:
    """Refuse options that are for one model where --versus names others; `said` holds them by name."""
    named = next((option for option, value in said.items() if value is not None), None)
    if versus and named:
        raise InvalidInputError(f"{named} is for one model, and --versus names others. Leave one of the two out.")


def named_models(
    versus: Sequence[str], score: Sequence[str], source: RowSource, champion: list[str]
) -> dict[str, list[str]]:
    """Return the columns of each model by its name, the champion's first; nothing where --versus names no other.

    A model of one column is called by its name; one of several columns by the text that was given, such as a pattern.
    """
    if not versus:
        return {}
    given = [(",".join(score) or "p", champion)]
    given += [(text, source.select(split_names([text], source.names))) for text in versus]
    models: dict[str, list[str]] = {}
    for text, columns in given:
        if not columns:
            raise InvalidInputError(f"--versus {text!r} names no column. Name the scores of a model.")
        name = columns[0] if len(columns) == 1 else text
        if name in models:
            raise InvalidInputError(f"{name!r} is named twice as a model. Name each model once.")
        models[name] = columns
    return models
