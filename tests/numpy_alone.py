"""Load, apply and refuse documents where nothing but NumPy can be imported; run in a process of its own.

    python numpy_alone.py DOCUMENTS ANSWERS

DOCUMENTS holds, by name, the text of a document, its scores, and groups or features by argument. ANSWERS gets what
each gave, or its refusal.
"""

from __future__ import annotations

import importlib.abc
import json
import sys
from pathlib import Path
from typing import Any


class NumpyAlone(importlib.abc.MetaPathFinder):
    """Finds no package but NumPy and calibrant, beside what comes with Python."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse what isn't there."""
        if name.split(".")[0] not in {"numpy", "calibrant", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(documents: str, answers: str) -> None:
    """Apply each document to its scores."""
    sys.meta_path.insert(0, NumpyAlone())
    import numpy as np

    from calibrant.errors import CalibrantError
    from calibrant.runtime import load

    found: dict[str, Any] = {}
    file = Path(answers).with_name("one.json")
    for name, (text, scores, more) in json.loads(Path(documents).read_text()).items():
        file.write_text(text)
        try:
            made = load(file)
            predict = made.predict if hasattr(made, "predict") else made.predict_proba  # numbers, or probabilities
            found[name] = predict(np.array(scores), **more).tolist()
        except CalibrantError as error:
            found[name] = str(error)
    Path(answers).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
