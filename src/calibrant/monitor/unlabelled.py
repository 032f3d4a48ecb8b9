"""UnlabelledReport: windows without labels, what their probabilities promise, and whether rows drift, as one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from calibrant._version import __version__
from calibrant.errors import InvalidInputError
from calibrant.metrics import ASSUMPTION
from calibrant.monitor.drift import DriftMonitor, DriftWindow
from calibrant.phrases import capitalised, clean, figure, legible, listed, percent_level
from calibrant.report import pages
from calibrant.results import Scores

#: Scores that the page has a column for.
_SHOWN = {"brier": "Brier score", "log_loss": "Log loss", "auc": "AUC"}
#: Windows of which the page has a row, and columns that it names: the last ones, and the first ones.
_MOST_ROWS, _MOST_NAMED = 60, 6
_SHORT = 60

_Column: TypeAlias = tuple[str, Callable[[Any], "str | pages.Cell"]]


@dataclass(frozen=True, slots=True)
class UnlabelledWindow:
    """A window without labels: its name, what its probabilities promise, and how it drifted, where this was watched."""

    name: str
    scores: Scores
    drift: DriftWindow | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        drift = None if self.drift is None else self.drift.to_dict()
        return {"name": clean(self.name), **self.scores.to_dict(), "drift": drift}


class UnlabelledReport(pages.PageReport):
    """Report of windows without labels, as a page.

    Parameters
    ----------
    windows : sequence of UnlabelledWindow
        At least one.
    monitor : DriftMonitor or None
        The monitor that the windows were added to.
    title : str
        Heading of the page.
    """

    name = "Estimates without labels"

    def __init__(
        self, windows: Sequence[UnlabelledWindow], monitor: DriftMonitor | None, *, title: str = "Without labels"
    ) -> None:
        if not windows:
            raise InvalidInputError("there is no window. Pass at least one.")
        headline, advice = _words(windows, monitor)
        is_alarm = monitor is not None and monitor.is_alarm
        self._summary = {
            "title": clean(title),
            "version": __version__,
            "state": "miscalibrated" if is_alarm else "unclear",
            "headline": headline,
            "advice": advice,
            "assumption": ASSUMPTION,
            "level": windows[0].scores.level,
            "alpha": None if monitor is None else monitor.alpha,
            "watched": [] if monitor is None else [clean(name) for name in monitor.names],
            "first_alarm": None if monitor is None or monitor.first_alarm is None else clean(monitor.first_alarm),
            "windows": [window.to_dict() for window in windows],
        }

    def page(self) -> pages.Page:
        found = self._summary
        answers = [
            pages.Answer("What does it mean?", found["advice"]),
            pages.Answer("What is taken for granted?", found["assumption"]),
        ]
        return pages.Page(found["title"], found["state"], found["headline"], answers, self._sections())

    def _sections(self) -> list[pages.Section]:
        shown, n = self._summary["windows"][-_MOST_ROWS:], len(self._summary["windows"])
        level = percent_level(self._summary["level"])
        which = "" if len(shown) == n else f"The last {len(shown)} of {n} windows. "
        window: _Column = ("Window", lambda each: pages.name(each["name"], _SHORT))
        more: list[_Column] = [
            (title, partial(_value, name)) for name, title in _SHOWN.items() if name in shown[0]["scores"]
        ]
        lead = f"{which}What labels are expected to show; the interval is that of the accuracy."
        rows: _Column = ("Rows", lambda each: pages.count(each["scores"]["accuracy"]["n"]))
        ends: _Column = (f"{level} interval", lambda each: pages.ends(each["scores"]["accuracy"], 3))
        columns: list[_Column] = [window, rows, ("Accuracy", partial(_value, "accuracy")), ends, *more]
        expected = pages.table("Expected", shown, columns, wide=(4, 5))
        sections = [pages.Section("Expected", [pages.Text(lead), expected])]
        if self._summary["watched"]:
            watched = self._summary["watched"][:_MOST_NAMED]
            evidence = [(pages.name(name, _SHORT), partial(_evidence, name)) for name in watched]
            lead = (
                "The logarithm of the evidence that rows differ from the reference, up to each window; bold where a "
                "column was found to differ."
            )
            found = [each for each in shown if each["drift"] is not None]
            sections.append(
                pages.Section("Drift", [pages.Text(lead), pages.table("Drift", found, [window, *evidence])])
            )
        return sections

    def __repr__(self) -> str:
        return f"<UnlabelledReport: {self._summary['headline']}>"


def _words(windows: Sequence[UnlabelledWindow], monitor: DriftMonitor | None) -> tuple[str, str]:
    """Return the headline, and what it means."""
    score = windows[-1].scores["accuracy"]
    expected = f"accuracy {figure(score.value)} expected in {legible(windows[-1].name, _SHORT)}"
    if monitor is None:
        return capitalised(expected), "Name rows to compare with by --reference to watch for drift."
    limit = f"{math.exp(monitor.limit):,.6g}"
    if not monitor.is_alarm:
        names = listed([legible(name, _SHORT) for name in monitor.names], most=_MOST_NAMED)
        return (
            f"No drift found; {expected}",
            f"The evidence of drift in {names} stayed below {limit}. Small drifts take many rows to show.",
        )
    drifted = listed([legible(name, _SHORT) for name in monitor.windows[-1].drifted], most=_MOST_NAMED)
    n = len(monitor.names)
    where = f" in any of {n} columns" if n > 1 else ""
    advice = (
        f"Rows are others than those of the reference. If they were not, evidence of {limit}{where} would be reached "
        f"in at most {monitor.alpha:.2%} of all streams, ever. Drift is not miscalibration: the estimates now rest on "
        "probabilities where few rows were before. Get labels of recent rows, and measure them."
    )
    return f"Drift of {drifted}: alarm in {legible(monitor.first_alarm, _SHORT)}", advice


def _value(name: str, each: dict[str, Any]) -> str:
    return pages.figure(each["scores"][name], 3)


def _evidence(name: str, each: dict[str, Any]) -> str | pages.Cell:
    drift = {clean(key): value for key, value in each["drift"]["log_e_values"].items()}
    value = drift[name]
    text = pages.signed(value, 2) if math.isfinite(value) else "infinite"
    return pages.off_cell(text, name in map(clean, each["drift"]["drifted"]))
