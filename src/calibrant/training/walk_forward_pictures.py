"""A walk-forward over time: skill and calibration error of each window, as a picture and as a section of a page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import COLOURS, MUTED
from calibrant.numerics import FloatArray
from calibrant.phrases import count, percent_level
from calibrant.report import inline_figure, pages
from calibrant.training.metrics_report import AFTER, BEFORE, NO_SKILL
from calibrant.training.money import HOLD
from calibrant.training.walk_forward import harm_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (5.6, 4.8)
#: Of the two forecasts: how far to the sides of a window's middle they stand, as a share of its length; their marker.
_LOOKS = {BEFORE: (-0.12, "s"), AFTER: (0.12, "o")}
#: Windows that the text alternative of the picture names.
_IN_WORDS = 8


def draw_walk_forward(path: Path, found: dict[str, Any]) -> None:
    """Draw the windows of a walk-forward into a PNG file; `found` is the section of metrics.json."""
    _figure(found).savefig(path, dpi=120, metadata={"Software": None})


def walk_forward_section(found: dict[str, Any]) -> pages.Section:
    """Return the section of a page on the windows of a walk-forward."""
    level = percent_level(found["interval"]["level"])
    every = [*found["windows"], {"window": "all", **found["all"]}]
    lead = (
        f"Before each window the model and its calibrator were refitted to {_HISTORY[found['history']]}. Skill is one "
        f"less the log loss over that of class frequencies. Bars are {level} intervals, by blocks of rows in time; a "
        "window that is shorter than ten labels has none."
    )
    skill = pages.table(
        "Skill by window",
        every,
        [
            ("Window", _name),
            ("From", lambda one: one["from"][:10]),
            ("Rows", lambda one: pages.count(one["n_rows"])),
            ("Log loss", lambda one: _loss(one["log_loss"][AFTER])),
            ("Skill", lambda one: pages.signed(_skill(one)["value"], 4) if _is_known(_skill(one)) else ""),
            (f"{level} interval", lambda one: pages.ends(_skill(one))),
        ],
        wide=(2, 5),
    )
    change = pages.table(
        "What calibration changes by window",
        every,
        [
            ("Window", _name),
            ("Log loss", _change_cell),
            (f"{level} interval", lambda one: pages.ends(_change(one))),
            ("ECE raw", lambda one: pages.figure(one["ece"][BEFORE], 3)),
            ("ECE", lambda one: pages.off_cell(pages.figure(one["ece"][AFTER], 3), bool(one["is_off"]))),
            (f"Change, {level}", lambda one: pages.ends(one["calibrated_minus_raw"]["ece"], 3)),
        ],
        wide=(2, 5),
    )
    caption = (
        "Squares: raw; circles: calibrated. Below the grey line the calibration error of perfect probabilities stays "
        "95 times in 100."
    )
    last = found["deployed"]
    seen = last["fit"] + last["stop"] + last["validation"]
    deployed = (
        f"The deployed model is refitted once more after the last window, to {count(seen, 'row')} from "
        f"{last['from'][:10]} to {last['to'][:10]}: no figure here is measured on it."
    )
    of_change = (
        "The calibrated log loss less the raw one, bold where its interval lies above 0; and calibration errors, bold "
        "where that of the calibrated model is beyond its noise band."
    )
    blocks: list[pages.Block] = [
        pages.Text(lead),
        pages.Pictures([pages.Picture(lambda: _inline(found), caption)], "main"),
        pages.Text(harm_text(found)),
        skill,
        pages.Text(of_change),
        change,
        *_money_blocks(found),
        pages.Text(deployed),
    ]
    return pages.Section("Walk-forward", blocks)


_HISTORY = {"expanding": "all rows before it", "rolling": "as many rows before it as before the first"}


def _money_blocks(found: dict[str, Any]) -> list[pages.Block]:
    """Return the table of what each window was worth in money, where anything could be staked."""
    windows = [one for one in found["windows"] if "left_out" not in one["money"]]
    if not windows:
        return []

    def growth(name: str) -> Any:
        def cell(one: dict[str, Any]) -> str:
            path = one["money"]["paths"].get(name)
            if path is None:
                return ""
            value = path["growth"]["value"]
            return "all lost" if value is None else pages.signed(value, 4)

        return cell

    per = windows[0]["money"]["per"]
    table = pages.table(
        "Money by window",
        windows,
        [
            ("Window", _name),
            ("Raw", growth(BEFORE)),
            ("Calibrated", growth(AFTER)),
            ("Its interval", lambda one: pages.ends(one["money"]["paths"][AFTER]["growth"], 4)),
            ("Holding", growth(HOLD)),
            ("Threshold", lambda one: _chosen(one["money"][AFTER]["chosen"])),
        ],
        wide=(1, 3),
    )
    return [pages.Text(f"Growth of the capital a {per} by stakes that the rows before each window tell."), table]


def _chosen(threshold: float | None) -> str:
    return "no trade" if threshold is None else f"above {threshold:g}"


def _loss(value: float | None) -> str:
    return "infinite" if value is None else pages.decimals(value)


def _name(one: dict[str, Any]) -> str:
    return str(one["window"])


def _skill(one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = one["skill"][AFTER]["log_loss"]
    return found


def _change(one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = one["calibrated_minus_raw"]["log_loss"]
    return found


def _is_known(score: dict[str, Any]) -> bool:
    return score["value"] is not None


def _change_cell(one: dict[str, Any]) -> str | pages.Cell:
    value = _change(one)["value"]
    return pages.off_cell("infinite" if value is None else pages.signed(value, 4), bool(one["is_worse"]))


def _inline(found: dict[str, Any]) -> str:
    shown = found["windows"][:_IN_WORDS]
    words = "; ".join(
        f"window {one['window']} from {one['from'][:10]}: log loss {_loss(one['log_loss'][AFTER])}, of class "
        f"frequencies {_loss(one['log_loss'][NO_SKILL])}, calibration error "
        f"{pages.figure(one['ece'][BEFORE], 3)} raw and {pages.figure(one['ece'][AFTER], 3)} calibrated"
        for one in shown
    )
    more = "" if len(shown) == found["n_windows"] else f"; and {found['n_windows'] - len(shown)} more windows"
    title = "Skill and calibration error by window"
    return inline_figure(lambda: _figure(found), key="windows", title=title, words=f"{words}{more}.")


def _figure(found: dict[str, Any]) -> Figure:
    """Draw skill above calibration error, a point with its interval for each window and forecast."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    edges = _numbers([*(one["from"] for one in found["windows"]), found["all"]["to"]], is_dated=found["is_dated"])
    for name, colour in zip((BEFORE, AFTER), COLOURS[1::-1], strict=True):
        look = {"color": colour, "label": name}
        _draw(top, [one["skill"][name]["log_loss"] for one in found["windows"]], edges, name, look)
        _draw(bottom, [one["ece"][name] for one in found["windows"]], edges, name, look)
    top.axhline(0.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    bands = [math.nan if (band := one["ece"][AFTER]["noise_band"]) is None else band for one in found["windows"]]
    bottom.stairs(bands, edges, baseline=None, color=MUTED, linewidth=1.0, label="of perfect ones, 95%")
    top.set_ylabel("Skill in log loss")
    bottom.set_ylabel("Calibration error (ECE)")
    bottom.set_ylim(bottom=0.0)
    top.margins(y=0.1)
    if found["is_dated"]:
        write_dates(bottom)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    bottom.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(-0.02, 1.2))
    return figure


def write_dates(axes: Axes) -> None:
    """Write dates below axes so that they don't touch."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _numbers(times: list[str], *, is_dated: bool) -> FloatArray:
    """Return times as metrics.json has them as what matplotlib draws: days since 1970, or the numbers that they are."""
    from matplotlib.dates import date2num

    if not is_dated:
        return np.array(times, dtype=np.float64)
    days = date2num(np.array(times, dtype="datetime64[us]"))  # type: ignore[no-untyped-call]
    return np.asarray(days, dtype=np.float64)


def _draw(axes: Axes, scores: list[dict[str, Any]], edges: FloatArray, which: str, look: dict[str, Any]) -> None:
    """Draw a point with its interval for each window; what is infinite is left out."""
    shift, marker = _LOOKS[which]
    at = edges[:-1] + (0.5 + shift) * np.diff(edges)
    known = [k for k, score in enumerate(scores) if _is_known(score)]
    values = [scores[k]["value"] for k in known]
    axes.plot(at[known], values, marker=marker, linestyle="none", markersize=5.0, zorder=3, **look)
    with_ends = [k for k in known if scores[k]["low"] is not None and scores[k]["high"] is not None]
    low, high = ([scores[k][end] for k in with_ends] for end in ("low", "high"))
    axes.vlines(at[with_ends], low, high, color=look["color"], linewidth=1.3, zorder=2)
