"""Pictures and the page of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import N_BINS, Forecasts
from calibrant.training.overlap import widened_curve, widened_summary, width_factor

#: Independent rows that a point of a picture is worth, where there are so many.
_ROWS_PER_POINT = 30


def draw_run(folder: Path, data: Dataset, forecasts: Forecasts) -> None:
    """Draw the reliability of the top label before and after, and of each class after.

    Intervals are those of independent rows, widened for labels that overlap.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from calibrant.displays import MulticlassReliabilityDisplay, ReliabilityDisplay
    from calibrant.metrics import reliability_curve

    models = {"raw": forecasts.raw, "calibrated": forecasts.calibrated}
    factors = {name: width_factor(data, prob) for name, prob in models.items()}
    n_bins = _n_bins(data, factors["calibrated"])
    curves = [
        widened_curve(reliability_curve(data.y, prob, classes=data.classes, n_bins=n_bins, label=name), factors[name])
        for name, prob in models.items()
    ]
    figure = Figure(figsize=(6.0, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ReliabilityDisplay(curves).plot(ax=axes)
    axes.set_title(f"Most probable class, test part: {data.n_rows:,} rows\n{_words(factors['calibrated'])}", fontsize=9)
    figure.savefig(folder / "reliability.png", dpi=120, metadata={"Software": None})
    labels = data.classes.tolist()
    calibrated, factor = forecasts.calibrated, factors["calibrated"]
    by_class = [
        widened_curve(reliability_curve(data.y == label, calibrated[:, k], n_bins=n_bins, label=str(label)), factor)
        for k, label in enumerate(labels)
    ]
    top = reliability_curve(data.y, calibrated, classes=data.classes, n_bins=n_bins, label="top label")
    n_panels = 1 + len(labels)
    figure = Figure(figsize=(3.2 * n_panels, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.ravel(figure.subplots(1, n_panels))
    MulticlassReliabilityDisplay(widened_curve(top, factor), by_class, n_classes=len(labels)).plot(panels)
    figure.suptitle(f"Calibrated, test part: {data.n_rows:,} rows. {_words(factor)}", fontsize=9)
    figure.savefig(folder / "classes.png", dpi=120, metadata={"Software": None})


def write_page(path: Path, data: Dataset, forecasts: Forecasts, *, title: str, source: str) -> None:
    """Write the report on the calibrated probabilities of the test part, with intervals for labels that overlap."""
    from calibrant.report import Report
    from calibrant.report.render import to_html, write_text

    prob = forecasts.calibrated if data.classes.size > 2 else forecasts.calibrated[:, 1]
    by = data.symbol.tolist() if np.unique(data.symbol.astype(str)).size > 1 else None
    factor = width_factor(data, forecasts.calibrated)
    report = Report(
        data.y,
        prob,
        classes=data.classes,
        by=by,
        group_name="symbol",
        n_bins=_n_bins(data, factor),
        title=f"{title}; intervals allow for labels that overlap",
        source=f"{source}. {_words(factor)}: {data.n_rows:,} rows are worth about {data.weight.sum():,.0f} that share "
        "no part of their labels. Figures beside class frequencies are in metrics.json",
        score_names=[f"p_{label}" for label in data.classes.tolist()][-1 if data.classes.size == 2 else 0 :],
    )
    write_text(path, to_html(widened_summary(report.summary(), factor)))


def _n_bins(data: Dataset, factor: float) -> int:
    """Return the number of bins of pictures: fewer than those of the ECE where rows are worth few independent ones."""
    return int(np.clip(data.n_rows / factor**2 / _ROWS_PER_POINT, 3, N_BINS))


def _words(factor: float) -> str:
    return f"Labels overlap, so intervals are {factor:.1f} times as wide as those of independent rows"
