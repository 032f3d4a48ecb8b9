"""Pictures and the page of a run, with intervals that allow for labels that overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant.metrics import design_effect, reliability_curve
from calibrant.numerics import FloatArray
from calibrant.report import Report
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import N_BINS, Forecasts

#: Independent rows that a point of a picture is worth, where there are so many.
_ROWS_PER_POINT = 30


def draw_run(folder: Path, data: Dataset, forecasts: Forecasts) -> None:
    """Draw the reliability of the top label before and after, and of each class after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from calibrant.displays import MulticlassReliabilityDisplay, ReliabilityDisplay

    calibrated, labels = forecasts.calibrated, data.classes.tolist()
    spans, effect = _spans(data, calibrated)
    words = f"Labels overlap, so intervals are {effect**0.5:.1f} times as wide as those of independent rows"
    curves = [
        reliability_curve(data.y, prob, label=name, **spans)
        for name, prob in (("raw", forecasts.raw), ("calibrated", calibrated))
    ]
    figure = Figure(figsize=(6.0, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ReliabilityDisplay(curves).plot(ax=axes)
    axes.set_title(f"Most probable class, test part: {data.n_rows:,} rows\n{words}", fontsize=9)
    figure.savefig(folder / "reliability.png", dpi=120, metadata={"Software": None})
    top = reliability_curve(data.y, calibrated, label="top label", **spans)
    by_class = [reliability_curve(data.y, calibrated, class_label=label, label=str(label), **spans) for label in labels]
    n_panels = 1 + len(labels)
    figure = Figure(figsize=(3.2 * n_panels, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.ravel(figure.subplots(1, n_panels))
    MulticlassReliabilityDisplay(top, by_class, n_classes=len(labels)).plot(panels)
    figure.suptitle(f"Calibrated, test part: {data.n_rows:,} rows. {words}", fontsize=9)
    figure.savefig(folder / "classes.png", dpi=120, metadata={"Software": None})


def write_page(path: Path, data: Dataset, forecasts: Forecasts, *, title: str, source: str) -> None:
    """Write the report on the calibrated probabilities of the test part."""
    is_binary = data.classes.size == 2
    prob: FloatArray = forecasts.calibrated[:, 1] if is_binary else forecasts.calibrated
    symbols = data.symbol.tolist() if np.unique(data.symbol.astype(str)).size > 1 else None
    report = Report(
        data.y,
        prob,
        **_spans(data, forecasts.calibrated)[0],
        groups=symbols,
        group_name="symbol",
        title=f"{title}; intervals allow for labels that overlap",
        source=f"{source}. {data.n_rows:,} rows are worth about {data.weight.sum():,.0f} that share no part of their "
        "labels. Figures beside class frequencies are in metrics.json",
        score_names=[f"p_{label}" for label in data.classes.tolist()][1 if is_binary else 0 :],
    )
    report.write_html(path)


def _spans(data: Dataset, prob: FloatArray) -> tuple[dict[str, Any], float]:
    """Return what pictures are told of the rows, and the design effect: where it is large, there are fewer bins."""
    effect = design_effect(data.rows(prob))
    n_bins = int(np.clip(data.n_rows / effect / _ROWS_PER_POINT, 3, N_BINS))
    return {"time": data.time, "label_end": data.label_end, "classes": data.classes, "n_bins": n_bins}, effect
