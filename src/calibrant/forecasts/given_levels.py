"""Forecasts that are known at some levels alone: what may be asked of them without making anything up."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import QuantileForecast
from calibrant.forecasts.points import SAME_LEVEL, central_ends
from calibrant.numerics import FloatArray
from calibrant.validation import check_fraction

#: The level of central intervals that are scored where none is asked for.
INTERVAL_LEVEL = 0.9


def given_levels(forecast: object) -> FloatArray | None:
    """Return the levels of a `QuantileForecast`; None of what is known at all levels."""
    return forecast.given_levels if isinstance(forecast, QuantileForecast) else None


def is_within_levels(forecast: Forecast, *levels: float) -> bool:
    """Say whether no level lies beyond those that are given."""
    given = given_levels(forecast)
    return given is None or bool(given[0] - SAME_LEVEL <= min(levels) and max(levels) <= given[-1] + SAME_LEVEL)


def as_interval_level(level: float | None, forecast: Forecast, *, name: str = "interval_level") -> float | None:
    """Check the level of central intervals, or choose it: 0.9, or of quantiles what they give that is nearest.

    Of quantiles without a pair that is central, it is the widest within them, and None where there is none.
    """
    given, own = given_levels(forecast), forecast.central_levels if isinstance(forecast, QuantileForecast) else []
    if level is not None:
        level = check_fraction(name, level)
        if given is not None and not is_within_levels(forecast, *central_ends(level)):
            low, high = (f"{each:.4g}" for each in central_ends(level))
            fix = (
                f"Pass {own[0]:g}, or one below it."
                if own
                else f"Pass one that needs none of them, or leave {name} out."
            )
            raise InvalidInputError(
                f"{name}={level:g} asks for quantiles at {low} and {high}, but those given reach from {given[0]:.4g} "
                f"to {given[-1]:.4g}: ends beyond them would be made up. {fix}"
            )
        return level
    if given is None:
        return INTERVAL_LEVEL
    if own:
        return min(own, key=lambda each: abs(each - INTERVAL_LEVEL))
    widest = 1.0 - 2.0 * max(float(given[0]), 1.0 - float(given[-1]))
    return widest if 0.0 < widest < 1.0 else None


def checked_interval_level(level: float | None, forecast: Forecast) -> float:
    """Return the level of central intervals of a function that is asked for nothing else; see `as_interval_level`."""
    found = as_interval_level(level, forecast, name="level")
    if found is None:
        given = np.round(given_levels(forecast), 9).tolist()  # type: ignore[arg-type]  # only quantiles have none
        raise InvalidInputError(
            f"the quantiles at {given!r} are the ends of no central interval. Pass quantiles on both sides of the "
            "median."
        )
    return found
