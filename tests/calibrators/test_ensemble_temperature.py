"""Ensemble temperature scaling: the weights are the stated optimum, and find mixtures that were made."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

import calibrant as cb
from calibrant.calibrators import ensemble_temperature
from calibrant.errors import ConvergenceWarning, DocumentError
from calibrant.maps import MeanMap, MixtureMap
from calibrant.persistence import from_document, to_document


def draw(n=500, seed=0, shares=(0.6, 0.0, 0.4)):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * 3.0
    p = shares[0] * softmax(0.5 * z, axis=1) + shares[1] * softmax(z, axis=1) + shares[2] / 3
    return z, np.array([rng.choice(3, p=row) for row in p]), rng.exponential(size=n)


def parts(z, beta):
    return np.stack([softmax(slope * z, axis=1) for slope in (beta, 1.0, 0.0)])


def test_weights_are_the_stated_optimum():
    z, y, w = draw()
    fitted = cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y, sample_weight=w)
    temperature = cb.TemperatureCalibrator(input="logit").fit(z, y, sample_weight=w)
    assert fitted.inverse_temperature_ == temperature.inverse_temperature_
    chosen = parts(z, fitted.inverse_temperature_)[:, np.arange(y.size), y]

    def objective(free):
        shares = softmax(np.append(free, 0.0))
        return -(w * np.log(shares @ chosen)).sum() - np.log(shares).sum()

    found = softmax(np.append(minimize(objective, np.zeros(2), method="BFGS", options={"gtol": 1e-7}).x, 0.0))
    np.testing.assert_allclose(fitted.weights_, found, atol=1e-5)
    assert fitted.weights_.sum() == pytest.approx(1.0, abs=1e-15)
    mixed = np.tensordot(fitted.weights_, parts(z, fitted.inverse_temperature_), axes=1)
    np.testing.assert_allclose(fitted.predict_proba(z), mixed, atol=1e-14)
    assert isinstance(fitted.map_, MixtureMap)


@pytest.mark.slow
def test_calibrated_scores_keep_their_probabilities():
    z, y, _ = draw(20_000, shares=(0.0, 1.0, 0.0))
    q = cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y).predict_proba(z)
    assert np.abs(q - softmax(z, axis=1)).max() < 0.02


@pytest.mark.slow
def test_label_noise_is_found_by_the_uniform_part_as_temperature_cannot():
    z, y, _ = draw(20_000, shares=(0.0, 0.7, 0.3))
    new, truth, _ = draw(20_000, seed=1, shares=(0.0, 0.7, 0.3))
    at = np.arange(truth.size), truth
    fitted = cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y)
    temperature = cb.TemperatureCalibrator(input="logit").fit(z, y)
    best = -np.log((0.7 * softmax(new, axis=1) + 0.1)[at]).mean()
    assert -np.log(fitted.predict_proba(new)[at]).mean() < best + 0.002
    assert -np.log(temperature.predict_proba(new)[at]).mean() > best + 0.01


def test_order_of_classes_is_kept_in_every_row():
    z, y, _ = draw()
    q = cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(np.argsort(q, axis=1), np.argsort(z, axis=1))


@pytest.mark.parametrize("kind", ["probability", "logit", "score"])
def test_two_classes_are_a_mean_of_three_curves(kind):
    rng = np.random.default_rng(0)
    z = rng.normal(size=1000) * 2.0
    y = rng.random(1000) < 0.8 / (1.0 + np.exp(-0.7 * z)) + 0.1
    scores = 1.0 / (1.0 + np.exp(-z)) if kind == "probability" else z
    fitted = cb.EnsembleTemperatureCalibrator(input=kind).fit(scores, y)
    assert isinstance(fitted.map_, MeanMap)
    w, beta = fitted.weights_, fitted.inverse_temperature_
    wanted = w[0] / (1.0 + np.exp(-beta * z)) + w[1] / (1.0 + np.exp(-z)) + w[2] / 2
    np.testing.assert_allclose(fitted.predict_proba(scores), wanted, atol=1e-12)


def test_a_fit_that_stops_short_says_so(monkeypatch):
    monkeypatch.setattr(ensemble_temperature, "_MAX_ITER", 1)
    z, y, _ = draw()
    with pytest.warns(ConvergenceWarning, match=r"ensemble temperature fit: Newton decrement .* > tol 1e-08"):
        cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y)


CHANGES = {
    "shares": (lambda m: m["weights"].__setitem__(0, 0.0), r"map\.weights: .* sum.* to 1"),
    "count": (lambda m: m["weights"].pop(), "does not go with 3 maps"),
    "kind": (lambda m: m["maps"][1].__setitem__("kind", "step"), r"maps\[1\]\.kind"),
    "classes": (lambda m: m["maps"][1]["bias"].append(0.0), "maps of 3 and of 4 classes"),
    "matrix": (lambda m: m["maps"][0].__setitem__("weight", np.eye(3).tolist()), "is not one number"),
    "clip": (lambda m: m["maps"][2].__setitem__("clip", 0.1), "does not go with input 'logit'"),
}


@pytest.mark.parametrize(("change", "text"), CHANGES.values(), ids=CHANGES)
def test_a_document_whose_mixture_was_changed_is_refused(change, text):
    z, y, _ = draw()
    document = to_document(cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y))
    change(document["map"])
    with pytest.raises(DocumentError, match=text):
        from_document(document)


def test_inspection_names_the_parts_and_their_shares():
    z, y, _ = draw()
    fitted = cb.EnsembleTemperatureCalibrator(input="logit").fit(z, y)
    first, *parts = fitted.describe()
    assert first == "Mean of probabilities:"
    assert parts[0] == f"  {fitted.weights_[0]:.3g} of softmax of {fitted.inverse_temperature_:.6g} * z"
    assert len(parts) == 3
    two = cb.EnsembleTemperatureCalibrator(input="logit").fit(z[:, 1] - z[:, 0], y > 0)
    first, *parts = two.describe()
    assert first == "mean:"
    assert parts[0].startswith(f"  {two.weights_[0]:.3g} of q = expit(")
    assert len(parts) == len(two.map_.maps)


@pytest.mark.filterwarnings("ignore:the scores say nothing of the labels")
@pytest.mark.parametrize("weight", [1e17, 1e18, 1e19])
def test_a_row_that_outweighs_all_others_is_fitted(weight):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = (p.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    for row in range(10):
        w = np.where(np.arange(300) == row, weight, 1.0)
        shares = cb.EnsembleTemperatureCalibrator().fit(p, y, sample_weight=w).weights_
        assert (shares >= 0.0).all()
        assert shares.sum() == pytest.approx(1.0)
