"""The worked example: raw boosted trees miss the specification's targets on digits, and calibrated ones meet them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "overconfident_digits.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("overconfident_digits", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_targets_are_missed_before_and_met_after_on_untouched_rows(example: ModuleType) -> None:
    runs = [example.one_split(seed) for seed in range(4)]
    raw, temperature, isotonic, dirichlet = (np.array([run[name] for run in runs]) for name in runs[0])
    assert (raw[:, 0] > example.BRIER_TARGET).all()
    assert (raw[:, 1] > example.ECE_TARGET).all()
    brier, ece, _ = dirichlet.mean(axis=0)
    assert brier < example.BRIER_TARGET
    assert ece < example.ECE_TARGET
    np.testing.assert_array_equal(temperature[:, 2], raw[:, 2])  # one number leaves every prediction as it is
    assert (temperature[:, 0] > example.BRIER_TARGET).all(), "so it can't meet the Brier target"
    assert raw[:, 0].mean() > temperature[:, 0].mean() > isotonic[:, 0].mean() > brier


@pytest.mark.slow
def test_parts_share_no_row_and_the_example_prints_its_table(
    example: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    y_train, p_train, y_fit, _, y_test, _ = example.trained(0)
    assert (p_train.argmax(axis=1) == y_train).all(), "boosted until no error is left"
    assert [int((y_train == digit).sum()) for digit in (0, 1)] == [example.N_COMMON, example.N_RARE]
    assert y_fit.size + y_test.size == 1079
    monkeypatch.setattr(sys, "argv", ["overconfident_digits.py", "--splits", "1"])
    example.main()
    printed = capsys.readouterr().out
    assert "too sure" in printed
    assert "Targets: Brier below 0.15, ECE below 0.05." in printed
    assert "Dirichlet" in printed
