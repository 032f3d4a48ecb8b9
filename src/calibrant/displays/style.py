"""What the displays share: colours, markers, the writing of names and counts."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

#: Okabe and Ito's colours, told apart by every kind of colour vision; their greys differ from first to third.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
MARKERS = "os^DvPX"
LINES = ("-", "--", "-.", ":")
#: Lines that a reader compares with.
MUTED = "#767676"
#: Names longer than this many lines are cut.
MAX_LINES = 4


def style(k: int) -> dict[str, Any]:
    """Return colour, marker and line of the k-th series of a picture."""
    return {
        "color": COLOURS[k % len(COLOURS)],
        "marker": MARKERS[k % len(MARKERS)],
        "linestyle": LINES[k // len(COLOURS) % len(LINES)],
    }


def count_text(total: float) -> str:
    """Write a sum of weights: as a count where it is one."""
    return f"{total:,.0f}" if np.isclose(total, np.round(total), rtol=1e-12, atol=1e-9) else f"{total:,.1f}"


def legible(text: str, *, width: int = 34) -> str:
    """Wrap a long text, and keep matplotlib from reading it as mathematics or as the name of a hidden line."""
    wrapped = "\n".join(textwrap.wrap(text, width, max_lines=MAX_LINES, placeholder=" ...")).replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{wrapped}" if wrapped.startswith("_") else wrapped
