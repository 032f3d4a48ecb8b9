"""What all displays share: colours, figures that fit their axes, and texts that matplotlib doesn't read as code."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

from calibrant.displays import style
from calibrant.displays.style import COLOURS
from calibrant.errors import InvalidTypeError, ShapeError


def test_first_colours_differ_in_greyscale() -> None:
    """Rec. 709 luminance of the first three, which most pictures use."""
    grey = sorted(float(np.dot(to_rgb(c), (0.2126, 0.7152, 0.0722))) for c in COLOURS[:3])
    assert min(np.diff(grey)) > 0.03


def test_series_beyond_the_colours_differ_in_the_line() -> None:
    looks = {tuple(style.of(k).values()) for k in range(2 * len(COLOURS))}
    assert len(looks) == 2 * len(COLOURS)


@pytest.mark.parametrize(("n", "n_across"), [(1, 1), (3, 3), (5, 2)])
def test_a_fitted_figure_has_no_empty_places_and_cuts_nothing(n: int, n_across: int) -> None:
    """Square axes fill the width of their places, and labels and titles lie inside the figure."""
    axes = style.new_axes((3.0 * n_across, 12.0 * n), n=n, n_across=n_across)
    figure = style.figure_of(axes[0])
    for ax in axes:
        ax.set(aspect="equal", title="a title", xlabel="across", ylabel="up")
    before = figure.get_figheight()
    style.fit_height(figure)
    figure.canvas.draw()
    assert figure.axes == axes
    assert figure.get_figheight() < 0.6 * before
    for ax in axes:
        place = ax.get_position(original=True).transformed(figure.transFigure)
        drawn, box = ax.get_window_extent(), ax.get_tightbbox()
        assert drawn.width == pytest.approx(place.width, rel=0.01)
        assert max(box.y0 - place.y0, place.y1 - box.y1) < 0.05 * figure.dpi
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_given_axes_are_used_with_the_figure_they_lie_in() -> None:
    whole = plt.figure()
    ax = whole.subfigures(1, 2)[0].subplots()
    assert style.place(ax, (1.0, 1.0)) == (ax, whole)
    own, figure = style.place(None, (3.0, 2.0))
    assert own.figure is figure
    assert figure.get_size_inches().tolist() == [3.0, 2.0]


def test_names_are_wrapped_cut_and_never_hidden_or_mathematics() -> None:
    assert style.legible("_a $b") == "\N{ZERO WIDTH SPACE}_a \\$b"
    lines = style.legible("word " * 100, width=20).split("\n")
    assert len(lines) == style.MAX_LINES
    assert lines[-1].endswith("...")
    assert max(map(len, lines)) <= 20


def test_sums_of_weights_are_written_as_counts_where_they_are() -> None:
    assert [style.count_text(total) for total in (1200.0, 1200.04, 0.1 + 0.2)] == ["1,200", "1,200.0", "0.3"]


def test_parts_are_one_or_several_of_a_kind() -> None:
    assert style.as_parts("n", 1, int, "Pass integers.") == (1,)
    assert style.as_parts("n", [1, 2], int, "Pass integers.") == (1, 2)
    with pytest.raises(InvalidTypeError, match=r"n holds a str\. Pass integers\."):
        style.as_parts("n", [1, "2"], int, "Pass integers.")
    with pytest.raises(ShapeError, match=r"n is an empty sequence\. Pass at least one int\."):
        style.as_parts("n", [], int, "Pass integers.")
