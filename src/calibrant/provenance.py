"""Provenance: when a calibrator was fitted, to which rows, and what it was worth on rows that it had not seen.

It stands in a document beside the calibrator. A fit alone doesn't read the clock: equal fits give equal bytes. Who
saves one says where it comes from, as `calibrant fit` does.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant._version import __version__
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.phrases import bracketed, clean, count, figure, percent_level, shorten
from calibrant.results import Plain, Score, plain
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, InputKind

#: Seconds since 1970 that stand for now where builds must be reproducible; see reproducible-builds.org.
EPOCH = "SOURCE_DATE_EPOCH"
#: The last second of the year 9999, and the most of anything that a document may hold.
_LAST_SECOND, _MOST_ROWS, _MOST_FOLDS = 253402300799, 2**53, 2**31
_MOST_LETTERS, _MOST_METRICS = 4096, 64
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MEMBERS = ("fitted_at", "calibrant", "source", "n_rows", "rows_sha256", "out_of_fold")
_FIGURES = ("value", "low", "high")
_FIX = "Fit the calibrator again, or leave the provenance out."


class RowHash:
    """A hash of rows in their order: scores, weight and the place of the label among the sorted classes.

    Of predictions of a number the outcome is the label; of forecasts their columns are the scores. Each row is these
    numbers, as little-endian float64, so that batches give what the whole gives.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.n_rows = 0

    def update(self, rows: Rows) -> Self:
        """Add rows to the hash."""
        return self.update_numbers(rows.scores, rows.weights, rows.codes if rows.outcomes is None else rows.outcomes)

    def update_numbers(self, scores: FloatArray, weight: FloatArray, labels: npt.NDArray[Any]) -> Self:
        """Add rows to the hash, given by their numbers; `scores` may have several columns."""
        self._hash.update(np.column_stack((scores, weight, labels)).astype("<f8").tobytes())
        self.n_rows += weight.size
        return self

    def hexdigest(self) -> str:
        """Return the hash of all rows so far."""
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """What scores were worth before calibration and after one that had not seen them: value and interval by metric."""

    n_folds: int
    level: float
    before: Mapping[str, tuple[float, float, float]] | None
    after: Mapping[str, tuple[float, float, float]]

    @classmethod
    def of(cls, n_folds: int, level: float, scores: Mapping[str, Mapping[str, Score]], names: Sequence[str]) -> Self:
        """Take the named metrics of scores that were measured "before" and "after"."""
        found = {
            when: {name: (each[name].value, each[name].low, each[name].high) for name in names}
            for when, each in scores.items()
        }
        return cls(n_folds, level, found.get("before"), found["after"])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; what is infinite or undefined is None."""
        return {
            "n_folds": self.n_folds,
            "level": self.level,
            "before": None if self.before is None else _as_plain(self.before),
            "after": _as_plain(self.after),
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of a table of it, in words."""
        parts = {"before": self.before, "after": self.after}
        shown = {when: each for when, each in parts.items() if each is not None}
        header = ["metric", *(text for when in shown for text in (when, f"{percent_level(self.level)} interval"))]
        rows = [
            [clean(name), *(text for each in shown.values() for text in _in_words(each.get(name)))]
            for name in self.after
        ]
        return header, rows

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Read it from a document."""
        each = body.members(("n_folds", "level", "before", "after"))
        level = each["level"].fraction()
        before = None if each["before"].value is None else _figures(each["before"])
        return cls(each["n_folds"].integer(minimum=2, maximum=_MOST_FOLDS), level, before, _figures(each["after"]))


@dataclass(frozen=True, slots=True, repr=False)
class Provenance(Plain):
    """When a calibrator was fitted, to which rows, and its figures out of fold.

    Attributes
    ----------
    fitted_at : str
        The time in UTC, such as "2026-11-23T21:42:01Z".
    source : str
        Name of the file or table of the rows; empty where nobody said it.
    n_rows : int
        Number of rows, those of weight zero left out.
    rows_sha256 : str
        Hash of the rows in their order. Each row counts as its scores, its weight and the place of its label among the
        sorted classes, or as a prediction or the columns of a forecast, the weight and the outcome, as little-endian
        float64.
    out_of_fold : OutOfFold or None
        What the scores were worth before, and after a calibration that had not seen them, where this was measured.
    calibrant : str
        The release that fitted it.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores, y = [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]
    >>> fitted = cb.IsotonicCalibrator().fit(scores, y)
    >>> said = cb.persistence.Provenance.of(scores, y, source="scores.parquet")
    >>> document = cb.persistence.to_document(fitted, provenance=said)
    >>> cb.persistence.from_document(document).provenance_.n_rows
    4
    """

    fitted_at: str
    source: str
    n_rows: int
    rows_sha256: str
    out_of_fold: OutOfFold | None = None
    calibrant: str = field(default=__version__)

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        input: InputKind = "probability",
        source: str = "",
    ) -> Self:
        """Describe the rows that a calibrator was fitted to, at this moment.

        Parameters
        ----------
        scores, y, sample_weight, input
            As in the calibrator's `fit`.
        source : str
            Name of the file or table.

        Returns
        -------
        Provenance
            Of now, or of the second since 1970 that the environment variable ``SOURCE_DATE_EPOCH`` names.

        Raises
        ------
        CalibrantError
            If the rows can't be used.
        """
        rows = read_rows(scores, y, sample_weight=sample_weight, input=input)
        return cls.of_batches([rows], source=source)

    @classmethod
    def of_batches(cls, batches: Iterable[Rows], *, source: str, out_of_fold: OutOfFold | None = None) -> Self:
        """Describe checked rows in batches."""
        found = RowHash()
        for rows in batches:
            found.update(rows)
        return cls.of_hash(found, source=source, out_of_fold=out_of_fold)

    @classmethod
    def of_hash(cls, found: RowHash, *, source: str, out_of_fold: OutOfFold | None = None) -> Self:
        """Describe rows that were hashed."""
        return cls(_now(), shorten(clean(source), _MOST_LETTERS), found.n_rows, found.hexdigest(), out_of_fold)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, as a document has it."""
        figures = None if self.out_of_fold is None else self.out_of_fold.to_dict()
        return {**{name: getattr(self, name) for name in _MEMBERS}, "out_of_fold": figures}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Read it from a document, or raise DocumentError."""
        each = DocumentField(body.value, body.path, body.version, _FIX).members(_MEMBERS)
        for name in ("fitted_at", "calibrant", "source"):
            if len(each[name].text()) > _MOST_LETTERS:
                each[name].refuse(f"has more than {_MOST_LETTERS:,} letters")
        if not _is_time(each["fitted_at"].text()):
            each["fitted_at"].refuse("is no time in UTC such as '2026-11-23T21:42:01Z'")
        if not re.fullmatch("[0-9a-f]{64}", each["rows_sha256"].text()):
            each["rows_sha256"].refuse("is no SHA-256, which has 64 of the digits 0 to 9 and a to f")
        measured = each["out_of_fold"]
        return cls(
            each["fitted_at"].text(),
            each["source"].text(),
            each["n_rows"].integer(minimum=1, maximum=_MOST_ROWS),
            each["rows_sha256"].text(),
            None if measured.value is None else OutOfFold.decode(measured),
            each["calibrant"].text(),
        )

    def facts(self) -> dict[str, str]:
        """Return time, source and rows in words, by the name of each."""
        return {
            "fitted at": f"{self.fitted_at}, by calibrant {clean(self.calibrant)}",
            **({"source": clean(self.source)} if self.source else {}),
            "rows": f"{count(self.n_rows, 'row')} of SHA-256 {self.rows_sha256}",
        }

    def _columns(self) -> dict[str, Sequence[Any]]:
        facts = self.facts()
        if self.out_of_fold is not None:
            header, rows = self.out_of_fold.table()
            for row in rows:
                parts = zip(header[1::2], row[1::2], row[2::2], strict=True)
                facts[f"{row[0]} out of fold"] = ", ".join(" ".join(part).strip() for part in parts)
        return {"fact": list(facts), "value": list(facts.values())}


def digest(value: object) -> bytes:
    """Return a hash of plain data, arrays and tuples: what tells whether a fitted object is the one that was read."""
    found = hashlib.sha256()
    if isinstance(value, Mapping):
        for key, item in value.items():
            found.update(repr(key).encode() + digest(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            found.update(digest(item))
    elif isinstance(value, np.ndarray) and value.dtype != object:
        found.update(repr((value.shape, value.dtype.str)).encode() + value.tobytes())
    else:
        found.update(repr(value.tolist() if isinstance(value, np.ndarray) else value).encode())
    return found.digest()


def _now() -> str:
    """Return the time in UTC, or the one that the environment says for reproducible outputs."""
    given = os.environ.get(EPOCH)
    if not given:
        return datetime.now(UTC).strftime(_TIME)
    if not given.isascii() or not given.isdigit() or int(given[:20]) > _LAST_SECOND:
        raise InvalidInputError(f"{EPOCH}={given!r:.60} is no number of seconds since 1970. Set one, or unset it.")
    return datetime.fromtimestamp(int(given), UTC).strftime(_TIME)


def _is_time(text: str) -> bool:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC).strftime(_TIME) == text
    except ValueError:
        return False


def _as_plain(figures: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Return figures as a list of objects; what is infinite or undefined, which JSON lacks, is None."""
    return [
        {"metric": name, **{key: plain(value) for key, value in zip(_FIGURES, each, strict=True)}}
        for name, each in figures.items()
    ]


def _figures(body: DocumentField) -> dict[str, tuple[float, float, float]]:
    """Read value, low and high of each metric."""
    found: dict[str, tuple[float, float, float]] = {}
    if len(body.items()) > _MOST_METRICS:
        body.refuse(f"has more than {_MOST_METRICS} metrics")
    for item in body.items():
        each = item.members(("metric", *_FIGURES))
        name = each["metric"].text()
        if name in found or len(name) > _MOST_LETTERS:
            each["metric"].refuse(f"is there twice, or longer than {_MOST_LETTERS:,} letters")
        value, low, high = (each[key].number(null=math.nan) for key in _FIGURES)
        found[name] = (value, low, high)
    return found


def _in_words(each: tuple[float, float, float] | None) -> tuple[str, str]:
    return ("", "") if each is None else (figure(each[0]), bracketed(each[1], each[2]))
