"""Commands of strangers' input."""

from __future__ import annotations

from click.testing import CliRunner, Result

from calibrant.cli import main


def run(*words: str) -> Result:
    """Run a command: whatever it is given, it ends with 0, 1 or 2, and says no more to a terminal than text."""
    result = CliRunner().invoke(main, words)
    if result.exit_code not in (0, 1, 2) or "Traceback" in result.output:
        raise AssertionError(f"exit code {result.exit_code} of {words}: {result.output[-300:]}") from result.exception
    assert "\x1b[2J" not in result.output
    return result
