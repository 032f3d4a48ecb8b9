"""Champion against challenger: the scores of several models on the same rows, and their paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.metrics.estimates import Settings, check_settings, named_scores
from calibrant.metrics.evaluation import SCORE_BINS, evaluate_rows, label_notes
from calibrant.metrics.paired_differences import COMPARED, Model, difference_estimates
from calibrant.metrics.verdict import excludes
from calibrant.numerics import kish_size
from calibrant.phrases import count, difference, in_quotes, interval, percent_level
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Score, Scores
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike

#: What is added to the name of a score for that of its difference.
DIFFERENCE = "_difference"
#: Challengers that the verdict speaks of, and letters of a name in it.
_MOST_TOLD, _LONGEST = 4, 40
#: Parts of a score that frames hold beside its value and interval.
_IN_FRAMES = ("level", "n", "n_eff", "method", "evaluated_on", "note")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelComparison(Readable):
    """Models measured on the same rows, the champion first, and how each challenger differs from it.

    Attributes
    ----------
    models : dict of Scores
        By model, all that `evaluate` measures, with its verdict on the model.
    differences : dict of Scores
        By challenger: `log_loss_difference`, `brier_difference`, `ece_debiased_difference` and `auc_difference`, the
        score of the challenger less that of the champion; its `verdict` says which of the two predicts better.
    level : float
        Nominal coverage of the intervals of scores, and of the differences of all challengers together.
    difference_level : float
        That of each difference: 1 - (1 - level) / m for m challengers.
    notes : list of str
        What a reader must know of the rows, as in `Scores`.
    """

    models: Mapping[str, Scores]
    differences: Mapping[str, Scores]
    level: float
    difference_level: float
    notes: Sequence[str] = ()
    _left_to_frames = _IN_FRAMES

    @property
    def champion(self) -> str:
        """The model that differences are to: the first one."""
        return next(iter(self.models))

    @property
    def verdict(self) -> str:
        """Which models predict better than the champion, and in what: a line for each of the first challengers."""
        told = [scores.verdict for scores in self.differences.values()]
        more = len(told) - _MOST_TOLD
        return "\n".join([*told[:_MOST_TOLD], *([f"And {count(more, 'more challenger')}."] if more > 0 else [])])

    @property
    def ranked(self) -> tuple[str, ...]:
        """The challengers, those of least log loss first, and of least Brier score among equal ones."""
        by = {name: [scores[key].value for key in ("log_loss", "brier")] for name, scores in self.models.items()}
        return tuple(sorted(self.differences, key=by.__getitem__))

    @property
    def better(self) -> tuple[str, ...]:
        """The challengers that are shown to predict better than the champion, in the order of `ranked`."""
        return tuple(name for name in self.ranked if _shown(self.differences[name]) < 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """The challengers that are shown to predict worse than the champion, in the order of `ranked`."""
        return tuple(name for name in self.ranked if _shown(self.differences[name]) > 0)

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The challengers of which an infinite log loss says the contrary of the Brier score."""
        return tuple(name for name in self.ranked if _is_contradicted(self.differences[name]))

    @property
    def figures(self) -> dict[str, Score]:
        """All scores and differences by name, for gates: "challenger:log_loss", "challenger:log_loss_difference".

        Of one challenger a difference is there by its name alone too: "log_loss_difference".
        """
        found = {f"{name}:{key}": score for name, scores in self.models.items() for key, score in scores.items()}
        for name, scores in self.differences.items():
            found |= {f"{name}:{key}": score for key, score in scores.items()}
            found |= dict(scores) if len(self.differences) == 1 else {}
        return found

    @property
    def score_notes(self) -> list[str]:
        """What a reader must know of single scores and differences, such as why one is infinite."""
        notes = []
        for key in COMPARED:
            own = {name: scores[key].note for name, scores in self.models.items()}
            notes += [f"{key} of {_named(name)}: {note}" for name, note in own.items() if note]
            apart = {name: scores[key + DIFFERENCE].note for name, scores in self.differences.items()}
            apart = {name: note for name, note in apart.items() if note not in ("", own[name], own[self.champion])}
            notes += [f"{key}{DIFFERENCE} of {_named(name)}: {note}" for name, note in apart.items()]
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values; what is not finite becomes None."""
        return {
            "verdict": self.verdict,
            "champion": self.champion,
            "better": list(self.better),
            "worse": list(self.worse),
            "contradicted": list(self.contradicted),
            "level": self.level,
            "difference_level": self.difference_level,
            **({"notes": list(self.notes)} if self.notes else {}),
            "models": {name: scores.to_dict() for name, scores in self.models.items()},
            "differences": {name: scores.to_dict() for name, scores in self.differences.items()},
        }

    def _columns(self) -> dict[str, Sequence[Any]]:
        rows = []
        for key in COMPARED:
            rows += [self._row(key, name, "value", scores[key]) for name, scores in self.models.items()]
            of = {name: scores[key + DIFFERENCE] for name, scores in self.differences.items()}
            rows += [self._row(key, name, "difference", score) for name, score in of.items()]
        return rows_as_columns(rows)

    def _row(self, key: str, model: str, figure: str, score: Score) -> dict[str, Any]:
        shown = {"score": key, "model": model, "figure": figure}
        return shown | {part: getattr(score, part) for part in ("value", "low", "high", *_IN_FRAMES)}

    def _coverage(self) -> float | None:
        return self.level if self.difference_level == self.level else None

    def _before(self) -> list[str]:
        said = f"A difference is the score of a model less that of {_named(self.champion)}, row by row: below 0 it is "
        said += "better, of auc above 0."
        if self._coverage() is None:
            each, together = percent_level(self.difference_level), percent_level(self.level)
            said += f" The interval of each difference has the level {each}, so that all hold at once with {together}."
        return [self.verdict, said, *self.notes]

    def _after(self) -> list[str]:
        return self.score_notes


def compare_models(
    y_true: ArrayLike,
    models: Mapping[str, ArrayLike],
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    n_bins: int = SCORE_BINS,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> ModelComparison:
    """Compare models by their probabilities for the same rows: champion against challengers, with paired intervals.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    models : mapping of str to array-like of shape (n,) or (n, K)
        Name and probabilities of each of two or more models, as `evaluate` takes those of one. The first is the
        champion, which the others are compared to.
    sample_weight, cluster, time, label_end, n_bins, pos_label, classes, rng, evaluated_on
        As in `evaluate`.
    level : float
        Nominal coverage of the intervals; of the differences of several challengers that of all of them at once.

    Returns
    -------
    ModelComparison
        The scores of each model, those that `evaluate` gives; the differences of `log_loss`, `brier`, `ece_debiased`
        and `auc` of each challenger to the champion; and a verdict.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The rows must be new to all models: one that was fitted to them, or chosen by them, looks better than it is.

    The verdict goes by log loss, and by the Brier score where the log loss of both models is infinite: proper scores
    reward both order and calibration. Where one log loss is infinite and the Brier score shows the contrary, neither is
    shown to predict better: a single event that was called impossible is all that speaks against a model.

    A challenger predicts better where the whole interval of the difference lies below 0. Where it holds 0 these rows
    show no difference, which is no proof that there is none: its ends say how large one may be. AUC and calibration
    error say what a difference comes from. Three of them are looked at beside the verdict, each at its own level.

    Differences of mean losses are means over rows, with Student's t interval by Hall's transformation for skewness; of
    rows that are not independent it rests on sums over clusters, or over blocks of time. That of the AUC is DeLong's,
    normal, with the design effect of its own influences; with fewer than 20 rows of a class it is made of the intervals
    of both models, as if they were independent, and so is wide. That of the debiased calibration error is made of both
    intervals and the correlation of their noise (Zou and Donner 2008): the error of a model that is nearly calibrated
    has a skewed interval, which a normal one would hide.

    Where rows are few and events rare, the variance of a loss is taken as no less than one more event and one more
    non-event would make it, so that rows in which nothing happened claim no certainty.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), *Comparing the areas under two or more correlated receiver operating
    characteristic curves: a nonparametric approach*, Biometrics 44. Zou and Donner (2008), *Construction of confidence
    limits about effect measures: a general approach*, Statistics in Medicine 27. Hall (1992), *On the removal of
    skewness by transformation*, Journal of the Royal Statistical Society B 54. Gneiting and Raftery (2007), *Strictly
    proper scoring rules, prediction, and estimation*, JASA 102.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < truth
    >>> found = cb.compare_models(y, {"old": truth**2, "new": truth})
    >>> print(found.differences["new"]["brier_difference"])
    brier_difference -0.0337 [-0.0412, -0.0263]
    """
    settings = check_settings(n_bins, level, rng)
    given: dict[str, Any] = {"sample_weight": sample_weight, "cluster": cluster, "time": time, "label_end": label_end}
    rows = read_models(y_true, models, pos_label=pos_label, classes=classes, **given)
    found = compare_model_rows(rows, settings, evaluated_on)
    return replace(found, notes=[*label_notes(rows[found.champion], pos_label), *found.notes])


def read_models(
    y_true: ArrayLike, models: Mapping[str, ArrayLike], *, names: tuple[str, str] = ("models", "y_true"), **what: Any
) -> dict[str, Rows]:
    """Check the probabilities of models, and all that describes their rows, as `calibrant.rows.read_rows` does.

    `names` is what the caller calls models and labels, and `what` goes to `read_rows`.
    """
    argument, labels = names
    if not isinstance(models, Mapping):
        raise InvalidTypeError(
            f"{argument} is a {type(models).__name__}. Pass a mapping of names to probabilities: "
            '{"champion": p_old, "challenger": p_new}.'
        )
    for name in models:
        if not isinstance(name, str):
            raise InvalidTypeError(f"{argument} has the key {name!r}, which is not text. Name each model by a string.")
    if len(models) < 2:
        raise ShapeError(f"{argument} has {count(len(models), 'model')}. Pass two or more, the champion first.")
    found = {name: read_rows(p, y_true, names=(f"{argument}[{name!r}]", labels), **what) for name, p in models.items()}
    check_widths(found)
    return found


def check_widths(models: Mapping[str, Rows]) -> None:
    """Raise InvalidInputError where one model has a probability per row and another one per class."""
    (champion, first), *others = models.items()
    for name, rows in others:
        if rows.scores.shape != first.scores.shape:
            raise InvalidInputError(
                f"{_named(name)} has {_width(rows)} and {_named(champion)} {_width(first)}. Pass the same of both: one "
                "score per row, or one per class."
            )


def compare_model_rows(models: Mapping[str, Rows], settings: Settings, evaluated_on: str) -> ModelComparison:
    """Compare models by checked rows, the champion's first: the same rows, with the probabilities of each model."""
    (champion, first), *others = models.items()
    each = replace(settings, level=1.0 - (1.0 - settings.level) / len(others))

    def measured(of: Settings, *, only_to_judge: bool = False) -> dict[str, Scores]:
        """Measure each model by draws of its own, so that it has the intervals that it has alone."""
        return {
            name: evaluate_rows(rows, replace(of, rng=deepcopy(of.rng)), evaluated_on, only_to_judge=only_to_judge)
            for name, rows in models.items()
        }

    found = measured(settings)
    # a difference takes AUC and debiased ECE at its own level: of one score they are among those that a verdict needs
    at_level = found if len(others) == 1 else measured(each, only_to_judge=first.is_binary)
    sides = {name: Model(rows, at_level[name]) for name, rows in models.items()}
    known: dict[str, Any] = {"level": each.level, "n": first.n_rows, "n_eff": kish_size(first.weights)}
    differences = {}
    for name, _ in others:
        estimates = difference_estimates(sides[name], sides[champion], n_bins=settings.n_bins, level=each.level)
        named = {f"{key}{DIFFERENCE}": estimate for key, estimate in estimates.items()}
        scores = named_scores(named, evaluated_on=evaluated_on, **known)
        differences[name] = Scores(list(scores.values()), verdict=verdict_of_difference(scores, name, champion))
    notes = list(dict.fromkeys(note for scores in found.values() for note in scores.notes))
    return ModelComparison(found, differences, settings.level, each.level, notes)


def _width(rows: Rows) -> str:
    return "one score per row" if rows.is_binary else f"{rows.scores.shape[1]} columns of scores"


def deciding(differences: Mapping[str, Score]) -> Score:
    """Return the difference that a verdict goes by: of log loss, or of the Brier score where that is not defined."""
    log_loss = differences["log_loss_difference"]
    return differences["brier_difference"] if math.isnan(log_loss.value) else log_loss


def _is_contradicted(differences: Mapping[str, Score]) -> bool:
    """Say whether a single impossible event decides the log loss, and the Brier score shows the contrary."""
    log_loss, brier = (differences[key + DIFFERENCE] for key in ("log_loss", "brier"))
    return math.isinf(log_loss.value) and excludes(brier) and log_loss.value * brier.value < 0.0


def _shown(differences: Mapping[str, Score]) -> int:
    """Return -1 where a challenger is shown to predict better, 1 where worse, and 0 where neither is shown."""
    found = deciding(differences)
    if _is_contradicted(differences) or not excludes(found):
        return 0
    return -1 if found.high < 0.0 else 1


def verdict_of_difference(scores: Mapping[str, Score], name: str, champion: str) -> str:
    """Say which of two models predicts better, by log loss, and what their difference comes from."""
    ours, theirs = _named(name), _named(champion)
    log_loss, brier = (scores[key + DIFFERENCE] for key in ("log_loss", "brier"))
    if log_loss.method == "same probabilities":
        return f"{ours} gives the same probabilities as {theirs}."
    why = _why(scores, ours)
    infinite = "is infinite: something happened that it had given probability 0"
    if _is_contradicted(scores):
        whose = ours if log_loss.value > 0.0 else theirs
        said = f"log loss and Brier score contradict each other. The log loss of {whose} {infinite}"
        return f"{ours} and {theirs}: {said}. The Brier score of {ours} is {_by(brier)} ({_size(brier)}).{why}"
    if math.isinf(log_loss.value):
        said = f"predicts worse than {theirs} by log loss, which {infinite}"
        if log_loss.value < 0.0:
            said = f"predicts better than {theirs}, whose log loss {infinite}"
        by_brier = f"is {_by(brier)} ({_size(brier)})" if excludes(brier) else "is not shown to differ"
        return f"{ours} {said}. Its Brier score {by_brier}.{why}"
    found, title = deciding(scores), "log loss" if math.isfinite(log_loss.value) else "Brier score"
    if excludes(found):
        better = "better" if found.high < 0.0 else "worse"
        return f"{ours} predicts {better} than {theirs}: its {title} is {_by(found)} ({_size(found)}).{why}"
    by = difference(found.value, sign=True, scale=max(abs(found.low), abs(found.high)))
    ends = interval(found.level, found.low, found.high)
    said = f"{ours} and {theirs}: no difference that these rows show"
    return f"{said} ({title} of the first less that of the second {by}, {ends}).{why}"


def _why(scores: Mapping[str, Score], name: str) -> str:
    """Say in what a model is shown to differ beside the score that the verdict goes by."""
    order, error = (scores[key + DIFFERENCE] for key in ("auc", "ece_debiased"))
    parts = []
    if excludes(order):
        parts.append(f"ranks {'better' if order.low > 0.0 else 'worse'} (AUC {_by(order)})")
    if excludes(error):
        parts.append(f"is {'better' if error.high < 0.0 else 'worse'} calibrated (calibration error {_by(error)})")
    if not parts:
        return " Neither order nor calibration alone is shown to differ."
    is_mendable = excludes(order) and order.low > 0.0 and error.low > 0.0
    advice = " A calibrator can mend its calibration and keeps its order." if is_mendable else ""
    return f" {name} {' and '.join(parts)}.{advice}"


def _by(score: Score) -> str:
    """Say on which side of the champion a score is, and by how much."""
    size = difference(abs(score.value), scale=max(abs(score.low), abs(score.high)))
    return f"{'lower' if score.value < 0.0 else 'higher'} by {size}"


def _size(score: Score) -> str:
    """Write the interval of the size of a difference."""
    return interval(score.level, *sorted((abs(score.low), abs(score.high))))


def _named(name: str) -> str:
    return in_quotes(name, most=_LONGEST)
