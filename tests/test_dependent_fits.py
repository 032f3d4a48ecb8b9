"""Fits and comparisons that cross-validate rows which are not independent: clusters, labels that overlap, splitters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, ShuffleSplit

import calibrant as cb
from calibrant.calibrators import out_of_fold, row_splits
from calibrant.errors import InvalidInputError
from calibrant.metrics import audit
from calibrant.rows import read_rows
from calibrant.splits import PurgedKFold


def clustered(n: int = 2_000, size: int = 20, seed: int = 0, shared: float = 0.5) -> tuple[Any, Any, Any]:
    """Return calibrated rows whose clusters share a part of the chance, in no order."""
    rng = np.random.default_rng(seed)
    p, cluster = 1.0 / (1.0 + np.exp(-rng.normal(size=n))), rng.permutation(np.arange(n) // size)
    u = norm.cdf(np.sqrt(shared) * rng.normal(size=n // size)[cluster] + np.sqrt(1.0 - shared) * rng.normal(size=n))
    return p, u < p, cluster


def test_no_cluster_is_on_both_sides_and_each_row_is_held_out_once() -> None:
    p, y, cluster = clustered(400)
    rows = read_rows(p, y, cluster=cluster)
    for cv in (5, GroupKFold(4), LeaveOneGroupOut()):
        splits = row_splits(rows, cv)
        assert np.array_equal(np.sum([split.held_out for split in splits], axis=0), np.ones(400))
        for split in splits:
            assert not np.intersect1d(cluster[split.fitted], cluster[split.held_out]).size


def test_a_splitter_without_the_times_is_purged_by_those_of_the_rows() -> None:
    p, y, _ = clustered(300)
    time = np.arange(300)
    rows = read_rows(p, y, time=time, label_end=time + 10)
    for split in row_splits(rows, PurgedKFold(5)):
        held = time[split.held_out]
        assert not split.fitted[max(held.min() - 10, 0) : held.max() + 11].any()


@pytest.mark.parametrize(
    ("cv", "problem"), [(ShuffleSplit(3), "held out twice"), (ShuffleSplit(1), "holds out one part only")]
)
def test_splitters_that_hold_rows_out_twice_or_never_are_refused(cv: Any, problem: str) -> None:
    p, y, _ = clustered(100)
    with pytest.raises(InvalidInputError, match=problem):
        cb.compare(p, y, cv=cv)


def test_one_cluster_leaves_nothing_to_fit_to() -> None:
    p, y, _ = clustered(100)
    for fit in (cb.AutoCalibrator().fit, cb.compare):
        with pytest.raises(InvalidInputError, match="all rows are of one cluster"):
            fit(p, y, cluster=np.zeros(100))
        with pytest.raises(InvalidInputError, match="each class is in one cluster alone, so nothing is left to fit to"):
            fit(p, y, cluster=y)


def test_labels_that_all_overlap_leave_nothing_to_fit_to() -> None:
    """Figures were those of scores without a fit, called out of fold, where it was no ValueError of NumPy."""
    p, y, cluster = clustered(100)
    dependent = {"time": np.arange(100), "label_end": np.arange(100) + 1_000}
    fits = [cb.AutoCalibrator().fit, cb.compare, cb.SegmentCalibrator("sigmoid").fit, cb.SegmentMeanCalibrator().fit]
    for fit in [*fits, lambda p, y, **of: cb.ProbabilityCalibrator().fit(y, p, **of)]:
        takes = {"features": {"p": p}} if fit in fits[2:] else {}
        with pytest.raises(InvalidInputError, match="the 20 rows that cv=5 holds out, so nothing is left to fit to"):
            fit(p, y.astype(int), **takes, **dependent)
        for of in ({"cluster": np.arange(100) % 5}, {"cluster": cluster}):
            with pytest.raises(InvalidInputError, match="nothing is left to fit to"):
                fit(p, y.astype(int), **takes, **dependent, **of)


def test_clusters_with_times_lose_the_labels_that_overlap_one_of_those_held_out() -> None:
    p, y, _ = clustered(400)
    time, cluster = np.arange(400), np.arange(400) // 20
    rows = read_rows(p, y, cluster=cluster, time=time, label_end=time + 3)
    for split in row_splits(rows, 5):
        held = time[split.held_out]
        near = (np.abs(time[:, None] - held) <= 3).any(axis=1)
        assert np.array_equal(split.fitted, ~near)


def test_out_of_fold_values_of_a_splitter_are_those_of_its_own_fits() -> None:
    p, y, cluster = clustered(400)
    rows = read_rows(p, y, cluster=cluster)
    found = out_of_fold(cb.SigmoidCalibrator(), rows, row_splits(rows, GroupKFold(4)))
    for train, test in GroupKFold(4).split(p, y, cluster):
        fitted = cb.SigmoidCalibrator().fit(p[train], y[train])
        assert found[test] == pytest.approx(fitted.predict_proba(p[test]), abs=1e-12)


def test_a_splitter_that_lacks_its_clusters_is_told_and_an_earlier_fit_stays() -> None:
    p, y, cluster = clustered(400)
    facade = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=GroupKFold(4)))
    measured, before = facade.fit(y, p, cluster=cluster), facade.predict_proba(p)
    with pytest.raises(InvalidInputError, match=r"GroupKFold.* can't split the 400 rows .*pass cluster="):
        facade.fit(y, p**2)
    assert facade.metrics_ == measured
    np.testing.assert_array_equal(facade.predict_proba(p), before)


def test_a_saved_facade_keeps_the_number_of_folds_of_its_splitter(tmp_path: Any) -> None:
    p, y, cluster = clustered(400)
    facade = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=GroupKFold(4)))
    found = facade.fit(y, p, cluster=cluster)
    assert (found.n_folds, found.n_rows) == (4, 400)
    facade.save(tmp_path / "c.json")
    loaded = cb.ProbabilityCalibrator.load(tmp_path / "c.json")
    assert loaded.config.cv == 4
    assert np.array_equal(loaded.predict_proba(p), facade.predict_proba(p))


@pytest.mark.slow
def test_auto_leaves_calibrated_clusters_alone_where_they_are_declared() -> None:
    """Ignored, the effects of 40 clusters look like a shape that can be corrected."""
    changed = {"ignored": 0, "declared": 0}
    for seed in range(20):
        p, y, cluster = clustered(2_000, 50, seed, shared=0.8)
        p = np.clip(p + 0.05 * np.random.default_rng(seed).normal(size=40)[cluster], 0.01, 0.99)  # names the cluster
        changed["ignored"] += cb.AutoCalibrator().fit(p, y).report_.chosen != "none"
        changed["declared"] += cb.AutoCalibrator().fit(p, y, cluster=cluster).report_.chosen != "none"
    assert changed["declared"] < changed["ignored"]


def test_intervals_of_a_comparison_are_between_clusters() -> None:
    """Against the variance of the sums over clusters, as many times larger as the fits of the folds vary."""
    p, y, cluster = clustered(2_000, 20, 1)
    found = cb.compare(p, y, methods=["sigmoid"], cluster=cluster, cv=GroupKFold(5))
    (sigmoid,) = [method for method in found.methods if method.name == "sigmoid"]
    parts = list(GroupKFold(5).split(p, y, cluster))
    by_fit = np.array([cb.SigmoidCalibrator().fit(p[train], y[train]).predict_proba(p) for train, _ in parts])
    change = np.empty(2_000)
    for fit, (_, test) in zip(by_fit, parts, strict=True):
        change[test] = ((fit - y) ** 2 - (p - y) ** 2)[test]
    sums = np.bincount(cluster, change - change.mean())
    error = np.sqrt(np.sum(sums**2) * 100 / 99) / 2_000
    assert sigmoid.brier_difference.value == pytest.approx(change.mean())
    half = 0.5 * (sigmoid.brier_difference.high - sigmoid.brier_difference.low)
    between_fits = 4 * ((by_fit - y) ** 2).var(axis=0).mean()  # the jackknife over five folds of clusters
    error = max(error, np.sqrt(change.var() / 1_999)) * np.sqrt(1.0 + between_fits / change.var())
    assert half == pytest.approx(1.984 * error, rel=0.01)  # t with 99 degrees of freedom


@pytest.mark.parametrize("cv", [None, 4])
def test_classifier_keeps_groups_whole_where_cv_is_a_number(cv: int | None) -> None:
    rng = np.random.default_rng(0)
    groups, X = np.arange(300) // 10, rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    seen: list[Any] = []

    class Spy(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            seen.append(X[:, 0].copy())
            return super().fit(X, y)

    cb.CalibratedClassifierCV(Spy(), cv=cv, ensemble=True).fit(X, y, groups=groups)
    assert len(seen) == (5 if cv is None else cv)
    for column in seen:
        trained = np.isin(X[:, 0], column)
        assert all(trained[groups == g].all() or not trained[groups == g].any() for g in range(30))


@pytest.mark.slow
def test_an_audit_of_clusters_finds_what_is_off_and_no_more() -> None:
    false_alarms = {"ignored": 0, "declared": 0, "in time": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p, y, cluster = clustered(2_000, 20, seed)
        groups = {"ward": rng.integers(0, 4, 100)[cluster], "sex": rng.integers(0, 2, 2_000)}
        in_time = np.argsort(cluster, kind="stable")
        known = {"time": np.arange(2_000), "label_end": np.arange(2_000) + 20}
        false_alarms["ignored"] += bool(audit(y, p, features=groups).off)
        false_alarms["declared"] += bool(audit(y, p, features=groups, cluster=cluster).off)
        moved = {name: column[in_time] for name, column in groups.items()}
        false_alarms["in time"] += bool(audit(y[in_time], p[in_time], features=moved, **known).off)
    assert false_alarms["ignored"] > 10
    assert false_alarms["declared"] <= 4
    assert false_alarms["in time"] <= 4
    p, y, cluster = clustered(4_000, 20, 0)
    ward = np.random.default_rng(0).integers(0, 4, 200)[cluster]
    y = np.where(ward == 0, y & (np.random.default_rng(1).random(4_000) < 0.5), y)
    assert ("ward", 0) in audit(y, p, features={"ward": ward}, cluster=cluster).off[0].where
