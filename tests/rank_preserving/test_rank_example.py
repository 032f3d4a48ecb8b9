"""The example runs, and what it says is so."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rank_preserving_shares.py"


@pytest.mark.slow
def test_example_prints_what_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    text = capsys.readouterr().out
    figures = r"^(\w+) +\S+ +\S+ +\S+ +\S+ +(\d\.\d{4})$"
    losses = {name: float(loss) for name, loss in re.findall(figures, text.split("overtaken")[1], re.M)}
    assert min(losses, key=lambda name: losses[name]) in ("raking", "prior_shift")
    assert losses["prior_shift"] < losses["rank_preserving"] < losses["none"]
    assert re.search(r"^rank_preserving +0\.0000 +0\.0000 ", text, re.M)
    kept = r"^(?:high|low|middle) +(?:\d\.\d{4} +){4}(\d\.\d{4}) "
    spread = [[float(share) for share in re.findall(kept, part, re.M)] for part in text.split("When not to:")]
    assert max(spread[1]) < 0.2 < min(spread[0][-3:])
