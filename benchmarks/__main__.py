"""Run benchmarks by name, or all of them: `python -m benchmarks [name ...]`.

`calarena` needs data that are not ours: `python -m benchmarks calarena --data FOLDER [--only BENCHMARK]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Protocol

from benchmarks import (
    auto,
    calarena,
    calibrators,
    classifier,
    coverage,
    coverage_choice,
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
    "auto": auto.run,
    "calibrators": calibrators.run,
    "classifier": classifier.run,
    "coverage": coverage.run,
    "coverage_choice": coverage_choice.run,
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


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, print their tables and write them; return 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}, calarena")
    parser.add_argument("--data", metavar="FOLDER", help="calarena: the folder of its files")
    parser.add_argument("--only", metavar="BENCHMARK", help="calarena: one of its benchmarks, such as cv-binary")
    options = parser.parse_args(arguments)
    known = {**BENCHMARKS, "calarena": lambda: calarena.run(options.data, options.only)}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}. Choose from: {', '.join(known)}.", file=sys.stderr)
        return 2
    for name in options.names or BENCHMARKS:
        print(known[name]().write(name))
        print(f"\nwritten to {RESULTS / name}.txt and .json\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
