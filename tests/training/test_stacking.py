"""Stacking: the meta-learner against scikit-learn's own fit, and comparisons on rows unseen."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from calibrant.dependence import Dependence
from calibrant.errors import CalibrantError
from calibrant.metrics import brier_score, log_loss, top_label_ece
from calibrant.training.stacking import CLASS_FREQUENCIES, compare_stacks, fit_meta_learner, stack_predictions
from calibrant.validation import Labels, as_labels

CLASSES = np.array([-1, 0, 1])


def models(n: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels, and two calibrated models that each know a part of what makes them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(3, n, 3))
    y = (rng.random(n)[:, None] >= np.cumsum(soft(z.sum(axis=0)), axis=1)[:, :2]).sum(axis=1) - 1
    return y, {"a": soft(0.8 * (z[0] + z[1])), "b": soft(0.8 * (z[1] + z[2]))}


def soft(z: np.ndarray) -> np.ndarray:
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def sharpen(members: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: soft(4.0 * np.log(prob)) for name, prob in members.items()}


def labels_of(y: np.ndarray) -> Labels:
    return as_labels(y, classes=CLASSES)


def test_meta_learner_is_scikit_learn_s_regression_on_centred_log_probabilities() -> None:
    y, members = models(500, 0)
    weight = np.random.default_rng(1).integers(1, 4, 500)
    got = fit_meta_learner(list(members.values()), y, sample_weight=weight, classes=CLASSES, C=0.5)
    x = np.hstack([np.log(p) - np.log(p).mean(axis=1, keepdims=True) for p in members.values()])
    theirs = LogisticRegression(C=0.5, max_iter=1000).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(got.predict_proba(list(members.values())), theirs.predict_proba(x), atol=1e-12)


def test_meta_learner_of_two_classes_present_gives_the_third_nothing() -> None:
    y, members = models(400, 2)
    kept = y != 0
    parts = [p[kept] for p in members.values()]
    got = fit_meta_learner(parts, y[kept], classes=CLASSES)
    x = np.hstack([np.log(p) - np.log(p).mean(axis=1, keepdims=True) for p in parts])
    theirs = LogisticRegression(C=0.1, max_iter=1000).fit(x, y[kept])
    np.testing.assert_allclose(got.predict_proba(parts)[:, [0, 2]], theirs.predict_proba(x), atol=1e-12)
    assert (got.predict_proba(parts)[:, 1] == 0.0).all()


def test_a_regression_that_does_not_converge_by_newton_s_steps_either_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No error comes of it: what was found is used, and scikit-learn's warning says so."""
    y, members = models(300, 3)
    solvers = []
    fit = LogisticRegression.fit

    def unfinished(self: LogisticRegression, *args: object, **more: object) -> LogisticRegression:
        solvers.append(self.solver)
        fit(self, *args, **more)
        warnings.warn("not converged", ConvergenceWarning, stacklevel=2)
        return self

    wanted = fit_meta_learner(list(members.values()), y)
    monkeypatch.setattr(LogisticRegression, "fit", unfinished)
    with pytest.warns(ConvergenceWarning, match="not converged"):
        got = fit_meta_learner(list(members.values()), y)
    assert solvers == ["lbfgs", "newton-cholesky"]
    np.testing.assert_allclose(got.coef, wanted.coef, atol=1e-3)


def test_columns_are_matched_to_classes_by_name() -> None:
    y, members = models(300, 9)
    parts = list(members.values())
    learner = fit_meta_learner(parts, y, classes=CLASSES)
    named = [pd.DataFrame(p, columns=["p_-1", "p_0", "p_1"])[["p_1", "p_-1", "p_0"]] for p in parts]
    np.testing.assert_array_equal(fit_meta_learner(named, y, classes=CLASSES).coef, learner.coef)
    assert learner.predict_proba(named).tobytes() == learner.predict_proba(parts).tobytes()


def test_one_row_alone_gives_the_same_bits_as_in_a_batch() -> None:
    y, members = models(200, 3)
    parts = list(members.values())
    learner = fit_meta_learner(parts, y, classes=CLASSES)
    batch = learner.predict_proba(parts)
    for i in (0, 17, 199):
        assert learner.predict_proba([p[i : i + 1] for p in parts]).tobytes() == batch[i : i + 1].tobytes()


def test_probabilities_of_zero_are_no_infinity() -> None:
    y, members = models(300, 4)
    members["a"][:5] = [1.0, 0.0, 0.0]
    learner = fit_meta_learner(list(members.values()), y, classes=CLASSES)
    assert np.isfinite(learner.predict_proba(list(members.values()))).all()


def test_stacks_beat_their_members_and_calibration_helps_the_average_of_overconfident_ones() -> None:
    y, members = models(3000, 5)
    fit, test = ({k: p[half] for k, p in members.items()} for half in (slice(0, 1500), slice(1500, None)))
    made = stack_predictions(
        {"raw": sharpen(fit), "calibrated": fit}, {"raw": sharpen(test), "calibrated": test}, labels_of(y[:1500])
    )
    comparison = compare_stacks(made, labels_of(y[1500:]))
    loss = {m.name: m.log_loss for m in comparison.methods}
    assert list(loss) == [
        CLASS_FREQUENCIES,
        *(f"{who}, {kind}" for kind in ("raw", "calibrated") for who in "ab"),
        *(f"{how}, {kind}" for how in ("average", "meta-learner") for kind in ("raw", "calibrated")),
    ]
    assert loss["meta-learner, calibrated"] < min(loss["a, calibrated"], loss["b, calibrated"])
    assert comparison.differences["average"].high < 0.0
    assert abs(comparison.differences["meta-learner"].value) < 0.02  # it scales its inputs itself
    assert set(comparison.differences) == {"a", "b", "average", "meta-learner"}


def test_figures_are_those_of_the_metrics() -> None:
    y, members = models(400, 6)
    made = {CLASS_FREQUENCIES: np.full((400, 3), 1 / 3), "a, raw": members["a"]}
    time = np.arange(400)
    comparison = compare_stacks(made, labels_of(y), dependence=Dependence(time=time, label_end=time + 1))
    assert (comparison.n_rows, comparison.block) == (400, 4)
    method = comparison.methods[1]
    assert method.log_loss == pytest.approx(log_loss(y, members["a"], classes=CLASSES))
    assert method.brier == pytest.approx(brier_score(y, members["a"], classes=CLASSES))
    assert method.ece == pytest.approx(top_label_ece(y, members["a"], classes=CLASSES, n_bins=10))
    assert method.skill.value == pytest.approx(method.log_loss - np.log(3))
    assert comparison.methods[0].name == CLASS_FREQUENCIES


def test_class_frequencies_are_those_of_the_fit() -> None:
    y, members = models(100, 7)
    both = {"raw": members, "calibrated": members}
    made = stack_predictions(both, both, labels_of(y))
    np.testing.assert_allclose(made[CLASS_FREQUENCIES][0], [(y == c).mean() for c in CLASSES])


@pytest.mark.parametrize(
    ("members", "y", "text"),
    [
        ([], [0, 1], "members is empty"),
        ([[[0.5, 0.5]], [[0.2, 0.3, 0.5]]], [0], r"members\[1\] has shape \(1, 3\) and members\[0\] \(1, 2\)"),
        ([[[0.5, 0.5]] * 2], [0, 1, 1], "members has 2 rows and y has 3"),
        ([[[0.5, 0.5]] * 2], [1, 1], "y holds one class only"),
        ([[[0.5, 0.6]] * 2], [0, 1], r"members\[0\] row 0: the 2 probabilities sum to 1.1"),
        ([[0.5, 0.6]], [0, 1], r"members\[0\] has shape \(2,\)"),
    ],
)
def test_refuses(members: list[object], y: list[int], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        fit_meta_learner(members, y)


def test_refuses_other_members_than_it_was_fitted_to() -> None:
    y, members = models(100, 8)
    learner = fit_meta_learner(list(members.values()), y, classes=CLASSES)
    with pytest.raises(CalibrantError, match="members holds 1 models of 3 classes"):
        learner.predict_proba([members["a"]])
