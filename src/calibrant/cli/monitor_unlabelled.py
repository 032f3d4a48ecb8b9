"""calibrant monitor --no-labels: what probabilities promise before labels are known, and whether rows drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.common import echo, prose, table, write_json, write_page
from calibrant.cli.data import OpenedFile, Request
from calibrant.cli.monitor_rows import file_places
from calibrant.cli.monitor_state import load_state, open_state, write_state
from calibrant.cli.option_texts import called, split_names
from calibrant.errors import InvalidInputError
from calibrant.phrases import bracketed, count, figure, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.monitor import DriftMonitor, Period, UnlabelledWindow
    from calibrant.numerics import IntArray

_LEVEL, _MOST_SHOWN = 0.95, 20
#: Rows from which on a window without a name is known again by its digest: two of fewer rows may have the same one.
_LEAST_ROWS = 30


@dataclass(frozen=True, slots=True)
class UnlabelledRequest:
    """What the options say of windows without labels, and of the rows to compare them with."""

    request: Request
    date: str | None
    every: Period
    size: int | None
    reference: str | None
    columns: tuple[str, ...]
    threshold: float
    alpha: float | None
    state: str | None

    def check(self) -> None:
        """Refuse options that don't go together."""
        if self.watches_drift:
            return
        if self.columns:
            raise InvalidInputError(
                "--columns are compared with those of --reference. Name a file of rows from before."
            )
        if self.state is not None:
            raise InvalidInputError(
                "--state keeps evidence of drift from --reference. Name a file of rows from before."
            )
        if self.alpha is not None:
            raise InvalidInputError("--alpha is the chance of a false alarm of drift from --reference. Name one.")

    @property
    def has_state(self) -> bool:
        """Whether windows are added to those of a state, which has read the reference."""
        return self.state is not None and Path(self.state).exists()

    @property
    def watches_drift(self) -> bool:
        """Whether there are rows from before to compare with."""
        return self.reference is not None or self.has_state

    def run(self, output: str | None, title: str, *, as_json: bool) -> int:
        """Watch the windows of the file, print and write what was found, and return the exit code."""
        from calibrant.monitor import UnlabelledReport

        self.check()
        with open_state(self.state) as out:
            watched = self.columns_of(self.request.open(), is_new=True)
            monitor = self._monitor(watched[2])
            seen, passed = self._watch(monitor, *watched)
            report = UnlabelledReport(seen, monitor, title=title)
            if output is not None:
                write_page(report, output)
            if out is not None and monitor is not None:
                write_state(out, monitor)
        notes = [f"{listed(passed, most=3)} counted before, and passed over."] if passed else []
        if n_skipped := watched[0].source.n_skipped:
            notes.append(f"{count(n_skipped, 'row')} left out for missing values.")
        if as_json:
            write_json({"file": self.request.file, **report.summary(), "notes": notes})
        else:
            self._show(report.summary(), seen, monitor, [*notes, *([f"Wrote {output}"] if output else [])])
        return 1 if monitor is not None and monitor.is_alarm else 0

    def columns_of(self, opened: OpenedFile, *, is_new: bool) -> tuple[OpenedFile, pa.Table, dict[str, Any]]:
        """Return the table of an opened file, and its columns to watch for drift by name."""
        opened.check_held("--no-labels needs all rows", "Pass one period at a time and keep the state (--state).")
        source, weight = opened.source, opened.request.weight
        more = source.select(split_names(self.columns, source.names))
        beside = source.select([name for name in (weight, self.date) if name is not None]) if is_new else []
        found = source.read(list(dict.fromkeys([*opened.score, *more, *beside])))
        if found.num_rows == 0:
            raise InvalidInputError(f"{source.name} is empty. Pass at least one row.")
        return opened, found, {name: found.column(name) for name in dict.fromkeys([*opened.score, *more])}

    def _monitor(self, columns: dict[str, Any]) -> DriftMonitor | None:
        """Return the monitor of drift: that of the state, or a new one of the reference rows."""
        from calibrant.monitor import DriftMonitor

        if self.state is None or not self.has_state:
            if self.reference is None:
                return None
            request = replace(self.request, file=self.reference, table=None, weight=None)
            reference = self.columns_of(request.open(), is_new=False)[2]
            return DriftMonitor(reference, alpha=0.01 if self.alpha is None else self.alpha)
        monitor = load_state(DriftMonitor, self.state, self.alpha)
        if set(monitor.names) != set(columns):
            raise InvalidInputError(
                f"{self.state} watches {listed(list(monitor.names))}, and these options name {listed(list(columns))}. "
                "Name the same, or begin a new state."
            )
        return monitor

    def _watch(
        self, monitor: DriftMonitor | None, opened: OpenedFile, found: pa.Table, columns: dict[str, Any]
    ) -> tuple[list[UnlabelledWindow], list[str]]:
        """Estimate each window and watch it for drift; return the windows, and names of those counted before."""
        import numpy as np

        from calibrant.metrics import expected_of
        from calibrant.monitor import UnlabelledWindow
        from calibrant.tables import check_numbers, refuse_missing
        from calibrant.validation import as_scores, as_weight

        of, where = opened.request, opened.source.name
        for name in [*opened.score, *([] if of.weight is None else [of.weight])]:
            check_numbers(found.column(name), called(name, where))
        scored = found.select(opened.score)
        refuse_missing(scored, where, {})
        is_one = len(opened.score) == 1
        p = as_scores(
            scored.column(0) if is_one else scored,
            name=called(opened.score[0], where) if is_one else where,
            input="probability",
        ).values
        weight = None
        if of.weight is not None:
            weight = as_weight(found.column(of.weight), p.shape[0], name=called(of.weight, where), rows="the file")
        seen: list[UnlabelledWindow] = []
        passed: list[str] = []
        known = {} if monitor is None else {window.digest: window for window in monitor.windows}
        for name, at in self._windows(opened, found):
            part = {key: column.take(at) for key, column in columns.items()}
            weights = None if weight is None else weight[at]
            if weights is not None and not weights.any():
                raise InvalidInputError(f"window {name!r}: all weights are zero. Leave its rows out.")
            rows = np.take(p, at, axis=0)
            scores = expected_of(rows, weights, threshold=self.threshold, target="rows", level=_LEVEL)
            drift = None
            if monitor is not None:
                drift = known.get(monitor.digest(part))
                if drift is not None and (name == drift.name or (not name and at.size >= _LEAST_ROWS)):
                    passed.append(drift.name)
                else:
                    drift = monitor.update(part, name=name or None)
            called_so = name or (f"window {len(seen) + 1}" if drift is None else drift.name)
            seen.append(UnlabelledWindow(called_so, scores, drift))
        return seen, passed

    def _windows(self, opened: OpenedFile, found: pa.Table) -> Iterator[tuple[str, IntArray]]:
        """Yield the name and the rows of each window; windows of a fixed number of rows have no name."""
        import numpy as np

        from calibrant.monitor import period_codes

        n, where = found.num_rows, opened.source.name
        if self.date is not None:
            column = found.column(self.date).combine_chunks()
            names, place = period_codes(column, called(self.date, where), self.every)
        elif self.size is not None:
            place = np.arange(n) // self.size
            names = [""] * (int(place[-1]) + 1)
        else:
            names, place = file_places(opened, n, opened.score[0])
            names = [Path(name).name for name in names] if len(names) > 1 else names
        for i, name in enumerate(names):
            at = np.flatnonzero(place == i)
            if at.size:
                yield name, at

    def _show(
        self, found: dict[str, Any], seen: Sequence[UnlabelledWindow], monitor: DriftMonitor | None, notes: list[str]
    ) -> None:
        """Print a row for each of the last windows."""
        names = [name for name in ("brier", "auc") if name in seen[0].scores]
        rows = []
        for window in seen[-_MOST_SHOWN:]:
            right = window.scores["accuracy"]
            shown = [figure(window.scores[name].value) for name in names]
            drift = [] if window.drift is None else [f"{max(window.drift.log_e_values.values()):+z.2f}"]
            alarm = "alarm" if window.drift is not None and window.drift.is_alarm else ""
            rows.append(
                (
                    window.name,
                    f"{right.n:,}",
                    figure(right.value),
                    bracketed(right.low, right.high),
                    *shown,
                    *drift,
                    alarm,
                )
            )
        header = ("window", "n", "accuracy", "95% interval", *names, *([] if monitor is None else ["drift"]), "")
        echo(f"{self.request.file}: {count(len(seen), 'window')}, without labels\n")
        echo(table(header, rows))
        if len(rows) < len(seen):
            echo(f"(the last {len(rows)} of {len(seen):,} windows)")
        if monitor is not None:
            echo("drift: logarithm of the evidence, of the column that differs most")
        for text in (f"{found['headline']}. {found['advice']}", found["assumption"], *notes):
            echo(prose(f"\n{text}"))
