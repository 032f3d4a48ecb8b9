"""Documents say when a calibrator was fitted, to which rows, and what it was worth on rows that it had not seen."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import calibrant as cb
from calibrant.calibrators import out_of_fold, row_splits
from calibrant.cli import main
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.persistence import Provenance, from_document, to_document
from calibrant.rows import read_rows

Run = Callable[..., Result]
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
AT_EPOCH = "2023-11-14T22:13:20Z"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Scores that are too high, as rows.parquet in the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    p = rng.random(600)
    table = pa.table({"y": np.where(rng.random(600) < p**2, "yes", "no"), "p": p, "w": rng.integers(0, 3, 600) * 0.5})
    pq.write_table(table, "rows.parquet")
    return table


def run(command: str, **env: str) -> Result:
    result = CliRunner().invoke(main, command.split(), env=env)
    assert result.exit_code == 0, result.output
    return result


def hash_by_hand(p: list[float], y: list[str], w: list[float]) -> str:
    packed = [struct.pack("<3d", a, c, float(b == "yes")) for a, b, c in zip(p, y, w, strict=True) if c > 0.0]
    return hashlib.sha256(b"".join(packed)).hexdigest()


@pytest.mark.parametrize("weighted", [False, True])
def test_fit_keeps_time_source_rows_and_their_hash(rows: pa.Table, weighted: bool) -> None:
    run(f"fit rows.parquet --method sigmoid -o c.json{' --weight w' if weighted else ''}", **EPOCH)
    known = cb.load("c.json").provenance_
    w = rows["w"].to_pylist() if weighted else [1.0] * 600
    assert (known.fitted_at, known.source, known.calibrant) == (AT_EPOCH, "rows.parquet", cb.__version__)
    assert known.n_rows == sum(each > 0.0 for each in w)
    assert known.rows_sha256 == hash_by_hand(rows["p"].to_pylist(), rows["y"].to_pylist(), w)
    again = Provenance.of(rows["p"], rows["y"], sample_weight=w, source="rows.parquet")
    assert again.rows_sha256 == known.rows_sha256


def test_figures_are_those_that_fit_prints_and_the_library_measures(rows: pa.Table) -> None:
    printed = run("fit rows.parquet --method sigmoid -o c.json", **EPOCH).output
    found = cb.load("c.json").provenance_.out_of_fold
    checked = read_rows(rows["p"], rows["y"])
    q = out_of_fold(cb.SigmoidCalibrator(), checked, row_splits(checked, 5, rng=0))
    for figures, p in ((found.before, rows["p"]), (found.after, q)):
        assert figures is not None
        scores = cb.evaluate(rows["y"], p, rng=0)
        assert figures == {name: (scores[name].value, scores[name].low, scores[name].high) for name in figures}
    shown = run("inspect c.json").output
    table = printed[printed.index("Out of fold") : printed.index("\n\nSaved")]
    assert table in shown
    assert f"fitted at      {AT_EPOCH}, by calibrant {cb.__version__}" in shown
    assert "source         rows.parquet" in shown


def test_a_file_that_is_read_in_passes_has_the_same_hash(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    run("fit rows.parquet --method isotonic -o small.json")
    monkeypatch.setattr("calibrant.cli.data.MANY", 10)
    run("fit rows.parquet --method isotonic -o large.json")
    small, large = (cb.load(f"{name}.json").provenance_ for name in ("small", "large"))
    assert (large.rows_sha256, large.n_rows) == (small.rows_sha256, small.n_rows)
    assert large.out_of_fold is None


def test_every_kind_that_fit_makes_keeps_it(rows: pa.Table) -> None:
    for options in ("--group y --method beta", "--method auto", "--method venn_abers"):
        run(f"fit rows.parquet {options} -o c.pkl", **EPOCH)
        assert cb.load("c.pkl").provenance_.fitted_at == AT_EPOCH


def test_recalibrators_of_forecasts_keep_it_too(rows: pa.Table) -> None:
    rng = np.random.default_rng(1)
    mu, sd, w = rng.normal(size=60), rng.uniform(0.5, 2.0, 60), rng.integers(0, 3, 60).astype(float)
    y = mu + 2.0 * sd * rng.normal(size=60)
    pq.write_table(pa.table({"y": y, "mu": mu, "sd": sd, "w": w}), "forecasts.parquet")
    fit = "forecast fit forecasts.parquet --outcome y --mean mu --std sd --weight w --method variance -o f.json"
    run(fit, **EPOCH)
    known = cb.load("f.json").provenance_
    numbers = np.column_stack((mu, sd, w, y))[w > 0.0]
    assert known.rows_sha256 == hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()
    assert (known.fitted_at, known.source, known.n_rows) == (AT_EPOCH, "forecasts.parquet", len(numbers))
    assert f"{AT_EPOCH}, by calibrant" in run("inspect f.json").output


@pytest.mark.parametrize("suffix", ["json", "pkl"])
def test_same_rows_at_the_same_time_give_the_same_bytes(rows: pa.Table, suffix: str) -> None:
    for name in "ab":
        run(f"fit rows.parquet --method isotonic -o {name}.{suffix}", **EPOCH)
    assert Path(f"a.{suffix}").read_bytes() == Path(f"b.{suffix}").read_bytes()
    run(f"fit rows.parquet --method isotonic -o b.{suffix}", SOURCE_DATE_EPOCH="1700000001")
    assert Path(f"a.{suffix}").read_bytes() != Path(f"b.{suffix}").read_bytes()
    assert cb.persistence.fingerprint(cb.load(f"a.{suffix}")) == cb.persistence.fingerprint(cb.load(f"b.{suffix}"))


def test_without_the_variable_it_is_now(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before = np.datetime64("now")
    said = Provenance.of([0.1, 0.9], [0, 1]).fitted_at
    after = np.datetime64("now") + np.timedelta64(1, "s")  # whose clock is a coarser one, and may lag
    assert before <= np.datetime64(said.removesuffix("Z")) <= after


def test_a_fit_alone_reads_no_clock(rows: pa.Table) -> None:
    fitted = cb.IsotonicCalibrator().fit(rows["p"], rows["y"])
    assert "provenance" not in to_document(fitted)
    assert fitted.provenance_ is None


@pytest.mark.parametrize("suffix", ["json", "pkl"])
def test_it_is_kept_by_saving_again_and_not_by_fitting_again(rows: pa.Table, suffix: str) -> None:
    fitted = cb.IsotonicCalibrator().fit(rows["p"], rows["y"])
    said = Provenance.of(rows["p"], rows["y"], source="größe\x1b[2J.parquet")
    assert said.source == "größe\ufffd[2J.parquet"
    cb.save(fitted, f"a.{suffix}", provenance=said)
    loaded = cb.load(f"a.{suffix}")
    assert loaded.provenance_ == said
    cb.save(loaded, f"b.{suffix}")
    assert Path(f"a.{suffix}").read_bytes() == Path(f"b.{suffix}").read_bytes()
    loaded.fit(rows["p"][:300], rows["y"][:300])
    assert loaded.provenance_ is None
    assert "provenance" not in to_document(loaded)


def test_what_is_undefined_comes_back_so(rows: pa.Table) -> None:
    pq.write_table(pa.table({"y": [0, 0, 1, 1] * 20, "p": [0.0, 0.5, 0.0, 1.0] * 20}), "zeros.parquet")
    run("fit zeros.parquet --method sigmoid -o c.json")
    found = cb.load("c.json").provenance_.out_of_fold
    assert np.isnan(found.before["log_loss"][0])
    assert np.isfinite(found.after["log_loss"]).all()
    assert "n/a" in run("inspect c.json").output


@pytest.mark.parametrize("epoch", ["yesterday", "-1", "1.5", "9" * 30, "²"])
def test_a_time_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(InvalidInputError, match=r"is no number of seconds since 1970\. Set one, or unset it"):
        Provenance.of([0.1, 0.9], [0, 1])


def test_something_else_is_refused(rows: pa.Table) -> None:
    fitted = cb.IsotonicCalibrator().fit(rows["p"], rows["y"])
    with pytest.raises(InvalidTypeError, match=r"is no Provenance\. Make one by Provenance\.of"):
        to_document(fitted, provenance={"source": "x"})  # type: ignore[arg-type]
    document = to_document(fitted, provenance=Provenance.of(rows["p"], rows["y"], source="a" * 10_000))
    assert len(from_document(document).provenance_.source) == 4096
