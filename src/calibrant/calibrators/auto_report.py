"""What automatic calibration tried, what it chose and why; the constants of this choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from calibrant.document_field import DocumentField
from calibrant.maps import OneVsRestMap, PoolPart
from calibrant.readable import Readable, parts_of, rows_as_columns

#: The candidate that changes nothing.
NONE = "none"
#: Rows that the cross-validation takes at most; more would change the weights by less than their own noise.
MOST_ROWS = 20_000
#: Rows of the rarer of two classes that it takes more rows for, and the most rows for that.
RARE_ROWS, MOST_FOR_RARE = 200, 200_000
#: Candidates of less weight are dropped.
LEAST_WEIGHT = 1e-3
#: Rows of equal probabilities that are mixed in, so that nothing becomes impossible.
SPARE = 0.5
#: Whole numbers up to here are floats without rounding.
EXACT = 2**53


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(Readable):
    """A method that was tried: its name, "none" for the scores as they are, and its weight in the blend.

    `log_loss` is out of fold, a mean over rows; `difference` that to "none", with its `standard_error`, both NaN where
    the scores are no probabilities.
    """

    name: str
    log_loss: float
    difference: float
    standard_error: float
    weight: float


@dataclass(frozen=True, slots=True, repr=False)
class AutoReport(Readable):
    """What was tried, what was chosen, and why.

    Attributes
    ----------
    candidates : tuple of Candidate
        Every method, least log loss first.
    blend : Candidate
        The blend of them by their weights. Its figures are a little too good, since the weights were chosen on the
        same rows.
    chosen : str
        "blend", "none", or "base_rate" where all scores of two classes are equal.
    reason : str
        Why, in a sentence.
    n_rows, n_folds : int
        Rows and folds of the cross-validation.
    """

    candidates: tuple[Candidate, ...]
    blend: Candidate
    chosen: str
    reason: str
    n_rows: int
    n_folds: int

    def encode(self) -> dict[str, Any]:
        """Return the report as plain data; what is NaN is None."""
        rows = [_encoded(candidate) for candidate in (*self.candidates, self.blend)]
        facts = {"chosen": self.chosen, "reason": self.reason, "n_rows": self.n_rows, "n_folds": self.n_folds}
        return {"candidates": rows[:-1], "blend": rows[-1], **facts}

    @classmethod
    def decode(cls, field: DocumentField) -> AutoReport:
        """Return the report that a document holds."""
        parts = field.members(("candidates", "blend", "chosen", "reason", "n_rows", "n_folds"))
        return cls(
            tuple(_decoded(item) for item in parts["candidates"].items(minimum=0)),
            _decoded(parts["blend"]),
            parts["chosen"].choice(("blend", NONE, "base_rate")),
            parts["reason"].text(),
            parts["n_rows"].integer(minimum=0),
            parts["n_folds"].integer(minimum=0),
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([parts_of(candidate) for candidate in (*self.candidates, self.blend)])

    def _before(self) -> list[str]:
        return [self.reason]


def _encoded(candidate: Candidate) -> dict[str, Any]:
    held = asdict(candidate)
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in held.items()}


def _decoded(field: DocumentField) -> Candidate:
    parts = field.members([part.name for part in fields(Candidate)])
    difference, error = (parts[name].number(null=math.nan) for name in ("difference", "standard_error"))
    weight = parts["weight"].share()
    return Candidate(parts["name"].text(), parts["log_loss"].number(), difference, error, weight)


def sample_size(n_rows: int, rarer: float) -> int:
    """Return how many rows decide on a map of two classes, of which the rarer has a share `rarer` of all rows.

    One row of a rare class tells as much as thousands of others, so that there have to be enough of these.
    """
    most = MOST_FOR_RARE if rarer * MOST_FOR_RARE <= RARE_ROWS else max(MOST_ROWS, math.ceil(RARE_ROWS / rarer))
    return min(n_rows, most)


def sampled_report(report: AutoReport, n_rows: int) -> AutoReport:
    """Return the report with a word on how many rows decided, where these are not all of `n_rows`."""
    if report.n_rows >= n_rows:
        return report
    return replace(report, reason=f"{report.reason} Decided on a sample of {report.n_rows:,} rows.")


def inverted_report(report: AutoReport, in_order: float, *, is_turned: bool) -> AutoReport:
    """Return the report of scores that run against the labels; turned round, they are changed whatever that gains."""
    found = f"The scores run against the labels ({in_order:.1%} of pairs in order)"
    if is_turned:
        reason = f'{found}: they are turned round, and "{NONE}" here means no other change.'
        return replace(report, chosen=report.blend.name, reason=reason)
    return replace(report, reason=f"{report.reason} {found}, and allow_inversion=True would turn them round.")


def exportable_report(report: AutoReport, parts: Sequence[PoolPart]) -> AutoReport:
    """Return the report with a word on what can't be exported of the parts of a product, and how it could."""
    if all(not isinstance(part, OneVsRestMap) or part.coupling != "likelihood" for part in parts):
        return report
    more = 'It can go to ONNX but not to SQL; with exportable="sql" it could.'
    return replace(report, reason=f"{report.reason} {more}")
