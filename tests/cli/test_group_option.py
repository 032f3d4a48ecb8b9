"""--group in evaluate, fit, apply and report, and calibrant audit: the library's figures, and errors that say where."""

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

import calibrant as cb
from calibrant import persistence
from calibrant.grouped import GroupedCalibrator
from calibrant.metrics import audit, evaluate_groups

Run = Callable[..., Result]


@pytest.fixture
def cities(folder: Path) -> pa.Table:
    """Scores right in Bonn and too high in Rome, as cities.csv and cities.parquet."""
    rng = np.random.default_rng(0)
    p, city = rng.random(900).round(6), rng.choice(["Bonn", "Kyiv", "Rome"], 900)
    y = (rng.random(900) < np.where(city == "Rome", p**3, p)).astype(np.int64)
    columns = {"y": y, "p": p, "w": rng.integers(0, 4, 900), "city": city, "k": rng.integers(0, 3, 900)}
    table = pa.table(columns)
    pc.write_csv(table, folder / "cities.csv")
    pq.write_table(table, folder / "cities.parquet")
    return table


@pytest.mark.parametrize("file", ["cities.csv", "cities.parquet"])
def test_evaluate_shows_the_groups_of_the_library(run: Run, cities: pa.Table, file: str) -> None:
    found = evaluate_groups(cities["y"], cities["p"], groups=cities["city"], sample_weight=cities["w"], level=0.9)
    document = json.loads(run(f"evaluate {file} --group city --weight w --level 0.9 --json").stdout)
    expected = {key: value for key, value in found.to_dict().items() if key != "overall"}
    assert document["groups"] == {"column": "city", **expected}
    assert document["groups"]["groups"][0]["group"] == "Rome"
    shown = run(f"evaluate {file} --group city --weight w --level 0.9").output
    assert f"By 'city': {found.verdict}" in shown
    lines = shown[shown.index("\ngroup ") + 1 :].splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [str(group) for group in found.groups]
    assert lines[1].endswith("off")
    gap = found.groups["Rome"]["mean_gap"]
    assert f"{gap.value:+.4f} [{gap.low:.4f}, {gap.high:.4f}]" in " ".join(lines[1].split())


def test_evaluate_without_groups_says_nothing_of_them(run: Run, cities: pa.Table) -> None:
    assert "groups" not in json.loads(run("evaluate cities.csv --json").stdout)
    assert "By " not in run("evaluate cities.csv").output


def test_evaluate_shows_the_worst_of_many_groups(run: Run, cities: pa.Table) -> None:
    pq.write_table(cities.append_column("row", pa.array(np.arange(900) % 30)), "many.parquet")
    shown = run("evaluate many.parquet --group row").output
    assert "and 10 more groups: see --json" in shown
    assert len(json.loads(run("evaluate many.parquet --group row --json").stdout)["groups"]["groups"]) == 30


def test_fit_saves_the_librarys_grouped_calibrator(run: Run, cities: pa.Table) -> None:
    result = run("fit cities.parquet --method beta --group city --weight w -o c.json")
    assert result.exit_code == 0
    expected = GroupedCalibrator("beta").fit(cities["p"], cities["y"], groups=cities["city"], sample_weight=cities["w"])
    saved = persistence.read_document("c.json")
    assert saved["group_maps"] == persistence.to_document(expected)["group_maps"]
    assert (saved["score_names"], saved["group_name"], saved["metadata"]) == (["p"], "city", {"label": "y"})
    assert re.search(r"Fitted beta by 'city' \(3 groups; all rows count for [\d,]+\) on \d+ rows", result.output)
    before, after = re.search(r"log_loss +([\d.]+) .*? ([\d.]+)  \[", result.output).groups()  # type: ignore[union-attr]
    assert float(after) < float(before)


@pytest.mark.parametrize(("file", "column"), [("cities.csv", "city"), ("cities.parquet", "city"), ("cities.csv", "k")])
def test_apply_reads_the_column_of_groups(run: Run, cities: pa.Table, file: str, column: str) -> None:
    run(f"fit {file} --group {column} --method sigmoid -o c.json")
    assert run(f"apply c.json {file} -o out.parquet").exit_code == 0
    expected = cb.load("c.json").predict_proba(cities["p"].to_numpy(), groups=cities[column])
    assert pq.read_table("out.parquet")["p_calibrated"].to_numpy().tolist() == expected.tolist()


@pytest.mark.slow
def test_apply_takes_the_name_of_another_column(run: Run, cities: pa.Table) -> None:
    run("fit cities.parquet --method sigmoid --group city -o c.json")
    pq.write_table(cities.rename_columns(["y", "p", "w", "town", "k"]), "towns.parquet")
    missing = run("apply c.json towns.parquet -o out.parquet")
    assert missing.exit_code == 2
    assert "towns.parquet has no column 'city'" in missing.stderr
    assert run("apply c.json towns.parquet --group town -o out.parquet").exit_code == 0


def test_apply_warns_once_of_groups_that_are_new(run: Run, cities: pa.Table) -> None:
    run("fit cities.csv --method isotonic --group city -o c.json")
    text = Path("cities.csv").read_text()
    Path("new.csv").write_text(text.replace("Kyiv", "Oslo"))
    result = run("apply c.json new.csv -o out.csv")
    assert result.stderr == (
        "Warning: column 'city' of new.csv holds 1 group that fit has not seen, 'Oslo' (298 of 900 rows): the map of "
        "all rows is used for them\n"
    )
    alone = cb.IsotonicCalibrator().fit(cities["p"], cities["y"]).predict_proba(cities["p"].to_numpy())
    oslo = cities["city"].to_numpy(zero_copy_only=False) == "Kyiv"
    assert pc.read_csv("out.csv")["p_calibrated"].to_numpy()[oslo].tolist() == pytest.approx(alone[oslo].tolist())


@pytest.mark.slow
def test_groups_of_numbers_meet_groups_of_text_by_their_text(run: Run, cities: pa.Table) -> None:
    run("fit cities.csv --method sigmoid --group k -o c.json")
    Path("new.csv").write_text("p,k\n0.5,1\n0.5,x\n")
    result = run("apply c.json new.csv -o out.csv")
    assert "has not seen, 'x'" in result.stderr
    first = pc.read_csv("out.csv")["p_calibrated"][0].as_py()
    assert first == pytest.approx(cb.load("c.json").predict_proba([0.5], groups=[1])[0], rel=1e-12)


def test_inspect_lists_the_groups(run: Run, cities: pa.Table) -> None:
    run("fit cities.csv --group city --method beta -o c.json")
    shown = run("inspect c.json").output
    counts = {name: int(np.sum(cities["city"].to_numpy(zero_copy_only=False) == name)) for name in ("Bonn", "Rome")}
    for name, n in counts.items():
        assert re.search(rf"^  '{name}': {n} rows, \d+% of its own map$", shown, re.MULTILINE)
    assert "\n\nAll rows:\n  q = expit(" in shown


def test_correction_of_the_prior_is_applied_and_shown(run: Run, cities: pa.Table) -> None:
    cb.save(cb.prior.PriorShift.from_priors(old=0.5, new=0.1), "prior.json")
    assert run("apply prior.json cities.csv --score p -o out.parquet").exit_code == 0
    expected = cb.prior.prior_shift(cities["p"].to_numpy(), old=0.5, new=0.1)
    assert pq.read_table("out.parquet")["p_calibrated"].to_numpy().tolist() == expected.tolist()
    assert "PriorShift(" in run("inspect prior.json").output


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_report_has_a_section_of_groups(run: Run, cities: pa.Table, suffix: str) -> None:
    assert run(f"report cities.parquet --group city -o r.{suffix}").exit_code == 0
    text = Path(f"r.{suffix}").read_text("utf-8")
    found = evaluate_groups(cities["y"], cities["p"], groups=cities["city"])
    if suffix == "json":
        groups = json.loads(text)["groups"]
        assert [row["group"] for row in groups["rows"]] == list(found.groups)
        assert groups["verdict"] == found.verdict
        assert groups["rows"][0]["low"] == found.groups["Rome"]["mean_gap"].low
    elif suffix == "html":
        assert "Groups: <bdi>city</bdi>" in text
        assert found.verdict in text
        assert "98.33% interval" in text
        assert text.count('<title id="group') == 3
    else:
        assert "## Groups: city" in text
        assert re.search(r"^\| Rome \| \d+ \| \*\*\+0\.\d+\*\* \|", text, re.MULTILINE)


@pytest.mark.slow
def test_report_of_many_groups_with_hostile_names_shows_the_worst(run: Run, cities: pa.Table) -> None:
    names = [f"<script>{i}</script>|`" for i in range(30)]
    pq.write_table(cities.append_column("<b>", pa.array([names[i % 30] for i in range(900)])), "many.parquet")
    for suffix in ("html", "md"):
        assert run("report many.parquet --group <b> -o", f"r.{suffix}").exit_code == 0
        text = Path(f"r.{suffix}").read_text("utf-8")
        assert len(re.findall(r"(?<!\\)<script", text)) == (suffix == "html")  # the page's own
        assert not re.search(r"(?<!\\)<script>\d", text)
        assert "the worst 12 of 30 groups" in text


def test_audit_lists_the_segments_of_the_library(run: Run, cities: pa.Table) -> None:
    columns = {"city": cities["city"], "k": cities["k"]}
    found = audit(cities["y"], cities["p"], features=columns, min_rows=90, sample_weight=cities["w"], level=0.9)
    command = "audit cities.csv --features city,k --min-rows 90 --weight w --level 0.9"
    document = json.loads(run(f"{command} --json").stdout)
    read = {"file": "cities.csv", "features": ["city", "k"], "n_skipped": 0}
    assert document == {**read, **json.loads(json.dumps(found.to_dict()))}
    shown = run(f"{command} --most 3").output
    assert found.verdict in shown
    worst = found.findings[0]
    bounds = rf"\[{worst.low:.4f}, {worst.high:.4f}\]"
    assert re.search(rf"^{re.escape(worst.label)} +{worst.n} +{worst.sigma:.1f} .* {bounds} .* off$", shown, re.M)
    assert f"and {len(found.findings) - 3} more segments: see --json" in shown
    assert f"{found.n_left_out} segments of fewer than 90 rows left out" in shown


def test_audit_takes_its_settings_from_the_line(run: Run, cities: pa.Table) -> None:
    town = [None if i % 9 == 0 else text for i, text in enumerate(cities["city"].to_pylist())]
    pc.write_csv(cities.append_column("town", pa.array(town)).append_column("q", cities["p"]), "towns.csv")
    options = {"depth": 1, "min_rows": 20, "n_bins": 3, "max_levels": 2, "n_draws": 49, "rng": 5}
    columns = {"town": town, "q": cities["p"], "k": cities["k"]}
    found = audit(cities["y"], cities["p"], features=columns, categorical=["k"], **options)
    line = "--depth 1 --min-rows 20 --bins 3 --max-levels 2 --draws 49 --seed 5 --categorical k --json"
    document = json.loads(run(f"audit towns.csv --features town,q,k {line}").stdout)
    assert document["findings"] == json.loads(json.dumps(found.to_dict()))["findings"]
    assert "town missing" in {each["segment"] for each in document["findings"]}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate cities.csv --group town", "cities.csv has no column 'town'"),
        ("evaluate cities.csv --group p", "names no group"),
        ("fit cities.csv --group town -o c.json", "cities.csv has no column 'town'"),
        ("report cities.csv --group town -o r.html", "cities.csv has no column 'town'"),
        ("audit cities.csv", "Missing option '--features'"),
        ("audit cities.csv --features city --depth -1", "depth=-1 is too small"),
        ("audit cities.csv --features town", "cities.csv has no column 'town'"),
        ("audit cities.csv --features city --categorical k", "--categorical: 'k'. Choose one of: 'city'"),
    ],
)
def test_column_that_names_no_groups_is_refused(run: Run, cities: pa.Table, command: str, message: str) -> None:
    result = run(command)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("c.json").exists()


@pytest.mark.slow
def test_group_of_a_calibrator_without_groups_is_refused(run: Run, cities: pa.Table) -> None:
    run("fit cities.csv -o c.json")
    result = run("apply c.json cities.csv --group city -o out.csv")
    assert result.exit_code == 2
    assert "this AutoCalibrator was not fitted by group. Leave --group" in result.stderr
    cb.save(GroupedCalibrator().fit(cities["p"], cities["y"], groups=cities["city"]), "g.json")
    result = run("apply g.json cities.csv --score p -o out.csv")
    assert "Name it with --group" in result.stderr
    assert run("apply g.json cities.csv --score p --group city -o out.csv").exit_code == 0
