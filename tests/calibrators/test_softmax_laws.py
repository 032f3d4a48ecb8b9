"""Laws of the calibrators of all columns at once: vector, matrix, Dirichlet and ensemble temperature scaling."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError

FORMS = {
    "vector": lambda **kw: cb.VectorScalingCalibrator(**kw),
    "vector, given": lambda **kw: cb.VectorScalingCalibrator(penalty=0.5, **kw),
    "matrix": lambda **kw: cb.MatrixScalingCalibrator(**kw),
    "matrix, given": lambda **kw: cb.MatrixScalingCalibrator(penalty=0.5, **kw),
    "dirichlet": lambda **kw: cb.DirichletCalibrator(**kw),
    "ensemble temperature": lambda **kw: cb.EnsembleTemperatureCalibrator(**kw),
}
every = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
of_logits = pytest.mark.parametrize("make", [v for k, v in FORMS.items() if k != "dirichlet"])
with_penalty = pytest.mark.parametrize("make", [v for k, v in FORMS.items() if "ensemble" not in k])


def draw(n=500, k=4, seed=0):
    """Overconfident scores of which the classes are shifted and one is mistaken for another."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2.0
    truth = 0.5 * z + np.linspace(-0.5, 0.5, k)
    truth[:, 0] += 0.4 * z[:, 1]
    y = (truth + rng.gumbel(size=(n, k))).argmax(axis=1)
    p = np.exp(z)
    return p / p.sum(axis=1, keepdims=True), y


def log_loss(q, y):
    return -np.log(q[np.arange(y.size), y]).mean()


@every
def test_held_out_log_loss_falls(make):
    p, y = draw()
    new, truth = draw(5000, seed=1)
    assert log_loss(make().fit(p, y).predict_proba(new), truth) < log_loss(new, truth) - 0.05


@every
@pytest.mark.parametrize("k", [3, 30])
def test_rows_are_distributions_and_one_alone_equals_the_row_in_a_batch(make, k):
    fitted = make().fit(*draw(400, k))
    batch, _ = draw(40_000 if k == 30 else 3000, k, seed=2)  # the larger one is multiplied by the compiled loop
    q = fitted.predict_proba(batch)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    assert q.min() > 0.0
    assert q.max() <= 1.0
    for i in (0, batch.shape[0] // 2, batch.shape[0] - 1):
        np.testing.assert_array_equal(fitted.predict_proba(batch[i : i + 1])[0], q[i])


@every
def test_classes_in_another_order_give_the_same_answers_in_that_order(make):
    p, y = draw()
    order = np.array([2, 0, 3, 1])
    wanted = make().fit(p, y).predict_proba(p)
    got = make().fit(p[:, order], np.argsort(order)[y]).predict_proba(p[:, order])
    np.testing.assert_allclose(got, wanted[:, order], atol=1e-9)


@every
def test_rows_in_another_order_give_the_same_answers(make):
    p, y = draw()
    order = np.random.default_rng(3).permutation(y.size)
    wanted = make().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(make().fit(p[order], y[order]).predict_proba(p), wanted, atol=1e-9)


@every
def test_weight_two_equals_two_rows_and_weight_zero_none(make):
    p, y = draw()
    w = np.random.default_rng(4).integers(0, 4, y.size)
    weighted = make().fit(p, y, sample_weight=w).predict_proba(p)
    repeated = make().fit(np.repeat(p, w, axis=0), np.repeat(y, w)).predict_proba(p)
    np.testing.assert_allclose(weighted, repeated, atol=1e-9)


@of_logits
def test_a_shift_of_a_row_of_logits_changes_nothing(make):
    p, y = draw()
    shifts = np.random.default_rng(5).normal(size=(y.size, 1)) * 5.0
    wanted = make(input="logit").fit(np.log(p), y).predict_proba(np.log(p))
    got = make(input="logit").fit(np.log(p) + shifts, y).predict_proba(np.log(p) - shifts)
    np.testing.assert_allclose(got, wanted, atol=1e-9)
    np.testing.assert_allclose(make().fit(p, y).predict_proba(p), wanted, atol=1e-9)


@of_logits
def test_logits_in_another_unit_give_the_same_answers(make):
    if make is FORMS["ensemble temperature"]:
        return  # one of its parts are the scores as they are
    p, y = draw()
    wanted = make(input="logit").fit(np.log(p), y).predict_proba(np.log(p))
    got = make(input="logit").fit(1e6 * np.log(p), y).predict_proba(1e6 * np.log(p))
    np.testing.assert_allclose(got, wanted, atol=1e-7)


@every
def test_two_columns_equal_one(make):
    p, y = draw(k=2)
    one = make().fit(p[:, 1], y).predict_proba(p[:, 1])
    both = make().fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(both, np.column_stack((1.0 - one, one)))


@every
def test_separable_rows_give_finite_maps(make):
    p = np.full((60, 3), 0.1)
    y = np.arange(60) % 3
    p[np.arange(60), y] = 0.8
    with pytest.warns(DataWarning, match="every row is classified correctly"):
        q = make().fit(p, y).predict_proba(p)
    assert (q.argmax(axis=1) == y).all()
    assert q.min() > 0.0


@with_penalty
def test_a_class_without_rows_is_warned_of_and_keeps_a_share(make):
    p, y = draw(k=5)
    kept = y != 4
    with pytest.warns(DataWarning, match="no rows of class 4: their probabilities only fall"):
        fitted = make().fit(p[kept], y[kept], classes=range(5))
    before, after = p[kept, 4].mean(), fitted.predict_proba(p[kept])[:, 4].mean()
    assert 0.0 < after < before


@with_penalty
@pytest.mark.parametrize("kind", ["reversed", "constant"])
@pytest.mark.filterwarnings("ignore::calibrant.errors.DataWarning")  # temperature scaling says which it is
def test_scores_without_information_give_every_row_the_same_answer_nearer_the_base_rates(make, kind):
    p, y = draw()
    p = p.max(axis=1, keepdims=True) - p if kind == "reversed" else np.ones_like(p)
    p /= p.sum(axis=1, keepdims=True)
    q = make().fit(p, y).predict_proba(p)
    rates = np.bincount(y) / y.size
    assert np.ptp(q, axis=0).max() < 1e-12
    assert np.abs(q[0] - rates).max() < 0.5 * np.abs(0.25 - rates).max()


@with_penalty
def test_a_heavy_penalty_is_temperature_scaling(make):
    p, y = draw()
    temperature = cb.TemperatureCalibrator().fit(p, y).predict_proba(p)
    heavy = type(make())(penalty=1e9).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(heavy, temperature, atol=1e-6)


@with_penalty
def test_the_penalty_that_was_chosen_gives_the_same_map(make):
    p, y = draw()
    chosen = make().fit(p, y)
    again = type(chosen)(penalty=chosen.penalty_).fit(p, y)
    np.testing.assert_allclose(again.predict_proba(p), chosen.predict_proba(p), atol=1e-9)


BAD = {
    "text": ("auto", InvalidTypeError, "penalty='auto' is not a number"),
    "bool": (True, InvalidTypeError, "penalty=True is not a number"),
    "none": (None, InvalidTypeError, "penalty=None is not a number"),
    "zero": (0.0, InvalidInputError, "penalty=0.0 is outside \\(0, inf\\)"),
    "negative": (-1.0, InvalidInputError, "penalty=-1.0 is outside \\(0, inf\\)"),
    "infinite": (np.inf, InvalidInputError, "penalty=inf is outside \\(0, inf\\)"),
    "nan": (np.nan, InvalidInputError, "penalty=nan is outside \\(0, inf\\)"),
}


@pytest.mark.parametrize(("penalty", "kind", "text"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("make", [cb.VectorScalingCalibrator, cb.MatrixScalingCalibrator, cb.DirichletCalibrator])
def test_a_bad_penalty_is_refused(make, penalty, kind, text):
    with pytest.raises(kind, match=text):
        make(penalty=penalty).fit(*draw())
