"""calibrant fit: the library's map, honest figures, and options that a method takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant import persistence
from calibrant.calibrators import ALIASES, CALIBRATORS
from calibrant.errors import DataWarning

Run = Callable[..., Result]


def same_map(path: str, calibrator: cb.calibrators.Calibrator) -> bool:
    return bool(persistence.read_document(path)["map"] == persistence.to_document(calibrator)["map"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "calibrator"),
    [
        ("", cb.AutoCalibrator()),
        ("--method isotonic", cb.IsotonicCalibrator()),
        ("--method mimic --threshold-pos 7", cb.MimicCalibrator(7)),
        ("--method isotonic --bounded", cb.IsotonicCalibrator(bounded=True)),
        ("--method sigmoid", cb.SigmoidCalibrator()),
        ("--method platt --input score", cb.SigmoidCalibrator(input="score")),
        ("--method beta --form am", cb.BetaCalibrator(form="am")),
        ("--method histogram --bins 5 --strategy uniform", cb.HistogramCalibrator(n_bins=5, strategy="uniform")),
        ("--method temperature --input logit", cb.TemperatureCalibrator(input="logit")),
    ],
)
def test_saved_calibrator_is_the_librarys(
    run: Run, binary: pa.Table, options: str, calibrator: cb.calibrators.Calibrator
) -> None:
    result = run(f"fit scores.parquet {options} -o c.json")
    assert result.exit_code == 0
    assert same_map("c.json", calibrator.fit(binary["p"], binary["y"]))
    loaded = persistence.load("c.json")
    assert loaded.get_params() == calibrator.get_params()
    assert loaded.classes_.tolist() == [0, 1]
    assert loaded.score_names_ == ("p",)
    assert loaded.metadata_ == {"label": "y"}
    assert f"Fitted {calibrator.name} on 600 rows of classes 0, 1." in result.output
    assert "Saved c.json\nNext:  calibrant apply c.json new.parquet -o out.parquet\n" in result.output


def test_weights_reach_the_fit(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv --method isotonic --weight w -o c.json")
    assert same_map("c.json", cb.IsotonicCalibrator().fit(binary["p"], binary["y"], sample_weight=binary["w"]))


def test_several_columns_are_fitted_in_the_order_of_their_classes(run: Run, several: pa.Table) -> None:
    result = run("fit several.parquet --method isotonic --score p_* -o c.json")
    assert result.exit_code == 0
    assert same_map("c.json", cb.IsotonicCalibrator().fit(several.select(["p_cat", "p_dog", "p_eel"]), several["y"]))
    assert persistence.load("c.json").score_names_ == ("p_cat", "p_dog", "p_eel")
    assert "Fitted isotonic on 600 rows of classes cat, dog, eel." in result.output


def test_figures_are_out_of_fold(run: Run) -> None:
    """On labels that scores say nothing of, an in-sample figure would show a gain, and an honest one shows none."""
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"y": rng.integers(0, 2, 200), "p": np.full(200, 0.5) + rng.normal(0, 1e-6, 200)}), "n.pq")
    result = run("fit n.pq --method isotonic -o c.json")
    before, after = figures(result.output, "brier")
    assert "Out of fold (5 folds; each row calibrated by a fit that has not seen it):" in result.output
    assert before == pytest.approx(0.25, abs=1e-4)
    assert after > before


def test_figures_before_are_those_of_evaluate_and_seeded(run: Run, binary: pa.Table) -> None:
    scores = cb.evaluate(binary["y"], binary["p"])
    first = run("fit scores.csv -o c.json --method beta").output
    assert figures(first, "brier")[0] == round(scores["brier"].value, 4)
    assert figures(first, "log_loss")[0] == round(scores["log_loss"].value, 4)
    assert figures(first, "ece")[0] > figures(first, "ece")[1]
    assert run("fit scores.csv -o c.json --method beta").output == first
    assert run("fit scores.csv -o c.json --method beta --seed 1").output != first


def test_logits_are_compared_as_probabilities_and_raw_scores_are_not(run: Run, binary: pa.Table) -> None:
    p = binary["p"].to_numpy()
    pq.write_table(binary.append_column("z", pa.array(np.log(p / (1 - p)))), "z.parquet")
    probabilities = figures(run("fit scores.csv --method temperature -o c.json").output, "brier")
    assert figures(run("fit z.parquet --score z --input logit --method temperature -o c.json").output, "brier") == (
        probabilities
    )
    raw = run("fit z.parquet --score z --input score --method sigmoid -o c.json").output
    assert re.search(r"^metric +after +95% interval$", raw, re.MULTILINE)


def test_notes_say_whether_they_are_of_before_or_after(run: Run, several: pa.Table) -> None:
    output = run("fit several.parquet --method temperature --score p_* -o c.json").output
    assert re.search(r"^before, class_gap: \d of 3 classes are off", output, re.MULTILINE)
    assert not re.search(r"^class_gap: ", output, re.MULTILINE)


@pytest.mark.slow
def test_infinite_loss_is_explained(run: Run, binary: pa.Table) -> None:
    output = run("fit scores.csv -o c.json").output
    assert ("log_loss: infinite" in output) == bool(re.search(r"^log_loss .* inf", output, re.MULTILINE))


def test_too_few_rows_for_folds_are_said(run: Run) -> None:
    Path("t.csv").write_text("y,p\n0,0.5\n1,0.75\n0,0.25\n")
    result = run("fit t.csv -o c.json")
    assert result.exit_code == 0
    assert "No out-of-fold figures: a class has fewer than two rows." in result.output


def test_rows_without_weight_leave_every_fold_its_classes(run: Run) -> None:
    rows = [f"{i % 2},0.{i + 10},{int(i < 4)}" for i in range(80)]
    Path("t.csv").write_text("\n".join(["y,p,w", *rows]))
    result = run("fit t.csv --weight w -o c.json")
    assert result.exit_code == 0
    assert "Out of fold (2 folds;" in result.output


def test_class_without_rows_is_a_warning_line(run: Run) -> None:
    Path("t.csv").write_text("y,a,b,c\n" + "u,0.5,0.25,0.25\nv,0.25,0.5,0.25\n" * 10)
    result = run("fit t.csv --score a,b,c --classes u,v,w --method sigmoid -o c.json")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: class 'w' has no rows to calibrate on")
    with pytest.warns(DataWarning, match="class 'w' has no rows"):
        cb.SigmoidCalibrator().fit([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], ["u", "v"], classes=["u", "v", "w"])


@pytest.mark.slow
def test_next_command_can_be_typed(run: Run, binary: pa.Table) -> None:
    output = run("fit scores.csv -o", "my calibrator.json").output
    command = output.rpartition("Next:  ")[2]
    assert shlex.split(command) == ["calibrant", "apply", "my calibrator.json", "new.csv", "-o", "out.csv"]


def test_help_names_every_method(run: Run) -> None:
    shown = run("fit --help").output
    for name in (*CALIBRATORS, *ALIASES):
        assert name in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-o c.json --method isotonc", "unknown method 'isotonc'. Did you mean 'isotonic'?"),
        ("-o c.json --method sigmoid --bounded", "method 'sigmoid' does not take --bounded. It takes --input."),
        ("-o c.json --method beta --input logit", "method 'beta' does not take --input. It takes --form."),
        (
            "-o c.json --method isotonic --bins 5",
            "method 'isotonic' does not take --bins. It takes --bounded and --input.",
        ),
        ("-o c.json --method histogram --bins 0", "--bins 0 is too small"),
        ("-o c.json --method histogram --strategy equal", "unknown value of strategy: 'equal'"),
        ("-o c.json --method beta --form x", "unknown value of form: 'x'"),
        ("-o c.json --input logits", "unknown value of --input: 'logits'. Did you mean 'logit'?"),
        ("-o c.txt", "End it in .json (readable text) or .pkl"),
        ("-o no/c.json", "no/"),
        ("", "Missing option '-o' / '--output'"),
        ("-o scores.csv", "-o scores.csv is the file that is read. Write to another one."),
        ("-o c.json --score row", "column 'row' of scores.csv line 4: 2.0 is outside [0, 1]"),
    ],
)
def test_what_can_not_be_fitted_is_said_and_nothing_is_written(
    run: Run, binary: pa.Table, options: str, message: str
) -> None:
    before = Path("scores.csv").read_bytes()
    result = run(f"fit scores.csv {options}")
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path("scores.csv").read_bytes() == before
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["scores.csv", "scores.parquet"]


def test_labels_of_one_class_are_refused_by_name(run: Run) -> None:
    Path("t.csv").write_text("y,p\n1,0.5\n1,0.75\n")
    result = run("fit t.csv -o c.json")
    assert result.exit_code == 2
    assert "column 'y' of t.csv holds one class only: 1 in all 2 rows" in result.stderr


def figures(output: str, name: str) -> tuple[float, float]:
    """Return the figures before and after in the row of a metric."""
    (line,) = [line for line in output.splitlines() if line.startswith(f"{name} ")]
    before, after = (float(word) for word in re.sub(r"\[.*?\]", "", line).split()[1:])
    return before, after


def test_progress_is_shown_on_a_terminal_only(run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("fit scores.csv --method sigmoid -o c.json")
    assert "Fitting" not in result.stderr
    told: list[str] = []

    @contextmanager
    def shown(what: str, noun: str = "rows") -> Iterator[Callable[[int], None]]:
        told.append(what)
        yield lambda n: told.append(f"{what} {n} {noun}")

    monkeypatch.setattr("calibrant.cli.common.progress", shown)
    run("fit scores.csv --method sigmoid -o c.json")
    assert told == ["Fitting", "Fitting without fold", *(f"Fitting without fold {k} of 5" for k in range(1, 6))]


def test_exportable_is_a_setting_of_auto(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv --exportable sql -o c.json")
    assert persistence.load("c.json").get_params()["exportable"] == "sql"
    refused = run("fit scores.csv --method sigmoid --exportable sql -o c.json")
    assert refused.exit_code == 2
    assert "method 'sigmoid' does not take --exportable" in refused.stderr
