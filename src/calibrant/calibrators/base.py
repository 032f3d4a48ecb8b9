"""What all calibrators share: the gate before a fit, the map after it, their names, and their form in documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from calibrant.calibrators.certainty import warn_if_certain
from calibrant.calibrators.row_warnings import warn_of_rows
from calibrant.document_field import DocumentField
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    DocumentError,
    InvalidInputError,
    InvalidLabelError,
    InvalidTypeError,
    unknown_name,
    warn,
)
from calibrant.fitted import MapFitted, as_one_score
from calibrant.maps import (
    IDENTITY,
    BinaryMap,
    InterpolatedMap,
    Map,
    OneVsRestMap,
    SingleMap,
    SoftmaxMap,
    TopLabelMap,
    decode_map,
    is_identity,
)
from calibrant.numerics import FloatArray, softmax
from calibrant.phrases import quoted
from calibrant.quantised import QuantisedSummary
from calibrant.row_stream import RowStream
from calibrant.rows import Rows, read_rows
from calibrant.settings import Configured
from calibrant.storable import register
from calibrant.summary import ScoreSummary
from calibrant.validation import INPUT_KINDS, ArrayLike, InputKind, check_choice

#: The calibrators by name, for documents, the command line and arguments that take a name. They enter by `named`.
CALIBRATORS: dict[str, type[Calibrator]] = {}
#: Those of one score, among them.
BINARY_CALIBRATORS: dict[str, type[BinaryCalibrator]] = {}
#: Other names that users know a method by.
ALIASES = {"platt": "sigmoid"}

_Class = TypeVar("_Class", bound="type[Calibrator]")
_Kind = TypeVar("_Kind", bound="Calibrator")


def named(name: str) -> Callable[[_Class], _Class]:
    """Return a class decorator that enters a calibrator into `CALIBRATORS` by this name."""

    def enter(cls: _Class) -> _Class:
        cls.name = name
        CALIBRATORS[name] = cls
        if issubclass(cls, BinaryCalibrator):
            BINARY_CALIBRATORS[name] = cls
        return cls

    return enter


@register("calibrator")
class Calibrator(Configured, MapFitted):
    """A calibrator: `fit` on scores and labels gives a map, `predict_proba` applies it."""

    #: The name in documents, on the command line and in `make_calibrator`.
    name: ClassVar[str]
    #: The kinds of map that a fit to one score, or to two columns, can give.
    map_kinds: ClassVar[tuple[type[Map], ...]] = ()
    #: The dimensions of the weight of the softmax map that a fit to more classes gives; None where it gives none.
    softmax_ndim: ClassVar[int | None] = None
    #: Settings that older documents lack.
    later_settings: ClassVar[tuple[str, ...]] = ()
    #: Whether its maps never fall where scores rise, which documents are held to.
    rises: ClassVar[bool] = False

    def __init__(self, *, input: InputKind = "probability") -> None:
        self.input = input

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit the map from scores to probabilities.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, K)
            Scores of the positive class, or one column per class: in the order of the sorted classes, or in any order
            where the columns have names that hold the classes.
        y : array-like of shape (n,)
            Labels of any kind. For one column of scores: two classes, the larger one positive.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y` may lack some.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        self.check_params()
        rows = read_rows(scores, y, input=self.input, sample_weight=sample_weight, classes=classes, both_classes=True)
        warn_of_rows(rows)
        self.fit_rows(rows)
        warn_if_certain(self, rows)
        return self

    def fit_rows(self, rows: Rows) -> Self:
        """Fit to checked rows, of scores of the calibrator's kind."""
        self.map_ = self.map_of(rows)
        self.classes_, self.n_rows_, self.score_names_ = rows.classes, rows.n_rows, rows.columns
        return self

    @abstractmethod
    def map_of(self, rows: Rows) -> Map:
        """Fit the map to checked rows."""

    def map_and_refit(self, rows: Rows) -> tuple[Map, Callable[[Rows], Map]]:
        """Return the map of rows, and how to fit to most of them: from where that fit ended, where this saves time.

        What is chosen by all rows, such as the strength of a penalty, may be kept. For cross-validation.
        """
        return self.map_of(rows), self.map_of

    def map_of_stream(self, stream: RowStream) -> Map:
        """Fit the map to rows that don't fit in memory: of two classes, to a summary of their one score if exact."""
        if len(stream.classes) == 2:
            stream = stream.pair()
            summary = stream.summary()
            if stream.wants_cells or not isinstance(summary, QuantisedSummary):
                stream.check_both(summary)
                return self.map_of(Rows.of_ties(summary.tied()))
        return self.fit_passes(stream)

    def fit_passes(self, stream: RowStream) -> Map:  # noqa: ARG002
        """Fit the map in several passes over the rows."""
        raise InvalidInputError(
            f"there are more rows than fit in memory, and {self.name} needs all of them. Pass a larger max_distinct, "
            "or another method such as isotonic."
        )

    def takes_summary(self, stream: RowStream) -> bool:  # noqa: ARG002
        """Say whether a fit in memory too is one to summaries of scores, so that rows need not be held."""
        return False

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        check_choice("input", self.input, INPUT_KINDS)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        """Refuse a map in a document that this calibrator can't have produced for so many classes."""
        if n_classes > 2 and self.softmax_ndim is not None and isinstance(fitted, SoftmaxMap):
            fitted.check_fit(self.input, n_classes, field, ndim=self.softmax_ndim)
            return
        if n_classes != 2 or type(fitted) not in self.map_kinds:
            self.refuse_map(n_classes, field)
        self.check_values(fitted, self.input, field)

    def check_values(self, fitted: Map, input: InputKind, field: DocumentField) -> None:
        """Refuse a map of a right kind whose numbers can't be those of scores of kind `input`."""
        fitted.check_input(input, field)
        if self.rises and isinstance(fitted, InterpolatedMap):
            fitted.check_rises(field)

    def refuse_map(self, n_classes: int, field: DocumentField) -> None:
        """Refuse a map of a kind that this calibrator doesn't produce for so many classes."""
        field.member("kind").refuse(f"is a kind of map that {self!r} doesn't produce for {n_classes} classes")

    def encode(self) -> dict[str, Any]:
        return {
            **encode_settings(self),
            "classes": self.classes_,
            "n_rows": self.n_rows_,
            "score_names": self.score_names_,
            "map": self.fitted_map.encode(),
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        report = ("report",) if "report" in body.object() else ()
        parts = body.members(("method", "settings", "classes", "n_rows", "score_names", "map", *report))
        made = decode_settings(parts, cls)
        made.classes_ = parts["classes"].labels(minimum=2)
        made.n_rows_ = parts["n_rows"].integer(minimum=0)
        made.score_names_ = parts["score_names"].score_names(len(made.classes_), or_one=len(made.classes_) == 2)
        made.map_ = decode_map(parts["map"])
        made.check_map(made.map_, len(made.classes_), parts["map"])
        if report:
            made.read_report(parts["report"])
        return made

    def read_report(self, field: DocumentField) -> None:
        """Take over what a document says of how the map was chosen."""
        field.refuse(f"does not go with {self!r}, which chooses nothing")

    @classmethod
    def takes_input(cls) -> bool:
        """Say whether the calibrator can be told what its scores are."""
        return "input" in cls.param_names()

    @classmethod
    def adapted(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of the constructor for those of `make_calibrator`."""
        return dict(params)


class BinaryCalibrator(Calibrator):
    """A calibrator of one score; more than two columns are calibrated one-vs-rest."""

    @abstractmethod
    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Fit the map to checked rows of one score, or to their summary, of both classes."""

    def fit_maps(self, data: Iterable[Rows | ScoreSummary]) -> list[BinaryMap]:
        """Fit a map to each of several, such as the columns of one-vs-rest; some calibrators share work among them."""
        return [self.fit_map(each) for each in data]

    def fit_summary(self, summary: ScoreSummary) -> Self:
        """Fit to a summary of scores of both classes, which may come from parts of the data that were merged.

        The classes are False and True: a summary doesn't know the labels.
        """
        self.check_params()
        if not 0.0 < summary.total_positives < summary.total_weight:
            raise InvalidInputError(
                f"the summary holds {summary.total_positives:g} positives of {summary.total_weight:g} rows. "
                "Pass rows of both classes."
            )
        self.map_ = self.fit_map(summary)
        self.classes_, self.n_rows_, self.score_names_ = np.array([False, True]), round(summary.total_weight), None
        return self

    def of_probabilities(self) -> Self:
        """Return an unfitted calibrator with the same settings, but for probabilities."""
        return type(self)(**{**self.get_params(deep=False), "input": "probability"})

    def map_of(self, rows: Rows) -> Map:
        if rows.n_classes == 2:
            return self.fit_map(as_one_score(rows, self.input))
        return fit_one_vs_rest(self, rows)

    def map_of_stream(self, stream: RowStream) -> Map:
        if len(stream.classes) > 2:
            return stream_one_vs_rest(self, stream)
        stream = stream.pair()
        summary = self.stream_summary(stream)
        stream.check_both(summary)
        return self.fit_score(stream, summary)

    def takes_summary(self, stream: RowStream) -> bool:  # noqa: ARG002
        return True

    def stream_summary(self, stream: RowStream) -> ScoreSummary:
        """Summarise a stream of one score for the fit."""
        return stream.summary()

    def fit_score(self, stream: RowStream, summary: ScoreSummary) -> BinaryMap:
        """Fit to a stream of one score: to its summary where that is exact, else in several passes."""
        if stream.wants_cells or not isinstance(summary, QuantisedSummary):
            return self.fit_map(summary)
        return self.fit_streamed(stream, summary)

    def fit_streamed(self, stream: RowStream, cells: QuantisedSummary) -> BinaryMap:
        """Fit to a stream of one score in several passes; without such a fit, to cells, with a warning."""
        stream.approximate(self.name, cells)
        return self.fit_map(cells)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        if n_classes == 2 or not isinstance(fitted, OneVsRestMap):
            super().check_map(fitted, n_classes, field)
            return
        check_columns(self, fitted, n_classes, field)
        if fitted.coupling != "normalise":
            field.member("coupling").refuse(f"does not go with {self!r}, which couples rows by 'normalise'")


def make_calibrator(calibrator: str | Calibrator, /, **params: Any) -> Calibrator:
    """Return a new, unfitted calibrator of the named kind, or like the given instance but for the parameters given."""
    if isinstance(calibrator, Calibrator):
        kind, params = type(calibrator), {**calibrator.get_params(deep=False), **params}
    else:
        kind = calibrator_kind(calibrator)
    return kind(**kind.adapted(params))


def calibrator_kind(name: str) -> type[Calibrator]:
    """Return the class of the calibrators of this name."""
    known = ALIASES.get(name, name)
    if known not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[known]


def make_binary_calibrator(calibrator: str | BinaryCalibrator) -> BinaryCalibrator:
    """Return a new, unfitted calibrator of one score, or say why the one asked for is none."""
    made = make_calibrator(calibrator)
    if not isinstance(made, BinaryCalibrator):
        raise InvalidTypeError(
            f"{calibrator!r} calibrates all columns at once, so it can't calibrate a single score. "
            f"Choose one of: {quoted(list(BINARY_CALIBRATORS))}."
        )
    return made


def fit_one_vs_rest(calibrator: BinaryCalibrator, rows: Rows) -> OneVsRestMap:
    """Fit `calibrator` to each column against the rows of its class.

    A class without rows keeps its probabilities as they are: nothing is known that would change them. Logits are
    turned into probabilities by softmax first.
    """
    rows = rows.with_scores(softmax(rows.scores)) if calibrator.input == "logit" else rows
    return _map_of_columns(
        calibrator, rows, rows.class_weight, lambda inner, seen: inner.fit_maps(rows.of_class(k) for k in seen)
    )


def stream_one_vs_rest(calibrator: BinaryCalibrator, stream: RowStream) -> OneVsRestMap:
    """Fit `calibrator` to each column of a stream against the rows of its class, as `fit_one_vs_rest` does."""
    found = stream.class_summaries()
    if sum(summary.total_positives > 0.0 for summary in found) < 2:
        raise InvalidLabelError(f"{stream.labels} holds one class only. Pass rows of at least two classes.")
    weight = np.array([summary.total_positives for summary in found])
    return _map_of_columns(
        calibrator,
        stream,
        weight,
        lambda inner, seen: [inner.fit_score(stream.column(k), found[k]) for k in seen],
    )


def _map_of_columns(
    calibrator: BinaryCalibrator,
    rows: Rows | RowStream,
    weight: FloatArray,
    fit: Callable[[BinaryCalibrator, list[int]], list[BinaryMap]],
) -> OneVsRestMap:
    is_logit = calibrator.input == "logit"
    seen = weight > 0.0
    fitted = iter(fit(calibrator.of_probabilities() if is_logit else calibrator, np.flatnonzero(seen).tolist()))
    maps = (
        next(fitted) if has_rows else map_without_rows(calibrator.input, label)
        for label, has_rows in zip(rows.classes.tolist(), seen.tolist(), strict=True)
    )
    return OneVsRestMap(tuple(maps), is_logit)


def map_without_rows(input: InputKind, label: object) -> BinaryMap:
    """Return the map of a class without rows, which leaves probabilities alone, and say so."""
    if input == "score":
        raise InvalidInputError(
            f"class {label!r} has no rows to calibrate its scores on. Drop its column, or pass rows of it."
        )
    warn(
        f"class {label!r} has no rows to calibrate on: its probabilities stay as they are before rows are normalised",
        DataWarning,
    )
    return IDENTITY


def check_columns(
    single: BinaryCalibrator, fitted: OneVsRestMap | TopLabelMap, n_classes: int, field: DocumentField
) -> None:
    """Refuse maps of columns, held by a field of a document, that a calibrator can't have produced."""
    if fitted.n_classes != n_classes:
        if "n_classes" in field.object():
            field.member("n_classes").refuse(f"does not go with the {n_classes} classes of the document")
        field.member("maps").refuse(f"does not go with {n_classes} classes: one map per class is needed")
    if fitted.is_logit != (single.input == "logit"):
        field.member("is_logit").refuse(f"does not go with input {single.input!r}")
    kind: InputKind = "probability" if fitted.is_logit else single.input
    for item, column in zip(field.member("maps").items(), fitted.maps, strict=True):
        # a class without rows keeps its probabilities
        keeps = kind != "score" and isinstance(column, SingleMap) and is_identity(column)
        if type(column) not in single.map_kinds and not keeps:
            item.member("kind").refuse(f"is a kind of map that {single!r} doesn't produce for one class")
        single.check_values(column, kind, item)


def encode_settings(calibrator: Calibrator) -> dict[str, Any]:
    """Return the method's name and the constructor's arguments of a calibrator as plain data.

    Settings that older documents lack are left out where they are None, so that these stay what they were.
    """
    name = getattr(calibrator, "name", "")
    if CALIBRATORS.get(name) is not type(calibrator):
        raise InvalidTypeError(
            f"a {type(calibrator).__name__} can't be saved: documents hold calibrant's own calibrators only. "
            "Keep it by the means of the project that it comes from."
        )
    given = calibrator.get_params(deep=False).items()
    written = ((key, value) for key, value in given if value is not None or key not in calibrator.later_settings)
    return {"method": name, "settings": {key: encode_calibrator_setting(value) for key, value in written}}


def encode_calibrator_setting(value: object) -> object:
    """Return an argument as it is, and a calibrator, left unfitted, as its settings."""
    return encode_settings(value) if isinstance(value, Calibrator) else value


def decode_settings(parts: Mapping[str, DocumentField], of: type[_Kind]) -> _Kind:
    """Return an unfitted calibrator, made from settings that its constructor and its own checks accept."""
    known = {key: cls for key, cls in CALIBRATORS.items() if issubclass(cls, of)}
    cls, settings = known[parts["method"].choice(known)], parts["settings"]
    names = [name for name in cls.param_names() if name in settings.object() or name not in cls.later_settings]
    given: dict[str, Any] = {
        key: decode_calibrator_setting(field, BinaryCalibrator) if isinstance(field.value, dict) else field.single()
        for key, field in settings.members(names).items()
    }
    try:
        made = cls(**given)
        made.check_params()
    except CalibrantError as error:
        raise DocumentError(f"{settings.path}: {error}") from None
    return made


def decode_calibrator_setting(field: DocumentField, of: type[_Kind]) -> str | _Kind:
    """Return the calibrator of a class that a setting in a document names, or that it holds as its own settings."""
    if isinstance(field.value, dict):
        return decode_settings(field.members(("method", "settings")), of)
    names = [name for name, cls in CALIBRATORS.items() if issubclass(cls, of)]
    return field.choice([*names, *ALIASES])
