"""Print the oldest version that pyproject.toml allows of each package: what `make test-oldest` installs.

python scripts/oldest.py > constraints.txt
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
#: A requirement: its name, its extras if any, its lower bound, and the platforms that it is for.
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)(?:;\s*(.*))?$")


def pins(pyproject: Path = PYPROJECT) -> list[str]:
    """Return a pin for each package that the library or one of its extras requires."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    found: dict[str, str] = {}
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    for requirement in [*project["dependencies"], *extras]:
        name, version, platform = _parsed(requirement)
        pin = f"{name}=={version}" + (f"; {platform}" if platform else "")
        if _numbers(version) > _numbers(found.get(name, "").partition("==")[2].partition(";")[0]):
            found[name] = pin  # extras may ask for more than others do
    return sorted(found.values())


def _parsed(requirement: str) -> tuple[str, str, str]:
    parsed = _REQUIREMENT.match(requirement)
    if parsed is None:
        raise ValueError(f"pyproject.toml: {requirement!r} has no lower bound")
    return parsed[1], parsed[2], parsed[3] or ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, version.strip().split("."))))


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins()) + "\n")
