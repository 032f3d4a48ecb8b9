"""Out-of-fold predictions: no row's label reaches its own prediction, and no label anything that it overlaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from calibrant.dependence import block_length
from calibrant.errors import CalibrantError, DataWarning
from calibrant.metrics import log_loss
from calibrant.numerics import FloatArray, IntArray
from calibrant.training.block_bootstrap import paired_means
from calibrant.training.dataset import Dataset
from calibrant.training.models import SklearnModel, make_model
from calibrant.training.out_of_fold import OutOfFold, fit_stopped, out_of_fold_predictions

pytestmark = pytest.mark.usefixtures("undrawn")

HORIZON = 10
#: Few rounds that overfit: what leaks is learnt at once.
FAST = {
    "xgboost": {"num_boost_round": 15, "eta": 0.3},
    "lightgbm": {"num_iterations": 15, "learning_rate": 0.3, "min_data_in_leaf": 5},
    "catboost": {"iterations": 15, "learning_rate": 0.3},
    "logistic": {},
}


def walk(n: int = 900, seed: int = 0, *, is_known: bool = False) -> Dataset:
    """A random walk's labels over the next bars, and features of the past: nothing can be learnt, much can leak.

    With `is_known` the last feature knows something of what comes, so that probabilities differ from row to row.
    """
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=n + HORIZON + 30)
    level = np.cumsum(steps)
    at = np.arange(n) + 30
    ahead = level[at + HORIZON] - level[at]
    y = np.where(ahead > 1.4, 1, np.where(ahead < -1.4, -1, 0))
    X = np.column_stack([level[at], *(level[at] - level[at - k] for k in (1, 5, 20)), np.sin(at / 50.0)])
    if is_known:
        X[:, -1] = ahead + rng.normal(0, 3, n)
    time = np.datetime64("2020-01-01") + np.arange(n)
    return Dataset(
        X=X,
        names=tuple("abcde"),
        y=y,
        classes=np.array([-1, 0, 1]),
        time=time,
        label_end=time + np.timedelta64(HORIZON, "D"),
        symbol=np.full(n, "A", dtype=object),
        weight=np.full(n, 1.0 / HORIZON),
        label_return=ahead,
        horizon_time=np.timedelta64(HORIZON, "D"),
    )


def predict(data: Dataset, model: Any = "logistic", **options: Any) -> OutOfFold:
    params = FAST.get(model) if isinstance(model, str) else None
    return out_of_fold_predictions(data, model, params=params, **{"n_folds": 4, **options})


def flip(data: Dataset, rows: IntArray) -> Dataset:
    y = data.y.copy()
    y[rows] = -y[rows] + (y[rows] == 0)
    return replace(data, y=y)


def rows_of_one_fold(found: OutOfFold) -> IntArray:
    rng = np.random.default_rng(5)
    return np.sort(rng.choice(np.flatnonzero(found.fold == 1), 20, replace=False))


@pytest.mark.parametrize("model", FAST)
def test_flipped_labels_leave_their_own_calibrated_rows_bit_identical(model: str) -> None:
    data = walk(is_known=True)
    before = predict(data, model)
    rows = rows_of_one_fold(before)
    after = predict(flip(data, rows), model)
    assert np.unique(before.calibrated[rows], axis=0).shape[0] > 10, "else nothing is tested"
    assert after.calibrated[rows].tobytes() == before.calibrated[rows].tobytes()
    assert after.raw[rows].tobytes() == before.raw[rows].tobytes()
    others = before.fold != 1
    assert (after.calibrated[others] != before.calibrated[others]).any(), "labels do count for the other folds"


@pytest.mark.parametrize("calibrator", ["isotonic", "specified"])
def test_flipped_labels_stay_away_from_their_rows_by_any_calibrator(calibrator: str) -> None:
    data = walk(is_known=True)
    before = predict(data, calibrator=calibrator)
    rows = rows_of_one_fold(before)
    after = predict(flip(data, rows), calibrator=calibrator)
    assert after.calibrated[rows].tobytes() == before.calibrated[rows].tobytes()


class Given(SklearnModel):
    """A model that says the softmax of its features, whatever it is fitted to."""

    def fit(self, X: FloatArray, codes: IntArray, **_: Any) -> Given:
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        e = np.exp(X)
        return e / e.sum(axis=1, keepdims=True)


def test_labels_that_tip_whether_the_calibrator_is_used_do_not_tip_it_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calibrant.training.out_of_fold.make_model", lambda _, n_classes, **__: Given(n_classes))
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random(600)[:, None] >= np.cumsum(truth, axis=1)[:, :2]).sum(axis=1) - 1
    data = replace(walk(600), X=0.6 * z, y=y)
    before = out_of_fold_predictions(data, n_folds=3)
    rows = np.flatnonzero(before.fold == 1)[:60]
    wrong = y.copy()
    wrong[rows] = z[rows].argmin(axis=1) - 1
    after = out_of_fold_predictions(replace(data, y=wrong), n_folds=3)
    assert before.calibration.is_used
    assert not after.calibration.is_used
    own = before.fold == 1
    assert after.calibrated[own].tobytes() == before.calibrated[own].tobytes()
    assert (after.calibrated[~own] != before.calibrated[~own]).any()


def test_blocks_alone_let_labels_through_by_the_models() -> None:
    data = walk(is_known=True)
    before = predict(data, variant="blocks")
    rows = rows_of_one_fold(before)
    after = predict(flip(data, rows), variant="blocks")
    assert after.raw[rows].tobytes() == before.raw[rows].tobytes()
    assert (after.calibrated[rows] != before.calibrated[rows]).any()


@pytest.mark.filterwarnings("ignore:variant='specified'")
def test_the_specified_variant_fails_the_test_of_flipped_labels() -> None:
    data = walk(is_known=True)
    before = predict(data, variant="specified", calibrator="specified")
    rows = rows_of_one_fold(before)
    after = predict(flip(data, rows), variant="specified", calibrator="specified")
    moved = np.abs(after.calibrated[rows] - before.calibrated[rows]).max(axis=1)
    assert after.raw[rows].tobytes() == before.raw[rows].tobytes()
    assert moved.mean() > 0.003


def test_the_specified_variant_says_that_it_is_optimistic() -> None:
    with pytest.warns(DataWarning, match="calibrates these rows too.*figures are optimistic"):
        found = predict(walk(), variant="specified")
    assert (found.variant, found.n_models) == ("specified", 4)


@pytest.mark.parametrize("model", FAST)
def test_circularly_shifted_labels_are_no_better_than_their_entropy(model: str) -> None:
    data = walk(seed=2)
    shifted = replace(data, y=np.roll(data.y, data.n_rows // 2))
    found = predict(shifted, model)
    rates = shifted.class_rates()
    entropy = -float(rates @ np.log(rates))
    losses = {
        name: -np.log(prob[np.arange(data.n_rows), shifted.codes])
        for name, prob in (("raw", found.raw), ("calibrated", found.calibrated))
    }
    for mean in paired_means(losses, block=block_length(data.time, data.label_end)).values():
        assert mean.value > entropy - 2 * mean.error


@pytest.mark.slow
def test_shuffled_folds_fail_the_test_of_shifted_labels() -> None:
    """The null test bites: random folds put overlapping labels on both sides."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import KFold, cross_val_predict

    data = walk(seed=2)
    y = np.roll(data.y, data.n_rows // 2)
    rates = data.class_rates()
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
    leaky = cross_val_predict(forest, data.X, y, cv=KFold(4, shuffle=True, random_state=0), method="predict_proba")
    assert log_loss(y, leaky, classes=[-1, 0, 1]) < -float(rates @ np.log(rates)) - 0.1


class Watching(SklearnModel):
    """A model that notes which rows it was shown: the first feature is their number."""

    seen: ClassVar[list[tuple[IntArray, IntArray, IntArray]]] = []

    def fit(self, X: FloatArray, codes: IntArray, **more: Any) -> Watching:
        self.shown = X[:, 0].astype(int), more["stop"][0][:, 0].astype(int)
        self.rates = np.bincount(codes, minlength=3) / codes.size
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        Watching.seen.append((*self.shown, X[:, 0].astype(int)))
        return np.tile(self.rates, (len(X), 1))


def test_no_model_sees_a_label_that_overlaps_what_it_predicts_and_stopping_is_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = walk(400)
    data = replace(data, X=np.column_stack((np.arange(400.0), data.X)))
    monkeypatch.setattr(
        "calibrant.training.out_of_fold.make_model", lambda _, n_classes, **more: Watching(n_classes, seed=more["seed"])
    )
    Watching.seen = []
    found = out_of_fold_predictions(data, n_folds=4)
    assert found.n_models == len(Watching.seen) == 4 + 6
    start, end = data.time, data.label_end
    for fitted, stopped, predicted in Watching.seen:
        assert set(fitted).isdisjoint(stopped)
        assert end[fitted].max() < end[-1]
        for rows in (fitted, stopped):
            for fold in np.unique(found.fold[predicted]):
                block = predicted[found.fold[predicted] == fold]
                overlaps = (start[rows] <= end[block].max()) & (end[rows] >= start[block].min())
                assert not overlaps.any()
                late = rows[start[rows] > end[block].max()]
                assert (start[late] > end[block].max() + data.horizon_time).all(), "the embargo is the horizon"
        assert not ((start[fitted] < start[stopped].min()) & (end[fitted] >= start[stopped].min())).any()


def test_every_row_is_predicted_once_and_rows_sum_to_one() -> None:
    found = predict(walk())
    assert np.bincount(found.fold).tolist() == [225] * 4
    for prob in (found.raw, found.calibrated):
        np.testing.assert_allclose(prob.sum(axis=1), 1.0, atol=1e-9)
        assert (prob >= 0).all()


def test_one_seed_repeats_and_two_differ() -> None:
    data = walk(400)
    options: dict[str, Any] = {"params": {"bagging_fraction": 0.5, "num_iterations": 5}, "n_folds": 3}
    first, again, other = (out_of_fold_predictions(data, "lightgbm", seed=seed, **options).raw for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_temperature_undoes_sharpening_that_is_known() -> None:
    data = walk(3000, seed=3)
    rng = np.random.default_rng(4)
    z = rng.normal(size=(3000, 3))
    true = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random(3000)[:, None] >= np.cumsum(true, axis=1)[:, :2]).sum(axis=1) - 1

    class Sharp(SklearnModel):
        def fit(self, X: FloatArray, codes: IntArray, **_: Any) -> Sharp:
            return self

        def predict_proba(self, X: FloatArray) -> FloatArray:
            e = np.exp(X / 0.4)
            return e / e.sum(axis=1, keepdims=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibrant.training.out_of_fold.make_model", lambda _, n_classes, **__: Sharp(n_classes))
        found = out_of_fold_predictions(replace(data, X=z, y=y), n_folds=3)
    assert np.abs(found.calibrated - true).max() < 0.03
    assert np.abs(found.raw - true).max() > 0.25


def test_weights_by_uniqueness_count_unless_left_out() -> None:
    data = walk(300)
    data = replace(data, weight=np.random.default_rng(0).uniform(0.1, 1.0, 300))
    equal = replace(data, weight=np.ones(300))
    weighted, left_out, same = (
        predict(rows, n_folds=3, uniqueness=used).raw for rows, used in ((data, True), (data, False), (equal, True))
    )
    assert left_out.tobytes() == same.tobytes() != weighted.tobytes()


def test_progress_names_each_model() -> None:
    lines: list[str] = []
    predict(walk(300), n_folds=3, progress=lines.append)
    assert len(lines) == 3 + 3
    assert lines[0].startswith("fold 1 of 3: training on ")
    assert lines[3].startswith("folds 1 and 2 of 3: training on ")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"variant": "nest"}, "Did you mean 'nested'"),
        ({"n_folds": 2}, "n_folds=2 is too small. Pass an integer of at least 3"),
        ({"calibrator": "temprature"}, "Did you mean 'temperature'"),
        ({"n_folds": 301}, "n_folds=301 is more than the 300 rows"),
        ({"embargo": 300, "n_folds": 3}, "an embargo of 300 bars leaves a fold no row to train on"),
        ({"embargo": -1}, "embargo=-1 is too small"),
    ],
)
def test_refuses(options: dict[str, Any], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        predict(walk(300), **options)


def test_refuses_calibrators_of_logits_and_training_sets_of_one_class() -> None:
    from calibrant import TemperatureCalibrator

    with pytest.raises(CalibrantError, match="models give probabilities"):
        predict(walk(300), calibrator=TemperatureCalibrator(input="logit"))
    data = walk(300)
    with pytest.raises(CalibrantError, match="holds fewer than two classes"):
        fit_stopped(make_model("logistic", 3), replace(data, y=np.ones(300, dtype=int)), np.arange(300))
