"""Install the wheel of a folder into an empty environment, and run the README from it.

python scripts/check_wheel.py dist
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What the README's Python uses that calibrant doesn't bring.
USED = ["polars"]
RUN = """
import calibrant, page_runner
assert "site-packages" in calibrant.__file__, calibrant.__file__
page_runner.run((page_runner.ROOT / "README.md").read_text("utf-8"))
print(f"README.md runs with calibrant {calibrant.__version__} from the wheel")
"""


def main(folder: str) -> None:
    """Check the one wheel in the folder."""
    (wheel,) = Path(folder).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as made:
        environment, elsewhere = Path(made) / "environment", Path(made) / "elsewhere"
        elsewhere.mkdir()
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(wheel), *USED], check=True)
        subprocess.run(
            [str(python), "-W", "error", "-c", RUN],
            check=True,
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "MPLBACKEND": "Agg"},
        )


if __name__ == "__main__":
    main(sys.argv[1])
