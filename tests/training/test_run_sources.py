"""Sources of rows: a table that says what bars say gives the rows of bars, whatever file it is in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import CalibrantError
from calibrant.tables import open_rows
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig, read_config
from calibrant.training.dataset import Dataset, make_dataset
from calibrant.training.labels import label_bars
from calibrant.training.sources import BarSource, TableSource, open_source

HORIZON = 8
CONFIG = TrainConfig(
    table="rows", label="y", time="t", label_end="known", symbol="who", price_return="gain", features=("range", "gap")
)


def frame(n: int = 60, **more: Any) -> pd.DataFrame:
    """Return a small table of two features, with a row a day whose label takes two."""
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(n), unit="D")
    columns = {"a": rng.normal(size=n), "b": np.arange(n) % 3, "y": np.arange(n) % 2, "t": day}
    return pd.DataFrame({**columns, "known": day + pd.Timedelta(days=2), **more})


def of(table: Any, **settings: Any) -> TableSource:
    named = {"table": "rows", "label": "y", "time": "t", "label_end": "known", **settings}
    found = open_source(TrainConfig(**named), table)
    assert isinstance(found, TableSource)
    return found


def rows_of(table: Any, **settings: Any) -> Dataset:
    source = of(table, **settings)
    return source.dataset(source.config)


@pytest.fixture(scope="module")
def bars(make_bars: Callable[..., Bars]) -> Bars:
    return make_bars(300, ("A", "B"))


@pytest.fixture(scope="module")
def expected(bars: Bars) -> Dataset:
    return make_dataset(bars, label_bars(bars, horizon=HORIZON), horizon=HORIZON)


@pytest.fixture(scope="module")
def table(expected: Dataset) -> pa.Table:
    """The rows of bars, as a table of one's own."""
    columns = dict(zip(expected.names, expected.X.T, strict=True))
    beside = {"y": expected.y, "t": expected.time, "known": expected.label_end, "gain": expected.label_return}
    return pa.table({**columns, **beside, "who": expected.symbol.tolist()})


def test_bars_give_the_same_rows_as_ever(bars: Bars, expected: Dataset) -> None:
    config = TrainConfig(horizon=HORIZON)
    found = open_source(config, bars).dataset(config)
    for name in ("X", "y", "time", "label_end", "weight", "label_return"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name


def test_rows_to_predict_are_those_with_labels_and_the_newest(bars: Bars, expected: Dataset) -> None:
    rows = BarSource(bars).features(expected.names)
    key = {(when, who): row for row, (when, who) in enumerate(zip(rows.time, rows.symbol, strict=True))}
    at = [key[when, who] for when, who in zip(expected.time, expected.symbol, strict=True)]
    assert rows.X[at].tobytes() == expected.X.tobytes()
    assert rows.n_rows == expected.n_rows + 2 * HORIZON
    assert rows.n_rows + rows.n_left_out == bars.n_rows
    with pytest.raises(CalibrantError, match=r"the features of bars are .*, and those asked for are 'spread'"):
        BarSource(bars).features(["spread"])


def test_a_table_of_the_rows_of_bars_gives_these_rows(table: pa.Table, expected: Dataset) -> None:
    names = tuple(name for name in table.column_names if name in expected.names)
    found = rows_of(table, symbol="who", price_return="gain", features=names)
    for name in ("X", "y", "time", "label_end", "label_return"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert found.symbol.tolist() == expected.symbol.tolist()
    assert found.classes.tolist() == [-1, 0, 1]
    assert found.horizon_time == np.timedelta64(HORIZON, "D")
    # bars count labels that are not finished, too: those of the last rows
    inside = expected.label_end < expected.time.max() - np.timedelta64(HORIZON, "D")
    assert inside.sum() > 300
    np.testing.assert_allclose(found.weight[inside], expected.weight[inside], rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from("AB")), min_size=2, max_size=25))
def test_uniqueness_is_the_mean_share_of_the_labels_open_between_start_and_end(
    labels: list[tuple[int, int, str]],
) -> None:
    start, end, who = (list(part) for part in zip(*((s, s + n, w) for s, n, w in labels), strict=True))
    y = [0, 1] * len(labels)
    rows = {"a": start, "t": start, "known": end, "who": who, "y": y[: len(labels)]}
    found = rows_of(rows, symbol="who")
    for row in range(found.n_rows):
        own = [(s, e) for s, e, w in zip(start, end, who, strict=True) if w == found.symbol[row]]
        moments = {moment for label in own for moment in label}
        s, e = int(found.time[row]), int(found.label_end[row])
        shares = [1 / sum(a < m <= b for a, b in own) for m in moments if s < m <= e]
        assert found.weight[row] == pytest.approx(sum(shares) / len(shares) if shares else 1.0)


def test_every_kind_of_file_gives_the_same_rows(table: pa.Table, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pq.write_table(table, tmp_path / "rows.parquet")
    pc.write_csv(table, tmp_path / "rows.csv")
    pc.read_csv(tmp_path / "rows.csv").to_pandas().to_csv(tmp_path / "rows.csv.gz", index=False)
    (tmp_path / "parts").mkdir()
    for number, start in enumerate(range(0, table.num_rows, 100)):
        pq.write_table(table.slice(start, 100), tmp_path / "parts" / f"{number}.parquet")
    with duckdb.connect(tmp_path / "rows.duckdb") as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT * FROM '{tmp_path}/rows.parquet'")
    files = ["rows.parquet", "rows.csv", "rows.csv.gz", "rows.duckdb", "parts/*.parquet", "parts"]
    sources = [TableSource(open_rows(tmp_path / file), CONFIG) for file in files]
    sources += [TableSource(open_rows(held), CONFIG) for held in (table.to_pandas(), pl.DataFrame(table))]
    assert len({source.sha256() for source in sources}) == 1
    assert len({source.dataset(CONFIG).X.tobytes() for source in sources}) == 1
    changed = table.set_column(0, table.column_names[0], pa.array(np.zeros(table.num_rows)))
    assert (
        open_source(replace(CONFIG, features=(table.column_names[0],)), changed).provenance()["data_sha256"]
        != (open_source(replace(CONFIG, features=(table.column_names[0],)), table).provenance()["data_sha256"])
    )


def test_rows_in_any_order_are_sorted_by_time_and_symbol(table: pa.Table) -> None:
    mixed = table.take(np.random.default_rng(0).permutation(table.num_rows))
    for name in ("X", "y", "time", "label_end", "weight", "label_return"):
        sorted_rows, found = (open_source(CONFIG, one).dataset(CONFIG) for one in (table, mixed))
        assert getattr(found, name).tobytes() == getattr(sorted_rows, name).tobytes(), name


def test_features_are_all_other_columns_and_may_be_missing() -> None:
    data = frame(flag=[True, False] * 30, part=pa.array([None, 1] * 30, pa.int64()), __index_level_0__=range(60))
    found = rows_of(data)
    assert found.names == ("a", "b", "flag", "part")
    assert found.X[:4, 2].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert np.isnan(found.X[::2, 3]).all()
    assert rows_of(data, features=["fl*", "a"]).names == ("flag", "a")
    without_end = rows_of(data.drop(columns="known"), label_end="")
    assert (without_end.label_end == without_end.time).all()
    assert (without_end.weight == 1.0).all()
    assert without_end.label_return is None
    assert not without_end.has_stakes


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes"], ["no", "yes"]),
        ([True, False], [False, True]),
        ([7, -2, 7, 3], [-2, 3, 7]),
        ([1.0, 0.0], [0, 1]),
        (["ä", "b", "c", "ä"], ["b", "c", "ä"]),
    ],
)
def test_labels_are_of_any_kind(labels: list[Any], classes: list[Any]) -> None:
    found = rows_of(frame(y=(labels * 60)[:60]))
    assert found.classes.tolist() == classes
    assert found.y.tolist() == (labels * 60)[:60]
    assert found.classes[found.codes].tolist() == found.y.tolist()
    assert found.class_rates().sum() == pytest.approx(1.0)
    assert found.take(np.arange(5)).y.tolist() == found.y[:5].tolist()


@pytest.mark.parametrize("unit", [1, 0.5])
def test_times_may_be_numbers(unit: float) -> None:
    found = rows_of(frame(t=unit * np.arange(60)[::-1], known=unit * np.arange(3, 63)[::-1]))
    assert found.time.tolist() == (unit * np.arange(60)).tolist()
    before, last = found.last(0.2)
    assert before.label_end.max() < last.time.min()
    assert before.n_rows == 60 - 12 - 3
    assert found.clock.step == unit
    assert found.last(0.2, 2)[0].n_rows == before.n_rows - 2


CATEGORY = frame(city=["Rome", "Oslo"] * 30, day=pd.Timestamp("2024-01-01"))
HOSTILE: list[tuple[pd.DataFrame, dict[str, Any], str]] = [
    (frame().assign(known=frame().t - pd.Timedelta(days=1)), {}, "column 'known' of the DataFrame row 0: 2024-02-29"),
    (frame(y=[None, *[0, 1] * 29, 1]), {}, "column 'y' of the DataFrame row 0: missing label (1 of 60 rows)"),
    (frame(y=[np.nan, *[0.0, 1.0] * 29, 1.0]), {}, "missing label (1 of 60 rows)"),
    (frame(y=1), {}, "column 'y' of the DataFrame holds one class only: 1 in all 60 rows"),
    (frame(y="a"), {}, "holds one class only: 'a' in all 60 rows"),
    (frame(y=np.linspace(0, 1, 60)), {}, "is not a class label"),
    (frame(y=range(60)), {}, "holds 60 classes in 60 rows. Pass labels of few classes"),
    (frame(), {"label": "why"}, "has no column 'why'."),
    (frame(), {"time": "tt"}, "the DataFrame has no column 'tt'. Did you mean 't'?"),
    (frame(), {"features": ["a", "bb"]}, "has no column 'bb'. Did you mean 'b'?"),
    (
        frame(),
        {"features": ["a", "y"]},
        "features name 'y', which is the label of the DataFrame: it is known only after",
    ),
    (frame(), {"features": ["known"]}, "features name 'known', which is the label_end of the DataFrame"),
    (frame(gain=0.1), {"price_return": "gain", "features": ["gain"]}, "which is the price_return"),
    (CATEGORY, {}, "has 2 columns of no numbers: 'city' (large_string), 'day' (timestamp"),
    (frame(a=[*[0.5] * 59, np.inf]), {}, "column 'a' of the DataFrame row 59: inf is not finite (1 of 60 rows)"),
    (frame(t="01/04/2024"), {}, "'01/04/2024' is text, not a time"),
    (frame(t=[pd.NaT, *frame().t[1:]]), {}, "row 0: missing time (1 of 60 rows)"),
    (frame(known=np.arange(60)), {}, "are numbers and datetimes. Pass both of one kind."),
    (frame(gain=[np.nan] * 60), {"price_return": "gain"}, "column 'gain' of the DataFrame row 0"),
    (
        frame(gain=[*[0.1] * 9, -3.2, *[0.1] * 50]),
        {"price_return": "gain"},
        "column 'gain' of the DataFrame row 9: -3.2 is below -1, as if more than the whole price was lost (1 of 60",
    ),
    (frame(who=[None] * 60), {"symbol": "who"}, "column 'who' of the DataFrame"),
    (frame().iloc[:0], {}, "the DataFrame has no rows"),
    (frame()[["y", "t", "known"]], {}, "has no column beside 'known', 't', 'y'. Add features."),
]


@pytest.mark.parametrize(("table", "settings", "said"), HOSTILE, ids=[said for *_, said in HOSTILE])
def test_tables_that_cannot_be_are_refused_and_told(table: pd.DataFrame, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        rows_of(table, **settings)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,y,t,a\n1,0,1,2\n3,1,2,4\n")
    for features in ((), ("a",)):
        with pytest.raises(CalibrantError, match="two columns named 'a'"):
            rows_of(path, label_end="", features=features)


def test_rows_to_predict_need_neither_labels_nor_order() -> None:
    new = frame().drop(columns=["y", "known"])[["t", "b", "a"]].iloc[::-1].assign(more="x")
    rows = of(new).features(["a", "b"])
    labelled = rows_of(frame())
    assert rows.X.tobytes() == labelled.X.tobytes()
    assert (rows.time == labelled.time).all()
    with pytest.raises(CalibrantError, match=re.escape("has no column 'b'.")):
        of(new.drop(columns="b")).features(["a", "b"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"table": "x"}, "table='x' needs the names of two of its columns: label, and time"),
        ({"table": "x", "label": "y"}, "needs the names of two of its columns"),
        ({"table": "x", "label": "y", "time": "t", "horizon": 5}, "horizon=5 is of bars, and table='x' is named."),
        (
            {"table": "x", "label": "y", "time": "t", "data": "b.csv"},
            "data='b.csv' is of bars, and table='x' is named.",
        ),
        ({"table": "x", "label": "y", "time": "t", "profit": 2.0}, "profit=2.0 is of bars"),
        ({"time": "t"}, "time='t' is of a table, and none is named. Name it: table."),
        ({"features": ["a"]}, "features=('a',) is of a table, and none is named."),
        ({"score": {"m": ["p"]}}, "is of a table, and none is named."),
        ({"features": "a"}, "features='a' is no list of names"),
        ({"label": "y"}, "unknown value of label: 'y'"),
        ({"table": "x", "label": "y", "time": 3}, "time=3 is not a string. Name a column."),
        ({"table": "x", "label": "y", "time": "t", "score": {"m": []}}, "is no table of columns by model"),
        ({"table": "x", "label": "y", "time": "t", "score": {"a/b": ["p"]}}, "score names a model 'a/b'."),
        ({"table": "x", "label": "y", "time": "t", "score": {"m": ["p"]}, "features": ["a"]}, "go with no score"),
        ({"model": 3}, "model=3 is not a string"),
    ],
)
def test_settings_of_bars_and_of_a_table_are_told_apart(more: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        TrainConfig(**more)


def test_settings_of_a_table_come_back_from_toml(tmp_path: Path) -> None:
    for config in (
        TrainConfig(model="a.b:C", table="x y.csv", label="ü", time="t", features=("a", 'b "c"'), seed=3),
        TrainConfig(table="x", label="y", time="t", label_end="e", score={"m-1": ("p_a", "p_b"), "n": ("q",)}),
    ):
        path = tmp_path / "config.toml"
        path.write_text(config.to_toml({"n_rows": 5}), encoding="utf-8")
        assert TrainConfig(**read_config(path)) == config
        assert "horizon" not in path.read_text()


def test_one_long_label_does_not_set_the_horizon(table: pa.Table) -> None:
    frame = table.to_pandas()
    frame.loc[5, "known"] = pd.Timestamp("2090-01-01")
    found = open_source(CONFIG, frame).dataset(CONFIG)
    assert found.horizon_time == np.timedelta64(HORIZON, "D")
    assert found.label_end.max() > np.datetime64("2089-12-31"), "and is purged as it is"
