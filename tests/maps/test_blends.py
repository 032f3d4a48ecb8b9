"""Blends: the mean logit of SciPy's functions, by shared logarithms and in blocks, with the same bits in any batch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from calibrant.maps import (
    BetaMap,
    BinaryMap,
    BlendMap,
    BlendPart,
    LogisticMap,
    LogitInterpolatedMap,
    MeanMap,
    QuadraticMap,
    StepMap,
)
from calibrant.numerics import LEAST

CLIP = 1e-6
PARTS: dict[str, BlendPart] = {
    "beta": BetaMap(0.7, 1.2, -0.1, CLIP),
    "left alone": BetaMap(1.0, 1.0, 0.0, CLIP),
    "constant": BetaMap(0.0, 0.0, -1.0, CLIP),
    "quadratic": QuadraticMap(7.4, 2.6, -1.7, -12.0, 7.0, CLIP),
    "curve": LogitInterpolatedMap(np.array([-9.0, -1.0, 0.5, 6.0]), np.array([-6.0, -1.5, 0.2, 9.0]), CLIP),
    "curve of another clip": LogitInterpolatedMap(np.array([-2.0, 2.0]), np.array([-1.0, 3.0]), 1e-3),
    "steps": StepMap(np.array([0.2, 0.6]), np.array([0.0, 0.3, 1.0])),
}
MEAN = MeanMap((PARTS["beta"], PARTS["left alone"], PARTS["constant"]), np.array([0.6, 0.3, 0.1]))
WEIGHTS = np.array([0.3, 0.2, 0.1, 0.4, 0.2, 0.1, 0.2, 0.25])
BLEND = BlendMap((*PARTS.values(), MEAN), WEIGHTS, LEAST, uniform=1e-3)


def scores(n: int) -> np.ndarray:
    return np.concatenate([[0.0, 1.0, 1e-300, 1.0 - 1e-16], np.random.default_rng(5).beta(0.3, 0.6, n - 4)])


def test_a_blend_is_the_mean_logit_of_its_parts() -> None:
    p = scores(60_000)
    outputs = [np.clip(part.apply(p), LEAST, 1.0 - 1e-12) for part in BLEND.maps]
    r = expit(sum(w * logit(q) for w, q in zip(WEIGHTS, outputs, strict=True)))
    np.testing.assert_allclose(BLEND.apply(p), (1.0 - BLEND.uniform) * r + 0.5 * BLEND.uniform, rtol=1e-9)
    np.testing.assert_allclose(MEAN.apply(p), MEAN.weights @ [part.apply(p) for part in MEAN.maps], rtol=1e-14)


@pytest.mark.parametrize("fitted", [BLEND, MEAN, *PARTS.values(), LogisticMap(2.0, -0.5)], ids=repr)
def test_scores_have_the_same_bits_in_any_batch(fitted: BinaryMap) -> None:
    p = scores(40_000)
    whole = fitted.apply(p)
    assert np.array_equal(whole, np.concatenate([fitted.apply(part) for part in np.array_split(p, 7)]))
    assert np.array_equal(whole[:50], np.concatenate([fitted.apply(p[i : i + 1]) for i in range(50)]))
    assert np.array_equal(whole, fitted.apply(p))


def test_what_is_left_alone_stays_to_the_last_bit() -> None:
    p = scores(40_000)
    assert np.array_equal(PARTS["left alone"].apply(p), np.clip(p, CLIP, 1.0 - CLIP))
