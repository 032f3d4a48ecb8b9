"""An S3 of the tests' own on loopback, by moto in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

Put = Callable[[str, bytes], str]


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed: pip install 'moto[server]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    log_path = tmp_path_factory.mktemp("s3") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            for _ in range(600):
                try:
                    urlopen(address, timeout=5).close()
                    break
                except URLError:
                    assert process.poll() is None, log_path.read_text()
                    time.sleep(0.1)
            yield address
        finally:
            process.terminate()


@pytest.fixture
def put(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put bytes into the bucket `scores`; the environment leads there."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    urlopen(Request(f"{s3_endpoint}/moto-api/reset", method="POST")).close()
    urlopen(Request(f"{s3_endpoint}/scores", method="PUT")).close()

    def put_file(key: str, data: bytes) -> str:
        urlopen(
            Request(
                f"{s3_endpoint}/scores/{key}",
                data=data,
                headers={"Content-Type": "application/octet-stream"},
                method="PUT",
            )
        ).close()
        return f"s3://scores/{key}"

    return put_file
