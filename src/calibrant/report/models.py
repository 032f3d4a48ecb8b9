"""The report of several models on the same rows: champion against challengers, with paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from calibrant._version import __version__
from calibrant.metrics import (
    COMPARED,
    SCORE_BINS,
    ModelComparison,
    State,
    check_settings,
    compare_model_rows,
    label_notes,
    read_models,
    verdict,
)
from calibrant.phrases import capitalised, clean, in_quotes, listed, percent_level, shorten
from calibrant.report import pages
from calibrant.report.figures import inline_figure
from calibrant.report.measured import ON, About, data_of, file_and_label, of_rows, plain_scores, shell_word
from calibrant.report.reliability import bins_table, curve_of, figure_of_curves, points_in_words, told_by_points
from calibrant.report.report import data_facts
from calibrant.report.scores import MEANINGS, change_cell, digits_of, ends_of, meanings_of, value_cell
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, check_integer

if TYPE_CHECKING:
    import numpy as np
    from markupsafe import Markup

#: Models in the diagram, by the keys that the style of the page has: colour and shape are those of their points.
_KEYS = ("dot", "second", "third", "fourth")
#: Letters of a name in headings, in tables and in texts.
_SHORT, _NARROW = 60, 16
_IN_TEXTS = 40
#: What is said of models by the states of their verdicts.
_STATES: dict[State, str] = {
    "calibrated": "calibrated, but for errors too small to matter",
    "miscalibrated": "not calibrated",
    "unclear": "no error found, on too few rows to be sure",
    "undefined": "can't be judged",
}
#: Title of a column, and what gives its cell for a score.
Column: TypeAlias = tuple[str, Callable[[Any], "str | pages.Cell"]]


class ModelComparisonReport(pages.PageReport):
    """Report of several models on the same rows, as one page: which predicts better, and in what.

    Says in words which model predicts better, whether each is calibrated, and what to do; then shows their curves in
    one reliability diagram, their scores with the paired differences to the first model, and what the data were.

    Parameters
    ----------
    y_true, models, sample_weight, cluster, time, label_end, pos_label, classes, level, rng
        As in `compare_models`.
    n_bins : int
        Number of bins of the reliability diagram, of equal weight.
    title : str
        Heading of the page.
    source : str, optional
        Name of the file or table that the rows come from.

    Notes
    -----
    Scores, differences and verdict are those of `compare_models` with its 15 bins, word for word. The rows must be new
    to all models.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < truth
    >>> cb.ModelComparisonReport(y, {"old": truth**2, "new": truth})
    <ModelComparisonReport: 'new' predicts better than 'old', n = 2,000 rows>
    """

    name = "Champion against challenger"

    def __init__(
        self,
        y_true: ArrayLike,
        models: Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        n_bins: int = 10,
        level: float = 0.95,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        title: str = "Champion against challenger",
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end}
        known |= {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes}
        rows = read_models(y_true, models, **known)
        first = next(iter(rows.values()))
        notes = label_notes(first, pos_label)
        about = About(title, source, notes=notes)
        self._summary = _summary(rows, about, n_bins=n_bins, level=level, rng=rng)

    @classmethod
    def of_rows(
        cls,
        rows: Mapping[str, Rows],
        about: About,
        *,
        n_bins: int,
        level: float,
        rng: int,
    ) -> ModelComparisonReport:
        """Report on checked rows of each model, whose names are those of its columns, or a pattern of them."""
        about = replace(about, score_names=list(rows))
        return cls.__new__(cls).keep(_summary(rows, about, n_bins=n_bins, level=level, rng=rng))

    def page(self) -> pages.Page:
        summary = self._summary
        found = summary["verdict"]
        answers = [
            pages.Answer("Which predicts better?", found["which"]),
            pages.Answer("Is each calibrated?", found["calibrated"]),
            pages.Answer("What to do", found["what_to_do"], found["command"]),
        ]
        sections = [_curves_section(summary), *_difference_sections(summary), _data_section(summary)]
        return pages.Page(summary["title"], found["state"], found["headline"], answers, sections)

    def __repr__(self) -> str:
        n_rows = self._summary["data"]["n_rows"]
        return f"<ModelComparisonReport: {self._summary['verdict']['headline']}, n = {pages.count(n_rows, 'row')}>"


def _summary(
    rows: Mapping[str, Rows], about: About, *, n_bins: int, level: float, rng: int | np.random.Generator | None
) -> dict[str, Any]:
    """Return what the report says, as dicts, lists, strings and numbers; NaN is None."""
    settings = check_settings(SCORE_BINS, level, rng)
    check_integer("n_bins", n_bins, minimum=1)
    compared = compare_model_rows(rows, settings, ON)
    measured = {name: of_rows(each, settings, compared.models[name]) for name, each in rows.items()}
    shown = [compared.champion, *compared.ranked[: len(_KEYS) - 1]]

    def curve(name: str, upper: float = 0.0) -> dict[str, Any]:
        of, label = measured[name], clean(name)
        known: dict[str, Any] = {"n_rows": of.n_rows, "effect": of.effect, "rng": rng, "least_end": upper}
        return curve_of(of.column, n_bins, level, label, **known)

    curves = {name: curve(name) for name in shown}
    upper = max(each["upper"] for each in curves.values())
    data = data_of(measured[compared.champion], replace(about, score_names=()))  # the page names models instead
    data["notes"] = [*about.notes, *compared.notes]  # on all models, not on the champion alone
    return {
        "title": clean(about.title),
        "version": __version__,
        "kind": "models",
        "verdict": _verdict(compared, about),
        "champion": compared.champion,
        "level": compared.level,
        "difference_level": compared.difference_level,
        "models": {name: plain_scores(scores) for name, scores in compared.models.items()},
        "differences": {name: plain_scores(scores) for name, scores in compared.differences.items()},
        "verdicts": {name: scores.verdict for name, scores in compared.differences.items()},
        "curves": [each if each["upper"] == upper else curve(name, upper) for name, each in curves.items()],
        "is_binary": next(iter(rows.values())).is_binary,
        "data": data,
    }


def _verdict(compared: ModelComparison, about: About) -> dict[str, Any]:
    """Return what the first screen says: which is better, whether each is calibrated, and what to do."""
    found = {name: verdict(scores) for name, scores in compared.models.items()}
    state, headline, advice = _standing(compared)
    off, against = [name for name, each in found.items() if each.is_off], compared.contradicted
    if against:
        advice += f" {_listed(against)}: one log loss is infinite, by a probability of 0 for what happened, and alone "
        advice += "speaks against the Brier score. Compare them once probabilities are kept off 0 and 1."
    if off:
        are = "is" if len(off) == 1 else "are"
        advice += f" {_listed(off)} {are} not calibrated: a fair comparison is that of models that are."
    if len(found) == 2:
        which = compared.verdict
        calibrated = " ".join(f"{_quoted(name)}: {each.headline}." for name, each in found.items())
    else:
        shown, than = (*compared.better, *compared.worse, *against), f"than {_quoted(compared.champion)}"
        of: dict[str, Sequence[str]] = {f"better {than}": compared.better, f"worse {than}": compared.worse}
        of |= {"log loss and Brier score contradict each other": against}
        of |= {"no difference shown": [name for name in compared.ranked if name not in shown]}
        which = _grouped(of)
        states = {name: each.state for name, each in found.items()}
        calibrated = _grouped({words: [n for n in states if states[n] == state] for state, words in _STATES.items()})
    return {
        "state": state,
        "headline": headline,
        "better": list(compared.better),
        "worse": list(compared.worse),
        "which": which,
        "calibrated": calibrated,
        "what_to_do": advice,
        "command": _command(about) if off and about.score_names else None,
    }


def _command(about: About) -> str:
    """Return the command that compares the models once each is calibrated."""
    first, *others = (shell_word(name, "SCORE") for name in about.score_names)
    versus = [f"--versus {other}" for other in others]
    return " ".join([f"calibrant compare {file_and_label(about)} --score {first}", *versus])


def _standing(compared: ModelComparison) -> tuple[State, str, str]:
    """Return the state that colours the page, its headline, and which model to take."""
    better, worse, champion = compared.better, compared.worse, _quoted(compared.champion)
    n_challengers = len(compared.differences)
    if better:
        best = _quoted(better[0])
        headline = f"{best} predicts better than {champion}"
        if len(better) > 1:
            headline = f"{len(better)} of {n_challengers} challengers predict better than {champion}"
        return "calibrated", headline, f"Prefer {best}, if these rows are new to all models and like those to come."
    if len(worse) == n_challengers:
        all_of_them = f"{_quoted(worse[0])} predicts" if n_challengers == 1 else "All challengers predict"
        return "miscalibrated", f"{all_of_them} worse than {champion}", f"Keep {champion}."
    headline = "No difference that these rows show"
    if compared.contradicted and n_challengers == 1:
        return "unclear", "Log loss and Brier score contradict each other", f"Keep {champion} for now."
    if n_challengers > 1:
        headline = f"No challenger is shown to predict better than {champion}"
    advice = f"Keep {champion}, or collect more rows: the interval of the difference says what may be missed."
    return "unclear", headline, advice


def _quoted(name: str) -> str:
    return in_quotes(name, most=_IN_TEXTS)


def _listed(names: Sequence[str]) -> str:
    return listed([_quoted(name) for name in names], most=len(_KEYS))


def _grouped(groups: Mapping[str, Sequence[str]]) -> str:
    """Say in a sentence which models each group has; groups without any are left out."""
    said = "; ".join(f"{words}: {_listed(names)}" for words, names in groups.items() if names)
    return f"{capitalised(said)}."


def _curves_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section of the diagram with a curve for each model, and the bins of each."""
    curves, level = summary["curves"], percent_level(summary["level"])
    words = "; ".join(f"{shorten(curve['label'], _SHORT)}: {points_in_words(curve)}" for curve in curves)
    title = f"Reliability diagram, {len(curves)} models"
    told = told_by_points(curves, [f"{shorten(curve['label'], _IN_TEXTS)}: " for curve in curves])
    draw = partial(inline_figure, partial(figure_of_curves, curves), key="models", title=title, words=words, told=told)
    weight = "Weight" if summary["data"]["is_weighted"] else "Rows"
    bins = [bins_table(curve, weight, folded=f"The bins of {_name(curve['label'])}") for curve in curves]
    picture = pages.Picture(draw, _caption(summary, level))
    more = len(summary["models"]) - len(curves)
    are = f"{more} more is" if more == 1 else f"{more:,} more are"
    lead = [pages.Text(f"Shown are the champion and the challengers of least log loss; {are} in the tables.")]
    return pages.Section("Reliability", [*(lead if more else []), pages.Pictures([picture], "main"), *bins])


def _caption(summary: dict[str, Any], level: str) -> Markup:
    """Return what stands below the picture, with the keys of its points."""
    from markupsafe import Markup

    keys = Markup(", ").join(
        Markup('<span class="nowrap"><span class="key {}"></span> <bdi>{}</bdi></span>').format(key, name)
        for key, name in zip(_KEYS, (shorten(c["label"], _NARROW * 2) for c in summary["curves"]), strict=False)
    )
    curve = summary["curves"][0]
    of_top = "" if summary["is_binary"] else " Observed is how often the most probable class was right."
    end = f" The axes end at {curve['upper']:g}." if curve["upper"] < 1.0 else ""
    return Markup(
        "{}. Each point is a bin of near-equal weight, the bar its {} interval; on the dashed line a forecast is "
        "calibrated. Below, the spread of the predictions of each model, as shares of the rows.{}{}"
    ).format(keys, level, of_top, end)


def _difference_sections(summary: dict[str, Any]) -> list[pages.Section]:
    """Return a section for each challenger: its scores beside the champion's, and the paired differences."""
    level, own_level = percent_level(summary["difference_level"]), percent_level(summary["level"])
    lead = "Change: {} less {}, row by row, so that what both find hard cancels. Below 0 is better, of AUC above 0."
    if len(summary["differences"]) > 1:
        lead += f" Each interval has the level {level}, so that all hold at once with {own_level}."
    champion = summary["champion"]
    sections = []
    for name in summary["differences"]:
        told = [pages.Text(summary["verdicts"][name])] if len(summary["differences"]) > 1 else []
        said = [*told, pages.Text(lead.format(_name(name), _name(champion)))]
        tables = _tables(summary, name, level, own_level)
        sections.append(pages.Section(f"{_name(name)} against {_name(champion)}", [*said, *tables]))
    return sections


def _tables(summary: dict[str, Any], challenger: str, level: str, own_level: str) -> list[pages.Table]:
    """Return the table of differences, and the folded one of all scores of both models."""
    models = [(name, summary["models"][name]) for name in (summary["champion"], challenger)]
    digits = digits_of(summary["models"][summary["champion"]])
    differences = {key: summary["differences"][challenger][f"{key}_difference"] for key in COMPARED}
    titles: Column = ("Score", lambda key: MEANINGS[key][0])
    values: list[Column] = [(pages.name(n, _NARROW), partial(value_cell, scores, digits)) for n, scores in models]
    own: list[Column] = [(f"{own_level} interval", partial(_ends, scores, digits)) for _, scores in models]
    change: Column = ("Change", partial(change_cell, differences, digits))
    ends: Column = (f"{level} interval", partial(_ends, differences, digits))
    shown = [titles, *values, change, ends]
    names = [key for key in MEANINGS if key in models[0][1]]
    folded = f"All {len(names)} scores of both, with intervals"
    meanings = meanings_of(is_binary=summary["is_binary"])
    look: dict[str, Any] = {"look": "scores parts", "note": lambda key: meanings[key][1], "note_title": "Meaning"}
    in_all = [titles, values[0], own[0], values[1], own[1]]
    return [
        pages.table("Scores and differences", COMPARED, shown, **look),
        pages.table("All scores", names, in_all, look="classes", wide=(2, 4), folded=folded),
    ]


def _ends(scores: dict[str, Any], digits: int, key: str) -> pages.Cell:
    return pages.Cell(ends_of(scores, digits, key), "range")


def _name(name: str) -> str:
    return pages.name(name, _SHORT)


def _data_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section on the rows, and on how the intervals of the differences were found."""
    methods = {}
    for differences in summary["differences"].values():
        for key in COMPARED:
            methods[MEANINGS[key][0]] = differences[f"{key}_difference"]["method"]
    said = "; ".join(f"{title}: {method}" for title, method in methods.items() if method != "none")
    level = percent_level(summary["level"])
    facts = [*data_facts(summary), ("Intervals", f"Level {level}. Of differences: {said}.")]
    notes = [pages.Text(" ".join(summary["data"]["notes"]))] if summary["data"]["notes"] else []
    return pages.Section("Data and method", [*notes, pages.Facts(facts)])
