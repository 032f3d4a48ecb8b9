"""calibrant check: figures and gates of evaluate, what is said of files that fail or cannot be read, its page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb

Run = Callable[..., Result]
TWO_CHECKS = """
label = "y"
max = {ece_debiased = 0.5}

[[check]]
name = "two"
files = "scores.parquet"
score = "p"
min = {auc = 0.5}

[[check]]
name = "three"
files = ["several.parquet"]
score = "p_*"
max = {brier = 0.9, ece_debiased = 0.4}
"""


def write(text: str, name: str = "calibrant.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


@pytest.fixture
def project(binary: pa.Table, several: pa.Table) -> None:
    """Two checks that pass."""
    write(TWO_CHECKS)


def test_a_file_that_does_not_exist_is_reported_and_the_others_are_checked(run: Run, binary: pa.Table) -> None:
    gate = "max = {brier = 1}\n"
    write(f'[[check]]\nname = "a"\nfiles = "gone.csv"\n{gate}[[check]]\nname = "b"\nfiles = "scores.csv"\n{gate}')
    result = run("check --json")
    assert result.exit_code == 2
    gone, good = json.loads(result.stdout)["checks"]
    assert "line 1, check 'a': files: nothing is called 'gone.csv' in" in gone["problem"]
    assert (gone["file"], good["file"]) == ("gone.csv", "scores.csv")
    assert [gate["passed"] for gate in good["gates"]] == [True]


def test_a_check_names_a_table_of_a_database(run: Run, binary: pa.Table) -> None:
    with duckdb.connect("all.duckdb") as connection:
        connection.execute("CREATE TABLE scores AS FROM 'scores.parquet'; CREATE TABLE other AS SELECT 1 AS p")
    check = '[[check]]\nname = "a"\nfiles = "all.duckdb"\nmax = {brier = 1}\n'
    write(check)
    assert run("check").exit_code == 2
    write(f'{check}table = "scores"\n')
    assert run("check").exit_code == 0


def test_checks_pass_and_their_figures_are_those_of_evaluate(run: Run, project: None, binary: pa.Table) -> None:
    result = run("check --json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["config"] == "calibrant.toml"
    two, three = document["checks"]
    assert (two["check"], two["file"], three["check"]) == ("two", "scores.parquet", "three")
    alone = json.loads(run("evaluate scores.parquet --json --max ece_debiased=0.5 --min auc=0.5").stdout)
    assert {name: two[name] for name in alone} == alone
    assert [(gate["metric"], gate["bound"], gate["limit"]) for gate in three["gates"]] == [
        ("ece_debiased", "max", 0.4),  # its own limit, not the shared one
        ("brier", "max", 0.9),
    ]
    assert two["scores"]["auc"]["value"] == cb.evaluate(binary["y"], binary["p"])["auc"].value


@pytest.mark.parametrize("limit", [0.1, 0.2])
def test_a_gate_fails_where_that_of_evaluate_does(run: Run, binary: pa.Table, limit: float) -> None:
    write(f'[[check]]\nname = "a"\nfiles = "scores.csv"\nmax.ece_debiased = {limit}\n')
    code = run(f"evaluate scores.csv --max ece_debiased={limit}").exit_code
    result = run("check")
    assert result.exit_code == code == int(limit == 0.1)
    assert ("1 of 1 gate failed" if code else "The gate passed") in result.output
    assert f"ece_debiased <= {limit}" in result.output


def test_a_metric_that_is_not_defined_fails(run: Run) -> None:
    pq.write_table(pa.table({"y": [1, 1], "p": [0.5, 0.7], "k": [0, 1]}), "one.parquet")
    write('[[check]]\nname = "a"\nfiles = "one.parquet"\nclasses = [0, 1]\nmin = {auc = 0.1}\n')
    result = run("check -o page.html")
    assert result.exit_code == 1
    assert "n/a" in result.output
    assert "auc is undefined" in Path("page.html").read_text("utf-8")


def test_a_pattern_stands_for_each_of_its_files(run: Run, binary: pa.Table) -> None:
    Path("parts").mkdir()
    for i in range(3):
        pq.write_table(binary.slice(200 * i, 200), f"parts/part-{i}.parquet")
    write('[[check]]\nname = "each"\nfiles = "parts/*.parquet"\nmax = {brier = 1}\n')
    write('[[check]]\nname = "all"\nfiles = "parts"\nmax = {brier = 1}\n', "whole.toml")
    each, whole = (json.loads(run(f"check --json --config {name}").stdout) for name in ("calibrant.toml", "whole.toml"))
    assert [found["file"] for found in each["checks"]] == [str(Path("parts", f"part-{i}.parquet")) for i in range(3)]
    assert [found["n"] for found in each["checks"]] == [200] * 3
    assert [found["n"] for found in whole["checks"]] == [600]
    assert "each: part-1" in run("check").output


def test_packed_files_are_called_by_their_names_alone(run: Run, binary: pa.Table) -> None:
    for i in (1, 2):
        with pa.CompressedOutputStream(f"cards-{i}.csv.gz", "gzip") as file:
            pc.write_csv(binary, file)
    write('[[check]]\nname = "each"\nfiles = "cards-*.csv.gz"\nmax = {brier = 1}\n')
    table = run("check -o page.html").stdout.splitlines()
    assert [line.split("  ")[0] for line in table if line.startswith("each")] == ["each: cards-1", "each: cards-2"]
    assert ">each: cards-1</" in Path("page.html").read_text("utf-8").replace("<bdi>", "").replace("</bdi>", "")


def test_the_project_is_found_upwards_and_names_are_relative_to_it(
    run: Run, project: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\ndependencies = ['calibrant']\n")
    monkeypatch.chdir(folder / "a" / "b")
    result = run("check --only two")
    assert result.exit_code == 0
    assert "All 2 gates passed" in result.output
    (folder / "a" / "pyproject.toml").write_text(
        "[tool.calibrant]\nlabel = 'y'\n[[tool.calibrant.check]]\nname = 'near'\nfiles = '../scores.csv'\n"
        "[tool.calibrant.check.max]\nbrier = 1\n"
    )
    document = json.loads(run("check --json").stdout)
    assert [found["check"] for found in document["checks"]] == ["near"]


def test_page_and_summary_say_what_failed(run: Run, project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TWO_CHECKS.replace("auc = 0.5", "auc = 0.99"))
    Path("step.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step.md")
    result = run("check -o page.html --markdown summary.md")
    assert result.exit_code == 1
    assert "two    auc >= 0.99" in result.output
    page, summary = Path("page.html").read_text("utf-8"), Path("summary.md").read_text("utf-8")
    assert "1 of 4 gates failed" in page
    assert page.count("<script") == 1  # the page's own
    assert "src=" not in page
    assert page.count("<svg") == 2
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    assert "**1 of 4 gates failed**" in summary
    assert "| two | **failed** | auc ≥ 0.99 |" in summary
    assert Path("step.md").read_text("utf-8") == f"before\n{summary}"
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    run("check -o again.html --markdown again.md")
    assert Path("again.html").read_text("utf-8") == page
    document = json.loads(run("check -o page.json").exit_code == 1 and Path("page.json").read_text("utf-8"))
    assert [file["check"] for file in document["files"]] == ["two", "three"]


def test_one_bad_file_keeps_no_other_from_being_checked(run: Run, project: None) -> None:
    Path("bad.csv").write_text("y,p\n0,0.5\n1,1.7\n")
    write(f'{TWO_CHECKS}\n[[check]]\nname = "bad"\nfiles = "bad.csv"\n')
    result = run("check -o page.html --markdown summary.md")
    assert result.exit_code == 2
    assert "bad: column 'p' of bad.csv line 3: 1.7 is outside [0, 1]" in result.stderr
    assert "1 file could not be measured; of the others all 4 gates passed" in result.stdout
    assert "1.7 is outside" in Path("page.html").read_text("utf-8")
    assert "could not be measured" in Path("summary.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", "Pass --missing skip (missing='skip' in Python) to leave such rows out. {}: missing = \"skip\"."),
        ('score = "z"', 'pass --input logit, or turn them into probabilities first. {}: input = "logit".'),
        ('label = "k"\nmissing = "skip"', "--score 'p*'.) {}: score = \"...\"."),
        ('score = "q"', "has no column 'q'. Its columns are: 'y', 'p', 'z', 'k'."),
    ],
)
def test_what_mends_a_file_is_said_as_a_key(run: Run, keys: str, said: str) -> None:
    Path("rows.csv").write_text("y,p,z,k\n0,0.5,-3,a\n1,,2,b\n1,0.5,2,c\n0,0.5,2,d\n")
    write(f'max.brier = 1\n[[check]]\nname = "a"\nfiles = "rows.csv"\n{keys}\n')
    result = run("check -o page.html --markdown summary.md")
    assert result.exit_code == 2
    assert said.format("In the project file options are keys") in result.stderr
    assert 'input="logit"' not in result.stderr
    assert result.stderr.count("rows.csv") == 1
    assert ("options are keys" in Path("summary.md").read_text("utf-8")) is ("options are keys" in result.stderr)


def test_a_database_of_several_tables_asks_for_the_key(run: Run) -> None:
    with duckdb.connect("two.duckdb") as database:
        for name in ("a", "b"):
            database.execute(f"CREATE TABLE {name} AS SELECT 0.5 AS p, 1 AS y")
    write('max.brier = 1\n[[check]]\nname = "a"\nfiles = "two.duckdb"\n')
    said = 'Name one with --table. In the project file options are keys: table = "...".'
    assert said in run("check").stderr


def test_what_goes_together_is_taken_together(run: Run, binary: pa.Table) -> None:
    rows = binary.append_column("who", pa.array(np.arange(600) // 3)).append_column("at", pa.array(np.arange(600)))
    pq.write_table(rows.append_column("known", pa.array(np.arange(600) + 5)), "rows.parquet")
    write(
        'time = "at"\nlabel_end = "known"\npositive = 1\nmax.brier = 1\n[[check]]\nname = "time"\n'
        'files = "rows.parquet"\n[[check]]\nname = "cluster"\nfiles = "rows.parquet"\ncluster = "who"\ngroup = "w"\n'
    )
    by_time, by_cluster = json.loads(run("check --json").stdout)["checks"]
    assert by_time["columns"] | {"time": "at", "label_end": "known"} == by_time["columns"]
    assert by_cluster["columns"]["cluster"] == "who"
    assert "time" not in by_cluster["columns"]
    assert by_cluster["groups"]["column"] == "w"
    result = run("evaluate rows.parquet --cluster who --json")
    assert json.loads(result.stdout)["columns"] == by_cluster["columns"]
    assert "positive '1' by calibrant.toml" in result.stderr
    assert "time" not in result.stderr
    assert run("check -o page.html").exit_code == 0
    assert "Groups: " in Path("page.html").read_text("utf-8")


def test_scores_may_be_logits(run: Run, binary: pa.Table) -> None:
    p = np.asarray(binary["p"])
    pq.write_table(binary.append_column("z", pa.array(np.log(p / (1.0 - p)))), "logits.parquet")
    write('score = "z"\ninput = "logit"\nmax.brier = 1\n[[check]]\nname = "a"\nfiles = "logits.parquet"\n')
    (found,) = json.loads(run("check --json").stdout)["checks"]
    expected = cb.evaluate(binary["y"], binary["p"])["brier"].value
    assert found["scores"]["brier"]["value"] == pytest.approx(expected, abs=1e-12)
    result = run("evaluate logits.parquet --json")
    assert "input 'logit'" in result.stderr
    assert json.loads(result.stdout)["scores"] == found["scores"]
    assert run("evaluate logits.parquet --score p --json").exit_code == 0


def test_skipped_rows_are_said(run: Run) -> None:
    Path("gaps.csv").write_text("y,p\n" + "0,0.2\n1,0.7\n" * 20 + "1,\n")
    write('missing = "skip"\nlevel = 0.9\n[[check]]\nname = "a"\nfiles = "gaps.csv"\nmax.brier = 1\n')
    result = run("check -o page.html")
    assert "1 row left out for missing values" in result.output
    assert "90% interval" in result.output
    assert "1 row left out for missing values" in Path("page.html").read_text("utf-8")


@pytest.mark.slow
def test_real_files(run: Run) -> None:
    named = os.environ.get("CALIBRANT_DATA")
    if named is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/hpc_cv_4class.parquet and others")
    folder = Path(named, "scores")
    write(
        f"max = {{ece_debiased = 0.05}}\n[[check]]\nname = 'hpc'\nfiles = '{folder}/hpc_*.parquet'\nscore = 'p_*'\n"
        f"min = {{accuracy = 0.5}}\n[[check]]\nname = '538'\nfiles = '{folder}/fivethirtyeight_binary.parquet'\n"
        "group = 'source'\n"
    )
    result = run("check --json -o page.html --markdown summary.md")
    assert result.exit_code == 1
    hpc, polls = json.loads(result.stdout)["checks"]
    assert [gate["passed"] for gate in (*hpc["gates"], *polls["gates"])] == [False, True, True]
    assert hpc["n"] == pq.read_metadata(hpc["file"]).num_rows


def test_a_file_is_measured_once_for_its_gates_and_its_page(
    run: Run, project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrant import metrics

    alone = run("check -o alone.json").exit_code
    calls: list[str] = []

    def counted(name: str) -> None:
        function = getattr(metrics, name)
        monkeypatch.setattr(metrics, name, lambda *args, **more: calls.append(name) or function(*args, **more))

    for name in ("evaluate_rows", "classes_of_rows"):
        counted(name)
    assert run("check -o page.json").exit_code == alone == 0
    assert sorted(calls) == ["classes_of_rows", "evaluate_rows", "evaluate_rows"], "two files, one of them of classes"
    assert Path("page.json").read_text("utf-8") == Path("alone.json").read_text("utf-8")


def test_files_of_one_name_in_many_folders_are_told_apart(run: Run, binary: pa.Table) -> None:
    """Each was called "all: rows" in the table and on the page."""
    for folder in ("runs/a/x", "runs/b/x", "runs/c/x"):
        Path(folder).mkdir(parents=True)
        pq.write_table(binary, f"{folder}/rows.parquet")
    write('[[check]]\nname = "all"\nfiles = "runs/*/x/rows.parquet"\nmax = {brier = 1}\n')
    shown = run("check --markdown page.md").stdout
    for folder in "abc":
        assert f"all: {folder}/x/rows  brier <= 1" in shown
        assert f"all: {folder}/x/rows" in Path("page.md").read_text(encoding="utf-8")
    Path("runs/b/x/rows.parquet").rename("runs/a/x/more.parquet")
    Path("runs/c/x/rows.parquet").unlink()
    write('[[check]]\nname = "all"\nfiles = "runs/a/x/*.parquet"\nmax = {brier = 1}\n')
    assert "all: more  brier" in run("check").stdout  # no folder where names differ
