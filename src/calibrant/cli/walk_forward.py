"""What calibrant train and calibrant runs show say of the windows of a walk-forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import loss_text, prose, table
from calibrant.cli.completing import ParamType
from calibrant.errors import InvalidInputError
from calibrant.phrases import bracketed, count, quoted

if TYPE_CHECKING:
    from calibrant.training import Run


class WindowsType(ParamType):
    """A number of windows, or a part of the calendar."""

    name = "windows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:  # noqa: ARG002
        """Return the number, or the text as it is; which texts are right is for the settings to say."""
        from calibrant.training import CALENDARS

        text = str(value)
        if text.removeprefix("-").isdecimal():
            return int(text)
        if text and text not in CALENDARS:
            raise InvalidInputError(
                f"--walk-forward {text!r} is neither a number of windows nor one of {quoted(CALENDARS)}. Pass 8, or "
                "quarter."
            )
        return text


def windows_lines(run: Run) -> list[str]:
    """Return tables of the windows of a run and what they come to; nothing of a run without."""
    from calibrant.training import harm_text

    found = run.metrics.get("walk_forward")
    if found is None:
        return []
    last = found["deployed"]
    seen = count(last["fit"] + last["stop"] + last["validation"], "row")
    span = f"from {last['from'][:10]} to {last['to'][:10]}"
    return [
        "",
        skill_table(found),
        "",
        change_table(found),
        prose(harm_text(found)),
        prose(f"Deployed: the last refit, to {seen} {span}; nothing is measured on it"),
        "",
    ]


def skill_table(found: dict[str, Any]) -> str:
    """Return the log loss and skill of each window and of all, and what acting on them gave."""
    from calibrant.training import AFTER, BEFORE, NO_SKILL

    rows = []
    for one in _every(found):
        skill = one["skill"][AFTER]["log_loss"]
        losses = [loss_text(one["log_loss"][name]) for name in (BEFORE, AFTER, NO_SKILL)]
        value = "" if skill["value"] is None else f"{skill['value']:+z.4f}"
        rows.append([str(one["window"]), one["from"][:10], f"{one['n_rows']:,}", *losses, value, _interval(skill)])
    level = f"{100 * found['interval']['level']:g}% interval"
    return table(["window", "from", "rows", "raw", "cal.", "no skill", "skill", level], rows, left=2)


def change_table(found: dict[str, Any]) -> str:
    """Return what calibration changes in log loss and ECE, and what stakes and holding made the capital grow by."""
    from calibrant.training import AFTER, BEFORE, HOLD

    rows = []
    for one in _every(found):
        change = one["calibrated_minus_raw"]["log_loss"]
        value = "infinite" if change["value"] is None else f"{change['value']:+z.4f}"
        errors = [loss_text(one["ece"][name]["value"]) for name in (BEFORE, AFTER)]
        worse = {True: "worse", False: "", None: "too short"}[one["is_worse"]]
        rows.append(
            [str(one["window"]), value, _interval(change), worse, *errors, _growth(one, AFTER), _growth(one, HOLD)]
        )
    level = f"{100 * found['interval']['level']:g}% interval"
    return table(["window", "change", level, "", "ECE raw", "cal.", "growth", "held"], rows)


def _every(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*found["windows"], {"window": "all", **found["all"]}]


def _interval(score: dict[str, Any]) -> str:
    return "" if score["low"] is None or score["high"] is None else bracketed(score["low"], score["high"])


def _growth(one: dict[str, Any], name: str) -> str:
    """Return the growth of the capital by one way to trade a window, a year or bar; nothing where nothing is known."""
    path = one.get("money", {}).get("paths", {}).get(name)
    if path is None:
        return ""
    return "all lost" if path["growth"]["value"] is None else f"{path['growth']['value']:+z.4f}"
