"""What a fit says about weights that are shares, and not of others."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.calibrators import Calibrator
from calibrant.cli import main
from calibrant.errors import DataWarning

P = np.random.default_rng(0).random(300)
Y = np.random.default_rng(1).random(300) < P


@pytest.mark.parametrize("kind", [cb.SigmoidCalibrator, cb.BetaCalibrator, cb.VennAbersCalibrator, cb.AutoCalibrator])
def test_weights_that_are_shares_are_named(kind: type[Calibrator]) -> None:
    with pytest.warns(DataWarning, match=r"the weights sum to 1 over 300 rows, .* divide them by their mean"):
        kind().fit(P, Y, sample_weight=np.full(300, 1.0 / 300.0))


def test_the_facade_groups_and_the_command_name_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = np.full(300, 1.0 / 300.0)
    with pytest.warns(DataWarning, match="the weights sum to 1 over 300 rows"):
        cb.GroupedCalibrator("sigmoid").fit(P, Y, groups=np.arange(300) % 2, sample_weight=share)
    with pytest.warns(DataWarning, match="the weights sum to 1 over 300 rows"):
        cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=2)).fit(Y, P, sample_weight=share)
    monkeypatch.chdir(tmp_path)
    pc.write_csv(pa.table({"p": P, "y": Y.astype(int), "w": share}), "t.csv")
    done = CliRunner().invoke(
        main,
        "fit t.csv --score p --label y --weight w --method sigmoid -o c.json".split(),  # noqa: SIM905
    )
    assert done.exit_code == 0
    assert "the weights sum to 1 over 300 rows" in done.output


@pytest.mark.parametrize(
    "weight", [np.full(300, 0.5), np.full(300, 1.0), np.full(300, 1e6), np.repeat([0.0, 1.0], 150)]
)
def test_weights_that_count_rows_are_taken_without_a_word(weight: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        cb.SigmoidCalibrator().fit(P, Y, sample_weight=weight)


def test_dividing_by_the_mean_gives_the_fit_of_equal_weights() -> None:
    share = np.full(300, 1.0 / 300.0)
    told = cb.SigmoidCalibrator().fit(P, Y, sample_weight=share / share.mean())
    assert told.predict_proba([0.2, 0.8]) == pytest.approx(cb.SigmoidCalibrator().fit(P, Y).predict_proba([0.2, 0.8]))
