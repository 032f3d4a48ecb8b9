"""The overfit of a decomposition of very many rows: drawn at once for each group, in memory that rows don't set."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.metrics import decomposition


def test_labels_drawn_at_once_say_what_labels_drawn_row_by_row_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 3.0, 200_000).round(3)  # about 200 rows of each score
    y = rng.random(p.size) < p
    by_row = cb.evaluate(y, p)["miscalibration"]
    monkeypatch.setattr(decomposition, "_DRAWN_ROWS", 200_000)
    at_once = cb.evaluate(y, p, rng=1)["miscalibration"]
    assert at_once.value == by_row.value
    assert at_once.low == pytest.approx(by_row.low, abs=3e-5)
    assert at_once.high == pytest.approx(by_row.high, abs=3e-5)


def test_hits_are_binomial() -> None:
    size, truth = np.full(4_000, 1_000), np.linspace(0.05, 0.95, 4_000)
    hits = decomposition.draw_hits(size * 4, truth, np.random.default_rng(0))
    z = (hits - 4 * size * truth) / np.sqrt(4 * size * truth * (1.0 - truth))
    assert abs(z.mean()) < 4.0 / np.sqrt(z.size)
    assert z.std() == pytest.approx(1.0, abs=0.05)
