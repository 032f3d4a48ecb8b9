"""Refresh a run: refit its calibrators alone on rows that came since, and keep what later rows show no loss of.

The models stay. Rows count that begin after the last label that the run knew of. Their earlier part fits a candidate;
on the later part, whose labels none of the earlier ones overlap, the candidate is paired with the calibrator in use and
with none. Where it is above neither by more than a standard error, the calibrator is fitted to all of these rows and
goes into a new run folder beside the old one, which stays as it is.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibrant import persistence
from calibrant.errors import CalibrantError
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import plain
from calibrant.tables import in_all_rows
from calibrant.training import metrics_report, run_folder
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import BEFORE
from calibrant.training.refresh_gate import IN_USE, PAIRED_WITH, RefreshGate, newest_rows
from calibrant.training.run_folder import Run
from calibrant.training.run_log import LOGGER, logged_to
from calibrant.training.run_pictures import write_page
from calibrant.training.sources import Source, TableSource, open_source
from calibrant.training.trainer import save_calibrator
from calibrant.validation import check_fraction, check_integer

_LOG = logging.getLogger(LOGGER)
#: What the refresh of a run is told by: the command of its config.toml.
COMMAND = "refresh"
Status = Literal["refreshed", "passed", "refused", "nothing_to_do"]


@dataclass(frozen=True, slots=True, repr=False)
class RefreshResult(Readable):
    """How a refresh ended, and what decided it.

    Attributes
    ----------
    status : {"refreshed", "passed", "refused", "nothing_to_do"}
        "passed" is what would be refreshed but for `dry_run`.
    parent : str
        The id of the run that was to be refreshed.
    run_id : str or None
        The id of the new run; None where there is none.
    reason : str
        Why, in a sentence.
    n_rows, n_fit, n_later : int
        Rows that came since, or those of them that were asked for; how many the candidate was fitted to, and how many
        judged it. Rows between, whose labels reach into the later part, are in neither; those whose labels outlast all
        of the later part are not counted.
    n_left_out : int
        Rows of a table that have no label yet, or no end of it.
    n_independent : float
        Independent labels that the later rows are worth.
    differences : dict
        The candidate's mean log loss on the later rows less that of the calibrator "in_use", and less that of "none":
        `value`, `standard_error`, `low` and `high`, by Student's t over blocks of time. Empty where none was measured.
    decision : str
        Whether the candidate calibrates, and why.
    """

    status: Status
    parent: str
    run_id: str | None
    reason: str
    n_rows: int
    n_fit: int = 0
    n_later: int = 0
    n_left_out: int = 0
    n_independent: float = 0.0
    differences: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    decision: str = ""

    _left_to_frames = ("status", "parent", "run_id", "reason", "decision")

    @property
    def is_refused(self) -> bool:
        """Whether later rows spoke against the candidate."""
        return self.status == "refused"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        found: dict[str, Any] = plain(asdict(self))
        return found

    def _columns(self) -> dict[str, Sequence[Any]]:
        if not self.differences:
            return super(RefreshResult, self)._columns()
        return rows_as_columns([{"log_loss_less_that_of": name, **gap} for name, gap in self.differences.items()])

    def _coverage(self) -> float:
        return metrics_report.LEVEL

    def _before(self) -> list[str]:
        return [f"{self.parent}: {self.status.replace('_', ' ')}: {self.reason}"]


def refresh_run(
    run: Run,
    data: Any = None,
    *,
    rows: int | None = None,
    later: float = 0.5,
    dry_run: bool = False,
    root: str | os.PathLike[str] | None = None,
    echo: bool = False,
) -> RefreshResult:
    """Refit the calibrators of a run on the newest labelled rows, and keep them where later rows show no loss.

    Parameters
    ----------
    run : Run
        It stays as it is: what is kept goes into a new run.
    data : path-like, frame, Bars or source, optional
        The newest bars, with enough of those before for the features, or the newest rows of the table, of which those
        count that have a label; by default what the settings of the run name, read again.
    rows : int, optional
        Take the last so many of the new rows, as after a drift the ones before tell of times that are gone; by default
        all of them.
    later : float
        Share of the rows that judges: the last ones in time.
    dry_run : bool
        Whether to judge and write nothing.
    root : path-like, optional
        The folder of the new run; by default the one that the run is in.
    echo : bool
        Whether to log to standard error too.

    Returns
    -------
    RefreshResult
        Its `run_id` names the new run, which holds the same models and the new calibrators, and says in its settings
        that it was ``refreshed_from`` this one. There is none where the gate refused, where too few rows came since, or
        where the refit changes nothing.

    Raises
    ------
    CalibrantError
        If the data can't be used: features or classes are others than those of the run.

    Notes
    -----
    Rows count that begin after the last label that the run knew of: neither its models nor the calibrator in use were
    fitted to them, or chosen by them. The earlier part fits the candidate, by the settings of the run; rows whose
    labels reach into the later part are left out. The gate passes where the candidate's mean log loss on the later part
    is above neither that of the calibrator in use nor that of none by more than a standard error of the difference, as
    the gates of a run have it. To ask for a gain instead, however small, refuses half of all refits where nothing has
    changed. In the simulations by which the rule was chosen, and which no benchmark repeats, that left up to twice the
    loss behind after slight drifts; where nothing changed, the standard error cost at most 0.002 in log loss (120 new
    rows), and less with more rows.

    What is deployed is fitted to all new rows, those of the later part among them: so the figures of the gate, and of
    the new run, are those of the candidate, and not of the deployed map, which has seen more rows. A run of several
    models is judged by the plain average of them. Its meta-learner, which was fitted to the old calibrators, is not
    taken along.
    """
    later = check_fraction("later", later)
    rows = None if rows is None else check_integer("rows", rows, minimum=1)
    run.check()
    began = time.perf_counter()
    record: dict[str, Any] = {"started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", "refreshed_from": run.run_id}
    config = run.config
    if config.table and not config.score:  # so that other columns of the newest table are no features
        config = replace(config, features=tuple(run.found["features"]))
    source = open_source(config, data)
    source = source.labelled() if isinstance(source, TableSource) else source
    try:
        source.check_like(run.found, run.run_id)
        labelled = source.dataset(config)
    except CalibrantError as error:  # those without a label count too for who looks the row up
        said = in_all_rows(str(error), source.rows) if isinstance(source, TableSource) else str(error)
        raise type(error)(said) from None
    newest = newest_rows(run, labelled, source.source)
    newest = newest if rows is None else newest.take(np.arange(newest.n_rows)[-rows:])
    n_left_out = source.rows.n_skipped if isinstance(source, TableSource) else 0
    gate = RefreshGate.of(run, newest, later)
    status, reason = gate.decide()
    if status != "passed" or dry_run:
        return _result(gate, status, reason, n_left_out)
    root = run.path.parent if root is None else root
    with run_folder.new_run(root, f"{_stem(run)}_refreshed", record) as folder:
        with logged_to(folder / "log.jsonl", echo=echo):
            _LOG.info("Refresh of %s: %s", run.run_id, reason)
            for name, gap in gate.differences.items():
                shown = (gap[key] for key in ("value", "low", "high"))
                _LOG.info("Log loss less that of %s: %+.4f (%+.4f to %+.4f)", PAIRED_WITH[name], *shown)
            _LOG.info("%s: %s", run.config.calibrator, gate.decision())
            _write(folder, gate, source)
        record["wall_s"] = round(time.perf_counter() - began, 3)
    return _result(gate, "refreshed", reason, n_left_out, record["run_id"])


def _result(
    gate: RefreshGate, status: Status, reason: str, n_left_out: int, run_id: str | None = None
) -> RefreshResult:
    """Return how the refresh ended."""
    return RefreshResult(
        status=status,
        parent=gate.run.run_id,
        run_id=run_id,
        reason=reason,
        n_rows=gate.newest.n_rows,
        n_fit=gate.fit.n_rows,
        n_later=gate.judge.n_rows,
        n_left_out=n_left_out,
        n_independent=round(float(gate.judge.weight.sum()), 1),
        differences=gate.differences,
        decision=gate.decision(),
    )


def _stem(run: Run) -> str:
    """Return what the ids of a run and of those that refresh it begin with."""
    return re.sub(r"(_refreshed)?_\d{8}_\d{6}_\d{6}_[0-9a-f]+$", "", run.run_id)


def _write(folder: Path, gate: RefreshGate, source: Source) -> None:
    """Write all files of the new run but the log and the record."""
    run, config = gate.run, gate.run.config
    of_data = source.provenance()
    of_rows = {f"refresh_{name}": of_data[name] for name in ("source", "data_sha256")}
    found = {**run.found, "command": COMMAND, "refreshed_from": run.run_id, **of_rows}
    persistence.write_whole(folder / "config.toml", config.to_toml(found).encode())
    folders = run.model_folders()
    for member in run.bundle.members:
        old = folders[member.name]
        new = folder / old.relative_to(run.path)
        new.mkdir(parents=True)
        shutil.copyfile(old / member.model.file, new / member.model.file)
        said = {"decision": gate.candidates[member.name].describe(), "refreshed_from": run.run_id, **of_rows}
        save_calibrator(gate.final(member), new, said)
    run_folder.write_json(folder / "metrics.json", _metrics(gate))
    columns = {"raw": gate.beside[BEFORE].raw, IN_USE: gate.beside[IN_USE].raw, "p": gate.beside[BEFORE].calibrated}
    table = gate.judge.table(columns)
    run_folder.write_table(folder / "predictions.parquet", table, has_zone=source.has_zone)
    title = f"{run.run_id} refreshed: calibrated by {config.calibrator}, on later rows"
    write_page(folder / "report.html", gate.judge, gate.beside[BEFORE], title=title, source=source.source)


def _metrics(gate: RefreshGate) -> dict[str, Any]:
    """Return what metrics.json says: the candidate on the later part, beside none, and the pairs that decided."""
    config = gate.run.config
    on_later = metrics_report.figures(gate.judge, gate.beside[BEFORE], rng=config.seed)
    spans = {name: _span(part) for name, part in (("fit", gate.fit), ("later", gate.judge), ("newest", gate.newest))}
    used = {name: one.is_used for name, one in gate.candidates.items()}
    members = {name: {"calibration": one.as_dict()} for name, one in gate.candidates.items()}
    document = {
        "calibration": {
            **metrics_report.calibration_figures(on_later),
            "calibrator": config.calibrator,
            "used": used if len(used) > 1 else next(iter(used.values())),
            "decision": gate.decision(),
            "fitted_on": f"new rows, for these figures: {spans['fit']}",
            "measured_on": f"later rows that the figures' calibrator has not seen: {spans['later']}",
            "deployed": f"fitted to all new rows, those of the figures among them: {spans['newest']}",
            "definitions": metrics_report.DEFINITIONS,
        },
        "refresh": {
            "refreshed_from": gate.run.run_id,
            "rule": "log loss on later rows at most a standard error above that of the calibrator in use, and of none",
            "differences": gate.differences,
        },
        **({"members": members} if len(members) > 1 else {}),
        "gates": metrics_report.gates(on_later),
        "targets": metrics_report.targets(on_later),
        "test": on_later,
        "warnings": [],
    }
    found: dict[str, Any] = plain(document)
    return found


def _span(part: Dataset) -> str:
    return f"{part.n_rows:,} rows, {part.time.min()} to {part.label_end.max()}"
