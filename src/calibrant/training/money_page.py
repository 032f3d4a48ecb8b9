"""What a run's page and pictures show of money: paths of the capital, and their figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import COLOURS, MUTED
from calibrant.phrases import percent_level
from calibrant.report import inline_figure, pages
from calibrant.training.equity import Equity
from calibrant.training.metrics_report import AFTER, BEFORE
from calibrant.training.money import HOLD, NEARLY_ALL, Money
from calibrant.training.walk_forward_pictures import write_dates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (7.2, 3.6)
#: Points of a line, at most: a picture shows no more.
_MOST_POINTS = 600


def draw_money(folder: Path, money: Money) -> None:
    """Draw the paths of the capital, where anything could be staked."""
    if money.paths:
        _figure(money).savefig(folder / "money.png", dpi=120, metadata={"Software": None})


def money_section(money: Money) -> pages.Section:
    """Return the section of the page: the picture, the figures of each path, and what was promised and specified."""
    figures = money.figures
    if not money.paths:
        return pages.Section("Money", [pages.Text(f"No stakes: {figures['left_out']}.")])
    picture = pages.Picture(lambda: _svg(money), "A capital of 1, on a logarithmic scale. " + _words_of_terms(figures))
    blocks: list[pages.Block] = [pages.Pictures([picture], "wide"), *_tables(figures)]
    blocks += [pages.Facts(_facts(figures)), pages.Text(figures["definitions"])]
    return pages.Section("Money", blocks)


def _words_of_terms(figures: dict[str, Any]) -> str:
    rule = figures["rule"]
    return (
        f"{rule['kind'].capitalize()} stakes cost {rule['cost_bp']:g} basis points of what is moved. Before the test "
        f"part a rise returned {pages.percent(rule['up'])}, a fall {pages.percent(-rule['down'])}, and about "
        f"{1.0 / rule['share']:.1f} labels were open at once: each stake is a share of such a part of the capital."
    )


def _tables(figures: dict[str, Any]) -> list[pages.Table]:
    """Return the table of growth, and that of what else is known of each path."""
    per, level, paths = figures["per"], percent_level(figures["level"]), list(figures["paths"].items())

    def ends(item: tuple[str, Any]) -> str:
        return _ends(item[1]["growth"]) if item[1]["growth"] is not None else ""

    first = ("", lambda item: item[0].replace(" ", "\N{NO-BREAK SPACE}"))
    growth = [
        (f"Growth a {per}", lambda item: "" if item[1]["growth"] is None else _number(item[1]["growth"]["value"])),
        (f"{level} interval", ends),
        ("Final capital", lambda item: pages.decimals(item[1]["final"]["value"], 3)),
    ]
    capital = [
        ("Largest fall", lambda item: _percent(item[1]["max_drawdown"]["value"])),
        (f"{level} of paths", lambda item: _percents(item[1]["max_drawdown"])),
        ("Open", lambda item: _percent(item[1]["mean_exposure"])),
        (f"Turnover a {per}", lambda item: pages.decimals(round(item[1]["turnover"], 2), 2)),
    ]
    return [
        pages.table("Growth", paths, [first, *growth], wide=(2,)),
        pages.table("Capital", paths, [first, *capital], wide=(2, 4)),
    ]


def _facts(figures: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(f"Threshold, {name}", figures[name]["reason"]) for name in (BEFORE, AFTER)]
    for name in (BEFORE, AFTER):
        returns, per = figures[name]["returns"], figures["per"]
        promised, came, gap = (_number(returns[part]["value"]) for part in ("promised", "realised", "gap"))
        said = f"{promised} a {per} promised, {came} came: {gap}, interval {_ends(returns['gap'])}"
        found.append((f"Returns, {name}", said))
    for name in (BEFORE, AFTER):
        over = figures["paths"][name]["over_buy_and_hold"]
        if over is not None and over["value"] is not None:
            said = f"growth of {_number(over['value'])} a {figures['per']} more, interval {_ends(over)}"
            found.append((f"Beside holding, {name}", said))
    for one in figures["specified"]:
        least, most = map(pages.percent, one["specified"])
        said = (
            f"{least} to {most} less {one['what']}; found {_percent(one['value'])} ({_percents(one)}): {one['verdict']}"
        )
        found.append(("Specified", said))
    if "not_held" in figures:
        found.append((HOLD.capitalize(), f"Left out: {figures['not_held']}"))
    elif figures["held_share"] < NEARLY_ALL:
        found.append((HOLD.capitalize(), f"Held for {pages.percent(figures['held_share'])} of the time of the rows"))
    return found


def _number(value: float | None) -> str:
    """Write a growth or return to the basis point: what is below that is nothing."""
    return "all lost" if value is None else pages.signed(round(value, 4), 4)


def _ends(found: dict[str, Any]) -> str:
    return pages.ends({end: None if found[end] is None else round(found[end], 4) for end in ("low", "high")}, 4)


def _percent(value: float | None) -> str:
    return "undefined" if value is None else pages.percent(round(value, 3) + 0.0)  # no minus zero


def _percents(found: dict[str, Any]) -> str:
    if found["low"] is None or found["high"] is None:
        return ""
    return f"{_percent(found['low'])} to {_percent(found['high'])}"


def _svg(money: Money) -> str:
    ends = "; ".join(f"{name} {path.final:.3f}" for name, path in money.paths.items())
    return inline_figure(
        lambda: _figure(money), key="money", title="Capital over time", words=f"What a capital of 1 became: {ends}."
    )


def _figure(money: Money) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    draw_paths(figure.add_subplot(), money)
    return figure


def draw_paths(ax: Axes, money: Money) -> None:
    """Draw each path of the capital."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    colours = dict(zip((AFTER, BEFORE, HOLD), COLOURS, strict=False))
    for name, path in money.paths.items():
        of = next((key for key in colours if name.startswith(key)), None)
        line: dict[str, Any] = {"color": MUTED if of is None else colours[of], "linewidth": 1.5 if of else 1.0}
        line["linestyle"] = (0, (4, 3)) if of is None else ":" if " above " in name else "-"
        time, capital = _thinned(path)
        ax.step(time, capital, where="post", label=f"{name}: {path.final:.2f}", **line)
    lowest = min(float(path.capital.min()) for path in money.paths.values())
    if lowest > 0.0:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    if all(path.time.dtype.kind == "M" for path in money.paths.values()):
        write_dates(ax)
    ax.set_ylabel("Capital")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="best")


def _thinned(path: Equity) -> tuple[Any, Any]:
    rows = np.unique(np.linspace(0, path.time.size - 1, min(path.time.size, _MOST_POINTS)).round().astype(np.int64))
    return path.time[rows], path.capital[rows]
