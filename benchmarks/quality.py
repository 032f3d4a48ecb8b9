"""Held-out quality of every calibrator and of those of other packages, by the number of calibration rows."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from dataclasses import dataclass

import numpy as np

from benchmarks._harness import RESULTS, machine_facts, table
from benchmarks.peers import binary_peers, installed, multiclass_peers
from benchmarks.quality_goals import goals_text
from benchmarks.quality_measures import BINARY, MULTICLASS, difference_error, measure
from benchmarks.quality_methods import AUTO, Method, binary_methods, multiclass_methods
from benchmarks.quality_table import SIZES, Quality
from benchmarks.score_sets import ScoreSet, Split, binary_sets, multiclass_sets, splits
from benchmarks.trained_sets import models, trained_sets

BINARY_DRAWS = 5
MULTICLASS_DRAWS = 3
_LEGEND = """Held-out quality of calibration on score sets of real models and forecasters, and of models trained here on
scikit-learn's own and on synthetic data. Methods of other packages begin with the package's name; rows X combine
methods as no package ships them.
win: share of (run, other method) pairs with the lower figure, ties half. excess: mean log loss above the best of the
run, with its standard error clustered by score set. n=: mean log loss at so many calibration rows ("-": not run on
all sets). harm: share of runs with a higher log loss than the scores as they are. failed: runs that raised an error
or gave no number; the scores are taken as they are there. Some of these sets had a part in the choice of constants of
auto and spline, and all were in sight when some were chosen: see the tables for sets that had none."""


@dataclass
class Qualities:
    """The tables of both kinds of problem."""

    tables: tuple[Quality, ...]

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        RESULTS.mkdir(exist_ok=True)
        facts = [*machine_facts().items(), *(f for f in installed().items() if f[0] not in machine_facts())]
        parts = [_LEGEND, table(("", ""), [*facts, ("models trained here", ", ".join(models()))])]
        for quality in self.tables:
            parts += [quality.text(), goals_text(quality), quality.pairs()]
        text = "\n\n".join(parts)
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        document = {"machine": dict(facts), **{quality.kind: quality.document() for quality in self.tables}}
        (RESULTS / f"{name}.json").write_text(_compact(document), encoding="utf-8")
        return text


def run() -> Qualities:
    """Fit every method in every run, and measure it on held-out rows."""
    trained = trained_sets()
    binary = [*binary_sets(), *(s for s in trained if s.p.ndim == 1)]
    multiclass = [*multiclass_sets(), *(s for s in trained if s.p.ndim == 2)]
    return Qualities(
        (
            compare("binary", BINARY, binary, binary_methods(), binary_peers(), BINARY_DRAWS),
            compare("multi-class", MULTICLASS, multiclass, multiclass_methods(), multiclass_peers(), MULTICLASS_DRAWS),
        )
    )


def compare(
    kind: str, figures: tuple[str, ...], sets: list[ScoreSet], ours: list[Method], peers: list[Method], draws: int
) -> Quality:
    """Run all methods on all splits of all sets."""
    methods = [*ours, *peers]
    quality = Quality(kind, figures, [m.name for m in methods], {m.name: m.rival for m in peers if m.rival})
    for score_set in sets:
        for n in SIZES:
            for split in splits(score_set, n, draws):
                _run(quality, split, methods)
    return quality


def _run(quality: Quality, split: Split, methods: list[Method]) -> None:
    p, y = split.held_out.p, split.held_out.y
    n_classes = 2 if p.ndim == 1 else p.shape[1]
    row = []
    for method in methods:
        if n_classes > method.most_classes or split.n > method.most_rows:
            row.append([np.nan] * len(quality.figure_names))
            continue
        q = predict(method, split)
        if q is None:
            quality.failures[method.name] += 1
            q = p
        if method.name == AUTO:
            auto_error = difference_error(q, p, split.held_out)
        row.append(measure(q, y))
    quality.runs.append({"set": split.name, "n": split.n, "draw": split.draw, "auto_error": auto_error})
    quality.rows.append(row)


def predict(method: Method, split: Split) -> np.ndarray | None:
    """Return the held-out probabilities; None where a peer fails, or lacks a number or a class."""
    silent = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        warnings.simplefilter("ignore")
        try:
            q = method.fit(split.calibration)(split.held_out)
        except Exception:
            if not method.is_peer:
                raise
            return None
    is_whole = q.shape == split.held_out.p.shape and bool(np.isfinite(q).all())
    return np.clip(q, 0.0, 1.0) if is_whole else None


def _compact(document: dict[str, object]) -> str:
    """Return JSON with one line per run."""
    return json.dumps(document, separators=(",", ":")).replace('{"set"', '\n{"set"') + "\n"
