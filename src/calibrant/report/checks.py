"""CheckReport: the gates of many files on one page, which failed, and what each file is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from calibrant._version import __version__
from calibrant.phrases import clean, count, listed, percent_level, uncapitalised
from calibrant.report import pages
from calibrant.report.parts import group_section
from calibrant.report.reliability import axes_end, panels, side_by_side
from calibrant.report.report import Report
from calibrant.report.scores import score_section
from calibrant.results import plain

#: Files that get a panel and a section, those first that failed; the table has all of them.
_MOST_SHOWN = 12
#: Failed gates that the first screen names.
_MOST_NAMED = 6
_SHORT = 60
_SIGNS = {"max": "\N{LESS-THAN OR EQUAL TO}", "min": "\N{GREATER-THAN OR EQUAL TO}"}


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that gates judged, or why it could not be measured.

    Attributes
    ----------
    check, file : str
        Name of the check, and the file.
    problem : str
        Why nothing could be measured; an empty string where it could.
    verdict : str
        What the scores say of the file, in words.
    gates : list of dict
        Each with "metric", "bound" ("max" or "min"), "limit", "value" with "low" and "high" at "level", and "passed".
    n_rows, n_skipped : int
        Rows measured, and rows left out for missing values.
    report : Report or None
        The report on the file, for a page.
    """

    check: str
    file: str
    problem: str = ""
    verdict: str = ""
    gates: Sequence[dict[str, Any]] = ()
    n_rows: int = 0
    n_skipped: int = 0
    report: Report | None = field(default=None, repr=False)

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The gates that failed."""
        return [gate for gate in self.gates if not gate["passed"]]

    @property
    def is_passed(self) -> bool:
        """Whether the file was measured and all gates passed."""
        return not (self.problem or self.failed)

    @property
    def called(self) -> str:
        """What the file is called in a list of many."""
        return f"{self.check}: {self.file}"

    @property
    def problem_of(self) -> str:
        """What stands before the problem: the check alone where the problem names the file."""
        return self.check if self.file in self.problem else self.called

    def to_dict(self) -> dict[str, Any]:
        """Return all but the report as plain values, and the report's summary; what is not finite becomes None."""
        own = plain({entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "report"})
        return {**own, "report": None if self.report is None else self.report.summary()}


class CheckReport(pages.PageReport):
    """Page of checks: the gates of all files in one table, then a panel and the scores of each file.

    Parameters
    ----------
    files : sequence of CheckedFile
        At least one.
    title : str
        Heading of the page.
    """

    name = "Calibration checks"

    def __init__(self, files: Sequence[CheckedFile], *, title: str = "Calibration checks") -> None:
        self._files = sorted(files, key=lambda each: (not each.problem, each.is_passed))
        self._summary = {
            "title": clean(title),
            "version": __version__,
            "headline": headline(files),
            "files": [each.to_dict() for each in self._files],
        }

    def page(self) -> pages.Page:
        reported = [(each, each.report.summary()) for each in self._files if each.report is not None]
        shown = reported[:_MOST_SHOWN]
        sections = [_gate_section(self._files)]
        if shown:
            curves = side_by_side([{**summary["curve"], "label": each.called} for each, summary in shown])
            captions = [pages.count(curve["n_rows"], "row") for curve in curves]
            which = "" if len(shown) == len(reported) else f"Shown are {len(shown)} of {len(reported)} files. "
            lead = f"{which}On the dashed line a forecast is calibrated. {axes_end(curves)}"
            sections.append(pages.Section("Reliability", [panels(curves, "check", captions), pages.Text(lead)]))
        sections += [_file_section(each, summary) for each, summary in shown]
        return replace(self._overview(), sections=sections)

    def markdown(self) -> str:
        """Return the outcome as Markdown, what failed and the table of gates; the page has the rest."""
        return replace(self._overview(), sections=[_gate_section(self._files)]).markdown()

    def _overview(self) -> pages.Page:
        """Return the page without its sections."""
        problems = [f"{pages.name(each.problem_of, _SHORT)}: {each.problem}" for each in self._files if each.problem]
        failed = [f"{_named(each)}: {_failures(each)}." for each in self._files if each.failed]
        n_gates = sum(len(each.gates) for each in self._files)
        answers = [
            pages.Answer(question, _some(said))
            for question, said in (("What can't be measured?", problems), ("What failed?", failed))
            if said
        ]
        answers.append(
            pages.Answer("What was checked?", f"{count(n_gates, 'gate')} on {count(len(self._files), 'file')}.")
        )
        state = "undefined" if problems else "miscalibrated" if failed else "calibrated"
        return pages.Page(self._summary["title"], state, self._summary["headline"], answers, [])

    def __repr__(self) -> str:
        return f"<CheckReport: {self._summary['headline']}>"


def short_names(files: Sequence[CheckedFile]) -> dict[tuple[str, str], str]:
    """Return what tells each file from others of its check, by check and file; nothing for a check of one file.

    It is the name without what says format and packing, with as many of its folders as it takes: files of one name in
    many folders are usual.
    """
    from calibrant.tables import without_packing

    found: dict[tuple[str, str], str] = {}
    for check in dict.fromkeys(each.check for each in files):
        paths = list(dict.fromkeys(each.file for each in files if each.check == check))
        parts = [without_packing(path).with_suffix("").parts for path in paths]
        depths = range(1, max(map(len, parts)) + 1)
        depth = next((k for k in depths if len({each[-k:] for each in parts}) == len(paths)), None)
        short = paths if depth is None else ["/".join(each[-depth:]) for each in parts]
        found |= {(check, path): name if len(paths) > 1 else "" for path, name in zip(paths, short, strict=True)}
    return found


def headline(files: Sequence[CheckedFile]) -> str:
    """Say in a line how the checks ended."""
    n_gates, n_failed = sum(len(each.gates) for each in files), sum(len(each.failed) for each in files)
    n_problems = sum(bool(each.problem) for each in files)
    if n_failed:
        said = f"{n_failed:,} of {count(n_gates, 'gate')} failed"
    else:
        said = "The gate passed" if n_gates == 1 else f"All {n_gates:,} gates passed"
    if not n_problems:
        return said
    missing = f"{count(n_problems, 'file')} could not be measured"
    return f"{missing}; of the others {uncapitalised(said)}" if n_gates else missing


def _gate_section(files: Sequence[CheckedFile]) -> pages.Section:
    """Return the table of all gates, those that failed first."""
    items = [(each, gate) for each in files for gate in map(_plain, each.gates)]
    items.sort(key=lambda item: bool(item[1]["passed"]))
    levels = {percent_level(gate["level"]) for _, gate in items}
    names = short_names(files)

    def called(item: tuple[CheckedFile, dict[str, Any]]) -> str:
        each = item[0]
        name = names[each.check, each.file]
        return pages.name(f"{each.check}: {name}" if name else each.check, _SHORT)

    found = pages.table(
        "Gates",
        items,
        [
            ("Check", called),
            ("", lambda item: "passed" if item[1]["passed"] else pages.Cell("failed", "outside")),
            ("Gate", lambda item: _gate(item[1])),
            ("Value", lambda item: pages.off_cell(pages.figure(item[1]), not item[1]["passed"])),
            (f"{levels.pop()} interval" if len(levels) == 1 else "Interval", lambda item: pages.ends(item[1])),
            ("Rows", lambda item: pages.count(item[0].n_rows)),
        ],
        wide=(4, 5),
    )
    return pages.Section("Gates", [found] if items else [pages.Text("No gate could be judged.")])


def _file_section(each: CheckedFile, summary: dict[str, Any]) -> pages.Section:
    """Return the section of one file: how its gates ended, the verdict, and its scores, folded."""
    gates = "; ".join(f"{_gate(gate)} {'passed' if gate['passed'] else 'failed'}" for gate in each.gates)
    blocks = [
        replace(block, folded=block.folded or "Scores") if isinstance(block, pages.Table) else block
        for block in score_section(summary).blocks
    ]
    if summary["groups"] is not None:
        by = f"Groups: {pages.name(summary['groups']['by'], _SHORT)}"
        of_groups = [
            block for block in group_section(summary["groups"]).blocks if not isinstance(block, pages.Pictures)
        ]
        blocks += [replace(block, folded=by) if isinstance(block, pages.Table) else block for block in of_groups]
    if each.n_skipped:
        blocks.append(pages.Text(f"{count(each.n_skipped, 'row')} left out for missing values."))
    return pages.Section(pages.name(each.called, _SHORT), [pages.Text(f"{gates}. {each.verdict}"), *blocks])


def _named(each: CheckedFile) -> str:
    return pages.name(each.called, _SHORT)


def _failures(each: CheckedFile) -> str:
    return listed([f"{gate['metric']} is {pages.figure(gate)}" for gate in map(_plain, each.failed)])


def _some(said: Sequence[str]) -> str:
    """Return the first of several sentences, and how many more there are."""
    left = len(said) - _MOST_NAMED
    return " ".join([*said[:_MOST_NAMED], *([f"And {left:,} more."] if left > 0 else [])])


def _plain(gate: dict[str, Any]) -> dict[str, Any]:
    """Return a gate as pages write figures: what is not finite is None, and infinity marked."""
    return {**plain(gate), "is_infinite": gate["value"] == math.inf}


def _gate(gate: dict[str, Any]) -> str:
    return f"{gate['metric']} {_SIGNS[gate['bound']]} {gate['limit']:g}"
