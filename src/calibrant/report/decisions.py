"""The section on decisions: what is done with each row, what was promised of it, and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.decisions import DecisionCurve, Policy, decide_rows, decision_curve_of_rows, evaluate_decided
from calibrant.displays import MUTED, DecisionCurveDisplay
from calibrant.errors import InvalidInputError
from calibrant.metrics import Estimate, excludes
from calibrant.phrases import capitalised, clean, count, percent_level
from calibrant.report import pages
from calibrant.report.figures import enlarge_legend, inline_axes
from calibrant.results import plain
from calibrant.rows import Rows
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.decisions import Problem

#: Thresholds of the curve.
_N_THRESHOLDS = 30
#: The curve reaches at least so far beyond the threshold of the losses, as a share of this.
_BEYOND = 1.25
#: Columns of losses that a phone has room for.
_MOST_COLUMNS = 3
_SHORT = 40
_SIZE = (5.2, 3.1)
#: Thresholds that the text alternative of the curve names.
_IN_WORDS = (3, 6, 12, 18, 24)
#: Title and meaning of each figure of all rows.
_MEANINGS = {
    "realised": ("Realised loss", "What the decisions cost."),
    "promised": ("Promised loss", "What the probabilities expected that to be."),
    "gap": ("Gap", "Realised less promised, paired by row: above 0, decisions cost more than was promised."),
    "regret": ("Regret", "Realised less the best in hindsight."),
    "best_in_hindsight": (
        "Best in hindsight",
        "The least that decisions of the same kind could have cost, with charges on actions chosen by these outcomes.",
    ),
}


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is asked about decisions: the policy, and the costs of the rows and what capacities are for each of.

    `per_name` is the column of `per`, where it has a name.
    """

    policy: Policy
    costs: Any = None
    per: ArrayLike | None = None
    per_name: str = ""

    def check_weight(self, n_dropped: int, n_rows: int) -> None:
        """Refuse what is known of each row where rows were dropped for their weight."""
        problem = self.policy.problem
        if n_dropped and (self.costs is not None or self.per is not None or _has_losses_of_rows(problem)):
            raise InvalidInputError(
                f"sample_weight is 0 in {n_dropped:,} of {n_rows:,} rows, which are left out, but problem, costs and "
                "per say something of each row. Leave these rows out of all that is passed."
            )


def summarise_decisions(rows: Rows, asked: Decisions, *, level: float, upper: float, on: str) -> dict[str, Any]:
    """Return what decisions on the rows cost, as plain values; `upper` is where the axes of the page's curves end."""
    labels = rows.classes.tolist()
    policy = Policy(asked.policy.problem.in_order(labels), threshold=asked.policy.threshold)
    decided = decide_rows(policy, rows, asked.costs, asked.per)
    scores = evaluate_decided(decided, level=level, evaluated_on=on)
    threshold, capacity = _threshold(policy), policy.problem.capacity
    of_all = []
    for a, action in enumerate(policy.actions):
        lost = decided.realised[:, a]
        estimates = {"loss": lost, "saved": lost - decided.realised_losses}
        found = {name: _ends(decided.mean(values, level)) for name, values in estimates.items()}
        of_all.append(
            {"action": clean(action), "is_possible": capacity.get(action, rows.n_rows) >= rows.n_rows, **found}
        )
    curve = None
    if rows.n_classes == 2:
        end = max(upper, 0.0 if threshold is None else min(_BEYOND * threshold, 1.0))
        grid = end * np.arange(_N_THRESHOLDS) / _N_THRESHOLDS
        curve = decision_curve_of_rows(rows if rows.is_binary else rows.of_class(1), grid, level=level)
    return {
        "actions": [clean(action) for action in policy.actions],
        "classes": [clean(label) for label in labels],
        "losses": _losses(policy.problem),
        "threshold": threshold,
        "is_threshold_given": policy.threshold is not None,
        "capacity": {clean(action): most for action, most in capacity.items()},
        "per": clean(asked.per_name) if asked.per is not None else None,
        "verdict": scores.verdict,
        "scores": {name: score.to_dict() for name, score in scores.items()},
        "by_action": [
            {"action": clean(action), **{name: score.to_dict() for name, score in part.items()}}
            | {"is_off": excludes(part["gap"])}
            for action, part in scores.by_action.items()
        ],
        "one_action": of_all,
        "curve": None if curve is None else curve.to_dict(),
        "is_off": excludes(scores["gap"]),
        "level": level,
    }


def decision_section(found: dict[str, Any]) -> pages.Section:
    """Return the section of a summary of decisions."""
    digits, level = _digits(found), f"{percent_level(found['level'])} interval"
    blocks: list[pages.Block] = [pages.Text(_rule(found))]
    if found["losses"] is not None:
        blocks.append(_table_of_losses(found))
    losses = [each["loss"]["value"] for each in found["one_action"]] + [found["scores"]["realised"]["value"]]
    losses += [each for row in found["losses"] or () for each in row if not isinstance(each, str)]
    gains = " Losses below 0 are gains." if min(losses) < 0.0 else ""
    blocks.append(pages.Text(f"{found['verdict']}{gains}"))
    blocks.append(_table_of_scores(found, digits, level))
    blocks.append(pages.Text(_words_of_one_action(found)))
    blocks.append(
        pages.table(
            "One action for all rows",
            found["one_action"],
            [
                ("For all rows", _name),
                ("Loss", lambda each: pages.figure(each["loss"], digits)),
                (level, lambda each: pages.ends(each["loss"], digits)),
                ("Saved", lambda each: pages.figure(each["saved"], digits)),
                (level, lambda each: pages.ends(each["saved"], digits)),
            ],
            note=lambda each: "" if each["is_possible"] else "More rows than it may have.",
            look="classes" if all(each["is_possible"] for each in found["one_action"]) else "classes noted",
            wide=(2,),
            note_title="Note",
        )
    )
    each_level = f"{percent_level(found['by_action'][0]['gap']['level'])} interval"
    bold = ", bold where its interval excludes 0" if any(each["is_off"] for each in found["by_action"]) else ""
    blocks.append(pages.Text(f"The rows that got each action. Gap is realised less promised{bold}."))
    blocks.append(
        pages.table(
            "By action",
            found["by_action"],
            [
                ("Action", _name),
                ("Rows", lambda each: pages.percent(each["share"]["value"])),
                ("Realised", lambda each: pages.figure(each["realised"], digits)),
                ("Promised", lambda each: pages.figure(each["promised"], digits)),
                ("Gap", lambda each: pages.off_cell(pages.signed(each["gap"]["value"], digits), each["is_off"])),
                (each_level, lambda each: pages.ends(each["gap"], digits)),
            ],
            wide=(3,),
        )
    )
    if found["curve"] is not None:
        blocks.append(pages.Pictures([pages.Picture(lambda: _picture(found), _caption(found))], "main"))
    return pages.Section("What to do with it", blocks)


def _ends(estimate: Estimate) -> dict[str, Any]:
    return {end: plain(getattr(estimate, end)) for end in ("value", "low", "high")}


def _threshold(policy: Policy) -> float | None:
    """Return the threshold that the policy has, or that its losses say; None where there is none."""
    if policy.threshold is not None:
        return policy.threshold
    try:
        return policy.problem.threshold
    except InvalidInputError:
        return None


def _has_losses_of_rows(problem: Problem) -> bool:
    return problem.table is None and not problem.needs_costs


def _losses(problem: Problem) -> list[list[float | str]] | None:
    """Return the losses of each action, numbers and names of columns; None where neither says them."""
    if problem.table is not None:
        losses: list[list[float | str]] = problem.table.tolist()
        return losses
    if problem.cost_columns:
        return [[clean(each) if isinstance(each, str) else float(each) for each in row] for row in problem.entries]
    return None


def _digits(found: dict[str, Any]) -> int:
    """Return the decimals of losses: four of losses of the size of 1, fewer of larger ones."""
    scores = [*found["scores"].values(), *(each["loss"] for each in found["one_action"])]
    largest = max(abs(score["value"]) for score in scores if score["value"] is not None)
    return max(4 - max(math.floor(math.log10(max(largest, 1.0))), 0), 0)


def _name(each: dict[str, Any]) -> str:
    return pages.name(each["action"], _SHORT)


def _quoted(action: str) -> str:
    """Return the name of an action as it stands in a sentence."""
    return f'"{pages.name(action, _SHORT)}"'


def _rule(found: dict[str, Any]) -> str:
    """Say what is decided."""
    actions = [_quoted(action) for action in found["actions"]]
    if found["threshold"] is None:
        said = f"Each row gets the one of {len(actions)} actions that is expected to cost least."
    else:
        at = percent_level(found["threshold"])
        end, why = f"above {at}", f"at {at} both are expected to cost as much"
        if found["is_threshold_given"]:
            end, why = f"at least {at}", "the threshold was given"
        of = pages.name(found["classes"][1], _SHORT)
        said = f"The action is {actions[1]} where the probability of {of} is {end}, else {actions[0]}: {why}."
    for action, most in found["capacity"].items():
        of_each = "" if found["per"] is None else f" for each {pages.name(found['per'] or 'group', _SHORT)}"
        said += f" At most {count(most, 'row')}{of_each} may get {_quoted(action)}: those that gain most by it."
    return said if found["losses"] is not None else f"{said} Losses differ from row to row."


def _table_of_losses(found: dict[str, Any]) -> pages.Block:
    """Return the losses: a row for each action, or of many classes a row for each class; of many both not all."""
    actions, classes = found["actions"], found["classes"]
    rows, columns, what = actions, [f"Loss if {pages.name(label, _SHORT)}" for label in classes], "Action"
    losses = found["losses"]
    if len(classes) > _MOST_COLUMNS:
        rows, columns, what = classes, [f"Loss of {pages.name(action, _SHORT)}" for action in actions], "Class"
        losses = [list(row) for row in zip(*losses, strict=True)]
    if len(columns) > _MOST_COLUMNS:
        said = f"What the {len(actions)} actions lose with the {len(classes)} classes is in this report as JSON."
        return pages.Text(said)

    def cell(k: int) -> Any:
        return lambda row: _number(row[1][k])

    first = (what, lambda row: pages.name(row[0], _SHORT))
    cells = [(title, cell(k)) for k, title in enumerate(columns)]
    folded = f"What each action loses with each of {len(classes)} classes" if rows is classes else ""
    return pages.table("Losses", list(zip(rows, losses, strict=True)), [first, *cells], folded=folded)


def _number(value: float | str) -> str:
    """Write a loss, or say which column it is in."""
    if isinstance(value, str):
        return f"column {pages.name(value, _SHORT)}"
    return f"{value:z,.6g}".replace("-", "\N{MINUS SIGN}")


def _table_of_scores(found: dict[str, Any], digits: int, level: str) -> pages.Table:
    scores = found["scores"]

    def value(name: str) -> str | pages.Cell:
        if scores[name]["value"] is None:
            return pages.Cell("undefined", "undefined-value")
        if name == "gap":
            return pages.off_cell(pages.signed(scores[name]["value"], digits), found["is_off"])
        return pages.figure(scores[name], digits)

    def note(name: str) -> str:
        said = str(scores[name]["note"]).rstrip(".")
        return f"{_MEANINGS[name][1]} {capitalised(said)}." if said else _MEANINGS[name][1]

    columns = [("Loss per row", lambda name: _MEANINGS[name][0]), ("Value", value)]
    return pages.table(
        "Losses per row",
        list(_MEANINGS),
        [*columns, (level, lambda name: pages.ends(scores[name], digits))],
        note=note,
        look="scores",
        note_title="Meaning",
    )


def _words_of_one_action(found: dict[str, Any]) -> str:
    """Say what the probabilities save beside one action for all rows."""
    best = min((each for each in found["one_action"] if each["is_possible"]), key=lambda each: each["loss"]["value"])
    saved = best["saved"]
    between = (
        f"{percent_level(found['level'])} interval {pages.ends(saved, _digits(found))}" if pages.ends(saved) else ""
    )
    named = f"Of one action for all rows {_quoted(best['action'])} costs least"
    if saved["value"] == saved["low"] == saved["high"] == 0.0:
        return f"{named}, and is what the decisions come to."
    if not between:
        return f"{named}. Saved is its loss less that of the decisions."
    if saved["low"] > 0.0:
        said = f"the decisions save {pages.figure(saved, _digits(found))} a row beside it ({between})"
    elif saved["high"] < 0.0:
        lost = pages.figure({"value": -saved["value"]}, _digits(found))
        said = f"it is better than the decisions, by {lost} a row ({between} of what they save)"
    else:
        said = f"these rows don't show that the decisions save anything beside it ({between} of what they save)"
    return f"{named}: {said}."


def _caption(found: dict[str, Any]) -> str:
    line = "" if found["threshold"] is None else " The dotted line is at the threshold of these decisions."
    return (
        "The decision curve: net benefit over the threshold from which on one would act, the odds of which say how "
        "many false alarms are as bad as one miss. They are of use where their curve is above both others. "
        f"The band is the {percent_level(found['level'])} interval at each threshold by itself.{line}"
    )


def _picture(found: dict[str, Any]) -> str:
    curve = _as_curve(found["curve"])

    def draw(ax: Axes) -> None:
        DecisionCurveDisplay(curve).plot(ax)
        enlarge_legend(ax)
        if found["threshold"] is not None:
            ax.axvline(found["threshold"], color=MUTED, linewidth=1.0, linestyle=":")
        ax.spines[["top", "right"]].set_visible(False)

    at = [i for i in _IN_WORDS if i < curve.threshold.size]
    points = "; ".join(
        f"at {pages.percent(curve.threshold[i])} {pages.decimals(curve.net_benefit[i])}, "
        f"of acting on all {pages.decimals(curve.all[i])}"
        for i in at
    )
    words = f"Net benefit of acting from a threshold on: {points}. Of acting on none it is 0."
    return inline_axes(draw, _SIZE, key="decisions", title="Decision curve", words=words)


def _as_curve(found: dict[str, Any]) -> DecisionCurve:
    """Return the curve of plain values; intervals that are not known have no width."""
    arrays = {key: np.array(values, dtype=np.float64) for key, values in found.items() if isinstance(values, list)}
    for name, ends in (("net_benefit", ("low", "high")), ("all", ("all_low", "all_high"))):
        for end in ends:
            arrays[end] = np.where(np.isfinite(arrays[end]), arrays[end], arrays[name])
    rest: dict[str, Any] = {key: found[key] for key in ("base_rate", "level", "n", "method")}
    return DecisionCurve(**{**arrays, **rest}, label="these probabilities")
