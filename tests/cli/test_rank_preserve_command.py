"""calibrant rank-preserve: the file it writes, by group, by other methods, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, Nearly, diagnose, rake, solve

Run = Callable[..., Result]
NAMES = ["p_cat", "p_dog", "p_eel"]
NAMES_OF_ARGUMENTS = re.compile(
    r"margin_kind|on_mismatch|gap_tol|max_iter|sample_weight|nearly=|method=|ties=|EpsilonSlack|LambdaPenalty|\btol="
)
TOTALS = {"eel": 60, "cat": 80, "dog": 60}


@pytest.fixture
def matrix(folder: Path) -> np.ndarray:
    """P.parquet: probabilities p_cat, p_dog and p_eel, groups `place`, weights `w`; and m.json: totals by class."""
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(3), 200)
    place = np.where(np.arange(200) % 4 == 0, "north", "south")
    columns = {"id": np.arange(200), **dict(zip(NAMES, P.T, strict=True)), "place": place, "w": np.arange(200) % 3}
    pq.write_table(pa.table(columns), folder / "P.parquet", row_group_size=64)
    (folder / "m.json").write_text(json.dumps(TOTALS))
    return P


def columns(path: Path, names: list[str]) -> np.ndarray:
    table = pq.read_table(path) if path.suffix == ".parquet" else pc.read_csv(path)
    return np.column_stack([table.column(name).to_numpy() for name in names])


def test_new_columns_are_the_matrix_of_solve_beside_the_old_ones(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run("rank-preserve P.parquet --margins m.json --score p_* -o Q.parquet")
    assert done.exit_code == 0, done.output
    expected = solve(matrix, [80, 60, 60])
    lines = done.output.splitlines()
    assert lines[0].startswith(f"adaptive: converged after {expected.n_iter} iterations; gap ")
    assert lines[1].startswith("Moved 0.0")
    assert lines[2] == "Wrote Q.parquet: 200 rows with q_eel, q_cat, q_dog"
    table = pq.read_table(folder / "Q.parquet")
    assert table.column_names == ["id", *NAMES, "place", "w", "q_eel", "q_cat", "q_dog"]
    assert pq.ParquetFile(folder / "Q.parquet").num_row_groups == 4
    np.testing.assert_allclose(columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]), expected.Q, atol=2e-4)
    np.testing.assert_allclose(columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]).sum(axis=0), [80, 60, 60])


def test_groups_have_margins_of_their_own(run: Run, folder: Path, matrix: np.ndarray) -> None:
    shares = {"north": {"cat": 0.5, "dog": 0.3, "eel": 0.2}, "south": {"eel": 0.4, "dog": 0.4, "cat": 0.2}}
    (folder / "g.json").write_text(json.dumps(shares))
    done = run("rank-preserve P.parquet --margins g.json --rates --group place --score p_* -o Q.csv --column new")
    assert done.exit_code == 0, done.output
    assert "over 2 groups; gap" in done.output
    q = columns(folder / "Q.csv", ["new_cat", "new_dog", "new_eel"])
    north = np.arange(200) % 4 == 0
    np.testing.assert_allclose(q[north].mean(axis=0), [0.5, 0.3, 0.2], atol=1e-8)
    np.testing.assert_allclose(q[~north].mean(axis=0), [0.2, 0.4, 0.4], atol=1e-8)


def test_columns_may_be_called_as_the_margins_are(run: Run, folder: Path, matrix: np.ndarray) -> None:
    (folder / "m.json").write_text(json.dumps(dict(zip(NAMES, [80, 60, 60], strict=True))))
    assert run("rank-preserve P.parquet --margins m.json -o Q.parquet").exit_code == 0
    np.testing.assert_allclose(columns(folder / "Q.parquet", [f"q_{n}" for n in NAMES]).sum(axis=0), [80, 60, 60])


@pytest.mark.parametrize("method", ["raking", "isotonic-raking"])
def test_raking_is_a_method(run: Run, folder: Path, matrix: np.ndarray, method: str) -> None:
    done = run(f"rank-preserve P.parquet --margins m.json --score p_* --method {method} --max-iter 50000 -o Q.parquet")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{method}: converged after ")
    assert ("The order is broken" in done.output) == (method == "raking")
    expected = rake(matrix, [80, 60, 60], keep_order=method != "raking", max_iter=50_000).Q
    if method == "raking":
        overtaken = diagnose(matrix, expected).columns[0].overtaken
        assert overtaken > 0.0
        assert re.search(rf"by column: .*cat {overtaken:.2%}.*--method auto and isotonic-raking keep it", done.output)
    np.testing.assert_allclose(columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "nearly"),
    [
        ("epsilon=0.01", EpsilonSlack(0.01)),
        ("lambda=0.001", LambdaPenalty(0.001)),
        ("lambda-all=1e-5", LambdaPenalty(1e-5, "all")),
    ],
)
def test_an_order_may_be_broken_and_the_line_says_by_how_much(
    run: Run, folder: Path, matrix: np.ndarray, text: str, nearly: Nearly
) -> None:
    (folder / "m.json").write_text(json.dumps({"eel": 120, "cat": 20, "dog": 60}))
    done = run(f"rank-preserve P.parquet --margins m.json --score p_* --nearly {text} -o Q.parquet --report page.html")
    assert done.exit_code == 0, done.output
    expected = solve(matrix, [20, 60, 120], nearly=nearly)
    assert expected.rank_residual > 0.005
    assert f"; order broken by {expected.rank_residual:.2g} at most" in done.output.splitlines()[0]
    np.testing.assert_allclose(columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]), expected.Q, atol=1e-9)
    page = (folder / "page.html").read_text("utf-8")
    assert (
        f"The order is broken by {expected.rank_residual:.2g} at most, as was allowed, and the margins are met" in page
    )


def test_a_slack_goes_with_dykstra_and_with_groups(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run(
        "rank-preserve P.parquet --margins m.json --score p_* --nearly epsilon=.05 --method dykstra -o Q.parquet"
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("dykstra: converged after")
    shares = {"cat": 0.1, "dog": 0.3, "eel": 0.6}
    (folder / "g.json").write_text(json.dumps({"north": shares, "south": shares}))
    done = run(
        "rank-preserve P.parquet --margins g.json --rates --group place --score p_* --nearly epsilon=.01 -o Q.parquet"
    )
    assert "order broken by 0.01 at most" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (f"--nearly {text}", f"--nearly '{text}' is none of epsilon=E, lambda=L and lambda-all=L with a number")
            for text in ("0.1", "slack=0.1", "epsilon", "epsilon=x", "epsilon=-1", "epsilon=inf", "lambda=nan")
        ),
        (
            "--nearly lambda=1 --method dykstra",
            "--nearly is a price, and --method dykstra projects, which takes a limit",
        ),
        (
            "--nearly epsilon=1 --method adaptive",
            "--nearly goes with --method admm and --ties equal, and --nearly epsilon",
        ),
        ("--nearly epsilon=1 --ties free", "Leave --method, --ties and --order-tol out."),
        ("--nearly epsilon=1 --method raking", "--method raking takes none of --group, --ties free, --nearly"),
    ],
)
def test_what_no_order_can_be_broken_by_is_named(
    run: Run, folder: Path, matrix: np.ndarray, options: str, message: str
) -> None:
    done = run(f"rank-preserve P.parquet --margins m.json --score p_* -o Q.parquet {options}")
    assert done.exit_code == 2
    assert message in done.output
    assert not NAMES_OF_ARGUMENTS.search(done.output)
    assert not (folder / "Q.parquet").exists()


def test_rounded_rows_need_to_be_normalised_and_weights_count(run: Run, folder: Path, matrix: np.ndarray) -> None:
    rounded = dict(zip(NAMES, matrix.round(4).T, strict=True))
    pc.write_csv(pa.table({**rounded, "w": np.arange(200) % 3}), folder / "P.csv")
    options = "--margins m.json --score p_* --weight w --rescale -o Q.csv"
    done = run(f"rank-preserve P.csv {options}")
    assert done.exit_code == 2
    assert "not 1 to rounding" in done.output
    assert "Add --normalise to divide each row by its sum." in done.output
    done = run(f"rank-preserve P.csv {options} --normalise")
    assert done.exit_code == 0, done.output
    table = pc.read_csv(folder / "Q.csv")
    w = np.arange(200) % 3
    q = np.column_stack([table.column(f"q_{name}").to_numpy() for name in ("cat", "dog", "eel")])
    np.testing.assert_allclose(w[w > 0] @ q[w > 0] / w.sum(), [0.4, 0.3, 0.3], atol=1e-8)


def test_report_is_a_page(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run("rank-preserve P.parquet --margins m.json --score p_* -o Q.parquet --report page.html")
    assert done.exit_code == 0, done.output
    assert "Wrote page.html" in done.output
    assert "The order is kept and the margins are met" in (folder / "page.html").read_text("utf-8")


def test_search_that_stops_early_warns(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run(
        "rank-preserve P.parquet --margins m.json --score p_* -o Q.parquet --method dykstra --max-iter 1 --gap 1e-9"
    )
    assert done.exit_code == 0
    assert "Warning: dykstra stopped after 1 iterations with a gap of" in done.output
    assert "move slowly where margins are far; --method auto does not." in done.output
    raked = run("rank-preserve P.parquet --margins m.json --score p_* -o Q.parquet --method raking --max-iter 1")
    assert "Raise --max-iter." in raked.output
    assert not NAMES_OF_ARGUMENTS.search(done.output + raked.output)
    assert "dykstra: stopped before it had converged" in done.output


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("{", "", "m.json: the JSON ends too early"),
        ("[1, 2]", "", 'm.json holds no margins by name. Write it so: {"cat": 120, "dog": 80}.'),
        ('{"cat": "many"}', "", "m.json: the margin of 'cat' is 'many', no number. Write one, or [low, high]."),
        ('{"north": {"cat": 1}}', "", "no number. Name the column of groups with --group."),
        ('{"cat": 1, "dog": 2}', "--group place", 'holds no margins by name. Write it so: {"north": {"cat": 20'),
        ('{"cat": 120, "dog": 80}', "", "m.json names 'cat', which is no column of the file. Name the columns with"),
        (
            '{"cat": 120, "dog": 80}',
            "--score p_*",
            "--score names 3 columns, p_cat, p_dog, p_eel, and m.json 2 margins",
        ),
        (
            '{"a": 120, "b": 40, "c": 40}',
            "--score p_*",
            "m.json names a, b, c, and none of these names is what is left",
        ),
        ('{"cat": 120, "dog": 80, "eel": 10}', "--score p_*", "margins (totals) sum to 210, and each of the rows to 1"),
        ('{"cat": 120, "dog": 80, "eel": 0}', "--score p_* --rates", "margins of column 'cat': 120.0 is above 1"),
        ('{"cat": 120, "dog": 80, "eel": 10}', "--score p_*", "Add --rescale to multiply the margins by 0.952380952"),
        (
            '{"cat": 0.2, "dog": 0.3, "eel": 0.5}',
            "--score p_*",
            "sum to 1, as shares do, and the rows to 200. Add --rates for shares",
        ),
        (
            '{"cat": 120, "dog": 80, "eel": 0}',
            "--score p_* --rates",
            "Add --rates for shares of the rows, leave it out",
        ),
        ('{"cat": -1, "dog": 101, "eel": 100}', "--score p_*", "margins of column 'cat': -1.0 is negative, and no"),
        ('{"cat": 210, "dog": 0, "eel": 0}', "--score p_*", "margins of column 'cat': 210.0 is above 200, the weight"),
        ('{"cat": NaN, "dog": 100, "eel": 100}', "--score p_*", "m.json: cat: nan is not a finite number"),
        ('{"cat": 80, "dog": 60, "eel": 60}', "--score p_* --gap 0", "--gap 0.0 is "),
        ('{"cat": 80, "dog": 60, "eel": 60}', "--score p_* --max-iter 0", "--max-iter 0 is too small"),
        ('{"cat": 0, "dog": 0, "eel": 0}', "--score p_*", "margins are all 0, and each row of Q sums to 1"),
        ('{"p_cat": 200}', "", "m.json has one margin, and one column is no matrix"),
        ('{"cat": 80, "dog": 60, "eel": 60}', "--score p_* --group id", "m.json holds no margins by name"),
        ('{"cat": 80, "dog": 60, "eel": 60}', "--score p_* --report page.pdf", "--report page.pdf is no page"),
        (
            '{"north": {"cat": 1, "dog": 0, "eel": 0}, "south": {"cat": 1, "dog": 0}}',
            "--score p_* --rates --group place",
            "group 'south': margins has the names ['cat', 'dog'], and P ['cat', 'dog', 'eel']",
        ),
        (
            '{"north": {"cat": 1, "dog": 0, "eel": 0}, "south": {"cat": 1, "dog": 0, "eel": 0}}',
            "--score p_* --rates --group place --method raking",
            "--method raking takes none of --group, --ties free, --nearly",
        ),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_is_written(
    run: Run, folder: Path, matrix: np.ndarray, text: str, options: str, message: str
) -> None:
    (folder / "m.json").write_text(text)
    done = run(f"rank-preserve P.parquet --margins m.json -o Q.parquet {options}")
    assert done.exit_code == 2
    assert message in done.output
    assert not NAMES_OF_ARGUMENTS.search(done.output)
    assert not (folder / "Q.parquet").exists()


def test_standard_input_is_refused(run: Run, matrix: np.ndarray) -> None:
    done = run("rank-preserve - --margins m.json -o Q.parquet")
    assert done.exit_code == 2
    assert "the file is read twice, which standard input can't be" in done.output
    assert run("rank-preserve P.parquet --margins gone.json -o Q.parquet").exit_code == 2


def test_output_takes_the_place_of_the_source_whole(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run("rank-preserve P.parquet --margins m.json --score p_* -o P.parquet")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == ["P.parquet", "m.json"]
    assert "q_cat" in pq.read_schema(folder / "P.parquet").names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "class,total\ndog,60\ncat,80\neel,60\n"),
        ("m.csv", "class;total\ndog;60\ncat;80\neel;60\n"),
        ("m.csv", "class,low,high\ndog,60,60\ncat,80,80\neel,60,60\n"),
        ("m.json", '{"dog": [60, 60], "cat": 80, "eel": 60}'),
    ],
)
def test_margins_of_a_csv_and_intervals(run: Run, folder: Path, matrix: np.ndarray, name: str, text: str) -> None:
    (folder / name).write_text(text)
    done = run(f"rank-preserve P.parquet --margins {name} --score p_* -o Q.parquet")
    assert done.exit_code == 0, done.output
    found = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"])
    np.testing.assert_allclose(found, solve(matrix, [80, 60, 60]).Q, atol=5e-4)


def test_totals_of_groups_with_a_tolerance_from_either_kind_of_csv(run: Run, folder: Path, matrix: np.ndarray) -> None:
    (folder / "wide.csv").write_text("place,cat,dog,eel\nnorth,25,14,11\nsouth,40,60,50.5\n")
    (folder / "long.csv").write_text(
        "place,class,total\nnorth,cat,25\nnorth,dog,14\nnorth,eel,11\nsouth,cat,40\nsouth,dog,60\nsouth,eel,50.5\n"
    )
    answers = []
    for name in ("wide.csv", "long.csv"):
        done = run(
            f"rank-preserve P.parquet --margins {name} --score p_* --group place --tolerance 2% -o Q.parquet "
            "--report p.html"
        )
        assert done.exit_code == 0, done.output
        answers.append(columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]))
    np.testing.assert_array_equal(*answers)
    north = np.arange(200) % 4 == 0
    for rows, totals in ((north, [25.0, 14.0, 11.0]), (~north, [40.0, 60.0, 50.5])):
        met = answers[0][rows].sum(axis=0)
        assert (np.abs(met - totals) <= 0.02 * np.array(totals) + 1e-6).all()
        assert np.abs(met - totals).max() > 0.01
    page = (folder / "p.html").read_text()
    assert "Wanted" in page
    assert "north" in page


def test_totals_of_two_sets_of_groups_hold_at_once(run: Run, folder: Path, matrix: np.ndarray) -> None:
    """By place from a CSV, by w from JSON; with a tolerance they bind, and totals at odds are named by column."""
    north, w = np.arange(200) % 4 == 0, np.arange(200) % 3
    wanted = matrix**1.2 / (matrix**1.2).sum(axis=1, keepdims=True)
    lines = [
        f"{name},{','.join(map(str, wanted[at].sum(axis=0).tolist()))}"
        for name, at in (("north", north), ("south", ~north))
    ]
    (folder / "places.csv").write_text("\n".join(["place,cat,dog,eel", *lines]))
    by_w = {
        str(v): dict(zip(("cat", "dog", "eel"), wanted[w == v].sum(axis=0).tolist(), strict=True)) for v in range(3)
    }
    (folder / "w.json").write_text(json.dumps(by_w))
    call = (
        "rank-preserve P.parquet --score p_* --group place --margins places.csv --group w --margins w.json -o Q.parquet"
    )
    done = run(f"{call} --report page.html")
    assert done.exit_code == 0, done.output
    assert " over 6 cells; gap " in done.output
    found = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"])
    for at in (north, ~north, *(w == v for v in range(3))):
        np.testing.assert_allclose(found[at].sum(axis=0), wanted[at].sum(axis=0), atol=1e-6)
    page = (folder / "page.html").read_text()
    assert "over 6 cells of place and w" in page
    assert "w 2" in page
    by_w["0"]["cat"] += 0.5
    by_w["0"]["dog"] -= 0.5
    (folder / "w.json").write_text(json.dumps(by_w))
    at_odds = run(call)
    assert at_odds.exit_code == 2
    assert re.search(r"no matrix of these rows has these 5 totals.*of place 'north'", at_odds.output.replace("\n", " "))
    assert "of w 0" in at_odds.output.replace("\n", " ")
    assert not list(folder.glob("Q.parquet.*"))
    near = run(f"{call} --tolerance 1")
    assert near.exit_code == 0, near.output
    assert re.search(r"\d+ of 15 totals bind", near.output)


def test_labels_give_the_margins(run: Run, folder: Path, matrix: np.ndarray) -> None:
    table = pq.read_table(folder / "P.parquet")
    y = np.array(["cat", "dog", "eel"])[np.random.default_rng(0).integers(0, 3, 200)]
    pq.write_table(table.append_column("y", pa.array(y.tolist())), folder / "L.parquet")
    done = run("rank-preserve L.parquet --label y --score p_* -o Q.parquet")
    assert done.exit_code == 0, done.output
    met = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"]).sum(axis=0)
    np.testing.assert_allclose(met, [(y == name).sum() for name in ("cat", "dog", "eel")], atol=1e-6)
    by_place = run("rank-preserve L.parquet --label y --score p_* --group place --weight w -o Q.parquet")
    assert by_place.exit_code == 0, by_place.output
    by_both = run("rank-preserve L.parquet --label y --score p_* --group place --group w -o Q.parquet")
    assert by_both.exit_code == 0, by_both.output
    both = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"])
    at = np.arange(200) % 3 == 1
    np.testing.assert_allclose(
        both[at].sum(axis=0), [(y[at] == name).sum() for name in ("cat", "dog", "eel")], atol=1e-6
    )


def test_labels_are_read_as_evaluate_reads_them(run: Run, folder: Path, matrix: np.ndarray) -> None:
    y = np.arange(200) % 3
    table = pa.table({f"p_{k}": matrix[:, k] for k in range(3)} | {"y": y.astype(float)})
    pq.write_table(table, folder / "L.parquet")
    done = run("rank-preserve L.parquet --label y --score p_* -o Q.parquet")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(columns(folder / "Q.parquet", ["q_0", "q_1", "q_2"]).sum(axis=0), [67, 67, 66])
    missing = pa.array([None, *y[1:].tolist()])
    pq.write_table(table.set_column(3, "y", missing), folder / "L.parquet")
    done = run("rank-preserve L.parquet --label y --score p_* -o Q.parquet")
    assert done.exit_code == 2
    assert "column 'y' of L.parquet row 0: missing label (1 of 200 rows)" in done.output


def test_rows_of_single_precision_pass(run: Run, folder: Path, matrix: np.ndarray) -> None:
    single = {name: matrix[:, j].astype(np.float32) for j, name in enumerate(NAMES)}
    pq.write_table(pa.table(single), folder / "S.parquet")
    done = run("rank-preserve S.parquet --margins m.json --score p_* -o Q.parquet")
    assert done.exit_code == 0, done.output
    found = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"])
    np.testing.assert_allclose(found, solve(matrix, [80, 60, 60]).Q, atol=1e-6)


def test_a_floor_and_a_window_go_to_the_solver(run: Run, folder: Path, matrix: np.ndarray) -> None:
    done = run("rank-preserve P.parquet --margins m.json --score p_* --floor 0.01 --order-tol 0.05 -o Q.parquet")
    assert done.exit_code == 0, done.output
    found = columns(folder / "Q.parquet", ["q_cat", "q_dog", "q_eel"])
    assert found.min() >= 0.01 - 1e-12
    np.testing.assert_allclose(found, solve(matrix, [80, 60, 60], floor=0.01, order_tol=0.05).Q, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "Pass one of --margins and --label"),
        ("--margins m.json --label place", "Pass one of --margins and --label"),
        ("--margins m.json --margins m.json", "2 files of --margins and 0 columns of --group"),
        ("--margins m.json --group place --group w", "1 file of --margins and 2 columns of --group"),
        ("--margins m.json --group w --margins m.json --group w", "--group w is there twice"),
        ("--margins m.json --tolerance x", "--tolerance 'x' is no number"),
        ("--margins m.json --tolerance -1", "--tolerance -1 is not at least 0"),
        ("--margins i.json --tolerance 1", "the margins are intervals"),
        ("--margins t.csv", "class,total"),
        ("--margins n.csv", "n.csv line 3, column 'total': 'x' is no number"),
        ("--margins two.csv", "two.csv line 3: 'cat' has a line already"),
        ("--margins groups.csv --group place", "groups.csv line 4: 'north' has a line already"),
        ("--margins columns.csv --group place", "columns.csv has 2 columns 'cat'"),
        ("--margins none.csv", "Error: none.csv: No such file or directory"),
        ("--margins m.json --tolerance 1 --method raking", "Leave the tolerance out"),
        ("--margins m.json --floor 0.5", "--floor 0.5 leaves nothing"),
        ("--margins m.json --floor 0.1 --method raking", "--floor"),
        ("--label place", "--label place 2 margins, north, south"),
    ],
)
def test_margins_that_cannot_be_used(run: Run, folder: Path, matrix: np.ndarray, options: str, message: str) -> None:
    (folder / "i.json").write_text('{"dog": [50, 60], "cat": 80, "eel": 60}')
    (folder / "t.csv").write_text("name,count\ncat,80\n")
    (folder / "groups.csv").write_text("place,cat,dog,eel\nnorth,9,9,9\nsouth,9,9,9\nnorth,25,14,11\n")
    (folder / "columns.csv").write_text("place,cat,cat,eel\nnorth,9,9,9\n")
    (folder / "n.csv").write_text("class,total\ncat,80\ndog,x\n")
    (folder / "two.csv").write_text("class,total\ncat,80\ncat,60\n")
    done = run(f"rank-preserve P.parquet {options} --score p_* -o Q.parquet")
    assert done.exit_code == 2
    assert message.replace("class,total", "the columns class and total") in done.output
    assert not (folder / "Q.parquet").exists()
