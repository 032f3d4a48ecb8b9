"""The pictures of a matrix before and after and of an iteration: their lines are the numbers of what was solved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import calibrant as cb
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.rank_preserving import diagnose, rake, solve

RNG = np.random.default_rng(0)
P = pd.DataFrame(RNG.dirichlet(np.ones(4), 80), columns=["a", "b", "c", "_d$"])
MARGINS = [30.0, 20.0, 20.0, 10.0]


@pytest.mark.slow
def test_lines_and_bands_are_the_curves_of_the_columns() -> None:
    for Q in (solve(P, MARGINS), rake(P, MARGINS).Q):
        found = diagnose(P, Q)
        display = cb.RankPreservingDisplay(found).plot()
        assert len(display.axes_) == 4
        assert display.figure_ is display.axes_[0].figure
        for ax, column in zip(display.axes_, found.columns, strict=True):
            x, low, high = np.array(column.curve).T
            diagonal, line = ax.lines
            np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
            if column.overtaken == 0.0:
                np.testing.assert_array_equal(line.get_xdata(), x)
                np.testing.assert_allclose(line.get_ydata(), 0.5 * (low + high))
            else:  # 80 places in ranges of four
                np.testing.assert_allclose(line.get_xdata(), x.reshape(20, 4).mean(axis=1))
                bottom, top = low.reshape(20, 4).min(axis=1), high.reshape(20, 4).max(axis=1)
                np.testing.assert_allclose(line.get_ydata(), 0.5 * (bottom + top))
                corners = ax.collections[0].get_paths()[0].vertices
                assert (corners[:, 1].min(), corners[:, 1].max()) == (bottom.min(), top.max())
            (words,) = ax.texts
            assert f"flattened {column.flattened:.0%}" in words.get_text()
            assert ("overtaken" in words.get_text()) == (column.overtaken > 0.0)
            assert max(x.max(), high.max()) <= ax.get_xlim()[1] == ax.get_ylim()[1]


@pytest.mark.slow
def test_only_the_columns_that_moved_most_are_drawn_where_there_are_many() -> None:
    many = RNG.dirichlet(np.ones(12), 60)
    display = cb.RankPreservingDisplay.from_matrices(many, rake(many, np.arange(1.0, 13.0) * 60 / 78).Q)
    moves = [c.mean_move for c in display.diagnostics.columns]
    assert [c.column for c in display.columns] == sorted(np.argsort(moves)[-9:].tolist())
    assert len(display.plot().axes_) == 9


@pytest.mark.slow
def test_it_draws_on_axes_that_are_given() -> None:
    axes = list(Figure().subplots(1, 4))
    display = cb.RankPreservingDisplay.from_matrices(P, P, axes=axes)
    assert display.axes_ == axes
    with pytest.raises(ShapeError, match="axes holds 3 axes for 4 columns"):
        display.plot(axes[:3])


def test_what_is_no_diagnosis_is_named() -> None:
    with pytest.raises(InvalidTypeError, match=r"diagnostics is a DataFrame. Pass what rank_preserving.diagnose"):
        cb.RankPreservingDisplay(P)  # type: ignore[arg-type]


def test_lines_are_the_residuals_and_gaps_of_the_history() -> None:
    results = {m: solve(P, MARGINS, method=m) for m in ("adaptive", "admm")}
    ax = Figure().subplots()
    display = cb.ConvergenceDisplay(results).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_yscale() == "log"
    assert [line.get_label() for line in ax.lines] == [f"{m}: {what}" for m in results for what in ("residual", "gap")]
    for k, result in enumerate(results.values()):
        checks = result.history
        for line in ax.lines[2 * k : 2 * k + 2]:
            assert list(line.get_xdata()) == [check.n_iter for check in checks]
        np.testing.assert_array_equal(ax.lines[2 * k].get_ydata(), [check.residual for check in checks])
        gaps = [abs(check.objective - check.bound) / check.objective for check in checks]
        np.testing.assert_allclose(ax.lines[2 * k + 1].get_ydata(), gaps, rtol=1e-14)


def test_what_is_no_result_or_has_no_history_is_named() -> None:
    with pytest.raises(InvalidTypeError, match=r"results is a list. Pass what rank_preserving.solve returned"):
        cb.ConvergenceDisplay([1.0])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="results has no history: the first point was already good enough"):
        cb.ConvergenceDisplay(solve(P, P.sum(axis=0).tolist()))
