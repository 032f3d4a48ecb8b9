"""The automatic choice: it finds what helps, and leaves alone what doesn't need it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from auto_draws import draw, log_loss
from scipy.optimize import minimize

import calibrant as cb
from calibrant.calibrators.auto import _blend_weights
from calibrant.calibrators.auto_rows import sample_of
from calibrant.calibrators.cross_fit import row_splits
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.maps import BetaMap, BlendMap, MeanMap, VennAbersMap
from calibrant.persistence import from_document, to_document
from calibrant.rows import Rows, read_rows


@pytest.mark.parametrize("power", [0.4, 3.0])
def test_what_is_off_is_changed_and_held_out_loss_falls(power):
    p, y = draw(power=power)
    new, happened = draw(20_000, power, seed=1)
    fitted = cb.AutoCalibrator().fit(p, y)
    assert fitted.report_.chosen == "blend"
    q = fitted.predict_proba(new)
    bayes = log_loss(new ** (1 / power), happened)
    assert log_loss(q, happened) < bayes + 0.01
    assert log_loss(q, happened) < log_loss(new, happened)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_calibrated_is_mostly_left_alone(seed):
    p, y = draw(power=1.0, seed=seed)
    fitted = cb.AutoCalibrator().fit(p, y)
    assert fitted.report_.chosen == "none"
    np.testing.assert_allclose(fitted.predict_proba(p), p, rtol=1e-12)


def test_left_alone_means_left_alone_but_for_exact_zeros_and_ones():
    p, y = draw(power=1.0)
    q = cb.AutoCalibrator().fit(p, y).predict_proba([0.0, 1e-9, 0.3, 1.0])
    assert q[0] == pytest.approx(1e-12)
    assert q[1:3] == pytest.approx([1e-9, 0.3], rel=1e-9)
    assert q[3] < 1.0


@pytest.mark.parametrize("n", [20, 100, 1000, 30_000])
@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_outputs_rise_and_are_never_exactly_zero_or_one(n, input):
    rng = np.random.default_rng(n)
    p = rng.choice([0.0, 1.0, *rng.uniform(size=50)], n) if input == "probability" else rng.normal(size=n) * 5
    y = rng.uniform(size=n) < (p if input == "probability" else 1 / (1 + np.exp(-p)))
    y[:2] = [False, True]
    grid = np.linspace(0, 1, 5001) if input == "probability" else np.linspace(-50, 50, 5001)
    q = cb.AutoCalibrator(input=input).fit(p, y).predict_proba(grid)
    assert (np.diff(q) >= -1e-15).all()
    assert q.min() > 0.0
    assert q.max() < 1.0


def test_out_of_fold_losses_are_those_of_fits_to_folds_that_do_not_know_the_class_rates():
    p, y = draw(300)
    report = cb.AutoCalibrator().fit(p, y).report_
    from calibrant.dependence import stratified_folds

    order = np.lexsort((~y, p))
    s, t = p[order], y[order]
    folds = stratified_folds(np.zeros(300, dtype=int), 5, 0)
    loss = np.empty(300)
    for fold in range(5):
        held = folds == fold
        q = cb.SplineCalibrator().fit(s[~held], t[~held]).predict_proba(s[held])
        loss[held] = -np.where(t[held], np.log(q), np.log1p(-q))
    found = next(c for c in report.candidates if c.name == "spline")
    assert found.log_loss == pytest.approx(loss.mean(), abs=1e-9)


def test_only_what_fits_a_rate_pays_for_what_folds_leak():
    """Temperature and its mixture with even odds know no rate of a class; a spline's losses rise by a nat in all."""
    p, y = draw(4000)
    report = cb.AutoCalibrator().fit(p, y).report_
    rows, _ = sample_of(read_rows(p, y).summary(), 0)
    for name, make, leak in (
        ("temperature", cb.TemperatureCalibrator, 0.0),
        ("ensemble_temperature", cb.EnsembleTemperatureCalibrator, 0.0),
        ("spline", cb.SplineCalibrator, 1.0),
    ):
        loss = np.empty(4000)
        for split in row_splits(rows, 5):
            fitted = make().fit(rows.scores[split.fitted], rows.positive[split.fitted])
            q, came = fitted.predict_proba(rows.scores[split.held_out]), rows.positive[split.held_out]
            loss[split.held_out] = -np.where(came, np.log(q), np.log1p(-q))
        found = next(c for c in report.candidates if c.name == name)
        assert found.log_loss == pytest.approx(loss.mean() + leak / 4000, abs=1e-9), name


def test_loss_of_none_is_that_of_the_scores_where_a_fold_has_the_only_positive():
    p, _ = draw(300)
    y = np.arange(300) == 7
    report = cb.AutoCalibrator().fit(p, y).report_
    none = next(each for each in report.candidates if each.name == "none")
    assert none.log_loss == pytest.approx(cb.metrics.log_loss(y, p), rel=1e-9)
    three = np.column_stack([0.6 * p, 0.4 * p, 1.0 - p])
    labels, part = np.where(y, 0, 2), np.arange(300) // 60  # one cluster has all rows but those of one class
    labels[8] = 1
    report = cb.AutoCalibrator().fit(three, labels, classes=[0, 1, 2], cluster=part).report_
    none = next(each for each in report.candidates if each.name == "none")
    assert none.log_loss == pytest.approx(cb.metrics.log_loss(labels, three, classes=[0, 1, 2]), rel=1e-9)


def test_weights_are_the_constrained_minimiser():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4, 200)) + rng.normal(size=200)
    y = rng.uniform(size=200) < 1 / (1 + np.exp(-z[0] - 0.5 * z[2]))
    w = rng.exponential(size=200)
    sample = Rows.of_positives(np.zeros(200), y, w)
    scaled = w * 200 / w.sum()

    def loss(t):
        return (scaled * (np.logaddexp(0, t @ z) - y * (t @ z))).sum() + 5.0 * ((t - 0.25) ** 2).sum()

    theirs = minimize(
        loss,
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(_blend_weights(z, sample, np.zeros(4, dtype=bool)), theirs.x, atol=1e-5)


def test_another_seed_gives_other_folds():
    p, y = draw(300)
    a, b = (cb.AutoCalibrator(seed=s).fit(p, y).report_.blend.log_loss for s in (0, 1))
    assert a != b


@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_handful_of_rows_is_enough_to_answer(n):
    q = cb.AutoCalibrator().fit(np.linspace(0.1, 0.9, n), [0] * (n - 1) + [1]).predict_proba([0.5])
    assert 0.0 < q[0] < 1.0


def test_scores_that_are_certain_are_not_left_alone():
    """Of ten rows none contradicts a zero, and the first that does costs 27 nats."""
    for p in (np.repeat([0.0, 0.5, 1.0], 20), np.repeat([0.0, 0.4, 0.6], 20), np.repeat([0.4, 0.6, 1.0], 20)):
        y = np.random.default_rng(0).random(60) < p
        fitted = cb.AutoCalibrator().fit(p, y)
        assert fitted.report_.chosen == "blend"
        assert "exactly 0 or 1" in fitted.report_.reason
        q = fitted.predict_proba([0.0, 1.0])
        assert q[0] >= 0.25 / 60.5
        assert q[1] <= 1.0 - 0.25 / 60.5
    open_scores = np.repeat([0.1, 0.5, 0.9], 200)
    assert (
        cb.AutoCalibrator().fit(open_scores, np.random.default_rng(0).random(600) < open_scores).report_.chosen
        == "none"
    )


def test_a_blend_is_a_map_of_its_parts():
    fitted = cb.AutoCalibrator().fit(*draw())
    assert isinstance(fitted.map_, BlendMap)
    assert fitted.map_.weights.sum() == pytest.approx(1.0)
    p = np.array([0.05, 0.4, 0.9])
    z = sum(w * np.log((q := m.apply(p)) / (1 - q)) for w, m in zip(fitted.map_.weights, fitted.map_.maps, strict=True))
    uniform = 0.5 / (fitted.n_rows_ + 0.5)
    np.testing.assert_allclose(fitted.predict_proba(p), (1 - uniform) / (1 + np.exp(-z)) + uniform / 2, rtol=1e-9)
    assert isinstance(cb.AutoCalibrator().fit(*draw(power=1.0)).map_, BetaMap)


@pytest.mark.parametrize(("steps", "is_kept"), [(True, True), (False, False)])
def test_venn_abers_is_kept_only_where_smooth_curves_fall_short(steps, is_kept):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2_000)
    truth = np.where(p < 0.5, 0.2, 0.8) if steps else p**2
    fitted = cb.AutoCalibrator().fit(p, rng.uniform(size=p.size) < truth)
    weight = next(c.weight for c in fitted.report_.candidates if c.name == "venn_abers")
    assert (weight > 0.1) == is_kept
    assert any(isinstance(part, VennAbersMap) for part in fitted.map_.maps) == is_kept


def test_a_mixture_may_be_part_of_a_blend_and_of_its_document():
    rng = np.random.default_rng(3)
    p = rng.uniform(size=300)
    fitted = cb.AutoCalibrator().fit(p, rng.uniform(size=300) < 0.2 + 0.6 * p)
    assert any(isinstance(part, MeanMap) for part in fitted.map_.maps)
    said = fitted.map_.describe(fitted.classes_)
    at = next(i for i, line in enumerate(said) if line.endswith(" of mean:"))
    assert [line[:4] for line in said[at : at + 4]] == [
        "  0.",
        "    ",
        "    ",
        "    ",
    ]  # three parts, on lines of theirs
    document = to_document(fitted)
    np.testing.assert_array_equal(from_document(document).predict_proba(p), fitted.predict_proba(p))
    parts = json.loads(json.dumps(document))
    inner = next(part for part in parts["map"]["maps"] if part["kind"] == "mean")
    inner["maps"][0] = json.loads(json.dumps(inner))
    with pytest.raises(DocumentError, match="mean"):
        from_document(parts)


@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_constant_scores_become_the_base_rate(input):
    fitted = cb.AutoCalibrator(input=input).fit([0.25] * 10, [1] * 3 + [0] * 7)
    assert fitted.predict_proba([0.0, 0.25, 1.0]) == pytest.approx([0.3] * 3)
    assert fitted.report_.chosen == "base_rate"
    assert fitted.report_.blend.log_loss == pytest.approx(-0.3 * np.log(0.3) - 0.7 * np.log(0.7))


def test_too_few_folds_are_refused():
    with pytest.raises(InvalidInputError, match="cv=1 is too small"):
        cb.AutoCalibrator(cv=1).fit([0.1, 0.9], [0, 1])


@pytest.mark.parametrize("exportable", [None, "sql"])
def test_logits_that_are_left_alone_are_kept_to_the_last_bit(exportable):
    p, y = draw(300, power=1.0)
    z = np.log(p) - np.log1p(-p)
    auto = cb.AutoCalibrator(input="logit", allow_inversion=True, exportable=exportable).fit(z, y)
    assert auto.report_.chosen == "none"
    again = from_document(to_document(auto))
    assert again.predict_proba(z).tobytes() == auto.predict_proba(z).tobytes()
    groups = np.arange(300) % 2
    grouped = cb.GroupedCalibrator(auto).fit(z, y, groups=groups)
    kept = from_document(to_document(grouped))
    assert kept.predict_proba(z, groups=groups).tobytes() == grouped.predict_proba(z, groups=groups).tobytes()
    segments = cb.SegmentCalibrator(auto).fit(z, y, features={"a": groups})
    kept = from_document(to_document(segments))
    assert kept.predict_proba(z).tobytes() == segments.predict_proba(z).tobytes()


@pytest.mark.parametrize("uniform", [-0.1, 1.0, 7, "0.1", None, True, [0.1], float("nan")])
def test_document_whose_share_of_one_half_is_none_is_refused(uniform):
    document = to_document(cb.AutoCalibrator().fit(*draw(100)))
    assert from_document(document).map_.uniform == document["map"]["uniform"] == 0.5 / 100.5
    document["map"]["uniform"] = uniform
    with pytest.raises(DocumentError, match=r"map\.uniform"):
        from_document(document)


def test_features_are_referred_to_what_takes_them() -> None:
    p, y = [0.2, 0.6, 0.3, 0.9], [0, 1, 0, 1]
    with pytest.raises(
        InvalidInputError, match=r"Call SegmentCalibrator\(AutoCalibrator\(seed=3\)\)\.fit\(scores, y, f"
    ):
        cb.AutoCalibrator(seed=3).fit(p, y, features={"age": [30, 40, 50, 60]})
