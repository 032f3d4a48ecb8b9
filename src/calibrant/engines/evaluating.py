"""All scores of predictions in any source of rows, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calibrant.engines.batches import open_rows
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import RowReader
from calibrant.engines.summarise import MAX_DISTINCT, Exact, check_exact, fold_summaries
from calibrant.errors import InvalidInputError
from calibrant.metrics.evaluation import _binary, _Settings
from calibrant.results import Score, Scores
from calibrant.summary import ScoreSummary
from calibrant.validation import as_generator, check_fraction, check_integer


@dataclass(frozen=True, slots=True)
class _Summarised:
    """A summary in place of the rows that a metric asks it of."""

    held: ScoreSummary
    is_binary: bool = True

    @property
    def n_rows(self) -> int:
        return round(self.held.total_weight)

    def one_column(self) -> _Summarised:
        return self

    def summary(self) -> ScoreSummary:
        return self.held


def evaluate(
    source: Any,
    *,
    score: str = "p",
    label: str = "y",
    weight: str | None = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    n_bins: int = 15,
    level: float = 0.95,
    rng: int | None = 0,
    evaluated_on: str = "given data",
    format: str | None = None,
    table: str | None = None,
) -> Scores:
    """Measure the probabilities of one column in any source, as `cb.evaluate` does in memory.

    Parameters
    ----------
    source, score, label, weight, exact, max_distinct, format, table
        As in `cb.engines.summarise`.
    n_bins, level, rng, evaluated_on
        As in `cb.evaluate`.

    Returns
    -------
    Scores
        Where the distinct scores fit, those of `cb.evaluate`. Where they don't, those of cells of neighbouring scores;
        `brier`, `log_loss`, `auc` and `ece` then say in their note how far that can be from the rows' own.

    Raises
    ------
    CalibrantError
        If the source can't be read, or a row can't be used.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.4, 0.35, 0.8] * 50, "y": [0, 0, 1, 1] * 50}
    >>> print(cb.engines.evaluate(rows)["brier"])
    brier 0.1581 [0.1356, 0.1806]
    """
    check_exact(exact)
    settings = _Settings(check_integer("n_bins", n_bins, minimum=1), check_fraction("level", level), as_generator(rng))
    check_integer("max_distinct", max_distinct, minimum=1)
    reader = RowReader(open_rows(source, format=format, table=table), score=score, label=label, weight=weight)
    if not reader.is_binary:
        raise InvalidInputError(
            f"score={score!r} names {len(reader.score)} columns. Name the one of the positive class."
        )
    found = fold_summaries(reader, exact=exact, max_distinct=max_distinct)
    assert isinstance(found, ScoreSummary)  # noqa: S101
    return evaluate_summary(found, settings, evaluated_on)


def evaluate_summary(summary: ScoreSummary, settings: _Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of a summary."""
    rows = _Summarised(summary)
    estimates, verdict = _binary(rows, settings)  # type: ignore[arg-type]
    scores = [
        Score(name, e.value, e.low, e.high, settings.level, rows.n_rows, e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    if isinstance(summary, QuantisedSummary):
        bounds = summary.bounds
        known = {
            "brier": bounds.brier,
            "log_loss": bounds.log_loss,
            "auc": bounds.auc,
            "ece": summary.ece_bound(settings.n_bins),
        }
        scores = [
            replace(s, note=f"of cells of scores: within {known[s.name]:.1e} of the rows' own")
            if s.name in known
            else s
            for s in scores
        ]
    return Scores(scores, verdict=verdict)
