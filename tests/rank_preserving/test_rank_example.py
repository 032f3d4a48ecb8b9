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
    losses = {
        name: float(loss) for name, loss in re.findall(r"^(\w+) .* (\d\.\d{4})  \d\.\d{4}  +\d+\.\d{3}$", text, re.M)
    }
    assert min(losses, key=lambda name: losses[name]) in ("raking", "prior_shift")
    assert losses["prior_shift"] < losses["rank_preserving"] < losses["none"]
    assert re.search(r"^rank_preserving .* 0\.0e\+00 +0\.0% ", text, re.M)
    spread = [[int(share) for share in re.findall(r" (\d+)% ", part)] for part in text.split("When not to:")]
    assert max(spread[1]) < 20 < min(spread[0][-3:])
