"""The grouped calibrator: own maps where groups are large, that of all rows where they are small or new."""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS
from calibrant.errors import (
    DataWarning,
    DocumentError,
    InvalidInputError,
    InvalidLabelError,
    InvalidTypeError,
    NotFittedError,
    ShapeError,
    UnknownNameError,
)
from calibrant.grouped import STRENGTHS
from calibrant.persistence import from_document, to_document

Draw = tuple[Any, Any, Any]


def cities(n: int = 2000, seed: int = 0, spread: float = 1.0) -> Draw:
    rng = np.random.default_rng(seed)
    p, city = rng.uniform(0.02, 0.98, n), rng.choice(["Bonn", "Kyiv", "Rome"], n, p=[0.6, 0.1, 0.3])
    shift = spread * np.select([city == "Rome", city == "Kyiv"], [-1.0, 1.0], 0.0)
    truth = 1 / (1 + np.exp(-np.log(p / (1 - p)) - shift))
    return p, (rng.random(n) < truth).astype(int), city


def log_loss(y: Any, q: Any) -> float:
    return float(cb.metrics.log_loss(y, q))


@pytest.mark.parametrize("method", BINARY_CALIBRATORS)
def test_without_shrinkage_each_group_is_a_fit_of_its_own(method: str) -> None:
    p, y, city = cities()
    calibrator = cb.GroupedCalibrator(method, shrinkage=0).fit(p, y, groups=city)
    for name in ("Bonn", "Kyiv", "Rome"):
        kept = city == name
        alone = BINARY_CALIBRATORS[method]().fit(p[kept], y[kept]).predict_proba(p[kept])
        inner = (alone > 0.0) & (alone < 1.0)
        out = calibrator.predict_proba(p[kept], groups=city[kept])
        np.testing.assert_allclose(out[inner], alone[inner], atol=1e-9)
        assert ((out > 0.0) & (out < 1.0)).all()


def test_with_endless_shrinkage_all_groups_are_one() -> None:
    p, y, city = cities()
    calibrator = cb.GroupedCalibrator("beta", shrinkage=math.inf).fit(p, y, groups=city)
    np.testing.assert_allclose(
        calibrator.predict_proba(p, groups=city), cb.BetaCalibrator().fit(p, y).predict_proba(p), rtol=1e-9
    )


def test_blend_is_the_mean_logit_by_effective_rows() -> None:
    p, y, city = cities()
    weight = np.random.default_rng(1).gamma(2.0, 1.0, p.size)
    fit = {"sample_weight": weight}
    calibrator = cb.GroupedCalibrator("sigmoid", shrinkage=200).fit(p, y, groups=city, **fit)
    pooled = cb.SigmoidCalibrator().fit(p, y, **fit).predict_proba(p)
    rome = city == "Rome"
    own = cb.SigmoidCalibrator().fit(p[rome], y[rome], sample_weight=weight[rome]).predict_proba(p[rome])
    size = weight[rome].sum() ** 2 / (weight[rome] ** 2).sum()
    share = size / (size + 200)
    z = share * np.log(own / (1 - own)) + (1 - share) * np.log(pooled[rome] / (1 - pooled[rome]))
    np.testing.assert_allclose(calibrator.predict_proba(p[rome], groups=city[rome]), 1 / (1 + np.exp(-z)), rtol=1e-9)
    assert calibrator.group_maps_[2].share == pytest.approx(share)


@pytest.mark.parametrize("method", ["isotonic", "beta"])
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
def test_chosen_strength_is_close_to_the_best_on_new_rows(method: str, spread: float) -> None:
    fit, new = cities(1500, 1, spread), cities(20_000, 2, spread)

    def held_out(shrinkage: Any) -> float:
        calibrator = cb.GroupedCalibrator(method, shrinkage=shrinkage).fit(fit[0], fit[1], groups=fit[2])
        return log_loss(new[1], np.clip(calibrator.predict_proba(new[0], groups=new[2]), 1e-9, 1 - 1e-9))

    losses = [held_out(m) for m in STRENGTHS]
    assert held_out("auto") <= min(losses) + 0.003
    assert max(losses) - min(losses) > 0.0005  # there was something to choose


def test_chosen_strength_has_the_lowest_cross_validated_loss() -> None:
    p, y, city = cities()
    calibrator = cb.GroupedCalibrator("beta").fit(p, y, groups=city)
    assert calibrator.cv_log_loss_ is not None
    assert set(calibrator.cv_log_loss_) == set(STRENGTHS)
    assert calibrator.cv_log_loss_[calibrator.shrinkage_] == min(calibrator.cv_log_loss_.values())
    assert calibrator.shrinkage_ < 1000
    alike = cb.GroupedCalibrator("beta").fit(p, cities(spread=0.0)[1], groups=np.arange(p.size) % 3)
    assert alike.shrinkage_ > calibrator.shrinkage_


def test_unseen_group_gets_the_map_of_all_rows_and_is_named() -> None:
    p, y, city = cities()
    calibrator = cb.GroupedCalibrator("beta").fit(p, y, groups=city)
    new = np.where(np.arange(100) < 3, "Oslo", "Rome")
    with pytest.warns(DataWarning, match=r"groups holds 1 group that fit has not seen, 'Oslo' \(3 of 100 rows\)"):
        out = calibrator.predict_proba(p[:100], groups=new)
    pooled = cb.BetaCalibrator().fit(p, y).predict_proba(p[:100])
    assert out[:3].tolist() == pooled[:3].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert out[3:].tolist() == calibrator.predict_proba(p[3:100], groups=["Rome"] * 97).tolist()


def test_true_is_not_the_group_one() -> None:
    p, y, _ = cities()
    calibrator = cb.GroupedCalibrator("beta").fit(p, y, groups=np.arange(p.size) % 2)
    with pytest.warns(DataWarning, match="has not seen, True"):
        calibrator.predict_proba([0.5], groups=[True])


def test_group_of_one_class_keeps_some_doubt() -> None:
    p, y, city = cities()
    y = np.where(city == "Kyiv", 0, y)
    calibrator = cb.GroupedCalibrator("isotonic", shrinkage=0).fit(p, y, groups=city)
    n = int((city == "Kyiv").sum())
    np.testing.assert_allclose(calibrator.predict_proba([0.1, 0.9], groups=["Kyiv"] * 2), 1 / (n + 2), rtol=1e-9)
    drawn = cb.GroupedCalibrator("isotonic", shrinkage=100).fit(p, y, groups=city).predict_proba([0.5], groups=["Kyiv"])
    assert 1 / (n + 2) < drawn[0] < 0.2


def test_one_row_alone_gets_the_same_bits_as_in_a_batch() -> None:
    p, y, city = cities(400)
    calibrator = cb.GroupedCalibrator("beta").fit(p, y, groups=city)
    batch = calibrator.predict_proba(p, groups=city)
    assert [calibrator.predict_proba(p[i : i + 1], groups=city[i : i + 1])[0] for i in range(50)] == batch[:50].tolist()


def test_maps_of_all_groups_rise() -> None:
    p, y, city = cities()
    for method in ("isotonic", "beta", "sigmoid"):
        calibrator = cb.GroupedCalibrator(method).fit(p, y, groups=city)
        for name in ("Bonn", "Kyiv", "Rome"):
            assert (np.diff(calibrator.predict_proba(np.linspace(0, 1, 500), groups=[name] * 500)) >= -1e-15).all()


def test_order_of_rows_changes_nothing_without_folds() -> None:
    p, y, city = cities(500)
    order = np.random.default_rng(5).permutation(500)
    first = cb.GroupedCalibrator("isotonic", shrinkage=50).fit(p, y, groups=city)
    second = cb.GroupedCalibrator("isotonic", shrinkage=50).fit(p[order], y[order], groups=city[order])
    assert first.predict_proba(p, groups=city).tolist() == second.predict_proba(p, groups=city).tolist()


def test_row_of_weight_zero_is_no_row() -> None:
    p, y, city = cities(600)
    weight = np.where(city == "Kyiv", 0.0, 1.0)
    kept = weight > 0
    first = cb.GroupedCalibrator().fit(p, y, groups=city, sample_weight=weight)
    second = cb.GroupedCalibrator().fit(p[kept], y[kept], groups=city[kept])
    assert first.groups_.tolist() == ["Bonn", "Rome"]
    assert first.cv_log_loss_ == second.cv_log_loss_
    assert to_document(first) == to_document(second)


@pytest.mark.parametrize("method", ["temperature", "sigmoid", "isotonic"])
def test_several_classes_sum_to_one_and_help(method: str) -> None:
    rng = np.random.default_rng(0)
    truth, by = rng.dirichlet(np.ones(3), 3000), rng.choice(["x", "y"], 3000)
    y = np.array([rng.choice(3, p=row) for row in truth])
    P = np.where((by == "x")[:, None], truth**3, truth**0.5)
    P /= P.sum(axis=1, keepdims=True)
    calibrator = cb.GroupedCalibrator(method).fit(P, y, groups=by)
    out = calibrator.predict_proba(P, groups=by)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    pooled = cb.calibrators.make_calibrator(method).fit(P, y).predict_proba(P)
    assert cb.metrics.brier_score(y, out) < cb.metrics.brier_score(y, pooled) - 0.005
    lacking = np.where(y == 2, "full", by)
    again = cb.GroupedCalibrator(method).fit(P, y, groups=lacking)
    assert np.isfinite(again.predict_proba(P, groups=lacking)).all()


def test_two_columns_are_one_problem() -> None:
    p, y, city = cities(800)
    y = np.where(city == "Kyiv", 1, y)
    one = cb.GroupedCalibrator("beta").fit(p, y, groups=city)
    two = cb.GroupedCalibrator("beta").fit(np.column_stack((1 - p, p)), y, groups=city)
    np.testing.assert_allclose(
        two.predict_proba(np.column_stack((1 - p, p)), groups=city)[:, 1], one.predict_proba(p, groups=city), rtol=1e-9
    )


def test_containers_come_back_and_groups_come_in_any() -> None:
    p, y, city = cities(500)
    calibrator = cb.GroupedCalibrator("beta").fit(pl.Series("p", p), y, groups=pl.Series(city))
    expected = calibrator.predict_proba(p, groups=city)
    series = calibrator.predict_proba(pd.Series(p, index=range(5, 505)), groups=pd.Categorical(city))
    assert isinstance(series, pd.Series)
    assert series.index[0] == 5
    assert series.to_numpy().tolist() == expected.tolist()


@pytest.mark.slow
def test_many_groups_are_fitted() -> None:
    rng = np.random.default_rng(0)
    p, by = rng.random(6000), rng.integers(0, 1500, 6000)
    calibrator = cb.GroupedCalibrator("isotonic").fit(p, rng.random(6000) < p, groups=by)
    assert len(calibrator.group_maps_) == len(np.unique(by))
    assert np.isfinite(calibrator.predict_proba(p, groups=by)).all()


# --- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 30.5, math.inf])
@pytest.mark.parametrize("labels", ["text", "int", "bool"])
def test_comes_back_bit_for_bit(tmp_path: Path, suffix: str, shrinkage: Any, labels: str) -> None:
    p, y, city = cities(300)
    by = {"text": city, "int": (city == "Rome") + 5, "bool": city == "Rome"}[labels]
    fitted = cb.GroupedCalibrator(cb.IsotonicCalibrator(bounded=True), shrinkage=shrinkage).fit(p, y, groups=by)
    cb.save(fitted, tmp_path / f"c{suffix}", metadata={"group": "city"})
    loaded = cb.load(tmp_path / f"c{suffix}")
    assert loaded.predict_proba(p, groups=by).tobytes() == fitted.predict_proba(p, groups=by).tobytes()
    assert [(type(g), g) for g in loaded.groups_.tolist()] == [(type(g), g) for g in fitted.groups_.tolist()]
    assert loaded.shrinkage_ == fitted.shrinkage_
    assert loaded.shrinkage == shrinkage
    assert loaded.metadata_ == {"group": "city"}
    assert repr(loaded) == repr(fitted)
    assert to_document(loaded.fit(p, y, groups=by))["group_maps"] == to_document(fitted)["group_maps"]


def test_groups_lacking_a_class_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 300)
    y, by = np.array([rng.choice(3, p=row) for row in P]), rng.integers(0, 6, 300)
    y[by == 1] = 2
    fitted = cb.GroupedCalibrator("temperature").fit(P, y, groups=by)
    cb.save(fitted, tmp_path / "c.json")
    assert (
        cb.load(tmp_path / "c.json").predict_proba(P, groups=by).tobytes()
        == fitted.predict_proba(P, groups=by).tobytes()
    )


SOFTMAX = {"kind": "softmax", "weight": 1.0, "bias": [0.0, 0.0, 0.0], "clip": None}
MAPS = [{"n_rows": 1, "share": 0.5, "clip": 0.1, "map": SOFTMAX}] * 2


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("groups", 1), "Bonn", r"groups\[1\]: 'Bonn' is not above the class before it"),
        (("groups", 0), 3, r"groups\[1\]: 'Kyiv' is of another kind"),
        (("groups",), [], "groups: an empty list is too short"),
        (("groups",), ["Bonn"], "does not go with 1 group:"),
        (("group_maps", 0, "share"), 1.5, r"group_maps\[0\].share: 1.5 is outside \[0, 1\]"),
        (("group_maps",), MAPS[:1], "group_maps: a list of 1 does not go with 3 groups"),
        (("group_maps", 0, "clip"), 0.5, r"group_maps\[0\].clip: 0.5 is outside \(0, 0.5\)"),
        (("clip",), 0.0, r"clip: 0.0 is outside \(0, 0.5\)"),
        (("group_maps", 0, "n_rows"), 0, r"group_maps\[0\].n_rows: 0 is outside"),
        (("shrinkage",), -1.0, "shrinkage: -1.0 is below 0"),
        (("settings", "shrinkage"), 1.0, "shrinkage: .* is another strength than that of the settings"),
        (("group_maps", 0, "map"), MAPS[1]["map"], "map: an object of 4 takes another number of columns"),
        (("group_maps", 0, "map", "kind"), "step", r"group_maps\[0\]"),
        (("settings", "calibrator"), "beet", "settings.calibrator: 'beet' is none of"),
        (("extra",), 1, "unknown field 'extra'"),
    ],
)
def test_broken_document_is_refused_by_field(path: tuple[Any, ...], value: Any, message: str) -> None:
    p, y, city = cities(300)
    document = copy.deepcopy(to_document(cb.GroupedCalibrator("beta").fit(p, y, groups=city)))
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(DocumentError, match=message):
        from_document(document)


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shrinkage", "kind", "message"),
    [
        ("much", InvalidTypeError, "shrinkage='much' is not a number"),
        (-1, InvalidInputError, r"shrinkage=-1 is outside \[0, inf\)\. Pass a number .* infinity or \"auto\""),
        (math.nan, InvalidInputError, "shrinkage=nan is outside"),
        (True, InvalidTypeError, "shrinkage=True is not a number"),
        (None, InvalidTypeError, "shrinkage=None is not a number"),
    ],
)
def test_strength_that_is_none_is_refused(shrinkage: Any, kind: type[Exception], message: str) -> None:
    p, y, city = cities(50)
    with pytest.raises(kind, match=message):
        cb.GroupedCalibrator(shrinkage=shrinkage).fit(p, y, groups=city)


@pytest.mark.parametrize("shrinkage", ["auto", 100.0])
def test_a_group_without_rows_of_a_class_is_named_and_an_earlier_fit_stays(shrinkage: Any) -> None:
    z = np.random.default_rng(0).normal(size=(300, 3))
    y, group = z.argmax(axis=1), np.arange(300) % 3
    lacking = np.where((group == 2) & (y == 2), 0, y)
    grouped = cb.GroupedCalibrator(cb.IsotonicCalibrator(input="score"), shrinkage=shrinkage)
    message = "group 2 has 100 rows, and none of class 2 to calibrate its raw scores on"
    with pytest.raises(InvalidInputError, match=message):
        grouped.fit(z, lacking, groups=group)
    assert not grouped.is_fitted
    before = grouped.fit(z, y, groups=group).predict_proba(z, groups=group)
    with pytest.raises(InvalidInputError, match=message):
        grouped.fit(z[::-1], lacking, groups=group)
    np.testing.assert_array_equal(grouped.predict_proba(z, groups=group), before)


def test_a_group_that_lacks_a_class_in_a_fold_alone_is_named() -> None:
    z = np.random.default_rng(0).normal(size=(300, 3))
    y, group = z.argmax(axis=1), np.arange(300) % 3
    y[(group == 2) & (y == 2)] = 0
    y[2] = 2
    with pytest.raises(InvalidInputError, match=r"group 2, without a fold .*, has .* none of class 2"):
        cb.GroupedCalibrator(cb.IsotonicCalibrator(input="score")).fit(z, y, groups=group)


def test_what_can_not_be_used_is_said() -> None:
    p, y, city = cities(50)
    with pytest.raises(NotFittedError, match="Call fit\\(scores, y, groups=groups\\) first"):
        cb.GroupedCalibrator().predict_proba(p, groups=city)
    with pytest.raises(ShapeError, match="scores has 50 rows and groups has 49"):
        cb.GroupedCalibrator().fit(p, y, groups=city[1:])
    with pytest.raises(InvalidLabelError, match="groups row 0: missing label"):
        cb.GroupedCalibrator().fit(p, y, groups=[None, *city[1:]])
    with pytest.raises(UnknownNameError, match="unknown calibrator 'isotone'"):
        cb.GroupedCalibrator("isotone").fit(p, y, groups=city)
    with pytest.raises(InvalidInputError, match="unknown value of form: 'zz'"):
        cb.GroupedCalibrator(cb.BetaCalibrator(form="zz")).fit(p, y, groups=city)
    fitted = cb.GroupedCalibrator().fit(p, y, groups=city)
    with pytest.raises(ShapeError, match="scores has 50 rows and groups has 1"):
        fitted.predict_proba(p, groups=["Rome"])
    with pytest.raises(ShapeError, match="scores has 3 columns"):
        fitted.predict_proba([[0.2, 0.3, 0.5]], groups=["Rome"])
    with pytest.raises(InvalidInputError, match=r"1\.5 is outside"):
        fitted.predict_proba([1.5], groups=["Rome"])
