"""The report of a matrix whose columns were given margins: what moved, and what is left of the order."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__
from calibrant.displays import RankPreservingDisplay, draw_column
from calibrant.metrics import State, Verdict
from calibrant.phrases import clean, shorten
from calibrant.rank_preserving import Diagnostics, EpsilonSlack, Nearly, RankPreservingResult, diagnose
from calibrant.report import pages
from calibrant.report.figures import inline_axes, strip
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.rank_preserving import ColumnChange

#: Below this share of the spread that is left, the page advises against.
_LITTLE = 0.5
#: An order that is broken by less is kept.
_ROUNDING = 1e-12
#: Groups beyond so many have no table of totals.
_MOST_GROUPS = 30
_SHORT = 60


class RankPreservingReport(pages.PageReport):
    """Report of a probability matrix before and after it got its margins, as a page.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities before.
    Q : RankPreservingResult or array-like of shape (n, K)
        Those after. What `solve` returned also states how it ended.
    y, sample_weight, classes
        As for `rank_preserving.diagnose`.
    title : str
        Heading of the page.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> P = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 200)
    >>> report = cb.RankPreservingReport(P, cb.rank_preserving.solve(P, [80, 60, 60]))
    >>> report
    <RankPreservingReport: The order is kept and the margins are met, n = 200 rows>
    """

    name = "Rank-preserving calibration"

    def __init__(
        self,
        P: ArrayLike,
        Q: ArrayLike | RankPreservingResult,
        *,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        title: str = "Rank-preserving calibration",
    ) -> None:
        self._diagnostics = diagnose(P, Q, y=y, sample_weight=sample_weight, classes=classes)
        self._summary = _summary(self._diagnostics, Q if isinstance(Q, RankPreservingResult) else None, clean(title))

    def page(self) -> pages.Page:
        found = self._summary
        moved = (
            f"Of each row's probability {pages.percent(found['mean_moved'])} changed column on average, "
            f"{pages.percent(found['largest_moved'])} at most. Another column is on top in "
            f"{pages.percent(found['top_changed'])} of {pages.count(found['n_rows'], 'row')}."
        )
        answers = [
            pages.Answer("How much moved?", moved),
            pages.Answer("What is left of the ranking?", found["advice"]),
        ]
        totals = [_totals(found["totals"])] if found["totals"] else []
        sections = [*totals, self._moves(), _ranking(found)]
        if found["has_auc"]:
            sections.append(_auc(found))
        sections.append(_worst(found))
        if found["solver"] is not None:
            sections.append(_solver(found["solver"]))
        return pages.Page(found["title"], found["state"], found["headline"], answers, sections)

    def _moves(self) -> pages.Section:
        """Return the section of pictures of the columns that moved most, and the table of all."""
        columns = self._summary["columns"]
        shown = RankPreservingDisplay(self._diagnostics).columns
        pictures = [
            pages.Picture(
                partial(_column_panel, column, f"column{k}"),
                f"mean {pages.decimals(column.mean_before, 3)} to {pages.decimals(column.mean_after, 3)}",
                pages.name(column.column, _SHORT),
            )
            for k, column in enumerate(shown)
        ]
        lead = (
            "On the dashed line nothing moved. A flat stretch is rows that differed and are equal now; a band, where "
            "there is one, is rows of like probability that ended up apart."
        )
        if len(shown) < len(columns):
            lead += f" Shown are the {len(shown)} of {len(columns)} columns that moved most."
        moves = pages.table(
            "Moves",
            columns,
            [
                ("Column", _name),
                ("Mean before", lambda each: pages.decimals(each["mean_before"], 3)),
                ("Mean after", lambda each: pages.decimals(each["mean_after"], 3)),
                ("Mean move", lambda each: pages.decimals(each["mean_move"], 3)),
                ("Largest", lambda each: pages.decimals(each["largest_move"], 3)),
            ],
        )
        layout = pages.Pictures(pictures, "panels thirds" if len(shown) > 4 else "panels")
        return pages.Section("Each column, after against before", [pages.Text(lead), layout, moves])

    def __repr__(self) -> str:
        return (
            f"<RankPreservingReport: {self._summary['headline']}, n = {pages.count(self._diagnostics.n_rows, 'row')}>"
        )


def _name(column: dict[str, Any]) -> str:
    return pages.name(column["column"], _SHORT)


def _ranking(found: dict[str, Any]) -> pages.Section:
    lead = (
        "Spread: standard deviation after, as a share of that before. Flattened: neighbours that differed and are "
        "equal now. Overtaken: rows below one that was not above them. Levels: the effective number of different "
        "probabilities."
    )
    is_broken = any(column["worst_fall"] for column in found["columns"])
    if is_broken:
        lead += " Worst fall: by how much a row lies below one that was not above it, at most."
    falls = [("Worst fall", lambda each: pages.off_cell(f"{each['worst_fall']:.2g}", bool(each["worst_fall"])))]
    ranking = pages.table(
        "Ranking",
        found["columns"],
        [
            ("Column", _name),
            ("Spread left", lambda each: "" if each["spread"] is None else f"{each['spread']:.0%}"),
            ("Flattened", lambda each: f"{each['flattened']:.0%}"),
            ("Overtaken", lambda each: pages.off_cell(f"{each['overtaken']:.0%}", bool(each["overtaken"]))),
            *(falls if is_broken else ()),
            ("Levels", lambda each: pages.count(round(each["steps_before"]))),
            ("Levels after", lambda each: pages.count(round(each["steps_after"]))),
        ],
        wide=(5,) if is_broken else (4,),
    )
    return pages.Section("What is left of the ranking", [pages.Text(lead), ranking])


def _totals(totals: list[dict[str, Any]]) -> pages.Section:
    lead = (
        "Wanted and met. Price: how much the squared distance rises per unit by which a total is raised; where totals "
        "have room, those without a price do not bind."
    )
    has_groups = any(each["group"] is not None for each in totals)
    table = pages.table(
        "Totals",
        totals,
        [
            *((("Group", lambda each: pages.name(each["group"], _SHORT)),) if has_groups else ()),
            ("Column", _name),
            ("Wanted", lambda each: f"{each['wanted']:,.6g}"),
            ("Met", lambda each: f"{each['met']:,.6g}"),
            ("Price", lambda each: f"{each['price']:.3g}" if each["binds"] else ""),
        ],
        wide=(4,) if has_groups else (),
    )
    return pages.Section("Totals", [pages.Text(lead), table])


def _totals_of(result: RankPreservingResult | None, names: list[str]) -> list[dict[str, Any]]:
    """Return the totals that were asked for, those that were met, and their prices, by group and column."""
    if result is None:
        return []
    if result.sets is not None:
        of = [
            (f"{name} {group}", *totals)
            for name, each in result.sets.items()
            for group, *totals in zip(each.groups, each.given, each.used, each.prices, each.binds, strict=True)
        ]
    else:
        parts = {None: result} if result.groups is None else result.groups
        of = [
            (group, part.margins_given, part.margins_used, part.margin_prices, part.binds)
            for group, part in parts.items()
            if part.margins_given is not None
        ]
    if len(of) > _MOST_GROUPS:
        return []
    found = []
    for group, *values in of:
        label = None if group is None else clean(str(group))
        for name, wanted, met, price, binds in zip(names, *values, strict=True):
            total = {"wanted": float(wanted), "met": float(met), "price": float(price), "binds": bool(binds)}
            found.append({"group": label, "column": name, **total})
    return found


def _auc(found: dict[str, Any]) -> pages.Section:
    lead = "Area under the ROC curve. Where the order is kept, rows that became equal are all that can change it."
    areas = pages.table(
        "Area under the ROC curve",
        [each for each in found["columns"] if each["auc_before"] is not None],
        [
            ("Column", _name),
            ("AUC before", lambda each: pages.decimals(each["auc_before"])),
            ("AUC after", lambda each: pages.decimals(each["auc_after"])),
            ("Change", lambda each: pages.signed(each["auc_after"] - each["auc_before"], 4)),
        ],
    )
    return pages.Section("How well each column tells its class from the rest", [pages.Text(lead), areas])


def _worst(found: dict[str, Any]) -> pages.Section:
    moved = pages.table(
        "Rows that moved most",
        found["worst"],
        [
            ("Row", lambda each: str(each["row"])),
            ("Moved", lambda each: pages.decimals(each["moved"], 3)),
            ("Most came from", lambda each: pages.name(each["source"], 40)),
            ("Most went to", lambda each: pages.name(each["target"], 40)),
        ],
        look="worst",
    )
    return pages.Section("Rows that moved most", [moved])


def _solver(solver: dict[str, Any]) -> pages.Section:
    over = "" if solver["n_groups"] is None else f" over {solver['n_groups']:,} {solver['parts']}"
    ended = "converged" if solver["converged"] else "stopped before it had converged"
    rows, margins, order = (f"{solver[f'{what}_residual']:.1e}" for what in ("row", "margin", "rank"))
    facts = [
        ("Method", f"{solver['method']}, {solver['n_iter']:,} iterations{over}; {ended}"),
        ("Gap", f"No matrix with these margins {solver['goal']} by more than {solver['gap']:.2g} of {solver['of']}."),
        ("Residuals", f"Rows {rows}, margins {margins} per row, order {order}."),
    ]
    if solver["allowed"] is not None:
        facts.insert(1, ("Order", solver["allowed"]))
    return pages.Section("How the solver ended", [pages.Facts(facts)])


def _column_panel(column: ColumnChange, key: str) -> str:
    """Return the SVG of a column of a matrix after against before, small."""

    def draw(ax: Axes) -> None:
        draw_column(ax, column)
        ax.set_title("", loc="left")
        for text in list(ax.texts):
            text.remove()
        strip(ax)
        ax.set(xlabel="", ylabel="")
        ax.locator_params(nbins=3)
        ax.set_position((0.19, 0.13, 0.78, 0.78))  # numbers of two decimals

    means = (
        f"Mean {column.mean_before:.3f} before, {column.mean_after:.3f} after; {pages.percent(column.flattened)} flat."
    )
    title = f"Column {shorten(clean(column.column), _SHORT)}: probabilities after against before"
    return inline_axes(draw, key=key, title=title, words=means)


def _summary(found: Diagnostics, result: RankPreservingResult | None, title: str) -> dict[str, Any]:
    plain = found.to_dict()
    columns = [{key: value for key, value in column.items() if key != "curve"} for column in plain["columns"]]
    for column in columns:
        column["column"] = clean(column["column"])
    worst = [{**row, "source": clean(row["source"]), "target": clean(row["target"])} for row in plain["worst"]]
    said, solver = _verdict(found, result), None if result is None else _solved(result)
    return {
        "title": title,
        "version": __version__,
        "state": said.state,
        "headline": said.headline,
        "advice": said.what_to_do,
        "columns": columns,
        "worst": worst,
        "has_auc": any(column["auc_before"] is not None for column in columns),
        **{key: plain[key] for key in ("n_rows", "mean_moved", "largest_moved", "top_changed", "spread", "flattened")},
        "solver": solver,
        "totals": _totals_of(result, [column["column"] for column in columns]),
    }


def _solved(result: RankPreservingResult) -> dict[str, Any]:
    """Return how the solver ended, what it was allowed, and what its gap is a share of."""
    names = ("converged", "n_iter", "gap", "row_residual", "margin_residual", "rank_residual", "method")
    solver = {name: getattr(result, name) for name in names}
    solver["n_groups"] = None if result.groups is None else len(result.groups)
    solver["parts"] = "groups" if result.sets is None else f"cells of {' and '.join(result.sets)}"
    nearly = None if result.nearly is None or result.nearly.is_strict else result.nearly
    solver["allowed"] = None if nearly is None else _allowed(nearly)
    solver["goal"], solver["of"] = "and this order is nearer", "the squared distance"
    if isinstance(nearly, EpsilonSlack):
        solver["goal"] = "and this slack is nearer"
    elif nearly is not None:
        solver["goal"], solver["of"] = "costs less", "the squared distance and the price of its violations"
    return solver


def _allowed(nearly: Nearly) -> str:
    """Say how far, or at what price, the order might be broken."""
    if isinstance(nearly, EpsilonSlack):
        return f"It may be broken by {nearly.eps:g} at most."
    of_what = "neighbours" if nearly.pairs == "neighbours" else "all pairs of rows"
    return f"It may be broken at a price: the squared distance plus {nearly.lam:g} times the violations of {of_what}."


def _verdict(found: Diagnostics, result: RankPreservingResult | None) -> Verdict:
    """Say whether the order is kept, and what is left of it; one that is broken as it may be is no fault.

    Where groups have margins of their own, the order is asked for within each of them alone.
    """
    overtaken = max(column.overtaken for column in found.columns)
    is_kept, is_flat = overtaken == 0.0, found.spread < _LITTLE
    is_allowed = result is not None and result.nearly is not None
    is_by_group = result is not None and result.groups is not None and result.rank_residual <= _ROUNDING
    headline = "The order is kept"
    if not is_kept and is_by_group:
        is_kept, headline = True, "The order is kept within each group"
    elif not is_kept and is_allowed:
        worst = max(column.worst_fall for column in found.columns)
        headline = f"The order is broken by {worst:.2g} at most, as was allowed,"
    elif not is_kept:
        headline = f"The order is broken: up to {overtaken:.0%} of a column's rows"
    if result is not None and (is_kept or is_allowed):
        headline += " and the margins are met"
    left = f"{found.flattened:.0%} of neighbours that differed are equal now."
    if not math.isnan(found.spread):
        left = f"Columns keep {found.spread:.0%} of their spread on average, and {left}"
    if is_flat:
        left += (
            " Little of what told rows apart is left: these margins are far from the matrix. If only the base rates of "
            "the classes have changed, calibrant.prior.prior_shift keeps more."
        )
    state: State = "calibrated"
    if not is_kept:
        state = "unclear" if is_allowed else "miscalibrated"
    elif is_flat:
        state = "unclear"
    return Verdict(state, headline, left, headline, what_to_do=left)
