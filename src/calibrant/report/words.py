"""What the figures say in words: is it calibrated, which way is it off, where, and what to do about it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from calibrant.report.formats import percent, percent_level, points, points_range, shorten

State: TypeAlias = Literal["calibrated", "miscalibrated", "unclear", "undefined"]

#: Title and meaning of each score, in the order of the table.
MEANINGS = {
    "brier": ("Brier score", "Mean squared distance between prediction and outcome. Lower is better, 0 is perfect."),
    "log_loss": ("Log loss", "Mean surprise at what happened. Confident mistakes cost most; lower is better."),
    "ece": ("Calibration error", "Mean gap between predicted and observed over bins. Noise alone makes it positive."),
    "ece_debiased": (
        "Calibration error, debiased",
        "Root mean squared gap over bins less the part that noise explains. 0 where predictions are calibrated.",
    ),
    "smooth_ece": (
        "Calibration error, smooth",
        "Mean gap between predicted and observed, smoothed without bins. Noise alone makes it positive.",
    ),
    "ici": (
        "Integrated calibration index",
        "Mean gap between predictions and a smooth fit to the outcomes. Noise alone makes it positive.",
    ),
    "classwise_ece": (
        "Class-wise calibration error",
        "The mean gap for each class against the rest, averaged over the classes. Noise alone makes it positive.",
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
    "slope": ("Calibration slope", "Below 1, predictions are too extreme; above 1, too timid."),
    "intercept": (
        "Calibration intercept",
        "True log-odds where 50% is predicted: 0 is right, and above 0 such predictions are too low.",
    ),
    "base_rate": ("Base rate", "Share of events."),
}

#: What differs where there is one probability per class.
_MULTICLASS_MEANINGS = {
    "ece": "Mean gap between the probability of the most probable class and how often it was right, over bins. Noise "
    "alone makes it positive.",
    "smooth_ece": "Mean gap between the probability of the most probable class and how often it was right, smoothed "
    "without bins. Noise alone makes it positive.",
    "ici": "Mean gap between the probability of the most probable class and a smooth fit of how often it was right. "
    "Noise alone makes it positive.",
    "auc": "Chance that a row of a class is ranked above a row of another, averaged over classes. Says nothing about "
    "calibration.",
    "discrimination": "Part of the Brier score that is earned by telling classes apart.",
    "uncertainty": "Brier score of predicting the class frequencies for every row: no skill.",
}

#: What the first screen answers: the key in the verdict, and the question.
QUESTIONS = {
    "is_it_calibrated": "Is it calibrated?",
    "which_way": "Which way is it off?",
    "where": "Where?",
    "what_to_do": "What to do",
}

#: A calibration error below this share of the rarer outcome, and below `SMALL_ERROR`, is too small to correct.
SMALL_SHARE = 0.2
SMALL_ERROR = 0.05
#: Classes that a sentence names, and the longest name in it.
_MOST_NAMED = 5
_SHORT = 40

#: Headline and sentence for each way in which predictions can be off.
_DIRECTIONS = {
    "high": ("predictions are too high", "Events happened less often than predicted."),
    "low": ("predictions are too low", "Events happened more often than predicted."),
    "extreme": (
        "predictions are too extreme",
        "Low predictions came true more often than stated and high ones less often: the model is over-confident.",
    ),
    "timid": (
        "predictions are too timid",
        "Low predictions came true less often than stated and high ones more often: the model is under-confident.",
    ),
    "reversed": (
        "predictions run the wrong way",
        "High predictions came true less often than low ones (AUC below 0.5).",
    ),
    "mixed": ("predictions are off in several places", "Some predictions are too high and others too low."),
    "overconfident": (
        "the model is over-confident",
        "The most probable class was right less often than its probability stated.",
    ),
    "underconfident": (
        "the model is under-confident",
        "The most probable class was right more often than its probability stated.",
    ),
    "classes": (
        "some classes are off",
        "The most probable class is not off, but the probabilities of single classes are.",
    ),
    "none": ("off by a little in many places", "No single range of predictions stands out."),
}


def meaning(name: str, *, is_multiclass: bool) -> str:
    """Return the plain sentence on what a score means."""
    general = MEANINGS[name][1]
    return _MULTICLASS_MEANINGS.get(name, general) if is_multiclass else general


def verdict(
    evidence: dict[str, dict[str, Any]],
    auc: dict[str, Any],
    curve: dict[str, Any],
    classes: list[dict[str, Any]],
    by_class: dict[str, Any] | None,
    *,
    is_multiclass: bool,
) -> dict[str, Any]:
    """Return state, headline, sentences and advice.

    The evidence is that of `metrics.evaluate`: the intervals of the mean gap and of the debiased calibration error.
    Miscalibrated where either excludes 0; calibrated where neither does and both end at an error too small to
    matter; unclear where they are too wide to tell. Of several classes this is said of the most probable one, and
    "miscalibrated" also where `metrics.evaluate_classes` finds a class off.

    Parameters
    ----------
    evidence : dict
        Scores `mean_gap`, `ece_debiased` and `base_rate`: of the most probable class, where there are several.
    auc : dict
    curve : dict
        The main curve.
    classes : list of dict
        Weight of each class.
    by_class : dict or None
        What `summarise_classes` says of more than two classes.
    is_multiclass : bool
    """
    seen = [entry["weight"] for entry in classes if entry["weight"] > 0.0]
    small = SMALL_ERROR
    if not is_multiclass and len(seen) > 1:
        small = min(SMALL_ERROR, SMALL_SHARE * min(seen) / sum(seen))
    state = _state(evidence["mean_gap"], evidence["ece_debiased"], small)
    outside = [row for row in curve["bins"] if row["is_outside"]]
    direction = "none"
    if state == "miscalibrated":
        direction = _direction(evidence["mean_gap"], auc, outside, is_multiclass=is_multiclass)
    n_off = 0 if by_class is None else by_class["n_off"]
    came_true = "was right" if is_multiclass else "happened"
    evidence_text = _evidence(evidence["mean_gap"], evidence["ece_debiased"], state)
    where = _where(curve, outside, state, came_true)
    if by_class is not None and n_off:
        where = f"{where} {_which_classes(by_class)}"
        if state != "miscalibrated":
            evidence_text = (
                f"No. {_which_classes(by_class)} Of the most probable class: {_uncapitalised(evidence_text)}"
            )
            state, direction, where = "miscalibrated", "classes", _worst_class(by_class)
    return {
        "state": state,
        "headline": _headline(state, direction),
        "is_it_calibrated": evidence_text,
        "which_way": _which_way(evidence, state, direction, came_true),
        "where": where,
        "what_to_do": _advice(state, direction, by_class, has_two_classes=len(seen) > 1),
        "command": _command(state, direction, seen, is_multiclass=is_multiclass),
    }


def _state(gap: dict[str, Any], error: dict[str, Any], small: float) -> State:
    if None in (gap["low"], gap["high"], error["low"], error["high"]):
        return "undefined"
    if error["low"] > 0.0 or _is_shifted(gap):
        return "miscalibrated"
    return "calibrated" if max(error["high"], gap["high"], -gap["low"]) <= small else "unclear"


def _is_shifted(gap: dict[str, Any]) -> bool:
    return bool(gap["low"] > 0.0 or gap["high"] < 0.0)


def _direction(gap: dict[str, Any], auc: dict[str, Any], outside: list[dict[str, Any]], *, is_multiclass: bool) -> str:
    """Name the pattern of the bins whose interval misses the diagonal, from low to high predictions."""
    shift = "high" if gap["value"] > 0.0 else "low"
    if auc["high"] is not None and auc["high"] < 0.5:
        return "reversed"
    if is_multiclass and _is_shifted(gap):
        return "overconfident" if shift == "high" else "underconfident"
    signs: list[str] = []
    for row in outside:
        sign = "high" if row["gap"] > 0.0 else "low"
        if signs[-1:] != [sign]:
            signs.append(sign)
    match signs:
        case []:
            return shift if _is_shifted(gap) else "none"
        case [sign]:
            return sign
        case ["low", "high"]:
            return "extreme"
        case ["high", "low"]:
            return "timid"
        case _:
            return "mixed"


def _headline(state: State, direction: str) -> str:
    if state == "calibrated":
        return "Calibrated, as far as these rows can tell"
    if state == "unclear":
        return "No error found, on too few rows to be sure"
    if state == "undefined":
        return "Calibration can't be judged from these rows"
    return f"Not calibrated: {_DIRECTIONS[direction][0]}"


def _evidence(gap: dict[str, Any], error: dict[str, Any], state: State) -> str:
    if state == "undefined":
        return f"The calibration error is undefined: {error['note'] or 'no interval could be found'}."
    level = percent_level(error["level"])
    if state == "miscalibrated" and error["low"] > 0.0:
        return (
            f"No. Predictions miss the observed frequency by about {points(error['value'])} (root mean square; "
            f"{level} interval {points_range(error['low'], error['high'])}), more than noise explains."
        )
    if state == "miscalibrated":
        ends = sorted((abs(gap["low"]), abs(gap["high"])))
        side = "high" if gap["value"] > 0.0 else "low"
        return (
            f"No. Predictions are too {side} by {points(abs(gap['value']))} on average "
            f"({level} interval {points_range(*ends)}), more than noise explains."
        )
    largest = points(max(error["high"], gap["high"], -gap["low"]))
    if state == "calibrated":
        return f"Yes: no error is shown, and one above {largest} is ruled out ({level} interval)."
    return f"Not shown either way: no error is shown, but one of {largest} can't be ruled out ({level} interval)."


def _which_way(evidence: dict[str, dict[str, Any]], state: State, direction: str, came_true: str) -> str:
    if state == "undefined":
        return "Unknown."
    if state != "miscalibrated":
        return "No direction is shown."
    sentence = _DIRECTIONS[direction][1]
    gap, rate = evidence["mean_gap"], evidence["base_rate"]["value"]
    if not _is_shifted(gap):
        return sentence
    return f"{sentence} Overall {percent(rate + gap['value'])} was predicted and {percent(rate)} {came_true}."


def _where(curve: dict[str, Any], outside: list[dict[str, Any]], state: State, came_true: str) -> str:
    n_bins, level = len(curve["bins"]), percent_level(curve["level"])
    verb = "is" if len(outside) == 1 else "are"
    if not outside:
        bins = "the only bin agrees with its" if n_bins == 1 else f"all {n_bins} bins agree with their"
        return f"Nowhere in particular: {bins} prediction within the {level} interval."
    if state != "miscalibrated":
        return (
            f"{len(outside)} of {n_bins} bins {verb} outside the {level} interval, "
            f"where chance alone puts about {n_bins * (1.0 - curve['level']):.1f}."
        )
    worst = max(outside, key=lambda row: abs(row["gap"]))
    first, last, predicted, observed, low, high = (
        percent(worst[key]) for key in ("from", "to", "predicted", "observed", "low", "high")
    )
    return (
        f"Most for predictions from {first} to {last}: on average {predicted} was predicted and {observed} {came_true} "
        f"({level} interval {low} to {high}). {len(outside)} of {n_bins} bins {verb} off."
    )


def _which_classes(by_class: dict[str, Any]) -> str:
    """Name the classes that are off."""
    off = [shorten(row["label"], _SHORT) for row in by_class["rows"] if row["is_off"]]
    named = ", ".join(off[:_MOST_NAMED]) + (f" and {len(off) - _MOST_NAMED} more" if len(off) > _MOST_NAMED else "")
    verb = "is" if len(off) == 1 else "are"
    return f"{len(off):,} of {len(by_class['rows']):,} classes {verb} off, worst first: {named}."


def _worst_class(by_class: dict[str, Any]) -> str:
    worst = by_class["rows"][0]
    return f"Most in class {shorten(worst['label'], _SHORT)}: {_uncapitalised(worst['words'])}"


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _advice(state: State, direction: str, by_class: dict[str, Any] | None, *, has_two_classes: bool) -> str:
    if not has_two_classes:
        return "Collect rows of the other class too: a calibrator needs both."
    if direction == "reversed":
        return "Check first which class is the positive one: the labels or the scores seem to be turned round."
    if state == "miscalibrated":
        general = (
            "Fit a calibrator on labelled rows that the model was not trained on, and check it on rows new to both."
        )
        if by_class is None:
            return general
        if any(row["is_share_off"] for row in by_class["rows"]):
            return (
                f"{general} Shares of classes are off: it needs a term for each class, which temperature scaling lacks."
            )
        return f"{general} No class is predicted too often or too rarely: temperature scaling may be enough."
    if state == "calibrated":
        return "Leave it alone. These rows give no reason for a correction, and one fitted to noise would harm."
    return "Collect more labelled rows before deciding. Don't correct on this evidence."


def _command(state: State, direction: str, seen: list[float], *, is_multiclass: bool) -> str | None:
    if state != "miscalibrated" or direction == "reversed" or len(seen) < 2:
        return None
    score = "SCORES --method auto" if is_multiclass else "SCORE"
    return f"calibrant fit FILE --label LABEL --score {score} -o calibrator.json"
