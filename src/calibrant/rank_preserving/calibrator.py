"""The estimator: the rising map of each column, learned from a matrix and its margins, for rows to come."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.fitted import MapFitted
from calibrant.kernels import SortedColumns, Workspace
from calibrant.maps import InterpolatedMap, OneVsRestMap, apply_each, decode_map
from calibrant.numerics import FloatArray, row_sum
from calibrant.rank_preserving.margins import as_margins, margins_from_labels
from calibrant.rank_preserving.nearest import SolveOptions, find_nearest, warn_of_gap
from calibrant.rank_preserving.nearly import EpsilonSlack, LambdaPenalty, Nearly, Pairs
from calibrant.rank_preserving.problem import (
    MarginKind,
    Mismatch,
    Problem,
    affine_point,
    check_problem,
    check_rows,
    column_names,
    unsorted,
)
from calibrant.rank_preserving.result import RankPreservingResult
from calibrant.results import plain
from calibrant.settings import Configured
from calibrant.storable import register
from calibrant.validation import ArrayLike, InputKind, check_choice, check_number, match_classes

MapKind: TypeAlias = Literal["rising", "straight"]


@register("rank_preserving_calibrator")
@dataclass(kw_only=True, eq=False, repr=False)
class RankPreservingCalibrator(Configured, MapFitted):
    """Give the columns of a matrix their margins by rising maps, and apply these to new rows.

    Parameters
    ----------
    maps : {"rising", "straight"}
        "rising" takes the maps from P to Q of each column of the nearest rank-preserving matrix; "straight" takes
        a_j + c p with the largest c in [0, 1] that leaves all a_j at `floor` or above.
    knot_tol : float
        Farthest that the stored map may lie from the fitted one: 0 keeps a knot for every distinct probability.
    tol, gap_tol, max_iter
        As for `solve`, which "rising" calls.
    floor : float
        Least entry that the maps give, before a row is divided by its sum: no class becomes an impossible event, whose
        log loss would be infinite. Where half the least margin is less, that is taken; 0 is none.
    nearly : EpsilonSlack or LambdaPenalty, optional
        As for `solve`, with "rising" alone. A map rises even so: see Notes.

    Attributes
    ----------
    map_ : OneVsRestMap
        One interpolated map per column; rows are then divided by their sum.
    margins_, classes_ : ndarray of shape (K,)
        The margins, as rates, and the labels, sorted, where labels or an estimate gave the margins; else 0 to K - 1.
        Columns follow this order.
    floor_ : float
        The least entry that the maps give: `floor`, or half the least margin where that is less.
    n_rows_ : int
        Rows of positive weight that it was fitted to.
    score_names_ : tuple of str or None
        The names of the columns, in the order of `classes_`, if they have any.
    result_ : RankPreservingResult
        What `solve` finds, for "rising"; not kept in files.

    Notes
    -----
    What holds for any new rows. Let r_i be the sum over the columns of the mapped entries of row i (`row_sums`).

    * Every row of the answer is a distribution.
    * Before the division each column keeps its order exactly, as its map rises. Dividing by r_i can break the order
      by little where the r_i differ: if p_aj <= p_bj, then q_aj - q_bj <= q_bj (r_b / r_a - 1), because the mapped
      entries satisfy r_a q_aj <= r_b q_bj. So no order is broken by more than max r / min r - 1 (`order_bound`).
    * On the rows of the fit all r_i are 1 to `tol` and K times `knot_tol`: the answer is the matrix Q of `solve`. With
      `nearly` it is not: a column of Q need not rise in P then, and its map is the rising one nearest to it (isotonic
      regression), which lies no farther from it than the largest order violation, `result_.rank_residual`, plus
      `knot_tol`. Before the division these columns have their margins, but their rows do not sum to 1; dividing by
      r_i moves the margins by max |1 / r_i - 1| of them at most (`row_sums`).
    * Of two columns all r_i are 1 within twice `knot_tol`, on any row: the maps mirror each other.
    * With "straight" all r_i are 1 to rounding on any row, and the order of every column holds to rounding. Of more
      than two columns no other rising maps can promise this: functions of the entries that sum to one wherever the
      entries do are straight (Cauchy's equation).

    Margins are met on the rows of the fit, unless `nearly` is passed. Of new rows from the same population they hold
    on average with "straight", and roughly with "rising".

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> P, new = rng.dirichlet([1.0, 1.0, 1.0], 500), rng.dirichlet([1.0, 1.0, 1.0], 500)
    >>> calibrator = cb.RankPreservingCalibrator(maps="straight").fit(P, margins=[0.5, 0.3, 0.2], margin_kind="rates")
    >>> calibrator.transform(P).mean(axis=0).round(6)
    array([0.5, 0.3, 0.2])
    >>> calibrator.transform(new).mean(axis=0).round(2)
    array([0.51, 0.29, 0.2 ])
    >>> bool(calibrator.order_bound(new) < 1e-12)
    True
    """

    fit_call: ClassVar[str] = "fit(P, margins=...)"
    score_argument: ClassVar[str] = "P"
    input: InputKind = field(default="probability", init=False)
    maps: MapKind = "rising"
    knot_tol: float = 1e-6
    tol: float = 1e-9
    gap_tol: float | None = None
    max_iter: int = 20_000
    nearly: Nearly | None = None
    floor: float = 1e-6
    map_: OneVsRestMap = field(init=False)
    margins_: FloatArray = field(init=False)
    floor_: float = field(init=False)
    result_: RankPreservingResult = field(init=False)

    def fit(
        self,
        P: ArrayLike,
        y: ArrayLike | None = None,
        *,
        margins: Any = None,
        margin_kind: MarginKind = "totals",
        on_mismatch: Mismatch = "raise",
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn the maps of the columns.

        Parameters
        ----------
        P : array-like of shape (n, K)
            Probabilities, one column per class, each row summing to 1.
        y : array-like of shape (m,), optional
            Labels that give the margins: of these rows or of others; with `sample_weight` of these, counted under it.
        margins, margin_kind, on_mismatch, sample_weight
            As for `solve`. Pass either `margins` or `y`.
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y` may lack some.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        check_choice("maps", self.maps, get_args(MapKind))
        knot_tol = check_number("knot_tol", self.knot_tol, minimum=0.0, maximum=1.0)
        floor = check_number("floor", self.floor, minimum=0.0)
        options = SolveOptions(nearly=self.nearly, tol=self.tol, gap_tol=self.gap_tol, max_iter=self.max_iter)
        if self.nearly is not None and self.maps == "straight":
            raise InvalidInputError(
                f'nearly={self.nearly!r} goes with maps="rising": straight maps keep every order. Leave one out.'
            )
        if (y is None) == (margins is None):
            raise InvalidInputError("fit takes margins, or labels y to take them from. Pass one of the two.")
        if y is None and classes is not None:
            raise InvalidInputError("classes are those of y. Pass y too, or leave them out.")
        rows = check_rows(P, sample_weight)
        if y is not None and sample_weight is not None and np.shape(y)[:1] != rows.scores.shape[:1]:
            raise ShapeError(
                f"y has shape {np.shape(y)} for {rows.n_rows:,} rows of P with sample_weight, which counts labels too. "
                "Pass margins=margins_from_labels(y) where labels are of other rows."
            )
        target = margins if y is None else margins_from_labels(y, sample_weight=sample_weight, classes=classes)
        problem = check_problem(rows, target, margin_kind=margin_kind, on_mismatch=on_mismatch)
        self.floor_ = min(floor, 0.5 * float(problem.rates.min()))
        if self.maps == "rising":
            options = replace(options, floor=self.floor_)
            self.result_ = find_nearest(problem.columns(), problem.origin, options, has_price=False)
            warn_of_gap(self.result_, options)
            columns = _rising(problem, self.result_, options, knot_tol)
        else:
            mean = np.average(problem.values, axis=0, weights=problem.weight)
            columns = _straight(problem.rates, mean, self.floor_)
        names, estimate = column_names(rows.container), as_margins(target)
        self.classes_: npt.NDArray[Any] = np.arange(len(columns)) if estimate is None else estimate.classes
        places = None if names is None else match_classes(names, self.classes_.tolist(), name="P")
        order = places or list(range(len(columns)))
        self.map_ = OneVsRestMap(tuple(columns[j] for j in order))
        self.margins_ = problem.rates[order]
        self.score_names_ = None if names is None else tuple(names[j] for j in order)
        self.n_rows_ = problem.weight.size
        return self

    def transform(self, P: ArrayLike) -> Any:
        """Return new rows with mapped columns, divided by their sums, in the container that they came in.

        Parameters
        ----------
        P : array-like of shape (m, K)
            Columns of a frame are matched by name; those of an array follow `classes_`.
        """
        return self.predict_proba(P)

    def fit_transform(self, P: ArrayLike, y: ArrayLike | None = None, **options: Any) -> Any:
        """Fit to the rows and transform them."""
        return self.fit(P, y, **options).transform(P)

    def row_sums(self, P: ArrayLike) -> FloatArray:
        """Return what the mapped entries of each row sum to, before the row is divided by it, shape (m,)."""
        return row_sum(apply_each(self.map_.maps, self.read(P).scores))

    def order_bound(self, P: ArrayLike) -> float:
        """Return by how much at most the order of a column can be broken among these rows, max r / min r - 1."""
        sums = self.row_sums(P)
        least, most = float(sums.min()), float(sums.max())
        return min(most / least - 1.0, 1.0) if least > 0.0 else 1.0

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the fit, as scikit-learn calls it."""
        if not self.is_fitted:
            raise AttributeError("n_features_in_ is known after fit.")
        return len(self.map_.maps)

    def encode(self) -> dict[str, Any]:
        self.check_fitted()
        settings = self.get_params()
        nearly = settings.pop("nearly")
        if settings["floor"] == 0.0:  # what older documents lack is left out where it is none
            del settings["floor"]
        settings |= {} if nearly is None else {"nearly": asdict(nearly)}
        kept = {"settings": settings, "classes": self.classes_, "n_rows": self.n_rows_}
        kept |= {"score_names": self.score_names_, "margins": self.margins_, "map": self.map_.encode()}
        return {name: plain(value) for name, value in kept.items()}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        parts = body.members(("settings", "classes", "n_rows", "score_names", "margins", "map"))
        more = [name for name in ("nearly", "floor") if name in parts["settings"].object()]
        settings = parts["settings"].members(("maps", "knot_tol", "tol", "gap_tol", "max_iter", *more))
        optional = [key for key in ("gap_tol", "floor") if key in settings and settings[key].value is not None]
        numbers = {key: settings[key].number() for key in ("knot_tol", "tol", *optional)}
        for key, value in numbers.items():
            if value < 0.0 or (value == 0.0 and key in ("tol", "gap_tol")):
                settings[key].refuse("is no tolerance" if key != "floor" else "is negative")
        numbers.setdefault("floor", 0.0)
        max_iter = settings["max_iter"].integer(minimum=1)
        nearly = _decode_nearly(settings["nearly"]) if "nearly" in more else None
        made = cls(maps=settings["maps"].choice(get_args(MapKind)), max_iter=max_iter, nearly=nearly, **numbers)
        if nearly is not None and made.maps == "straight":
            settings["nearly"].refuse("does not go with straight maps")
        made.classes_, made.n_rows_ = parts["classes"].labels(minimum=2), parts["n_rows"].integer(minimum=1)
        made.score_names_ = None if parts["score_names"].value is None else parts["score_names"].names()
        made.margins_, made.map_ = parts["margins"].probabilities(), decode_map(parts["map"], OneVsRestMap)
        made.floor_ = min(made.floor, 0.5 * float(made.margins_.min()))
        if made.map_.is_logit or made.map_.coupling != "normalise":
            parts["map"].refuse("is no map of columns of probabilities that are divided by their sum")
        for key, values in (("map", made.map_.maps), ("margins", made.margins_), ("score_names", made.score_names_)):
            if values is not None and len(values) != len(made.classes_):
                parts[key].refuse(f"does not go with {len(made.classes_)} classes: one item for each is needed")
        for item, column in zip(parts["map"].member("maps").items(), made.map_.maps, strict=True):
            if not isinstance(column, InterpolatedMap) or (np.diff(column.y) < 0.0).any():
                item.refuse("is no interpolated map that rises")
        return made


def _decode_nearly(stored: DocumentField) -> Nearly:
    """Return the slack or the price that a document holds; a price without a limit is null there."""
    if "eps" in stored.object():
        eps = stored.members(("eps",))["eps"]
        return EpsilonSlack(_not_negative(eps))
    parts = stored.members(("lam", "pairs"))
    lam = math.inf if parts["lam"].value is None else _not_negative(parts["lam"])
    return LambdaPenalty(lam, parts["pairs"].choice(get_args(Pairs)))


def _not_negative(stored: DocumentField) -> float:
    value = stored.number()
    if value < 0.0:
        stored.refuse("is negative")
    return value


def _rising(
    problem: Problem, result: RankPreservingResult, options: SolveOptions, knot_tol: float
) -> list[InterpolatedMap]:
    """Return the maps from P to Q of each column, or where Q need not rise in P the rising ones nearest to it."""
    q = np.asarray(result.Q, dtype=np.float64)
    q = q if problem.origin.is_kept is None else q[problem.origin.is_kept]
    if options.relaxed is not None:
        q = _nearest_rising(q, problem.columns())
    return [_thinned(p, after, knot_tol) for p, after in zip(problem.values.T, q.T, strict=True)]


def _nearest_rising(q: FloatArray, columns: SortedColumns) -> FloatArray:
    """Return the isotonic regression of each column of `q` on that of P, under the weights of the rows."""
    by_place = np.stack([q[order, j] for j, order in enumerate(columns.order)])
    kernels.pool_columns(columns.replace(p=by_place), Workspace.of(columns), columns.weight, None, by_place)
    return unsorted(by_place, columns.order)


def _straight(rates: FloatArray, mean: FloatArray, floor: float) -> list[InterpolatedMap]:
    """Return the maps a_j + c p with a_j = rate_j - c mean_j, none of them below the floor."""
    constant, c = affine_point(rates - floor, mean, np.zeros_like(mean))
    starts = np.maximum(constant, 0.0) + floor
    return [InterpolatedMap(np.array([0.0, 1.0]), np.array([a, min(a + c, 1.0)])) for a in starts.tolist()]


def _thinned(p: FloatArray, q: FloatArray, tol: float) -> InterpolatedMap:
    """Return the map through the points (p, q), with only the knots that keep it within `tol` of all of them."""
    x, first = np.unique(p, return_index=True)
    y = np.clip(np.maximum.accumulate(q[first]), 0.0, 1.0)
    kept = np.unique([0, x.size - 1])
    while kept.size < x.size:
        away = np.abs(np.interp(x, x[kept], y[kept]) - y)
        stretch = np.clip(np.searchsorted(kept, np.arange(x.size), side="right") - 1, 0, kept.size - 2)
        farthest = np.lexsort((away, stretch))[np.append(np.flatnonzero(np.diff(stretch)), x.size - 1)]
        more = farthest[away[farthest] > tol]
        if not more.size:
            break
        kept = np.union1d(kept, more)
    return InterpolatedMap(x[kept], y[kept])
