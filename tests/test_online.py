"""OnlinePlattCalibrator: its regret is bounded for any sequence, it follows drifts, and knows no label too early."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import calibrant as cb
from calibrant.dependence import effective_rows
from calibrant.errors import CalibrantError, DocumentError

GRID_STEP = (0.1, 0.15)


def log_losses(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, np.where(y == 1, -z, z))


def own_losses(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predict each row before its label is learnt."""
    online = cb.OnlinePlattCalibrator(input="logit")
    p = online.replay(z, y, time=np.arange(y.size), label_end=np.arange(y.size) + 0.5, sample_weight=np.ones(y.size))
    return -np.log(np.where(y == 1, p, 1.0 - p))


def best_fixed_map(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return slope and intercept of the Platt map with the least loss of all rows, by SciPy."""
    found = minimize(
        lambda ab: log_losses(ab[0] * z + ab[1], y).sum(),
        [1.0, 0.0],
        bounds=[(0.0, 2.0), (-3.0, 3.0)],
        method="L-BFGS-B",
    )
    return found.x


def drawn(kind: str, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 1.5, n)
    match kind:
        case "calibrated":
            y = rng.random(n) < expit(z)
        case "over-confident":
            y = rng.random(n) < expit(0.4 * z + 0.7)
        case "noise":
            y = rng.random(n) < 0.5
        case "alternating":
            y = np.arange(n) % 2 == 0
        case "all positive":
            y = np.ones(n, dtype=bool)
        case "blocks":
            y = (np.arange(n) // 100) % 2 == 0
        case _:  # "against": always the label that was held less likely
            y = z < 0.0
    return z, y.astype(int)


def adversarial(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose each label against what is predicted, as nobody can who doesn't look."""
    rng = np.random.default_rng(seed)
    z, online, y = rng.normal(0.0, 2.0, n), cb.OnlinePlattCalibrator(input="logit"), []
    for one in z:
        y.append(int(online.predict_proba([one])[0] < 0.5))
        online.update([one], [y[-1]])
    return z, np.array(y)


def check_regret(z: np.ndarray, y: np.ndarray) -> float:
    own, (a, b) = own_losses(z, y).sum(), best_fixed_map(z, y)
    corners = [
        (GRID_STEP[0] * s, GRID_STEP[1] * i)
        for s in (math.floor(a / GRID_STEP[0]), math.ceil(a / GRID_STEP[0]))
        for i in (math.floor(b / GRID_STEP[1]), math.ceil(b / GRID_STEP[1]))
    ]
    bound = max(cb.OnlinePlattCalibrator().regret_bound([corner], y.size) for corner in corners)
    between = float((GRID_STEP[0] ** 2 * z**2 + GRID_STEP[1] ** 2).sum()) / 32.0
    regret = own - log_losses(a * z + b, y).sum()
    assert regret <= bound + between
    return float(regret)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind", ["calibrated", "over-confident", "noise", "alternating", "all positive", "blocks", "against"]
)
def test_regret_against_the_best_platt_map_in_hindsight_is_bounded(kind: str, seed: int) -> None:
    check_regret(*drawn(kind, seed, 1_500))


@pytest.mark.parametrize("seed", range(2))
def test_regret_is_bounded_where_each_label_is_chosen_against_the_prediction(seed: int) -> None:
    check_regret(*adversarial(seed, 800))


@pytest.mark.parametrize("kind", ["over-confident", "noise"])
def test_regret_grows_like_a_logarithm(kind: str) -> None:
    """Ten times the rows add a few units of loss, where a constant share a row would add hundreds."""
    few, many = (np.mean([check_regret(*drawn(kind, seed, n)) for seed in range(3)]) for n in (400, 4_000))
    assert many - few < 8.0


@pytest.mark.parametrize("seed", range(3))
def test_regret_against_maps_that_change_is_bounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maps = [(0.5, 1.5), (1.5, -1.5), (0.2, 0.0), (1.0, 0.75)]
    z = rng.normal(0.0, 1.5, 4 * 400)
    stretch = np.repeat(np.arange(4), 400)
    slope, intercept = np.array(maps)[stretch].T
    y = (rng.random(z.size) < expit(slope * z + intercept)).astype(int)
    online = cb.OnlinePlattCalibrator()
    regret = own_losses(z, y).sum() - log_losses(slope * z + intercept, y).sum()
    assert regret <= online.regret_bound(maps, z.size)
    assert online.regret_bound(maps, z.size) > online.regret_bound(maps[:1], z.size)


@pytest.mark.parametrize("fewest", [0.01, 0.5])
def test_weighted_regret_is_bounded_and_a_change_after_a_light_label_costs_more(fewest: float) -> None:
    rng = np.random.default_rng(4)
    maps = [(0.5, 1.5), (1.5, -1.5), (0.2, 0.0)]
    z, weight = rng.normal(0.0, 1.5, 1_200), rng.uniform(fewest, 1.0, 1_200)
    slope, intercept = np.array(maps)[np.repeat(np.arange(3), 400)].T
    y = (rng.random(z.size) < expit(slope * z + intercept)).astype(int)
    online = cb.OnlinePlattCalibrator(input="logit")
    p = online.replay(z, y, time=np.arange(1_200), label_end=np.arange(1_200) + 0.5, sample_weight=weight)
    regret = weight @ (-np.log(np.where(y == 1, p, 1.0 - p)) - log_losses(slope * z + intercept, y))
    assert regret <= online.regret_bound(maps, z.size) - np.log(weight[[399, 799]]).sum()


def test_the_bound_is_the_formula() -> None:
    """Of three changes in 1,000 rows the best of the six shares is the one nearest to 3 / 999."""
    online = cb.OnlinePlattCalibrator()
    slope, intercept = np.meshgrid(np.linspace(0.0, 2.0, 21), np.linspace(-3.0, 3.0, 41), indexing="ij")
    prior = np.exp(-0.5 * (((slope - 1.0) / 0.5) ** 2 + intercept**2))
    first = -4.0 * math.log(1.0 / prior.sum())  # each begins at the most likely map
    change = -3 * math.log(3e-3) - (999 - 3) * math.log1p(-3e-3)
    assert online.regret_bound([(1.0, 0.0)] * 4, 1_000) == pytest.approx(math.log(6.0) + first + change)


def test_it_is_the_mixture_that_exact_weights_give() -> None:
    """Sums over all paths of maps, in logarithms, for a few rows: what the recursion stands for."""
    z, y = np.array([0.3, -1.2, 2.0]), np.array([1, 0, 0])
    slope, intercept = (
        each.ravel() for each in np.meshgrid(np.linspace(0, 2, 21), np.linspace(-3, 3, 41), indexing="ij")
    )
    prior = np.exp(-0.5 * (((slope - 1.0) / 0.5) ** 2 + intercept**2))
    prior /= prior.sum()
    shares = [1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 0.0]

    def evidence(n: int) -> float:
        """Return the probability that the mixture has for the first n labels."""
        total = 0.0
        for share in shares:
            weight = prior
            for t in range(n):
                q = expit(slope * z[t] + intercept)
                weight = weight * (q if y[t] else 1.0 - q)
                weight = (1.0 - share) * weight + share * weight.sum() * prior
            total += weight.sum() / len(shares)
        return total

    expected = [later / earlier for earlier, later in pairwise([1.0, *(evidence(n) for n in (1, 2, 3))])]
    assert np.exp(-own_losses(z, y)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("late", [0, 1, 7])
def test_no_label_is_used_before_it_is_known(late: int) -> None:
    """Flipping labels from some time on changes no prediction of a row that began before they were known."""
    z, y = drawn("over-confident", 0, 120)
    time = np.arange(120)
    flipped = np.where(time < 60, y, 1 - y)
    one, other = (
        cb.OnlinePlattCalibrator(input="logit").replay(z, labels, time=time, label_end=time + late)
        for labels in (y, flipped)
    )
    n_same = 60 + late + 1
    assert one[:n_same].tobytes() == other[:n_same].tobytes()
    assert (one[n_same:] != other[n_same:]).all()


def test_replay_takes_rows_in_any_order_and_ends_where_updates_end() -> None:
    z, y = drawn("over-confident", 1, 200)
    time, end = np.arange(200), np.arange(200) + 3
    weight = np.full(200, 0.25)
    straight, shuffled, stepwise = (cb.OnlinePlattCalibrator(input="logit") for _ in range(3))
    order = np.random.default_rng(0).permutation(200)
    p = straight.replay(z, y, time=time, label_end=end, sample_weight=weight)
    q = shuffled.replay(z[order], y[order], time=time[order], label_end=end[order], sample_weight=weight)
    assert q.tobytes() == p[order].tobytes()
    stepwise.update(z, y, sample_weight=weight)
    assert straight.to_dict() == shuffled.to_dict() == stepwise.to_dict()
    assert straight.n_labels_ == 200


def test_from_a_label_of_weight_zero_nothing_is_learnt() -> None:
    z, y = drawn("over-confident", 2, 50)
    with_zeros, without = (cb.OnlinePlattCalibrator(input="logit") for _ in range(2))
    weight = np.where(np.arange(50) < 10, 0.0, 0.5)
    with_zeros.update([0.5], [1], sample_weight=[0.0])
    assert with_zeros.to_dict() == without.to_dict()
    with_zeros.update(z, y, sample_weight=weight)
    without.update(z[10:], y[10:], sample_weight=weight[10:])
    assert with_zeros.to_dict() == without.to_dict()


def test_labels_that_overlap_count_by_their_uniqueness() -> None:
    z, y = drawn("over-confident", 2, 300)
    time = np.arange(300)
    whole, shared = (cb.OnlinePlattCalibrator(input="logit") for _ in range(2))
    whole.replay(z, y, time=time, label_end=time + 10, sample_weight=np.ones(300))
    shared.replay(z, y, time=time, label_end=time + 10)
    by_weight = cb.OnlinePlattCalibrator(input="logit")
    by_weight.replay(z, y, time=time, label_end=time + 10, sample_weight=np.full(300, 0.1))
    spread = [abs(float(each.predict_proba([3.0])[0]) - expit(3.0)) for each in (whole, shared, by_weight)]
    assert spread[1] == pytest.approx(spread[2], rel=0.2)
    assert spread[0] > 1.2 * spread[1], "whole labels move it further"
    assert effective_rows(time, time + 10) == pytest.approx(30.0, rel=0.2)


def test_a_state_goes_on_where_it_ended() -> None:
    z, y = drawn("blocks", 0, 100)
    whole, first = (
        cb.OnlinePlattCalibrator(["a", "b"], input="logit"),
        cb.OnlinePlattCalibrator(["a", "b"], input="logit"),
    )
    labels = np.where(y == 1, "b", "a")
    whole.update(z, labels)
    first.update(z[:40], labels[:40])
    second = cb.OnlinePlattCalibrator.from_dict(json.loads(json.dumps(first.to_dict())))
    second.update(z[40:], labels[40:])
    assert second.to_dict() == whole.to_dict()
    assert "('a', 'b'), input='logit'): 100 labels learnt" in repr(second)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "this is not the state of an online calibrator"),
        ({"version": 9}, "version 9, which this release can't read"),
        ({"weight": [[1.0]]}, "weight"),
        ({"log_share_weight": [0.0] * 6}, "log_share_weight: a list of 6 is not 6 logarithms"),
        ({"n_labels": -1}, "n_labels"),
        ({"input": "score"}, "input"),
        ({"classes": [1]}, "classes"),
    ],
)
def test_a_broken_state_is_refused(change: dict[str, object], said: str) -> None:
    state = {**cb.OnlinePlattCalibrator().to_dict(), **change}
    with pytest.raises(DocumentError, match=said):
        cb.OnlinePlattCalibrator.from_dict(state)


def test_probabilities_of_zero_and_one_are_predicted_and_learnt() -> None:
    online = cb.OnlinePlattCalibrator()
    online.update([0.0, 1.0], [1, 0])
    p = online.predict_proba([0.0, 0.5, 1.0])
    assert ((p > 0.0) & (p < 1.0)).all()


def test_what_cannot_be_used_is_refused_and_nothing_is_learnt() -> None:
    online = cb.OnlinePlattCalibrator()
    for call, said in (
        (lambda: online.update([0.2, 1.4], [0, 1]), "1.4 is outside"),
        (lambda: online.update([0.2], [3]), "3"),
        (lambda: online.update([0.2, 0.4], [0, 1], sample_weight=[1.0, 2.0]), "sample_weight row 1: 2 is above 1"),
        (lambda: online.update([[0.2, 0.8]], [1]), "scores has 2 columns"),
        (lambda: online.replay([0.2], [1], time=[3], label_end=[2]), "is before the row's time"),
        (lambda: cb.OnlinePlattCalibrator([1, 2, 3]), "3 labels. Pass two"),
        (lambda: cb.OnlinePlattCalibrator([0, None]), "classes row 1: missing label"),
        (lambda: cb.OnlinePlattCalibrator([0, "a"]), "classes mixes kinds of labels"),
        (lambda: online.regret_bound([(1.0, 0.0, 2.0)], 10), r"maps has shape \(1, 3\)"),
        (lambda: online.regret_bound([(math.nan, 0.0)], 10), "maps row 0, column 0: nan is not finite"),
        (lambda: online.regret_bound([(1.0, 0.0)] * 4, 3), "n_rows=3 is too small"),
        (lambda: cb.OnlinePlattCalibrator(input="score"), "input"),
    ):
        with pytest.raises(CalibrantError, match=said):
            call()
    assert online.n_labels_ == 0


@pytest.mark.parametrize("keep", [lambda c: cb.save(c, "online.json"), cb.persistence.to_sql, cb.persistence.to_onnx])
def test_what_goes_on_learning_is_kept_by_its_state(keep):
    with pytest.raises(cb.errors.InvalidTypeError, match=r"It goes on learning: keep its to_dict\(\)\.$"):
        keep(cb.OnlinePlattCalibrator())
