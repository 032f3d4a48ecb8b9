"""What can be exported: whatever is fitted and has a formula."""

from __future__ import annotations

from calibrant.document_field import show
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.fitted import Fitted


def check_exportable(calibrator: object) -> Fitted:
    """Return a fitted object that has a formula, or say why there is none."""
    if not isinstance(calibrator, Fitted):
        raise InvalidTypeError(
            f"can't export {show(calibrator)} of type {type(calibrator).__name__}. Pass a fitted calibrator."
        )
    calibrator.check_fitted()
    if calibrator.export_problem:
        raise InvalidInputError(f"a {type(calibrator).__name__} {calibrator.export_problem}")
    return calibrator
