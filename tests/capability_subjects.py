"""The fitted things that `test_capabilities` takes through everything that can be done with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import calibrant as cb
from calibrant.calibrators import CALIBRATORS

N = 150
CLASSES = {1: ["no", "yes"], 2: ["no", "yes"], 3: ["a", "b", "c"]}
#: Files hold the columns in this order, which is not that of the classes.
SHUFFLED = {1: [0], 2: [1, 0], 3: [2, 0, 1]}


@dataclass(frozen=True)
class Subject:
    """Something fitted to so many columns of scores, with names that hold the classes or without any."""

    name: str
    make: Callable[[Subject], Any]
    width: int
    is_named: bool = True
    input: str = "probability"
    kind: str = "classes"

    @property
    def columns(self) -> list[str]:
        """The names of the columns in files, in the order of the classes."""
        if not self.is_named:
            return [f"s{k}" for k in range(self.width)]
        return ["p"] if self.width == 1 else [f"p_{label}" for label in CLASSES[self.width]]

    @property
    def fitted(self) -> Any:
        """The fitted object, made once."""
        return _fit(self.name)


def scores_of(width: int, input: str) -> Any:
    """Return the scores of N rows, shape (N,) or (N, K): overconfident probabilities, or logits of these."""
    truth = np.random.default_rng(width).dirichlet([1.0] * max(width, 2), N)
    sharp = truth**1.5 / (truth**1.5).sum(axis=1, keepdims=True)
    if width == 1:
        return sharp[:, 1] if input == "probability" else np.log(sharp[:, 1] / sharp[:, 0])
    return sharp if input == "probability" else np.log(sharp)


def labels_of(width: int) -> list[str]:
    truth = np.random.default_rng(width).dirichlet([1.0] * max(width, 2), N)
    rng = np.random.default_rng(0)
    return [CLASSES[width][rng.choice(len(row), p=row)] for row in truth]


REGIONS = np.resize(["north", "south", "south"], N)
#: Columns that segments are found by.
FEATURES: dict[str, list[Any]] = {
    "age": [None, *np.random.default_rng(5).uniform(20.0, 80.0, N - 1).round().tolist()],
    "city": [None, *np.random.default_rng(6).choice(["Bonn", "O'Hare", "Rome"], N - 1).tolist()],
}


def given(subject: Subject) -> Any:
    """Return the scores as the fit gets them: a frame or series with names, or an array."""
    scores = scores_of(subject.width, subject.input)
    if not subject.is_named:
        return scores
    if subject.width == 1:
        return pd.Series(scores, name=subject.columns[0])
    return pd.DataFrame(scores, columns=subject.columns)[[subject.columns[k] for k in SHUFFLED[subject.width]]]


def of_method(name: str, **settings: Any) -> Callable[[Subject], Any]:
    def make(subject: Subject) -> Any:
        return CALIBRATORS[name](**settings).fit(given(subject), labels_of(subject.width))

    return make


def grouped(subject: Subject) -> Any:
    regions = pd.Series(REGIONS, name="region") if subject.is_named else REGIONS
    return cb.GroupedCalibrator("temperature").fit(given(subject), labels_of(subject.width), groups=regions)


def multilabel(subject: Subject) -> Any:
    has_label = np.column_stack([np.array(labels_of(subject.width)) == label for label in CLASSES[subject.width]])
    Y = pd.DataFrame(has_label, columns=CLASSES[subject.width]) if subject.is_named else has_label
    scores = scores_of(subject.width, "probability")
    return cb.MultilabelCalibrator("beta").fit(
        pd.DataFrame(scores, columns=subject.columns) if subject.is_named else scores, Y
    )


def facade(subject: Subject) -> Any:
    calibrator = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="sigmoid", cv=2))
    calibrator.fit(labels_of(subject.width), given(subject))
    return calibrator


def shift(subject: Subject) -> Any:
    classes = CLASSES[subject.width]
    return cb.prior.PriorShift(1.0 + np.arange(len(classes)), classes=classes)


def chain(subject: Subject) -> Any:
    return cb.Chain([of_method("temperature")(subject), shift(subject), of_method("beta")(subject)])


def segments(subject: Subject) -> Any:
    """Fit to rows of which one segment is off by so much that trees are found: a few columns, repeated."""
    n, k = 2_000, max(subject.width, 2)
    rng = np.random.default_rng(7)
    p = rng.dirichlet([1.0] * k, n)
    age, city = rng.uniform(20.0, 80.0, n), rng.choice(["Bonn", "O'Hare", "Rome"], n)
    off = np.zeros((n, k))
    off[:, -1] = np.where((age > 50.0) & (city != "Rome"), 3.0, -0.5)
    truth = p * np.exp(off)
    codes = (truth.cumsum(axis=1) / truth.sum(axis=1, keepdims=True) > rng.random((n, 1))).argmax(axis=1)
    scores: Any = p[:, 1] if subject.width == 1 else p
    if subject.is_named:
        one = subject.width == 1
        scores = pd.Series(scores, name="p") if one else pd.DataFrame(scores, columns=subject.columns)
    y = [CLASSES[subject.width][code] for code in codes]
    fitted = cb.SegmentCalibrator("temperature").fit(scores, y, features={"age": age, "city": city})
    assert fitted.feature_names == ("age", "city")
    return fitted


def rank_preserving(subject: Subject) -> Any:
    return cb.RankPreservingCalibrator().fit(given(subject), labels_of(subject.width))


def forecast(method: str) -> Callable[[Subject], Any]:
    def make(subject: Subject) -> Any:
        recalibrator: Any = getattr(cb.forecasts, method)()
        mean = np.random.default_rng(3).normal(size=N)
        return recalibrator.fit(
            cb.forecasts.GaussianForecast(mean, 1.0), mean + 2.0 * np.random.default_rng(4).normal(size=N)
        )

    return make


def subjects() -> Iterator[Subject]:
    in_words = {1: "one score", 2: "two columns", 3: "three columns"}

    def each(
        name: str, make: Any, widths: tuple[int, ...] = (1, 2, 3), input: str = "probability", kind: str = "classes"
    ) -> Iterator[Subject]:
        for width in widths:
            for is_named in (True, False):
                how = "by name" if is_named else "by position"
                yield Subject(f"{name}, {in_words[width]}, {how}", make, width, is_named, input, kind)

    for name in sorted(CALIBRATORS):
        yield from each(name, of_method(name))
    yield from each("one_vs_rest by likelihood", of_method("one_vs_rest", coupling="likelihood"), (3,))
    yield from each("top_label per class", of_method("top_label", per_class=True), (3,))
    yield from each("spline of logits", of_method("spline", input="logit"), input="logit")
    yield from each("matrix of logits", of_method("matrix", input="logit"), (3,), input="logit")
    yield from each("isotonic of scores", of_method("isotonic", input="score"), (1,), input="score")
    yield from each("GroupedCalibrator", grouped, kind="grouped")
    yield from each("MultilabelCalibrator", multilabel, (3,), kind="labels")
    yield from each("ProbabilityCalibrator", facade)
    for width in (1, 2, 3):  # nothing is fitted that could have names
        yield Subject(f"PriorShift, {in_words[width]}, by position", shift, width, is_named=False)
    yield from each("Chain", chain)
    yield from each("SegmentCalibrator", segments, kind="segments")
    yield from each("RankPreservingCalibrator", rank_preserving, (3,))
    for method in ("Average", "Conformal", "Distribution", "Threshold", "VarianceScaling"):
        yield Subject(f"forecasts.{method}Recalibrator", forecast(f"{method}Recalibrator"), 1, kind="forecast")


SUBJECTS = {subject.name: subject for subject in subjects()}


@cache
def _fit(name: str) -> Any:
    return SUBJECTS[name].make(SUBJECTS[name])
