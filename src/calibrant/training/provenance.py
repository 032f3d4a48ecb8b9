"""Where a run comes from: versions of what took part, the commit of the code around it, the hash of its bars."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from calibrant._version import __version__
from calibrant.training.bars import Bars
from calibrant.training.dataset import Dataset

_LIBRARIES = {
    "xgboost": ("xgboost", "xgboost-cpu"),
    "lightgbm": ("lightgbm",),
    "catboost": ("catboost",),
    "hist_gradient_boosting": ("scikit-learn",),
    "logistic": ("scikit-learn",),
}


def provenance(bars: Bars, data: Dataset, model: str) -> dict[str, Any]:
    """Return what config.toml says of a run beside its settings."""
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        **_library(_LIBRARIES.get(model, ("scikit-learn",))),
        "git_commit": git_commit(),
        "source": bars.source,
        "data_sha256": bars.sha256(),
        "n_bars": bars.n_rows,
        "symbols": list(bars.symbols),
        "bars_from": str(bars.time.min()),
        "bars_to": str(bars.time.max()),
        "n_gaps": len(bars.gaps),
        "features": list(data.names),
        "classes": data.classes.tolist(),
    }


def git_commit() -> str:
    """Return the commit of the working folder, with "-dirty" where files differ from it; empty outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    found = subprocess.run(  # noqa: S603 - a fixed command
        [git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def _library(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the version of the first of the packages that is installed."""
    for package in packages:
        try:
            return {package: version(package)}
        except PackageNotFoundError:
            continue
    return {}
