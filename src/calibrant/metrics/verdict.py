"""What scores say of calibration, in plain words: the one place where rows are judged.

`verdict` is a function of scores alone, so whoever measures the same rows says the same of them: `evaluate`, the
report and its page, a window of the monitor, and the command line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from calibrant.errors import InvalidInputError
from calibrant.metrics.joint_test import combined
from calibrant.phrases import capitalised, count, difference, interval, p_value, rate, uncapitalised
from calibrant.results import JointTest, Score, Scores

State: TypeAlias = Literal["calibrated", "miscalibrated", "unclear", "undefined"]
Action: TypeAlias = Literal["calibrate", "check", "collect", "leave", "small", "other class"]

#: Gaps by which a class is judged.
CLASS_GAPS = ("mean_gap", "worst_gap", "top_gap")
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
    "places": ("predictions are off in places", "Predictions of some sizes are too high, or too low."),
    "classes": (
        "some classes are off",
        "The most probable class is not found off, but the probabilities of single classes are.",
    ),
    "impossible": ("something happened that had probability 0", "No direction is shown for other probabilities."),
}
#: The values that intervals of calibrated predictions hold.
_RIGHT = {"mean_gap": 0.0, "ece_debiased": 0.0, "slope": 1.0}
_FIT = "Fit a calibrator on labelled rows that the model was not trained on, and check it on rows new to both."
_ADVICE: dict[Action, str] = {
    "calibrate": _FIT,
    "check": "Check first which class is the positive one: the labels or the scores seem to be turned round.",
    "collect": "Collect more labelled rows before deciding. Don't correct on this evidence.",
    "leave": "Leave it alone. These rows give no reason for a correction, and one fitted to noise would harm.",
    "small": "A correction would change little: fit one only if errors of this size matter.",
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


def verdict(
    scores: Mapping[str, Score], test: JointTest | None = None, *, of: Literal["rows", "class", "group"] = "rows"
) -> Verdict:
    """Say whether predictions are calibrated; of rows, also which way they are off, where, and what to do.

    `scores` are what `evaluate` returns of rows, or those of one class of `evaluate_classes` or one group of
    `evaluate_groups`; `test` is the joint test of rows, or of the group, which `Scores` hold.

    Predictions of rows are found off where the joint test rejects (see `joint_test`: all ways of being off in one
    p-value, below 1 - level), or log loss is infinite; those of several classes also where `class_gap`, of the class
    that is furthest off, excludes 0. What is not found off is called calibrated where the intervals of `mean_gap` and
    `ece_debiased` end at errors too small to matter, and else unclear.

    A class is found off by any of `CLASS_GAPS`, a group by its test or its `mean_gap`: their levels are corrected for
    the number of classes, or groups, that are judged.
    """
    if test is None and isinstance(scores, Scores):
        test = scores.test
    match of:
        case "rows":
            return _of_rows(scores, known_test(test))
        case "class":
            said = _class_sentences(scores)
            words = " ".join(said) or "Not found off."
        case "group":
            words = _group_sentence(scores, test := known_test(test))
            said = [words] if excludes(scores["mean_gap"]) or _rejects(test, scores) else []
    state: State = "miscalibrated" if said else "unclear"
    return Verdict(state, "Off" if said else "Not found off", words, words)


def at_least(gap: Score) -> float:
    """Return how far a gap is from zero at least; 0 where it is undefined."""
    return max(gap.low, -gap.high, 0.0) if math.isfinite(gap.value) else 0.0


def excludes(score: Score, null: float = 0.0) -> bool:
    """Say whether the interval of a score excludes a value."""
    return score.low > null or score.high < null


def known_test(test: JointTest | None) -> JointTest:
    """Return the joint test that rows and groups are judged by; raises InvalidInputError where there is none."""
    if test is None:
        raise InvalidInputError("rows and groups are judged by their joint test. Pass it as test.")
    return test


def _rejects(test: JointTest, scores: Mapping[str, Score]) -> bool:
    return test.p_value < 1.0 - scores["mean_gap"].level


def _of_rows(scores: Mapping[str, Score], test: JointTest) -> Verdict:
    gap, error = scores["mean_gap"], scores["ece_debiased"]
    is_class_off = "class_gap" in scores and excludes(scores["class_gap"])
    is_impossible = scores["log_loss"].value == math.inf
    is_known = all(math.isfinite(end) for end in (gap.low, gap.high, error.low, error.high))
    within = max(error.high, gap.high, -gap.low) if is_known else math.inf
    is_small = within <= _small(scores)
    if _rejects(test, scores) or is_class_off or is_impossible:
        return _found_off(scores, test, within if is_small and not (is_class_off or is_impossible) else None)
    if not is_known:
        words = f"The calibration error is undefined: {error.note or gap.note or 'no interval could be found'}."
        headline = "Calibration can't be judged from these rows"
        return Verdict("undefined", headline, words, words, "Unknown.", "Unknown.", *_advice(scores, "collect"))
    tested = f"testing all ways of being off together gives {_p(test.p_value)}"
    words = f"No miscalibration found: {_none_found(scores)}; {tested}.{_alone(scores)}"
    if is_small:
        words = f"{words} Calibrated to within {rate(within)}: a larger error is ruled out."
        headline, answer = f"Calibrated to within {rate(within)}", "Yes. "
    else:
        rows = count(gap.n, "row")
        words = f"{words} With {rows} the intervals are wide: an error of {rate(within)} can't be ruled out."
        headline, answer = "No error found, on too few rows to be sure", "Not shown either way. "
    state: State = "calibrated" if is_small else "unclear"
    advice = _advice(scores, "leave" if is_small else "collect")
    return Verdict(state, headline, answer + words, words, "No direction is shown.", "Nowhere in particular.", *advice)


def _found_off(scores: Mapping[str, Score], test: JointTest, within: float | None) -> Verdict:
    """Say how predictions are off of which something excludes that they are calibrated; `within` if by little."""
    gap, spread, is_rejected = scores["mean_gap"], _spread(scores), _rejects(test, scores)
    is_class_off = "class_gap" in scores and excludes(scores["class_gap"])
    of_column = [p for part, p in test.parts.items() if part != "impossible" and not part.startswith("class ")]
    is_column_off = is_rejected and combined(of_column) < 1.0 - gap.level
    is_some_class_off = is_rejected and test.strongest.startswith("class ")
    is_mean_off = _is_mean_off(gap, test)
    if is_column_off:
        direction = _direction(scores, spread, is_mean_off=is_mean_off)
    else:
        direction = "classes" if is_class_off or is_some_class_off else "impossible"
    said, where = [], []
    if direction == "reversed":
        said.append(f"Predictions run the wrong way: the AUC is {scores['auc'].value:.3f}.")
    if is_column_off:
        said.append(_column_sentence(scores, test, spread, is_mean_off=is_mean_off))
        where.append(f"Worst {scores['worst_bin_gap'].where}.")
    elif is_some_class_off and not is_class_off:
        said.append(
            f"The probabilities of single classes are off, most those of {test.strongest} ({_p(test.p_value)})."
        )
    if is_class_off:
        said.append(scores["class_gap"].note)
        where.append(f"Worst {scores['class_gap'].where}")  # which ends as a sentence
    if scores["log_loss"].value == math.inf:
        said.append("Something happened that had probability 0: log loss is infinite.")
    if not is_column_off:
        said.append(f"{capitalised(_none_found(scores))}.")
    if within is not None:
        said.append(f"But by little: calibrated to within {rate(within)}.")
    words = " ".join(said)
    came_true = "was right" if "accuracy" in scores else "happened"
    which_way = _DIRECTIONS[direction][1]
    if is_mean_off:
        observed = scores["accuracy" if "accuracy" in scores else "base_rate"].value
        which_way += f" Overall {rate(observed + gap.value)} was predicted and {rate(observed)} {came_true}."
    wanted: Action = "check" if direction == "reversed" else "calibrate" if within is None else "small"
    advice, action = _advice(scores, wanted)
    if action == "calibrate" and is_class_off:
        advice += (
            " Shares of classes are off: it needs a term for each class, which temperature scaling lacks."
            if excludes(scores["class_share_gap"])
            else " No class is predicted too often or too rarely: temperature scaling may be enough."
        )
    headline = f"Not calibrated: {_DIRECTIONS[direction][0]}"
    return Verdict(
        "miscalibrated",
        headline if within is None else f"{headline}, by little",
        f"No. {words}",
        " ".join([f"Not calibrated: {uncapitalised(words)}", *where]),
        which_way,
        " ".join(where) or ("Where the probability was 0." if direction == "impossible" else "Nowhere in particular."),
        advice,
        action,
    )


def _alone(scores: Mapping[str, Score]) -> str:
    """Say which interval alone excludes what it should hold, though the test of all ways together rejects nothing."""
    names = [name for name, right in _RIGHT.items() if name in scores and excludes(scores[name], right)]
    names = [name for name in names if not scores[name].note]
    if not names:
        return ""
    found = " and ".join(f"the interval of {name} excludes {_RIGHT[name]:g}" for name in names)
    return f" Alone, {found}: some interval does so in one of ten samples of calibrated predictions."


def _is_mean_off(gap: Score, test: JointTest) -> bool:
    """Say whether predictions are off on average, by the interval or by the test of the mean, nearer to exact."""
    return excludes(gap) or test.parts.get("mean", 1.0) < 1.0 - gap.level


def _although_held(gap: Score, test: JointTest) -> str:
    return f"tested by itself {_p(test.parts['mean'])}, though the {_interval(gap)} of the gap holds 0"


def _p(value: float) -> str:
    text = p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _direction(scores: Mapping[str, Score], spread: str, *, is_mean_off: bool) -> str:
    """Return which way one column is off."""
    gap, is_top = scores["mean_gap"], "accuracy" in scores
    if not is_top and scores["auc"].high < 0.5:
        return "reversed"
    if is_mean_off:
        return f"top {side(gap)}" if is_top else side(gap)
    return spread or "places"


def _spread(scores: Mapping[str, Score]) -> Literal["", "over", "under"]:
    """Say whether predictions of an event lie too far from the base rate or too near, by the calibration slope."""
    if "accuracy" in scores or scores["slope"].note or not excludes(scores["slope"], 1.0):
        return ""
    return "over" if scores["slope"].value < 1.0 else "under"


def _column_sentence(scores: Mapping[str, Score], test: JointTest, spread: str, *, is_mean_off: bool) -> str:
    """Say how the predictions of one column, or those of the most probable class, are off."""
    gap, error = scores["mean_gap"], scores["ece_debiased"]
    what, confident = _what(scores), ""
    if spread:
        place = "too far from" if spread == "over" else "too near"
        confident = f"{spread}-confident ({place} the base rate of {rate(scores['base_rate'].value)})"
    if is_mean_off:
        within = interval(gap.level, *sorted((abs(gap.low), abs(gap.high))))
        if not excludes(gap):
            within = _although_held(gap, test)
        said = f"{what} too {side(gap)}, by {_size(gap)} on average ({within})"
        said += f", and {confident}" if confident else ""
    else:
        said = f"{what} right on average but {confident or 'off in places'}"
        if error.low > 0.0:
            said += f", by {_size(error)} over bins (root mean square without noise; {_interval(error)})"
        elif spread:
            said += f": the calibration slope is {scores['slope'].value:.2f} ({_interval(scores['slope'])})"
    return f"{capitalised(said)}; {_p(test.p_value)}."


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
    if "auc" in scores and math.isnan(scores["auc"].value):  # there is one class only
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


def _group_sentence(scores: Mapping[str, Score], test: JointTest) -> str:
    gap, error = scores["mean_gap"], scores["ece_debiased"]
    if excludes(gap):
        return f"Too {side(gap)}, by {_size(gap)} on average ({_interval(gap)})."
    if _rejects(test, scores):
        if error.low > 0.0:
            return f"Off in places, by {_size(error)} over bins ({_interval(error)}; {_p(test.p_value)})."
        if _is_mean_off(gap, test):
            return f"Too {side(gap)}, by {_size(gap)} on average ({_although_held(gap, test)})."
        return f"Off in places, though right on average ({_p(test.p_value)})."
    return f"Not found off: on average by {_signed(gap)} ({_interval(gap)})."


def side(gap: Score) -> str:
    """Say on which side of the outcomes predictions are."""
    return "high" if gap.value > 0.0 else "low"
