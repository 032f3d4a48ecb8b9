"""From an ordinary model to probabilities that mean what they say: calibrant's commands on real scores.

Trains a random forest to tell whether a handwritten digit is 5 or more, writes the scores of held-out rows to
Parquet, runs calibrant on them (evaluate, fit, apply, report), and draws both reliability diagrams.

    python examples/demo.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import calibrant as cb

SHOWN = {"brier": "Brier score", "log_loss": "log loss", "ece_debiased": "ECE, debiased", "auc": "AUC"}


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        name: str(folder / name)
        for name in (
            "calibration.parquet",
            "test.parquet",
            "calibrator.json",
            "applied.parquet",
            "report.html",
            "before-and-after.png",
        )
    }
    calibration, test, calibrator, applied, report, picture = files.values()

    write_scores(calibration, test)
    calibrant("evaluate", test, "--label", "y", "--score", "p", "--evaluated-on", "test rows")
    calibrant("fit", calibration, "--label", "y", "--score", "p", "--method", "sigmoid", "-o", calibrator)
    calibrant("apply", calibrator, test, "-o", applied)
    calibrant("evaluate", applied, "--label", "y", "--score", "p_calibrated", "--evaluated-on", "test rows")
    calibrant("report", applied, "--label", "y", "--score", "p_calibrated", "-o", report)

    draw(applied, picture)
    print_comparison(measure(test, "p"), measure(applied, "p_calibrated"))
    print("\nWritten:")
    for path in files.values():
        print(f"  {path}")
    print("\nNext, look at the page, at the calibrator, or at your own scores:")
    print(f"  {command_line('inspect', calibrator)}")
    print(f"  {command_line('evaluate', test, '--score', 'p', '--max', 'ece_debiased=0.02')}")
    print("  calibrant evaluate YOUR_FILE --label LABEL_COLUMN --score SCORE_COLUMN")


def write_scores(calibration: str, test: str) -> None:
    """Train the forest on one part of the digits, and write its scores of the two other parts."""
    X, digit = load_digits(return_X_y=True)
    row = range(len(digit))
    train, rest = train_test_split(list(row), train_size=0.3, random_state=0, stratify=digit)
    fit, held_out = train_test_split(rest, train_size=0.5, random_state=0, stratify=digit[rest])
    y = (digit >= 5).astype(int)
    forest = RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=0, n_jobs=1)
    forest.fit(X[train], y[train])
    print(f"A random forest was trained on {len(train):,} digits: is it 5 or more? Its scores of the other digits:")
    for path, part in ((calibration, fit), (test, held_out)):
        p = forest.predict_proba(X[part])[:, 1]
        pq.write_table(pa.table({"row": part, "digit": digit[part], "y": y[part], "p": p}), path)
        print(f"  {len(part):,} rows in {path}")


def calibrant(*arguments: str) -> None:
    """Show a command and run it."""
    print(f"\n$ {command_line(*arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "calibrant", *arguments], check=True, env=environment())


def measure(path: str, score: str) -> dict[str, dict[str, float]]:
    """Return the figures of `calibrant evaluate --json` by name."""
    command = [sys.executable, "-m", "calibrant", "evaluate", path, "--label", "y", "--score", score, "--json"]
    done = subprocess.run(command, check=True, env=environment(), capture_output=True, text=True)
    scores: dict[str, dict[str, float]] = json.loads(done.stdout)["scores"]
    return scores


def draw(applied: str, picture: str) -> None:
    """Draw the reliability diagram of the test rows as the forest scored them, and calibrated."""
    rows = pq.read_table(applied)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
    for ax, column, title in zip(axes, ("p", "p_calibrated"), ("As the forest says it", "Calibrated"), strict=True):
        cb.ReliabilityDisplay.from_predictions(rows["y"], rows[column], ax=ax)
        ax.set_title(title, loc="left")
    figure.savefig(picture, dpi=80)


def command_line(*arguments: str) -> str:
    """Return what to type in a shell."""
    return shlex.join(["calibrant", *arguments])


def environment() -> dict[str, str]:
    """Return this process's environment, with text in UTF-8 whatever the machine's language."""
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}


def print_comparison(before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]) -> None:
    """Print figures before and after, each with its interval."""
    level = f"{100 * before['brier']['level']:g}% interval"
    print("\nOn test rows that neither the forest nor the calibrator has seen:\n")
    print(f"{'':15}{'before':>8}  {level:18}{'after':>8}  {level}")
    for name, title in SHOWN.items():
        line = f"{title:15}"
        for score in (before[name], after[name]):
            interval = f"[{score['low']:.4f}, {score['high']:.4f}]"
            line += f"{score['value']:8.4f}  {interval:18}"
        print(line.rstrip())


if __name__ == "__main__":
    main()
