"""What a run's probabilities are worth in money, as text: paths of the capital, thresholds, and promises."""

from __future__ import annotations

from typing import Any

from calibrant.cli.common import prose, table
from calibrant.phrases import bracketed, figure
from calibrant.training import AFTER, BEFORE, NEARLY_ALL


def money_text(metrics: dict[str, Any]) -> str:
    """Return what a capital of 1 became by each way, and what was promised and specified beside what came."""
    money = metrics["money"]
    specified = [*money.get("specified", []), *metrics.get("stacking", {}).get("specified", [])]
    lines = [specified_line(one) for one in specified]
    if "left_out" in money:
        return "\n".join(map(prose, [f"No stakes: {money['left_out']}.", *lines]))
    rule, per = money["rule"], money["per"]
    head = [
        f"Money on the test part: {rule['kind']} stakes, {rule['cost_bp']:g} basis points of what is moved,",
        f"a part of 1/{1.0 / rule['share']:.1f} of the capital each, {100.0 * rule['gross']:g}% of it at most together",
        f"Growth (the logarithm of what the capital grew by) and turnover a {per}:",
    ]
    rows = []
    for name, path in money["paths"].items():
        growth = path["growth"]
        lost = growth["value"] is None
        row = [name, "all lost" if lost else f"{growth['value']:+z.4f}", "" if lost else _ends(growth)]
        row += [figure(path["final"]["value"]), f"{100.0 * path['max_drawdown']['value']:.0f}%"]
        rows.append([*row, f"{100.0 * path['mean_exposure']:.0f}%", f"{path['turnover']:.1f}"])
    level = f"{100 * money['level']:g}% interval"
    head.append(table(["", "growth", level, "final", "fall", "open", "turnover"], rows))
    of_both = [_returns_line(money, name) for name in (BEFORE, AFTER)]
    lines = [*_over_lines(money), *of_both, _sizing_line(money), *lines]
    return "\n".join([*head, *map(prose, lines)])


def thresholds_text(money: dict[str, Any]) -> str:
    """Return promised and realised hit rates of each threshold on the test part, and what was chosen before it."""
    if "left_out" in money:
        return ""
    lines = []
    for name in (BEFORE, AFTER):
        found = money[name]
        rows = []
        for one in found["test"]:
            counts = [f"{one['threshold']:g}", f"{one['n_trades']:,}", f"{one['n_independent']:,.0f}"]
            ends = "" if one["low"] is None else bracketed(one["low"], one["high"])
            rates = [_value(one["promised"]), _value(one["realised"]), ends]
            rows.append([*counts, *rates, "all lost" if one["growth"] is None else f"{one['growth']:+z.4f}"])
        header = ["above", "trades", "independent", "promised", "realised", "interval", "growth"]
        lines += [f"Trades on {name} probabilities above a confidence: hit rates, growth a {money['per']}"]
        lines += [table(header, rows), prose(f"Chosen before it: {found['reason']}"), ""]
    return "\n".join(lines)


def specified_line(one: dict[str, Any]) -> str:
    """Return what was specified of calibration, what was found, and the verdict."""
    least, most = (f"{100.0 * share:g}" for share in one["specified"])
    found = "nothing to compare" if one["value"] is None else f"{100.0 * one['value']:z.1f}%"
    ends = "" if one["low"] is None else f" [{100.0 * one['low']:z.1f}, {100.0 * one['high']:z.1f}]"
    return f"Specified: {least} to {most}% less {one['what']}. Found: {found}{ends}: {one['verdict']}"


def _over_lines(money: dict[str, Any]) -> list[str]:
    """Say what trading on calibrated probabilities grew by over holding and over trading on raw ones."""
    if "not_held" in money:
        return [f"Buy and hold is left out: {money['not_held']}"]
    over = money["paths"][AFTER]["over_buy_and_hold"]
    lines = []
    if over["value"] is not None:
        said = f"Calibrated less buy and hold: growth {over['value']:+z.4f} a {money['per']}, interval {_ends(over)}"
        shown = "beyond chance" if over["low"] > 0.0 or over["high"] < 0.0 else "within chance"
        lines.append(f"{said}: {shown}")
    if money["held_share"] < NEARLY_ALL:
        lines.append(f"Held for {100.0 * money['held_share']:.0f}% of the time of the rows")
    return lines


def _returns_line(money: dict[str, Any], name: str) -> str:
    """Return what trades of the chosen threshold were promised to earn, and earned."""
    found = money[name]
    promised, realised, gap = (found["returns"][key] for key in ("promised", "realised", "gap"))
    which = "all trades" if found["chosen"] is None else f"trades above {found['chosen']:g}"
    came = f"{promised['value']:+z.4f} promised, {realised['value']:+z.4f} came"
    return f"Returns a {money['per']}, {name}, {which}: {came} ({gap['value']:+z.4f}, interval {_ends(gap)})"


def _sizing_line(money: dict[str, Any]) -> str:
    raw, calibrated = (money[name]["sizing_error"] for name in (BEFORE, AFTER))
    return (
        f"Sizing error |stake from p - stake from the realised rate|: raw {raw['value']:.4f}, calibrated "
        f"{calibrated['value']:.4f} (by chance alone {calibrated['floor']:.4f})"
    )


def _ends(found: dict[str, Any]) -> str:
    return "" if found["low"] is None else f"[{found['low']:+z.4f}, {found['high']:+z.4f}]"


def _value(value: float | None) -> str:
    return "" if value is None else figure(value)
