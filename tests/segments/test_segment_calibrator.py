"""SegmentCalibrator: gains where segments are off, changes nothing where they are not, and says what it needs."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant as cb
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, MissingPackageError
from calibrant.numerics import logit
from calibrant.persistence import from_document, to_document
from calibrant.segments.binning import MISSING, Binning
from calibrant.segments.boosting import Boosting, BoostingRows, Size
from calibrant.segments.choice import row_losses

N = 4_000
AGE_OFF = 40.0


def rows(seed: int, n: int = N, *, is_off: bool = True) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return scores, labels and features; where it is off, those of young Romans are too high."""
    rng = np.random.default_rng(seed)
    p, age, city = rng.uniform(0.05, 0.95, n), rng.uniform(20.0, 80.0, n), rng.choice(["Bonn", "Oslo", "Rome"], n)
    truth = np.where((age < AGE_OFF) & (city == "Rome") & is_off, p**3, p)
    return p, (rng.random(n) < truth).astype(int), {"age": age, "city": city}


def log_loss(q: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(-np.log(np.where(y == 1, q, 1.0 - q))))


@pytest.fixture(scope="module")
def fitted() -> cb.SegmentCalibrator:
    p, y, features = rows(0)
    return cb.SegmentCalibrator().fit(p, y, features=features)


def test_what_is_off_in_a_segment_is_mended_on_rows_it_has_not_seen(fitted: cb.SegmentCalibrator) -> None:
    p, y, features = rows(1, 20_000)
    q = fitted.predict_proba(p, features=features)
    assert fitted.report_.chosen == "segments"
    assert "as used" in str(fitted.report_)
    young = (features["age"] < AGE_OFF) & (features["city"] == "Rome")
    before = abs(p[young].mean() - y[young].mean())
    assert before > 0.2
    assert abs(q[young].mean() - y[young].mean()) < 0.25 * before
    assert abs(q[~young].mean() - y[~young].mean()) < 0.02
    alone = cb.AutoCalibrator().fit(*rows(0)[:2]).predict_proba(p)
    assert log_loss(q, y) < log_loss(alone, y) - 0.01


def test_gain_out_of_fold_is_that_of_new_rows(fitted: cb.SegmentCalibrator) -> None:
    p, y, features = rows(2, 40_000)
    alone = log_loss(cb.AutoCalibrator().fit(*rows(0)[:2]).predict_proba(p), y)
    gain = log_loss(fitted.predict_proba(p, features=features), y) - alone
    claimed = fitted.report_.decision.blend
    assert abs(gain - claimed.difference) < 3.0 * claimed.standard_error


@pytest.mark.parametrize("seed", range(12))
def test_calibrated_scores_get_no_segments(seed: int) -> None:
    p, y, features = rows(100 + seed, (500, 3_000)[seed % 2], is_off=False)
    fitted = cb.SegmentCalibrator("temperature").fit(p, y, features=features)
    assert fitted.report_.chosen == "none"
    assert fitted.feature_names == ()
    assert "Left alone" in fitted.report_.reason
    assert "as used" not in str(fitted.report_)
    same = cb.TemperatureCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(fitted.predict_proba(p, features=features), same)
    np.testing.assert_array_equal(fitted.predict_proba(p), same)  # no feature is needed


def test_columns_are_matched_by_name_and_others_are_not_looked_at(fitted: cb.SegmentCalibrator) -> None:
    p, _, features = rows(3, 50)
    expected = fitted.predict_proba(p, features=features)
    frame = pd.DataFrame({"other": ["x"] * 50, **features})[["city", "other", "age"]]
    for same in (frame, pl.from_pandas(frame), frame.astype({"city": "category"})):
        np.testing.assert_array_equal(fitted.predict_proba(p, features=same), expected)


def test_a_level_that_was_not_seen_counts_as_missing(fitted: cb.SegmentCalibrator) -> None:
    p = np.full(3, 0.5)
    age = np.full(3, 30.0)
    q = fitted.predict_proba(p, features={"age": age, "city": np.array(["Lima", None, "Rome"], dtype=object)})
    assert q[0] == q[1]
    assert np.isfinite(fitted.predict_proba(p, features={"age": [np.nan] * 3, "city": ["Rome"] * 3})).all()


def test_missing_values_may_tell_as_much_as_others() -> None:
    p, _, features = rows(4)
    rng = np.random.default_rng(5)
    age = np.where(features["age"] < AGE_OFF, np.nan, features["age"])
    y = rng.random(N) < np.where(np.isnan(age), p**3, p)
    fitted = cb.SegmentCalibrator().fit(p, y, features={"age": age})
    new = fitted.predict_proba([0.5, 0.5], features={"age": [np.nan, 60.0]})
    assert new[0] < 0.25
    assert new[1] > 0.4


def test_same_rows_and_seed_give_the_same_bits_at_any_number_of_threads() -> None:
    p, y, features = rows(6)
    values = np.column_stack([logit(p), features["age"]])
    binning = Binning.of(values, [False, False])
    data = BoostingRows("binary", binning.codes(values), logit(p), y.astype(float), None, ())
    made = []
    for n_threads in (1, 2):
        boosting = Boosting(data, Size(8, 0.1, 20, 10.0), seed=0, n_threads=n_threads)
        for _ in range(10):
            boosting.grow()
        made.append(boosting.trees(binning, 10, 1.0).encode())
    assert str(made[0]) == str(made[1])


def test_trees_give_what_lightgbm_gives() -> None:
    p, y, features = rows(7)
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 40, N).astype(float)
    age = np.where(rng.random(N) < 0.1, np.nan, features["age"])
    values = np.column_stack([logit(p), age, codes])
    binning = Binning.of(values, [False, False, True])
    margins = np.column_stack([logit(p), -logit(p), np.zeros(N)])
    of_three = BoostingRows("classes", binning.codes(values), margins, rng.integers(0, 3, N).astype(float), None, (2,))
    of_two = BoostingRows("binary", binning.codes(values), logit(p), y.astype(float), None, (2,))
    for data in (of_two, of_three):
        boosting = Boosting(data, Size(8, 0.1, 20, 1.0), seed=0)
        for _ in range(15):
            boosting.grow()
        ours = boosting.trees(binning, 12, 1.0)
        added = boosting.margins(np.ones(data.n_rows, dtype=bool), 12)
        np.testing.assert_allclose(ours.apply(values), added, rtol=0, atol=1e-12)
        half = boosting.trees(binning, 12, 0.5)
        np.testing.assert_allclose(half.apply(values), 0.5 * added, rtol=0, atol=1e-12)


def test_bins_keep_the_order_of_numbers() -> None:
    rng = np.random.default_rng(9)
    values = np.concatenate((rng.normal(size=5_000), np.repeat(0.5, 2_000), [np.nan])).reshape(-1, 1)
    binning = Binning.of(values, [False])
    codes = binning.codes(values)[:, 0]
    assert codes[-1] == MISSING
    order = np.argsort(values[:-1, 0], kind="stable")
    assert (np.diff(codes[:-1][order].astype(int)) >= 0).all()
    assert len(np.unique(codes)) <= 251


def test_three_classes_gain_in_a_segment() -> None:
    rng = np.random.default_rng(10)
    P = rng.dirichlet([2.0, 2.0, 2.0], 6_000)
    old = rng.random(6_000) < 0.5
    tilted = P * np.array([1.0, 1.0, 6.0])
    truth = np.where(old[:, None], tilted / tilted.sum(axis=1, keepdims=True), P)
    y = (rng.random(6_000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    features = {"old": old, "noise": rng.normal(size=6_000)}
    fitted = cb.SegmentCalibrator("temperature").fit(
        P[:3_000], y[:3_000], features={k: v[:3_000] for k, v in features.items()}
    )
    q = fitted.predict_proba(P[3_000:], features={k: v[3_000:] for k, v in features.items()})
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    assert fitted.feature_names[0] == "old"
    for side in (old[3_000:], ~old[3_000:]):
        shares = np.bincount(y[3_000:][side], minlength=3) / side.sum()
        np.testing.assert_allclose(q[side].mean(axis=0), shares, atol=0.05)


def test_two_columns_say_what_one_says(fitted: cb.SegmentCalibrator) -> None:
    p, _, features = rows(11, 100)
    both = fitted.predict_proba(np.column_stack((1.0 - p, p)), features=features)
    np.testing.assert_allclose(both[:, 1], fitted.predict_proba(p, features=features), atol=1e-12)
    np.testing.assert_allclose(both.sum(axis=1), 1.0, atol=1e-15)


def test_soft_labels_are_shares_of_rows() -> None:
    p, _, features = rows(12)
    share = np.where(features["age"] < AGE_OFF, 0.4 * p, p)
    fitted = cb.SegmentCalibrator("sigmoid", target="share").fit(p, share, features=features)
    new = fitted.predict_proba([0.5, 0.5], features={"age": [30.0, 60.0], "city": ["Rome", "Rome"]})
    np.testing.assert_allclose(new, [0.2, 0.5], atol=0.05)


def test_soft_labels_of_zero_and_one_are_labels() -> None:
    p, y, features = rows(13)
    soft = cb.SegmentCalibrator("sigmoid", target="share").fit(p, y.astype(float), features=features)
    hard = cb.SegmentCalibrator("sigmoid").fit(p, y, features=features)
    q = [each.predict_proba(p, features=features) for each in (soft, hard)]
    assert np.abs(q[0] - q[1]).mean() < 0.02  # the folds are drawn of rows in another order
    np.testing.assert_allclose(soft.map_.apply(p), hard.map_.apply(p), atol=1e-9)


@pytest.mark.parametrize("seed", [15, 16, 17])
def test_what_only_clusters_share_is_no_segment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(60), 50)
    p = rng.uniform(0.2, 0.8, cluster.size)
    y = rng.random(cluster.size) < 1.0 / (1.0 + np.exp(-logit(p) - rng.normal(0.0, 1.0, 60)[cluster]))
    features = {"site": cluster.astype(float)}
    known = cb.SegmentCalibrator("sigmoid").fit(p, y, features=features)
    apart = cb.SegmentCalibrator("sigmoid").fit(p, y, features=features, cluster=cluster)
    assert known.report_.chosen == "segments"
    assert apart.report_.chosen == "none"


def test_rows_of_weight_zero_are_no_rows() -> None:
    p, y, features = rows(15)
    weight = (np.arange(N) < 3_000).astype(float)
    weighted = cb.SegmentCalibrator("sigmoid").fit(p, y, features=features, sample_weight=weight)
    some = {name: column[:3_000] for name, column in features.items()}
    without = cb.SegmentCalibrator("sigmoid").fit(p[:3_000], y[:3_000], features=some)
    assert str(weighted.encode()) == str(without.encode())


def test_documents_give_the_same_bits_and_the_report(fitted: cb.SegmentCalibrator, tmp_path) -> None:
    p, _, features = rows(16, 200)
    cb.save(fitted, tmp_path / "c.json")
    read = cb.load(tmp_path / "c.json")
    np.testing.assert_array_equal(read.predict_proba(p, features=features), fitted.predict_proba(p, features=features))
    assert str(read.report_) == str(fitted.report_)
    assert read.facts() == fitted.facts()
    assert "age (number), city (category of 3 levels)" in fitted.facts()["features"]


def test_numbers_can_be_read_as_categories() -> None:
    p, _, _ = rows(17)
    rng = np.random.default_rng(18)
    code = rng.integers(0, 8, N)
    y = rng.random(N) < np.where(code % 2 == 1, p**2, p)
    features = {"code": code, "other": rng.random(N), "flag": rng.random(N) < 0.5}
    fitted = cb.SegmentCalibrator(categorical=["code"], numeric=["flag"]).fit(p, y, features=features)
    assert [column.kind for column in fitted.columns_] == ["category", "number", "number"]
    q = fitted.predict_proba([0.5, 0.5], features={"code": [2, 3], "other": [0.5] * 2, "flag": [True] * 2})
    assert q[1] < 0.36 < 0.43 < q[0]


def test_ids_that_float64_can_not_tell_apart_are_categories_of_their_own() -> None:
    p, y, _ = rows(6, is_off=False)
    ids = 2**53 + np.arange(N) % 2
    y = np.where(ids % 2 == 1, np.random.default_rng(2).random(N) < p**3, y)
    made = cb.SegmentCalibrator("sigmoid", categorical=["id"]).fit(p, y, features={"id": ids})
    even, odd = made.predict_proba([0.5, 0.5], features={"id": [2**53, 2**53 + 1]})
    assert odd < 0.4 < even
    with pytest.raises(
        InvalidInputError, match=r"column 'id' has the level 9007199254740992.* Fit to its values as text"
    ):
        cb.persistence.to_sql(made, "duckdb", columns=["p"])


@pytest.mark.parametrize("is_bool", [True, False])
def test_a_truth_value_is_the_same_as_zero_and_one(is_bool: bool) -> None:
    """As in SQL and ONNX, where a model has one answer for both."""
    p, y, _ = rows(6, is_off=False)
    flag = np.random.default_rng(1).random(N) < 0.5
    y = np.where(flag, np.random.default_rng(2).random(N) < p**3, y)
    made = cb.SegmentCalibrator("sigmoid", categorical=None if is_bool else ["flag"])
    made.fit(p, y, features={"flag": flag if is_bool else flag.astype(int)})
    is_true, is_false, missing = made.predict_proba([0.5] * 3, features={"flag": [True, False, None]})
    assert is_true < missing <= is_false
    for value in (1, 1.0, "1"):
        assert made.predict_proba([0.5], features={"flag": [value]}) == is_true
    assert made.predict_proba([0.5], features={"flag": [0.0]}) == is_false


def test_a_step_of_a_chain_takes_its_features(fitted: cb.SegmentCalibrator) -> None:
    p, _, features = rows(19, 100)
    shift = cb.prior.PriorShift.from_priors(old=0.5, new=0.1, classes=[0, 1])
    chain = cb.Chain([fitted, shift])
    expected = shift.predict_proba(fitted.predict_proba(p, features=features))
    np.testing.assert_array_equal(chain.predict_proba(p, features=features), expected)
    with pytest.raises(CalibrantError, match="Pass these columns as features"):
        chain.predict_proba(p)


def test_losses_are_those_of_the_field() -> None:
    from sklearn.metrics import log_loss as reference

    rng = np.random.default_rng(20)
    z, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    q = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert row_losses("classes", z, y.astype(float)).mean() == pytest.approx(reference(y, q))
    two = (y > 0).astype(float)
    p = 1.0 / (1.0 + np.exp(-z[:, 0]))
    assert row_losses("binary", z[:, 0], two).mean() == pytest.approx(reference(two, p))
    assert row_losses("mean", z[:, 0], two).mean() == pytest.approx(0.5 * np.mean((two - z[:, 0]) ** 2))


@pytest.mark.parametrize(
    ("settings", "change", "match"),
    [
        ({"categorical": ["town"]}, {}, "unknown column of features 'town'"),
        ({"categorical": ["citi"]}, {}, r"Did you mean 'city'"),
        ({"categorical": ["city"], "numeric": ["city"]}, {}, "names column 'city' twice or as both"),
        ({"categorical": "city"}, {}, "pass a list of names"),
        ({"numeric": ["city"]}, {}, "holds text"),
        ({"categorical": ["age"]}, {}, "is no level of a category"),
        ({"cv": 1}, {}, "cv=1"),
        ({"target": "soft"}, {}, "target"),
        ({"target": "share"}, {"y": np.full(200, 1.5)}, "outside"),
        ({"target": "share"}, {"y": np.ones(200)}, "y is 1 in every row"),
        ({}, {"features": None}, "features is a NoneType"),
        ({}, {"features": np.zeros((200, 2))}, "whose columns have no names"),
        ({}, {"features": {}}, "features has no columns"),
        ({}, {"features": {"age": np.zeros(199)}}, "199"),
        ({}, {"features": {"age": np.full(200, np.inf)}}, "is not finite"),
        ({}, {"features": {"when": np.zeros(200, dtype="datetime64[s]")}}, "of a date, such as its year"),
        ({}, {"features": {"age": [1, "a"] * 100}}, "mixes kinds"),
    ],
)
def test_mistakes_are_told(settings, change, match) -> None:
    p, y, features = rows(21, 200)
    given = {"y": y, "features": features, **change}
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        cb.SegmentCalibrator(**settings).fit(p, given["y"], features=given["features"])


def test_missing_features_are_named_at_prediction(fitted: cb.SegmentCalibrator) -> None:
    with pytest.raises(
        InvalidInputError, match=r"was fitted to features\. Pass these columns as features: 'age', 'city'"
    ):
        fitted.predict_proba([0.5])
    with pytest.raises(InvalidInputError, match=r"has no column 'city'.*Did you mean 'City'"):
        fitted.predict_proba([0.5], features={"age": [1.0], "City": ["Rome"]})
    with pytest.raises(InvalidInputError, match=r"was not fitted to features\. Leave features out"):
        cb.TemperatureCalibrator().fit(*rows(22, 200)[:2]).predict_proba([0.5], features={"age": [1.0]})


def test_a_missing_package_is_told_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    p, y, features = rows(23, 200)
    with pytest.raises(MissingPackageError, match=r"pip install 'calibrant\[segments\]'"):
        cb.SegmentCalibrator().fit(p, y, features=features)


def test_a_fit_that_fails_leaves_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y, features = rows(23, 200)
    segments = cb.SegmentCalibrator("beta").fit(p, y, features=features)
    mean = cb.SegmentMeanCalibrator().fit(p, y, features=features)
    before, mean_before = to_document(segments), to_document(mean)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    for made, scores in ((segments, p**2), (mean, p**2)):
        with pytest.raises(MissingPackageError):
            made.fit(scores, y, features=features)
        unfitted = made.fresh()
        with pytest.raises(MissingPackageError):
            unfitted.fit(scores, y, features=features)
        assert not unfitted.is_fitted
    assert (to_document(segments), to_document(mean)) == (before, mean_before)


def test_two_columns_that_are_calibrated_one_by_one_gain_too() -> None:
    p, y, features = rows(26)
    segments = cb.SegmentCalibrator(cb.OneVsRestCalibrator("beta")).fit(np.c_[1.0 - p, p], y, features=features)
    assert segments.report_.chosen == "segments"
    new, y_new, seen = rows(27)
    q = segments.predict_proba(np.c_[1.0 - new, new], features=seen)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert log_loss(q[:, 1], y_new) < log_loss(new, y_new) - 0.005
    again = from_document(to_document(segments))
    np.testing.assert_array_equal(again.predict_proba(np.c_[1.0 - new, new], features=seen), q)


@pytest.mark.parametrize("seed", [0, 4])
def test_columns_that_no_split_can_use_do_not_end_the_growth(seed: int) -> None:
    """A split chooses among half of the columns, which may be such ones only."""
    rng = np.random.default_rng(seed)
    p, age = rng.random(N), rng.uniform(20.0, 80.0, N)
    y = rng.random(N) < np.where(age < AGE_OFF, p**2, p)
    rare = {f"rare{j}": (np.arange(N) % (N // 12) == j).astype(float) for j in range(25)}  # of 12 rows each
    fitted = cb.SegmentCalibrator("sigmoid").fit(p, y, features={"age": age, **rare})
    assert min(tried.n_rounds for tried in fitted.report_.tried) >= 6
    q = fitted.predict_proba([0.5, 0.5], features={"age": [30.0, 60.0], **{name: [0.0, 0.0] for name in rare}})
    np.testing.assert_allclose(q, [0.25, 0.5], atol=0.1)


def test_constant_scores_leave_the_features() -> None:
    _, _, features = rows(24)
    rng = np.random.default_rng(25)
    y = rng.random(N) < np.where(features["age"] < AGE_OFF, 0.2, 0.6)
    fitted = cb.SegmentCalibrator().fit(np.full(N, 0.5), y, features=features)
    ages = np.arange(20.0, 80.0)
    q = fitted.predict_proba(np.full(60, 0.5), features={"age": ages, "city": ["Bonn"] * 60})
    truth = np.where(ages < AGE_OFF, 0.2, 0.6)
    assert np.sqrt(np.mean((q - truth) ** 2)) < 0.035
    assert np.abs(q - truth).max() < 0.08
    np.testing.assert_allclose([q[ages < AGE_OFF].mean(), q[ages >= AGE_OFF].mean()], [0.2, 0.6], atol=0.03)
