"""Load and apply saved calibrators where NumPy is all that is installed: in a small container, or beside a server.

    pip install numpy
    pip install --no-deps calibrant

Whatever `calibrant.load` reads is read here, by the same code: with the same checks, and applied with the same bits.
Without numba, NumPy takes the place of compiled loops, and for `coupling="likelihood"` a loop in Python over the rows.
What fits, measures, reads tables and draws needs the other packages.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> Any:
    """Read a saved calibrator: one of two classes, of several, a chain, one by group or segments, or one of numbers.

    Parameters
    ----------
    path : path-like
        A ``.json`` or ``.pkl`` file. Loading runs no code from it.

    Returns
    -------
    calibrator : object
        As `calibrant.load` gives it: ``calibrator.predict_proba(scores)`` takes arrays and lists, and so does
        ``predict(predictions)`` of a calibrator of numbers.

    Raises
    ------
    DocumentError
        If the file is broken, of a later version, or holds what doesn't go together.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibrant as cb
    >>> from calibrant.runtime import load
    >>> calibrator = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "calibrator.json")
    >>> cb.save(calibrator, path)
    >>> load(path).predict_proba([0.25])
    array([0.25])
    """
    from calibrant import persistence

    return persistence.load(path)
