"""calibrant evaluate: the figures of the library, the right columns, gates, and errors that say where."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.cli.option_texts import split_list

Run = Callable[..., Result]


def as_json(run: Run, command: str, *more: str, stdin: bytes | None = None) -> dict[str, object]:
    result = run(f"evaluate {command} --json", *more, stdin=stdin)
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def values(document: dict[str, object]) -> dict[str, float]:
    scores = document["scores"]
    assert isinstance(scores, dict)
    return {name: score["value"] for name, score in scores.items()}


@pytest.mark.parametrize("file", ["scores.csv", "scores.parquet"])
def test_figures_are_those_of_the_library(run: Run, binary: pa.Table, file: str) -> None:
    scores = cb.evaluate(binary["y"], binary["p"])
    document = as_json(run, file)
    assert document == {
        "file": file,
        "n": 600,
        "n_skipped": 0,
        "columns": {"label": "y", "score": ["p"], "weight": None},
        "classes": [0, 1],
        "positive": 1,
        **scores.to_dict(),
    }
    shown = run(f"evaluate {file}").output
    assert scores.verdict in shown
    rows = [line.split() for line in shown.splitlines()]
    for name, score in scores.items():
        assert [name, f"{score.value:.4f}", f"[{score.low:.4f},", f"{score.high:.4f}]", "600"] in rows


def test_options_reach_the_library(run: Run, binary: pa.Table) -> None:
    document = as_json(
        run, "scores.csv --weight w --bins 7 --level 0.9 --seed 5 --positive 0", "--evaluated-on", "held-out, May"
    )
    expected = cb.evaluate(
        binary["y"],
        binary["p"],
        sample_weight=binary["w"],
        n_bins=7,
        level=0.9,
        pos_label=0,
        rng=5,
        evaluated_on="held-out, May",
    )
    assert document["scores"] == expected.to_dict()["scores"]
    assert document["columns"] == {"label": "y", "score": ["p"], "weight": "w"}
    assert document["positive"] == 0
    assert "90% interval" in run("evaluate scores.csv --level 0.9").output


@pytest.mark.parametrize(
    "score",
    ["--score p_cat,p_dog,p_eel", "--score p_*", "--score p_dog,p_eel,p_cat", "--score p_eel --score p_cat,p_dog"],
)
def test_columns_are_matched_to_classes_by_name(run: Run, several: pa.Table, score: str) -> None:
    expected = cb.evaluate(several["y"], several.select(["p_cat", "p_dog", "p_eel"]))
    document = as_json(run, f"several.parquet {score}")
    assert document["scores"] == expected.to_dict()["scores"]
    assert document["columns"] == {"label": "y", "score": ["p_cat", "p_dog", "p_eel"], "weight": None}
    assert document["classes"] == ["cat", "dog", "eel"]
    assert (
        "classes by name: p_cat = 'cat', p_dog = 'dog', p_eel = 'eel'"
        in run(f"evaluate several.parquet {score}").output
    )


@pytest.mark.slow
def test_columns_without_names_of_classes_keep_their_order(run: Run, several: pa.Table) -> None:
    renamed = several.rename_columns(["y", "c", "a", "b"])
    pq.write_table(renamed, "renamed.parquet")
    expected = values(as_json(run, "several.parquet --score p_*"))
    assert values(as_json(run, "renamed.parquet --score a,b,c")) == expected
    assert values(as_json(run, "renamed.parquet --score c,a,b --classes eel,cat,dog")) == expected
    assert values(as_json(run, "renamed.parquet --score c,a,b")) != expected
    assert (
        "classes in the order given: a = 'cat', b = 'dog', c = 'eel'"
        in run("evaluate renamed.parquet --score a,b,c").output
    )
    assert (
        "classes as --classes says: a = 'cat'"
        in run("evaluate renamed.parquet --score a,b,c --classes cat,dog,eel").output
    )


def test_lists_are_split_as_csv_is() -> None:
    assert split_list('a, b ,"c,d",,') == ["a", "b", "c,d"]
    assert split_list("") == []


def test_hostile_names_of_columns_and_files(run: Run, binary: pa.Table) -> None:
    names = ["row", "the, label", "p[0], *", "w"]
    pq.write_table(binary.rename_columns(names), "a b;$(x).parquet")
    result = run("evaluate --json --label", "the, label", "--score", "p[0], *", "a b;$(x).parquet")
    assert values(json.loads(result.stdout)) == values(as_json(run, "scores.csv"))


@pytest.mark.parametrize(
    ("kind", "labels", "positive"),
    [
        (pa.string(), ["neg", "pos"], "pos"),
        (pa.bool_(), [False, True], "true"),
        (pa.float64(), [0.0, 1.0], "1"),
        (pa.int8(), [-1, 1], "1"),
        (pa.dictionary(pa.int8(), pa.string()), ["n", "y"], "y"),
        (pa.large_string(), ["n", "y"], "y"),
    ],
)
def test_labels_of_every_kind(
    run: Run, binary: pa.Table, kind: pa.DataType, labels: list[object], positive: str
) -> None:
    y = pa.array([labels[i] for i in binary["y"].to_pylist()]).cast(kind)
    pq.write_table(binary.set_column(1, "y", y), "kinds.parquet")
    expected = values(as_json(run, "scores.csv"))
    assert values(as_json(run, "kinds.parquet")) == expected
    assert values(as_json(run, f"kinds.parquet --positive {positive}")) == expected


def test_json_lines_and_standard_input(run: Run, binary: pa.Table) -> None:
    lines = "\n".join(json.dumps(row) for row in binary.to_pylist())
    Path("scores.jsonl").write_text(lines, "utf-8")
    expected = values(as_json(run, "scores.csv"))
    assert values(as_json(run, "scores.jsonl")) == expected
    for data in (lines.encode(), Path("scores.csv").read_bytes(), Path("scores.parquet").read_bytes()):
        document = as_json(run, "-", stdin=data)
        assert values(document) == expected
        assert document["file"] == "standard input"


def test_labels_may_lack_a_class_that_is_named(run: Run) -> None:
    Path("t.csv").write_text("y,a,b,c\nu,0.5,0.25,0.25\nv,0.25,0.5,0.25\n")
    refused = run("evaluate t.csv --score a,b,c")
    assert refused.exit_code == 2
    assert "column 'y' of t.csv holds 2 classes" in refused.stderr
    assert "(Here: --classes, in the order of the score columns.)" in refused.stderr
    assert as_json(run, "t.csv --score a,b,c --classes u,v,w")["classes"] == ["u", "v", "w"]
    Path("numbers.csv").write_text("y,p2,p0,p1\n0,0.25,0.5,0.25\n1,0.25,0.25,0.5\n")
    assert as_json(run, "numbers.csv --score p2,p0,p1")["columns"] == {
        "label": "y",
        "score": ["p0", "p1", "p2"],
        "weight": None,
    }


def test_what_is_not_finite_is_null_and_explained(run: Run) -> None:
    Path("t.csv").write_text("y,p\n0,0.5\n1,0\n1,0.5\n0,0.25\n")
    assert values(as_json(run, "t.csv"))["log_loss"] is None
    shown = run("evaluate t.csv").output
    assert "log_loss: infinite: something happened that had probability 0" in shown
    assert "[inf" not in shown


# --- gates ---------------------------------------------------------------------------------------------------


def test_gate_passes_and_fails_by_exit_code(run: Run, binary: pa.Table) -> None:
    passed = run("evaluate scores.csv --max brier=0.9 --min auc=0.1")
    assert passed.exit_code == 0
    assert "Gate passed: brier 0." in passed.stdout
    failed = run("evaluate scores.csv --max ece=0.02 --max brier=0.9 --min auc=0.99")
    assert failed.exit_code == 1
    assert "ece " in failed.stdout
    assert "Gate passed: brier" in failed.stdout
    assert "Gate failed: ece 0." in failed.stderr
    assert " > 0.02\n" in failed.stderr
    assert " < 0.99\n" in failed.stderr


def test_gate_at_its_limit_passes(run: Run, binary: pa.Table) -> None:
    brier = values(as_json(run, "scores.csv"))["brier"]
    assert run(f"evaluate scores.csv --max brier={brier!r} --min brier={brier!r}").exit_code == 0
    assert run(f"evaluate scores.csv --max brier={math.nextafter(brier, 0.0)!r}").exit_code == 1


def test_gate_in_json_prints_one_document(run: Run, binary: pa.Table) -> None:
    result = run("evaluate scores.csv --json --max ece=0.02 --min auc=0.1")
    assert result.exit_code == 1
    gates = json.loads(result.stdout)["gates"]
    assert [(g["metric"], g["bound"], g["limit"], g["passed"]) for g in gates] == [
        ("ece", "max", 0.02, False),
        ("auc", "min", 0.1, True),
    ]
    assert result.stderr.startswith("Gate failed: ece")


@pytest.mark.parametrize("bound", ["--max auc=1", "--min auc=0"])
def test_metric_that_is_not_defined_fails_its_gate(run: Run, bound: str) -> None:
    Path("one.csv").write_text("y,p\n1,0.5\n1,0.75\n")
    result = run(f"evaluate one.csv {bound}")
    assert result.exit_code == 1
    assert "Gate failed: auc is not defined on these rows" in result.stderr
    assert " n/a " in result.stdout


@pytest.mark.parametrize("text", ["ece", "ece=", "=0.1", "ece=low", "ece=nan", "ece:0.1"])
def test_malformed_gate_is_refused_before_reading(run: Run, text: str) -> None:
    result = run(f"evaluate nowhere.csv --max {text}")
    assert result.exit_code == 2
    assert result.output == f"Error: --max {text!r} is not NAME=VALUE. Write it so: --max ece=0.02.\n"


def test_gate_on_unknown_metric_names_the_near_one(run: Run, binary: pa.Table) -> None:
    result = run("evaluate scores.csv --max breir=0.1")
    assert result.exit_code == 2
    assert result.output.startswith("Error: unknown metric 'breir'. Did you mean 'brier'? Choose one of: 'brier',")


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("y,p\n0,0.5\n1,1.2\n", "", "column 'p' of t.csv line 3: 1.2 is outside [0, 1] (1 of 2 rows)"),
        ("y,p\n0,0.5\n1,high\n", "", "column 'p' of t.csv line 3: 'high' is not a number"),
        ("y,p\n,0.5\n1,high\n0,0.5\n", "", "column 'p' of t.csv line 3: 'high' is not a number"),
        ("y,p\n0,0.5\n1,1_0\n", "", "column 'p' of t.csv line 3: '1_0' is not a number"),
        ("y,a,b\n0,0.5,0.5\n1,1,x\n", "--score a,b", "column 'b' of t.csv line 3: 'x' is not a number"),
        ("y,p\n0,\n1,0.5\n", "", "column 'p' of t.csv line 2: missing value (1 of 2 rows)"),
        ("y,p\n0,inf\n1,0.5\n", "", "column 'p' of t.csv line 2: inf"),
        ("y,p\n,0.5\n1,0.5\n", "", "column 'y' of t.csv line 2: missing label (1 of 2 rows)"),
        ("y,p\n0.5,0.5\n1,0.5\n", "", "column 'y' of t.csv line 2: 0.5 is not a class label"),
        ("y,p\na,0.5\nb,0.5\nc,0.1\n", "", "holds 3 classes, ['a', 'b', 'c'], for one column of scores"),
        ("y,p\na,0.5\na,0.5\n", "", "column 'y' of t.csv holds one class only: 'a'"),
        ("y,p\n", "", "is empty. Pass at least one row"),
        ("y,q\n0,1\n", "", "t.csv has no column 'p'. Its columns are: 'y', 'q'. Name the scores by --score."),
        ("a,p\n0,1\n", "", "t.csv has no column 'y'. Its columns are: 'a', 'p'. Name the labels by --label."),
        ("y,p\n0,0.5\n1,0.5\n", "--label lable", "t.csv has no column 'lable'."),
        ("y,p\n0,0.5\n1,0.5\n", "--weight w", "t.csv has no column 'w'."),
        ("y,p,w\n0,0.5,-1\n1,0.5,1\n", "--weight w", "column 'w' of t.csv line 2: -1.0 is negative"),
        ("y,p\n0,0.5\n1,0.5\n", "--positive 2", "--positive '2' is none of the labels [0, 1]."),
        ("y,p\n0,0.5\n1,0.5\n", "--classes a,b", "--classes a,b: the labels are whole numbers."),
        ("y,p\nTrue,0.5\nFalse,0.5\n", "--classes yes,no", "--classes: 'yes' is not true or false"),
        ("y,p\n0,0.5\n1,0.5\n", "--classes 1,2", "column 'y' of t.csv line 2: unknown label 0"),
        ("y,a,b\n0,0.5,0.5\n1,1,0\n", "--score a,b --positive 1", "--positive needs one score column"),
        ("y,a,b\n0,0.5,0.5\n1,1,0\n", "--score a,b --classes 0,1,2", "--classes names 3 classes for 2 score columns"),
        ("y,a,b\n0,0.5,0.5\n1,1,0.5\n", "--score a,b", "t.csv line 3: the 2 probabilities sum to 1.5, not 1"),
        ("y,a,b\n0,0.5,0.5\n1,2,-1\n", "--score a,b", "t.csv line 3, column 'a': 2.0 is outside [0, 1]"),
        ("y,p\n0,0.5\n1,0.5\n", "--bins 0", "--bins 0 is too small"),
        ("y,p\n0,0.5\n1,0.5\n", "--level 2", "--level 2.0 is outside (0, 1)"),
        ("y,p\n0,0.5\n1,0.5\n", "--format parqet", "unknown format 'parqet'. Did you mean 'parquet'?"),
        ("y,p\n0,0.5\n1,0.5\n", "--seed -1", "Invalid value for '--seed'"),
    ],
)
def test_input_that_can_not_be_used_is_said(run: Run, data: str, options: str, message: str) -> None:
    Path("t.csv").write_text(data)
    result = run(f"evaluate t.csv {options}")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("option", ["--score", "--weight"])
def test_columns_of_lists_and_text_are_no_numbers(run: Run, option: str) -> None:
    table = pa.table({"y": [0, 1], "p": [0.5, 0.5], "list": [[0.5], [0.25]], "text": ["1", "x"]})
    pq.write_table(table, "t.parquet")
    lists = run(f"evaluate t.parquet {option} list").stderr
    assert "column 'list' of t.parquet holds list<" in lists
    assert "values, not numbers. Name a column of numbers." in lists
    assert "column 'text' of t.parquet row 1: 'x' is not a number" in run(f"evaluate t.parquet {option} text").stderr
