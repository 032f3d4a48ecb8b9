"""Measure some scores only, in tests that need few of them very often."""

from __future__ import annotations

import pytest

from calibrant.metrics import evaluation


def measure_only(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `evaluate` and `compare_models` measure these scores of a column, and those that their verdict needs."""
    kept = {name: evaluation.OF_A_COLUMN[name] for name in (*evaluation.TO_JUDGE, *names)}
    monkeypatch.setattr(evaluation, "OF_A_COLUMN", kept)
