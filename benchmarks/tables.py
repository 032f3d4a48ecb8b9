"""Calibrators on the models of real tables: every method of ours and of peers, by the number of calibration rows.

`python -m benchmarks tables --data FOLDER` reads the scores that `benchmarks.table_scores` has written to FOLDER; where
there are none it trains the models first, in about 40 minutes. What each method did is kept in FOLDER/measured, so that
a run that was cut off goes on, and `--methods auto` or `--methods ours` measures these anew beside what is kept of the
others. At each size three models of a table are run, which change from size to size; `--all-models` runs all eleven.
`--half A` keeps half of the tables out of sight. Results of plain models are shown for each half, those of models that
are good already apart; and both for the tables that had no part in the choice of auto's constants (`CHOSEN_ON`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks._harness import Tables
from benchmarks.calarena import benchmarks_in, read_experiments
from benchmarks.peers import installed
from benchmarks.quality_methods import Method
from benchmarks.real_tables import CHOSEN_ON
from benchmarks.table_goals import Part
from benchmarks.table_measures import Measures, measure_all
from benchmarks.table_methods import methods_of
from benchmarks.table_runs import runs_of

KINDS = ("binary", "multiclass")
HALVES = ("A", "B")
OURS = "ours"
_TITLE = """Calibrators on models of real tables, in CalArena's protocol: calibration rows are out of fold.
win: share of the other methods with a higher log loss, ties half. PHI: (loss before - after) / before. harm: share of
runs with a higher log loss than the scores as they are, by mean and beyond two standard errors over test rows or their
groups. worst excess: above the best single method of the run, on tables without groups. n=: mean log loss ("-": not run
everywhere). less auto: mean log loss less that of auto where both ran. Standard errors are clustered by table. failed:
runs that raised an error or gave no number; the scores are taken as they are there. New tables are those on which no
constant of auto was chosen; the halves hold the others too. Figures of new tables were in sight when the prior odds of
two classes and the spread of the prior were chosen, so that these two are not wholly new to them."""


def run(
    folder: str | None,
    only: str | None = None,
    *,
    methods: str | None = None,
    half: str | None = None,
    all_models: bool = False,
) -> Tables:
    """Compare the methods on what has been trained in a folder."""
    if folder is None:
        raise SystemExit("tables needs a folder for its scores: python -m benchmarks tables --data FOLDER")
    kinds = [kind for kind in KINDS if only in (None, kind)]
    if not kinds:
        raise SystemExit(f"tables has no {only!r}. Choose from: {', '.join(KINDS)}.")
    root = Path(folder)
    if not any(f"tables-{kind}" in benchmarks_in(root) for kind in KINDS):
        from benchmarks.table_scores import write_scores

        write_scores(folder)
    packages = ", ".join(f"{name} {version}" for name, version in installed().items())
    tables = Tables(f"{_TITLE}\nPeers: {packages}.")
    for kind in kinds:
        if f"tables-{kind}" in benchmarks_in(root):
            compare(tables, root, kind, methods, half, all_models=all_models)
    return tables


def compare(
    tables: Tables, root: Path, kind: str, methods: str | None, half: str | None, *, all_models: bool = False
) -> None:
    """Add the tables and goals of one kind of problem."""
    every = methods_of(kind)
    experiments = [e for e in read_experiments(root, f"tables-{kind}") if half in (None, e.half)]
    runs = runs_of(experiments, all_models=all_models)
    measures = measure_all(runs, every, root / "measured" / kind, fresh=named(methods, every))
    for part in parts_of(kind, measures):
        n_tables, n_runs = np.unique(part.tables).size, len(part.measures.runs)
        tables.add(f"{kind}, {part.name}: {n_runs:,} runs on {n_tables} tables", part.header(), part.rows())
        for claim, value, bound in part.goals():
            tables.goal(f"{kind}, {part.name}: {claim}", value, **bound)


def named(methods: str | None, every: list[Method]) -> tuple[str, ...]:
    """Return the methods that a list with commas names: a name without its own commas, or "ours" for all but peers."""
    names = {method.name.replace(",", ""): method.name for method in every}
    ours = [method.name for method in every if not method.is_peer]
    found: list[str] = []
    for each in [] if methods is None else methods.split(","):
        if each != OURS and each not in names:
            raise SystemExit(f"tables has no method {each!r}. Choose from: {OURS}, {', '.join(sorted(names))}.")
        found += ours if each == OURS else [names[each]]
    return tuple(found)


def parts_of(kind: str, measures: Measures) -> list[Part]:
    """Return the plain models of each half, the good models of both, and either of the tables that auto is new to."""
    kinds = np.array([run.experiment.kind for run in measures.runs])
    halves = np.array([run.experiment.half for run in measures.runs])
    is_new = np.array([run.experiment.dataset not in CHOSEN_ON for run in measures.runs])
    chosen = {f"half {half}": (kinds == "plain") & (halves == half) for half in HALVES} | {
        "good models": kinds == "good",
        "new tables only": (kinds == "plain") & is_new,
        "good models of new tables": (kinds == "good") & is_new,
    }
    return [Part(kind, name, measures.take(rows)) for name, rows in chosen.items() if rows.any()]
