"""Files on a web server or in a bucket of S3, read where they are: text as a stream, columns by their ranges of bytes.

S3 is reached by Arrow's own file system, which takes credentials as Amazon's tools do, from the environment or from
~/.aws. A web server that answers requests for ranges is read by ranges; of one that doesn't, a file of columns is read
into memory.
"""

from __future__ import annotations

import glob
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import takewhile
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from calibrant.errors import InvalidInputError
from calibrant.files import remote_scheme

if TYPE_CHECKING:
    from http.client import HTTPResponse

    import pyarrow as pa
    import pyarrow.fs as fs

SCHEMES = ("s3", "http", "https")
#: Seconds to wait for a connection, and for an answer.
_CONNECT_S, _ANSWER_S = 10, 30
_ATTEMPTS = 3
#: Bytes that a request for a range asks for at least.
_RANGE_BYTES = 1 << 18
#: What Arrow says where S3 refuses access.
_REFUSED = (
    "ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|"
    "MISSING_AUTHENTICATION|INVALID_CLIENT_TOKEN|TOKEN_EXPIRED|ExpiredToken|HTTP status 403"
)
#: What Arrow says of S3's errors, and what it means.
_S3_ERRORS = {
    "NO_SUCH_BUCKET|NoSuchBucket": "there is no such bucket. Check its name, and AWS_ENDPOINT_URL if it is set.",
    _REFUSED: "the server refuses access. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    "NETWORK_CONNECTION|REQUEST_TIMEOUT|[Tt]imed? ?out|resolve host|connect": (
        "the server can't be reached in time. Check the connection, and AWS_ENDPOINT_URL if it is set."
    ),
}
_HTTP_ERRORS = {
    401: "the server asks who you are (401). Pass a link that needs no login, such as a presigned one.",
    403: "the server refuses access (403). Pass a link that may be read, such as a presigned one that has not run out.",
    404: "there is no such file (404).",
    410: "there is no such file any more (410).",
}


def is_remote(source: object) -> bool:
    """Say whether a source is the address of a file on another computer."""
    return isinstance(source, str) and remote_scheme(source) is not None


def name_of(address: str) -> str:
    """Return what messages call an address: without what follows ?, which may hold a secret."""
    return address.partition("?")[0] if address.startswith("http") else address


@dataclass(frozen=True, slots=True)
class RemoteFile(ABC):
    """A file on another computer; `place` is its path there, and `stamp` what changes when it does."""

    name: str
    place: PurePosixPath
    n_bytes: int
    stamp: str

    @abstractmethod
    def open(self) -> BinaryIO:
        """Return its bytes as a stream, from the first one."""

    @abstractmethod
    def open_arrow(self) -> pa.NativeFile:
        """Open it for Arrow, with seeking."""


def remote_file(address: str) -> RemoteFile:
    """Find one file by its address.

    Raises
    ------
    InvalidInputError
        If it doesn't exist, may not be read, or its server can't be reached.
    """
    scheme = _known_scheme(address)
    return _s3_file(address) if scheme == "s3" else _web_file(address)


def is_many_remote(address: str) -> bool:
    """Say whether an address names a folder of a bucket, or is a pattern of the names in it."""
    if _known_scheme(address) != "s3":
        return False
    if glob.has_magic(address):
        return True
    from pyarrow.fs import FileType

    place = _place(address)
    with _explained_s3(address):
        found = _bucket_system(place.parts[0]).get_file_info(str(place))
    return bool(found.type == FileType.Directory)


def root_of_remote(address: str) -> PurePosixPath:
    """Return the folder below which the files lie that an address names: a folder, a pattern, or one file."""
    if not is_many_remote(address):
        return remote_file(address).place.parent
    return PurePosixPath(*plain_parts(_place(address)))


def many_remote(address: str) -> list[RemoteFile]:
    """Return the files in a folder of a bucket and the folders in it, or those that match a pattern, in their order."""
    from pyarrow.fs import FileSelector, FileType

    place = _place(address)
    root = PurePosixPath(*plain_parts(place))
    with _explained_s3(address):
        system = _bucket_system(place.parts[0])
        found = system.get_file_info(FileSelector(str(root), recursive=True, allow_not_found=True))
    files = [info for info in found if info.type == FileType.File and _matches(PurePosixPath(info.path), place, root)]
    return [_of_info(info, system) for info in sorted(files, key=lambda info: str(info.path))]


def plain_parts(path: PurePath) -> list[str]:
    """Return the parts of a path before the first one that is a pattern."""
    return list(takewhile(lambda part: not glob.has_magic(part), path.parts))


def _matches(path: PurePosixPath, pattern: PurePosixPath, root: PurePosixPath) -> bool:
    """Say whether a path matches part by part; what is given as a folder matches all in it."""
    if root == pattern:
        return True
    return _match_parts(path.parts[len(root.parts) :], pattern.parts[len(root.parts) :])


def _match_parts(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match_parts(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _match_parts(parts[1:], pattern[1:])


def _known_scheme(address: str) -> str:
    scheme = remote_scheme(address)
    if scheme not in SCHEMES:
        raise InvalidInputError(
            f"{name_of(address)}: addresses of {scheme}:// can't be read, only s3://, https:// and http://."
        )
    return scheme


# --- S3 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class S3File(RemoteFile):
    """A file in a bucket."""

    system: fs.FileSystem

    def open(self) -> BinaryIO:
        with _explained_s3(self.name):
            return cast(BinaryIO, self.system.open_input_stream(str(self.place), compression=None))

    def open_arrow(self) -> pa.NativeFile:
        with _explained_s3(self.name):
            return self.system.open_input_file(str(self.place))


def _place(address: str) -> PurePosixPath:
    place = PurePosixPath(address.removeprefix("s3://"))
    if not place.parts:
        raise InvalidInputError(f"{address} names no bucket. Write s3://BUCKET/FILE.")
    return place


def _s3_file(address: str) -> RemoteFile:
    from pyarrow.fs import FileType

    place = _place(address)
    with _explained_s3(address):
        system = _bucket_system(place.parts[0])
        info = system.get_file_info(str(place))
    if info.type == FileType.NotFound:
        raise InvalidInputError(f"there is no file {address}.")
    return _of_info(info, system)


def _of_info(info: Any, system: fs.FileSystem) -> RemoteFile:
    return S3File(f"s3://{info.path}", PurePosixPath(info.path), info.size or 0, str(info.mtime_ns), system)


@cache
def _system(bucket: str, endpoint: str | None, region: str | None) -> fs.FileSystem:
    """Return the file system of a bucket; the environment says where it is, or else Amazon does."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    how: dict[str, Any] = {}
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidInputError(
                f"AWS_ENDPOINT_URL={endpoint} is no address. Write https://HOST or http://HOST:PORT."
            )
        how = {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    elif region is None:
        region = resolve_s3_region(bucket)
    return S3FileSystem(
        region=region,
        connect_timeout=_CONNECT_S,
        request_timeout=_ANSWER_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        **how,
    )


def _bucket_system(bucket: str) -> fs.FileSystem:
    of = os.environ.get
    endpoint = of("AWS_ENDPOINT_URL_S3") or of("AWS_ENDPOINT_URL") or None
    return _system(bucket, endpoint, of("AWS_REGION") or of("AWS_DEFAULT_REGION") or None)


@contextmanager
def _explained_s3(name: str) -> Iterator[None]:
    """Turn Arrow's errors of S3 into one that says what to do."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise InvalidInputError(f"there is no file {name}.") from None
    except (OSError, pa.ArrowException) as error:
        said = re.sub(r"\s+", " ", str(error))
        why = next((why for pattern, why in _S3_ERRORS.items() if re.search(pattern, said)), f"{said:.300}")
        raise InvalidInputError(f"{name} can't be read: {why}") from None


# --- the web -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WebFile(RemoteFile):
    """A file on a web server; `has_ranges` says whether parts of it can be asked for."""

    address: str
    has_ranges: bool

    def open(self) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_WebStream(self, self.request()), 1 << 20))

    def open_arrow(self) -> pa.NativeFile:
        import pyarrow as pa

        if self.has_ranges:
            return pa.PythonFile(_WebRanges(self), "r")
        with self.open() as stream:
            return pa.BufferReader(stream.read())

    def request(self, start: int | None = None, end: int | None = None) -> HTTPResponse:
        """Ask for the file, or for its bytes from `start` to before `end`; refuse one that has changed since."""
        response = _request(self.address, None if start is None or end is None else f"bytes={start}-{end - 1}")
        if start is not None and response.status != 206:
            raise InvalidInputError(f"{self.name} can't be read: its server sent all of it where a part was asked for.")
        if _stamp(response) != self.stamp:
            raise InvalidInputError(f"{self.name} changed while it was read. Start again.")
        return response


class _WebStream(io.RawIOBase):
    """The bytes of an answer; one that ends before its length is refused."""

    def __init__(self, file: WebFile, response: HTTPResponse) -> None:
        self._file, self._response, self._n_read = file, response, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _explained_web(self._file.name):
            n = self._response.readinto(buffer)
        self._n_read += n
        if n == 0 and len(buffer) and self._n_read < self._file.n_bytes:
            raise InvalidInputError(
                f"{self._file.name} broke off after {self._n_read:,} of {self._file.n_bytes:,} bytes. Try again."
            )
        return n

    def close(self) -> None:
        self._response.close()
        super().close()


class _WebRanges(io.RawIOBase):
    """A file of a web server whose bytes are asked for where they are read."""

    def __init__(self, file: WebFile) -> None:
        self._file, self._at = file, 0
        self._held, self._held_from = b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.n_bytes}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        n = max(0, min(len(buffer), self._file.n_bytes - self._at))
        if n == 0:
            return 0
        if not self._held_from <= self._at <= self._at + n <= self._held_from + len(self._held):
            end = min(self._file.n_bytes, self._at + max(n, _RANGE_BYTES))
            with _explained_web(self._file.name), self._file.request(self._at, end) as response:
                self._held, self._held_from = response.read(), self._at
            if len(self._held) != end - self._at:
                raise InvalidInputError(
                    f"{self._file.name} broke off at byte {self._at + len(self._held):,}. Try again."
                )
        start = self._at - self._held_from
        buffer[:n] = self._held[start : start + n]
        self._at += n
        return n


def _web_file(address: str) -> RemoteFile:
    parts = urlsplit(address)
    if not parts.hostname:
        raise InvalidInputError(f"{name_of(address)} names no server. Write https://HOST/FILE.")
    if parts.username or parts.password:
        raise InvalidInputError(
            f"the address of {parts.hostname} holds a password. Pass one without, such as a presigned one."
        )
    place = PurePosixPath(parts.hostname, unquote(parts.path).lstrip("/"))
    with _request(address, "bytes=0-0") as response:
        has_ranges = response.status == 206
        length = response.headers.get("Content-Range", "").rpartition("/")[2] if has_ranges else ""
        length = length or response.headers.get("Content-Length", "")
        has_ranges = has_ranges and length.isdigit()
        n_bytes = int(length) if length.isdigit() else 0
        return WebFile(name_of(address), place, n_bytes, _stamp(response), address, has_ranges)


def _stamp(response: HTTPResponse) -> str:
    return response.headers.get("ETag") or response.headers.get("Last-Modified") or ""


def _request(address: str, ranges: str | None) -> HTTPResponse:
    from urllib.request import Request, urlopen

    headers = {
        "User-Agent": "calibrant",
        "Accept-Encoding": "identity",
        **({} if ranges is None else {"Range": ranges}),
    }
    with _explained_web(name_of(address)):
        request = Request(address, headers=headers)  # noqa: S310 - http or https, which was checked
        return cast("HTTPResponse", urlopen(request, timeout=_ANSWER_S))  # noqa: S310


@contextmanager
def _explained_web(name: str) -> Iterator[None]:
    """Turn errors of a web server, or of the connection to it, into one that says what to do."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError

    try:
        yield
    except HTTPError as error:
        error.close()
        if error.code == 416:
            raise InvalidInputError(f"{name} is empty: it has not even a header.") from None
        why = _HTTP_ERRORS.get(error.code, f"its server answers {error.code} {error.reason}. Try again later.")
        raise InvalidInputError(f"{name} can't be read: {why}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            why = f"its server didn't answer in {_ANSWER_S} seconds. Try again later."
        else:
            why = f"{reason!s:.200}. Check the address, and the connection."
        raise InvalidInputError(f"{name} can't be read: {why}") from None
