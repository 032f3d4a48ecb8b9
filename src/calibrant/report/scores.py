"""The section of scores: each with its interval, and before a calibrator beside after it."""

from __future__ import annotations

from functools import partial
from typing import Any

from calibrant.phrases import capitalised, percent_level
from calibrant.report import pages

_GAP = "Mean gap between predicted and observed"
_NOISE = "Noise alone makes it positive."
_OF_THE_TOP = "Mean gap between the probability of the most probable class and"
#: Title and meaning of each score that the page shows, in the order of the table.
MEANINGS = {
    "brier": ("Brier score", "Mean squared distance between prediction and outcome. Lower is better, 0 is perfect."),
    "log_loss": ("Log loss", "Mean surprise at what happened. Confident mistakes cost most; lower is better."),
    "ece": ("Calibration error", f"{_GAP} over bins. {_NOISE}"),
    "ece_debiased": (
        "Calibration error, debiased",
        "Root mean squared gap over bins less the part that noise explains. 0 where predictions are calibrated.",
    ),
    "smooth_ece": ("Calibration error, smooth", f"{_GAP}, smoothed without bins. {_NOISE}"),
    "ici": ("Integrated calibration index", f"Mean gap between predictions and a smooth fit to the outcomes. {_NOISE}"),
    "classwise_ece": (
        "Class-wise calibration error",
        f"The mean gap for each class against the rest, averaged over the classes. {_NOISE}",
    ),
    "marginal_calibration_error": (
        "Marginal calibration error",
        "Root mean squared gap of all classes over bins less the part that noise explains.",
    ),
    "auc": ("AUC", "Chance that an event is ranked above a non-event. Says nothing about calibration."),
    "miscalibration": ("Miscalibration", "Part of the Brier score that a perfect recalibration would remove."),
    "discrimination": ("Discrimination", "Part of the Brier score that is earned by telling events apart."),
    "uncertainty": ("Uncertainty", "Brier score of predicting the base rate for every row: no skill."),
    "accuracy": ("Accuracy", "Share of rows whose most probable class was right."),
    "mean_gap": ("Mean gap", "Mean prediction less the share of events. Above 0, too much is predicted overall."),
    "slope": ("Calibration slope", "Below 1, predictions are over-confident; above 1, under-confident."),
    "intercept": (
        "Calibration intercept",
        "True log-odds where 50% is predicted: 0 is right, and above 0 such predictions are too low.",
    ),
    "base_rate": ("Base rate", "Share of events."),
}
#: What differs where there is one probability per class.
_MULTICLASS_MEANINGS = {
    "ece": f"{_OF_THE_TOP} how often it was right, over bins. {_NOISE}",
    "smooth_ece": f"{_OF_THE_TOP} how often it was right, smoothed without bins. {_NOISE}",
    "ici": f"{_OF_THE_TOP} a smooth fit of how often it was right. {_NOISE}",
    "auc": "Chance that a row of a class is ranked above a row of another, averaged over classes. Says nothing about "
    "calibration.",
    "discrimination": "Part of the Brier score that is earned by telling classes apart.",
    "uncertainty": "Brier score of predicting the class frequencies for every row: no skill.",
    "mean_gap": "Mean probability of the most probable class less its share of right ones. Above 0, it is too sure.",
}
#: Scores that the page shows first; the others are folded.
_FIRST = ("brier", "log_loss", "ece_debiased", "mean_gap", "slope", "auc")
#: Scores that the verdict tells in words.
_IN_VERDICT = ("worst_bin_gap", "class_gap", "class_share_gap")
#: Decimals of scores of the size of 1.
_COARSE = {"slope": 3, "intercept": 3}


def score_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section of the scores that a summary holds."""
    scores, data = summary["scores"], summary["data"]
    shown = _shown(summary)
    digits, before = digits_of(scores), _before(summary)

    def note(name: str) -> str:
        meaning = shown[name][1]
        said = scores[name]["note"].rstrip(".")
        return f"{meaning} {capitalised(said)}.".strip() if said else meaning

    def title(name: str) -> str:
        return shown[name][0]

    level = f"{percent_level(data['level'])} interval"
    columns: list[tuple[str, Any]] = [("Score", title)]
    if before is not None:
        was = before["scores"]
        columns += [("Before", partial(value_cell, was, digits)), (level, partial(ends_of, was, digits))]
    value, ends = partial(value_cell, scores, digits), partial(ends_of, scores, digits)
    columns += [("Value" if before is None else "After", value), (level, ends)]
    first = [name for name in _FIRST if name in shown]
    rest = [name for name in shown if name not in first]
    look: dict[str, Any] = {"note": note, "look": "scores", "note_title": "Meaning"}
    if before is not None:
        look |= {"look": "scores parts", "wide": (2, 4)}
    tables = [pages.table("Scores", first, columns, **look)]
    if rest:
        tables.append(pages.table("More scores", rest, columns, folded=pages.count(len(rest), "more score"), **look))
    lead = f"Measured on the {pages.count(data['n_rows'], 'row')} given{', weighted' if data['is_weighted'] else ''}."
    n = int(data["effective_rows"])
    worth = f"They are not independent, and worth about {pages.count(n, 'row')} that {'is' if n == 1 else 'are'}."
    notes = [*([worth] if data["design_effect"] > 1.0 else []), *data["notes"]]
    blocks: list[pages.Block] = [pages.Text(" ".join([lead, *notes])), *tables]
    if before is not None:
        blocks[1:1] = _table_of_change(summary["calibrator"]["change"], level, digits)
    return pages.Section("Scores", blocks)


def digits_of(scores: dict[str, Any]) -> int:
    """Return the decimals of scores: more of rare events, whose scores are small."""
    return 5 if 0.0 < scores["brier"]["value"] < 0.01 else 4


def value_cell(scores: dict[str, Any], digits: int, name: str) -> str | pages.Cell:
    """Write the value of a score; one without an interval stands out."""
    text = pages.figure(scores[name], _COARSE.get(name, digits))
    return text if pages.ends(scores[name]) else pages.Cell(text, "undefined-value")


def ends_of(scores: dict[str, Any], digits: int, name: str) -> str:
    """Write the interval of a score."""
    return pages.ends(scores[name], _COARSE.get(name, digits))


def change_cell(changes: dict[str, Any], digits: int, name: str) -> str | pages.Cell:
    """Write the difference of a score; of one that is no number the note begins with what it is."""
    change = changes[name]
    if change["value"] is None:
        said = str(change["note"]).split(":", maxsplit=1)[0] or "undefined"
        return pages.Cell(said, "undefined-value")
    return pages.signed(change["value"], digits)


def _before(summary: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a summary says of the scores before a calibrator."""
    found: dict[str, Any] | None = None if summary["calibrator"] is None else summary["calibrator"]["before"]
    return found


def _table_of_change(change: dict[str, Any], level: str, digits: int) -> list[pages.Block]:
    """Return the paired differences of scores."""
    found = pages.table(
        "What the calibrator changes",
        list(change),
        [
            ("After less before", lambda name: MEANINGS[name][0]),
            ("Change", partial(change_cell, change, digits)),
            (level, partial(ends_of, change, digits)),
        ],
        look="classes",
    )
    lead = (
        "The change is paired by row, so that what is hard before and after cancels: below 0 is better, of the AUC "
        "above 0."
    )
    return [pages.Text(lead), found]


def methods_of(summary: dict[str, Any]) -> str:
    """Say how the intervals were found."""
    methods: dict[str, list[str]] = {}
    for name, (title, _) in _shown(summary).items():
        if pages.ends(summary["scores"][name]):
            methods.setdefault(summary["scores"][name]["method"], []).append(title)
    return " ".join(f"{capitalised(method)}: {', '.join(titles)}." for method, titles in methods.items())


def _shown(summary: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return title and meaning of each score that the page shows; one that has no words yet follows by its name."""
    scores = summary["scores"]
    without_words = [name for name in scores if name not in MEANINGS and name not in _IN_VERDICT]
    meanings = meanings_of(is_binary=summary["kind"] == "binary")
    shown = {name: words for name, words in meanings.items() if name in scores}
    return shown | {name: (name.replace("_", " ").capitalize(), "") for name in without_words}


def meanings_of(*, is_binary: bool) -> dict[str, tuple[str, str]]:
    """Return title and meaning of the scores of one probability per row, or of one per class."""
    if is_binary:
        return MEANINGS
    return MEANINGS | {name: (MEANINGS[name][0], words) for name, words in _MULTICLASS_MEANINGS.items()}
