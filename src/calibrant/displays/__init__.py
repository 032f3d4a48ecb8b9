"""One matplotlib display per file; matplotlib is imported when something is drawn."""

from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.reliability import ReliabilityDisplay

__all__ = ["ReliabilityDisplay", "ScoreHistogram"]
