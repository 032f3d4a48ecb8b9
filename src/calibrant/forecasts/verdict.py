"""Whether forecasts are calibrated, and what to do with recalibrated ones: the one place where both are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.given_levels import given_levels
from calibrant.forecasts.noise import NoiseFloor
from calibrant.metrics import Estimate, Verdict
from calibrant.phrases import difference, interval, percent_level
from calibrant.results import Score

#: Gaps by which forecasts are judged, and what the verdict says of each.
_JUDGED = {
    "average_calibration_error": "on average over levels (error {:.3f})",
    "threshold_calibration_error": "on the sides of thresholds (error {:.3f})",
    "reliability_gap": "in the losses that they promise (gap {:.3f})",
}


class Advice(NamedTuple):
    """What recalibration did to forecasts, as a headline, and what to do, as a sentence or two."""

    headline: str
    what_to_do: str


def gaps_off(scores: Mapping[str, Score | Estimate], floors: Mapping[str, NoiseFloor], forecast: Forecast) -> list[str]:
    """Return which of the gaps by which forecasts are judged are beyond chance.

    Quantiles are not judged by the reliability gap, which goes by what was put between them.
    """
    judged = [name for name in _JUDGED if name != "reliability_gap" or given_levels(forecast) is None]
    return [name for name in judged if name in floors and scores[name].value > floors[name].high]


def forecast_verdict(
    scores: Mapping[str, Score | Estimate],
    floors: Mapping[str, NoiseFloor],
    interval_level: float | None,
    forecast: Forecast,
) -> Verdict:
    """Say whether the forecasts are calibrated, and how their intervals err: the one place where they are judged."""
    off, side, share = gaps_off(scores, floors, forecast), "", ""
    if interval_level is not None:
        covered, share = scores["coverage"], percent_level(interval_level)
        side = "narrow" if covered.high < interval_level else "wide" if covered.low > interval_level else ""
    said = "Not calibrated." if side else "No gap is beyond what chance gives a forecast that is right."
    if off:
        where = ", ".join(_JUDGED[name].format(scores[name].value) for name in off)
        said = f"Not calibrated: {where}, beyond what chance gives."
    if side:
        said += f" Intervals are too {side}: those of {share} hold {scores['coverage'].value:.1%}."
    if not (off or side):
        return Verdict("calibrated", "No gap is beyond chance", said, said)
    headline = f"Not calibrated: intervals are too {side}" if side else "Not calibrated"
    return Verdict("miscalibrated", headline, said, said)


def first_advice(state: str, headline: str) -> Advice:
    """Say what to do with forecasts that nothing was done to; `state` and `headline` are those of their verdict."""
    if state == "calibrated":
        return Advice(headline, "Leave the forecasts as they are: chance gives a forecast that is right as much.")
    return Advice(
        headline,
        "Recalibrate them, by calibrant forecast fit on rows that the forecaster was not trained on, and look at this "
        "report of other rows before and after.",
    )


def recalibration_advice(before: str, after: str, change: Estimate, level: float) -> Advice:
    """Say what recalibration did, and what to do: headline and advice of one decision.

    Parameters
    ----------
    before, after : {"calibrated", "miscalibrated"}
        The states of both verdicts, on the same rows.
    change : Estimate
        CRPS after less before, paired by row.
    level : float
        Coverage of its interval.
    """
    was_off, is_off = before != "calibrated", after != "calibrated"
    if not math.isfinite(change.value):
        return Advice("The change in CRPS is not defined", "Look at the scores: the change in CRPS is not defined.")
    said = (
        f"CRPS changes by {difference(change.value, sign=True)} ({interval(level, change.low, change.high)}, paired)."
    )
    if change.high < 0.0:
        if is_off:
            return Advice(
                "Better after recalibration, and still not calibrated",
                f"Use the recalibrated forecasts: they are better, though gaps beyond chance are left. {said}",
            )
        return Advice(
            "Better after recalibration, and no gap is beyond chance", f"Use the recalibrated forecasts. {said}"
        )
    if change.low > 0.0:
        mends = was_off and not is_off
        unless = " Where the losses that decisions promise count for more, use them: no gap is left." if mends else ""
        return Advice(
            f"Worse after recalibration{', though no gap is left' if mends else ''}",
            f"Leave the forecasts as they are, if CRPS is what counts.{unless} {said}",
        )
    if was_off and not is_off:
        return Advice(
            "No gap is left after recalibration",
            f"Use the recalibrated forecasts: the gaps beyond chance are gone, and CRPS shows no loss. {said}",
        )
    if is_off:
        headline = "Recalibration did not help" if was_off else "Recalibration opened a gap"
        return Advice(
            headline,
            "Leave the forecasts as they are, and try another method or more rows to fit to: "
            f"{'gaps are left' if was_off else 'a gap is there that was not'}, and CRPS shows no gain. {said}",
        )
    return Advice(
        "No gap is beyond chance, before or after recalibration",
        f"Leave the forecasts as they are: they need no recalibration that these rows could show. {said}",
    )
