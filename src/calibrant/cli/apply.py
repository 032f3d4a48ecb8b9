"""calibrant apply: calibrated probabilities beside the scores of a file."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
import numpy as np

from calibrant import persistence
from calibrant.calibrators import Calibrator
from calibrant.cli.data import check_output, format_option, match_by_name, read_scores, split_list
from calibrant.cli.examples import Command
from calibrant.cli.output import count, listed, progress
from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts import Recalibrator
from calibrant.grouped import GroupedCalibrator, say_unseen
from calibrant.maps import is_binary
from calibrant.multilabel import MultilabelCalibrator
from calibrant.numerics import FloatArray, IntArray
from calibrant.prior import PriorShift
from calibrant.probability import ProbabilityCalibrator
from calibrant.tables import NewColumns, append_columns
from calibrant.validation import as_groups

if TYPE_CHECKING:
    import pyarrow as pa

#: What a file can hold.
Fitted: TypeAlias = Calibrator | ProbabilityCalibrator | GroupedCalibrator | PriorShift | MultilabelCalibrator


@click.command(
    "apply",
    cls=Command,
    examples=[
        "calibrant apply calibrator.json new.csv -o out.csv",
        "zcat new.csv.gz | calibrant apply calibrator.json - --score prob -o - | gzip > out.csv.gz",
    ],
)
@click.argument("calibrator")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is standard output.")
@click.option(
    "--score",
    multiple=True,
    metavar="COLUMNS",
    help="Column of the scores, or one per class.  [default: those that it was fitted to]",
)
@click.option(
    "--group", metavar="COLUMN", help="Column of the groups.  [default: that which it was fitted to, if by group]"
)
@click.option(
    "--column",
    default="p_calibrated",
    show_default=True,
    metavar="NAME",
    help="Name of the new column; of several, what comes before _CLASS.",
)
@format_option
def command(
    calibrator: str,
    file: str,
    output: str,
    score: tuple[str, ...],
    group: str | None,
    column: str,
    format: str | None,
) -> None:
    """Add the calibrated probabilities of CALIBRATOR to the scores in FILE.

    Same rows, same order, and every other column as it was: to the byte in CSV and JSON lines, with its type in
    Parquet. OUT may be FILE itself, and appears whole or not at all. Where OUT has another format than FILE,
    values are converted.

    FILE may be a folder of files of one format; OUT is then a folder, which gets a part for each. A file is written in
    parts too where OUT ends in a slash. Killed and started again, it redoes only the parts that are missing.

    A calibrator that was fitted by group reads the column of groups too.

    One score column gives p_calibrated; one per class gives p_calibrated_CLASS for each class.
    """
    check_output(output, calibrator)
    task = Task(load_calibrator(calibrator), score, file, group)
    outputs = task.outputs(column)
    fingerprint = f"calibrator {hashlib.sha256(Path(calibrator).read_bytes()).hexdigest()}"
    with progress("Calibrating") as advance:
        done = append_columns(
            file,
            output,
            columns=NewColumns(task.inputs, outputs, task.compute),
            fingerprint=fingerprint,
            format=format,
            progress=advance,
        )
    if output != "-":
        kept = f"; {done.n_kept:,} were there already" if done.n_kept else ""
        parts = f" in {count(done.n_parts, 'part')}{kept}" if Path(output).is_dir() else ""
        click.echo(f"Wrote {output}: {count(done.n_rows, 'row')} with {listed(outputs)}{parts}")


def load_calibrator(path: str) -> Fitted:
    """Load what calibrates scores.

    Raises
    ------
    CalibrantError
        If the file can't be read, or holds a recalibrator of forecasts.
    """
    loaded: Fitted | Recalibrator = persistence.load(path)
    if isinstance(loaded, Recalibrator):
        raise InvalidTypeError(f"{path} holds a recalibrator of forecasts. Run calibrant forecast apply {path}.")
    return loaded


class Task:
    """A loaded calibrator, and the columns of a file that it is applied to."""

    def __init__(self, calibrator: Fitted, score: tuple[str, ...], file: str, group: str | None = None) -> None:
        self.calibrator = calibrator
        self.file = "standard input" if file == "-" else file
        self.is_stored = not score
        self.inputs = [name for text in score for name in split_list(text)] if score else stored_columns(calibrator)
        if not self.inputs:
            raise InvalidInputError(
                "the calibrator doesn't say which columns it was fitted to. Name them with --score."
            )
        is_pattern = not self.is_stored and any(c in "*?[" for c in "".join(self.inputs))
        takes_one = not isinstance(calibrator, MultilabelCalibrator) and is_binary(calibrator.map_)
        is_single = takes_one and len(self.inputs) == 1 and not is_pattern
        self.n_columns = 1 if is_single else len(calibrator.classes_)
        self.scores = tuple(self.inputs)
        self.group = self._group(group)
        self._warned: set[object] = set()
        if self.group is not None and self.group not in self.inputs:
            self.inputs = [*self.inputs, self.group]

    def outputs(self, column: str) -> list[str]:
        """Return the names of the new columns."""
        if self.n_columns == 1:
            return [column]
        return [f"{column}_{label}" for label in self.calibrator.classes_.tolist()]

    def compute(self, found: pa.Table) -> FloatArray:
        """Calibrate the scores of some rows."""
        names = self._in_order([name for name in found.column_names if name != self.group or name in self.scores])
        if isinstance(self.calibrator, ProbabilityCalibrator):
            scores = read_scores(found, names, self.file, input="probability", sum_to_one=False)
            return np.asarray(self.calibrator.calibrate(scores))
        sum_to_one = not (isinstance(self.calibrator, MultilabelCalibrator) and self.calibrator.input == "probability")
        scores = read_scores(found, names, self.file, input=self.calibrator.input, sum_to_one=sum_to_one)
        if isinstance(self.calibrator, GroupedCalibrator):
            return self.calibrator.predict_at(scores, self._places(self.calibrator, found))
        return np.asarray(self.calibrator.predict_proba(scores))

    def _group(self, given: str | None) -> str | None:
        """Return the column of groups of a calibrator that needs one."""
        if not isinstance(self.calibrator, GroupedCalibrator):
            if given is not None:
                raise InvalidInputError("the calibrator was not fitted by group. Leave --group out.")
            return None
        stored = getattr(self.calibrator, "metadata_", {}).get("group")
        if given is None and not isinstance(stored, str):
            raise InvalidInputError("the calibrator doesn't say which column names its groups. Name it with --group.")
        return given or str(stored)

    def _places(self, calibrator: GroupedCalibrator, found: pa.Table) -> IntArray:
        """Return the place of each row's group, found by its text: types of text files can differ from part to part."""
        name = f"column {self.group!r} of {self.file}"
        labels = as_groups(found.column(self.group), name=name)
        place = {str(group): i for i, group in enumerate(calibrator.groups_.tolist())}
        at = np.array([place.get(str(group), -1) for group in labels.classes.tolist()], dtype=np.int64)
        unseen = [group for group in labels.classes[at < 0].tolist() if group not in self._warned]
        if unseen:
            self._warned.update(unseen)
            message = f"{say_unseen(name, unseen)}: the map of all rows is used for them"
            warnings.warn(message, DataWarning, stacklevel=2)
        return np.take(at, labels.codes)

    def _in_order(self, names: list[str]) -> list[str]:
        """Return the score columns in the order of the classes: by name where names say it, else as given."""
        if len(names) != self.n_columns:
            raise ShapeError(
                f"the calibrator was fitted for the {len(self.calibrator.classes_)} classes "
                f"{self.calibrator.classes_.tolist()[:20]!r}, and --score names {count(len(names), 'column')}: "
                f"{listed(names)}. Name one column per class."
            )
        if self.is_stored or len(names) == 1:
            return names
        return match_by_name(names, [str(label) for label in self.calibrator.classes_]) or names


def stored_columns(calibrator: Fitted) -> list[str]:
    """Return the names of the columns that a calibrator was fitted to, as far as it knows them."""
    stored = getattr(calibrator, "metadata_", {}).get("score") or calibrator.score_names_ or []
    return [str(name) for name in stored] if isinstance(stored, (list, tuple)) else []
