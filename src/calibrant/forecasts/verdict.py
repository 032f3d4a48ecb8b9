"""Whether forecasts are calibrated, and what to do with recalibrated ones: the one place where both are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy.special import betainc

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.given_levels import given_levels
from calibrant.forecasts.noise import GapByChance
from calibrant.metrics import Estimate, Verdict
from calibrant.phrases import difference, interval, percent_level

#: Gaps by which forecasts are judged, and what the verdict says of each.
_JUDGED = {
    "average_calibration_error": "on average over levels (error {:.3f})",
    "threshold_calibration_error": "on the sides of thresholds (error {:.3f})",
    "reliability_gap": "in the losses that they promise (gap {:.3f})",
}
#: Shares of outcomes that differ by less look alike in a verdict.
_SHOWN = 5e-4


class Advice(NamedTuple):
    """What recalibration did to forecasts, as a headline, and what to do, as a sentence or two."""

    headline: str
    what_to_do: str


class IntervalCoverage(NamedTuple):
    """How often outcomes lie in central intervals of a level, and how often they do where the forecasts are right.

    `share` of rows that are worth `n_eff` independent ones lie in them.
    """

    level: float
    share: float
    n_eff: float
    promised: tuple[float, float]
    chance: float

    @property
    def side(self) -> str:
        """What the intervals are too much of, but for `chance`: "narrow", "wide", or nothing.

        By the binomial test of `n_eff` independent rows, which is exact however few they are.
        """
        least, most = self.promised
        held, n = self.share * self.n_eff, self.n_eff
        if held < n and betainc(n - held, held + 1.0, 1.0 - least) < 0.5 * self.chance:
            return "narrow"
        return "wide" if held > 0.0 and betainc(held, n - held + 1.0, most) < 0.5 * self.chance else ""

    def __str__(self) -> str:
        least, most = self.promised
        right = least if self.side == "narrow" else most
        more = "" if abs(right - self.level) < _SHOWN else f", where right ones hold {right:.1%}"
        more += " at most" if more and least < most else ""
        return f"Intervals are too {self.side}: those of {percent_level(self.level)} hold {self.share:.1%}{more}."


class Judgement(NamedTuple):
    """The verdict on forecasts, the gaps that are beyond chance, and what each gap is by chance on average."""

    verdict: Verdict
    off: tuple[str, ...]
    by_chance: dict[str, float]


def judged_gaps(forecast: Forecast) -> list[str]:
    """Return the gaps that a forecast is judged by.

    Quantiles are not judged by the reliability gap, which goes by what was put between them.
    """
    return [name for name in _JUDGED if name != "reliability_gap" or given_levels(forecast) is None]


def judge_forecast(
    gaps: Mapping[str, Estimate],
    chances: Mapping[str, GapByChance],
    covered: IntervalCoverage | None,
    forecast: Forecast,
) -> Judgement:
    """Say whether the forecasts are calibrated, and how their intervals err: the one place where they are judged.

    Limits of the gaps and the test of the coverage share the chance of calling a right forecast wrong.
    """
    off = tuple(name for name in judged_gaps(forecast) if gaps[name].value > chances[name].limit)
    side = "" if covered is None else covered.side
    said = "Not calibrated." if side else "No gap is beyond what chance gives a forecast that is right."
    if off:
        where = ", ".join(_JUDGED[name].format(gaps[name].value) for name in off)
        said = f"Not calibrated: {where}, beyond what chance gives."
    if side:
        said += f" {covered}"
    headline = "No gap is beyond chance"
    if off or side:
        headline = f"Not calibrated: intervals are too {side}" if side else "Not calibrated"
    verdict = Verdict("miscalibrated" if off or side else "calibrated", headline, said, said)
    return Judgement(verdict, off, {name: chance.mean for name, chance in chances.items()})


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
