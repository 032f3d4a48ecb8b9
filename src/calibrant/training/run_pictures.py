"""Pictures and the page of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import N_BINS, Forecasts


def draw_run(folder: Path, data: Dataset, forecasts: Forecasts) -> None:
    """Draw the reliability of the top label before and after, and of each class after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from calibrant.displays import MulticlassReliabilityDisplay, ReliabilityDisplay

    figure = Figure(figsize=(6.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    models = {"raw": forecasts.raw, "calibrated": forecasts.calibrated}
    ReliabilityDisplay.from_predictions(data.y, models, classes=data.classes, n_bins=N_BINS, ax=figure.add_subplot())
    figure.savefig(folder / "reliability.png", dpi=120, metadata={"Software": None})
    n_panels = 1 + data.classes.size
    figure = Figure(figsize=(3.2 * n_panels, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, n_panels)
    MulticlassReliabilityDisplay.from_predictions(
        data.y, forecasts.calibrated, classes=data.classes, n_bins=N_BINS, axes=np.ravel(axes)
    )
    figure.savefig(folder / "classes.png", dpi=120, metadata={"Software": None})


def write_page(path: Path, data: Dataset, forecasts: Forecasts, *, title: str, source: str) -> None:
    """Write the report on the calibrated probabilities of the test part, which takes rows for independent."""
    from calibrant.report import Report

    prob = forecasts.calibrated if data.classes.size > 2 else forecasts.calibrated[:, 1]
    by = data.symbol.tolist() if np.unique(data.symbol.astype(str)).size > 1 else None
    Report(
        data.y,
        prob,
        classes=data.classes,
        by=by,
        group_name="symbol",
        title=title,
        source=f"{source}. Labels overlap, so rows are worth about {data.weight.sum():,.0f}: intervals here are "
        "too narrow, see metrics.json",
        score_names=[f"p_{label}" for label in data.classes.tolist()][-1 if data.classes.size == 2 else 0 :],
    ).write_html(path)
