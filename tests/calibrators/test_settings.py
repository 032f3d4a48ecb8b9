"""Constructor arguments as settings: read, changed, copied and shown, also those of an inner calibrator."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.errors import InvalidInputError, UnknownNameError


@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_fresh_calibrator_has_the_same_settings_and_no_fit(name: str) -> None:
    made = CALIBRATORS[name]()
    fresh = made.fit([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).fresh()
    assert fresh is not made
    assert fresh.get_params() == made.get_params()
    assert not fresh.is_fitted
    assert repr(clone(made)) == repr(made)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (cb.SigmoidCalibrator(), "SigmoidCalibrator()"),
        (cb.HistogramCalibrator(n_bins=7, input="logit"), "HistogramCalibrator(n_bins=7, input='logit')"),
        (cb.OneVsRestCalibrator(), "OneVsRestCalibrator('isotonic')"),
        (
            cb.GroupedCalibrator(cb.OneVsRestCalibrator("beta"), shrinkage=3.0),
            "GroupedCalibrator(OneVsRestCalibrator('beta'), shrinkage=3.0)",
        ),
        (cb.MultilabelCalibrator("beta"), "MultilabelCalibrator('beta')"),
    ],
)
def test_only_what_differs_from_the_defaults_is_shown(made, shown: str) -> None:
    assert repr(made) == shown


def test_settings_of_inner_calibrators_are_reached_at_any_depth() -> None:
    made = cb.GroupedCalibrator(cb.TopLabelCalibrator(cb.BetaCalibrator()))
    assert made.get_params()["calibrator__calibrator__form"] == "abm"
    assert made.get_params(deep=False).keys() == {"calibrator", "shrinkage"}
    made.set_params(shrinkage=5.0, calibrator__per_class=True, calibrator__calibrator__form="am")
    assert (
        repr(made) == "GroupedCalibrator(TopLabelCalibrator(BetaCalibrator(form='am'), per_class=True), shrinkage=5.0)"
    )


def test_a_whole_argument_is_set_before_its_parts() -> None:
    made = cb.MultilabelCalibrator("beta")
    made.set_params(calibrator__n_bins=4, calibrator=cb.HistogramCalibrator())
    assert repr(made) == "MultilabelCalibrator(HistogramCalibrator(n_bins=4))"


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown parameter of GroupedCalibrator 'shrinkag'\. Did you mean 'shrin"
    ):
        cb.GroupedCalibrator().set_params(shrinkag=1.0)
    with pytest.raises(InvalidInputError, match=r"calibrator='isotonic' has no parameters to set\. Pass an instance"):
        cb.GroupedCalibrator().set_params(calibrator__bounded=True)
    with pytest.raises(InvalidInputError, match=r"shrinkage=1\.0 has no parameters to set"):
        cb.GroupedCalibrator(shrinkage=1.0).set_params(shrinkage__x=True)
