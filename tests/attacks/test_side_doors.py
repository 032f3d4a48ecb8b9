"""What lies around calibrator files: run folders, devices, settings, margins, and names that a terminal would obey."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from commands import run

import calibrant as cb
from calibrant.phrases import clean, for_terminal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- run folders ----------------------------------------------------------------------------------------------


def holding(data: str | bytes) -> Callable[[Path], object]:
    """Return what writes a file that holds these bytes."""
    return lambda path: path.write_bytes(data if isinstance(data, bytes) else data.encode())


DEEP = "[" * 50_000
#: What makes a file of a run that is none.
BROKEN: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(missing_ok=True),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "empty": holding(""),
    "empty object": holding("{}"),
    "null": holding("null"),
    "list": holding("[]"),
    "deep": holding(DEEP),
    "no text": holding(b"\xff\xfe\x00"),
    "wrong kinds": holding('{"test": 1, "calibration": [], "gates": "x", "started": {}, "overhead": 7}'),
    "half": holding('{"test": {"forecasts": {"raw": {}}}, "calibration": {"calibrator": "x"}, "gates": {}}'),
    "twice": holding('{"test": 1, "test": 2}'),
    "huge number": holding('{"test": 1e999}'),
    "many digits": holding('{"test": ' + "9" * 5_000 + "}"),
    "not json": holding("{test: 1}"),
    "toml": holding('[found]\nx = 1\ny = "\\u0007"\n'),
    "deep toml": holding("a = " + DEEP),
    "escape": holding('{"test": "\\u001b[2J"}'),
}


@pytest.mark.parametrize("file", ["run.json", "metrics.json", "config.toml"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_run_neither_hides_others_nor_ends_in_a_traceback(file: str, how: str) -> None:
    for name in ("a", "b"):
        path = Path("experiments", "runs", name)
        path.mkdir(parents=True)
        (path / "run.json").write_text('{"run_id": "a", "files": {}}')
        (path / "metrics.json").write_text("{}")
    broken = Path("experiments", "runs", "a", file)
    broken.unlink(missing_ok=True)
    BROKEN[how](broken)
    listed = run("runs", "list")
    assert listed.exit_code == 0
    assert "b can't be read: " in listed.output
    assert json.loads(run("runs", "list", "--json").output)["runs"] == []
    for words in (("show", "a"), ("show", "experiments/runs/a"), ("compare", "a", "b")):
        assert run("runs", *words).exit_code == 2
    run("runs", "show", "a", "--json")  # which takes settings and figures as they are


# --- devices, settings, margins -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "evaluate /dev/zero", "evaluate /dev/zero --format csv", "evaluate /dev/urandom", "inspect /dev/zero",
        "apply /dev/zero t.csv -o u.csv", "apply c.json /dev/zero -o u.csv", "evaluate t.csv --calibrator /dev/zero",
        "report t.csv -o /dev/full", "fit t.csv -o /dev/null", "apply c.json t.csv -o /dev/null",
        "export c.json --to sql -o /dev/null", "monitor t.csv --state /dev/zero", "monitor t.csv -o /dev/full",
        "export c.json --to onnx -o pipe", "apply c.json t.csv -o pipe", "monitor t.csv --state pipe", "inspect pipe",
        "evaluate t.csv --calibrator pipe", "export c.json --to sql -o folder", "monitor t.csv --state folder",
    ],
)  # fmt: skip
def test_devices_pipes_and_folders_are_refused_at_once_and_stay(words: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(60)
    pc.write_csv(pa.table({"p": p, "y": (rng.random(60) < p).astype(int)}), "t.csv")
    cb.save(cb.SigmoidCalibrator().fit(p, p > 0.5), "c.json")
    os.mkfifo("pipe")
    Path("folder").mkdir()
    before = sorted(Path().iterdir())
    command = [sys.executable, "-m", "calibrant", *words.split()]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done.stderr
    assert sorted(Path().iterdir()) == before
    assert Path("pipe").is_fifo()
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "data", [b"", b"\xff", DEEP.encode(), b"{", b"[]", b'{"a": {}}', b'{"0": NaN, "1": 3}', b'{"0": 1, "0": 2}', b'"x"']
)
def test_broken_margins_are_refused(data: bytes) -> None:
    pc.write_csv(pa.table({"a": [0.2, 0.7], "b": [0.8, 0.3]}), "t.csv")
    Path("m.json").write_bytes(data)
    refused = run("rank-preserve", "t.csv", "--score", "a,b", "--margins", "m.json", "-o", "u.csv")
    assert refused.exit_code == 2
    assert not Path("u.csv").exists()


# --- names that a terminal would obey -------------------------------------------------------------------------

HOSTILE = "\x1b]0;gone\x07\x1b[2J\x9b31m\rx\u202egnp\x08"


def test_text_for_a_terminal_holds_no_order_but_bold() -> None:
    assert for_terminal("\x1b[1mhead\x1b[0m\n\x1b[2J\ta\x07") == "\x1b[1mhead\x1b[0m\n\\x1b[2J\ta\\x07"
    assert for_terminal("caf\u00e9 \u65e5\u672c") == "caf\u00e9 \u65e5\u672c"
    for shown in (for_terminal(HOSTILE), clean(HOSTILE)):
        assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in shown)
    assert "\u202e" not in for_terminal(HOSTILE)


def test_no_command_passes_orders_of_a_stranger_on() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1.0, 1.0, 1.0], 300)
    labels = np.array([f"{k}{HOSTILE}" for k in range(3)], dtype=object)
    y = labels[(P.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)]
    names = [f"p{k}{HOSTILE}" for k in range(3)]
    columns = dict(zip(names, P.T, strict=True)) | {f"y{HOSTILE}": y.tolist(), f"g{HOSTILE}": y.tolist()}
    table = pa.table(columns)
    pq.write_table(table, "t.parquet")
    score, label = [word for name in names for word in ("--score", name)], ["--label", f"y{HOSTILE}"]
    cb.save(cb.TemperatureCalibrator().fit(P, y), "c.json")
    commands = [
        ["evaluate", "t.parquet", *score, *label, "--group", f"g{HOSTILE}"],
        ["fit", "t.parquet", *score, *label, "-o", "f.json", "--method", "temperature"],
        ["audit", "t.parquet", *score, *label, "--features", f"g{HOSTILE}"],
        ["monitor", "t.parquet", *score, *label],
        ["inspect", "c.json"], ["inspect", "f.json"],
        ["apply", "f.json", "t.parquet", "-o", "u.parquet"],
        ["apply", "f.json", "t.parquet", "--score", "p9\x1b[2J", "-o", "v.parquet"],
        ["evaluate", "t.parquet", "--score", "p9\x1b[2J"],
        ["evaluate", "no\x1b[2J.csv"],
    ]  # fmt: skip
    for command in commands:
        said = run(*command).output
        assert said
        rest = said.replace("\x1b[1m", "").replace("\x1b[0m", "")
        orders = {c for c in rest if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c == "\u202e"}
        assert not orders, (command[0], orders)
