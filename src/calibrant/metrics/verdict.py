"""What scores say of calibration, in plain words: the one place where rows are judged.

`verdict` is a function of scores alone, so whoever measures the same rows says the same of them: `evaluate`, the
report and its page, a window of the monitor, and the command line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from calibrant.phrases import count, difference, interval, rate
from calibrant.results import Score

State: TypeAlias = Literal["calibrated", "miscalibrated", "unclear", "undefined"]
Action: TypeAlias = Literal["calibrate", "check", "collect", "leave", "other class"]

#: Gaps by which a class is judged, and those by which a group is.
CLASS_GAPS = ("mean_gap", "worst_gap", "top_gap")
GROUP_GAPS = ("mean_gap",)
#: A calibration error below this share of the rarer outcome, and below `_SMALL_ERROR`, is too small to correct.
_SMALL_SHARE = 0.2
_SMALL_ERROR = 0.05

#: What the headline says, and what it means, by the way in which predictions are off.
_DIRECTIONS = {
    "high": ("predictions are too high", "Events happened less often than predicted."),
    "low": ("predictions are too low", "Events happened more often than predicted."),
    "over": (
        "predictions are over-confident",
        "Low predictions came true more often than stated and high ones less often.",
    ),
    "under": (
        "predictions are under-confident",
        "Low predictions came true less often than stated and high ones more often.",
    ),
    "reversed": (
        "predictions run the wrong way",
        "High predictions came true less often than low ones (AUC below 0.5).",
    ),
    "top high": (
        "the model is over-confident",
        "The most probable class was right less often than its probability stated.",
    ),
    "top low": (
        "the model is under-confident",
        "The most probable class was right more often than its probability stated.",
    ),
    "places": ("predictions are off in places", "Some predictions are too high and others too low."),
    "classes": (
        "some classes are off",
        "The most probable class is not found off, but the probabilities of single classes are.",
    ),
    "impossible": ("something happened that had probability 0", "No direction is shown for other probabilities."),
}
_FIT = "Fit a calibrator on labelled rows that the model was not trained on, and check it on rows new to both."
_ADVICE: dict[Action, str] = {
    "calibrate": _FIT,
    "check": "Check first which class is the positive one: the labels or the scores seem to be turned round.",
    "collect": "Collect more labelled rows before deciding. Don't correct on this evidence.",
    "leave": "Leave it alone. These rows give no reason for a correction, and one fitted to noise would harm.",
    "other class": "Collect rows of the other class too: a calibrator needs both.",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What scores say of calibration; as a string, in one to three sentences.

    `in_short` is the headline with its evidence, `action` what it advises. The others answer a question each, and are
    empty where the question doesn't arise.
    """

    state: State
    headline: str
    is_it_calibrated: str
    in_short: str
    which_way: str = ""
    where: str = ""
    what_to_do: str = ""
    action: Action | None = None

    @property
    def is_off(self) -> bool:
        """Whether predictions are found off."""
        return self.state == "miscalibrated"

    def __str__(self) -> str:
        return self.in_short

    def to_dict(self) -> dict[str, str | None]:
        """Return the parts by name."""
        return asdict(self)


def verdict(scores: Mapping[str, Score], *, of: Literal["rows", "class", "group"] = "rows") -> Verdict:
    """Say whether predictions are calibrated; of rows, also which way they are off, where, and what to do.

    `scores` are what `evaluate` returns of rows, or those of one class of `evaluate_classes` or one group of
    `evaluate_groups`.

    Predictions of rows are found off where the interval of `mean_gap`, `ece_debiased` or `class_gap` excludes 0, where
    that of `slope` excludes 1 (unless a note says that it is too short), or where log loss is infinite. If none is,
    they are called calibrated where the intervals end at errors too small to matter, and else unclear. Of several
    classes the first two scores are of the most probable one, and `class_gap` is of the class that is furthest off.

    A class is found off by any of `CLASS_GAPS`, a group by `GROUP_GAPS`: their intervals are corrected for the number
    of classes, or groups, that are judged.
    """
    match of:
        case "rows":
            return _of_rows(scores)
        case "class":
            said = _class_sentences(scores)
            words = " ".join(said) or "Not found off."
        case "group":
            said = [_group_sentence(scores["mean_gap"])] if excludes(scores["mean_gap"]) else []
            words = said[0] if said else _group_sentence(scores["mean_gap"])
    state: State = "miscalibrated" if said else "unclear"
    return Verdict(state, "Off" if said else "Not found off", words, words)


def at_least(gap: Score) -> float:
    """Return how far a gap is from zero at least; 0 where it is undefined."""
    return max(gap.low, -gap.high, 0.0) if math.isfinite(gap.value) else 0.0


def excludes(score: Score, null: float = 0.0) -> bool:
    """Say whether the interval of a score excludes a value."""
    return score.low > null or score.high < null


def _of_rows(scores: Mapping[str, Score]) -> Verdict:
    gap, error, log_loss = scores["mean_gap"], scores["ece_debiased"], scores["log_loss"]
    spread = _spread(scores)
    is_column_off = excludes(gap) or error.low > 0.0 or bool(spread)
    is_class_off = "class_gap" in scores and excludes(scores["class_gap"])
    is_impossible = log_loss.value == math.inf
    if is_column_off or is_class_off or is_impossible:
        return _found_off(scores, spread, is_column_off=is_column_off, is_class_off=is_class_off)
    if not all(math.isfinite(end) for end in (gap.low, gap.high, error.low, error.high)):
        words = f"The calibration error is undefined: {error.note or gap.note or 'no interval could be found'}."
        headline = "Calibration can't be judged from these rows"
        return Verdict("undefined", headline, words, words, "Unknown.", "Unknown.", *_advice(scores, "collect"))
    largest = max(error.high, gap.high, -gap.low)
    found = f"No miscalibration found: {_none_found(scores)}."
    if largest <= _small(scores):
        words = f"{found} An error above {rate(largest)} is ruled out."
        headline, answer, action = "Calibrated, as far as these rows can tell", "Yes. ", "leave"
    else:
        rows = count(gap.n, "row")
        words = f"{found} With {rows} the intervals are wide: an error of {rate(largest)} can't be ruled out."
        headline, answer, action = "No error found, on too few rows to be sure", "Not shown either way. ", "collect"
    state: State = "calibrated" if action == "leave" else "unclear"
    return Verdict(
        state, headline, answer + words, words, "No direction is shown.", "Nowhere in particular.",
        *_advice(scores, "leave" if action == "leave" else "collect"),
    )  # fmt: skip


def _found_off(scores: Mapping[str, Score], spread: str, *, is_column_off: bool, is_class_off: bool) -> Verdict:
    """Say how predictions are off of which something excludes that they are calibrated."""
    direction = _direction(scores, spread, is_column_off=is_column_off, is_class_off=is_class_off)
    said, where = [], []
    if is_column_off:
        said.append(_column_sentence(scores, spread))
        where.append(f"Worst {scores['worst_bin_gap'].where}.")
    if is_class_off:
        said.append(scores["class_gap"].note)
        where.append(f"Worst {scores['class_gap'].where}")  # which ends as a sentence
    if scores["log_loss"].value == math.inf:
        said.append("Something happened that had probability 0: log loss is infinite.")
    if not is_column_off:
        said.append(f"{_capitalised(_none_found(scores))}.")
    words = " ".join(said)
    came_true = "was right" if "accuracy" in scores else "happened"
    which_way = _DIRECTIONS[direction][1]
    gap = scores["mean_gap"]
    if excludes(gap):
        observed = scores["accuracy" if "accuracy" in scores else "base_rate"].value
        which_way += f" Overall {rate(observed + gap.value)} was predicted and {rate(observed)} {came_true}."
    advice, action = _advice(scores, "check" if direction == "reversed" else "calibrate")
    if action == "calibrate" and is_class_off:
        advice += (
            " Shares of classes are off: it needs a term for each class, which temperature scaling lacks."
            if excludes(scores["class_share_gap"])
            else " No class is predicted too often or too rarely: temperature scaling may be enough."
        )
    return Verdict(
        "miscalibrated",
        f"Not calibrated: {_DIRECTIONS[direction][0]}",
        f"No. {words}",
        " ".join([f"Not calibrated: {words[:1].lower()}{words[1:]}", *where]),
        which_way,
        " ".join(where) or "Where the probability was 0.",
        advice,
        action,
    )


def _direction(scores: Mapping[str, Score], spread: str, *, is_column_off: bool, is_class_off: bool) -> str:
    gap, is_top = scores["mean_gap"], "accuracy" in scores
    if not is_column_off:
        return "classes" if is_class_off else "impossible"
    if not is_top and scores["auc"].high < 0.5:
        return "reversed"
    if excludes(gap):
        return f"top {side(gap)}" if is_top else side(gap)
    return spread or "places"


def _spread(scores: Mapping[str, Score]) -> Literal["", "over", "under"]:
    """Say whether predictions of an event lie too far from the base rate or too near, by the calibration slope."""
    if "accuracy" in scores or scores["slope"].note or not excludes(scores["slope"], 1.0):
        return ""
    return "over" if scores["slope"].value < 1.0 else "under"


def _column_sentence(scores: Mapping[str, Score], spread: str) -> str:
    """Say how the predictions of one column, or those of the most probable class, are off."""
    gap, error = scores["mean_gap"], scores["ece_debiased"]
    what, confident = _what(scores), ""
    if spread:
        place = "too far from" if spread == "over" else "too near"
        confident = f"{spread}-confident ({place} the base rate of {rate(scores['base_rate'].value)})"
    if excludes(gap):
        size = sorted((abs(gap.low), abs(gap.high)))
        said = f"{what} too {side(gap)}, by {_size(gap)} on average"
        said += f" ({interval(gap.level, *size)})" + (f", and {confident}" if confident else "")
    else:
        said = f"{what} right on average but {confident or 'off in places'}"
        if error.low > 0.0:
            said += f", by {_size(error)} over bins (root mean square without noise; {_interval(error)})"
        else:
            said += f": the calibration slope is {scores['slope'].value:.2f} ({_interval(scores['slope'])})"
    return f"{_capitalised(said)}."


def _none_found(scores: Mapping[str, Score]) -> str:
    gap, error = scores["mean_gap"], scores["ece_debiased"]
    return (
        f"{_what(scores)} off by {_signed(gap)} on average ({_interval(gap)}), and the debiased "
        f"calibration error is {_size(error)} ({_interval(error)})"
    )


def _what(scores: Mapping[str, Score]) -> str:
    return "the confidence in the predicted class is" if "accuracy" in scores else "predictions are"


def _interval(score: Score) -> str:
    return interval(score.level, score.low, score.high)


def _signed(gap: Score) -> str:
    return difference(gap.value, sign=True, scale=max(abs(gap.low), abs(gap.high)))


def _size(gap: Score) -> str:
    return difference(abs(gap.value), scale=max(abs(gap.low), abs(gap.high)))


def _small(scores: Mapping[str, Score]) -> float:
    """Return the error that is too small to matter."""
    if "accuracy" in scores:
        return _SMALL_ERROR
    rarer = min(scores["base_rate"].value, 1.0 - scores["base_rate"].value)
    return min(_SMALL_ERROR, _SMALL_SHARE * rarer) if rarer > 0.0 else _SMALL_ERROR


def _advice(scores: Mapping[str, Score], action: Action) -> tuple[str, Action]:
    if math.isnan(scores["auc"].value):  # there is one class only
        action = "other class"
    return _ADVICE[action], action


def _class_sentences(scores: Mapping[str, Score]) -> list[str]:
    """Say which of the gaps of a class are off."""
    said = []
    overall, worst, on_top = (scores[name] for name in CLASS_GAPS)
    if excludes(overall):
        predicted, observed = scores["mean_prob"].value, scores["base_rate"].value
        said.append(f"Predicted too {side(overall)}: {rate(predicted)} on average, {rate(observed)} seen.")
    if excludes(worst):
        said.append(f"Probabilities {worst.where} are too {side(worst)}, by {_size(worst)}.")
    if excludes(on_top):
        sure, right = scores["top_prob"].value, scores["precision"].value
        said.append(f"As top label too {side(on_top)}: {rate(sure)} sure, {rate(right)} right.")
    return said


def _group_sentence(gap: Score) -> str:
    if not excludes(gap):
        return f"Not found off on average: by {_signed(gap)} ({_interval(gap)})."
    return f"Too {side(gap)}, by {_size(gap)} on average ({_interval(gap)})."


def side(gap: Score) -> str:
    """Say on which side of the outcomes predictions are."""
    return "high" if gap.value > 0.0 else "low"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
