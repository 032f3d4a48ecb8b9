"""Files of real scores, forecasts and prices, small enough to run every command on them many times."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from calibrant.cli import main

_OWN_MODEL = """from sklearn.naive_bayes import GaussianNB


class Plain(GaussianNB):
    pass
"""


def data_folder() -> Path:
    """Return the folder of real data, or skip."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores, forecast_fixtures and market")
    return Path(folder)


def _beside(n: int) -> dict[str, Any]:
    """Return what stands beside scores: weights, regions, clients of three rows, days, and when labels were known."""
    row = np.arange(n)
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(row // 10, unit="D")
    return {
        "w": 1 + row % 3,
        "region": np.array(["Zürich", "Genève", "Bern"])[row * 7 % 11 % 3],
        "client": row // 3,
        "day": day.date,
        "known": (day + pd.Timedelta(days=2)).date,
    }


def _write_european(table: pd.DataFrame, path: Path) -> None:
    """Write text as a spreadsheet in Zürich does, under a name that doesn't say what it is."""
    table.to_csv(path, sep=";", decimal=",", encoding="latin-1", index=False)


def _write_scores(data: Path, folder: Path) -> None:
    scores = pd.read_parquet(data / "scores" / "tabular_models_binary.parquet")
    credit = scores[scores["dataset"] == "credit_default"]
    by_model = {model: rows[["s", "y"]].to_numpy(np.float64)[:900] for model, rows in credit.groupby("model")}
    p, y = by_model["hgb"].T
    table = pd.DataFrame({"y": y.astype(int), "p": p, "q": by_model["logreg"][:, 0], "s": by_model["svm"][:, 0]})
    table = table.assign(z=np.log(p / (1.0 - p)), **_beside(len(table)))
    table["grade"] = np.where(by_model["nb"][:, 0] > 0.9, "risky", "good")
    table.to_parquet(folder / "credit.parquet")
    table[:500].to_parquet(folder / "old.parquet")
    table[:400].assign(half=table["p"], rest=1.0 - table["p"]).to_csv(folder / "credit.kept", index=False)
    table[:600].assign(p=table["p"][:600].where(table.index[:600] % 50 > 0)).to_csv(folder / "gaps.csv", index=False)
    _write_european(table[:600].rename(columns={"y": "fällig"}), folder / "credit.export")
    rain = pd.read_csv(data / "scores" / "niamey_precip_2016.csv")
    rain.assign(month=np.repeat(["Jul", "Aug", "Sep"], [31, 31, 30])).to_csv(folder / "rain.csv", index=False)
    fetal = pd.read_parquet(data / "scores" / "tabular_models_fetal_health_3class.parquet")
    fetal = fetal[fetal["model"] == "logreg"].drop(columns="model")[:600].reset_index(drop=True)
    fetal = fetal.astype(dict.fromkeys(["p0", "p1", "p2"], np.float64)).assign(**_beside(600))
    fetal.rename(columns={"p0": "a", "p1": "b", "p2": "c"}).to_csv(folder / "abc.csv", index=False)
    fetal = fetal[:300].copy()
    fetal[["p0", "p1", "p2"]] /= fetal[["p0", "p1", "p2"]].sum(axis=1).to_numpy()[:, np.newaxis]
    fetal.to_csv(folder / "fetal.csv", index=False)
    _write_european(fetal.rename(columns={"p0": "größe0", "p1": "größe1", "p2": "größe2"}), folder / "fetal.export")


def _write_forecasts(data: Path, folder: Path) -> None:
    table = pd.read_csv(data / "forecast_fixtures" / "power_plant_v30_s0_test.csv")[:150]
    table = table.assign(**_beside(150), step=np.arange(150) % 2, last=table["y"].shift(1, fill_value=0.0))
    for name, z in {"0.1": -1.2816, "0.5": 0.0, "0.9": 1.2816}.items():
        table[f"q{name}"] = table["mu"] + z * table["sd"]
    draws = np.random.default_rng(0).normal(size=(150, 12))
    for k in range(12):
        table[f"draw_{k}"] = table["mu"] + draws[:, k] * table["sd"]
    table = table.assign(low=table["q0.1"], mid=table["q0.5"], high=table["q0.9"])
    table.to_csv(folder / "power.csv", index=False)
    table.to_csv(folder / "power.kept", index=False)
    _write_european(table.rename(columns={"y": "größe"}), folder / "power.export")


def _write_documents(folder: Path) -> None:
    documents: dict[str, Any] = {
        "costs.json": {"no": {"0": 0.0, "1": 4.0}, "yes": {"0": 1.0, "1": 0.0}},
        "few.json": {
            "losses": {"no": {"0": 0.0, "1": 4.0}, "yes": {"0": 1.0, "1": 0.0}},
            "do_nothing": "no",
            "capacity": {"yes": 2},
        },
        "three.json": {"wait": {"0": 0, "1": 1, "2": 5}, "look": {"0": 1, "1": 0, "2": 1}},
        "totals.json": {"p0": 220, "p1": 50, "p2": 30},
        "halves.json": {"half": 0.3, "rest": 0.7},
        "short.json": {"0": 220, "1": 50, "2": 30},
        "shares.json": {"p0": 0.7, "p1": 0.2, "p2": 0.1},
        "more.json": {"a": 450, "b": 100, "c": 60},
        "regions.json": {name: {"p0": 0.7, "p1": 0.2, "p2": 0.1} for name in ("Zürich", "Genève", "Bern")},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "calibrant.toml").write_text(
        '[[check]]\nname = "credit"\nfiles = "credit.parquet"\nmax = {brier = 0.3}\n'
        '[[check]]\nname = "rain"\nfiles = "rain.csv"\nlabel = "obs"\nscore = "EMOS"\nmin = {auc = 0.99}\n'
    )
    (folder / "other.toml").write_text('[[check]]\nname = "old"\nfiles = "old.parquet"\nmax = {brier = 0.3}\n')


def _write_database(folder: Path) -> None:
    """Write a database of several tables."""
    with duckdb.connect(str(folder / "all.duckdb")) as connection:
        for name in ("credit.parquet", "power.csv", "abc.csv"):
            connection.execute(f"CREATE TABLE {name.split('.')[0]} AS FROM '{folder / name}'")


def _write_market(data: Path, folder: Path) -> None:
    bars = pd.read_parquet(data / "market" / "sp500_d1.parquet")
    bars[:800].to_parquet(folder / "bars.parquet")
    bars[:1100].to_parquet(folder / "newest.parquet")
    gain = bars["close"].shift(-5) / bars["close"] - 1.0
    rows = pd.DataFrame(
        {
            "t": bars["time"],
            "until": bars["time"].shift(-5),
            "rose": np.where(gain > 0.0, "up", "down"),
            "gain": gain,
            "name": np.array(["S", "P"])[np.arange(len(bars)) % 2],
            "fall": bars["close"].pct_change(5),
            "range": bars["high"] / bars["low"] - 1.0,
            "volume": bars["volume"].astype(float),
        }
    ).iloc[10:700]
    rows[:500].to_parquet(folder / "rows.parquet")
    rows.to_parquet(folder / "more.parquet")
    (folder / "train.toml").write_text('model = "logistic"\nhorizon = 3\ndata = "bars.parquet"\n')
    (folder / "ownmodels.py").write_text(_OWN_MODEL)
    told = rows.assign(raw_up=0.5 + 0.4 * np.tanh(20.0 * rows["fall"])).drop(columns=["fall", "range", "volume"])
    told = told.assign(also=0.5 + 0.3 * np.tanh(-30.0 * rows["fall"]), y=rows["rose"])
    told.to_parquet(folder / "told.parquet")


def _run(*lines: str) -> None:
    for line in lines:
        main.main(line.split(), standalone_mode=False)


def write_files(folder: Path) -> None:
    """Write all files but those of runs, and calibrators that commands fit to them, in the current folder."""
    data = data_folder()
    _write_scores(data, folder)
    _write_forecasts(data, folder)
    _write_documents(folder)
    _write_database(folder)
    _write_market(data, folder)
    _run(
        "fit credit.parquet --method isotonic --bounded -o isotonic.json",
        "fit credit.parquet --method beta --group grade -o by_grade.json",
        "fit credit.parquet --score s --input score --method sigmoid -o svm.json",
        "forecast fit power.csv --mean mu --std sd --method average -o power.json",
    )


def train_runs() -> None:
    """Train the runs h5, h2 and own of the current folder's files."""
    how = "--model logistic --runs runs --no-gate"
    _run(
        f"train --data bars.parquet --horizon 5 {how}",
        f"train --data bars.parquet --horizon 2 --label binary {how}",
        f"train --table rows.parquet --label rose --time t --label-end until --features fall,range {how}"
        " --model ownmodels:Plain",
    )
