"""Several models in one file: --versus, columns that can't be the classes of one model, gates on differences."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.cli import data

Run = Callable[..., Result]


@pytest.fixture
def models(folder: Path) -> pa.Table:
    """Two models of the same outcomes, the new one the truth, as models.parquet and models.csv."""
    rng = np.random.default_rng(0)
    truth = rng.random(800)
    y = (rng.random(800) < truth).astype(np.int64)
    columns = {"y": y, "old": truth**2, "new": truth, "third": np.sqrt(truth), "p0": 1.0 - truth, "p1": truth}
    columns |= {"who": np.arange(800) // 4, "w": rng.integers(1, 4, 800), "not_it": 1.0 - truth, "it": truth}
    table = pa.table(columns)
    pq.write_table(table, folder / "models.parquet")
    return table


def document(run: Run, command: str) -> dict[str, object]:
    result = run(f"{command} --json")
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("scores", ["--score old --versus new", "--score old,new", "--score old --score new"])
def test_figures_are_those_of_the_library(run: Run, models: pa.Table, scores: str) -> None:
    expected = cb.compare_models(models["y"], {"old": models["old"], "new": models["new"]})
    found = document(run, f"evaluate models.parquet {scores}")
    assert found == {
        "file": "models.parquet",
        "n": 800,
        "n_skipped": 0,
        "columns": {"label": "y", "weight": None, "models": {"old": ["old"], "new": ["new"]}},
        "classes": [0, 1],
        "positive": 1,
        **expected.to_dict(),
    }
    shown = run(f"evaluate models.parquet {scores}").output
    assert "models.parquet: 800 rows, label 'y', models 'old', 'new'" in shown
    assert expected.verdict in shown
    rows = [line.split() for line in shown.splitlines()]
    for key in ("log_loss", "brier", "ece_debiased", "auc"):
        score, less = expected.models["new"][key], expected.differences["new"][f"{key}_difference"]
        row = [key, "new", f"{score.value:.4f}", f"[{score.low:.4f},", f"{score.high:.4f}]"]
        assert row in [each[:5] for each in rows]
        assert f"{less.value:+z.4f}" in next(each for each in rows if each[:2] == [key, "new"])
    assert ("(--classes makes them the classes of one)" in shown) == ("--versus" not in scores)


def test_options_reach_the_library(run: Run, models: pa.Table) -> None:
    options = "--weight w --cluster who --positive 0 --level 0.9 --bins 7 --seed 3 --evaluated-on May"
    found = document(run, f"evaluate models.parquet --score old --versus new --versus third {options}")
    expected = cb.compare_models(
        models["y"],
        {name: models[name] for name in ("old", "new", "third")},
        sample_weight=models["w"],
        cluster=models["who"],
        pos_label=0,
        level=0.9,
        n_bins=7,
        rng=3,
        evaluated_on="May",
    )
    assert found["models"] == expected.to_dict()["models"]
    assert found["differences"] == expected.to_dict()["differences"]
    assert found["positive"] == 0


@pytest.mark.parametrize(
    ("score", "classes"),
    [
        ("p0,p1", "classes by name: p0 = 0, p1 = 1"),
        ("p1,p0", "classes by name: p0 = 0, p1 = 1"),
        ("not_it,it", "classes in the order given: not_it = 0, it = 1"),
        ("it,not_it --classes 1,0", "classes as --classes says: not_it = 0, it = 1"),
    ],
)
def test_columns_that_can_be_classes_of_one_model_are(run: Run, models: pa.Table, score: str, classes: str) -> None:
    shown = run(f"evaluate models.parquet --score {score}")
    assert shown.exit_code == 0
    assert classes in shown.output
    assert "models" not in shown.output.replace("models.parquet", "")


def test_columns_named_as_classes_are_never_taken_as_models(run: Run, models: pa.Table) -> None:
    off = models.set_column(4, "p0", pa.array(1.0 - models["p1"].to_numpy() ** 2))
    pq.write_table(off, "off.parquet")
    refused = run("evaluate off.parquet --score p0,p1")
    assert refused.exit_code == 2
    assert "the 2 probabilities sum to" in refused.stderr
    assert "Or, if they are separate models: --score p0 --versus p1." in refused.stderr


def test_one_row_that_does_not_sum_to_one_makes_no_models(run: Run, models: pa.Table) -> None:
    wrong = models["it"].to_numpy().copy()
    wrong[17] = 0.9 * wrong[17]
    pq.write_table(models.set_column(9, "it", pa.array(wrong)), "wrong.parquet")
    refused = run("evaluate wrong.parquet --score not_it,it")
    assert refused.exit_code == 2
    assert "row 17" in refused.stderr
    assert "sum to" in refused.stderr


def test_three_columns_and_two_labels_of_any_kind(run: Run, models: pa.Table) -> None:
    text = pa.array(["bad" if label else "good" for label in models["y"].to_pylist()])
    pq.write_table(models.set_column(0, "y", text), "text.parquet")
    found = document(run, "evaluate text.parquet --score old,new,third --positive bad")
    expected = document(run, "evaluate models.parquet --score old,new,third")
    assert found["differences"] == expected["differences"]
    assert found["positive"] == "bad"


def test_rows_that_lack_a_score_of_any_model_are_left_out_of_all(run: Run, models: pa.Table) -> None:
    new = pa.array([None if i < 10 else v for i, v in enumerate(models["new"].to_pylist())])
    pq.write_table(models.set_column(2, "new", new), "gaps.parquet")
    assert run("evaluate gaps.parquet --score old --versus new").exit_code == 2
    found = document(run, "evaluate gaps.parquet --score old --versus new --missing skip")
    part = models.slice(10)
    expected = cb.compare_models(part["y"], {"old": part["old"], "new": part["new"]})
    assert found["models"] == expected.to_dict()["models"]
    assert (found["n"], found["n_skipped"]) == (790, 10)
    shown = run("evaluate gaps.parquet --score old --versus new --missing skip").output
    assert "10 rows left out" in shown


def test_models_of_several_classes_by_patterns(run: Run, several: pa.Table) -> None:
    names = ["p_cat", "p_dog", "p_eel"]
    p = several.select(names).to_pandas().to_numpy()
    flat = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    table = several.rename_columns(["y", "a_eel", "a_cat", "a_dog"])
    for k, name in enumerate(("cat", "dog", "eel")):
        table = table.append_column(f"b_{name}", pa.array(flat[:, k]))
    pq.write_table(table, "both.parquet")
    found = document(run, "evaluate both.parquet --score a_* --versus b_*")
    expected = cb.compare_models(several["y"], {"a_*": p, "b_*": flat})
    assert found["differences"] == expected.to_dict()["differences"]
    assert found["columns"]["models"]["a_*"] == ["a_cat", "a_dog", "a_eel"]  # type: ignore[index]


@pytest.mark.parametrize("command", ["evaluate models.parquet", "report models.parquet -o page.html"])
def test_of_files_that_are_not_held_only_versus_says_that_models_are_separate(
    run: Run, models: pa.Table, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("calibrant.cli.data.MANY", 100)
    assert run(f"{command} --score old --versus new").exit_code == 0
    refused = run(f"{command} --score old,new")
    assert refused.exit_code == 2
    assert "Or, if they are separate models: --score old --versus new." in refused.stderr


def test_gates_go_by_differences(run: Run, models: pa.Table) -> None:
    passed = run("evaluate models.parquet --score old,new --max log_loss_difference=0 --max new:ece_debiased=0.1")
    assert passed.exit_code == 0
    assert "Gate passed: log_loss_difference -0." in passed.stdout
    failed = run("evaluate models.parquet --score new,old --max log_loss_difference=0 --json")
    assert failed.exit_code == 1
    assert "Gate failed: log_loss_difference 0." in failed.stderr
    (gate,) = json.loads(failed.stdout)["gates"]
    assert (gate["metric"], gate["passed"]) == ("log_loss_difference", False)
    several = "evaluate models.parquet --score old --versus new --versus third"
    assert run(f"{several} --max new:brier_difference=0 --max third:brier_difference=0.1").exit_code == 0
    assert run(f"{several} --max brier_difference=0").exit_code == 2
    unknown = run(f"{several} --max brier=0.2")
    assert unknown.exit_code == 2
    assert "unknown metric 'brier'" in unknown.stderr


def test_the_table_fits_80_columns(run: Run, models: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("evaluate models.parquet --score old --versus new --versus third").stdout.splitlines()
    table = shown[next(i for i, line in enumerate(shown) if line.startswith("metric")) :]
    assert len(table) == 14
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--score old --versus old", "'old' is named twice as a model"),
        ("--score old --versus new --group who", "--group is for one model, and --versus names others"),
        ("--score old,new --group who", "--group is for one model, and 'old', 'new' are taken as separate models"),
        ("--score old --versus nwe", "no column 'nwe'"),
        ("--score old --versus ,", "--versus ',' names no column"),
        ("--score old --versus p0,p1", "'p0,p1' has 2 columns of scores and 'old' one score per row"),
        ("--score old --versus new --calibrator c.json", "--calibrator is for one model"),
        ("--score p0,p1 --versus not_it,it --positive 1", "--positive needs one score column"),
    ],
)
def test_what_can_not_be_compared_is_refused(run: Run, models: pa.Table, options: str, message: str) -> None:
    refused = run(f"evaluate models.parquet {options}")
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_calibrators_of_several_models_are_ranked_together(run: Run, models: pa.Table) -> None:
    found = document(run, "compare models.parquet --score old --versus new --methods sigmoid,beta")
    assert found["models"] == {"old": ["old"], "new": ["new"]}
    assert found["baseline"] == "old: none"
    methods = {each["name"]: each for each in found["methods"]}  # type: ignore[attr-defined]
    assert set(methods) == {f"{model}: {method}" for model in ("old", "new") for method in ("none", "sigmoid", "beta")}
    for model in ("old", "new"):
        alone = document(run, f"compare models.parquet --score {model} --methods sigmoid,beta")
        for each in alone["methods"]:  # type: ignore[attr-defined]
            assert methods[f"{model}: {each['name']}"]["log_loss"] == each["log_loss"], "on the same folds"
    ours, base = methods["new: beta"], methods["old: none"]
    assert ours["log_loss_difference"]["value"] == pytest.approx(ours["log_loss"] - base["log_loss"])
    by_name = {each.name: each for each in cb.compare(
        {"old": models["old"], "new": models["new"]}, models["y"], methods=["sigmoid", "beta"]
    ).methods}  # fmt: skip
    assert by_name["new: beta"].log_loss_difference.low == ours["log_loss_difference"]["low"]
    shown = run("compare models.parquet --score old,new --methods beta")
    assert shown.exit_code == 0
    assert "new: beta" in shown.output
    assert "Best on 800 rows in 5 folds: '" in shown.output


def test_scores_that_are_no_probabilities_are_models_where_they_are_named_so(run: Run, models: pa.Table) -> None:
    """Two columns of logits may be those of two classes: nothing but --versus says that they are not."""
    logits = models.append_column("a", pa.array(np.log(models["old"]) - np.log1p(-models["old"].to_numpy())))
    logits = logits.append_column("b", pa.array(np.log(models["new"]) - np.log1p(-models["new"].to_numpy())))
    pq.write_table(logits, "logits.parquet")
    one = document(run, "compare logits.parquet --input logit --score a,b --methods temperature")
    assert one["score"] == ["a", "b"]
    both = document(run, "compare logits.parquet --input logit --score a --versus b --methods sigmoid")
    plain = document(run, "compare models.parquet --score old --versus new --methods sigmoid")
    losses = [{each["name"][3:]: each["log_loss"] for each in found["methods"]} for found in (both, plain)]  # type: ignore[attr-defined]
    assert len(both["methods"]) == 4  # type: ignore[arg-type]
    assert sorted(losses[0].values()) == pytest.approx(sorted(losses[1].values()), abs=0.02)


def test_a_real_file_of_two_models(run: Run) -> None:
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/tabular_models_binary.parquet")
    scores = pd.read_parquet(Path(folder) / "scores" / "tabular_models_binary.parquet")
    credit = scores[scores["dataset"] == "credit_default"]
    wide = {name: rows["s"].to_numpy() for name, rows in credit.groupby("model") if name in ("logreg", "mlp")}
    y = credit.loc[credit["model"] == "mlp", "y"].to_numpy()
    pd.DataFrame(wide | {"defaulted": y}).to_csv("credit.csv", index=False)
    result = run("evaluate credit.csv --label defaulted --score logreg,mlp --max log_loss_difference=0")
    assert result.exit_code == 0
    assert "'mlp' predicts better than 'logreg'" in result.stdout
    assert "Gate passed: log_loss_difference -0.0" in result.stdout


def test_methods_of_one_model_are_compared_in_memory_too(
    run: Run, models: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MANY", 500)
    monkeypatch.setattr("calibrant.cli.compare.BYTES_BY_FOLDS", 1 << 20)
    result = run("compare models.parquet --score old --methods beta")
    assert result.exit_code == 0, result.output
    assert "Methods are compared on 800 rows in memory, about 0.8 GB: take a sample of the rows" in result.stderr


@pytest.mark.parametrize("command", ["evaluate", "compare --methods beta", "report -o page.html"])
def test_what_a_comparison_takes_of_memory_is_said_of_large_files(
    run: Run, models: pa.Table, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, options = command.partition(" ")
    command = f"{name} models.parquet --score old --versus new {options}"
    quiet = run(command)
    assert quiet.exit_code == 0
    assert "memory" not in quiet.stderr
    monkeypatch.setattr(data, "MANY", 500)
    result = run(command)
    assert result.exit_code == 0, result.output
    assert "Models are compared on 800 rows in memory, about 0 MB: take a sample of the rows" in result.stderr
    assert result.stdout == quiet.stdout
