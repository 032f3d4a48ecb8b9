"""Pictures of what the benchmarks found, from benchmarks/results: `python -m benchmarks.pictures [FOLDER]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from benchmarks._harness import RESULTS

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks" / "figures"
OURS, THEIRS = "C0", "0.6"
#: Methods that are drawn, and what they are called: those of calibrant, and the best of each other package.
BINARY = {
    "auto": "auto",
    "spline": "spline",
    "beta": "beta",
    "sigmoid": "sigmoid",
    "venn_abers": "Venn-Abers",
    "betacal beta": "betacal beta",
    "netcal beta": "netcal beta",
    "probmetrics quadratic": "probmetrics quadratic",
    "sklearn sigmoid": "scikit-learn sigmoid",
    "sklearn isotonic": "scikit-learn isotonic",
}
MULTICLASS = {
    "auto": "auto",
    "dirichlet": "Dirichlet",
    "matrix": "matrix scaling",
    "temperature": "temperature",
    "probmetrics SMS": "probmetrics SMS",
    "netcal beta": "netcal beta",
    "venn-abers venn_abers": "venn-abers",
    "sklearn temperature": "scikit-learn temperature",
    "sklearn isotonic": "scikit-learn isotonic",
}
PACKAGES = ("betacal", "netcal", "probmetrics", "scikit-learn", "venn-abers")


def main(folder: Path = FOLDER) -> None:
    """Draw all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures().items():
        figure.savefig(folder / f"{name}.png", dpi=90)
        plt.close(figure)


def pictures() -> dict[str, Figure]:
    """Return the pictures by name, in matplotlib's own style."""
    with mpl.rc_context():
        mpl.rcdefaults()
        return {
            "peers": peers(),
            "rows": by_rows(),
            "speed": speed(),
            "verdict": false_alarms(),
            "promises": promises(),
            "passes": passes(),
        }


def table(name: str, caption: str) -> list[dict[str, str]]:
    """Return the rows of the first table of a result whose caption begins so."""
    found = next(each for each in result(name)["tables"] if each["caption"].startswith(caption))
    kept: dict[str, int] = {}  # the first of two columns of one name
    for i, header in enumerate(found["header"]):
        kept.setdefault(header, i)
    return [{header: row[i] for header, i in kept.items()} for row in found["rows"]]


def result(name: str) -> dict[str, Any]:
    """Return a result as it was written."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def peers() -> Figure:
    """Draw how often methods win, and how often they do harm, on tables that had no part in the making of auto."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    kinds = {"binary": BINARY, "multiclass": MULTICLASS}
    for (win, harm), (kind, names) in zip(axes, kinds.items(), strict=True):
        rows = {row["method"]: row for row in table("tables", f"{kind}, new tables only")}
        kept = sorted((n for n in names if n in rows), key=lambda n: float(rows[n]["win"]))
        titles = [names[n] for n in kept]
        colours = [THEIRS if title.startswith(PACKAGES) else OURS for title in titles]
        wins = [float(rows[n]["win"]) for n in kept]
        win.barh(titles, wins, xerr=[float(rows[n]["s.e."]) for n in kept], color=colours, error_kw={"linewidth": 1})
        win.set(xlim=(0, 1), title="Comparisons won" if kind == "binary" else "")
        harm.barh(titles, [float(rows[n]["harm"].rstrip("%")) for n in kept], color=colours)
        harm.set(xlim=(0, 65), yticklabels=[], title="Runs made worse, %" if kind == "binary" else "")
        win.set_ylabel({"binary": "two classes", "multiclass": "more classes"}[kind])
        for ax in (win, harm):
            ax.spines[["top", "right"]].set_visible(False)
    return figure


def by_rows() -> Figure:
    """Draw the mean log loss less that of auto, by the number of calibration rows."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    sizes = ["100", "300", "1000", "3000", "10000"]
    drawn = {
        "binary": ["spline", "beta", "sigmoid", "sklearn sigmoid", "betacal beta"],
        "multiclass": ["dirichlet", "temperature", "probmetrics SMS", "sklearn temperature"],
    }
    for ax, (kind, names) in zip(axes, drawn.items(), strict=True):
        rows = {row["method"]: row for row in table("tables", f"{kind}, new tables only")}
        for name in names:
            ran = [n for n in sizes if rows[name][f"n={n}"] != "-"]
            less = [float(rows[name][f"n={n}"]) - float(rows["auto"][f"n={n}"]) for n in ran]
            ax.plot(ran, less, marker="o", markersize=4, label=(BINARY | MULTICLASS).get(name, name))
        ax.axhline(0.0, color="0.3", linewidth=1)
        ax.set(xlabel="calibration rows", title={"binary": "two classes", "multiclass": "more classes"}[kind])
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean log loss, less that of auto")
    return figure


def speed() -> Figure:
    """Draw the time of a fit to a million rows, in multiples of one sort of them."""
    fits = {
        each["claim"].removesuffix(" fit / np.argsort"): each["value"]
        for each in result("calibrators")["figures"]
        if each["case"] == "beta(1, 2) 1e+06" and each["claim"].endswith(" fit / np.argsort")
    }
    names = sorted(fits, key=lambda name: fits[name], reverse=True)
    figure, ax = plt.subplots(figsize=(6.5, 4.4), layout="constrained")
    ax.barh(names, [fits[name] for name in names], color=OURS)
    ax.axvline(1.0, color="0.3", linewidth=1)
    ax.set(xscale="log", xlabel="a fit to a million rows, in sorts of these rows")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def false_alarms() -> Figure:
    """Draw how often calibrated rows are found off."""
    found = table("verdict", "Found off though calibrated")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for ax, kind in zip(axes, ("independent", "clusters of 10"), strict=True):
        for k in ("2", "3", "10"):
            rows = [row for row in found if row["rows"] == kind and row["K"] == k]
            ax.plot(
                [row["n"] for row in rows], [float(row["base rate 0.5"]) for row in rows], marker="o", label=f"K = {k}"
            )
        ax.axhline(0.05, color="0.3", linewidth=1, linestyle="--")
        ax.set(xlabel="rows", title=f"{kind} rows" if kind == "independent" else kind, ylim=(0, 0.07))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share found off")
    axes[0].legend(frameon=False)
    return figure


def passes() -> Figure:
    """Passes over 10 million rows in a file, in multiples of a plain read of the columns."""
    claims = {
        "summarise / scan": "summary",
        "exact isotonic fit / scan": "exact isotonic fit",
        "sigmoid fit / scan": "sigmoid fit",
        "apply / read and write": "apply (of read and write)",
    }
    found = {each["claim"]: each["value"] for each in result("scale")["figures"] if each["case"] == "1e+07 rows"}
    times = [found[claim] for claim in claims]
    figure, ax = plt.subplots(figsize=(6.5, 2.2), layout="constrained")
    ax.barh(list(claims.values()), times, color=OURS)
    ax.bar_label(ax.containers[0], [f"{each:.1f} x" for each in times], padding=3)  # type: ignore[arg-type]
    ax.set(xlabel="10 million rows, multiples of a plain scan", xlim=(0.0, 1.2 * max(times)))
    ax.invert_yaxis()
    return figure


def promises() -> Figure:
    """Draw how often the promised loss of decisions was kept, by set."""
    rows = [row for row in table("decisions", "Share of gaps at 50 cost ratios") if row["set"] != "mean"]
    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    names = [row["set"] for row in rows]
    for column, label in (
        ("predictions, before", "before calibration"),
        ("promise, after", "after, with the promise's interval"),
    ):
        ax.plot([float(row[column]) for row in rows], names, "o", label=label)
    ax.axvline(0.95, color="0.3", linewidth=1, linestyle="--")
    ax.set(xlabel="share of promises whose 95% interval was kept", xlim=(-0.03, 1.03))
    ax.legend(frameon=False, loc="center left")
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
