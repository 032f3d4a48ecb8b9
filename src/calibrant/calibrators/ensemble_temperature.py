"""Ensemble temperature scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.base import Calibrator, named
from calibrant.calibrators.temperature import TemperatureCalibrator, slope_of
from calibrant.document_field import DocumentField
from calibrant.errors import ConvergenceWarning, warn
from calibrant.fitted import as_one_score
from calibrant.maps import BetaMap, LogisticMap, Map, MeanMap, MixtureMap, SoftmaxMap, line_map
from calibrant.numerics import FloatArray, dot
from calibrant.row_stream import RowStream
from calibrant.rows import Rows

Parts: TypeAlias = tuple[SoftmaxMap | BetaMap | LogisticMap, ...]

_MAX_ITER = 100
#: Newton decrement at which that step is the last, and what rounding may leave of it.
_TOL = 1e-13
_ACCEPTED = 1e-8
#: Rows per block: what a block's temporaries need stays in cache.
_BLOCK = 1 << 13


@named("ensemble_temperature")
class EnsembleTemperatureCalibrator(Calibrator):
    """Ensemble temperature scaling: w1 softmax(z / T) + w2 softmax(z) + w3 / K of logits z of K classes.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as logarithms, zeros clipped by `calibrant.numerics.clip_from_data`.

    Attributes
    ----------
    weights_ : ndarray of shape (3,)
        The shares w1, w2 and w3 of temperature-scaled, unchanged and uniform probabilities.
    inverse_temperature_ : float
        1 / T, as `TemperatureCalibrator` finds it.

    Notes
    -----
    The temperature is found first, then the weights that maximise the likelihood with a Dirichlet prior whose
    parameters are two, as if each part had explained one row more. So each weight is above zero, and the uniform part
    bounds the loss of a rare surprise. The problem is strictly convex. Rows keep their order of
    classes. Two classes are a mixture of three logistic curves, the last of them constant.

    References
    ----------
    Zhang, Kailkhura and Han (2020), *Mix-n-match: ensemble and compositional methods for uncertainty calibration in
    deep learning*, ICML, section 3.2.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.EnsembleTemperatureCalibrator(input="logit").fit([-4.0, 3.0, 2.0, 5.0], [0, 0, 1, 1])
    >>> calibrator.predict_proba([2.0]).round(3)
    array([0.685])
    """

    map_kinds = (MeanMap,)

    @property
    def weights_(self) -> FloatArray:
        """The shares of temperature-scaled, unchanged and uniform probabilities."""
        return self._mixture.weights

    @property
    def inverse_temperature_(self) -> float:
        """What the logits of the first part are multiplied by."""
        return slope_of(self._mixture.maps[0])

    @property
    def _mixture(self) -> MeanMap | MixtureMap:
        fitted = self.fitted_map
        assert isinstance(fitted, (MeanMap, MixtureMap))  # noqa: S101 - for the type checker: there are no others
        return fitted

    def map_of(self, rows: Rows) -> Map:
        rows = as_one_score(rows, self.input) if rows.n_classes == 2 else rows
        return map_around(TemperatureCalibrator(input=self.input).map_of(rows), rows)

    def fit_passes(self, stream: RowStream) -> Map:
        """Fit the shares in sums over the rows, after the temperature."""
        parts = parts_of(TemperatureCalibrator(input=self.input).fit_passes(stream))
        total = stream.total(lambda rows: float(rows.weights.sum()))

        def sum_of(find: Callable[[MixtureProblem], Any]) -> Any:
            return stream.total(lambda rows: find(MixtureProblem.of(parts, rows)))

        return mixture_of(parts, find_shares(sum_of, len(parts), total))

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        if n_classes == 2 or not isinstance(fitted, MixtureMap):
            super().check_map(fitted, n_classes, field)
        maps = fitted.maps if isinstance(fitted, (MeanMap, MixtureMap)) else ()
        for item, part in zip(field.member("maps").items(), maps, strict=True):
            if isinstance(part, SoftmaxMap):
                part.check_fit(self.input, n_classes, item, ndim=0)
            elif not isinstance(part, (BetaMap, LogisticMap)):
                item.member("kind").refuse(f"does not go with {self!r}")


def map_around(first: SoftmaxMap | BetaMap | LogisticMap, rows: Rows) -> MeanMap | MixtureMap:
    """Fit the shares to the rows that the map of temperature scaling was fitted to."""
    parts = parts_of(first)
    problem = MixtureProblem.of(parts, rows)
    return mixture_of(parts, find_shares(lambda find: find(problem), len(parts), rows.total_weight))


def parts_of(first: SoftmaxMap | BetaMap | LogisticMap) -> Parts:
    """Return what is mixed: temperature scaling, the scores as they are, and the same for all rows."""
    if isinstance(first, SoftmaxMap):
        return (first, *(replace(first, weight=np.array(slope)) for slope in (1.0, 0.0)))
    return (first, *(line_map(slope, 0.0, first.clip) for slope in (1.0, 0.0)))


def mixture_of(parts: Parts, shares: FloatArray) -> MeanMap | MixtureMap:
    """Return the mixture of the parts."""
    linear = tuple(part for part in parts if isinstance(part, SoftmaxMap))
    curves = tuple(part for part in parts if isinstance(part, (BetaMap, LogisticMap)))
    return MixtureMap(linear, shares) if linear else MeanMap(curves, shares)


def own_probabilities(parts: Parts, values: FloatArray, codes: npt.NDArray[np.integer[Any]]) -> FloatArray:
    """Return what each of J parts gives to each row's own class, shape (J, n)."""
    out = np.empty((len(parts), codes.size))
    for j, part in enumerate(parts):
        if isinstance(part, SoftmaxMap):
            out[j] = _chosen(part, values, codes)
            continue
        one = values
        if values.ndim == 2:
            one = values[:, 1].copy() if isinstance(part, BetaMap) else values[:, 1] - values[:, 0]
        q = part.apply(one)
        out[j] = np.where(codes == 1, q, 1.0 - q)
    return out


def _chosen(fitted: SoftmaxMap, values: FloatArray, codes: npt.NDArray[np.integer[Any]]) -> FloatArray:
    """Return the probability of each row's own class."""
    out = np.empty(codes.size)
    for start in range(0, out.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        q = fitted.apply(values[block])
        out[block] = q[np.arange(q.shape[0]), codes[block]]
    return out


@dataclass(frozen=True, slots=True)
class MixtureProblem:
    """Rows of a mixture: what each part gives to each row's own class, and the weights of the rows."""

    parts: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, parts: Parts, rows: Rows) -> MixtureProblem:
        """Return the problem of parts applied to rows."""
        return cls(own_probabilities(parts, rows.scores, rows.codes), rows.weights)

    def log_likelihood(self, shares: FloatArray) -> float:
        """Return sum_i w_i log(sum_j share_j parts_ji)."""
        return dot(self.weight, np.log(self._mixture(shares)))

    def derivatives(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of the log-likelihood and its negative Hessian."""
        ratios = self.parts / self._mixture(shares)
        gradient = np.einsum("ji,i->j", ratios, self.weight)
        return gradient, np.einsum("ji,li->jl", self.weight * ratios, ratios)

    def _mixture(self, shares: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("j,ji->i", shares, self.parts))


def find_shares(sum_of: Callable[[Callable[[MixtureProblem], Any]], Any], n_parts: int, total: float) -> FloatArray:
    """Return the shares, shape (J,), that maximise log-likelihood plus sum_j log(share_j).

    `sum_of` sums what is found of problems of all rows, which weigh `total`.
    """

    def loss(shares: FloatArray) -> float:
        likelihood: float = sum_of(lambda part: part.log_likelihood(shares))
        return -(likelihood + float(np.log(shares).sum())) / total

    shares = np.full(n_parts, 1.0 / n_parts)
    value = loss(shares)
    system = np.zeros((n_parts + 1, n_parts + 1))
    system[:-1, -1] = system[-1, :-1] = 1.0
    decrement = np.inf
    for _ in range(_MAX_ITER):
        slope, bend = sum_of(partial(MixtureProblem.derivatives, shares=shares))
        gradient = -(slope + 1.0 / shares) / total
        system[:-1, :-1] = bend / total
        system[np.arange(n_parts), np.arange(n_parts)] += 1.0 / (total * shares * shares)
        try:
            step = np.linalg.solve(system, np.append(-gradient, 0.0))[:-1]
        except np.linalg.LinAlgError:  # one row outweighs all others and the barrier: the shortest of many steps
            step = np.linalg.lstsq(system, np.append(-gradient, 0.0), rcond=None)[0][:-1]
        decrement = -float(gradient @ step)
        if decrement <= _TOL:
            break
        reach = float(np.min(-shares[step < 0.0] / step[step < 0.0]))
        length = min(1.0, 0.9 * reach)
        while loss(shares + length * step) > value - 1e-4 * length * decrement and length > 1e-10:
            length *= 0.5
        if length <= 1e-10:  # no descent left beyond rounding
            break
        shares = shares + length * step
        value = loss(shares)
    if decrement > _ACCEPTED:
        warn(f"ensemble temperature fit: Newton decrement {decrement:.2e} > tol {_ACCEPTED:.0e}", ConvergenceWarning)
    out: FloatArray = shares / shares.sum()
    return out
