"""Commands on files with a column of scores for each of several classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.calibrators import CALIBRATORS

Run = Callable[..., Result]
COLUMNS = ["p_cat", "p_dog", "p_eel"]


def matrix(table: pa.Table, prefix: str = "p_") -> np.ndarray:
    return np.column_stack([table[prefix + name].to_numpy() for name in ("cat", "dog", "eel")])


@pytest.fixture
def logits(several: pa.Table) -> pa.Table:
    """The same rows with the logs of the probabilities, as logits.parquet: scores z_cat, z_dog, z_eel."""
    z = np.log(matrix(several))
    table = pa.table({"y": several["y"], **{f"z_{name}": z[:, k] for k, name in enumerate(("cat", "dog", "eel"))}})
    pq.write_table(table, "logits.parquet")
    return table


@pytest.mark.parametrize("method", CALIBRATORS)
def test_every_method_is_fitted_inspected_and_applied(run: Run, several: pa.Table, method: str) -> None:
    fitted = run(f"fit several.parquet --score p_* --method {method} -o c.json")
    assert fitted.exit_code == 0, fitted.output
    assert re.search(rf"^Fitted {method}( of isotonic)? on 600 rows of classes cat, dog, eel\.$", fitted.output, re.M)
    assert run("inspect c.json").exit_code == 0
    assert run("apply c.json several.parquet -o out.parquet").exit_code == 0
    expected = CALIBRATORS[method]().fit(several.select(COLUMNS), several["y"]).predict_proba(matrix(several))
    np.testing.assert_array_equal(matrix(pq.read_table("out.parquet"), "p_calibrated_"), expected)


@pytest.mark.parametrize(
    ("options", "like"),
    [
        ("--method top_label --calibrator spline", cb.TopLabelCalibrator("spline")),
        ("--method top_label --per-class", cb.TopLabelCalibrator(per_class=True)),
        (
            "--method one_vs_rest --calibrator beta --coupling likelihood",
            cb.OneVsRestCalibrator("beta", coupling="likelihood"),
        ),
    ],
)
def test_options_of_calibrators_that_are_made_of_another_one(
    run: Run, several: pa.Table, options: str, like: cb.Calibrator
) -> None:
    result = run(f"fit several.parquet --score p_* {options} -o c.json")
    assert result.exit_code == 0, result.output
    assert f"Fitted {like.name} of {options.split('--calibrator ')[-1].split()[0]}" in result.output or (
        "Fitted top_label of isotonic" in result.output
    )
    assert repr(cb.load("c.json")) == repr(like)


def test_logits_reach_the_calibrator_inside(run: Run, logits: pa.Table) -> None:
    result = run("fit logits.parquet --score z_* --input logit --method top_label --calibrator sigmoid -o c.json")
    assert result.exit_code == 0, result.output
    assert repr(cb.load("c.json")) == "TopLabelCalibrator(SigmoidCalibrator(input='logit'))"
    assert "scores are     logit" in run("inspect c.json").output


def test_a_top_label_is_shown_from_the_least_that_it_can_be(run: Run, several: pa.Table) -> None:
    run("fit several.parquet --score p_* --method top_label -o c.json")
    shown = run("inspect c.json").output.split("becomes\n")[1].split("\n\n")[0]
    rows = [tuple(map(float, line.split())) for line in shown.splitlines()]
    assert [at for at, _ in rows] == pytest.approx(np.arange(4, 11) / 10)
    assert min(q for _, q in rows) >= 0.3333


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method vektor", "unknown method 'vektor'. Did you mean 'vector'?"),
        ("--method top_lable", "unknown method 'top_lable'. Did you mean 'top_label'?"),
        ("--method top_label --calibrator beto", "unknown --calibrator 'beto'. Did you mean 'beta'?"),
        ("--method top_label --calibrator vector", "unknown --calibrator 'vector'."),
        ("--method top_label --calibrator beta --input logit", "--calibrator beta does not take --input"),
        ("--method one_vs_rest --coupling even", "unknown value of coupling: 'even'"),
        ("--method vector --calibrator beta", "method 'vector' does not take --calibrator. It takes --input."),
        ("--method one_vs_rest --per-class", "It takes --calibrator and --coupling and --input."),
        ("--method dirichlet --input logit", "method 'dirichlet' does not take --input. It takes no such option."),
    ],
)
def test_refusals_name_the_option(run: Run, several: pa.Table, options: str, message: str) -> None:
    result = run(f"fit several.parquet --score p_* {options} -o c.json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("c.json").exists()


def test_evaluate_has_a_row_for_each_class(run: Run, several: pa.Table) -> None:
    output = run("evaluate several.parquet --score p_*").output
    found = cb.metrics.evaluate_classes(several["y"], several.select(COLUMNS))
    assert f"By class: {found.verdict}" in output
    rows = output.split("\nclass ")[1].splitlines()[1:-1]
    assert [row.split()[0] for row in rows] == list(found.classes)
    for row, (label, scores) in zip(rows, found.classes.items(), strict=True):
        assert f"{scores['mean_prob'].value:.4f}" in row
        assert f"[{scores['mean_gap'].low:z.3f}, {scores['mean_gap'].high:z.3f}]" in row
        assert row.endswith("off") == found.is_off(label)
    document = json.loads(run("evaluate several.parquet --score p_* --json").output)
    assert document["by_class"] == json.loads(json.dumps(found.to_dict()))


def test_two_classes_have_no_table_of_classes(run: Run, binary: pa.Table) -> None:
    assert "By class" not in run("evaluate scores.csv").output
    assert "by_class" not in json.loads(run("evaluate scores.csv --json").output)


def test_of_many_classes_the_worst_are_shown_and_long_names_are_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    names = [f"class with a long name {k:02d}" for k in range(25)]
    p = rng.dirichlet(np.ones(25), 500)
    table = pa.table(
        {"y": [names[k] for k in rng.integers(0, 25, 500)]} | {f"p_{n}": p[:, k] for k, n in enumerate(names)}
    )
    pq.write_table(table, "many.parquet")
    monkeypatch.setenv("COLUMNS", "80")
    output = run("evaluate many.parquet --score p_*").output
    assert "'p_class with a long name 05', and 19 more; classes by name" in output
    assert output.splitlines()[-2] == "and 5 more: see --json"
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"class +predicted +observed", line))
    rows = lines[start:-2]
    assert len(rows) == 1 + 20
    assert max(map(len, rows)) <= 80
    assert rows[1].startswith("class with \N{HORIZONTAL ELLIPSIS} ")


def test_comparison_ranks_the_methods_of_several_classes_in_80_columns(run: Run, several: pa.Table) -> None:
    result = run(
        "compare several.parquet --score p_* --folds 2 --methods top_label,vector,ensemble_temperature,one_vs_rest"
    )
    assert result.exit_code == 0, result.output
    ranked = cb.compare(
        several.select(COLUMNS),
        several["y"],
        methods=["top_label", "vector", "ensemble_temperature", "one_vs_rest"],
        cv=2,
    )
    lines = result.output.split("\nmethod ")[1].splitlines()
    assert [line.split()[0] for line in lines[1:]] == [m.name for m in ranked.methods]
    assert max(map(len, lines)) <= 80
    document = json.loads(run("compare several.parquet --score p_* --folds 2 --methods vector --json").output)
    assert "brier_difference" in document["methods"][0]


@pytest.mark.slow
def test_report_of_several_classes_advises_the_automatic_choice(run: Run, several: pa.Table) -> None:
    assert run("report several.parquet --score p_* -o page.html").exit_code == 0
    page = Path("page.html").read_text("utf-8")
    for heading in ("Each class against the rest", "Shares of the classes", "How sure, and how often right"):
        assert f"<h2>{heading}</h2>" in page
    words = " ".join(re.sub("<[^>]+>", "", page).split())
    assert "calibrant fit several.parquet --label y --score p_cat,p_dog,p_eel --method auto -o calibrator.json" in words


def test_a_class_without_a_column_is_named_where_rows_do_not_sum_to_one(run: Run, several: pa.Table) -> None:
    refused = run("evaluate several.parquet --score p_cat,p_dog")
    assert refused.exit_code == 2
    assert (
        "Or name a column for each class: --score names 2, and 'y' has 3 classes, 'cat', 'dog', 'eel'."
        in refused.output
    )
