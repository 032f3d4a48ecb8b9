"""calibrant warm-up: compile the loops of the usual work, and keep their machine code for later processes."""

from __future__ import annotations

import warnings

from calibrant.cli.common import echo, new_command, progress
from calibrant.errors import CalibrantWarning
from calibrant.phrases import count, listed

#: Rows to fit to; from some ten thousand on, sorting and sums go by loops of their own.
_FEW, _MANY = 2_000, 100_000


@new_command("warm-up", "calibrant warm-up", "NUMBA_CACHE_DIR=/opt/numba calibrant warm-up")
def command() -> None:
    """Compile the loops of fits, of figures and of forecasts, and keep their machine code.

    For the image of a container, in which otherwise each start compiles anew: run it once while the image is built,
    by the user that will run it. Machine code lies beside the package where that can be written, else in the user's
    cache folder, or where NUMBA_CACHE_DIR says; it is for the kind of processor on which it was made. Where none of
    these can be written, all works the same, but each process compiles what it needs.
    """
    from calibrant import kernels

    kernels.compile_at_once()
    with warnings.catch_warnings(), progress("Compiling"):
        warnings.simplefilter("ignore", CalibrantWarning)  # of rows that are nobody's
        _fit_calibrators()
        _fit_recalibrators()
    n, folders = kernels.kept_loops()
    where = (
        f"Their machine code is kept in {listed(folders)}" if folders else "No folder to keep them in can be written"
    )
    echo(f"Compiled {count(n, 'loop')}. {where}.")


def _fit_calibrators() -> None:
    """Fit, apply and measure by every method, on two classes and on three."""
    import numpy as np

    from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, make_calibrator
    from calibrant.metrics import evaluate, reliability_curve

    rng = np.random.default_rng(0)
    p = rng.random(_MANY)
    y = rng.random(_MANY) < p
    of_three = rng.dirichlet(np.ones(3), _FEW)
    label = (of_three.cumsum(axis=1) < rng.random((_FEW, 1))).sum(axis=1)
    for name in CALIBRATORS:
        make_calibrator(name).fit(of_three, label).predict_proba(of_three)
        for n in (_FEW, _MANY) if name in BINARY_CALIBRATORS else ():
            make_calibrator(name).fit(p[:n], y[:n]).predict_proba(p)
    for n in (_FEW, _MANY):
        evaluate(y[:n], p[:n])
        evaluate(y[:n], p[:n], sample_weight=rng.uniform(0.5, 2.0, n))
        reliability_curve(y[:n], p[:n])
    evaluate(label, of_three)


def _fit_recalibrators() -> None:
    """Recalibrate forecasts by every method, and measure them."""
    import numpy as np

    from calibrant.forecasts import (
        RECALIBRATORS,
        GaussianForecast,
        QuantileForecast,
        SampleForecast,
        evaluate,
    )

    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=_FEW), rng.uniform(0.5, 1.5, _FEW)
    outcome = mean + 1.3 * std * rng.normal(size=_FEW)
    normal = GaussianForecast(mean, std)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    samples = np.sort(mean[:, None] + std[:, None] * rng.normal(size=(_FEW, 20)), axis=1)
    for forecast in (normal, QuantileForecast(levels, np.quantile(samples, levels, axis=1).T), SampleForecast(samples)):
        evaluate(forecast, outcome)
    for kind in RECALIBRATORS.values():
        evaluate(kind().fit(normal, outcome).transform(normal), outcome)
