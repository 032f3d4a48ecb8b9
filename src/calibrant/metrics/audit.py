"""The multicalibration audit: the segments of rows whose predictions are furthest off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.metrics.estimates import measured_rows
from calibrant.metrics.number_steps import NumberSteps
from calibrant.metrics.segment_search import Steps, Walks, draw_largest, p_values, walk
from calibrant.metrics.segments import Family, Segments, SegmentSettings, Where, features_of, in_words, plain_value
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count, deviations, difference, p_value, percent_level
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import plain
from calibrant.rows import Rows, read_number_rows
from calibrant.validation import ArrayLike, as_generator, check_choice, check_fraction, check_integer

#: What is predicted: the probability of a class, or a number.
Target: TypeAlias = Literal["class", "number"]
#: Draws of the search on calibrated rows: p-values are at least one over one more.
DRAWS = 499
#: Columns of a finding that stand last in tables.
_MORE_FIGURES = ("n_eff", "predicted", "observed", "gap", "low", "high", "scores_from", "scores_to", "score_gap")


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Readable):
    """One segment of rows, and how far its predictions are off.

    Attributes
    ----------
    where : tuple of (str, object)
        Column and value of each condition: a level, a number, the range of a bin (`low` and `high`), the number of
        rarer levels (`n_levels`), or None for rows without a value. None at all for all rows.
    n : int
        Number of rows.
    n_eff : float
        Number of independent rows of equal weight that say as much.
    sigma : float
        The cumulative calibration error in standard deviations, by which segments are ranked; infinite where
        something was off and nothing could vary.
    error : float
        The cumulative calibration error in units of probability, or of the outcome: the gap, summed over the rows in
        the worst range of scores, over all rows of the segment.
    p_value : float
        Chance that calibrated predictions have a segment with as large a `sigma`, among all that were looked at.
    predicted, observed : float
        Mean prediction, and rate of what was predicted, or mean outcome.
    gap : float
        `predicted` minus `observed`: above zero where predictions are too high.
    low, high : float
        Bounds of the gap, which hold for all segments at once.
    scores : tuple of float
        The worst range of scores: between these the error adds up.
    score_gap : float
        The gap of the rows in this range.
    is_off : bool
        Whether the p-value is at most 1 less the level of the audit.
    """

    where: Where
    n: int
    n_eff: float
    sigma: float
    error: float
    p_value: float
    predicted: float
    observed: float
    gap: float
    low: float
    high: float
    scores: tuple[float, float]
    score_gap: float
    is_off: bool

    @property
    def at_least(self) -> float:
        """How far the mean is off at least: the distance of the bounds from zero."""
        return max(self.low, -self.high, 0.0)

    @property
    def label(self) -> str:
        """The conditions in words."""
        return in_words(self.where)

    @property
    def words(self) -> str:
        """What is off, in words."""
        way = "high" if self.score_gap > 0.0 else "low"
        return (
            f"{self.label}, predictions too {way} by {difference(abs(self.score_gap))} at scores {self.at_scores} "
            f"({count(self.n, 'row')}, {deviations(self.sigma)}, p {p_value(self.p_value)})"
        )

    @property
    def at_scores(self) -> str:
        """The worst range of scores in words."""
        return " to ".join(f"{end:,.0f}" if 1e3 <= abs(end) < 1e12 else f"{end:.3g}" for end in self.scores)

    def row(self) -> dict[str, Any]:
        """Return the figures with plain names, as a row of a table."""
        found: dict[str, Any] = {"segment": self.label, "n": self.n, "sigma": self.sigma, "error": self.error}
        found |= {"p_value": self.p_value, "is_off": self.is_off}
        values = asdict(self) | {"scores_from": self.scores[0], "scores_to": self.scores[1]}
        return found | {name: values[name] for name in _MORE_FIGURES}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain Python values; what is not finite becomes None."""
        where = {column: plain_value(value) for column, value in self.where}
        figures = {name: plain(value) for name, value in asdict(self).items() if name != "where"}
        return {"segment": self.label, "where": where, **figures, "scores": list(self.scores)}

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([self.row()])


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Readable):
    """What `audit` found.

    Attributes
    ----------
    findings : tuple of Finding
        Every segment that was looked at, the worst first: that with the largest error in standard deviations.
    level : float
        Chance that no segment of calibrated predictions is found off, and coverage of all bounds at once.
    critical : float
        Errors in standard deviations above it are found off: the quantile of the largest one of calibrated rows.
    spread : float
        Standard deviation of the cumulative calibration error of all rows.
    depth, min_rows : int
        How many features were crossed, and how many rows segments had to have.
    n_rows : int
    n_left_out : int
        Segments with fewer rows.
    n_draws : int
        Draws that p-values rest on.
    target : str
        What was predicted: "class" or "number".
    """

    findings: tuple[Finding, ...]
    level: float
    critical: float
    spread: float
    depth: int
    min_rows: int
    n_rows: int
    n_left_out: int
    n_draws: int
    target: Target = "class"
    _left_to_frames = ("n_eff", "predicted", "observed", "low", "high", "scores_from", "scores_to")

    @property
    def off(self) -> tuple[Finding, ...]:
        """The segments that are found off."""
        return tuple(finding for finding in self.findings if finding.is_off)

    @property
    def verdict(self) -> str:
        """What was found, and what of chance, in words."""
        looked = f"{count(len(self.findings), 'segment')} of at least {count(self.min_rows, 'row')}"
        if len(self.findings) == 1 and self.n_rows < self.min_rows:
            looked = f"1 segment, all rows (no other has {count(self.min_rows, 'row')})"
        sure = f"of calibrated predictions none would be, with {percent_level(self.level)}"
        if not self.off:
            return f"No segment found whose predictions are off, of {looked}."
        return f"Of {looked}, {len(self.off):,} found off ({sure}). Worst: {self.off[0].words}."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        parts = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "findings"}
        findings = [finding.to_dict() for finding in self.findings]
        return {"verdict": self.verdict, **parts, "n_looked_at": len(findings), "findings": findings}

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([finding.row() for finding in self.findings])

    def _before(self) -> list[str]:
        return [self.verdict]


def audit(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    features: object,
    categorical: Collection[str] = (),
    target: Target = "class",
    depth: int = 2,
    min_rows: int = 50,
    n_bins: int = 5,
    max_levels: int = 20,
    level: float = 0.95,
    n_draws: int = DRAWS,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Audit:
    """Look for segments of rows whose predictions are off, with p-values that are right for the search.

    Parameters
    ----------
    y_true, y_prob, cluster, time, label_end, pos_label, classes
        As in `evaluate`; of several classes the top label is judged. For class k, pass `y == k` and its column.
    features : dict or data frame of columns of shape (n,)
        Columns that segments are made of. Truth values, text and categoricals are taken by level, numbers by ranges;
        rows without a value make a segment of their own.
    categorical : sequence of str
        Columns of whole numbers that are names, such as codes of places, and are to be taken by value.
    target : {"class", "number"}
        What is predicted. With "number", `y_true` holds outcomes and `y_prob` predictions of their mean, finite numbers
        of shape (n,), as `SegmentMeanCalibrator` takes and makes them.
    depth : int
        How many features are crossed: 1 for their values, 2 also for those of each pair; 0 for all rows together.
    min_rows : int
        Segments with fewer rows are left out, but not all rows together.
    n_bins : int
        Numbers with more distinct values are cut into so many bins at their quantiles.
    max_levels : int
        Of a category with more levels, the most frequent ones, one less than this, are segments, and the rest together.
    level : float
        Chance that no segment of calibrated predictions is found off, and coverage of all bounds at once.
    n_draws : int
        Draws of what chance does. P-values are at least 1 / (n_draws + 1).
    sample_weight : array-like of shape (n,), optional
        In `error` and `gap` a weight of two counts as two rows. In `sigma` and p-values each row is one observation.
    rng : int, numpy Generator or None
        Randomness of the draws. The same seed gives the same p-values.

    Returns
    -------
    Audit
        As text, a table, or a data frame; `multicalibration_error` gives the worst segment alone.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The error of a segment is the range of its cumulative differences C_k = sum_{i <= k} w_i (y_i - p_i) / sum w over
    its rows in the order of scores, as in `kuiper`, where near-equal scores have no order. Nothing is binned by score,
    and the worst range of scores comes with it. `sigma` is the error over the standard deviation of the last C_k if the
    probabilities are right, sqrt(sum w^2 p (1 - p)) / sum w. Segments that hold the same rows are looked at once.

    The largest `sigma` of many segments is large by chance. Labels are therefore drawn from the probabilities
    `n_draws` times, and the whole search is done on each draw: a segment's p-value is the share of searches, the own
    one included, whose largest `sigma` is as large. Where predictions are calibrated, a segment is found off with
    probability at most 1 - `level`, for any number of independent rows, however segments overlap. Bonferroni's
    correction, which doesn't know that they overlap, finds less. Drawing ends early where nothing is off.

    Where rows are not independent, clusters, or blocks of time, get random signs in place of drawn labels, and the
    standard deviation is that of the sums over clusters where this is larger; few clusters can show little. The bounds
    of a gap are `critical` standard deviations to either side, which are those of the rows' gaps where these vary more
    than the probabilities say.

    Predictions of a number don't say how much outcomes vary. The standard deviation is then that of the rows' own gaps
    about their weighted mean r, sqrt(sum w^2 (y - p - r)^2) / sum w, or by the gaps of all rows with predictions as
    large (20 ranges of equal numbers of rows, of 500 at least), whichever is larger; `sigma` is infinite where neither
    varies. A draw takes each row, or cluster, a Poisson number of times, with a standard deviation of its own, which is
    the bootstrap-t, or once with a random sign, whichever gives more. Of 200 sets of 500 and as many of 5,000 right
    predictions that were drawn after all of this was chosen, with segments of 50 rows at least, 0.5% to 2.5% had one
    found off at `level` 0.95, with errors that were normal, exponential, lognormal, Poisson, or heavy on both sides
    (Student's t of 3 degrees of freedom); with errors of 5 to 100 clusters 0% to 6%. With claims of lognormal size in
    5% of rows it was 10% of 500 rows and 1% of 5,000, and with events in 1% of rows 12% and 4%: of a handful of events
    no p-value is right.

    References
    ----------
    Guy, Haimovich, Linder, Okati, Perini, Tax and Tygert (2025), *Measuring multi-calibration*, arXiv 2506.11251, for
    the error and its scale. Hebert-Johnson, Kim, Reingold and Rothblum (2018), *Multicalibration: calibration for the
    (computationally-identifiable) masses*, ICML. Westfall and Young (1993), *Resampling-based multiple testing*,
    section 2.3, for p-values of a largest statistic. Efron and Tibshirani (1993), *An introduction to the bootstrap*,
    section 12.5.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import audit
    >>> rng = np.random.default_rng(0)
    >>> p, sex, city = rng.random(4_000), rng.choice(["f", "m"], 4_000), rng.choice(["Bonn", "Rome"], 4_000)
    >>> y = rng.random(4_000) < np.where((sex == "f") & (city == "Rome"), p**2, p)
    >>> found = audit(y, p, features={"sex": sex, "city": city})
    >>> found.findings[0].label, found.findings[0].p_value
    ('sex = f, city = Rome', 0.002)
    """
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes, "pos_label": pos_label}
    rows = segment_rows(y_true, y_prob, features, categorical, target=target, sample_weight=sample_weight, **what)
    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows, n_bins=n_bins, max_levels=max_levels)
    return audit_rows(rows, settings, level=level, n_draws=n_draws, rng=rng)


def segment_rows(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    features: object,
    categorical: Collection[str],
    *,
    target: Target = "class",
    **what: Any,
) -> Rows:
    """Check the arguments of a metric, with features if there are any, of which those in `categorical` are names."""
    kinds = dict.fromkeys([categorical] if isinstance(categorical, str) else categorical, "category")
    if kinds and features is None:
        raise InvalidInputError("categorical= names columns of features, and there are none. Leave it out.")
    check_choice("target", target, get_args(Target))
    if target == "class":
        return measured_rows(y_true, y_prob, features=features, feature_kinds=kinds, **what)
    if named := next((name for name in ("classes", "pos_label") if what.pop(name, None) is not None), None):
        raise InvalidInputError(f'{named} is of classes, and with target="number" there are none. Leave it out.')
    return read_number_rows(y_prob, y_true, names=("y_prob", "y_true"), features=features, feature_kinds=kinds, **what)


def audit_rows(
    rows: Rows,
    settings: SegmentSettings,
    *,
    level: float = 0.95,
    n_draws: int = DRAWS,
    rng: int | np.random.Generator | None = 0,
) -> Audit:
    """Look for segments by the features of checked rows, as `audit` does."""
    level, n_draws = check_fraction("level", level), check_integer("n_draws", n_draws, minimum=1)
    generator = as_generator(rng)
    kind = Steps if rows.outcomes is None else NumberSteps
    data = kind.of(rows.one_column(), features_of(rows))
    segments = Segments.of(data.features, rows.n_rows, settings)
    walks = [walk(data, family.codes(rows.n_rows), family.n_segments) for family in segments.families]
    scales, sigmas = [], []
    for of, kept in zip(walks, segments.is_kept, strict=True):
        scale = np.divide(1.0, of.deviation, out=np.full(kept.size, data.unmoved), where=of.deviation > 0.0)
        scales.append(np.where(kept, scale, 0.0))
        sigmas.append(of.sigma[kept])
    sigma = np.concatenate(sigmas)
    drawn = draw_largest(data, segments, scales, reached=sigma.max(), n_draws=n_draws, rng=generator)
    critical = float(np.quantile(drawn, level, method="higher"))
    p = iter(np.split(p_values(sigma, drawn), np.cumsum([each.size for each in sigmas])[:-1]))
    findings: list[Finding] = []
    for family, of, kept in zip(segments.families, walks, segments.is_kept, strict=True):
        findings += _findings(data, family, of, np.flatnonzero(kept), next(p), level=level, critical=critical)
    findings.sort(key=lambda f: (-f.sigma, len(f.where)))
    spread = data.deviations(np.zeros(rows.n_rows, np.uint32), 1)[0] / data.weight.sum()
    return Audit(
        tuple(findings),
        level,
        critical,
        float(spread),
        settings.depth,
        settings.min_rows,
        rows.n_rows,
        segments.n_left_out,
        drawn.size,
        "class" if rows.outcomes is None else "number",
    )


def change_in_words(before: Audit, after: Audit) -> str:
    """Say how many segments were off before calibration, and how many are after it."""
    n, left = len(before.off), len(after.off)
    was, still = ("was" if n <= 1 else "were"), ("is" if left == 1 else "are")
    return f"{count(n, 'segment') if n else 'No segment'} {was} off before, {left or 'none'} {still} after."


def _findings(
    data: Steps, family: Family, walks: Walks, kept: IntArray, p: FloatArray, *, level: float, critical: float
) -> Iterator[Finding]:
    """Measure the segments of a family that are looked at."""
    n_segments = family.n_segments
    codes = family.codes(data.score.size)

    def sums(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(codes, values, n_segments)[kept])

    n = np.bincount(codes, minlength=n_segments)[kept]
    total, squared = sums(data.weight), sums(data.weight**2)
    predicted = sums(data.weight * data.score) / total
    gap = -sums(data.steps) / total
    by_model = data.variances(codes, n_segments)[kept]
    variance = walks.deviation[kept] ** 2
    effect = np.ones(kept.size)  # of what rows share
    if data.units:
        np.divide(variance, by_model, out=effect, where=by_model > 0.0)
    # sum of w^2 (r + gap)^2: the steps about their own mean
    seen = sums(data.steps**2) + 2.0 * gap * sums(data.weight * data.steps) + gap**2 * squared
    spread = np.sqrt(np.maximum(variance, seen)) / total
    half = critical * spread if np.isfinite(critical) else np.full(kept.size, np.inf)
    columns = {
        "n": n,
        "n_eff": total**2 / squared / effect,
        "sigma": walks.sigma[kept],
        "error": walks.reach[kept] / total,
        "p_value": p,
        "predicted": predicted,
        "observed": predicted - gap,
        "gap": gap,
        "low": gap - half,
        "high": gap + half,
        "score_gap": np.where(walks.is_rising[kept], -1.0, 1.0) * walks.reach[kept] / walks.crossed[kept],
        "is_off": p <= 1.0 - level,
    }
    scores = zip(data.score[walks.start[kept]].tolist(), data.score[walks.stop[kept]].tolist(), strict=True)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    for code, ends, row in zip(kept.tolist(), scores, rows, strict=True):
        yield Finding(where=family.where(code), scores=ends, **dict(zip(columns, row, strict=True)))
