"""Matrix scaling."""

from __future__ import annotations

from calibrant.calibrators.base import named
from calibrant.calibrators.softmax_family import SoftmaxCalibrator


@named("matrix")
class MatrixScalingCalibrator(SoftmaxCalibrator):
    """Matrix scaling: softmax(W z + b) of logits z, penalised for its distance from temperature scaling.

    Parameters
    ----------
    penalty : float or "evidence"
        Strength s of the penalty. The log-likelihood of all rows is lowered by s / 2 times
        K |b|^2 + 3 K |diag D|^2 + 3 K^1.5 |rest of D|^2 for K classes and W = (I + D) / T, T being the
        temperature. By default it is chosen by the evidence of the rows; with more than 25 classes it is 2.
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as logarithms, zeros clipped by `calibrant.numerics.clip_from_data`.

    Attributes
    ----------
    penalty_ : float
        The strength that was used; passing it as `penalty` gives the same map.

    Notes
    -----
    Temperature scaling comes first. Logits are then in its units and centred in each row, so that a penalty means
    the same for every model and a shift of a row's logits changes nothing. The penalised problem is strictly convex
    and its optimum finite, also where the scores separate the classes. Without a penalty, K (K + 1) parameters fit a
    few hundred rows far too closely.

    The default is not cross-validated: the marginal likelihood needs no folds, so that neither the order of rows nor a
    seed matters, and a weight of two is two rows. Two classes get a slope and an intercept on the logit.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), *On calibration of modern neural networks*, ICML, section 4.2.
    Berta, Holzmüller, Jordan and Bach (2025), *Structured matrix scaling for multi-class calibration*.
    MacKay (1992), *The evidence framework applied to classification networks*, Neural Computation 4.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    >>> calibrator = cb.MatrixScalingCalibrator(penalty=2.0).fit(P, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba([[0.6, 0.3, 0.1]]).round(3)
    array([[0.865, 0.133, 0.002]])
    """
