"""The fit of each calibrator to rows that are read as often as it takes: exact where it can be, else of known error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import (
    MOST_ROWS,
    AutoCalibrator,
    BetaCalibrator,
    BinaryCalibrator,
    Calibrator,
    DirichletCalibrator,
    EnsembleTemperatureCalibrator,
    IsotonicCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    SigmoidCalibrator,
    SoftmaxCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
    fit_classes,
    map_without_rows,
    top_label_map,
)
from calibrant.engines.columns import Column, pair_reader, top_label_reader
from calibrant.engines.partitions import pooled_summary
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import RowReader
from calibrant.engines.softmax_streams import sample_rows, stream_ensemble, stream_softmax, stream_temperature
from calibrant.engines.streaming import stream_beta, stream_sigmoid
from calibrant.engines.summarise import Exact, fold_summaries
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, ShapeError
from calibrant.maps import BinaryMap, Map, OneVsRestMap, PoolPart, SoftmaxMap
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import Labels

#: Rows without weights that are as small in memory, packed to be sorted, as one distinct score with its sums.
_ROWS_PER_SCORE = 2.5
#: Candidates of automatic calibration, by their names there.
_COLUMNS = {"spline": SplineCalibrator, "venn_abers": VennAbersCalibrator}
_MATRICES: dict[str, type[VectorScalingCalibrator | MatrixScalingCalibrator]] = {
    "vector": VectorScalingCalibrator,
    "matrix": MatrixScalingCalibrator,
}
#: Rows drawn for automatic calibration, as a multiple of those that it looks at.
_SPARE = 1.5


@dataclass(frozen=True, slots=True)
class Passes:
    """Fits to what a reader reads, as `cb.engines.fit` was told."""

    reader: RowReader
    exact: Exact
    max_distinct: int

    def takes_summary(self, calibrator: Calibrator) -> bool:
        """Say whether the fit in memory too is one to a summary."""
        return isinstance(calibrator, BinaryCalibrator) and (
            self.reader.is_binary or not isinstance(calibrator, AutoCalibrator)
        )

    def fit(self, calibrator: Calibrator) -> tuple[Map, int]:
        """Return the fitted map, and to how many rows."""
        reader = self.reader
        if len(reader.classes) > 2 or (isinstance(calibrator, OneVsRestCalibrator) and not reader.is_binary):
            return self._fit_classes(calibrator)
        if not reader.is_binary:
            if reader.input == "score" and isinstance(calibrator, BinaryCalibrator):
                raise ShapeError(
                    "two columns of raw scores say twice what one says. Name the one of the positive class."
                )
            return replace(self, reader=pair_reader(reader)).fit(calibrator)
        if isinstance(calibrator, (OneVsRestCalibrator, TopLabelCalibrator)):
            return self.fit(calibrator.inner())
        if isinstance(calibrator, DirichletCalibrator):  # which for one score is beta calibration
            return self.fit(BetaCalibrator())
        if isinstance(calibrator, BinaryCalibrator):
            return self._fit_score(calibrator)
        summary = self._summary(reader)
        n_rows = round(summary.total_weight)
        if not isinstance(summary, QuantisedSummary) or self.exact is False:
            return _fit_groups(calibrator, summary, reader), n_rows
        return self._stream(calibrator), n_rows

    # --- one score -----------------------------------------------------------------------------------------------

    def _fit_score(self, calibrator: BinaryCalibrator) -> tuple[Map, int]:
        """Fit a calibrator of one score to the one of the reader."""
        reader = self.reader
        summary = self._packed() if isinstance(calibrator, IsotonicCalibrator) else None
        if summary is None:
            summary = self._summary(reader)
        _check_both(summary, reader)
        return self._fit_column(calibrator, Column(reader), summary), round(summary.total_weight)

    def _summary(self, reader: RowReader) -> ScoreSummary:
        """Return the summary of the one score of a reader, of cells where all scores don't fit."""
        found = self._summaries(reader)
        assert isinstance(found, ScoreSummary)  # noqa: S101
        return found

    def _summaries(self, reader: RowReader, n_groups: int | None = None) -> Any:
        exact: Exact = "auto" if self.exact is True else self.exact
        return fold_summaries(reader, exact=exact, max_distinct=self.max_distinct, n_groups=n_groups)

    def _packed(self) -> ScoreSummary | None:
        """Return all rows, packed as pooling takes them, where they are known to be few enough for that."""
        reader = self.reader
        n_rows = reader.source.n_rows
        if (
            self.exact is False
            or not n_rows
            or n_rows > _ROWS_PER_SCORE * self.max_distinct
            or reader.weight is not None
            or reader.source.is_distributed
        ):
            return None
        scores, positive = np.empty(n_rows), np.empty(n_rows, dtype=np.bool_)
        stop = 0
        for part, hits, _ in Column(reader):
            start, stop = stop, stop + part.size
            scores[start:stop], positive[start:stop] = part, hits
        return ScoreSummary.from_rows(scores, positive, None)

    def _fit_column(self, calibrator: BinaryCalibrator, column: Column, summary: ScoreSummary) -> BinaryMap:
        if not isinstance(summary, QuantisedSummary) or self.exact is False:
            return calibrator.fit_map(summary)
        if isinstance(calibrator, IsotonicCalibrator):
            return calibrator.fit_map(pooled_summary(column, max_rows=self.max_distinct, start=summary))
        if isinstance(calibrator, SigmoidCalibrator):
            return stream_sigmoid(calibrator, column, summary)
        if isinstance(calibrator, BetaCalibrator):
            return stream_beta(calibrator, column, summary)
        what = (
            f"there are more than {self.max_distinct:,} distinct scores, and {calibrator.name} has no fit in several "
            "passes"
        )
        if self.exact is True:
            raise InvalidInputError(f"{what}. Pass a larger max_distinct, exact='auto', or another method.")
        _say(f"{what}: it is fitted to cells of neighbouring scores ({summary.bounds})")
        return calibrator.fit_map(summary)

    def _stream(self, calibrator: Calibrator) -> Map:
        """Fit from sums over the rows."""
        if isinstance(calibrator, TemperatureCalibrator):
            return stream_temperature(self.reader)
        if isinstance(calibrator, SoftmaxCalibrator):
            return stream_softmax(calibrator, self.reader)
        if isinstance(calibrator, EnsembleTemperatureCalibrator):
            return stream_ensemble(self.reader)
        raise InvalidInputError(
            f"there are more than {self.max_distinct:,} rows, and {calibrator.name} needs all of them in memory. "
            "Pass a larger max_distinct, or another method such as isotonic."
        )

    # --- several classes -----------------------------------------------------------------------------------------

    def _fit_classes(self, calibrator: Calibrator) -> tuple[Map, int]:
        """Fit to several columns of several classes."""
        if isinstance(calibrator, OneVsRestCalibrator):
            fitted, n_rows = self._one_vs_rest(calibrator.inner())
            return replace(fitted, coupling=calibrator.coupling), n_rows
        if isinstance(calibrator, TopLabelCalibrator):
            return self._top_label(calibrator)
        if isinstance(calibrator, AutoCalibrator):
            return self._auto(calibrator)
        if isinstance(calibrator, BinaryCalibrator):
            return self._one_vs_rest(calibrator)
        n_rows = self.reader.total(lambda rows: len(rows.scores))
        if n_rows is None:
            raise _no_rows(self.reader)
        return self._stream(calibrator), n_rows

    def _one_vs_rest(self, calibrator: BinaryCalibrator) -> tuple[OneVsRestMap, int]:
        """Fit each column against the rows of its class."""
        found = self._summaries(self.reader)
        totals = [summary.total_positives for summary in found.values()]
        if sum(total > 0.0 for total in totals) < 2:
            raise InvalidLabelError(
                f"column {self.reader.label!r} of {self.reader.source.name} holds one class only. Pass rows of at "
                "least two classes."
            )
        inner = _of_probabilities(calibrator)
        maps = []
        for k, (label, summary) in enumerate(found.items()):
            if summary.total_positives == 0.0:
                maps.append(map_without_rows(calibrator.input, label))
            else:
                maps.append(self._fit_column(inner, Column(self.reader, k), summary))
        return OneVsRestMap(tuple(maps), calibrator.input == "logit"), round(sum(totals))

    def _top_label(self, calibrator: TopLabelCalibrator) -> tuple[Map, int]:
        """Fit the confidence in the largest probability of each row."""
        reader, inner = self.reader, calibrator.inner()
        if inner.input == "score":
            raise InvalidInputError(
                "raw scores of several classes say nothing of the confidence in the largest. Pass probabilities, or "
                'logits with input="logit".'
            )
        of_all = top_label_reader(reader)
        summary = self._summary(of_all)
        n_rows = round(summary.total_weight)
        inner = _of_probabilities(inner)
        pooled = self._fit_mixed(inner, of_all, summary)
        own: list[BinaryMap | None] | None = None
        if pooled is not None and calibrator.per_class:
            n_classes = len(reader.classes)
            found = self._summaries(top_label_reader(reader, by_class=True), n_classes)
            own = [
                self._fit_mixed(inner, top_label_reader(reader, only=k), found[k]) if k in found else None
                for k in range(n_classes)
            ]
        is_right = summary.total_positives > 0.0
        return top_label_map(
            reader.classes, pooled, own, is_logit=calibrator.input == "logit", n_rows=n_rows, is_right=is_right
        ), n_rows

    def _fit_mixed(self, inner: BinaryCalibrator, reader: RowReader, summary: ScoreSummary) -> BinaryMap | None:
        """Fit to rows that are both right and wrong, or return None."""
        if not 0.0 < summary.total_positives < summary.total_weight:
            return None
        return self._fit_column(inner, Column(reader), summary)

    def _auto(self, calibrator: AutoCalibrator) -> tuple[Map, int]:
        """Weigh the candidates on a sample of the rows, and fit those that count to all of them."""
        reader = self.reader
        n_rows = reader.total(lambda rows: len(rows.scores))
        if n_rows is None:
            raise _no_rows(reader)
        values, codes, weight = sample_rows(reader, _SPARE * MOST_ROWS / n_rows, calibrator.seed)

        def fit_all(name: str) -> PoolPart:
            if name in _COLUMNS:
                by_column, _ = self._one_vs_rest(_COLUMNS[name](input=calibrator.input))
                return replace(by_column, coupling="likelihood")
            if name == TemperatureCalibrator.name:
                linear = stream_temperature(reader)
            else:
                linear = stream_softmax(_MATRICES[name](input=calibrator.input), reader)
            assert isinstance(linear, SoftmaxMap)  # noqa: S101
            return linear

        fitted, calibrator.report_ = fit_classes(
            Rows(values, Labels(codes, reader.classes), weight, input=calibrator.input),
            input=calibrator.input,
            cv=calibrator.cv,
            seed=calibrator.seed,
            n_rows=n_rows,
            fit_all=fit_all,
        )
        return fitted, n_rows


def _fit_groups(calibrator: Calibrator, summary: ScoreSummary, reader: RowReader) -> Map:
    """Fit to each distinct score as rows of both labels."""
    _check_both(summary, reader)
    scores, weight, _, positives = summary.distinct
    both = np.concatenate((positives, weight - positives))
    positive = np.repeat(np.array([True, False]), scores.size)
    kept = both > 0.0
    return calibrator.map_of(Rows.of_positives(np.concatenate((scores, scores))[kept], positive[kept], both[kept]))


def _of_probabilities(calibrator: BinaryCalibrator) -> BinaryCalibrator:
    """Return the calibrator of columns that softmax has made of logits."""
    if calibrator.input != "logit":
        return calibrator
    return type(calibrator)(**{**calibrator.get_params(), "input": "probability"})


def _say(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=6)  # the caller of fit


def _no_rows(reader: RowReader) -> InvalidInputError:
    return InvalidInputError(f"{reader.source.name} has no row with weight. Give at least one a positive weight.")


def _check_both(summary: ScoreSummary, reader: RowReader) -> None:
    if not 0.0 < summary.total_positives < summary.total_weight:
        raise InvalidLabelError(
            f"column {reader.label!r} of {reader.source.name} shows a class in none or all of its rows "
            f"({summary.total_positives:g} of {summary.total_weight:g}). Pass rows of at least two classes."
        )
