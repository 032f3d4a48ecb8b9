"""Run benchmarks by name, or all of them: `python -m benchmarks [name ...]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from benchmarks import (
    calibrators,
    classifier,
    coverage,
    evaluate,
    forecast_quality,
    forecasts,
    imports,
    isotonic,
    metrics,
    mimic,
    monitor,
    multiclass,
    quality,
    rank_preserving,
    scale,
    training,
    verdict,
)
from benchmarks._harness import RESULTS


class Written(Protocol):
    """What a benchmark returns."""

    def write(self, name: str) -> str:
        """Write the results and return them as text."""


BENCHMARKS: dict[str, Callable[[], Written]] = {
    "calibrators": calibrators.run,
    "classifier": classifier.run,
    "coverage": coverage.run,
    "evaluate": evaluate.run,
    "forecast_quality": forecast_quality.run,
    "forecasts": forecasts.run,
    "import": imports.run,
    "isotonic": isotonic.run,
    "metrics": metrics.run,
    "mimic": mimic.run,
    "monitor": monitor.run,
    "multiclass": multiclass.run,
    "quality": quality.run,
    "rank_preserving": rank_preserving.run,
    "scale": scale.run,
    "training": training.run,
    "verdict": verdict.run,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, print their tables and write them; return 2 for an unknown name."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}. Choose from: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        print(BENCHMARKS[name]().write(name))
        print(f"\nwritten to {RESULTS / name}.txt and .json\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
