"""The benchmark of tables, on tiny experiments of the same layout, and the list of its tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

real_tables = pytest.importorskip("benchmarks.real_tables", reason="the tests don't run from the repository's root")

TABLES = ("plain_a", "plain_b", "panel_a", "panel_b")


def write_experiments(root: Path) -> None:
    """Write two plain tables and two with groups of four rows, each with four plain models and a good one."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    rng = np.random.default_rng(0)
    index = []
    with h5py.File(root / "tables-binary.h5", "w") as file:
        for table in TABLES:
            for model in ("m1", "m2", "m3", "m4", "ensemble"):
                group = file.create_group(f"{table}/{model}")
                for part, n in (("cal", 360), ("test", 200)):
                    z = rng.normal(size=n)
                    group[f"labels_{part}"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.int64)
                    group[f"probas_{part}"] = 1.0 / (1.0 + np.exp(-(z if model == "ensemble" else 3.0 * z)))
                    if table.startswith("panel"):
                        group[f"groups_{part}"] = np.arange(n) // 4
                kind = "good" if model == "ensemble" else "plain"
                half = table[-1].upper()
                index.append(
                    {"dataset": table, "model": model, "cal_size": 360, "test_size": 200, "kind": kind, "half": half}
                )
    pc.write_csv(pa.Table.from_pylist(index), root / "tables-binary-experiments.csv")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_experiments(tmp_path)
    return tmp_path


def test_tables_have_names_of_their_own_and_are_enough() -> None:
    names = [table.name for table in real_tables.TABLES]
    assert len(set(names)) == len(names) >= 60
    assert len(real_tables.MULTICLASS) >= 20
    assert not any("/" in name for name in names)
    assert len({(table.source, table.target) for table in real_tables.TABLES}) == len(names)


def test_what_auto_was_chosen_on_are_tables_of_the_list() -> None:
    assert {table.name for table in real_tables.TABLES} > real_tables.CHOSEN_ON


def test_each_table_is_of_one_half_and_halves_are_equal() -> None:
    halves = real_tables.halves()
    assert halves == real_tables.halves()
    for kind in (real_tables.BINARY, real_tables.MULTICLASS):
        counts = [sum(halves[table.name] == half for table in kind) for half in "AB"]
        assert sum(counts) == len(kind)
        assert abs(counts[0] - counts[1]) <= 1


def test_groups_stay_whole_where_rows_are_capped_and_split() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from benchmarks.table_scores import folds_of, split

    group = np.repeat(np.arange(50), 7)
    kept = real_tables._capped(group.size, group, 100)
    assert kept.size == 98
    assert all((group[kept] == each).sum() == 7 for each in np.unique(group[kept]))
    rng = np.random.default_rng(0)
    rows = real_tables.TableRows(rng.normal(size=(350, 2)), rng.integers(0, 2, 350), group)
    is_training = split(rows)
    assert 0.55 < is_training.mean() < 0.65
    assert not set(group[is_training]) & set(group[~is_training])
    seen = np.zeros(350, dtype=int)
    for fold in folds_of(rows):
        assert not set(group[fold.trained]) & set(group[fold.predicted])
        seen[fold.predicted] += 1
    assert (seen == 1).all()


def test_rare_classes_and_missing_targets_are_left_out() -> None:
    values = np.array(["a"] * 30 + ["b"] * 25 + ["c"] * 3)
    y, is_kept = real_tables._classes(pytest.importorskip("pandas").Series(values), ())
    assert (np.bincount(y) == [30, 25]).all()
    assert is_kept.sum() == 55


def test_the_greedy_ensemble_is_no_worse_than_its_best_member() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from benchmarks.table_scores import _log_loss, greedy_weights

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    p = rng.dirichlet(np.ones(3), size=(4, 400)) + np.eye(3)[y] * np.array([0.1, 0.4, 0.8, 0.8])[:, None, None]
    p /= p.sum(axis=2, keepdims=True)
    weights = greedy_weights(p, y)
    assert weights.sum() == pytest.approx(1.0)
    assert _log_loss(np.tensordot(weights, p, 1), y) <= min(_log_loss(each, y) for each in p) + 1e-12


def test_calibration_rows_are_the_same_for_all_models_and_come_in_groups(root: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from benchmarks.calarena import read_experiments
    from benchmarks.table_runs import MODELS_PER_SIZE, drawn_rows, runs_of

    experiments = list(read_experiments(root, "tables-binary"))
    runs = runs_of(experiments)
    sizes = {(run.experiment.dataset, run.size) for run in runs}
    assert sizes == {(table, size) for table in TABLES for size in ("100", "300", "all")}
    assert len(runs) == len(sizes) * sum(MODELS_PER_SIZE.values())
    assert len(runs_of(experiments, all_models=True)) == len(sizes) * 5
    assert len({run.key for run in runs}) == len(runs)
    of_panel = [run.split() for run in runs if run.experiment.dataset == "panel_a" and run.size == "100"]
    for each in of_panel:
        assert (np.bincount(each.calibration.group) % 4 == 0).all()
        assert (each.calibration.group == of_panel[0].calibration.group).all()
    plain = [run for run in runs if run.experiment.dataset == "plain_a" and run.size == "100"]
    rows = [drawn_rows(run.split().held_out, 50) for run in plain]
    assert all((each == rows[0]).all() for each in rows)


@pytest.mark.slow
def test_parts_goals_and_what_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from benchmarks import tables

    every = [m for m in tables.methods_of("binary") if m.name in ("none", "auto", "beta", "isotonic", "temperature")]
    monkeypatch.setattr(tables, "methods_of", lambda _: every)
    found = tables.run(str(root))
    captions = [table["caption"].partition(":")[0] for table in found.tables]
    new = ["binary, new tables only", "binary, good models of new tables"]
    assert captions == ["binary, half A", "binary, half B", "binary, good models", *new]
    half = {row[0]: dict(zip(found.tables[0]["header"], row, strict=True)) for row in found.tables[0]["rows"]}
    assert half["none"]["harm"] == "0.0%"
    assert float(half["isotonic"]["n=100"]) > float(half["temperature"]["n=100"])
    assert all(row["failed"] == "0" for row in half.values())
    claims = [goal["claim"] for goal in found.goals]
    assert claims[0] == "binary, half A: win rate"
    assert claims[-2:] == [f"{new[1]}: mean PHI", f"{new[1]}: harm by mean"]
    assert any(claim.startswith("binary, half B: mean log loss at n = all less that of ") for claim in claims)
    kept = root / "measured" / "binary" / "beta.json"
    before = json.loads(kept.read_text(encoding="utf-8"))
    again = tables.run(str(root), methods="auto,temperature")
    assert [goal["value"] for goal in again.goals] == [goal["value"] for goal in found.goals]
    assert json.loads(kept.read_text(encoding="utf-8")) == before
    of_half = tables.run(str(root), half="B")
    captions = [table["caption"].partition(":")[0] for table in of_half.tables]
    assert captions == ["binary, half B", "binary, good models", *new]


def test_what_is_missing_or_unknown_is_named(root: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from benchmarks import tables

    with pytest.raises(SystemExit, match="--data FOLDER"):
        tables.run(None)
    with pytest.raises(SystemExit, match="Choose from: binary, multiclass"):
        tables.run(str(root), "ternary")
    with pytest.raises(SystemExit, match=r"no method 'autoo'\. Choose from: ours, .*isotonic bounded"):
        tables.run(str(root), "binary", methods="autoo")
