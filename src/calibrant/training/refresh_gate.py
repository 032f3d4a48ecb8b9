"""The gate of a refresh: calibrators fitted to the earlier part of new rows, and what the later part says of them.

A candidate is paired with the calibrator in use, and with none, on rows that neither was fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from calibrant.chain import Chain
from calibrant.dependence import as_times
from calibrant.errors import ColumnOrderError, InvalidLabelError, hold_warnings
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.phrases import count, listed, quoted
from calibrant.prior import PriorShift
from calibrant.rows import Rows
from calibrant.training import metrics_report
from calibrant.training.bundle import Member
from calibrant.training.calibration import Calibration, calibrate_rows, deployed, new_calibrator, temperature_of_one
from calibrant.training.dataset import FEWEST_ROWS, Dataset
from calibrant.training.metrics_report import AFTER, BEFORE, ROUNDING, Forecasts
from calibrant.training.run_folder import Run
from calibrant.training.trainer import unweighted

#: Independent labels without which a mean difference says nothing.
_FEWEST_LABELS = 10
#: What a candidate is paired with.
IN_USE, NONE = "in_use", "none"
PAIRED_WITH = {IN_USE: "the calibrator in use", NONE: "no calibrator"}

Verdict = Literal["passed", "refused", "nothing_to_do"]


@dataclass(slots=True, eq=False)
class RefreshGate:
    """The new rows of a run in two parts in time, the candidate of each model, and what the later part says of it."""

    run: Run
    newest: Dataset
    fit: Dataset
    judge: Dataset
    #: By the name of the model.
    candidates: dict[str, Calibration] = field(default_factory=dict)
    #: What the candidate gives of the later part beside what it is paired with, and beside what the models say before
    #: the weights of classes are undone; and the figures of the pairs.
    beside: dict[str, Forecasts] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, newest: Dataset, later: float) -> RefreshGate:
        """Cut new rows in time: the last share of them judges, and rows whose labels reach into it are in neither.

        Rows whose labels outlast all that judge are not used at all. The next refresh begins after the last label of
        those that judged, and would else be judged by rows that overlap what the deployed map was fitted to.
        """
        if not newest.n_rows:
            return cls(run, newest, newest, newest)
        fit, judge = newest.last(later)
        return cls(run, newest.take(np.flatnonzero(newest.label_end <= judge.label_end.max())), fit, judge)

    def decide(self) -> tuple[Verdict, str]:
        """Say whether there is anything to do, and whether the later part lets it pass; and why."""
        n = self.newest.n_rows
        last = _last_label(self.run)
        if not n:
            return "nothing_to_do", f"no row with a finished label came after {last}."
        if lack := _lack(self.fit, self.judge):
            return "nothing_to_do", f"{count(n, 'row')} with a finished label, taken from after {last}: {lack}"
        self.compare()
        if self.changes_nothing:
            return "nothing_to_do", "the refit gives what the calibrator in use gives."
        lost = [PAIRED_WITH[name] for name, gap in self.differences.items() if not metrics_report.is_no_worse(gap)]
        if lost:
            what = " and that of ".join(lost)
            above = f"the log loss of the refit is more than a standard error above that of {what}"
            return "refused", f"later rows show a loss: {above}."
        return "passed", "later rows show no loss."

    def compare(self) -> None:
        """Fit the candidates to the earlier part, and measure them on the later one."""
        config = self.run.config
        of_candidate: list[FloatArray] = []
        of_others: dict[str, list[FloatArray]] = {IN_USE: [], NONE: [], BEFORE: []}
        for member in self.run.bundle.members:
            shift = _shift_of(member)
            raw = unweighted(member.model.predict_proba(self.fit.X), shift)
            with hold_warnings():  # said by the fit to all rows
                found = calibrate_rows(
                    new_calibrator(config.calibrator, config.seed), self.fit.rows(raw), when=config.calibrate
                )
            self.candidates[member.name] = found
            later = member.model.predict_proba(self.judge.X)
            of_candidate.append(deployed(found.calibrator, shift).apply(Rows(later)))
            of_others[IN_USE].append(member.calibrator.apply(Rows(later)))
            of_others[NONE].append(unweighted(later, shift))
            of_others[BEFORE].append(later)
        candidate = np.mean(of_candidate, axis=0)
        for name, probs in of_others.items():
            self.beside[name] = Forecasts.beside_rates(np.mean(probs, axis=0), candidate, self.fit)
        for name in PAIRED_WITH:
            self.figures[name] = metrics_report.figures(self.judge, self.beside[name], rng=config.seed)

    @property
    def differences(self) -> dict[str, dict[str, float]]:
        """The candidate's log loss less that of what it is paired with."""
        name = f"log_loss_{AFTER}_minus_{BEFORE}"
        return {other: measured["differences"][name] for other, measured in self.figures.items()}

    @property
    def changes_nothing(self) -> bool:
        """Whether the candidate is the calibrator in use, but for rounding."""
        of = self.beside[IN_USE]
        return bool(np.abs(of.calibrated - of.raw).max() <= ROUNDING)

    def decision(self) -> str:
        """Say of each model whether the candidate calibrates, and why."""
        if len(self.candidates) == 1:
            return next(iter(self.candidates.values())).describe()
        return "; ".join(f"{name}: {one.describe()}" for name, one in self.candidates.items())

    def final(self, member: Member) -> Fitted:
        """Return the calibrator of a model, fitted to all new rows; left out where the candidate is."""
        shift, candidate = _shift_of(member), self.candidates[member.name]
        raw = unweighted(member.model.predict_proba(self.newest.X), shift)
        rows, config = self.newest.rows(raw), self.run.config
        if not candidate.is_used:
            return deployed(temperature_of_one(rows), shift)
        fitted = calibrate_rows(new_calibrator(config.calibrator, config.seed), rows, when="always")
        return deployed(fitted.calibrator, shift)


def newest_rows(run: Run, rows: Dataset, source: str) -> Dataset:
    """Return the rows that begin after the last label that a run knew of, with its features and classes."""
    known = run.found["features"]
    missing = [name for name in known if name not in rows.names]
    if missing:
        raise ColumnOrderError(
            f"{source} lacks {quoted(missing)}: the features of {run.run_id} are {listed(known)}. Pass data "
            "of the kind that the run was trained on."
        )
    classes = np.array(run.found["classes"])
    other = [label for label in rows.classes.tolist() if label not in classes.tolist()]
    if other:
        raise InvalidLabelError(
            f"{source} holds the labels {quoted(other)}, and {run.run_id} was trained on {quoted(classes.tolist())}. "
            "Train a new model, or drop these rows."
        )
    places = [rows.names.index(name) for name in known]
    same = replace(rows, X=np.ascontiguousarray(rows.X[:, places]), names=tuple(known), classes=classes)
    last = _last_label(run)
    return same.take(np.flatnonzero(rows.time > last))


def _last_label(run: Run) -> np.generic:
    """Return when the last label was known that the run was fitted to or measured with."""
    import pyarrow.parquet as pq

    run.check("predictions.parquet")
    end = pq.read_table(run.path / "predictions.parquet", columns=["label_end"]).column("label_end").to_numpy()
    last: np.generic = as_times(end, name="label_end").max()
    return last


def _lack(fit: Dataset, judge: Dataset) -> str:
    """Say what the parts lack to fit and to judge; nothing where they have enough."""
    for name, part in (("to fit to", fit), ("to judge by", judge)):
        seen = np.unique(part.y).tolist()
        if part.n_rows < FEWEST_ROWS or len(seen) < 2:
            of = f" of the classes {quoted(seen)}" if seen else ""
            return (
                f"{count(part.n_rows, 'row')}{of} {name}, and at least "
                f"{FEWEST_ROWS} of two classes are needed. Wait for more labels."
            )
    worth = float(judge.weight.sum())
    if worth < _FEWEST_LABELS:
        return (
            f"{count(judge.n_rows, 'row')} to judge by are worth {worth:.1f} independent labels, and at least "
            f"{_FEWEST_LABELS} are needed. Wait for more labels."
        )
    return ""


def _shift_of(member: Member) -> PriorShift | None:
    """Return what undoes the weights that classes had in training, where there were any."""
    first = member.calibrator.steps[0] if isinstance(member.calibrator, Chain) else None
    return first if isinstance(first, PriorShift) else None
