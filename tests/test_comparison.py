"""Comparison: paired, out of fold, ranked."""

from __future__ import annotations

import json
import tracemalloc
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.cli import main
from calibrant.dependence import stratified_folds
from calibrant.errors import CalibrantError


def draw(n=600, power=3.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=n)
    return truth**power, (rng.uniform(size=n) < truth).astype(int)


def test_every_method_is_ranked_by_held_out_log_loss():
    ranked = cb.compare(*draw())
    names = [m.name for m in ranked.methods]
    assert sorted(names) == sorted([*(set(CALIBRATORS) - {"one_vs_rest", "top_label"}), "none"])
    losses = [m.log_loss for m in ranked.methods]
    assert losses == sorted(losses)
    assert ranked.baseline == "none"


def test_figures_are_those_of_fits_to_the_other_folds():
    p, y = draw()
    ranked = cb.compare(p, y, methods=["beta"], cv=4, seed=3)
    folds = stratified_folds(np.zeros(p.size, dtype=int), 4, 3)  # of one stratum: without a look at the labels
    by_fit = np.array([cb.BetaCalibrator().fit(p[folds != f], y[folds != f]).predict_proba(p) for f in range(4)])
    q = by_fit[folds, np.arange(p.size)]
    beta = next(m for m in ranked.methods if m.name == "beta")
    assert beta.log_loss == pytest.approx(cb.metrics.log_loss(y, q))
    assert beta.brier == pytest.approx(cb.metrics.brier_score(y, q))
    each = (q - y) ** 2 - (p - y) ** 2
    between_fits = 3 * ((by_fit - y) ** 2).var(axis=0).mean()  # the jackknife over four folds
    error = np.sqrt((each.var(ddof=1) + between_fits) / p.size)
    assert beta.brier_difference.value == pytest.approx(each.mean())
    assert beta.brier_difference.low == pytest.approx(each.mean() - 1.959964 * error, abs=1e-8)
    assert beta.brier_difference.high == pytest.approx(each.mean() + 1.959964 * error, abs=1e-8)


@pytest.mark.slow
def test_intervals_hold_what_fits_to_all_rows_show_on_new_ones():
    """Of 200 sets of 200 rows; the mean over rows alone, without what fits vary, holds it in 85%."""
    rng, held = np.random.default_rng(0), []
    for power in np.repeat([1.0, 1.3], 100):
        truth = rng.uniform(size=200)
        p, y = truth**power, rng.random(200) < truth
        population = (np.arange(4_000) + 0.5) / 4_000
        ranked = {m.name: m for m in cb.compare(p, y, methods=["sigmoid", "isotonic"]).methods}
        for name in ("sigmoid", "isotonic"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                q = make_calibrator(name).fit(p, y).predict_proba(population**power)
            brier = [np.mean((each - population) ** 2) for each in (q, population**power)]
            found = ranked[name].brier_difference
            held.append(found.low <= brier[0] - brier[1] <= found.high)
    assert 0.93 <= np.mean(held) <= 0.98


def test_folds_tell_no_fit_the_rate_of_the_rows_it_is_measured_on():
    """Calibrated scores that say nothing: two fitted numbers cost about 2 / (4 n); stratified folds hide all of it."""
    rng, claimed = np.random.default_rng(0), []
    for _ in range(100):
        p = rng.uniform(0.499, 0.501, 60)
        ranked = cb.compare(p, rng.random(60) < 0.5, methods=["sigmoid"])
        claimed.append(next(m.brier_difference.value for m in ranked.methods if m.name == "sigmoid"))
    assert 0.004 < np.mean(claimed) < 0.014


def test_losses_of_two_methods_are_held_at_a_time():
    """Of each method they are 96 bytes a row: two losses by five folds and held out."""
    p, y = draw(20_000)

    def peak(methods):
        tracemalloc.start()
        cb.compare(p, y, methods=methods)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    few = ["sigmoid", "temperature"]
    many = [cb.SigmoidCalibrator(), cb.HistogramCalibrator(n_bins=7), "isotonic", "beta"]
    peak(few + many)  # compiled, and what is kept of that
    assert peak(few + many) < peak(few) + 2 * 96 * p.size


def test_a_wrong_zero_is_an_infinite_loss_and_not_an_error():
    p, y = draw()
    ranked = cb.compare(p, y, methods=["isotonic"])
    isotonic = ranked.methods[-1]
    assert isotonic.name == "isotonic"
    assert isotonic.log_loss == np.inf
    assert isotonic.log_loss_difference.high == np.inf
    assert np.isfinite(isotonic.brier)


def test_infinite_losses_of_other_rows_on_either_side_have_no_difference_and_no_warning():
    rng = np.random.default_rng(9)  # warnings are errors
    votes = np.round(10 * rng.beta(0.5, 0.5, 200)) / 10
    ranked = cb.compare(votes, rng.random(200) < 0.9 * votes + 0.05, methods=["isotonic", "histogram", "mimic"])
    differences = [m.log_loss_difference.value for m in ranked.methods if m.name != "none"]
    assert any(np.isnan(differences))
    assert all(np.isfinite(m.brier_difference.high) for m in ranked.methods)


def test_auto_that_leaves_all_folds_alone_ties_with_none_exactly():
    rng = np.random.default_rng(1)
    p = rng.random(300)
    found = cb.compare(p, rng.random(300) < p, methods=["auto"])
    assert [each.name for each in found.methods] == ["none", "auto"]
    assert [each.log_loss_difference.value for each in found.methods] == [0.0, 0.0]
    assert [each.brier_difference.value for each in found.methods] == [0.0, 0.0]


def test_instances_are_compared_under_their_own_name():
    ranked = cb.compare(*draw(), methods=["sigmoid", cb.IsotonicCalibrator(bounded=True)])
    assert {m.name for m in ranked.methods} == {"sigmoid", "IsotonicCalibrator(bounded=True)", "none"}


@pytest.mark.slow
def test_raw_scores_are_compared_with_sigmoid():
    p, y = draw()
    ranked = cb.compare(np.log(p), y, input="score", methods=["isotonic", "spline", "sigmoid"])
    assert {m.name for m in ranked.methods} == {"isotonic", "spline", "sigmoid"}
    assert cb.compare(np.log(p), y, input="score", methods=None).baseline == "sigmoid"


def test_logits_are_compared_with_their_probabilities():
    p, y = draw()
    z = np.log(p) - np.log1p(-p)
    by_z = cb.compare(z, y, input="logit", methods=["temperature"])
    by_p = cb.compare(p, y, methods=["temperature"])
    for a, b in zip(by_z.methods, by_p.methods, strict=True):
        assert a.log_loss == pytest.approx(b.log_loss, abs=1e-3)


def test_many_classes_and_weights():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 500)
    y = np.array(["a", "b", "c"])[(P.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)]
    sharp = P**2 / (P**2).sum(axis=1, keepdims=True)
    ranked = cb.compare(sharp, y, methods=["temperature", "sigmoid"], sample_weight=rng.exponential(size=500))
    none = next(m for m in ranked.methods if m.name == "none")
    assert ranked.methods[0].name != "none"
    assert none.log_loss_difference.value == 0.0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p, y: cb.compare(p, y, methods=["isotonik"]), "Did you mean 'isotonic'"),
        (lambda p, y: cb.compare(p, y, cv=1), "cv=1 is too small"),
        (lambda p, y: cb.compare(p, y, level=95), r"level=95 is outside \(0, 1\)"),
        (lambda p, y: cb.compare(p, y[:5]), "scores has 600 rows and y has 5"),
        (lambda p, y: cb.compare(p, np.arange(y.size) == 7), "one row only, which can't be held out"),
        (lambda p, y: cb.compare(np.log(p), y, input="score", methods=["beta"]), "takes scores of input='probability'"),
        (lambda p, y: cb.compare(p, y, methods=[cb.BetaCalibrator(form="zz")]), "unknown value of form: 'zz'"),
        (lambda p, y: cb.compare(p, y + np.arange(600) % 2), "3 classes"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(CalibrantError, match=text):
        call(*draw())


@pytest.fixture
def file(tmp_path):
    p, y = draw()
    path = tmp_path / "scores.csv"
    path.write_text("y,p\n" + "".join(f"{a},{b!r}\n" for a, b in zip(y, p.tolist(), strict=True)))
    return str(path)


def test_the_command_ranks_and_says_what_is_best(file):
    result = CliRunner().invoke(main, ["compare", file, "--methods", "sigmoid,temperature"])
    assert result.exit_code == 0, result.output
    assert "600 rows" in result.output
    assert "Best on 600 rows in 5 folds: 'sigmoid', log loss -" in result.output
    lines = [line.split()[0] for line in result.output.splitlines()[-3:]]
    assert lines == ["sigmoid", "temperature", "none"]


def test_the_command_writes_json(file):
    result = CliRunner().invoke(main, ["compare", file, "--methods", "isotonic", "--json"])
    document = json.loads(result.output)
    assert document["baseline"] == "none"
    assert document["methods"][-1]["log_loss"] is None  # infinite
    assert document["methods"][-1]["name"] == "isotonic"


def test_nothing_better_is_said_so(tmp_path):
    p, y = draw(power=1.0)
    path = tmp_path / "scores.csv"
    path.write_text("y,p\n" + "".join(f"{a},{b!r}\n" for a, b in zip(y, p.tolist(), strict=True)))
    result = CliRunner().invoke(main, ["compare", str(path), "--methods", "histogram,mimic"])
    assert "Best on 600 rows in 5 folds: 'none'. No method does better." in result.output


def test_the_command_names_an_unknown_method(file):
    result = CliRunner().invoke(main, ["compare", file, "--methods", "bet"])
    assert result.exit_code == 2
    assert "Did you mean 'beta'" in result.output


def draw_classes(n=500, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.6), n)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, n_classes - 1)
    return truth**2 / (truth**2).sum(axis=1, keepdims=True), y


@pytest.mark.slow
@pytest.mark.parametrize("input", ["probability", "logit", "score"])
def test_several_classes_have_every_method_that_takes_such_scores_once(input):
    p, y = draw_classes()
    names = {m.name for m in cb.compare(p if input == "probability" else np.log(p), y, input=input, cv=2).methods}
    assert "one_vs_rest" not in names  # the same as isotonic
    assert {"temperature", "vector", "matrix", "ensemble_temperature", "auto", "isotonic"} <= names
    assert ("top_label" in names, "dirichlet" in names, "none" in names) == {
        "probability": (True, True, True),
        "logit": (True, False, True),
        "score": (False, False, False),
    }[input]


def test_calibrators_of_several_columns_are_compared_by_name_and_as_instances():
    p, y = draw_classes()
    ranked = cb.compare(p, y, methods=["one_vs_rest", "isotonic", "top_label", cb.TopLabelCalibrator("spline")], cv=3)
    found = {m.name: m for m in ranked.methods}
    assert found["one_vs_rest"].log_loss == found["isotonic"].log_loss
    assert found["one_vs_rest"].brier == found["isotonic"].brier
    assert found["TopLabelCalibrator('spline')"].brier != found["top_label"].brier
