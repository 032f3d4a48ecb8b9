"""Run benchmarks by name, or all of them: `python -m benchmarks [name ...]`.

`calarena` needs data that are not ours: `python -m benchmarks calarena --data FOLDER [--only BENCHMARK]`.
`tables` trains on data that packages ship: `python -m benchmarks tables --data FOLDER [--methods A,B] [--half A]`.
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
    cold,
    coverage,
    coverage_choice,
    decisions,
    evaluate,
    forecast_quality,
    forecasts,
    imports,
    isotonic,
    metrics,
    mimic,
    monitor,
    multiclass,
    online,
    quality,
    rank_preserving,
    scale,
    segment_tests,
    segments,
    small,
    tables,
    training,
    training_gates,
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
    "cold": cold.run,
    "coverage": coverage.run,
    "coverage_choice": coverage_choice.run,
    "decisions": decisions.run,
    "evaluate": evaluate.run,
    "forecast_quality": forecast_quality.run,
    "forecasts": forecasts.run,
    "import": imports.run,
    "isotonic": isotonic.run,
    "metrics": metrics.run,
    "mimic": mimic.run,
    "monitor": monitor.run,
    "multiclass": multiclass.run,
    "online": online.run,
    "quality": quality.run,
    "rank_preserving": rank_preserving.run,
    "scale": scale.run,
    "segments": segments.run,
    "segment_tests": segment_tests.run,
    "small": small.run,
    "training": training.run,
    "training_gates": training_gates.run,
    "verdict": verdict.run,
}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, print their tables and write them; return 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}, calarena, tables")
    parser.add_argument("--data", metavar="FOLDER", help="calarena, tables: the folder of the scores")
    parser.add_argument("--only", metavar="BENCHMARK", help="calarena: such as cv-binary; tables: binary or multiclass")
    parser.add_argument(
        "--methods", metavar="A,B", help='tables: measure these anew, or "ours"; take the others as kept'
    )
    parser.add_argument("--half", choices=tables.HALVES, help="tables: only this half of the tables")
    parser.add_argument("--all-models", action="store_true", help="tables: run every model at every size")
    options = parser.parse_args(arguments)
    known = {
        **BENCHMARKS,
        "calarena": lambda: calarena.run(options.data, options.only),
        "tables": lambda: tables.run(
            options.data, options.only, methods=options.methods, half=options.half, all_models=options.all_models
        ),
    }
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
