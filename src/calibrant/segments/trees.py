"""What calibrators by segments share: settings, the columns of features, and the trees on these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from calibrant.calibrators import plain_splits
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.maps import TreesMap, decode_map
from calibrant.numerics import FloatArray
from calibrant.phrases import count, under
from calibrant.segments.boosting import Boosting, BoostingRows, Task
from calibrant.segments.choice import choose
from calibrant.segments.columns import FeatureColumn, encode_columns
from calibrant.segments.encoded import EncodedRows
from calibrant.segments.report import SegmentReport
from calibrant.settings import Configured
from calibrant.terms import Builder, Term
from calibrant.validation import FeatureKind, Features, check_integer

Names: TypeAlias = Sequence[str] | None


class TreesOnFeatures(Configured):
    """Trees that are added to margins of rows, and the columns of features that they look at.

    They look at the margins too, which are their first columns.
    """

    #: Whether the labels that it is fitted to are numbers, not classes.
    takes_numbers: ClassVar[bool] = False
    categorical: Names
    numeric: Names
    cv: int
    seed: int
    trees_: TreesMap | None
    columns_: tuple[FeatureColumn, ...]
    report_: SegmentReport

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """Number of margins of a row: of logits, log-probabilities or predictions."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of features that it needs: of those that it was fitted to, those that change something."""
        if self.trees_ is None:
            return ()
        return tuple(self.columns_[j - self.n_margins].name for j in self.trees_.used_columns if j >= self.n_margins)

    def text_names(self, group: str | None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the features that it needs whose levels are text."""
        text = {column.name for column in self.columns_ if column.is_text}
        return tuple(name for name in self.feature_names if name in text)

    def feature_kinds(self) -> dict[str, Any]:
        """Return the `names` and `kinds` of the features that it needs, as `read_features` takes them."""
        return {"names": self.feature_names, "kinds": {column.name: column.kind for column in self.columns_}}

    def named_kinds(self) -> dict[str, FeatureKind]:
        """Return the kinds of the columns that the constructor names."""
        kinds: dict[str, FeatureKind] = {}
        named: tuple[tuple[str, FeatureKind, Names], ...] = (
            ("categorical", "category", self.categorical),
            ("numeric", "number", self.numeric),
        )
        for argument, kind, names in named:
            if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
                raise InvalidTypeError(f"{argument}={names!r:.80}: pass a list of names of columns.")
            for name in names or ():
                if name in kinds:
                    raise InvalidInputError(f"{argument} names column {name!r} twice or as both. Name each once.")
                kinds[name] = kind
        return kinds

    def check_trees(self) -> None:
        """Raise if an argument of the constructor that is about trees can't be used."""
        check_integer("cv", self.cv, minimum=2)
        check_integer("seed", self.seed, minimum=0)
        self.named_kinds()

    def grow(self, encoded: EncodedRows, task: Task, margins: FloatArray, target: FloatArray) -> None:
        """Choose the trees by folds of the rows, and grow them on all of them."""
        rows = encoded.rows
        binning, codes, categories = encoded.behind(margins)
        data = BoostingRows(task, codes, margins, target, rows.weight, categories)
        choice = choose(data, rows, plain_splits(rows, self.cv, rng=self.seed), seed=self.seed)
        trees = None
        if choice.share > 0.0:
            boosting = Boosting(data, choice.size, seed=self.seed)
            for _ in range(choice.n_rounds):
                if boosting.grow():
                    break
            trees = boosting.trees(binning, choice.n_rounds, choice.share)
        self.report_ = SegmentReport.of(choice, of_numbers=self.takes_numbers)
        self.columns_, self.trees_ = encoded.columns, trees

    def moved(self, margins: FloatArray, features: Features | None) -> FloatArray:
        """Return the margins with what the trees add to them."""
        if self.trees_ is None:
            return margins
        first = margins[:, None] if margins.ndim == 1 else margins
        columns = encode_columns(self.columns_, features, first.shape[0])
        return np.asarray(margins + self.trees_.apply(np.concatenate((first, columns), axis=1)))

    @property
    def n_tree_numbers(self) -> int:
        """How many numbers the trees hold."""
        return 0 if self.trees_ is None else self.trees_.n_numbers

    def moved_formula(self, b: Builder, margins: Term) -> Term:
        """Return what `moved` does, in the terms of SQL or ONNX."""
        if self.trees_ is None:
            return margins
        first, columns = self.n_margins, {}
        for j in self.trees_.used_columns:
            known = None if j < first else self.columns_[j - first]
            if known is None:
                columns[j] = b.column(margins, j)
            else:
                known.check_exportable()
                columns[j] = b.feature(known.name, known.levels)
        return margins + b.trees(columns, self.trees_)

    def columns_in_words(self) -> str:
        """Return the columns of features with their kinds."""
        return ", ".join(f"{column.name} ({column.in_words()})" for column in self.columns_)

    def trees_in_words(self, added_to: str, first: str) -> list[str]:
        """Return lines on the trees and how they were chosen; `first` is what margins are called among the columns."""
        lines = []
        if self.trees_ is not None:
            names = [*(first for _ in range(self.n_margins)), *(column.name for column in self.columns_)]
            used = np.bincount(self.trees_.columns[self.trees_.columns >= 0], minlength=len(names))
            splits = dict.fromkeys(names, 0)
            for name, n in zip(names, used.tolist(), strict=True):
                splits[name] += n
            most = sorted((item for item in splits.items() if item[1]), key=lambda item: -item[1])
            by = ", ".join(f"{name} ({n:,})" for name, n in most)
            lines = under(f"Added to {added_to}", [*self.trees_.describe(()), f"splits by {by}"])
        return [*lines, *under("How it was chosen", str(self.report_).split("\n"))]

    def encode_trees(self) -> dict[str, Any]:
        """Return columns, trees and report as plain data."""
        return {
            "columns": [column.to_dict() for column in self.columns_],
            "trees": None if self.trees_ is None else self.trees_.encode(),
            "report": self.report_.encode(),
        }

    def decode_trees(self, parts: dict[str, DocumentField]) -> None:
        """Take over what `encode_trees` has written."""
        self.columns_ = tuple(FeatureColumn.decode(item) for item in parts["columns"].items())
        names = [column.name for column in self.columns_]
        if len(set(names)) < len(names):
            parts["columns"].refuse("names a column twice")
        self.report_ = SegmentReport.decode(parts["report"], of_numbers=self.takes_numbers)
        self.trees_ = None if parts["trees"].value is None else self._decode_map(parts["trees"])

    def _decode_map(self, field: DocumentField) -> TreesMap:
        """Return trees that look at the columns that there are, and at sets of levels of categories alone."""
        trees, first = decode_map(field, TreesMap), self.n_margins
        if (trees.n_columns, trees.n_outputs) != (first + len(self.columns_), first):
            field.refuse(f"does not go with {count(len(self.columns_), 'feature')} and {first} margins of a row")
        is_category = np.array([False] * first + [column.kind == "category" for column in self.columns_])
        inner = trees.columns >= 0
        of_category = inner & is_category[trees.columns]
        if ((trees.set_sizes > 0) & ~of_category).any():
            field.member("set_sizes").refuse("cuts a column of numbers by a set of levels")
        if ((trees.set_sizes == 0) & of_category).any():
            field.member("set_sizes").refuse("cuts a category without a set of levels")
        return trees


#: The settings of trees in documents.
TREE_SETTINGS = ("categorical", "numeric", "cv", "seed")


def decode_tree_settings(parts: dict[str, DocumentField]) -> dict[str, Any]:
    """Return the constructor's arguments that are about trees."""
    lists = {
        name: None if parts[name].value is None else list(parts[name].names(minimum=0))
        for name in ("categorical", "numeric")
    }
    return {**lists, "cv": parts["cv"].integer(minimum=2), "seed": parts["seed"].integer(minimum=0)}
