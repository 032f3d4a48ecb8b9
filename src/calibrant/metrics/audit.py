"""A multicalibration audit: the groups, and parts of groups, whose predictions are furthest off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.dependent_rows import DesignEffects, effects_in_groups, parts_of_groups, units_of
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.metrics.bins import make_bins
from calibrant.metrics.estimates import measured_rows
from calibrant.metrics.gap_bounds import gap_bounds
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import difference
from calibrant.readable import Readable, rows_as_columns
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, Labels, check_fraction, check_integer

#: Columns of a finding that stand last in tables.
_MORE_FIGURES = ("n_eff", "predicted", "observed", "p_value", "is_off")


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Readable):
    """One group of rows, and how far its predictions are off.

    Attributes
    ----------
    where : tuple of (str, object)
        Column and value of each condition; none for all rows.
    scores : tuple of float or None
        Range of predictions that the rows lie in, for a part of a group.
    n : int
        Number of rows.
    n_eff : float
        Number of independent rows of equal weight that say as much.
    predicted, observed : float
        Mean prediction, and rate of what was predicted.
    gap : float
        Mean prediction minus rate: above zero where predictions are too high.
    low, high : float
        Bounds of the gap, corrected for the number of groups that were looked at.
    p_value : float
        Of a gap of zero, corrected likewise.
    """

    where: tuple[tuple[str, Any], ...]
    scores: tuple[float, float] | None
    n: int
    n_eff: float
    predicted: float
    observed: float
    gap: float
    low: float
    high: float
    p_value: float

    @property
    def is_off(self) -> bool:
        """Whether the bounds exclude a gap of zero."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def at_least(self) -> float:
        """How far the predictions are off at least: the distance of the bounds from zero."""
        return max(self.low, -self.high, 0.0)

    @property
    def label(self) -> str:
        """The conditions in words."""
        parts = [f"{column} = {value}" for column, value in self.where]
        if self.scores is not None:
            parts.append(f"scores {self.scores[0]:.3g} to {self.scores[1]:.3g}")
        return ", ".join(parts) or "all rows"

    def row(self) -> dict[str, Any]:
        """Return the figures with plain names, as a row of a table."""
        found: dict[str, Any] = {"rows": self.label, "gap": self.gap, "low": self.low, "high": self.high, "n": self.n}
        return found | {name: getattr(self, name) for name in _MORE_FIGURES}

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([self.row()])


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Readable):
    """What `audit` found.

    Attributes
    ----------
    findings : tuple of Finding
        Every group that was looked at, the worst first: that which is off by most at least.
    level : float
        Coverage of all bounds at once.
    n_rows : int
    n_left_out : int
        Groups with fewer than `min_rows` rows.
    min_rows : int
    """

    findings: tuple[Finding, ...]
    level: float
    n_rows: int
    n_left_out: int
    min_rows: int
    _left_to_frames = ("n_eff", "predicted", "observed", "is_off")

    @property
    def off(self) -> tuple[Finding, ...]:
        """The groups whose bounds exclude a gap of zero."""
        return tuple(finding for finding in self.findings if finding.is_off)

    @property
    def verdict(self) -> str:
        """What was found, and what of chance, in words."""
        looked = f"{len(self.findings):,} groups of at least {self.min_rows:,} rows were looked at"
        sure = f"all bounds hold at once with {100.0 * self.level:g}%"
        if not self.off:
            return f"No group found whose predictions are off: {looked}, and {sure}."
        worst = self.off[0]
        way = "high" if worst.gap > 0.0 else "low"
        return (
            f"{len(self.off):,} found off: {looked}, and {sure}. Worst: {worst.label}, predictions too {way} by "
            f"{difference(abs(worst.gap))} ({difference(worst.at_least)} at least, {worst.n:,} rows)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        return {
            "verdict": self.verdict,
            "level": self.level,
            "n_rows": self.n_rows,
            "n_looked_at": len(self.findings),
            "n_left_out": self.n_left_out,
            "min_rows": self.min_rows,
            "findings": [
                {**asdict(f), "where": dict(f.where), "scores": f.scores and list(f.scores), "is_off": f.is_off}
                for f in self.findings
            ],
        }

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([finding.row() for finding in self.findings])

    def _before(self) -> list[str]:
        return [self.verdict]


def audit(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    groups: ArrayLike,
    max_order: int = 2,
    min_rows: int = 50,
    n_score_bins: int = 5,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Audit:
    """Look for groups of rows whose predictions are off, and bound by how much, all bounds at once.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes
        As in `evaluate`; of several classes the top label is judged.
    groups : dict or frame of columns of shape (n,)
        Booleans, integers, strings or categoricals. Numbers have to be cut into ranges first.
    max_order : int
        How many columns are crossed: 1 for their values, 2 also for the values of each pair.
    min_rows : int
        Groups with fewer rows are left out: they could show large errors only, and cost the others certainty.
    n_score_bins : int
        Each group is also cut by score, into these bins of near-equal weight over all rows; 1 for none.
    level : float
        Coverage of all bounds at once.

    Returns
    -------
    Audit

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Groups that hold the same rows are looked at once. The bounds (see `calibrant.metrics.gap_bounds`) are Chernoff's,
    each at 1 - (1 - level) / m for m groups: for calibrated predictions of independent rows, a group is found off
    with probability at most 1 - `level`, whatever the number of rows and however the groups overlap. They are
    cautious: at 1,000 groups 13% wider than normal intervals with the same correction. Where rows are not independent,
    each group counts as fewer rows by its own design effect, and by what few clusters, or blocks of time, ask for (see
    `evaluate`): bounds then rest on many clusters, as those of `evaluate` do.

    References
    ----------
    Hebert-Johnson, Kim, Reingold and Rothblum (2018), *Multicalibration: calibration for the
    (computationally-identifiable) masses*, ICML, definition 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import audit
    >>> rng = np.random.default_rng(0)
    >>> p, sex, city = rng.random(4_000), rng.choice(["f", "m"], 4_000), rng.choice(["Bonn", "Rome"], 4_000)
    >>> y = rng.random(4_000) < np.where((sex == "f") & (city == "Rome"), p**2, p)
    >>> audit(y, p, groups={"sex": sex, "city": city}).findings[0].label
    'sex = f, city = Rome'
    """
    what = {"groups": _columns(groups), "cluster": cluster, "time": time, "label_end": label_end, "classes": classes}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, **what)
    return audit_rows(rows, max_order=max_order, min_rows=min_rows, n_score_bins=n_score_bins, level=level)


def audit_rows(rows: Rows, *, max_order: int, min_rows: int, n_score_bins: int, level: float) -> Audit:
    """Look for groups by the columns of checked rows, as `audit` does."""
    max_order = check_integer("max_order", max_order, minimum=1)
    min_rows = check_integer("min_rows", min_rows, minimum=1)
    n_score_bins = check_integer("n_score_bins", n_score_bins, minimum=1)
    level = check_fraction("level", level)
    data = rows.one_column()
    bins, edges = _score_bins(data, n_score_bins)
    families, n_left_out = _families(rows.groups, bins, max_order, min_rows)
    n_groups = sum(family.first.size for family in families)
    each = 1.0 - (1.0 - level) / max(n_groups, 1)
    findings = [finding for family in families for finding in _measure(family, data, edges, each, n_groups)]
    findings.sort(key=lambda f: (-f.at_least, f.p_value, -abs(f.gap)))
    return Audit(tuple(findings), level, rows.n_rows, n_left_out, min_rows)


@dataclass(frozen=True, slots=True)
class _Family:
    """Groups that don't overlap: the code of each row, -1 for none, and the first row of each code."""

    columns: tuple[tuple[str, Labels], ...]
    codes: IntArray
    first: IntArray
    score_bin: IntArray | None


def _families(
    columns: Mapping[str, Labels], bins: IntArray | None, max_order: int, min_rows: int
) -> tuple[list[_Family], int]:
    """Return the groups of each set of columns, whole and cut by score, and how many were too small.

    A group that holds the same rows as one with a condition less is left out.
    """
    n = next(iter(columns.values())).codes.size
    families, n_left_out = [], 0
    sizes: dict[tuple[tuple[str, ...], bool], IntArray] = {}  # of the group of each row, whole or cut
    orders = range(min(max_order, len(columns)) + 1)
    for names in itertools.chain.from_iterable(itertools.combinations(columns, order) for order in orders):
        codes = np.zeros(n, dtype=np.int64)
        for name in names:
            codes = np.unique(codes * len(columns[name].classes) + columns[name].codes, return_inverse=True)[1]
        shorter = [tuple(kept for kept in names if kept != name) for name in names]
        for by_score in (None, bins) if bins is not None else (None,):
            is_cut = by_score is not None
            if by_score is not None:
                codes = np.unique(codes * (int(by_score.max()) + 1) + by_score, return_inverse=True)[1]
            size = sizes[names, is_cut] = np.bincount(codes)[codes]
            parents = [sizes[each, is_cut] for each in shorter] + ([sizes[names, False]] if is_cut else [])
            is_new = np.all([size < parent for parent in parents], axis=0) if parents else np.ones(n, dtype=bool)
            is_kept = is_new & (size >= min_rows)
            n_left_out += np.unique(codes[is_new & (size < min_rows)]).size
            chosen, first, inverse = np.unique(codes[is_kept], return_index=True, return_inverse=True)
            if chosen.size:
                out = np.full(n, -1, dtype=np.int64)
                out[is_kept] = inverse
                at = np.flatnonzero(is_kept)[first]
                families.append(_Family(tuple((name, columns[name]) for name in names), out, at, by_score))
    return families, n_left_out


def _score_bins(data: Rows, n_bins: int) -> tuple[IntArray | None, list[list[float]]]:
    """Return the bin of each row, and the ends of each bin; no bins where all rows would lie in one."""
    edges = make_bins(data.summary(), n_bins, "quantile").edges
    if len(edges) == 1:
        return None, []
    return np.searchsorted(edges[1:, 0], data.scores, side="left"), edges.tolist()


def _measure(family: _Family, data: Rows, edges: list[list[float]], level: float, n_groups: int) -> Iterator[Finding]:
    """Bound the gap of each group of a family."""
    kept = np.flatnonzero(family.codes >= 0)
    codes, size, rows = family.codes[kept], family.first.size, data.take(kept)
    factor = _factors(rows, codes, size, level)
    share = None if factor is None else 1.0 / factor[codes]
    bounds = gap_bounds(rows.scores, rows.positive, rows.weight, codes, size, level, count=share)
    counts = np.bincount(codes, minlength=size)
    kish = np.bincount(codes, rows.weights) ** 2 / np.bincount(codes, rows.weights**2)
    n_eff = (kish if factor is None else kish / factor).tolist()
    values = (bounds.predicted, bounds.observed, bounds.gap, bounds.low, bounds.high)
    figures = np.column_stack((*values, np.minimum(bounds.p_value * n_groups, 1.0))).tolist()
    for at, n, worth, row in zip(family.first.tolist(), counts.tolist(), n_eff, figures, strict=True):
        where = tuple((name, labels.classes.tolist()[labels.codes[at]]) for name, labels in family.columns)
        scores = None if family.score_bin is None else (edges[family.score_bin[at]][0], edges[family.score_bin[at]][1])
        yield Finding(where, scores, n, worth, *row)


def _factors(rows: Rows, codes: IntArray, size: int, level: float) -> FloatArray | None:
    """Return how many times the variance of the gap of each group is that of independent rows; None where they are."""
    if not rows.declared:
        return None
    dof = np.full(size, np.inf)
    for units in units_of(rows):
        group, part = parts_of_groups(units, codes)
        held = np.bincount(part, rows.weights)
        dof = np.minimum(dof, np.bincount(group, held, size) ** 2 / np.bincount(group, held**2, size) - 1.0)
    widening = np.array([DesignEffects(max(each, 0.0)).widening(level) for each in dof.tolist()])
    return np.asarray(effects_in_groups(rows, codes, size, rows.scores - rows.positive) * widening)


def _columns(groups: ArrayLike) -> dict[str, ArrayLike]:
    """Return the columns of a dict or frame by name."""
    if isinstance(groups, Mapping):
        named = {str(name): column for name, column in groups.items()}
    else:
        import narwhals as nw

        table = nw.from_native(groups, allow_series=True, pass_through=True)
        if isinstance(table, nw.LazyFrame):
            raise InvalidTypeError(f"groups is a lazy {type(groups).__name__}. Call .collect() on it first.")
        if not isinstance(table, nw.DataFrame):
            raise InvalidTypeError(
                f"groups is a {type(groups).__name__}. Pass a dict or a frame of columns, such as {{'city': city}}."
            )
        named = {str(name): table.get_column(name).to_native() for name in table.columns}
    if not named:
        raise InvalidInputError("groups has no columns. Pass at least one.")
    return named
