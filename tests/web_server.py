"""A web server of the tests' own on loopback: with ranges or without, and with every way to fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class WebServer(ThreadingHTTPServer):
    """Serves `files` by their paths; `requests` are the paths and ranges that were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.tag = '"1"'
        self.has_ranges = True
        self.status = 0  # of every answer, where it is not that of the file
        self.delay_s = 0.0
        self.cut_at: int | None = None
        self.requests: list[tuple[str, str | None]] = []

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.requests.append((self.path, asked))
        time.sleep(server.delay_s)
        body = server.files.get(self.path.partition("?")[0])
        if server.status or body is None:
            self.send_response(server.status or 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        part = body
        if asked is not None and server.has_ranges:
            start, end = (int(text) for text in asked.removeprefix("bytes=").split("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            part = body[start : end + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", server.tag)
        self.end_headers()
        if server.cut_at is not None and len(part) > server.cut_at:
            self.wfile.write(part[: server.cut_at])
            self.close_connection = True
            return
        try:
            self.wfile.write(part)
        except ConnectionError:  # the reader has seen enough
            self.close_connection = True

    def do_HEAD(self) -> None:
        self.send_response(self.server.status or 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
