"""Commands on files of web servers and buckets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

from calibrant.cli import data
from s3_server import Put, put as put, s3_endpoint as s3_endpoint
from web_server import WebServer, web as web

Run = Callable[..., Result]


@pytest.mark.parametrize("many", [1 << 24, 500])
def test_a_web_file_is_measured_and_calibrated_like_one_of_the_disk(
    run: Run, binary: pa.Table, web: WebServer, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(data, "MANY", many)
    monkeypatch.setattr(data, "_BYTES_PER_ROW", 1)
    web.files = {f"/{name}": Path(name).read_bytes() for name in ("scores.csv", "scores.parquet")}
    wanted = json.loads(run("evaluate scores.parquet --json").output)["scores"]
    for name in web.files:
        found = json.loads(run(f"evaluate {web.address(name)}?token=secret --json").output)
        assert found["scores"] == wanted
        assert found["file"] == web.address(name)
    assert run(f"fit {web.address('/scores.csv')} --method isotonic --bounded -o c.json").exit_code == 0
    done = run(f"apply c.json {web.address('/scores.csv')} -o out.csv")
    assert done.output == "Wrote out.csv: 600 rows with p_calibrated\n"
    refused = run("evaluate", web.address("/none.csv"))
    assert (refused.exit_code, "there is no such file (404)" in refused.output) == (2, True)
    refused = run("apply c.json scores.csv -o s3://bucket/out.csv")
    assert (refused.exit_code, "files are written to this computer only" in refused.output) == (2, True)


def test_a_folder_of_a_bucket_is_measured_and_monitored(run: Run, binary: pa.Table, put: Put) -> None:
    for i in range(3):
        put(f"day/{i}.csv", binary.slice(200 * i, 200).to_pandas().to_csv(index=False).encode())
    wanted = json.loads(run("evaluate scores.csv --json").output)["scores"]
    assert json.loads(run("evaluate s3://scores/day/ --json").output)["scores"] == wanted
    windows = json.loads(run("monitor s3://scores/day/*.csv --json").output)["rows"]
    assert [window["name"] for window in windows] == ["0.csv", "1.csv", "2.csv"]
