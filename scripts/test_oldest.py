"""Run the tests on the oldest versions that pyproject.toml allows, in an environment of their own: `make test-oldest`.

Further arguments go to pytest. Without any, the first case of each test runs; the tests of the guide and of the site
are left out, since they show what the newest packages print and draw.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from oldest import pins

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-oldest"
LEFT_OUT = ("tests/docs", "tests/test_guide.py", "tests/test_readme.py", "tests/test_pictures.py")


def main(arguments: list[str]) -> int:
    """Make the environment where it is missing or of other versions, and run pytest in it."""
    constraints = "\n".join(pins()) + "\n"
    made_with = ENVIRONMENT / "constraints.txt"
    python = ENVIRONMENT / "bin" / "python"
    if not made_with.exists() or made_with.read_text("utf-8") != constraints:
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        constraints_file = ENVIRONMENT / "asked-for.txt"
        constraints_file.write_text(constraints, encoding="utf-8")
        subprocess.run(
            [*pip, "--constraint", str(constraints_file), "--group", "test", "--editable", "."], check=True, cwd=ROOT
        )
        constraints_file.rename(made_with)
    chosen = arguments or ["-n", "auto", "--fast", *(f"--ignore={path}" for path in LEFT_OUT)]
    # old packages use what newer ones beside them say goodbye to, and leave sockets open
    ignored = ("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    command = [str(python), "-m", "pytest", *(word for each in ignored for word in ("-W", each)), *chosen]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
