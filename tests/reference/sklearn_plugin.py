"""A pytest plugin that lets scikit-learn's own tests run on calibrant's names.

Load it with `-p` on the command line, and so before any test module imports the names that it replaces.
"""

from __future__ import annotations

import json

import pytest

#: What a user of scikit-learn's calibration module imports from it.
NAMES = ("CalibratedClassifierCV", "CalibrationDisplay", "calibration_curve")
#: Starts the line of the report that says, for each test module, whose names it tests.
OWNERS = "owners of the tested names: "


def pytest_configure() -> None:
    """Put our names in the place of scikit-learn's."""
    import sklearn.calibration

    import calibrant as cb

    for name in NAMES:
        setattr(sklearn.calibration, name, getattr(cb, name))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Report whose the replaced names are, among those that a collected module holds or is given to test."""
    owners: dict[str, dict[str, str]] = {}
    for item in session.items:
        if isinstance(item, pytest.Function):
            found = owners.setdefault(item.module.__name__, {})
            given = item.callspec.params.values() if hasattr(item, "callspec") else ()
            found |= {name: vars(item.module)[name].__module__ for name in NAMES if name in vars(item.module)}
            found |= {type(value).__name__: type(value).__module__ for value in given if type(value).__name__ in NAMES}
    print(f"\n{OWNERS}{json.dumps(owners)}")
