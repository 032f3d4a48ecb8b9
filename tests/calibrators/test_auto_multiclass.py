"""The automatic choice for more than two classes: a product of methods that leaves alone what is well alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize

import calibrant as cb
from calibrant.calibrators.auto_multiclass import _pool, _pool_weights
from calibrant.calibrators.auto_weights import PULL
from calibrant.errors import DocumentError, InvalidInputError, UnknownNameError
from calibrant.maps import LogPoolMap, OneVsRestMap, SoftmaxMap
from calibrant.numerics import log_softmax
from calibrant.rows import read_rows


def draw(n=1500, n_classes=3, seed=0):
    """Return calibrated probabilities, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n)
    return p, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def power(p, by):
    q = p**by
    return q / q.sum(axis=1, keepdims=True)


def log_loss(q, y):
    return -np.log(q[np.arange(y.size), y]).mean()


@pytest.fixture(scope="module")
def sharpened():
    p, y = draw()
    return power(p, 3.0), y


@pytest.fixture(scope="module")
def fitted(sharpened):
    return cb.AutoCalibrator().fit(*sharpened)


@pytest.mark.parametrize("seed", range(4))
def test_calibrated_scores_are_hardly_spoilt(seed):
    p, y = draw(600, seed=seed)
    new, happened = draw(20_000, seed=100 + seed)
    made = cb.AutoCalibrator().fit(p, y)
    assert log_loss(made.predict_proba(new), happened) < log_loss(new, happened) + 0.01
    if made.report_.chosen == "none":
        np.testing.assert_allclose(made.predict_proba(new), new, atol=1e-12)


@pytest.mark.slow
def test_most_draws_of_calibrated_scores_are_left_alone():
    chosen = [cb.AutoCalibrator().fit(*draw(300, seed=seed)).report_.chosen for seed in range(12)]
    assert chosen.count("none") >= 9


def test_of_a_sharpened_softmax_it_is_as_good_as_temperature(fitted, sharpened):
    new, happened = draw(20_000, seed=1)
    q = fitted.predict_proba(power(new, 3.0))
    temperature = cb.TemperatureCalibrator().fit(*sharpened).predict_proba(power(new, 3.0))
    assert fitted.report_.chosen == "blend"
    assert log_loss(q, happened) < log_loss(temperature, happened) + 1e-3
    assert log_loss(q, happened) < log_loss(new, happened) + 3e-3  # of the truth itself


def test_it_mends_what_no_temperature_can():
    wrong = np.array([3.0, 1.0, 0.2])

    def bend(p):
        return power(p * wrong, 1.5)

    p, y = draw(2000)
    new, happened = draw(20_000, seed=1)
    q = cb.AutoCalibrator().fit(bend(p), y).predict_proba(bend(new))
    temperature = cb.TemperatureCalibrator().fit(bend(p), y).predict_proba(bend(new))
    assert log_loss(q, happened) < log_loss(new, happened) + 5e-3
    assert log_loss(temperature, happened) > log_loss(new, happened) + 0.1


@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_weights_lie_on_the_simplex_and_the_report_says_what_was_tried(sharpened, input):
    p, y = sharpened
    made = cb.AutoCalibrator(input=input).fit(p[:300] if input == "probability" else np.log(p[:300]), y[:300])
    report = made.report_
    weights = np.array([c.weight for c in report.candidates])
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    names = {"temperature", "matrix", "spline"} | (set() if input == "score" else {"none"})
    assert {c.name for c in report.candidates} == names
    assert report.n_rows == 300
    assert report.n_folds == 5
    losses = [c.log_loss for c in report.candidates]
    assert losses == sorted(losses)
    assert np.isnan(report.blend.difference) == (input == "score")


def test_weights_are_those_of_a_general_solver():
    rng = np.random.default_rng(0)
    z = log_softmax(rng.normal(size=(4 * 80, 3))).reshape(4, 80, 3)
    codes, w = rng.integers(0, 3, 80), rng.uniform(0.5, 2.0, 80)
    found = _pool_weights(z, codes, w, np.zeros(4, dtype=bool))
    share = w * (80 / w.sum())

    def objective(a):
        logs = log_softmax(np.tensordot(a, z, 1))
        return -(share * logs[np.arange(80), codes]).sum() + PULL * ((a - 0.25) ** 2).sum()

    bounds, whole = [(0, 1)] * 4, {"type": "eq", "fun": lambda a: a.sum() - 1}
    wanted = minimize(objective, np.full(4, 0.25), method="SLSQP", bounds=bounds, constraints=whole, tol=1e-14)
    np.testing.assert_allclose(found, wanted.x, atol=1e-5)
    assert objective(found) <= wanted.fun + 1e-9


def test_the_map_is_the_weighted_product_of_its_parts(fitted, sharpened):
    p = sharpened[0][:50]
    assert isinstance(fitted.map_, LogPoolMap)
    assert fitted.map_.weights.sum() == pytest.approx(1.0)
    product = np.prod([m.apply(p) ** w for w, m in zip(fitted.map_.weights, fitted.map_.maps, strict=True)], axis=0)
    product /= product.sum(axis=1, keepdims=True)
    spare = 0.5 / 1500.5  # half a row of 1,500 that may show any class
    assert fitted.map_.uniform == pytest.approx(spare)
    np.testing.assert_allclose(fitted.predict_proba(p), (1 - spare) * product + spare / 3, rtol=1e-12)


def test_softmax_maps_of_one_clip_become_one():
    rng = np.random.default_rng(0)
    parts = [
        (SoftmaxMap(np.array(0.5), np.zeros(3), 1e-6), 0.3),
        (SoftmaxMap(rng.normal(size=(3, 3)), rng.normal(size=3), 1e-6), 0.7),
    ]
    p = draw(20)[0]
    product = np.prod([m.apply(p) ** w for m, w in parts], axis=0)
    merged = _pool(parts, 0.0)
    assert len(merged.maps) == 1
    np.testing.assert_allclose(merged.apply(p), product / product.sum(axis=1, keepdims=True), rtol=1e-12)
    assert len(_pool([parts[0], (SoftmaxMap(np.array(1.0), np.zeros(3), 1e-9), 0.7)], 0.0).maps) == 2


def test_order_of_rows_that_differ_by_weight_does_not_matter():
    rng = np.random.default_rng(8)
    p = rng.multinomial(4, [0.5, 0.3, 0.2], 60) / 4  # a forest of four trees: many equal rows
    y = np.array([rng.choice(3, p=0.7 * row + 0.1) for row in p])
    w = rng.exponential(size=60)
    expected = cb.AutoCalibrator().fit(p, y, sample_weight=w).predict_proba(p)
    for _ in range(4):
        order = rng.permutation(60)
        ours = cb.AutoCalibrator().fit(p[order], y[order], sample_weight=w[order]).predict_proba(p)
        np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_order_of_classes_does_not_matter_where_many_rows_have_like_scores():
    rng = np.random.default_rng(9)
    p = rng.multinomial(10, [0.4, 0.3, 0.2, 0.1], 60) / 10
    y = np.array([rng.choice(4, p=0.7 * row + 0.075) for row in p])
    expected = cb.AutoCalibrator().fit(p, y).predict_proba(p)
    for order in ([1, 0, 3, 2], [3, 2, 1, 0], [2, 3, 0, 1]):
        ours = cb.AutoCalibrator().fit(p[:, order], np.argsort(order)[y]).predict_proba(p[:, order])
        np.testing.assert_allclose(ours, expected[:, order], atol=1e-9)


def test_two_fits_and_any_order_of_rows_give_the_same_bits(fitted, sharpened):
    p, y = sharpened
    order = np.random.default_rng(3).permutation(y.size)
    again = cb.AutoCalibrator().fit(p[order], y[order])
    np.testing.assert_array_equal(again.predict_proba(p), fitted.predict_proba(p))


def test_a_row_alone_gets_the_bits_that_it_gets_in_a_batch(fitted, sharpened):
    p = sharpened[0][:30]
    alone = np.vstack([fitted.predict_proba(p[i : i + 1]) for i in range(30)])
    np.testing.assert_array_equal(alone, fitted.predict_proba(p))


@pytest.mark.slow
def test_classes_can_be_called_otherwise(fitted, sharpened):
    p, y = sharpened
    order = np.array([2, 0, 1])
    other = cb.AutoCalibrator().fit(p[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(other.predict_proba(p[:, order]), fitted.predict_proba(p)[:, order], atol=1e-9)


@pytest.mark.slow
def test_weight_two_is_two_rows_and_weight_zero_is_none(sharpened):
    p, y = sharpened[0][:200], sharpened[1][:200]
    weight = np.arange(200) % 3
    weighted = cb.AutoCalibrator().fit(p, y, sample_weight=weight)
    repeated = cb.AutoCalibrator().fit(np.repeat(p, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(p), repeated.predict_proba(p), atol=1e-9)
    assert weighted.report_.n_rows == repeated.report_.n_rows == weight.sum()


@pytest.mark.slow
def test_parts_of_a_row_count_by_their_share(sharpened):
    p, y = sharpened[0][:300], sharpened[1][:300]
    weight = np.where(y == 0, 0.5, 1.5)
    made = cb.AutoCalibrator().fit(p, y, sample_weight=weight)
    share = np.array([(weight * (y == k)).sum() for k in range(3)]) / weight.sum()
    np.testing.assert_allclose(np.average(made.predict_proba(p), axis=0, weights=weight), share, atol=0.03)


@pytest.mark.slow
def test_huge_weights_are_sampled():
    p, y = draw(60)
    made = cb.AutoCalibrator().fit(p, y, sample_weight=np.full(60, 1e9))
    assert made.report_.n_rows == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_a_class_without_rows_keeps_some_probability(input):
    p, y = draw(400, 4)
    kept = y != 2
    scores = power(p, 3.0) if input == "probability" else np.log(power(p, 3.0))
    made = cb.AutoCalibrator(input=input).fit(scores[kept], y[kept], classes=range(4))
    q = made.predict_proba(scores)
    assert (q > 0.0).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert q[:, 2].mean() < p[:, 2].mean()
    if input == "score":  # a column without rows says nothing
        assert {c.name for c in made.report_.candidates} == {"temperature", "matrix"}


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_handful_of_rows_is_enough_to_answer(n):
    p, _ = draw(n)
    q = cb.AutoCalibrator().fit(p, [0, 1, 2, 0, 1, 2, 0][:n], classes=range(3)).predict_proba(p)
    assert np.isfinite(q).all()
    assert (q > 0.0).all()


@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_equal_rows_become_the_rates_of_the_classes(input):
    scores = np.tile([0.2, 0.3, 0.5], (40, 1))
    y = np.repeat([0, 1, 2], [20, 10, 10])
    made = cb.AutoCalibrator(input=input).fit(scores if input == "probability" else np.log(scores), y)
    q = made.predict_proba(scores[:1] if input == "probability" else np.log(scores[:1]))
    np.testing.assert_allclose(q, [[0.5, 0.25, 0.25]], atol=0.1)


def test_few_rows_that_are_all_right_make_no_class_impossible():
    p = np.tile(np.eye(3) * 0.98 + 0.01 * (1 - np.eye(3)), (20, 1))
    q = cb.AutoCalibrator(input="score").fit(20.0 * np.log(p), np.tile([0, 1, 2], 20)).predict_proba(20.0 * np.log(p))
    assert q.min() > 0.5 / 60.5 / 3 * 0.999
    assert q.max(axis=1).min() > 0.9


@pytest.mark.slow
def test_zeros_cost_no_infinite_loss():
    p, y = draw(500)
    hard = np.eye(3)[p.argmax(axis=1)]
    q = cb.AutoCalibrator().fit(hard, y).predict_proba(hard)
    assert q.min() > 0.01
    rate = (p.argmax(axis=1) == y).mean()
    assert q.max(axis=1).mean() == pytest.approx(rate, abs=0.03)


@pytest.mark.slow
def test_many_classes_are_left_to_temperature_and_vector_scaling():
    p, y = draw(600, 120)
    made = cb.AutoCalibrator(input="logit").fit(2.0 * np.log(p), y, classes=range(120))
    assert {c.name for c in made.report_.candidates} == {"none", "temperature", "vector"}
    assert [type(m) for m in made.map_.maps] == [SoftmaxMap]


@pytest.mark.slow
@pytest.mark.parametrize("input", ["probability", "logit", "score"])
@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_files_give_the_same_bits(tmp_path, sharpened, input, suffix):
    p, y = sharpened
    scores = p[:400] if input == "probability" else np.log(p[:400])
    made = cb.AutoCalibrator(input=input).fit(scores, y[:400])
    cb.save(made, tmp_path / f"c{suffix}")
    loaded = cb.load(tmp_path / f"c{suffix}")
    np.testing.assert_array_equal(loaded.predict_proba(scores), made.predict_proba(scores))


def test_inspection_names_the_parts_and_their_weights(fitted):
    lines = fitted.describe()
    first = "Product of probabilities, each to the power of its weight, mixed with 0.000333 of equal ones:"
    assert lines[0] == first
    shown = [line for line in lines if " of softmax of " in line or " of One map per class" in line]
    assert len(shown) == len(fitted.map_.maps)
    assert shown[0].strip().startswith(f"{fitted.map_.weights[0]:.3g} of ")
    assert sum(line.lstrip().startswith(("0:", "1:", "2:")) for line in lines) == 3 * (len(shown) - 2)


def first_columns(document):
    return next(m for m in document["map"]["maps"] if m["kind"] == "one_vs_rest")


def couple_otherwise(document):
    first_columns(document)["coupling"] = "normalise"


def drop_a_weight(document):
    document["map"]["weights"][0] = 0.0
    document["map"]["weights"][-1] = 1.0 - sum(document["map"]["weights"][:-1])


def mix_too_much(document):
    document["map"]["uniform"] = 1.0


def drop_a_class(document):
    first_columns(document)["maps"].pop()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (couple_otherwise, "couples rows by 'normalise'"),
        (drop_a_weight, "holds a zero: a map without weight is no part"),
        (drop_a_class, "holds maps of 2 and of 3 classes"),
        (mix_too_much, "is outside \\[0, 1\\)"),
    ],
)
def test_a_changed_file_is_refused(tmp_path, fitted, change, text):
    cb.save(fitted, tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    assert any(isinstance(m, OneVsRestMap) for m in fitted.map_.maps)
    change(document)
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=text):
        cb.load(tmp_path / "c.json")


def test_what_changes_next_to_nothing_gets_no_weight():
    """Twice the same candidate, but for noise of its logits: one of them does."""
    rng = np.random.default_rng(0)
    p, codes = draw(3000)
    z = np.log(np.array([p, p * np.exp(rng.normal(size=p.shape) * 0.002), power(p, 3.0)]))
    z = log_softmax(z.reshape(-1, 3)).reshape(z.shape)
    w = np.ones(codes.size)
    assert (_pool_weights(z, codes, w, np.zeros(3, dtype=bool))[:2] > 0.1).all()
    kept = _pool_weights(z, codes, w, np.array([False, True, True]))
    assert kept[0] == pytest.approx(1.0)
    assert _pool_weights(z, codes, w, np.array([True, False, False]))[1] == pytest.approx(1.0)  # those that may go only


def test_a_part_that_counts_stays_however_it_may_go():
    p, codes = draw(3000)
    z = np.array([np.log(q) for q in (p, power(p, 0.3))])
    assert _pool_weights(z, codes, np.ones(3000), np.ones(2, dtype=bool))[0] > 0.9


@pytest.mark.parametrize("input", ["probability", "logit"])
def test_folds_start_from_the_fit_to_all_rows_and_end_at_their_own_optimum(sharpened, input):
    p, y = sharpened
    scores = p if input == "probability" else np.log(p)
    rows = read_rows(scores, y, input=input)
    part = rows.take(np.arange(y.size) % 5 > 0)
    for calibrator in (cb.MatrixScalingCalibrator(input=input), cb.VectorScalingCalibrator(input=input)):
        _, refit = calibrator.map_and_refit(rows)
        anew = type(calibrator)(penalty=calibrator.penalty_, input=input).map_of(part)
        np.testing.assert_allclose(refit(part).apply(scores), anew.apply(scores), atol=1e-8)
    _, refit = cb.TemperatureCalibrator(input=input).map_and_refit(rows)
    assert refit(part).weight == pytest.approx(cb.TemperatureCalibrator(input=input).map_of(part).weight, rel=1e-12)


@pytest.fixture(scope="module")
def wavy():
    """Probabilities that only curves of each class mend."""
    p, y = draw(4000)
    bent = p + 0.12 * np.sin(9.0 * p)
    bent = np.clip(bent, 0.01, None)
    return bent / bent.sum(axis=1, keepdims=True), y


def test_what_can_not_go_to_sql_says_at_fit_which_setting_would(wavy):
    made = cb.AutoCalibrator().fit(*wavy)
    assert any(isinstance(part, OneVsRestMap) for part in made.map_.maps)
    assert made.report_.reason.endswith('It can go to ONNX but not to SQL; with exportable="sql" it could.')
    with pytest.raises(InvalidInputError, match=r'AutoCalibrator with exportable="sql"'):
        cb.persistence.to_sql(made, columns=["a", "b", "c"])
    told = cb.AutoCalibrator(exportable="sql").fit(*wavy)
    assert {part.coupling for part in told.map_.maps if isinstance(part, OneVsRestMap)} == {"normalise"}
    assert "ONNX" not in told.report_.reason
    assert cb.persistence.to_sql(told, columns=["a", "b", "c"]).startswith("WITH")


def test_a_document_holds_the_coupling_that_its_setting_asks_for(wavy):
    made = cb.AutoCalibrator(exportable="sql").fit(*wavy)
    document = cb.persistence.to_document(made)
    assert cb.persistence.from_document(document).exportable == "sql"
    document["settings"]["exportable"] = None
    with pytest.raises(DocumentError, match=r"couples rows by 'normalise', but .* couples them by 'likelihood'"):
        cb.persistence.from_document(document)


def test_an_unknown_export_is_refused():
    with pytest.raises(UnknownNameError, match="unknown value of exportable: 'SQL'"):
        cb.AutoCalibrator(exportable="SQL").fit(*draw(60))
