"""calibrant monitor: windows of dates, rows and files, an exit code, a state to go on from, one page."""

from __future__ import annotations

import collections
import datetime as dt
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from monitor_cases import rows, run

import calibrant as cb
from calibrant.engines import CheckedBatch
from calibrant.errors import InvalidTypeError
from calibrant.monitor import HeldBatches, WindowRows, date_windows
from calibrant.rows import read_rows
from calibrant.tables import open_rows

pytestmark = pytest.mark.usefixtures("unrendered")


def test_calibrated_days_raise_no_alarm_and_a_change_does_with_exit_code_one() -> None:
    pq.write_table(rows(0.0), "good.parquet")
    pq.write_table(rows(0.15), "bad.parquet")
    good, bad = (run(f"monitor {name}.parquet --date day") for name in ("good", "bad"))
    assert good.exit_code == 0
    assert "No alarm in 30 windows" in good.output
    assert bad.exit_code == 1
    alarm = re.search(r"alarm in 2026-03-(\d\d)", bad.output)
    assert alarm is not None
    assert 15 < int(alarm[1]) <= 22
    assert "(the last 20 of 30 windows)" in bad.output


def test_a_first_window_says_that_it_cannot_alarm_and_whether_its_gap_excludes_zero() -> None:
    pc.write_csv(pa.table({"p": np.full(2_000, 0.9), "y": np.zeros(2_000, dtype=int)}), "bad.csv")
    pc.write_csv(rows(0.0, 1_000), "good.csv")
    bad, good = (" ".join(run(f"monitor {name}.csv --state {name}.json").output.split()) for name in ("bad", "good"))
    for output in (bad, good):
        assert "No alarm possible yet: one window only sets the bet" in output
        assert "by --state, --rows or --date" in output
        assert "small errors" not in output
    assert "Taken alone, bad.csv has probabilities too high by 0.900 on average" in bad
    assert "interval 0.899 to 0.901, which excludes 0" in bad
    assert "Taken alone" not in good
    pc.write_csv(pa.table({"p": np.full(1_999, 0.9), "y": np.zeros(1_999, dtype=int)}), "next.csv")
    second = run("monitor next.csv --state bad.json")
    assert second.exit_code == 1
    assert "alarm in next.csv" in second.output


@pytest.mark.parametrize(("every", "names"), [("week", ["2026-W09", "2026-W10"]), ("month", ["2026-03"])])
def test_periods_have_the_names_of_the_calendar_in_text_files_too(every: str, names: list[str]) -> None:
    pc.write_csv(rows(0.0), "t.csv")
    pq.write_table(rows(0.0), "t.parquet")
    outputs = [
        json.loads(run(f"monitor t.{kind} --date day --every {every} --json").output) for kind in ("csv", "parquet")
    ]
    assert outputs[0] == outputs[1]
    assert [row["name"] for row in outputs[0]["rows"]][: len(names)] == names
    assert sum(row["n"] for row in outputs[0]["rows"]) == 6_000


def test_windows_of_rows_and_of_files() -> None:
    table = rows(0.0)
    pq.write_table(table, "t.parquet")
    found = json.loads(run("monitor t.parquet --rows 2500 --json").output)
    assert [row["n"] for row in found["rows"]] == [2_500, 2_500, 1_000]
    Path("days").mkdir()
    for i in range(4):
        pq.write_table(table.slice(1_500 * i, 1_500), f"days/{i}.parquet")
    found = json.loads(run("monitor days --json").output)
    assert [row["name"] for row in found["rows"]] == [f"{i}.parquet" for i in range(4)]


@pytest.mark.parametrize("options", ["--rows 500", "--date day", ""])
def test_each_window_of_several_classes_is_judged_as_evaluate_judges_its_rows(options: str) -> None:
    """Classes 0 and 1 are exchanged where neither is the most probable one, which the top label alone doesn't show."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(3, 0.6), 2_000)
    y = (p.cumsum(axis=1) < rng.random((2_000, 1))).sum(axis=1)
    y = np.where((p[:, 2] > 0.6) & (y != 2), 1, y)
    day = np.arange(2_000) // 500
    Path("days").mkdir()
    columns = {f"p_{k}": p[:, k] for k in range(3)}
    whole = pa.table({**columns, "y": y, "day": pa.array(np.datetime64("2026-03-01") + day)})
    for k in range(4):
        pq.write_table(whole.slice(500 * k, 500), f"days/{k}.parquet")
    output = run(f"monitor days --score p_0,p_1,p_2 {options} --json").output
    found = [row["verdict"] for row in json.loads(output)["rows"]]
    assert found == [cb.evaluate(y[day == k], p[day == k]).verdict for k in range(4)]
    assert any("class" in said for said in found)


def test_a_state_goes_on_each_day_as_one_run_over_all_days_does() -> None:
    Path("days").mkdir()
    table = rows(0.1)
    for i in range(4):
        pq.write_table(table.slice(1_500 * i, 1_500), f"days/{i}.parquet")
    together = json.loads(run("monitor days --json").output)
    for i in range(4):
        last = run(f"monitor days/{i}.parquet --state s.json --json")
    assert [row["log_e_value"] for row in json.loads(last.output)["rows"]] == [
        r["log_e_value"] for r in together["rows"]
    ]
    before = Path("s.json").read_bytes()
    for name in ("3", "2"):
        again = run(f"monitor days/{name}.parquet --state s.json")
        assert again.exit_code == last.exit_code
        assert "These rows were counted before, all of them: the state stays as it was." in again.output
    assert Path("s.json").read_bytes() == before
    other = run("monitor days/3.parquet --state s.json --alpha 0.5")
    assert "was begun with 0.01" in other.output
    Path("s.json").write_text("{")
    assert "s.json: the JSON ends too early" in run("monitor days/3.parquet --state s.json").output


@pytest.mark.slow
def test_the_page_stands_alone_and_is_the_same_bytes_for_the_same_rows() -> None:
    table = rows(0.15).append_column("<b>", pa.array(["x"] * 6_000))
    pq.write_table(table, "t.parquet")
    for name in ("a", "b"):
        run(f"monitor t.parquet --date day -o {name}.html --title <script>alert(1)</script>")
    page = Path("a.html").read_text("utf-8")
    assert page == Path("b.html").read_text("utf-8")
    assert page.count("<script") == 1  # the page's own, which its policy names by its hash
    assert "script>alert" not in page
    assert page.count("<svg") == 1
    assert re.search(r'(src|href)="http', page.replace("http://www.w3.org", "")) is None
    assert 'class="miscalibrated"' in page
    assert page.count('scope="row"') == 30
    run("monitor t.parquet --date day -o c.json")
    assert json.loads(Path("c.json").read_text("utf-8"))["n_windows"] == 30


def test_times_with_a_zone_or_an_offset_are_cut_by_days_of_utc_in_every_format() -> None:
    table = rows(0.0, 48)
    zone = dt.timezone(dt.timedelta(hours=-5))
    times = [dt.datetime(2026, 3, 1, tzinfo=zone) + dt.timedelta(hours=k) for k in range(48)]
    said = [time.isoformat() for time in times]
    zoned = pa.array(times, pa.timestamp("us", "America/New_York"))
    pq.write_table(table.set_column(table.schema.get_field_index("day"), "day", zoned), "zoned.parquet")
    text = table.set_column(table.schema.get_field_index("day"), "day", pa.array(said))
    pq.write_table(text, "text.parquet")
    pc.write_csv(text, "text.csv")
    Path("text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text.to_pylist()), "utf-8")
    days = collections.Counter(time.astimezone(dt.UTC).date().isoformat() for time in times)
    for file in ("zoned.parquet", "text.parquet", "text.csv", "text.jsonl"):
        found = json.loads(run(f"monitor {file} --date day --json").output)["rows"]
        assert {row["name"]: row["n"] for row in found} == days, file


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-03-01T10:00:00", "'2026-03-01T10:00:00' has no offset from UTC, and other rows have one (1 of 48 rows)"),
        ("2026-02-30T10:00:00Z", "'2026-02-30T10:00:00Z' is no date (1 of 48 rows)"),
    ],
)
def test_a_time_among_others_that_is_not_known_is_told_with_its_row(value: str, text: str) -> None:
    table = rows(0.0, 48)
    said = [value if k == 3 else f"2026-03-01T{k % 24:02d}:00:00+01:00" for k in range(48)]
    pq.write_table(table.set_column(table.schema.get_field_index("day"), "day", pa.array(said)), "t.parquet")
    result = run("monitor t.parquet --date day")
    assert result.exit_code == 2
    assert f"column 'day' of t.parquet row 3: {text}" in result.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--date p", "column 'p' of t.parquet holds double values, not dates"),
        ("--date day --rows 5", "--date and --rows both say what a window is"),
        ("--date dya", "no column 'dya'. Did you mean 'day'"),
        ("--date day --every year", "--every"),
        ("-o page.txt", "doesn't say what to write"),
        ("--score q", "no column 'q'"),
        ("--date hole", "column 'hole' of t.parquet row 3: missing value (1 of 6,000 rows)"),
        ("--date word", "is no date"),
    ],
)
def test_what_it_cannot_use_is_one_line_and_exit_code_two(options: str, text: str) -> None:
    table = rows(0.0)
    hole = [None if i == 3 else day for i, day in enumerate(table["day"].to_pylist())]
    table = table.append_column("hole", pa.array(hole)).append_column("word", pa.array(["x"] * 6_000))
    pq.write_table(table, "t.parquet")
    result = run(f"monitor t.parquet {options}")
    assert result.exit_code == 2
    assert text in result.output


def overlapping(n: int = 2_000, h: int = 20) -> pa.Table:
    """Return the stream of the finding: probabilities near one half of whether a random walk is higher h rows later."""
    rng = np.random.default_rng(0)
    walk = np.concatenate(([0.0], rng.normal(size=n + h).cumsum()))
    t = np.arange(n)
    known = {"at": t, "known": t + h - 1}
    return pa.table({"p": rng.uniform(0.48, 0.52, n), "y": (walk[h : h + n] > walk[:n]).astype(int), **known})


def test_overlapping_labels_raise_a_false_alarm_and_a_hint_until_they_are_declared() -> None:
    pq.write_table(overlapping(), "t.parquet")
    plain = run("monitor t.parquet --rows 100")
    assert plain.exit_code == 1
    assert "of all streams, ever, of rows that are independent" in plain.output
    assert "A sign that rows are not independent: errors of neighbouring rows are alike (correlation 0." in plain.output
    assert "--time COLUMN --label-end COLUMN" in plain.output
    declared = run("monitor t.parquet --rows 100 --time at --label-end known")
    assert declared.exit_code == 0
    assert "for rows whose labels may overlap in time" in declared.output
    assert "sign that rows are not independent" not in declared.output
    assert len(json.loads(run("monitor t.parquet --rows 100 --json").output)["notes"]) == 1


def test_rows_in_any_order_are_watched_in_the_order_of_time() -> None:
    table = overlapping()
    pq.write_table(table, "t.parquet")
    pq.write_table(table.take(np.random.default_rng(1).permutation(2_000)), "mixed.parquet")
    found = [run(f"monitor {n}.parquet --rows 100 --time at --label-end known --json").output for n in ("t", "mixed")]
    assert found[0] == found[1]


def test_independent_rows_get_no_hint_and_clusters_are_named_and_not_cut() -> None:
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(60), 20)
    p = rng.uniform(0.1, 0.6, 1_200)
    y = np.repeat(rng.random(60), 20) < p
    pq.write_table(pa.table({"p": p, "y": y, "who": who}), "t.parquet")
    pq.write_table(rows(0.0), "independent.parquet")
    assert json.loads(run("monitor independent.parquet --rows 500 --json").output)["notes"] == []
    assert "--cluster COLUMN" in run("monitor t.parquet --rows 250").output
    found = json.loads(run("monitor t.parquet --rows 250 --cluster who --json").output)
    assert [row["n"] for row in found["rows"]] == [260, 260, 260, 260, 160]
    assert found["declared"] == ["cluster"]
    assert "those of one cluster may depend" in found["advice"]


def late(table: pa.Table, is_late: np.ndarray) -> pa.Table:
    """Return the table without the labels that are late."""
    y = [None if missing else label for missing, label in zip(is_late, table["y"].to_pylist(), strict=True)]
    return table.set_column(table.schema.get_field_index("y"), "y", pa.array(y, pa.int64()))


@pytest.mark.parametrize("options", ["--rows 400 --time at --label-end known", "--rows 400", "--date day", "days"])
def test_a_growing_file_whose_labels_come_late_is_counted_as_if_they_had_been_there(options: str) -> None:
    n = 2_000
    day = pa.array(np.datetime64("2026-03-01") + np.arange(n) // 400)
    whole = overlapping(n).append_column("day", day)

    def write(table: pa.Table) -> str:
        pq.write_table(table, "t.parquet")
        Path("days").mkdir(exist_ok=True)
        for k in range(0, table.num_rows, 400):
            pq.write_table(table.slice(k, 400), f"days/{k:04}.parquet")
        return "days" if options == "days" else f"t.parquet {options}"

    for seen in (800, 1_200, 1_600, 2_000):
        known = late(whole.slice(0, seen), np.arange(seen) >= seen - 100)
        told = run(f"monitor {write(known)} --missing wait --state s.json")
        assert told.exit_code in (0, 1), told.output
    assert "400 rows wait until their window has all of its rows and labels." in told.output
    last = json.loads(run(f"monitor {write(whole)} --missing wait --state s.json --json").output)
    assert last["rows"] == json.loads(run(f"monitor {write(whole)} --json").output)["rows"]
    assert last["n_windows"] == 5


def test_rows_without_labels_are_an_error_that_names_the_option_or_are_skipped() -> None:
    table = late(rows(0.0), np.arange(6_000) % 10 == 3)
    pq.write_table(table, "t.parquet")
    text = "column 'y' of t.parquet row 3: missing label (600 of 6,000 rows). Pass --missing wait"
    refused = run("monitor t.parquet --date day")
    assert refused.exit_code == 2
    assert text in refused.output
    skipped = json.loads(run("monitor t.parquet --date day --missing skip --json").output)
    assert sum(row["n"] for row in skipped["rows"]) == 5_400
    assert skipped["notes"] == ["600 rows lack a value, and were skipped."]
    nothing = run("monitor t.parquet --date day --missing wait")
    assert nothing.exit_code == 2
    assert "there is no window yet of which all labels are there" in nothing.output


def test_a_window_that_has_grown_since_it_was_counted_is_refused() -> None:
    table = rows(0.0)
    pq.write_table(table.slice(0, 3_000), "t.parquet")
    assert run("monitor t.parquet --date day --missing wait --state s.json").exit_code == 0
    pq.write_table(table, "t.parquet")
    grown = run("monitor t.parquet --date day --missing wait --state s.json")
    assert grown.exit_code == 2
    assert "rows have come to it since" in grown.output


def test_weights_of_zero_and_a_calibrator_are_taken_as_before() -> None:
    table = rows(0.0).append_column("w", pa.array(np.where(np.arange(6_000) < 10, 0.0, 2.0)))
    pq.write_table(table, "t.parquet")
    found = json.loads(run("monitor t.parquet --rows 1000 --weight w --json").output)
    assert [row["n"] for row in found["rows"]] == [2_000.0] * 5 + [1_980.0]
    cb.save(cb.SigmoidCalibrator().fit(table["p"].to_numpy(), table["y"].to_numpy()), "c.json")
    found = json.loads(run("monitor t.parquet --rows 1000 --score p --calibrator c.json --json").output)
    assert found["n_windows"] == 6


@pytest.mark.parametrize("options", ["--rows 500", "--date day", ""])
def test_a_file_that_is_too_large_for_memory_is_counted_as_others_are(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(rows(0.15), "t.parquet")
    held = json.loads(run(f"monitor t.parquet {options} --json").output)
    monkeypatch.setattr("calibrant.cli.data.MANY", 100)
    assert json.loads(run(f"monitor t.parquet {options} --json").output)["rows"] == held["rows"]
    for more in ("--cluster day", "--missing skip"):
        refused = run(f"monitor t.parquet {options} {more}")
        assert refused.exit_code == 2
        assert "needs all rows in memory" in refused.output


def test_the_groups_of_a_calibrator_are_in_the_column_that_is_named() -> None:
    rng = np.random.default_rng(3)
    p, city = rng.random(800), np.where(np.arange(800) % 2, "Bonn", "Rome")
    y = rng.random(800) < np.where(city == "Rome", p**2, np.sqrt(p))
    cb.save(cb.GroupedCalibrator("beta").fit(p, y, groups=city), "by.json")
    names = {"p": p, "y": y.astype(int), "city": city, "other": city[::-1]}
    pq.write_table(pa.table(names), "t.parquet")
    fitted = cb.load("by.json")
    for column in ("city", "other"):
        found = json.loads(run(f"monitor t.parquet --calibrator by.json --score p --group {column} --json").output)
        q = np.asarray(fitted.predict_proba(p, groups=names[column]))
        assert found["rows"][0]["mean_prob"] == pytest.approx(q.mean(), abs=1e-12)
        assert found["rows"][0]["brier"] == pytest.approx(np.mean((q - y) ** 2), abs=1e-12)
    refused = run("monitor t.parquet --group city")
    assert refused.exit_code == 2
    assert "--group names the groups of --calibrator. Add that, or leave it out." in refused.output


def test_times_of_which_some_have_an_offset_are_refused_across_batches() -> None:
    """Each batch by itself was in order; days of UTC were mixed with those of another zone."""
    two = read_rows([0.2, 0.7], [0, 1])

    def windows(*stamps: str) -> list[WindowRows]:
        batches = [CheckedBatch(two, f"{i}.csv", pa.array([stamp] * 2)) for i, stamp in enumerate(stamps)]
        source = open_rows({"day": ["2026-03-01"]})
        return list(date_windows(HeldBatches(source, "day", batches), "day"))

    assert len(windows("2026-03-01T23:30:00-05:00", "2026-03-02T04:30:00Z")) == 1
    with pytest.raises(InvalidTypeError, match=r"have an offset from UTC, as in 0\.csv, and others have none, as in 1"):
        windows("2026-03-01T23:30:00-05:00", "2026-03-02T04:30:00")
