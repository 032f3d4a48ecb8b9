"""Documents of recalibrators: every field is checked, and what is read gives distributions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, InvalidTypeError, NotFittedError
from calibrant.forecasts import GaussianForecast, ThresholdRecalibrator
from calibrant.persistence import from_document, to_document

HOSTILE = (None, "x", True, -1, 0, 3, 0.5, -1e30, 1e30, 10**40, [], {}, [0.0, 1.0], [[1.0]])
FORECAST = GaussianForecast([0.0, 2.0, -1e9, 1e9], [1.0, 1e-9, 1.0, 0.5])
POINTS = np.linspace(-4.0, 4.0, 33)[None, :]
DOWN, UP = ({"x": [0.0, 0.5, 1.0], "y": [0.0, level, 1.0]} for level in (0.25, 0.75))
CHAIN: dict[str, Any] = {"thresholds": [1.0], "column": [0], "alpha": [0.5], "maps": [DOWN, UP]}
ROUND = {"y0": 1.0, "alpha": 0.5, "error_before": 0.25, "error_after": 0.125, "n_left": 100.0, "n_right": 156.0}
BODIES: dict[str, dict[str, Any]] = {
    "conformal": {
        "kind": "forecast_recalibrator",
        "method": "conformal",
        "settings": {},
        "n_rows": 4,
        "layers": [
            {
                "type": "conformal_scores",
                "conformity": "residual",
                "at": [-1.0, 0.5, 2.0],
                "levels": [0.2, 0.5, 0.8],
                "mass": [1.0, 2.0, 1.0],
            }
        ],
    },
    "threshold": {
        "kind": "forecast_recalibrator",
        "method": "threshold",
        "settings": {key: value for key, value in ThresholdRecalibrator().get_params().items() if key != "progress"},
        "n_rows": 256,
        "layers": [
            {"type": "rounds", **CHAIN},
            {"type": "one_map", **UP},
            {"type": "mean_of_chains", "chains": [{"thresholds": [], "column": [], "alpha": [], "maps": []}, CHAIN]},
            {"type": "binned_maps", "edges": [], "width_edges": [[]], "maps": [DOWN]},
            {"type": "threshold_levels", "thresholds": [0.0, 2.0], "maps": [UP, UP], "share": 0.5},
        ],
        "choice": "rounds",
        "rounds": [ROUND],
    },
    "variance": {
        "kind": "forecast_recalibrator",
        "method": "variance",
        "settings": {"shift": True},
        "n_rows": 64,
        "layers": [{"type": "probit_scale", "scale": 2.0, "shift": 0.25}],
    },
}


def document(name: str) -> dict[str, Any]:
    """Return a document of a method: that of threshold recalibration holds a layer of every other kind too."""
    made = from_document({"format": "calibrant", "version": 2, "calibrant": "0.2.0", **BODIES[name]})
    return to_document(made, metadata={"outcome": "größe", "columns": {"mean": "mu", "std": "sigma"}})


def places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a document but its header and metadata."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inner:
        if path or key not in ("format", "version", "kind", "calibrant", "metadata"):
            yield (*path, key)
            yield from places(value, (*path, key))


def put(found: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(found)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    if value is Ellipsis:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", BODIES)
def test_a_changed_document_is_refused_or_gives_distributions(name: str) -> None:
    whole = document(name)
    n_refused = n_read = 0
    for path in places(whole):
        for value in (..., *HOSTILE):
            try:
                loaded = from_document(put(whole, path, value))
            except DocumentError:
                n_refused += 1
                continue
            n_read += 1
            forecast = loaded.transform(FORECAST)
            cdf = forecast.cdf(POINTS)
            assert ((cdf >= 0.0) & (cdf <= 1.0)).all(), (path, value)
            assert (np.diff(cdf, axis=1) >= -1e-12).all(), (path, value)
            to_document(loaded)
    assert n_refused > 3 * n_read > 0


@pytest.mark.parametrize(
    ("name", "path", "value", "text"),
    [
        ("threshold", ("method",), "average of two", "method"),
        ("threshold", ("method",), "average", "choice"),
        ("threshold", ("n_rows",), 0, "n_rows"),
        ("threshold", ("layers", 0, "column", 0), 1, r"layers\[0\]\.column\[0\]"),
        ("threshold", ("layers", 0, "maps", 0, "y", 1), 1.5, r"layers\[0\]\.maps\[0\]\.y"),
        ("threshold", ("layers", 0, "maps"), [], r"layers\[0\]\.maps: an empty list has 0 maps where"),
        ("threshold", ("layers", 1, "x", 0), 0.1, r"layers\[1\]\.x: a list of 3 does not run from 0 to 1"),
        ("threshold", ("layers", 3, "width_edges"), [[], []], "width_edges: a list of 2 does not go with"),
        ("threshold", ("layers", 4, "share"), 1.5, r"share: 1\.5 is outside \[0, 1\]"),
        ("conformal", ("layers", 0, "levels", 2), 1.0, r"levels: a list of 3 has a level outside \(0, 1\)"),
        ("conformal", ("layers", 0, "mass", 0), 0.0, "mass: a list of 3 holds a weight that is not above 0"),
        ("conformal", ("layers",), [], "layers: an empty list is not one layer of"),
        ("variance", ("layers", 0, "scale"), 0.0, r"scale: 0\.0 is not above 0"),
        ("variance", ("layers", 0, "more"), 0.0, "more"),
        ("variance", ("layers", 0, "shift"), 1e200, r"shift: 1e\+200 holds a number beyond 1e\+100"),
        ("threshold", ("layers", 0, "thresholds"), [1e200], "thresholds: a list of 1 holds a number beyond"),
        ("threshold", ("settings", "epsilon"), -1.0, r"settings: epsilon=-1\.0 is outside \[0, inf\)"),
        ("threshold", ("settings", "epsilons"), 1.0, "unknown field 'epsilons'. Did you mean 'epsilon'"),
        ("threshold", ("settings", "bagged"), 1, "settings: bagged=1 is not True or False"),
        ("threshold", ("settings", "algorithm"), [1.0], r"settings: .*algorithm: \(1\.0,\)"),
    ],
)
def test_refusals_name_the_field(name: str, path: tuple[Any, ...], value: Any, text: str) -> None:
    with pytest.raises(DocumentError, match=text):
        from_document(put(document(name), path, value))


def test_metadata_is_kept() -> None:
    fitted = cb.forecasts.AverageRecalibrator().fit(GaussianForecast([0.0, 1.0], 1.0), [0.5, 0.5])
    loaded = from_document(to_document(fitted, metadata={"columns": ["mu"]}))
    assert to_document(loaded)["metadata"] == {"columns": ["mu"]}


@pytest.mark.filterwarnings("ignore:threshold recalibration ended above epsilon")
@pytest.mark.parametrize(
    "made",
    [
        cb.forecasts.ThresholdRecalibrator(max_rounds=3, epsilon=0.01, n_cuts=16, min_leaf=7, seed=np.int64(3)),
        cb.forecasts.AverageRecalibrator(n_knots=5, pseudo_counts=2.0),
        cb.forecasts.DistributionRecalibrator(n_bins=(2, 1), min_leaf=5),
        cb.forecasts.ConformalRecalibrator("level"),
        cb.forecasts.VarianceScalingRecalibrator(shift=True),
    ],
)
def test_settings_are_restored_and_a_fit_goes_on_as_it_would_have(made: cb.forecasts.Recalibrator) -> None:
    rng = np.random.default_rng(0)
    forecast, y = GaussianForecast(rng.normal(size=120), 1.0), rng.normal(size=120)
    loaded = from_document(to_document(made.fit(forecast, y)))
    assert {k: v for k, v in vars(loaded).items() if not k.endswith("_")} == {
        k: v for k, v in vars(made).items() if not k.endswith("_")
    }
    expected = made.fit(forecast[:60], y[:60]).transform(forecast).cdf(POINTS)
    np.testing.assert_array_equal(loaded.fit(forecast[:60], y[:60]).transform(forecast).cdf(POINTS), expected)


def test_a_class_that_documents_have_no_name_for_is_not_saved() -> None:
    class Own(cb.forecasts.AverageRecalibrator):
        pass

    with pytest.raises(InvalidTypeError, match="can't save a Own: only calibrant's own recalibrators"):
        to_document(Own().fit(GaussianForecast([0.0, 1.0], 1.0), [0.5, 0.5]))
    with pytest.raises(NotFittedError, match="this AverageRecalibrator is not fitted"):
        to_document(cb.forecasts.AverageRecalibrator())


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (cb.forecasts.AverageRecalibrator(), ""),
        (cb.forecasts.ConformalRecalibrator("residual"), "residuals"),
        (cb.forecasts.ConformalRecalibrator("level"), "levels"),
        (cb.forecasts.VarianceScalingRecalibrator(shift=True), "standard deviations times 2, moved by 0.5 of them"),
        (cb.forecasts.ThresholdRecalibrator("paper", max_rounds=1, min_leaf=1), "1 round"),
        (cb.forecasts.ThresholdRecalibrator("paper", min_leaf=99), "no rounds"),
        (cb.forecasts.ThresholdRecalibrator(n_folds=2), "no rounds, since none does better on rows held out"),
    ],
)
def test_what_was_fitted_is_said_in_a_few_words(made: cb.forecasts.Recalibrator, text: str) -> None:
    forecast = GaussianForecast(np.arange(8.0), 1.0)
    fitted = made.fit(forecast, np.arange(8.0) + 0.5 + np.tile([-2.0, 2.0], 4))
    assert fitted.describe() == from_document(to_document(fitted)).describe()
    assert fitted.describe()[:1] == ([text] if text else [])
