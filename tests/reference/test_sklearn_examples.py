"""What scikit-learn's four examples of calibration ask of its module works with the import changed and nothing else.

Each script takes the steps of an example of its gallery: the same classes, arguments, attributes and drawings, on fewer
rows. It is run twice, with scikit-learn's module and with ours in the place of it.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import CalibrantWarning

THEIRS = "sklearn.calibration"

#: plot_calibration: naive Bayes on three blobs, with weights, by isotonic regression and by the sigmoid.
BLOBS = """
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

X, y = make_blobs(n_samples=5_000, centers=[(-5, -5), (0, 0), (5, 5)], shuffle=False, random_state=42)
y[:2_500], y[2_500:] = 0, 1
weight = np.random.RandomState(42).rand(len(y))
X_train, X_test, y_train, y_test, w_train, w_test = train_test_split(X, y, weight, test_size=0.9, random_state=42)
told["raw"] = GaussianNB().fit(X_train, y_train).predict_proba(X_test)[:, 1]
for method in ("isotonic", "sigmoid"):
    calibrated = CalibratedClassifierCV(GaussianNB(), cv=2, method=method)
    calibrated.fit(X_train, y_train, sample_weight=w_train)
    told[method] = calibrated.predict_proba(X_test)[:, 1]
for name in list(told):
    told["brier " + name] = brier_score_loss(y_test, told[name], sample_weight=w_test)
"""

#: plot_calibration_curve: naive Bayes and a support vector machine, before and after, in one diagram with histograms.
CURVES = """
import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

X, y = make_classification(n_samples=10_000, n_features=20, n_informative=2, n_redundant=10, random_state=42)
X_train, X_test, y_train, y_test = X[:1_000], X[1_000:], y[:1_000], y[1_000:]
fig, (ax, below) = plt.subplots(2)
for base, name in ((GaussianNB(), "bayes"), (LinearSVC(max_iter=10_000, random_state=0), "svc")):
    for method in ("isotonic", "sigmoid"):
        clf = CalibratedClassifierCV(base, cv=2, method=method).fit(X_train, y_train)
        display = CalibrationDisplay.from_estimator(
            clf, X_test, y_test, n_bins=10, name=name, ax=ax, color="C1", marker="s"
        )
        below.hist(display.y_prob, range=(0, 1), bins=10, label=name)
        told[f"{method} {name}"] = display.y_prob
        told[f"{method} {name} labels"] = clf.predict(X_test)
        told[f"{method} {name} curve"] = display.line_.get_xydata()
regression = LogisticRegression().fit(X_train, y_train)
display = CalibrationDisplay.from_estimator(regression, X_test, y_test, n_bins=10, ax=ax)
told["regression curve"] = display.line_.get_xydata()
told["label"] = display.ax_.get_xlabel(), display.ax_.get_ylabel(), display.line_.get_label()
"""

#: plot_calibration_multiclass: a fitted forest of three classes, and the map of each class over the simplex.
SEVERAL = """
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

X, y = make_blobs(n_samples=2_000, centers=3, random_state=42, cluster_std=5.0)
clf = RandomForestClassifier(n_estimators=25, random_state=0).fit(X[:600], y[:600])
calibrated = CalibratedClassifierCV(FrozenEstimator(clf), method="sigmoid").fit(X[600:1_000], y[600:1_000])
told["raw"] = log_loss(y[1_000:], clf.predict_proba(X[1_000:]))
told["sigmoid"] = log_loss(y[1_000:], calibrated.predict_proba(X[1_000:]))
a, b = np.meshgrid(np.linspace(0, 1, 20), np.linspace(0, 1, 20))
grid = np.c_[a.ravel(), b.ravel(), 1 - a.ravel() - b.ravel()]
grid = grid[grid[:, 2] >= 0]
pair = calibrated.calibrated_classifiers_[0]
told["sigmoid grid"] = np.vstack([each.predict(p) for each, p in zip(pair.calibrators, grid.T)]).T
told["sigmoid grid"] /= told["sigmoid grid"].sum(axis=1)[:, None]
told["grid"] = grid
"""

#: plot_compare_calibration: four classifiers as they are, one with probabilities of its own making.
COMPARED = """
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC


class ScaledSVC(LinearSVC):
    def predict_proba(self, X):
        margin = self.decision_function(X)
        share = np.clip((margin + 2.0) / 4.0, 0.0, 1.0)
        return np.c_[1.0 - share, share]


X, y = make_classification(n_samples=10_000, n_features=20, n_informative=2, n_redundant=2, random_state=42)
fig, ax = plt.subplots()
classifiers = (LogisticRegression(), GaussianNB(), ScaledSVC(random_state=0), RandomForestClassifier(random_state=42))
for i, clf in enumerate(classifiers):
    clf.fit(X[:100], y[:100])
    display = CalibrationDisplay.from_estimator(
        clf, X[100:], y[100:], n_bins=10, name=str(i), ax=ax, color=plt.get_cmap("Dark2")(i), marker="^vso"[i]
    )
    told[f"{i} probabilities"] = display.y_prob
    told[f"{i} curve"] = display.line_.get_xydata()
    told[f"{i} line"] = display.line_.get_color(), display.line_.get_marker(), display.line_.get_label()
ax.legend()
told["legend"] = [text.get_text() for text in ax.get_legend().get_texts()]
"""


def run(script: str, module: str, **names: Any) -> dict[str, Any]:
    """Run a script with its import changed, and return what it told."""
    told: dict[str, Any] = {}
    assert script.count(f"from {THEIRS} import") == 1
    mpl.use("Agg")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Since GaussianNB|Liblinear failed|.*sample_weight")
        warnings.filterwarnings("ignore", category=CalibrantWarning)
        code = compile(script.replace(THEIRS, module), "example", "exec")
        exec(code, {"told": told, "__name__": "example", **names})
    return told


def check_same(ours: dict[str, Any], theirs: dict[str, Any], names: list[str]) -> None:
    for name in names:
        if isinstance(ours[name], (list, tuple)):
            assert ours[name] == theirs[name], name
        else:
            np.testing.assert_allclose(ours[name], theirs[name], atol=5e-5, err_msg=name)


@pytest.mark.parametrize(
    "script", [BLOBS, CURVES, SEVERAL, COMPARED], ids=["calibration", "curve", "multiclass", "compare"]
)
def test_an_example_runs_with_the_import_changed(script: str) -> None:
    theirs, ours = run(script, THEIRS), run(script, "calibrant")
    assert list(ours) == list(theirs)
    over_logits = [name for name in ours if "sigmoid" in name and "svc" not in name]
    check_same(ours, theirs, [name for name in ours if name not in over_logits])
    for name in over_logits:  # classifiers that have probabilities only
        assert np.shape(ours[name])[1:] == np.shape(theirs[name])[1:]
        assert np.isfinite(ours[name]).all()


@pytest.mark.parametrize("script", [BLOBS, CURVES, SEVERAL], ids=["calibration", "curve", "multiclass"])
def test_with_the_switch_the_sigmoid_is_theirs_too(script: str) -> None:
    switched = script.replace("method=method", "method=switch.get(method, method)")
    switched = switched.replace('method="sigmoid"', 'method=switch["sigmoid"]')
    assert switched != script
    exact = run(switched, "calibrant", switch={"sigmoid": cb.SigmoidCalibrator(on="probability")})
    names = [name for name in exact if "svc" not in name]  # whose decision function needs no switch
    assert any("sigmoid" in name for name in names)
    check_same(exact, run(script, THEIRS), names)


@pytest.mark.parametrize(("script", "score"), [(BLOBS, "brier {}"), (SEVERAL, "{}")], ids=["calibration", "multiclass"])
def test_the_default_sigmoid_of_the_examples_helps(script: str, score: str) -> None:
    theirs, ours = run(script, THEIRS), run(script, "calibrant")
    assert ours[score.format("sigmoid")] < ours[score.format("raw")]
    assert ours[score.format("sigmoid")] < 1.02 * theirs[score.format("sigmoid")]
