"""The project file: names, classes and layouts that commands take from it, and refusals that name its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from calibrant.cli.project import read_project

Run = Callable[..., Result]


def write(text: str, name: str = "calibrant.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


COMMANDS = {
    "evaluate": "evaluate named.parquet --json",
    "report": "report named.parquet -o report.json",
    "audit": "audit named.parquet --features w --json",
    "fit": "fit named.parquet --method isotonic -o fitted.json",
    "monitor": "monitor named.parquet --rows 200 --json",
    "compare": "compare named.parquet --methods isotonic,sigmoid --json",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_other_commands_take_names_of_columns_and_say_so(
    run: Run, binary: pa.Table, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pq.write_table(binary.rename_columns(["row", "truth", "said", "w"]), "named.parquet")
    assert run(command).exit_code == 2
    written = [Path(word) for word in command.split() if word in ("report.json", "fitted.json")]
    plain = run(f"{command} --label truth --score said")
    expected = [plain.stdout, *(path.read_text("utf-8") for path in written)]
    write('label = "truth"\nscore = "said"\n')
    result = run(command)
    assert result.exit_code == plain.exit_code in (0, 1)
    assert "label 'truth', score 'said' by calibrant.toml" in result.stderr
    assert [result.stdout, *(path.read_text("utf-8") for path in written)] == expected
    write('label = "nobody"\nscore = "said"\n')
    own = run(f"{command} --label truth")
    assert own.exit_code == plain.exit_code
    assert own.stderr.startswith("score 'said' by calibrant.toml")


def test_defaults_of_classes_go_with_their_scores(run: Run, several: pa.Table) -> None:
    write('score = ["p_eel", "p_cat", "p_dog"]\nclasses = ["eel", "cat", "dog"]\n')
    shown = run("evaluate several.parquet").output
    assert "classes as --classes says: p_cat = 'cat'" in shown
    assert "classes by name" in run("evaluate several.parquet --score p_*").output


NEAR = '[[check]]\nname = "a"\nfiles = "scores.csv"\nmax = {brier = 1}\n'
#: Each wrong call: the project file or None, the command's words, and what the refusal says.
WRONG = {
    "no project": (None, "check", "there is no calibrant.toml, and no pyproject.toml"),
    "no such config": (NEAR, "check --config other.toml", "other.toml: No such file or directory"),
    "no checks": ('label = "y"\n', "check", "calibrant.toml has no [[check]]"),
    "no table": (NEAR, "check --config pyproject.toml", "has no table [tool.calibrant]"),
    "no TOML": ("label = \n", "check", "no TOML file: Invalid value (at line 1"),
    "unknown shared key": (
        'lable = "y"\n',
        "check",
        "line 1: the shared table: unknown key 'lable'. Did you mean 'label'?",
    ),
    "unknown key": (f"{NEAR}scores = 'p'\n", "check", "line 5: check[0]: unknown key 'scores'. Did you mean 'score'?"),
    "wrong type": (NEAR + NEAR.replace('"a"', '"b"') + "label = 5\n", "check", "line 9: check[1].label: 5 is not text"),
    "no name": (NEAR.replace('name = "a"\n', ""), "check", "line 1: check[0]: 'name' is missing"),
    "no files": (NEAR.replace('files = "scores.csv"\n', ""), "check", "line 1: check[0] of 'a': 'files' is missing"),
    "same name": (f"{NEAR}{NEAR}", "check", "line 5, check 'a': the name was used before (calibrant.toml, line 1"),
    "no gate": (NEAR.replace("max = {brier = 1}\n", ""), "check", "line 1, check 'a': it has no gate"),
    "gate of text": (NEAR.replace("1}", "'1'}"), "check", "line 4: check[0].max.brier: '1' is not a number"),
    "gate of nan": (NEAR.replace("1}", "nan}"), "check", "check[0].max.brier: nan is not a finite number"),
    "gate is no table": (NEAR.replace("{brier = 1}", "1"), "check", "check[0].max: 1 is not an object"),
    "unknown metric": (NEAR.replace("brier", "brierr"), "check", "unknown metric 'brierr'. Did you mean 'brier'?"),
    "missing file": (
        NEAR.replace("scores", "score"),
        "check",
        "line 1, check 'a': files: nothing is called 'score.csv' in",
    ),
    "empty pattern": (NEAR.replace("scores", "s*x"), "check", "nothing is called 's*x.csv' in"),
    "unknown check": (NEAR, "check --only b", "unknown check of --only 'b'. Choose one of: 'a'."),
    "level": (f"{NEAR}level = 95\n", "check", "line 5: check[0].level: 95 is outside (0, 1)"),
    "choice": (f"{NEAR}missing = 'wait'\n", "check", "line 5: check[0].missing: 'wait' is none of 'error', 'skip'"),
    "one check": (NEAR.replace("[[check]]", "[check]"), "check", "check: an object of 3 is not a list"),
    "suffix": (NEAR, "check -o page.pdf", "-o page.pdf doesn't say what to write"),
    "over the input": (NEAR, "check --markdown notes.md --config notes.md", "notes.md is the file that is read"),
    "missing column": (f"{NEAR}label = 'z'\n", "check", "a: scores.csv has no column 'z'"),
    "time alone": (f"{NEAR}time = 'row'\n", "check", "a: scores.csv: time and label_end go together"),
    "not UTF-8": (b"label = '\xff'\n", "check", "no TOML file: 'utf-8' codec"),
    "broken default": ("lable = 1\n", "evaluate scores.csv", "line 1: the shared table: unknown key 'lable'"),
}


@pytest.mark.parametrize(("text", "command", "message"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_refused_with_place_and_fix(
    run: Run, binary: pa.Table, text: str | bytes | None, command: str, message: str
) -> None:
    if text is not None:
        Path("calibrant.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        Path("notes.md").write_bytes(Path("calibrant.toml").read_bytes())
        Path("pyproject.toml").write_text("[project]\nname = 'calibrant-user'\n")
    result = run(command)
    assert result.exit_code == 2, result.output
    assert message in result.stderr.replace("\n", " ")
    assert not Path("page.pdf").exists()


def test_a_key_is_found_in_its_own_table(run: Run, binary: pa.Table) -> None:
    write(
        "[project]\nname = 'x'\nlabel = 5\n[tool.calibrant]\nscore = 'p'\n[tool.ruff]\nlevel = 3\n"
        "[[tool.calibrant.check]]\nname = 'a'\nfiles = 'scores.csv'\nmax = {brier = 1}\n\nlevel = 'x'\n",
        "pyproject.toml",
    )
    assert "pyproject.toml, line 13: check[0].level: 'x' is not a number" in run("check").stderr


def test_the_project_of_the_help_is_one(run: Run) -> None:
    """Refusals say that the help shows one."""
    shown = run("check --help").output
    write(shown[shown.index("label = ") :].partition("\n\n")[0])
    (check,) = read_project("calibrant.toml").checks
    assert (check.name, check.files, check.settings.label) == ("cards", ("scores/*.parquet",), "y")
    assert [(gate.metric, gate.bound, gate.limit) for gate in check.gates] == [("ece_debiased", "max", 0.02)]


LAYOUT = 'delimiter = ";"\ndecimal = ","\nencoding = "latin-1"\n'


@pytest.fixture
def decimal_commas(binary: pa.Table) -> None:
    """The same rows as text of another layout, beside those of Parquet."""
    lines = [
        f"{y};{p:.17g}".replace(".", ",") for y, p in zip(*binary.select(["y", "p"]).to_pydict().values(), strict=True)
    ]
    Path("other.csv").write_bytes("\n".join(["y;größe", *lines, ""]).encode("latin-1"))


def test_the_layout_of_text_is_a_key_of_checks_and_of_all(run: Run, decimal_commas: None) -> None:
    expected = json.loads(run("evaluate scores.parquet --json").stdout)["scores"]
    check = '[[check]]\nname = "{}"\nfiles = "{}"\n{}max.brier = 1\n'
    own = check.format("text", "other.csv", f'score = "größe"\n{LAYOUT}') + check.format("table", "scores.parquet", "")
    shared = (
        LAYOUT + check.format("text", "other.csv", 'score = "größe"\n') + check.format("table", "scores.parquet", "")
    )
    for text in (own, shared):
        write(text)
        found = json.loads(run("check --json").stdout)["checks"]
        assert [each["scores"]["brier"]["value"] for each in found] == pytest.approx([expected["brier"]["value"]] * 2)
    result = run("evaluate other.csv --score größe --json")
    assert result.exit_code == 0
    assert "delimiter ';', decimal ',', encoding 'latin-1' by calibrant.toml" in result.stderr
    assert "delimiter" not in run("evaluate scores.parquet --json").stderr
    assert run("evaluate other.csv --score größe --delimiter ,").exit_code == 2, (
        "own options stand in place of all keys"
    )


def test_a_layout_that_is_none_names_its_line(run: Run, decimal_commas: None) -> None:
    write('delimiter = ";;"\n[[check]]\nname = "a"\nfiles = "other.csv"\nmax.brier = 1\n')
    result = run("check")
    assert result.exit_code == 2
    assert "calibrant.toml, line 1: --delimiter (delimiter=) ';;' is not one character" in result.stderr


def test_lines_of_a_file_of_another_layout_are_named(run: Run, decimal_commas: None) -> None:
    with Path("other.csv").open("ab") as file:
        file.write(b"1;1,7\n")
    write(f'{LAYOUT}score = "größe"\n[[check]]\nname = "a"\nfiles = "other.csv"\nmax.brier = 1\n')
    assert "column 'größe' of other.csv line 602: 1.7 is outside" in run("check").stderr
    assert "column 'größe' of other.csv line 602: 1.7 is outside" in run("evaluate other.csv").stderr
