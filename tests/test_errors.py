"""Warnings name the caller's line; unknown names come with the nearest known one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import (
    ConvergenceWarning,
    DataWarning,
    UnknownNameError,
    did_you_mean,
    hold_warnings,
    unknown_name,
    warn,
)

P = np.random.default_rng(0).dirichlet(np.ones(3), 60)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cb.BetaCalibrator().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]),
        lambda: cb.OneVsRestCalibrator("sigmoid").fit(P, np.arange(60) % 2, classes=[0, 1, 2]),
        lambda: cb.TemperatureCalibrator().fit([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0]),
        lambda: cb.EnsembleTemperatureCalibrator().fit([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0]),
        lambda: cb.MatrixScalingCalibrator(penalty=1.0).fit(P, np.arange(60) % 2, classes=[0, 1, 2]),
        lambda: cb.TopLabelCalibrator().fit(P, P.argmax(axis=1)),
        lambda: cb.MultilabelCalibrator().fit(P, np.column_stack((P[:, :2] > 0.3, P[:, 2] > 2))),
    ],
)
def test_a_warning_of_a_fit_names_the_line_that_asked_for_the_fit(call) -> None:
    with pytest.warns(DataWarning) as said:
        call()
    assert {warning.filename for warning in said} == {__file__}
    assert said[0].lineno == call.__code__.co_firstlineno


def test_a_warning_names_the_caller_when_there_is_no_code_of_the_package_between() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn("a message", DataWarning)
    assert (said[0].filename, said[0].category, str(said[0].message)) == (__file__, DataWarning, "a message")


def test_unknown_names_come_with_the_nearest_known_one() -> None:
    error = unknown_name("method", "sigmoit", ["sigmoid", "beta"])
    assert isinstance(error, UnknownNameError)
    assert str(error) == "unknown method 'sigmoit'. Did you mean 'sigmoid'? Choose one of: 'sigmoid', 'beta'."
    assert did_you_mean("xyz", ["sigmoid", "beta"]) == ""


def test_held_warnings_go_to_the_innermost_that_holds_their_category() -> None:
    with hold_warnings() as outer, hold_warnings(DataWarning) as inner:
        warn("of the data", DataWarning)
        warn("of an iteration", ConvergenceWarning)
    assert (inner, outer) == (["of the data"], ["of an iteration"])
    with pytest.warns(DataWarning, match="of the data"):
        warn("of the data", DataWarning)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_fits_leave_the_filters_of_warnings_alone_which_all_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("catch_warnings changes the filters of all threads")

    y = (P.argmax(axis=1) + (np.arange(60) % 4 == 0)) % 3
    with monkeypatch.context() as patched:
        patched.setattr(warnings, "catch_warnings", refused)
        cb.AutoCalibrator().fit(P, y)
        cb.AutoCalibrator().fit(P[:, 0], y == 0)
        cb.GroupedCalibrator("beta").fit(P, y, groups=np.arange(60) % 2)
        cb.compare(P, y, methods=["temperature", "beta"])
        cb.ProbabilityCalibrator().fit(y, P)
