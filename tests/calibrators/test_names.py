"""Calibrators by name: those made of another one too, which says what the scores are."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import ALIASES, BINARY_CALIBRATORS, CALIBRATORS, calibrator_kind, make_calibrator
from calibrant.errors import InvalidInputError, InvalidTypeError, UnknownNameError


def draw(n=300, n_classes=3):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(n_classes), n)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, n_classes - 1)


@pytest.mark.parametrize("name", [*CALIBRATORS, *ALIASES])
def test_every_name_makes_the_calibrator_of_that_name(name):
    made = make_calibrator(name)
    assert made.name == ALIASES.get(name, name)
    assert repr(make_calibrator(made)) == repr(made)


def test_names_are_those_of_all_calibrators_of_the_package():
    classes = {value for key in cb.__all__ if isinstance(value := getattr(cb, key), type)}
    public = {kind for kind in classes if issubclass(kind, cb.calibrators.Calibrator)}
    assert {kind for kind in public if hasattr(kind, "name")} == set(CALIBRATORS.values())


@pytest.mark.parametrize("name", ["one_vs_rest", "top_label"])
def test_input_of_a_wrapping_calibrator_is_that_of_the_inner_one(name):
    p, y = draw()
    z = np.log(p)
    for inner in ("isotonic", "sigmoid", cb.SplineCalibrator(n_knots=9)):
        made = make_calibrator(name, calibrator=inner, input="logit")
        assert made.input == "logit"
        assert made.inner().name == (inner if isinstance(inner, str) else "spline")
        of_logits = made.fit(z, y).predict_proba(z)
        of_probabilities = make_calibrator(name, calibrator=inner).fit(p, y).predict_proba(p)
        np.testing.assert_allclose(of_logits, of_probabilities, atol=2e-6)
    assert make_calibrator(name, input="logit").inner().name == "isotonic"
    assert make_calibrator(name, calibrator=cb.SplineCalibrator(n_knots=9), input="logit").inner().n_knots == 9


def test_which_calibrators_take_another_input_is_known():
    takers = {name for name in CALIBRATORS if calibrator_kind(name).takes_input()}
    assert set(CALIBRATORS) - takers == {"beta", "dirichlet"}
    for name in takers:
        assert make_calibrator(name, input="logit").input == "logit"
    assert calibrator_kind("platt").takes_input()


def test_what_is_no_calibrator_of_one_score_is_refused_as_an_inner_one():
    for name in sorted(set(CALIBRATORS) - set(BINARY_CALIBRATORS)):
        with pytest.raises(InvalidTypeError, match=f"{name!r} calibrates all columns at once"):
            cb.OneVsRestCalibrator(name).fit(*draw())
    with pytest.raises(UnknownNameError, match=r"unknown calibrator 'topp_label'\. Did you mean 'top_label'\?"):
        make_calibrator("topp_label")


def test_parameters_of_the_inner_calibrator_are_set_through_the_outer_one():
    made = cb.TopLabelCalibrator(cb.BetaCalibrator(), per_class=True)
    assert made.set_params(calibrator__form="ab", per_class=False) is made
    assert repr(made) == "TopLabelCalibrator(BetaCalibrator(form='ab'))"
    made.set_params(calibrator=cb.SplineCalibrator(), calibrator__n_knots=9)
    assert made.get_params()["calibrator__n_knots"] == 9
    assert made.set_params(**made.get_params()).get_params() == made.get_params()
    with pytest.raises(UnknownNameError, match="unknown parameter of SplineCalibrator 'knots'"):
        made.set_params(calibrator__knots=9)
    with pytest.raises(InvalidInputError, match=r"calibrator='beta' has no parameters to set\. Pass an instance"):
        cb.OneVsRestCalibrator("beta").set_params(calibrator__form="ab")
