"""Every command that writes: killed at every change of a file, without disk or rights, with a clock that goes back.

After each of these a file is as it was, or as the command leaves it; the next run finishes, and no litter stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from faulty_runs import fill_disk, give_up_rights, in_child, kill_at, load, turn_back_clock

import calibrant as cb

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="forks, signals and limits of POSIX"),
    pytest.mark.usefixtures("unrendered"),
]

#: What writes, and the files or folders that it writes.
COMMANDS = {
    "fit": ("fit t.csv --method sigmoid -o f.json", ["f.json"]),
    "apply csv": ("apply c.json t.csv --score p -o u.csv", ["u.csv"]),
    "apply parquet": ("apply c.json t.parquet --score p -o u.parquet", ["u.parquet"]),
    "apply onto itself": ("apply c.json own.csv --score p -o own.csv --column again", ["own.csv"]),
    "apply parts": ("apply c.json parts --score p -o made/", ["made"]),
    "export sql": ("export c.json --to sql -o c.sql", ["c.sql"]),
    "export onnx": ("export c.json --to onnx -o c.onnx", ["c.onnx"]),
    "report": ("report t.csv -o r.html", ["r.html"]),
    "monitor": ("monitor t.csv --rows 100 --state s.json -o m.html", ["s.json", "m.html"]),
    "forecast fit": ("forecast fit n.csv --mean mu --std sigma -o g.json", ["g.json"]),
    "rank-preserve": (
        "rank-preserve k.csv --score p_* --margins m.json --rescale -o k2.csv --report k.html",
        ["k2.csv", "k.html"],
    ),
}
#: More changes of files than any of these commands makes.
MOST_EVENTS = 60


def write_inputs() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(int)
    table = pa.table({"p": p, "y": y})
    pc.write_csv(table, "t.csv")
    pc.write_csv(table, "own.csv")
    pq.write_table(table, "t.parquet")
    Path("parts", "deep").mkdir(parents=True)
    pq.write_table(table, "parts/a.parquet")
    pq.write_table(table.slice(0, 50), "parts/deep/b.parquet")
    cb.save(cb.SigmoidCalibrator().fit(p, y), "c.json")
    mu = rng.normal(size=200)
    pc.write_csv(pa.table({"mu": mu, "sigma": np.ones(200), "y": mu + rng.normal(size=200)}), "n.csv")
    pc.write_csv(pa.table({"p_a": p, "p_b": 1.0 - p}), "k.csv")
    Path("m.json").write_text('{"a": 90, "b": 110}')


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    with contextlib.chdir(tmp_path_factory.mktemp("loaded")):
        write_inputs()
        load(*(line for line, _ in COMMANDS.values()))


@pytest.fixture(autouse=True)
def folder(loaded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # what fit writes tells the time
    write_inputs()
    return tmp_path


def contents(paths: list[str]) -> dict[str, bytes]:
    """Return the bytes of files by their names, those of folders too."""
    found = [Path(path) for path in paths]
    files = [file for path in found for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return {
        os.fspath(file): file.read_bytes()
        for file in files
        if file.is_file() and not file.name.startswith(".calibrant-") and file.name != "_calibrant.json"
    }


def litter() -> list[Path]:
    return list(Path().rglob(".calibrant-*"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_change_leaves_files_whole_and_the_next_run_finishes(name: str, tmp_path: Path) -> None:
    words, outputs = COMMANDS[name][0].split(), COMMANDS[name][1]
    inputs = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    old = contents(outputs)
    assert in_child(words) == 0
    wanted = contents(outputs)
    assert wanted

    def begin() -> None:
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        for path, data in inputs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (1.0, 1.0))

    for n_events in range(1, MOST_EVENTS):
        begin()
        code = in_child(words, kill_at, n_events)
        assert code in (0, -signal.SIGKILL)
        for path, data in contents(outputs).items():
            assert data in (old.get(path), wanted[path]), (n_events, path)
        if name == "monitor" and Path("s.json").exists():
            assert Path("m.html").exists()  # the state comes last
        if code == 0:
            break
        if name == "apply onto itself" and contents(outputs) == wanted:
            continue  # which had finished, and would add its column again
        assert in_child(words) == 0, n_events
        assert contents(outputs) == wanted, n_events
        assert litter() == []
    else:
        pytest.fail("the command never finished")
    assert n_events > 2


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("most_bytes", [0, 1, 100])
def test_a_full_disk_leaves_files_as_they_were(name: str, most_bytes: int) -> None:
    words, outputs = COMMANDS[name][0].split(), COMMANDS[name][1]
    before = contents(outputs)
    assert in_child(words, fill_disk, most_bytes) == 2
    found = {path: data for path, data in contents(outputs).items() if data}
    assert found == before
    assert litter() == []
    assert in_child(words) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_who_may_not_write_is_told_so_and_changes_nothing(name: str, tmp_path: Path) -> None:
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    before = sorted(tmp_path.rglob("*"))
    assert in_child(COMMANDS[name][0].split(), give_up_rights) == 2
    assert sorted(tmp_path.rglob("*")) == before
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_clock_that_goes_back_changes_nothing(name: str) -> None:
    words, outputs = COMMANDS[name][0].split(), COMMANDS[name][1]
    assert in_child(words, turn_back_clock) == 0
    assert contents(outputs)
    assert litter() == []
