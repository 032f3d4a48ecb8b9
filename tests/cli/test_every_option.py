"""Every option of every command does something: each stands in a call on real files that is another one without it.

`LINES` is the table. A new command, or a new option, fails here until a call of it is added.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import click
import pytest
from click.testing import CliRunner
from real_files import train_runs, write_files

from calibrant.cli import fit, main
from calibrant.segments import choice

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_draws")]

#: Exit code, what was printed, and the files that were written.
Outcome: TypeAlias = tuple[int, str, dict[str, str]]
#: What all commands that read scores take, on files that need it.
LAYOUT = "--delimiter ; --decimal , --encoding latin-1"
ROWS = (
    "rain.csv --label obs --score EMOS",
    f"credit.export --label fällig {LAYOUT}",
    "credit.kept --format csv",
    "all.duckdb --table credit",
    "credit.parquet --weight w --cluster client",
    "credit.parquet --time day --label-end known",
    "gaps.csv --missing skip",
    "abc.csv --score a,b,c --classes 2,1,0",
)
MEASURED = ("credit.parquet --score z --input logit", "credit.parquet --calibrator isotonic.json")
POSITIVE = ("credit.parquet --positive 0",)
COSTS = (
    "credit.parquet --false-positive 1 --false-negative 4 --true-positive 2 --true-negative 0.5 --threshold 0.3",
    "credit.parquet --costs few.json --per day",
)
#: What all commands that read forecasts take.
FORECASTS = (
    f"power.export --outcome größe --mean mu --std sd {LAYOUT}",
    "power.kept --mean mu --std sd --format csv",
    "all.duckdb --table power --mean mu --std sd",
    "power.csv --quantiles low,mid,high --levels 0.1,0.5,0.9 --weight w --cluster client",
    "power.csv --samples draw_*",
    "power.csv --mean mu --std sd --time day --label-end known",
)
UNLABELLED = (
    f"power.export --mean mu --std sd {LAYOUT}",
    "power.kept --mean mu --std sd --format csv",
    "all.duckdb --table power --mean mu --std sd",
    "power.csv --quantiles low,mid,high --levels 0.1,0.5,0.9",
    "power.csv --samples draw_*",
)
NORMAL = "power.csv --mean mu --std sd"
GAPS = "--max gap=0 --min gap=0 --thresholds 0,0.5 --costs 0.3,0.5"
NET_BENEFITS = "--max net_benefit@0.1=0 --min net_benefit@0.3=0"
NEW = "--output-levels 0.2,0.8 --moments --thresholds 0 --draws 2 --seed 3 --column new"
TOLD = "--predictions told.parquet --label y --time t --label-end until"
BARS = "--data bars.parquet --horizon 5"
TABLE = "--table rows.parquet --label rose --time t --label-end until"

#: Calls of each command: what stands behind its name, and 1 before those that a gate fails. warm-up has no option.
LINES: dict[str, tuple[str, ...]] = {
    "evaluate": (
        *ROWS,
        *MEASURED,
        *POSITIVE,
        "credit.parquet --group region --bins 5 --level 0.9 --seed 3 --evaluated-on May",
        "credit.parquet --score q --versus p --json",
        "1 credit.parquet --max brier=0 --min auc=0.5",
    ),
    "check": ("--only credit -o page.html --markdown said.md --json", "--config other.toml"),
    "compare": (
        *(f"{line} --methods sigmoid" for line in ROWS),
        "credit.parquet --score z --input logit --methods temperature",
        "credit.parquet --methods beta --folds 3 --level 0.9 --seed 2 --json",
        "credit.parquet --score q --versus p --methods beta",
    ),
    "audit": (
        *(f"{line} --features region" for line in (*ROWS[1:], *MEASURED, *POSITIVE)),
        "rain.csv --label obs --score EMOS --features month --min-rows 1",
        "credit.parquet --features region,q --depth 1 --min-rows 280 --level 0.8 --most 1",
        "credit.parquet --features z,client --categorical client --bins 3 --max-levels 4 --draws 99 --seed 4",
        "credit.parquet --features region --json",
        "credit.parquet --numbers --label w --score z --features region",
    ),
    "decide curve": (
        *(*ROWS[:-1], *MEASURED, *POSITIVE),
        "abc.csv --score a,b,c --classes 2,1,0 --kind risk",
        "power.csv --mean mu --std sd --above 0.5",
        "power.csv --quantiles low,mid,high --levels 0.1,0.5,0.9 --above 0.5",
        "power.csv --samples draw_* --above 0.5",
        f"1 credit.parquet --thresholds 0.1,0.3 --level 0.9 --evaluated-on May {NET_BENEFITS}",
        "credit.parquet --json",
    ),
    "decide evaluate": (
        *(f"{line} --costs costs.json" for line in (*ROWS[:-1], *MEASURED, *POSITIVE)),
        "abc.csv --score a,b,c --classes 2,1,0 --costs three.json",
        *COSTS,
        "power.csv --mean mu --std sd --above 0.5 --costs costs.json",
        "power.csv --quantiles low,mid,high --levels 0.1,0.5,0.9 --above 0.5 --costs costs.json",
        "power.csv --samples draw_* --above 0.5 --costs costs.json",
        "credit.parquet --calibrator isotonic.json --fitted-to old.parquet --costs costs.json",
        "1 credit.parquet --costs costs.json --group region --level 0.9 --evaluated-on May --max regret=0 --min gap=-1",
        "credit.parquet --costs costs.json --json",
    ),
    "decide experiment": (
        *(f"{line} --method average --thresholds 0 --costs 0.5" for line in FORECASTS),
        f"1 {NORMAL} --method average,variance --held-out 0.3 --level 0.8 --seed 2 --judge none {GAPS}",
        "power.csv --mean mu --std sd --method average --thresholds 0 --costs 0.5 -o decisions.json --json",
    ),
    "decide promise": (
        "rain.csv --score EMOS --costs costs.json",
        f"credit.export {LAYOUT} --costs costs.json",
        "all.duckdb --table credit --costs costs.json",
        *COSTS,
        *(f"{line} --above 0.5 --costs costs.json" for line in UNLABELLED),
        "credit.parquet --calibrator isotonic.json --fitted-to old.parquet --costs costs.json",
        "rain.csv --score EMOS --fitted-to rain.csv --label obs --costs costs.json --cluster month --about rows",
        "credit.parquet --costs costs.json --level 0.9 --json",
    ),
    "fit": (
        *(f"{line} --method sigmoid -o c.json" for line in ROWS),
        "credit.parquet --score z --input logit --method sigmoid -o c.json",
        "old.parquet --group grade --method sigmoid --seed 2 -o c.json",
        "credit.parquet --method isotonic --bounded -o c.json",
        "credit.parquet --score s --input score --allow-inversion --exportable sql -o c.json",
        "credit.parquet --method histogram --bins 4 --strategy uniform -o c.json",
        "credit.parquet --method mimic --threshold-pos 20 -o c.json",
        "credit.parquet --method beta --form ab -o c.json",
        "fetal.csv --score p0,p1,p2 --method one_vs_rest --calibrator beta --coupling likelihood -o c.json",
        "fetal.csv --score p0,p1,p2 --method top_label --per-class -o c.json",
    ),
    "apply": (
        "isotonic.json credit.parquet --score q --column better -o out.csv",
        "by_grade.json credit.parquet --group region -o out.csv",
        "isotonic.json gaps.csv --missing keep -o out.csv",
        f"isotonic.json credit.export {LAYOUT} -o out.csv",
        "isotonic.json credit.kept --format csv -o out.csv",
        "isotonic.json all.duckdb --table credit -o out.csv",
    ),
    "rank-preserve": (
        "fetal.csv --margins short.json --score p* --column r --report page.html -o out.csv",
        "fetal.csv --label y --score p0,p1,p2 --weight w --floor 0.001 -o out.csv",
        "fetal.csv --margins shares.json --rates --tolerance 3% -o out.csv",
        "abc.csv --margins more.json --rescale --normalise --ties free -o out.csv",
        "fetal.csv --margins regions.json --rates --group region -o out.csv",
        "fetal.csv --margins totals.json --nearly epsilon=0.01 --max-iter 5 -o out.csv",
        "fetal.csv --margins totals.json --order-tol 0.01 --gap 0.01 --method admm -o out.csv",
        f"fetal.export {LAYOUT} --score größe* --margins short.json -o out.csv",
        "credit.kept --format csv --margins halves.json --rates -o out.csv",
        "all.duckdb --table abc --margins more.json --rescale --normalise -o out.csv",
    ),
    "export": (
        "isotonic.json --to sql --dialect postgres --table sales --score q --keep client --column better -o out.txt",
        "isotonic.json --dtype float32 -o out.onnx",
    ),
    "inspect": ("isotonic.json --json",),
    "report": (
        *(f"{line} -o page.json" for line in (*ROWS, *MEASURED, *POSITIVE, *COSTS)),
        "credit.parquet --costs costs.json -o page.md",
        "credit.parquet --features z,client --categorical client -o page.json",
        "credit.parquet --features region,q --depth 1 --min-rows 280 -o page.json",
        "credit.parquet --group region --title Credit --bins 5 --level 0.9 --seed 2 -o page.html",
        "credit.parquet --score q --versus p -o page.html",
    ),
    "monitor": (
        *(*ROWS[:-1], *MEASURED),
        "1 abc.csv --score a,b,c --classes 2,1,0 --rows 200",
        "credit.parquet --calibrator by_grade.json --group region --rows 300",
        "1 credit.parquet --date day --every month --alpha 0.2 --state state.json -o page.html --title Credit",
        "credit.parquet --no-labels --reference old.parquet --columns region --threshold 0.3 --json",
    ),
    "forecast evaluate": (
        *FORECASTS,
        "power.csv --mean mu --std sd --horizon step --persistence last",
        "power.csv --mean mu --std sd --coverage 0.5 --region 0,1 --level 0.9 --seed 2 --evaluated-on May --json",
        "1 power.csv --mean mu --std sd --max crps=0 --min crps=0",
    ),
    "forecast fit": (
        *(f"{line} --method average -o r.json" for line in FORECASTS),
        "power.csv --mean mu --std sd --algorithm paper -o r.json",
        "power.csv --mean mu --std sd --direct-layer --seed 2 -o r.json",
        "power.csv --mean mu --std sd --method variance --shift -o r.json",
        "power.csv --mean mu --std sd --method conformal --conformity residual -o r.json",
    ),
    "forecast apply": (
        f"power.json power.export {LAYOUT} --mean low --std sd -o out.csv",
        "power.json power.kept --format csv -o out.csv",
        "power.json all.duckdb --table power -o out.csv",
        "power.json power.csv --quantiles low,mid,high --levels 0.1,0.5,0.9 -o out.csv",
        "power.json power.csv --samples draw_* -o out.csv",
        f"power.json power.csv {NEW} -o out.csv",
    ),
    "forecast report": (
        *(f"{line} -o page.json" for line in FORECASTS),
        f"{NORMAL} --recalibrator power.json --title Power --coverage 0.5 --level 0.9 --seed 2 -o page.html",
    ),
    "train": (
        f"1 --model logistic {BARS} --label binary --class-weight balanced --seed 2 --threads 2 --runs kept",
        f"1 --model logistic {BARS} --profit 1 --stop 2 --calibrator isotonic --calibrate if_better",
        f"1 --model logistic {BARS} --validation 0.3 --test 0.3 --embargo 5 --stakes flat --cost-bp 9",
        f"1 --model logistic {BARS} --walk-forward 3 --history rolling",
        f"1 --model logistic {TABLE} --features fall,range --symbol name --price-return gain",
        "--config train.toml --no-gate",
    ),
    "oof": (
        f"1 --models logistic {BARS} --label binary --class-weight balanced --seed 2 --threads 2 --runs kept --folds 3",
        f"1 --models logistic {BARS} --calibrator isotonic --calibrate if_better --variant blocks --folds 3",
        f"1 --models logistic {BARS} --test 0.3 --embargo 5 --stakes flat --cost-bp 9 --folds 3",
        f"1 --models logistic {TABLE} --features fall,range --symbol name --price-return gain --folds 3",
        f"1 {TOLD} --score raw_up --score also --members a,b",
        "--config train.toml --models logistic --folds 3 --no-gate",
    ),
    "predict": (
        "h5 --data newest.parquet --raw --last --runs runs -o out.csv",
        "Plain --data rows.parquet --trust ownmodels.Plain --runs runs -o out.csv",
    ),
    "refresh": (
        "1 h2 --data newest.parquet --rows 250 --later 0.4 --runs runs --json",
        "Plain --data more.parquet --trust ownmodels.Plain --runs runs --dry-run",
    ),
    "segments evaluate": (
        *(f"{line} --features region --method sigmoid" for line in ROWS[1:]),
        "credit.parquet --score z --input logit --features region --method sigmoid",
        "credit.parquet --calibrator isotonic.json --features region",
        "credit.parquet --features z,client --categorical client --seed 3 --json",
        "credit.parquet --features region,q --depth 1 --min-rows 250 --level 0.9 --json",
        "credit.parquet --numbers --label w --score z --features region",
    ),
    "segments fit": (
        *(f"{line} --features region --method sigmoid -o c.json" for line in ROWS[1:]),
        "credit.parquet --score z --input logit --features region --method sigmoid -o c.json",
        "credit.parquet --features region,w --categorical w --depth 1 --seed 3 -o c.json",
        "credit.parquet --features region,w --min-rows 250 -o c.json",
        "credit.parquet --numbers --label w --score z --features region -o c.json",
    ),
    "segments report": (
        *(f"{line} --features region -o page.html" for line in (*ROWS[1:], *MEASURED, *POSITIVE)),
        "credit.parquet --features region,w --depth 1 --min-rows 250 --level 0.9 --seed 3 -o p.md",
        "credit.parquet --features z,client --categorical client -o p.html",
        "credit.parquet --features region --title A -o p.html",
    ),
    "warm-up": (),
    "runs compare": ("h5 h2 --runs runs --json",),
    "runs export": (
        "h5 --runs runs --onnx out.onnx",
        "h5 --runs runs --mlflow sqlite:///mlflow.db --experiment prices",
    ),
    "runs list": ("--runs runs --json",),
    "runs show": ("last --runs runs --json",),
}


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command and its name, of groups within the group too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        else:
            yield " ".join([*path, name]), found


COMMANDS = dict(commands(main))


def options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by each of their names."""
    found = [each for each in command.params if isinstance(each, click.Option)]
    return {name: option for option in found for name in [*option.opts, *option.secondary_opts]}


def parts(name: str, line: str) -> list[list[str]]:
    """Return the words of a call: an option together with its value, and arguments each by itself."""
    known, words, found = options(COMMANDS[name]), shlex.split(line, posix=True), []
    while words:
        n_words = 1 if words[0] not in known or known[words[0]].is_flag else 2
        found.append(words[:n_words])
        words = words[n_words:]
    return found


def is_option(name: str, part: list[str]) -> bool:
    return part[0] in options(COMMANDS[name])


#: Commands that train: what an option changes is told by the settings that they train by.
TRAIN = ("train", "oof")
#: Commands that read runs.
NEED_RUNS = ("predict", "refresh", "runs")
CASES = [(name, line) for name, lines in LINES.items() for line in lines]


def test_every_command_has_calls_and_every_option_stands_in_one() -> None:
    assert set(LINES) == set(COMMANDS)
    missing = []
    for name, command in COMMANDS.items():
        used = {part[0] for line in LINES[name] for part in parts(name, line)}
        found = {tuple(option.opts): used.isdisjoint(option.opts) for option in options(command).values()}
        missing += [f"{name} {names[0]}" for names, is_unused in found.items() if is_unused]
    assert missing == []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    with contextlib.chdir(folder):
        write_files(folder)
    return folder


@pytest.fixture(scope="module")
def runs(files: Path) -> Path:
    with contextlib.chdir(files):
        train_runs()
    return files


#: What differs between two calls that are the same: moments, and what is made of them.
_MOMENTS = re.compile(
    r"\d{8}_\d{6}_\d{6}_[0-9a-f]{4}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*Z?|\b(?:[0-9a-f]{32}){1,2}\b"
)


#: Files that tell of moments in bytes: what they hold is not compared, only that they are there.
_BINARY = (".parquet", ".png", ".db")


class Calls:
    """Runs calls of a command among real files, each in a folder of its own."""

    def __init__(self, name: str, files: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.files, self.folder, self.monkeypatch = name, files, folder, monkeypatch

    def outcome(self, called: list[list[str]]) -> Outcome:
        """Return the exit code of a call, what it printed and the files that it wrote."""
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        for path in self.files.iterdir():
            (folder / path.name).symlink_to(path)
        self.monkeypatch.chdir(folder)
        with warnings.catch_warnings():
            if self.name == "runs export":  # MLflow's own libraries warn of what MLflow does
                warnings.simplefilter("ignore")
            done = CliRunner().invoke(main, [*self.name.split(), *(word for part in called for word in part)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.output, done.output
        assert done.exit_code in (0, 1, 2)
        if self.name == "runs export":  # a store of MLflow is made once in a process, and told of on standard error
            return done.exit_code, _MOMENTS.sub("", done.stdout), {}
        written = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not any(each.is_symlink() for each in (path, *path.parents)):
                text = "" if path.suffix in _BINARY else path.read_bytes().decode("utf-8", "replace")
                written[_MOMENTS.sub("", str(path.relative_to(folder)))] = _MOMENTS.sub("", text)
        return done.exit_code, _MOMENTS.sub("", done.output), written

    def settings(self, called: list[list[str]]) -> Outcome:
        """Return what a call would train, without training it."""

        def told(*given: object, **more: object) -> None:
            click.echo(repr((given, more)))
            raise click.exceptions.Exit

        with self.monkeypatch.context() as patched:
            for name in ("run_training", "run_stack", "run_predictions"):
                patched.setattr(f"calibrant.training.{name}", told)
            return self.outcome(called)


@pytest.mark.parametrize(("name", "line"), CASES)
def test_each_option_of_a_call_matters(
    name: str, line: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("COLUMNS", "100")
    # fits without each fold and the search for trees take most of a call: two folds and few rounds change as much
    monkeypatch.setattr(fit, "_MOST_FOLDS", 2)
    monkeypatch.setattr(choice, "MOST_ROUNDS", 20)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    if "--mlflow" in line:
        pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    files = request.getfixturevalue("runs" if name.startswith(NEED_RUNS) else "files")
    calls = Calls(name, files, tmp_path, monkeypatch)
    code, line = (1, line[2:]) if line.startswith("1 ") else (0, line)
    called = parts(name, line)
    whole = calls.outcome(called)
    assert whole[0] == code, whole[1]
    if name in TRAIN:
        outcome, whole = calls.settings, calls.settings(called)
    else:
        outcome = calls.outcome
    assert outcome(called) == whole, "the same call says the same"
    without = {i: called[:i] + called[i + 1 :] for i, part in enumerate(called) if is_option(name, part)}
    if name in TRAIN and ["--no-gate"] in called:  # what it changes is the exit code of the whole call
        gated = without.pop(called.index(["--no-gate"]))
        assert calls.outcome(gated)[0] == 1
    assert [" ".join(called[i]) for i, rest in without.items() if outcome(rest) == whole] == []
