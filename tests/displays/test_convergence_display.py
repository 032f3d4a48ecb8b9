"""The picture of an iteration: its lines are the history's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import calibrant as cb
from calibrant.errors import InvalidTypeError, ShapeError

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 80)
MARGINS = [20.0, 25.0, 35.0]


def test_lines_are_the_residuals_and_gaps_of_the_history() -> None:
    results = {m: cb.rank_preserving.solve(P, MARGINS, method=m) for m in ("adaptive", "admm")}
    ax = Figure().subplots()
    display = cb.ConvergenceDisplay(results).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_yscale() == "log"
    assert [line.get_label() for line in ax.lines] == [f"{m}: {what}" for m in results for what in ("residual", "gap")]
    for k, result in enumerate(results.values()):
        looks = result.history
        for line in ax.lines[2 * k : 2 * k + 2]:
            assert list(line.get_xdata()) == [look.n_iter for look in looks]
        np.testing.assert_array_equal(ax.lines[2 * k].get_ydata(), [look.residual for look in looks])
        gaps = [abs(look.objective - look.bound) / look.objective for look in looks]
        np.testing.assert_allclose(ax.lines[2 * k + 1].get_ydata(), gaps, rtol=1e-14)


def test_what_is_no_result_or_has_no_history_is_named() -> None:
    with pytest.raises(InvalidTypeError, match=r"results is a list. Pass what rank_preserving.solve returned"):
        cb.ConvergenceDisplay([1.0])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="results has no history: the first point was already good enough"):
        cb.ConvergenceDisplay(cb.rank_preserving.solve(P, P.sum(axis=0)))
