"""A map of every kind, with scores that reach all its edges: what SQL and ONNX are held to."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant as cb
from calibrant.calibrators import Calibrator
from calibrant.maps import (
    IDENTITY,
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    LogPoolMap,
    Map,
    MeanMap,
    MixtureMap,
    OneVsRestMap,
    QuadraticMap,
    SoftmaxMap,
    StepMap,
    TopLabelMap,
    VennAbersMap,
)
from calibrant.numerics import FloatArray

N = 10_000
DENORMALS = (5e-324, 1e-310, 2.2250738585072014e-308)


def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def rising(n: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Return n distinct sorted numbers, some of them neighbours as float64."""
    found = np.unique(rng().uniform(low, high, n))
    found[1::7] = np.nextafter(found[:-1:7], np.inf)[: found[1::7].size]
    return np.unique(found)


def step_map(n: int) -> StepMap:
    edges = rising(n)
    return StepMap(edges, np.sort(rng().random(edges.size + 1)))


def line_map(n: int, low: float = 0.0, high: float = 1.0) -> InterpolatedMap:
    """Return lines with flat pieces and jumps from one number to the next."""
    x = rising(n, low, high)
    y = np.sort(rng().random(x.size))
    y[2::5] = y[1:-1:5][: y[2::5].size]
    return InterpolatedMap(x, y)


def venn_abers_map() -> VennAbersMap:
    y = rng().random(300) < np.linspace(0.0, 1.0, 300)
    return cb.VennAbersCalibrator().fit(np.linspace(0.0, 1.0, 300).round(2), y).map_  # type: ignore[return-value]


def logit_line(clip: float | None) -> LogitInterpolatedMap:
    x = rising(40, -4.0, 4.0)
    return LogitInterpolatedMap(x, np.sort(rng().normal(0.0, 3.0, x.size)), clip)


_TINY_STEPS = StepMap(np.array([0.0, *DENORMALS, 0.1, 0.3, 0.5, 1.0 - 2.0**-53]), np.linspace(0.05, 0.95, 9))
#: Maps of a probability, and of any score.
OF_PROBABILITY: dict[str, BinaryMap] = {
    "beta": BetaMap(1.7, 0.4, -0.6, 1e-5),
    "beta, steep": BetaMap(40.0, 25.0, 3.0, 1e-12),
    "step": _TINY_STEPS,
    "step, none": StepMap(np.empty(0), np.array([0.3])),
    "step, large": step_map(700),
    "interpolated": line_map(40),
    "interpolated, falling": InterpolatedMap(np.array([0.0, 0.2, 0.4, 0.9]), np.array([0.1, 0.9, 0.2, 0.8])),
    "interpolated, one knot": InterpolatedMap(np.array([0.5]), np.array([0.25])),
    "interpolated, large": line_map(500),
    "interpolated, identity": IDENTITY,
    "interpolated, large and falling": InterpolatedMap(np.linspace(0.0, 1.0, 150), rng().random(150)),
    "logit_interpolated": logit_line(1e-6),
    "quadratic": QuadraticMap(2.0, 0.7, -0.3, -5.0, 6.0, 1e-4),
    "venn_abers": venn_abers_map(),
    "blend": BlendMap((BetaMap(1.2, 0.9, 0.1, 1e-6), logit_line(1e-6), _TINY_STEPS), np.array([0.5, 0.3, 0.2]), 1e-4),
    "blend, mixed": BlendMap((BetaMap(1.2, 0.9, 0.1, 1e-6), line_map(30)), np.array([0.5, 0.5]), 1e-4, 0.01),
    "blend, of a mean": BlendMap(
        (MeanMap((BetaMap(1.2, 1.2, 0.0, 1e-6), IDENTITY), np.array([0.7, 0.3])), logit_line(1e-6)),
        np.array([0.4, 0.6]),
        1e-4,
    ),
    "blend of steps": BlendMap((_TINY_STEPS, venn_abers_map()), np.array([0.6, 0.4]), 1e-3, 0.02),
    "mean": MeanMap((line_map(30), BetaMap(2.0, 1.0, 0.0, 1e-3)), np.array([0.25, 0.75])),
    "mean of steps": MeanMap((step_map(40), venn_abers_map(), _TINY_STEPS), np.array([0.5, 0.25, 0.25])),
}
OF_SCORE: dict[str, BinaryMap] = {
    "logistic": LogisticMap(3.7, -1.2),
    "logistic, falling": LogisticMap(-0.01, 4.0),
    "logistic, flat": LogisticMap(0.0, 0.5),
    "logistic, steep": LogisticMap(1e200, 3.0),
    "step": StepMap(np.array([-1e300, -3.0, -5e-324, 0.0, 2.0, 1e300]), np.linspace(0.0, 1.0, 7)),
    "interpolated": line_map(40, -5.0, 5.0),
    "interpolated, wide": InterpolatedMap(np.array([-1.7e308, -1.0, 1.0, 1.7e308]), np.array([0.0, 0.2, 0.7, 1.0])),
    "logit_interpolated": logit_line(None),
    "logit_interpolated, one knot": LogitInterpolatedMap(np.array([0.5]), np.array([-1.5]), None),
    "quadratic": QuadraticMap(2.0, -0.9, -0.3, -5.0, 6.0, None),
    "quadratic, point": QuadraticMap(0.0, 0.0, 0.4, 2.0, 2.0, None),
    "mean": MeanMap((LogisticMap(2.0, 0.5), line_map(30, -2.0, 2.0)), np.array([0.5, 0.5])),
}
_WEIGHT = np.eye(4) + rng().normal(0.0, 0.2, (4, 4))
_BIAS = rng().normal(0.0, 0.5, 4)
_CURVES = (BetaMap(1.2, 0.7, 0.2, 1e-6), IDENTITY, line_map(20), step_map(20))
_DEAD = StepMap(np.array([0.6]), np.array([0.0, 1.0]))
#: Maps of four classes, of probabilities and of logits.
OF_PROBABILITIES: dict[str, Map] = {
    "softmax": SoftmaxMap(np.array(0.7), np.zeros(4), 1e-12),
    "softmax, matrix": SoftmaxMap(_WEIGHT, _BIAS, 1e-9),
    "mixture": MixtureMap(
        (SoftmaxMap(np.array(0.7), _BIAS, 1e-9), SoftmaxMap(_WEIGHT, _BIAS, 1e-9)), np.array([0.3, 0.7])
    ),
    "one_vs_rest": OneVsRestMap(_CURVES),
    "one_vs_rest, zeros": OneVsRestMap((_DEAD,) * 4),
    "one_vs_rest, likelihood": OneVsRestMap(_CURVES, coupling="likelihood"),
    "one_vs_rest, zeros, likelihood": OneVsRestMap((_DEAD, IDENTITY, _DEAD, _DEAD), coupling="likelihood"),
    "top_label": TopLabelMap(4, (BetaMap(0.6, 0.6, -0.4, 1e-6),)),
    "top_label, per class": TopLabelMap(4, _CURVES),
    "top_label, low": TopLabelMap(4, (StepMap(np.array([0.5]), np.array([0.1, 0.3])),)),
    "log_pool": LogPoolMap(
        (SoftmaxMap(_WEIGHT, _BIAS, 1e-9), OneVsRestMap(_CURVES), SoftmaxMap(np.array(1.0), np.zeros(4), 1e-12)),
        np.array([0.5, 0.3, 0.2]),
        1e-4,
        0.01,
    ),
}
OF_LOGITS: dict[str, Map] = {
    "softmax": SoftmaxMap(np.array(0.7), np.zeros(4), None),
    "softmax, matrix": SoftmaxMap(_WEIGHT, _BIAS, None),
    "one_vs_rest": OneVsRestMap(_CURVES, True),
    "one_vs_rest, likelihood": OneVsRestMap(_CURVES, True, "likelihood"),
    "top_label": TopLabelMap(4, _CURVES[:1], True),
    "log_pool": LogPoolMap(
        (SoftmaxMap(_WEIGHT, _BIAS, None), OneVsRestMap(_CURVES, True)), np.array([0.6, 0.4]), 1e-4, 0.0
    ),
}
CASES: dict[str, tuple[str, Map]] = {
    **{f"{name} of a probability": ("probability", fitted) for name, fitted in OF_PROBABILITY.items()},
    **{f"{name} of a score": ("score", fitted) for name, fitted in OF_SCORE.items()},
    **{f"{name} of probabilities": ("probability", fitted) for name, fitted in OF_PROBABILITIES.items()},
    **{f"{name} of logits": ("logit", fitted) for name, fitted in OF_LOGITS.items()},
}


def is_likelihood(fitted: Map) -> bool:
    """Say whether rows are coupled by likelihood, which has no closed form."""
    return isinstance(fitted, OneVsRestMap) and fitted.coupling == "likelihood"


def fitted_calibrator(input: str, fitted: Map) -> Calibrator:
    """Return a calibrator that holds a map."""
    made = cb.SigmoidCalibrator(input=input)
    made.map_ = fitted  # type: ignore[assignment]
    made.classes_ = np.array([False, True]) if fitted.is_binary else np.arange(4)
    made.n_rows_, made.score_names_ = 1, None
    return made


def knots_of(fitted: Any) -> FloatArray:
    """Return all edges and knots in a map."""
    names = ("edges", "x", "edges0", "edges1")
    own = [getattr(fitted, name) for name in names if hasattr(fitted, name)]
    return np.concatenate([np.empty(0), *own, *(knots_of(part) for part in getattr(fitted, "maps", ()))])


def scores_of(input: str, fitted: Map) -> FloatArray:
    """Return 10,000 scores that the calibrator takes: its knots and their neighbours, the ends, and any others."""
    if not fitted.is_binary:
        return _rows(input)
    knots = knots_of(fitted)
    with np.errstate(over="ignore"):
        single = np.float32(knots).astype(np.float64)
    around = [knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf), single[np.isfinite(single)]]
    if input == "probability":
        ends = [0.0, 1.0, 0.5, 2.0**-53, 1.0 - 2.0**-53, *DENORMALS, 1e-12, 1e-5, 1.0 - 1e-12]
        scores = np.concatenate([ends, *around, rng().random(N)])
        scores = scores[(scores >= 0.0) & (scores <= 1.0)]
    else:
        ends = [0.0, -0.0, 1e-300, 40.0, 800.0, 1e6, 1e150, 1e300, 1.7976931348623157e308, *DENORMALS]
        scores = np.concatenate([ends, np.negative(ends), *around, rng().normal(0.0, 3.0, N)])
    return np.resize(scores, N) if scores.size < N else scores[:N] if scores.size < 2 * N else scores


def _rows(input: str) -> FloatArray:
    eye = np.eye(4)
    ties = np.array(
        [[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [0.0, 0.4, 0.2, 0.4], [1.0, 5e-324, 0.0, 0.0], [1.0, 1e-310, 0, 0]]
    )
    drawn = rng().dirichlet([0.3] * 4, N - 9)
    if input == "probability":
        return np.vstack((eye, ties, drawn))
    return np.vstack((800.0 * eye, -1e6 * eye, ties[:1], np.log(np.maximum(drawn, 1e-30))))
