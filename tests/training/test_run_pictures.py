"""Pictures and the page of a run allow for labels that overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant.numerics import softmax
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import Forecasts
from calibrant.training.money import Money
from calibrant.training.money_page import draw_money
from calibrant.training.run_pictures import draw_run, write_page


@pytest.mark.rendered
@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_run_is_drawn_and_reported_with_intervals_for_labels_that_overlap(n_classes: int, tmp_path: Path) -> None:
    n, repeats = 600, 10
    rng = np.random.default_rng(0)
    prob = softmax(rng.normal(size=(n // repeats, n_classes))).repeat(repeats, axis=0)
    y = (prob.cumsum(axis=1)[::repeats] < rng.random((n // repeats, 1))).sum(axis=1).repeat(repeats)
    time = np.datetime64("2020-01-01") + np.arange(n)
    data = Dataset(
        X=np.zeros((n, 1)),
        names=("nothing",),
        y=y,
        classes=np.arange(n_classes),
        time=time,
        label_end=time + np.timedelta64(repeats - 1, "D"),
        symbol=np.array(["A", "B"], dtype=object)[np.arange(n) % 2],
        weight=np.full(n, 1.0 / repeats),
        label_return=np.zeros(n),
        horizon_time=np.timedelta64(repeats, "D"),
    )
    forecasts = Forecasts.beside_rates(softmax(2.0 * np.log(prob)), prob, data)
    draw_run(tmp_path, data, forecasts)
    money = Money({"left_out": "no returns are known"})
    draw_money(tmp_path, money)
    write_page(tmp_path / "report.html", data, forecasts, title="A run", source="bars", money=money)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("reliability.png", "classes.png"))
    assert not (tmp_path / "money.png").exists()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "600 rows are worth about 60 that share no part of their labels" in page
    assert "Rows are not independent" in page
    assert "metrics.json has figures of these rows beside" in page
    assert ("twice the one here" in page) == (n_classes == 2)
    assert "design effect" in page
    assert "No stakes: no returns are known." in page
