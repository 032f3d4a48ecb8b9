"""The report of forecasts of a number: how good they are, where they are off, and what recalibration changes."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidTypeError
from calibrant.forecasts import Forecast, Recalibrator
from calibrant.report.forecast_summary import summarise_forecasts
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    import numpy as np


class ForecastReport:
    """Report of forecasts of a number and what came of them, as a page.

    Says whether the forecasts are calibrated and which way their intervals err; then shows the scores, each gap
    beside what chance gives a forecast that is right, the histogram of PIT values, the reliability of all levels,
    and the gap between promised and realised losses of threshold decisions.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    recalibrator : Recalibrator, optional
        A fitted one: everything is then shown before and after it. Give rows that it was not fitted to.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    interval_level : float
        Level of the central intervals that are scored.
    level : float
        Nominal coverage of the intervals of the scores.
    title : str
        Heading of the page.
    source : str, optional
        Name of the file or table that the rows come from.
    rng : int, numpy Generator or None
        Randomness of simulated intervals and noise floors. The same seed gives the same bytes.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> cb.ForecastReport(cb.forecasts.GaussianForecast(np.zeros(500), 0.5), y)
    <ForecastReport: Not calibrated: intervals are too narrow, n = 500 rows>
    """

    def __init__(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        recalibrator: Recalibrator | None = None,
        sample_weight: ArrayLike | None = None,
        interval_level: float = 0.9,
        level: float = 0.95,
        title: str = "Forecast report",
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        if recalibrator is not None and not isinstance(recalibrator, Recalibrator):
            raise InvalidTypeError(
                f"recalibrator is a {type(recalibrator).__name__}. Pass a fitted one, such as "
                "ThresholdRecalibrator().fit(forecast, y)."
            )
        self._summary = summarise_forecasts(
            forecast,
            y,
            recalibrator=recalibrator,
            sample_weight=sample_weight,
            interval_level=interval_level,
            level=level,
            title=title,
            source=source,
            rng=rng,
        )

    def summary(self) -> dict[str, Any]:
        """Return all that the report says as dicts, lists, strings and numbers; what is undefined is None."""
        return copy.deepcopy(self._summary)

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        from calibrant.report.forecast_figures import figures
        from calibrant.report.render import render_page

        return render_page("forecast.html.j2", {**self._summary, **figures(self._summary)})

    def json(self) -> str:
        """Return the summary as a JSON document."""
        from calibrant.report.render import to_json

        return to_json(self._summary)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all.

        Raises
        ------
        OSError
            If the folder doesn't exist or can't be written to.
        """
        from calibrant.report.render import write_text

        write_text(path, self.html())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that neither's style reaches the other."""
        from markupsafe import escape

        frame = 'style="width: 100%; height: 44rem; border: 0" sandbox title="Forecast report"'
        return f'<iframe {frame} srcdoc="{escape(self.html())}"></iframe>'

    def __repr__(self) -> str:
        return f"<ForecastReport: {self._summary['headline']}, n = {self._summary['data']['n_rows']:,} rows>"
