"""SegmentMeanCalibrator: means of numbers come true in segments; and losses of boosting are those of the field."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calibrant as cb
from calibrant.errors import CalibrantError, DocumentError, InvalidScoreError, NotFittedError
from calibrant.numerics import logit
from calibrant.persistence import to_sql
from calibrant.segments.binning import Binning
from calibrant.segments.boosting import Boosting, BoostingRows, Size
from calibrant.segments.choice import row_losses

N = 4_000


def rows(seed: int, n: int = N, *, is_off: bool = True) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return predictions, outcomes and features; where it is off, those of the poor in one city are too low."""
    rng = np.random.default_rng(seed)
    guess, income, city = 50.0 + 10.0 * rng.normal(size=n), rng.uniform(size=n), rng.choice(["Bonn", "Rome"], n)
    more = np.where((income < 0.3) & (city == "Rome") & is_off, 8.0, 0.0)
    return guess, guess + more + 5.0 * rng.normal(size=n), {"income": income, "city": city}


def test_means_of_a_segment_come_true_on_new_rows() -> None:
    guess, y, features = rows(0)
    fitted = cb.SegmentMeanCalibrator().fit(guess, y, features=features)
    guess, y, features = rows(1, 20_000)
    found = fitted.predict(guess, features=features)
    poor = (features["income"] < 0.3) & (features["city"] == "Rome")
    before, after = (abs(each[poor].mean() - y[poor].mean()) for each in (guess, found))
    assert before > 7.0
    assert after < 1.0
    assert np.mean((found - y) ** 2) < np.mean((guess - y) ** 2) - 5.0
    claimed = fitted.report_.decision.blend
    line = fitted.intercept_ + fitted.slope_ * guess
    gain = np.mean((found - y) ** 2 - (line - y) ** 2) / 2.0 / fitted.scale_**2
    assert abs(gain - claimed.difference) < 4.0 * claimed.standard_error


@pytest.mark.parametrize("seed", range(4))
def test_predictions_that_are_right_get_a_line_alone(seed: int) -> None:
    guess, y, features = rows(10 + seed, (400, 3_000)[seed % 2], is_off=False)
    fitted = cb.SegmentMeanCalibrator().fit(guess, y, features=features)
    assert fitted.report_.chosen == "none"
    slope, intercept = np.polyfit(guess, y, 1)
    np.testing.assert_allclose(fitted.predict(guess), intercept + slope * guess, rtol=1e-9)


def test_units_of_the_outcomes_change_nothing() -> None:
    guess, y, features = rows(20)
    one, other = (
        cb.SegmentMeanCalibrator().fit(k * guess, k * y, features=features).predict(k * guess, features=features) / k
        for k in (1.0, 1024.0)
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_documents_and_frames() -> None:
    guess, y, features = rows(21)
    weight = np.where(np.arange(N) < 3_000, 1.0, 0.0)
    fitted = cb.SegmentMeanCalibrator().fit(guess, y, features=features, sample_weight=weight)
    assert fitted.n_rows_ == 3_000
    some = {name: column[:3_000] for name, column in features.items()}
    same = cb.SegmentMeanCalibrator().fit(guess[:3_000], y[:3_000], features=some)
    assert str(same.encode()) == str(fitted.encode())
    document = cb.persistence.to_document(fitted)
    read = cb.persistence.from_document(document)
    assert cb.persistence.to_document(read) == document
    assert read.describe() == fitted.describe()
    series = pd.Series(guess, name="guess")
    found = read.predict(series, features=pd.DataFrame(features))
    assert isinstance(found, pd.Series)
    np.testing.assert_array_equal(found.to_numpy(), fitted.predict(guess, features=features))


@pytest.mark.parametrize(
    ("scale", "match"),
    [
        (0.0, "is not above 0"),
        (-1.0, "is not above 0"),
        (5e-324, r"outside \[2.2e-162, 1.3e\+154\]"),
        (1e300, "outside"),
    ],
)
def test_a_document_with_a_scale_that_no_fit_has_is_refused(scale: float, match: str) -> None:
    guess, y, features = rows(24, 200)
    document = cb.persistence.to_document(cb.SegmentMeanCalibrator().fit(guess, y, features=features))
    with pytest.raises(DocumentError, match=rf"scale: .* {match}"):
        cb.persistence.from_document(document | {"scale": scale})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"predictions": np.zeros((20, 2))}, r"predictions has shape \(20, 2\)"),
        ({"y": np.array([np.nan] * 20)}, "y row 0"),
        ({"y": np.zeros(19)}, "19"),
        ({"features": None}, "features is a NoneType"),
        (
            {"predictions": np.zeros(3), "y": np.zeros(3), "features": {"a": [1, 2, 3]}},
            "3 rows to fit to. Pass 10 at least",
        ),
    ],
)
def test_mistakes_are_told(change, match) -> None:
    given = {"predictions": np.zeros(20), "y": np.arange(20.0), "features": {"a": np.zeros(20)}, **change}
    with pytest.raises(CalibrantError, match=match):
        cb.SegmentMeanCalibrator().fit(given["predictions"], given["y"], features=given["features"])


def test_what_is_not_fitted_or_lacks_features_says_so() -> None:
    with pytest.raises(NotFittedError, match="fit\\(predictions, y, features=features\\) first"):
        cb.SegmentMeanCalibrator().predict([0.0])
    guess, y, features = rows(22)
    fitted = cb.SegmentMeanCalibrator().fit(guess, y, features=features)
    with pytest.raises(CalibrantError, match="Pass these columns as features: 'income', 'city'"):
        fitted.predict([0.0])


@pytest.mark.parametrize("task", ["binary", "classes", "mean"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_loss_that_stops_growing_is_that_of_the_rows(task, is_weighted) -> None:
    rng = np.random.default_rng(23)
    x, weight = rng.normal(size=(600, 1)), rng.uniform(0.5, 2.0, 600) if is_weighted else None
    margins = {"binary": logit(rng.random(600)), "classes": rng.normal(size=(600, 3)), "mean": rng.normal(size=600)}[
        task
    ]
    target = {"binary": rng.integers(0, 2, 600), "classes": rng.integers(0, 3, 600), "mean": rng.normal(size=600)}[task]
    data = BoostingRows(task, Binning.of(x, [False]).codes(x), margins, target.astype(float), weight, ())
    held = np.arange(600) >= 400
    boosting = Boosting(data, Size(4, 0.2, 20, 1.0), seed=0, fitted=~held)
    boosting.watch(held)
    for n_rounds in (1, 2):
        boosting.grow()
        losses = row_losses(task, margins[held] + boosting.margins(held, n_rounds), data.target[held])
        by = None if weight is None else weight[held]
        assert boosting.loss() == pytest.approx(np.average(losses, weights=by), rel=1e-6)


@pytest.mark.parametrize("slope", [1.5, -0.4])
def test_predictions_whose_correction_is_not_finite_are_refused_and_null_in_sql(slope) -> None:
    """They became infinite, without a word."""
    rng = np.random.default_rng(24)
    guess, zone = rng.normal(size=300), np.arange(300) % 2
    fitted = cb.SegmentMeanCalibrator().fit(guess, slope * guess + zone, features={"zone": zone})
    end = fitted.score_range[1]
    given = np.array([2.0, 0.999 * end, -0.999 * end])
    with np.errstate(over="raise"):
        found = fitted.predict(given, features={"zone": zone[:3]})
    assert np.isfinite(found).all()
    largest = np.finfo(np.float64).max
    with pytest.raises(InvalidScoreError, match=r"predictions row 1: 1\.79\d*e\+308 is too large to be corrected"):
        fitted.predict([2.0, largest], features={"zone": zone[:2]})
    with duckdb.connect() as connection:
        connection.register("scores", pa.table({"p": [*given, largest], "zone": zone[:4]}))
        by_sql = connection.sql(to_sql(fitted, "duckdb", columns="p")).fetchall()
    np.testing.assert_allclose([value for (value,) in by_sql[:3]], found, rtol=1e-12)
    assert by_sql[3] == (None,)
