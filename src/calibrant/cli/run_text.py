"""What training runs found, as text: `train_text` of one model, `stack_text` of several and their stack."""

from __future__ import annotations

from typing import Any

from calibrant.cli.common import loss_text, prose, table
from calibrant.cli.money_text import money_text, thresholds_text
from calibrant.cli.walk_forward import windows_lines
from calibrant.phrases import bracketed, capitalised, count, figure
from calibrant.training import AFTER, BEFORE, CLASS_FREQUENCIES, NO_SKILL, Run, has_skill, is_no_worse

_MEASURES = ("log_loss", "brier", "ece", "accuracy")


def train_text(run: Run) -> str:
    """Return what a run found, beside the forecast that knows nothing but class frequencies."""
    metrics = run.metrics
    decision = metrics["calibration"]["decision"]
    lines = [measured_part(metrics["test"]), scores_table(metrics), *windows_lines(run)]
    lines.append(prose(capitalised(decision)))
    lines += gate_lines(metrics)
    for name, target in metrics["targets"].items():
        reached = "met" if target["met"] else "not met"
        least = target.get("least_at_this_accuracy")
        why = (
            ""
            if least is None or target["met"]
            else f": of a calibrated forecast of this accuracy {least:.4f} at least is expected"
        )
        what = f"{name}, sum over classes," if name == "brier" else name
        lines.append(prose(f"{what} target {target['target']}: {reached}{why}"))
    if "money" in metrics:
        lines += ["", money_text(metrics)]
    return "\n".join([*lines, *last_lines(run)])


def measured_part(test: dict[str, Any]) -> str:
    """Return which rows were measured, and what they are worth."""
    worth = f"worth about {test['n_independent']:,.0f} independent labels"
    return prose(f"Test part: {count(test['n_rows'], 'row')} from {test['from'][:16]} to {test['to'][:16]}, {worth}")


def last_lines(run: Run) -> list[str]:
    """Return the warnings of a run, where it is, and how to look at it."""
    warnings = [prose(f"Warning: {text}") for text in run.metrics["warnings"]]
    return [*warnings, f"\nSaved {run.path}", f"Next:  calibrant runs show {run.run_id}"]


def gate_lines(metrics: dict[str, Any]) -> list[str]:
    """Return a line for each gate, whether there is skill, and where calibration that held before was lost."""
    gates = metrics["gates"]
    lines = [f"{'pass' if gate['passed'] else 'FAIL'}  {name.replace('_', ' ')}" for name, gate in gates.items()]
    return [*lines, *map(prose, [*skill_lines(metrics["test"]), *_drift_lines(metrics)])]


def _drift_lines(metrics: dict[str, Any]) -> list[str]:
    """Say where the calibrated ECE was within its noise band on unseen rows before the test part, and is not in it."""
    earlier = metrics.get("validation", metrics.get("out_of_fold"))
    if earlier is None:  # of a refresh, whose later rows follow at once
        return []
    before, now = (found["forecasts"][AFTER]["ece"] for found in (earlier, metrics["test"]))
    if before["value"] > before["noise_band"] or now["value"] <= now["noise_band"]:
        return []
    held = f"ECE {figure(before['value'])}, by chance up to {figure(before['noise_band'])}"
    refit = "Refit more often" if "walk_forward" in metrics else "--walk-forward shows what refits give"
    said = (
        f"Calibration held on earlier rows that it was not fitted to ({held}), and not on the test part: this is the "
        f"chance of 5 in 100, or times have changed. {refit}; in production, calibrant refresh does it as labels come."
    )
    return [said]


def skill_lines(test: dict[str, Any]) -> list[str]:
    """Say where no skill over class frequencies is shown: of the raw model, of the calibrated one, or of both."""
    raw, calibrated = (has_skill(test, name) for name in (BEFORE, AFTER))
    if raw and calibrated:
        return []
    if raw:
        skill, kept = (test["forecasts"][name]["log_loss"]["skill"] for name in (BEFORE, AFTER))
        what = f"On the test part the raw model has a skill of {figure(skill)} in log loss"
        is_constant = test.get("is_constant", {}).get(AFTER, False)
        if not is_constant and is_no_worse(test["differences"][f"log_loss_{AFTER}_minus_{BEFORE}"]):
            could = "which chance alone could give: calibration did no harm that shows, and more rows would tell"
            return [f"{what}, and calibrated one of {figure(kept)}, {could}."]
        lost = "its log loss is infinite" if test["forecasts"][AFTER]["log_loss"]["value"] is None else "it is lost"
        return [f"{what}; calibrated, {lost}: this calibrator does harm. Choose another, or --calibrate if_better."]
    if calibrated:
        return ["On the test part the raw model shows no skill: act on its calibrated probabilities."]
    gap = test["differences"][f"log_loss_{AFTER}_minus_{NO_SKILL}"]
    found = "" if gap.get("low") is None else f" (log loss less theirs: {bracketed(gap['low'], gap['high'])})"
    return [f"No demonstrable skill over class frequencies on the test part{found}: nothing to act on."]


def scores_table(metrics: dict[str, Any]) -> str:
    """Return the figures of the test part: raw, calibrated, and of the class frequencies, and skill over these.

    The ECE has no skill: class frequencies have hardly any ECE. What calibrated probabilities would have by chance
    stands in its place.
    """
    forecasts = metrics["test"]["forecasts"]
    rows = []
    for measure in _MEASURES:
        row = [measure, *(loss_text(forecasts[name][measure]["value"]) for name in (BEFORE, AFTER))]
        low, high = forecasts[AFTER][measure]["low"], forecasts[AFTER][measure]["high"]
        row.append("" if low is None or high is None else bracketed(low, high))
        row.append(loss_text(forecasts[NO_SKILL][measure]["value"]))
        for name in (BEFORE, AFTER):
            skill = forecasts[name][measure].get("skill")
            band = forecasts[name][measure].get("noise_band")
            row.append(f"chance {figure(band)}" if band is not None else "" if skill is None else f"{skill:+z.4f}")
        rows.append(row)
    level = f"{100 * metrics['test']['interval']['level']:g}% interval"
    return table(["", "raw", "calibrated", level, "no skill", "skill raw", "skill calibrated"], rows)


def stack_text(run: Run) -> str:
    """Return what a run found: each way to use the models, what calibration changed, and what acting on it gives."""
    metrics = run.metrics
    parts = [
        measured_part(metrics["test"]),
        "Plain average of the models:",
        scores_table(metrics),
        "",
        stacking_table(metrics["stacking"]),
        differences_table(metrics["stacking"]),
        "",
        *metrics["calibration"]["decision"].split("; "),
        "",
        thresholds_text(metrics["money"]),
        money_text(metrics),
        "",
    ]
    return "\n".join([*parts, *gate_lines(metrics), *last_lines(run)])


def stacking_table(stacking: dict[str, Any]) -> str:
    """Return the figures of each way on the test part."""
    rows = []
    base = next(method for method in stacking["methods"] if method["name"] == CLASS_FREQUENCIES)
    for method in stacking["methods"]:
        gap, log_loss = method["skill"], method["log_loss"]
        row = [method["name"]]
        for name in ("log_loss", "brier"):
            skill = None if method[name] is None or not base[name] else 1.0 - method[name] / base[name]
            row += [loss_text(method[name]), "" if skill is None else f"{skill:+z.4f}"]
        is_infinite = log_loss is None or gap["value"] is None  # its own, or that of class frequencies
        ends = ["", ""] if is_infinite else [f"{gap['value']:+z.4f}", bracketed(gap["low"], gap["high"])]
        rows.append([*row, "" if method["ece"] is None else figure(method["ece"]), *ends])
    level = f"{100 * stacking['methods'][0]['skill']['level']:g}% interval"
    return table(["", "log loss", "skill", "Brier", "skill", "ECE", "log loss less no skill", level], rows)


def differences_table(stacking: dict[str, Any]) -> str:
    """Return by how much calibrated inputs change the log loss; nothing, where that is infinite of each."""
    if not stacking["differences"]:
        return ""
    rows = [
        [name, f"{found['value']:+z.4f}", bracketed(found["low"], found["high"])]
        for name, found in stacking["differences"].items()
    ]
    level = f"{100 * stacking['methods'][0]['skill']['level']:g}% interval"
    return "\n" + table(["log loss, calibrated less raw", "", level], rows)
