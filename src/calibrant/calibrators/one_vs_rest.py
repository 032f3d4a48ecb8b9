"""One-vs-rest calibration of a matrix of scores."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from calibrant.calibrators._wrapping import WrappingCalibrator
from calibrant.calibrators.base import BinaryCalibrator, check_columns, fit_one_vs_rest, named
from calibrant.document_field import DocumentField
from calibrant.maps import COUPLINGS, Coupling, Map, OneVsRestMap
from calibrant.rows import Rows
from calibrant.validation import check_choice


@named
class OneVsRestCalibrator(WrappingCalibrator):
    """Calibrate each column against its own class, then couple each row into one distribution.

    Parameters
    ----------
    calibrator : str or BinaryCalibrator
        The calibrator of the columns, by name or as an instance, which is left unfitted.
    coupling : {"normalise", "likelihood"}
        How the probabilities of a row, which sum to anything, become a distribution. "normalise" divides them by
        their sum, as scikit-learn does. "likelihood" takes the distribution p that minimises the sum of the binary
        Kullback-Leibler divergences from the column's probability r_k to p_k: what a row has too much or too little
        is taken from the classes in about the proportion of r_k (1 - r_k), and hardly from those that are sure.

    Notes
    -----
    "likelihood" lowers the held-out log loss of steps most. Means of "normalise" and of "likelihood" over 16 score
    sets of 3 to 100 classes (6 at 3,000 rows), 4 draws each (2 for 100 classes), zeros counted as 1e-15:

    =================  ==========  ==========  ==========
    calibration rows          300       1,000       3,000
    =================  ==========  ==========  ==========
    isotonic           1.110 .998   .710 .673   .901 .895
    isotonic, bounded   .477 .467   .434 .427   .700 .698
    beta                .476 .473   .430 .421   .692 .686
    spline              .449 .446   .417 .413   .679 .676
    Venn-Abers          .494 .482   .435 .429   .693 .690
    =================  ==========  ==========  ==========

    It was the lower of the two in 89, 87, 71, 74 and 95% of the pairs of a set and a size. With 100 classes beta
    (+.005) and spline (+.004) lost by it. The Brier score falls as well, by about 1% for isotonic. The gain lies
    where most rows are sure of their class; where few are, as with LeNet-5 on CIFAR-10 and in simulation, the log
    loss is up to 0.4% higher, which is why "normalise" is the default.

    A row in which every class gets probability zero becomes uniform: all that is known is that no class was ever
    seen at such scores. (scikit-learn decides the same.) Beside other classes, "normalise" leaves a zero alone;
    "likelihood" does so unless the others together fall far short of one (their square roots sum to less than one).
    A class without rows keeps its probabilities before rows are coupled, with a DataWarning. Two columns are
    calibrated as two separate problems; one column is the binary problem itself.

    References
    ----------
    Zadrozny and Elkan (2002), *Transforming classifier scores into accurate multiclass probability estimates*, KDD.
    Hastie and Tibshirani (1998), *Classification by pairwise coupling*, Annals of Statistics 26, for the criterion of
    "likelihood"; Huang, Weng and Lin (2006), *Generalized Bradley-Terry models and multi-class probability
    estimates*, JMLR 7, beyond pairs.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    >>> calibrator = cb.OneVsRestCalibrator("sigmoid", coupling="likelihood").fit(P, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba(P).sum(axis=1).round(12)
    array([1., 1., 1., 1.])
    """

    name: ClassVar[str] = "one_vs_rest"

    def __init__(self, calibrator: str | BinaryCalibrator = "isotonic", *, coupling: Coupling = "normalise") -> None:
        self.calibrator = calibrator
        self.coupling: Coupling = coupling

    def check_params(self) -> None:
        """Raise if an argument can't be used."""
        check_choice("coupling", self.coupling, COUPLINGS)
        super().check_params()

    def map_of(self, rows: Rows) -> Map:
        """Fit the map of one score, or one for each class."""
        inner = self.inner()
        if rows.is_binary:
            return inner.map_of(rows)
        return replace(fit_one_vs_rest(inner, rows), coupling=self.coupling)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        """Refuse a map that this calibrator can't have produced for so many classes."""
        if not isinstance(fitted, OneVsRestMap):
            super().check_map(fitted, n_classes, field)
            return
        check_columns(self.inner(), fitted, n_classes, field)
        if fitted.coupling != self.coupling:
            field.member("coupling").refuse(f"does not go with {self!r}, which couples rows by {self.coupling!r}")
