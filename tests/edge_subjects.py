"""Every public function of rows, as a function of scores, labels and weights that gives back numbers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

import calibrant as cb
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS
from calibrant.errors import CalibrantError, CalibrantWarning, InvalidInputError
from calibrant.results import Score
from edge_forecasts import subjects as forecast_subjects
from public_names import names_of

N = 48


@dataclass(frozen=True)
class Subject:
    """A function of the rows, and what the caller calls its arguments.

    `kind` is what the scores are; `names` maps "score", "label" and "weight" to arguments. Answers lie in `range`,
    whose ends may be infinite where the documentation says so.
    """

    run: Callable[..., Any]
    names: dict[str, str]
    kind: str = "probability"
    n_columns: int = 1
    range: tuple[float, float] = (0.0, 1.0)
    may_be_infinite: bool = False


def base_rows(subject: Subject) -> dict[str, Any]:
    """Return scores that float16 holds exactly, labels of all classes at every score, and weights."""
    rng = np.random.default_rng(8)
    y = rng.permutation(np.arange(N) % (3 if subject.n_columns == 3 else 2))
    if subject.n_columns == 3:
        cuts = np.sort(rng.integers(1, 63, (N, 2)), axis=1)
        p = np.diff(np.column_stack((np.zeros(N), cuts, np.full(N, 64))), axis=1) / 64.0
        y = np.where(rng.random(N) < 0.5, p.argmax(axis=1), y)
    else:
        p = rng.integers(1, 64, N) / 64.0
        y = np.where(rng.random(N) < 0.5, p > 0.5, y).astype(np.int64)
    if subject.kind != "probability":
        p = 8.0 * p - 4.0
    return {"score": p, "label": y, "weight": rng.integers(1, 9, N) / 4.0}


def numbers(answer: Any) -> list[np.ndarray]:
    """Return all numbers of an answer, without those that a score says are undefined: itself, or its interval."""
    match answer:
        case None | str():
            return []
        case Score():
            if answer.note and not np.isfinite(answer.value):
                return []
            has_ends = not (answer.note and answer.method == "none")
            return numbers([answer.value, answer.low, answer.high] if has_ends else answer.value)
        case float() | int() | np.generic() | np.ndarray():
            return [np.atleast_1d(np.asarray(answer, dtype=np.float64))]
        case dict() | cb.results.Scores():
            return [a for part in answer.values() for a in numbers(part)]
        case list() | tuple():
            return [a for part in answer for a in numbers(part)]
        case _ if is_dataclass(answer):
            return [a for field in fields(answer) for a in numbers(getattr(answer, field.name))]
        case _:
            return [np.asarray(answer, dtype=np.float64)]  # a series or frame


def metric(function: Callable[..., Any]) -> Callable[..., Any]:
    sides = np.arange(N) % 2
    takes = inspect.signature(function).parameters
    by = {"groups": sides} if "groups" in takes else {"features": {"side": sides}} if "features" in takes else {}
    return lambda score, label, weight: function(label, score, **by, sample_weight=weight)


def positional(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a function takes by place."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]


def fitted(make: Callable[[], Any], n_columns: int, kind: str) -> Callable[..., Any]:
    """Return the answers, to scores that never change, of a calibrator that is fitted to the rows."""
    plain = base_rows(Subject(metric, {}, kind, n_columns))["score"]
    return lambda score, label, weight: make().fit(score, label, sample_weight=weight).predict_proba(plain)


def predicting(make: Callable[[], Any], n_columns: int, kind: str) -> Callable[..., Any]:
    """Return the answers to the scores of a calibrator that was fitted before."""
    rows = base_rows(Subject(metric, {}, kind, n_columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        calibrator = make().fit(rows["score"], rows["label"], sample_weight=rows["weight"])
    return lambda score: calibrator.predict_proba(score)


#: Where the answers of a metric end; [0, 1] where it isn't named. Infinite ones are documented.
RANGES: dict[str, tuple[float, float]] = {
    "audit": (-np.inf, np.inf),
    "calibration_e_value": (-np.inf, np.inf),
    "calibration_intercept": (-np.inf, np.inf),
    "calibration_slope_intercept": (-np.inf, np.inf),
    "evaluate_classes": (-np.inf, np.inf),
    "evaluate_groups": (-np.inf, np.inf),
    "hosmer_lemeshow": (0.0, np.inf),
    "kolmogorov_smirnov": (0.0, np.inf),
    "kuiper": (0.0, np.inf),
    "multicalibration_error": (0.0, np.inf),
    "spiegelhalter_z": (-np.inf, np.inf),
    "brier_score": (0.0, 2.0),
    "log_loss": (0.0, np.inf),
    "calibration_in_the_large": (-1.0, 1.0),
    "decompose": (0.0, 2.0),
    "evaluate": (-np.inf, np.inf),
    "reliability_curve": (0.0, np.inf),
}
#: Metrics that are infinite where something happened that had probability 0.
INFINITE = {
    "audit",
    "calibration_e_value",
    "hosmer_lemeshow",
    "kolmogorov_smirnov",
    "kuiper",
    "multicalibration_error",
    "log_loss",
    "spiegelhalter_z",
}
METRIC_NAMES = {"score": "y_prob", "label": "y_true", "weight": "sample_weight"}
FIT_NAMES = {"score": "scores", "label": "y", "weight": "sample_weight"}


def is_metric(value: object) -> bool:
    return inspect.isfunction(value) and positional(value)[:2] == ["y_true", "y_prob"]


def metric_subjects() -> Iterator[tuple[str, Subject]]:
    for name in names_of(cb.metrics):
        function = getattr(cb.metrics, name)
        if not is_metric(function) or function is cb.calibration_curve:  # of two labels only: see `others`
            continue
        range_ = RANGES.get(name, (0.0, 1.0))
        for k in (1, 3):
            yield f"{name}, {k}", Subject(metric(function), METRIC_NAMES, "probability", k, range_, name in INFINITE)


def calibrator_subjects() -> Iterator[tuple[str, Subject]]:
    for name, make in CALIBRATORS.items():
        for kind in ("probability", "logit", "score"):
            if "input" not in inspect.signature(make).parameters and kind != "probability":
                continue
            for k in (1, 3):
                if kind == "score" and k == 3 and name not in BINARY_CALIBRATORS:
                    continue
                yield from both(name, make, kind, k)
    for name in ("isotonic", "beta"):
        yield from both(f"one-vs-rest {name}", lambda name=name: cb.OneVsRestCalibrator(name), "probability", 3)
    yield from both("coupled", lambda: cb.OneVsRestCalibrator(coupling="likelihood"), "probability", 3)


def both(name: str, kind_of: Callable[..., Any], kind: str, k: int) -> Iterator[tuple[str, Subject]]:
    def make() -> Any:
        return kind_of(input=kind) if kind != "probability" else kind_of()

    try:
        run = predicting(make, k, kind)
    except CalibrantError:
        return  # it says that it takes no such input
    role = "probability" if kind == "probability" else "score"
    yield f"{name}.fit, {kind}, {k}", Subject(fitted(make, k, kind), FIT_NAMES, role, k)
    yield f"{name}.predict_proba, {kind}, {k}", Subject(run, {"score": "scores"}, role, k)


def specified(score: Any, label: Any) -> Any:
    calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(min_samples=10))
    calibrator.fit(label, score)
    return calibrator.calibrate(base_rows(Subject(metric, {}, "probability", 3))["score"])


def drawn(display: Any) -> Callable[..., Any]:
    """Return the numbers that a display draws."""

    def run(score: Any, label: Any, weight: Any) -> Any:
        from matplotlib.figure import Figure

        figure = Figure()
        if display is cb.MulticlassReliabilityDisplay:
            made = display.from_predictions(label, score, sample_weight=weight, axes=figure.subplots(1, 4))
            return [made.top_label, *made.curves]
        made = display.from_predictions(label, score, sample_weight=weight, ax=figure.subplots())
        return made.curves if display is cb.ReliabilityDisplay else list(made.decompositions.values())

    return run


def binned(draw: bool) -> Callable[..., Any]:
    """Return the drop-in curve, or what its display draws; text needs the positive label, as in scikit-learn."""

    def run(score: Any, label: Any, weight: Any) -> Any:
        from matplotlib.figure import Figure

        values = label.ravel().tolist() if isinstance(label, np.ndarray) else label if isinstance(label, list) else []
        is_text = bool(values) and all(isinstance(value, str) for value in values)
        options = {"sample_weight": weight, "pos_label": max(values) if is_text else None}
        if not draw:
            return cb.calibration_curve(label, score, **options)
        figure = Figure()
        made = cb.CalibrationDisplay.from_predictions(label, score, level=0.9, ax=figure.subplots(), **options)
        return [made.prob_true, made.prob_pred, made.curve]

    return run


def reported(score: Any, label: Any, weight: Any) -> Any:
    report = cb.Report(label, score, sample_weight=weight)
    scores = report.summary()["scores"].values()
    assert all(s["note"] for s in scores if s["value"] is None)
    return [float(s["value"]) for s in scores if s["value"] is not None]


def compared(score: Any, label: Any, weight: Any) -> Any:
    comparison = cb.compare(score, label, sample_weight=weight, methods=["sigmoid", "beta"])
    return [(each.log_loss, each.log_loss_difference, each.brier) for each in comparison.methods]


def grouped(score: Any, label: Any, weight: Any) -> Any:
    sides = np.arange(N) % 2
    calibrator = cb.GroupedCalibrator("sigmoid").fit(score, label, groups=sides, sample_weight=weight)
    return calibrator.predict_proba(base_rows(Subject(metric, {}))["score"], groups=sides)


def summarised(score: Any, label: Any, weight: Any) -> Any:
    summary = cb.ScoreSummary.from_arrays(score, label, sample_weight=weight)
    return [summary.scores, summary.weight, summary.positives, summary.weight_squared]


def others() -> Iterator[tuple[str, Subject]]:
    spec = {"score": "probabilities", "label": "y_true"}
    rows = base_rows(Subject(metric, {}, "probability", 3))
    before = cb.ProbabilityCalibrator(cb.CalibrationConfig(min_samples=10))
    before.fit(rows["label"], rows["score"])
    yield "ProbabilityCalibrator.fit", Subject(specified, spec, n_columns=3)
    calibrate = Subject(lambda score: before.calibrate(score), {"score": "probabilities"}, n_columns=3)
    yield "ProbabilityCalibrator.calibrate", calibrate
    names = {"score": "scores", "label": "y", "weight": "sample_weight"}
    yield "ScoreSummary.from_arrays", Subject(summarised, names, "score", 1, (-np.inf, np.inf))
    yield "calibration_curve", Subject(binned(draw=False), METRIC_NAMES)
    yield "CalibrationDisplay", Subject(binned(draw=True), METRIC_NAMES, range=(0.0, np.inf))
    for k in (1, 3):
        yield f"Report, {k}", Subject(reported, METRIC_NAMES, "probability", k, (-np.inf, np.inf))
        for display in (cb.ReliabilityDisplay, cb.DecompositionDisplay):
            yield f"{display.__name__}, {k}", Subject(drawn(display), METRIC_NAMES, "probability", k, (0.0, np.inf))
    yield from priors()
    yield from decided()
    yield "solve", Subject(rank_preserved, {"score": "P", "weight": "sample_weight"}, n_columns=3)
    yield from matrices()
    yield "compare", Subject(compared, FIT_NAMES, "probability", 1, (-np.inf, np.inf), True)
    yield "GroupedCalibrator.fit", Subject(grouped, FIT_NAMES)
    panels = drawn(cb.MulticlassReliabilityDisplay)
    yield "MulticlassReliabilityDisplay", Subject(panels, METRIC_NAMES, "probability", 3, (0.0, np.inf))


def rank_preserved(score: Any, weight: Any) -> Any:
    result = cb.rank_preserving.solve(
        score, [0.3, 0.3, 0.4], margin_kind="rates", sample_weight=weight, gap_tol=1e-2, max_iter=20_000
    )
    return [np.asarray(result.Q)[np.isfinite(np.asarray(result.Q)).all(axis=1)], result.row_residual]


def matrices() -> Iterator[tuple[str, Subject]]:
    """Return what takes a matrix before, and makes or takes one after."""
    names = {"score": "P", "weight": "sample_weight"}
    after = base_rows(Subject(metric, {}, "probability", 3))["score"]
    shares = {"margins": [0.3, 0.3, 0.4], "margin_kind": "rates"}

    def raked(score: Any, weight: Any) -> Any:
        try:
            q = np.asarray(cb.rank_preserving.rake(score, sample_weight=weight, tol=1e-6, **shares).Q)
        except InvalidInputError as error:  # rows of zeros and a one rule these margins out
            if "raking leaves zeros" not in str(error):
                raise
            return []
        return q[np.isfinite(q).all(axis=1)]

    def diagnosed(score: Any, weight: Any) -> Any:
        columns = cb.rank_preserving.diagnose(score, after, sample_weight=weight).columns
        return [[c.mean_move, c.flattened, c.overtaken] for c in columns]

    def compared(score: Any, weight: Any) -> Any:
        methods = ["none", "straight", "raking"]
        table = cb.rank_preserving.compare(score, sample_weight=weight, methods=methods, **shares)
        return [[row.distance, row.divergence, row.margin_residual, row.overtaken] for row in table.rows]

    def reported(score: Any, weight: Any) -> Any:
        columns = cb.RankPreservingReport(score, after, sample_weight=weight).summary()["columns"]
        return [c["mean_move"] for c in columns]

    yield "rake", Subject(raked, names, n_columns=3)
    yield "diagnose", Subject(diagnosed, names, n_columns=3)
    yield "rank_preserving.compare", Subject(compared, names, "probability", 3, (0.0, np.inf), True)
    yield "RankPreservingReport", Subject(reported, names, n_columns=3)


def priors() -> Iterator[tuple[str, Subject]]:
    names = {"score": "probabilities"}
    for k, old, new in ((1, 0.5, 0.25), (3, [0.5, 0.25, 0.25], [0.25, 0.25, 0.5])):
        kept = [0.5, 1.0, 0.25][: max(k, 2)]
        shift = partial(cb.prior.prior_shift, old=old, new=new)
        yield f"prior_shift, {k}", Subject(lambda score, f=shift: f(score), names, n_columns=k)
        undo = partial(cb.prior.undo_sampling, kept=kept)
        yield f"undo_sampling, {k}", Subject(lambda score, f=undo: f(score), names, n_columns=k)
        reweigh = partial(cb.prior.undo_class_weight, class_weight=kept)
        yield f"undo_class_weight, {k}", Subject(lambda score, f=reweigh: f(score), names, n_columns=k)
        yield from prior_estimates(k, old)


def decided() -> Iterator[tuple[str, Subject]]:
    names = {"score": "probabilities", "label": "y", "weight": "sample_weight"}
    two = cb.decisions.Problem.two_actions(false_positive=1.0, false_negative=2.0)
    three = cb.decisions.Problem([[0.0, 4.0, 2.0], [1.0, 0.0, 3.0]], actions=["no", "yes"])
    anywhere = (-np.inf, np.inf)

    def of_rows(function: Callable[..., Any], *more: Any, **known: Any) -> Callable[..., Any]:
        return lambda score, label, weight: function(label, score, *more, sample_weight=weight, **known)

    for k, problem in ((1, two), (3, three)):
        judged = of_rows(cb.decisions.evaluate, problem)
        of_decided = {**names, "score": "predictions"}
        yield f"evaluate, decisions {k}", Subject(judged, of_decided, "probability", k, anywhere)
        risk = of_rows(cb.decisions.risk_coverage_curve)
        yield f"risk_coverage_curve, {k}", Subject(risk, names, "probability", k, anywhere)

        def promised(score: Any, weight: Any, problem: Any = problem) -> Any:
            return cb.decisions.expected_loss(score, problem, sample_weight=weight)

        of_new = {"score": "predictions", "weight": "sample_weight"}
        yield f"expected_loss, {k}", Subject(promised, of_new, "probability", k, anywhere)
    benefit = of_rows(cb.decisions.net_benefit, 0.25)
    yield "net_benefit", Subject(benefit, names, range=anywhere)
    yield "decision_curve", Subject(of_rows(cb.decisions.decision_curve, thresholds=[0.25, 0.5]), names, range=anywhere)
    cost = of_rows(cb.decisions.cost_curve, probability_cost=[0.25, 0.5])
    yield "cost_curve", Subject(cost, names, range=anywhere)

    def tuned(score: Any, label: Any, weight: Any) -> Any:
        found = cb.decisions.tune_threshold(label, score, two, sample_weight=weight)
        return [found.threshold, found.realised, found.cost_optimal, found.saved]

    yield "tune_threshold", Subject(tuned, {**names, "score": "predictions"}, range=anywhere)


def prior_estimates(k: int, old: Any) -> Iterator[tuple[str, Subject]]:
    def by_likelihood(score: Any, weight: Any) -> Any:
        found = cb.prior.estimate_prior(score, old=old, sample_weight=weight)
        return [found.new, found.low, found.high, found.p_value]

    def by_confusion(score: Any, label: Any, weight: Any) -> Any:
        found = cb.prior.estimate_prior_bbse(label, score, new_predictions=fresh, sample_weight=weight)
        return [found.new, found.low, found.high, found.p_value]

    def of_new(score: Any, weight: Any) -> Any:
        found = cb.prior.estimate_prior_bbse(rows["label"], fresh, new_predictions=score, new_weight=weight)
        return [found.new, found.low, found.high, found.p_value]

    rows = base_rows(Subject(metric, {}, "probability", k))
    fresh, weight = rows["score"], {"weight": "sample_weight"}
    yield f"estimate_prior, {k}", Subject(by_likelihood, {"score": "probabilities", **weight}, n_columns=k)
    names = {"score": "predictions", "label": "y_true", **weight}
    yield f"estimate_prior_bbse, {k}", Subject(by_confusion, names, n_columns=k)
    names = {"score": "new_predictions", "weight": "new_weight"}
    yield f"estimate_prior_bbse, new, {k}", Subject(of_new, names, n_columns=k)


def acting_subjects() -> Iterator[tuple[str, Subject]]:
    from calibrant.training import sizing, stake_errors, thresholds, trade

    def error(score: Any, label: Any, weight: Any) -> Any:
        found = stake_errors.sizing_error(label, score, sample_weight=weight)
        return [found.value, found.floor]

    def table(score: Any, label: Any) -> Any:
        about: Any = {"label_return": np.full(N, 0.01), "thresholds": [0.1, 0.5]}
        return [[row.n_trades, row.turnover, row.growth] for row in thresholds.threshold_table(label, score, **about)]

    def chosen(score: Any, label: Any) -> Any:
        about: Any = {"label_return": np.full(N, 0.01), "thresholds": [0.1, 0.5]}
        return [row.growth for row in thresholds.choose_threshold(label, score, **about).table]

    for k in (1, 3):
        for name in ("kelly_stakes", "linear_stakes"):
            stakes = partial(getattr(sizing, name), cost_bp=50)
            yield (
                f"{name}, {k}",
                Subject(lambda score, f=stakes: f(score), {"score": "y_prob"}, "probability", k, (-1, 1)),
            )
    yield "sizing_error", Subject(error, METRIC_NAMES, range=(0.0, 2.0))
    staked = Subject(
        lambda score: trade(score, np.full(N, 0.01)).capital, {"score": "stakes"}, "score", range=(0.0, 2.0)
    )
    yield "trade", staked
    names = {"score": "y_prob", "label": "y_true"}
    for name, run in (("threshold_table", table), ("choose_threshold", chosen)):
        yield name, Subject(run, names, range=(-np.inf, np.inf), may_be_infinite=True)


SUBJECTS: dict[str, Subject] = {
    **dict(metric_subjects()),
    **dict(calibrator_subjects()),
    **dict(others()),
    **dict(acting_subjects()),
    **dict(forecast_subjects(N, Subject)),
}
