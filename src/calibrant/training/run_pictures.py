"""Pictures and the page of a run, with intervals that allow for labels that overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.metrics import design_effect, reliability_curve
from calibrant.numerics import FloatArray
from calibrant.report import Report, pages
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import INTERVALS, N_BINS, Forecasts
from calibrant.training.money import Money
from calibrant.training.money_page import money_section
from calibrant.training.walk_forward_pictures import walk_forward_section

#: Independent rows that a point of a picture is worth, where there are so many.
_ROWS_PER_POINT = 30
#: Panels next to each other, and classes that have one: those with the most rows.
_PANELS_ACROSS, _MOST_CLASSES = 4, 11
#: Symbols that are told apart on the page, at most.
_MOST_SYMBOLS = 50


def draw_run(folder: Path, data: Dataset, forecasts: Forecasts) -> None:
    """Draw the reliability of the top label before and after, and of each class after."""
    from matplotlib.figure import Figure

    from calibrant.displays import MulticlassReliabilityDisplay, ReliabilityDisplay

    calibrated, labels = forecasts.calibrated, data.classes.tolist()
    spans, effect = _spans(data, calibrated)
    words = f"Labels overlap, so intervals are {effect**0.5:.1f} times as wide as those of independent rows"
    curves = [
        reliability_curve(data.y, prob, label=name, **spans)
        for name, prob in (("calibrated", calibrated), ("raw", forecasts.raw))
    ]
    figure = Figure(figsize=(6.0, 6.4), layout="constrained")
    axes = figure.add_subplot()
    ReliabilityDisplay(curves).plot(ax=axes)
    axes.set_title(f"Most probable class, test part: {data.n_rows:,} rows\n{words}", fontsize=9)
    figure.savefig(folder / "reliability.png", dpi=120, metadata={"Software": None})
    top = reliability_curve(data.y, calibrated, label="top label", **spans)
    frequent = np.sort(np.argsort(-np.bincount(data.codes, minlength=len(labels)), kind="stable")[:_MOST_CLASSES])
    shown = [labels[code] for code in frequent]
    by_class = [reliability_curve(data.y, calibrated, class_label=label, label=str(label), **spans) for label in shown]
    n_panels = 1 + len(shown)
    n_across = min(n_panels, _PANELS_ACROSS)
    n_down = -(-n_panels // n_across)
    figure = Figure(figsize=(3.2 * n_across, 3.9 * n_down), layout="constrained")
    all_panels = np.ravel(figure.subplots(n_down, n_across))
    panels = all_panels[:n_panels]
    for unused in all_panels[n_panels:]:
        unused.set_axis_off()
    MulticlassReliabilityDisplay(top, by_class, n_classes=len(labels)).plot(panels)
    some = f" The {len(shown)} most frequent of {len(labels)} classes." if len(shown) < len(labels) else ""
    figure.suptitle(f"Calibrated, test part: {data.n_rows:,} rows.{some} {words}", fontsize=9)
    figure.savefig(folder / "classes.png", dpi=120, metadata={"Software": None})


class _RunReport(Report):
    """The report on a run's probabilities, with sections on its windows, if any, and on what it is worth in money."""

    windows: dict[str, Any] | None
    money: Money | None
    beside: str

    def page(self) -> pages.Page:
        page = super().page()
        first, *rest, last = page.sections
        windows = [] if self.windows is None else [walk_forward_section(self.windows)]
        money = [] if self.money is None else [money_section(self.money)]
        last = replace(last, blocks=[*last.blocks, pages.Text(self.beside)])
        return replace(page, sections=[first, *windows, *rest, *money, last])


def write_page(
    path: Path,
    data: Dataset,
    forecasts: Forecasts,
    *,
    title: str,
    source: str,
    windows: dict[str, Any] | None = None,
    money: Money | None = None,
) -> None:
    """Write the report on the calibrated probabilities of the test part.

    `windows` are those of a walk-forward; `money` is what the probabilities are worth.
    """
    is_binary = data.classes.size == 2
    prob: FloatArray = forecasts.calibrated[:, 1] if is_binary else forecasts.calibrated
    symbols = data.symbol.tolist() if 1 < np.unique(data.symbol.astype(str)).size <= _MOST_SYMBOLS else None
    report = _RunReport(
        data.y,
        prob,
        **_spans(data, forecasts.calibrated)[0],
        groups=symbols,
        group_name="symbol",
        title=f"{title}; intervals allow for labels that overlap",
        source=f"{source}. {data.n_rows:,} rows are worth about {data.weight.sum():,.0f} that share no part of their "
        "labels",
        score_names=[f"p_{label}" for label in data.classes.tolist()][1 if is_binary else 0 :],
    )
    report.windows, report.money, report.beside = windows, money, _beside(is_binary)
    report.write_html(path)


def _beside(is_binary: bool) -> str:
    """Say how the figures of metrics.json differ from those of the page."""
    twice = "Its Brier score is the sum over both classes, twice the one here. " if is_binary else ""
    return (
        "metrics.json has figures of these rows beside those of the model alone and of class frequencies. "
        f"Its intervals are {INTERVALS}, over blocks of rows in time; those here are of calibrant evaluate, as said "
        "under Intervals. Where blocks are few and losses are skewed their ends differ. "
        f"{twice}Its ECE is of the most probable class, over {N_BINS} bins of equal width."
    )


def _spans(data: Dataset, prob: FloatArray) -> tuple[dict[str, Any], float]:
    """Return what pictures are told of the rows, and the design effect: where it is large, there are fewer bins."""
    effect = design_effect(data.rows(prob))
    n_bins = int(np.clip(data.n_rows / effect / _ROWS_PER_POINT, 3, N_BINS))
    return {"time": data.time, "label_end": data.label_end, "classes": data.classes, "n_bins": n_bins}, effect
