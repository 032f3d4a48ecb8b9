"""Damaged files at every door: each is read to something that works, or refused, in 5 seconds and 1 GB.

`make fuzz` runs this with new random numbers for as long as it is told; the tests run it with the same ones each time.
What ends otherwise is kept as a file, with its seed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from doors import DOORS, Door

from calibrant.errors import CalibrantError

MOST_SECONDS, MOST_BYTES = 5, 1 << 30
#: What damage puts in: numbers at the ends, parts of syntax, what terminals, pages and shells obey.
NUMBERS = [
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e-999", b"5e-324", b"1.7976931348623157e308", b"-0.0",
    b"9" * 25, b"9223372036854775808", b"4294967296", b"-1", b"0", b"1", b"2", b"0.5", b"1e-9", b"1e9", b"0.0", b"1.0",
]  # fmt: skip
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
TOKENS = [
    *NUMBERS, b"null", b"true", b"false", b"None", b"nan", b"inf", b'""', b"''", b"[]",
    b"{}", b"[[]]", b"[", b"]", b"{", b"}", b'"', b"'", b",", b":", b";", b"=", b"\n", b"\r\n", b"\r", b"\t", b" ",
    b"\0", b"\x1b[2J", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"\\", b"#", b"[x]\n",
    b"2026-11-23", b"1979-05-27T07:32:00Z", b"0x7f", b"1_000", b'"""', b"<script>", b"../", b"PAR1", b"ARROW1",
    b"\x93", b"R", b"c", b"\x94", b"h\x00", b"G", b"Q", b"\x88", b"\x80\x04", b"." , b"(", b"s", b"u", b"e",
]  # fmt: skip


def damaged(valid: bytes, rng: random.Random) -> bytes:
    """Change, drop, insert, repeat, move or swap bytes in some places, or cut the rest off."""
    data = bytearray(valid)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        start = rng.randint(0, len(data))
        stop = min(len(data), start + rng.choice((0, 1, 1, 2, 4, 8, 16, 64)))
        match rng.randrange(9):
            case 0 | 1 | 2:
                data[start:stop] = rng.choice(TOKENS)
            case 3:
                data[start:stop] = b""
            case 4:
                data[start:stop] = rng.randbytes(stop - start)
            case 5:
                data[start:stop] = data[start:stop] * rng.choice((2, 3, 50))
            case 6:
                other = rng.randint(0, len(data))
                data[other:other] = data[start:stop]
            case 7 if data:
                place = rng.randrange(len(data))
                data[place] ^= 1 << rng.randrange(8)
            case _:
                del data[rng.randint(len(data) // 2, len(data)) :]
    return bytes(data)


def renumbered(valid: bytes, rng: random.Random) -> bytes:
    """Put odd numbers in the place of some: the syntax stays right."""
    found = list(_NUMBER.finditer(valid))
    for match in sorted(rng.sample(found, min(len(found), rng.choice((1, 1, 2, 5)))), key=lambda m: -m.start()):
        near = b"%.17g" % (float(match[0]) * rng.choice((-1.0, 0.5, 1.0 + 1e-9, 2.0)))
        valid = valid[: match.start()] + rng.choice((near, rng.choice(NUMBERS))) + valid[match.end() :]
    return valid if found else damaged(valid, rng)


def swapped(valid: bytes, rng: random.Random) -> bytes:
    """Put one value of a JSON document in the place of another, or something else, or take it away."""
    try:
        document = json.loads(valid)
    except ValueError:
        return damaged(valid, rng)
    places = list(_places(document))
    if not places:
        return damaged(valid, rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(places)
        other, at = rng.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            odd = [None, True, -1, 0, 0.5, 1e308, -1e308, 2**70, "", "x", [], {}, [[]], [0.5] * 99, {"x": {}}]
            new = rng.choice([*odd, json.loads(json.dumps(other[at]))])
            if rng.random() < 0.15:
                del holder[key]
            else:
                holder[key] = new
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


@dataclass
class Found:
    """What became of the files."""

    n: int = 0
    n_refused: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


class TooSlowError(BaseException):
    """Raised by the clock; no reader catches it."""


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """End what takes 5 seconds, and refuse memory beyond 1 GB more than now.

    Arrow has one thread of each kind meanwhile: a new one that gets no memory of its own ends the process (127).
    """

    def stop(*_: object) -> None:
        raise TooSlowError

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MOST_BYTES, hard))
    before = signal.signal(signal.SIGALRM, stop)
    threads = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        pa.set_cpu_count(threads[0])
        pa.set_io_thread_count(threads[1])


def is_refused(door: Door, rng: random.Random, valid: Sequence[tuple[str, bytes]], folder: Path) -> bool:
    """Damage one of the files and read it: say whether it was refused; whatever else happens goes on its way."""
    name, data = rng.choice(valid)
    path = folder / name
    path.write_bytes(rng.choice((damaged, renumbered, swapped))(data, rng))
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        door.read(path)
    except CalibrantError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def attack(door: Door, seeds: Iterable[int], folder: Path, kept: Path | None = None) -> Found:
    """Read a damaged file for each seed."""
    valid, found = list(door.valid().items()), Found()
    for name, data in valid:  # whole files: what they load and start is there before memory is short
        (folder / name).write_bytes(data)
        door.read(folder / name)
    with limits():
        for seed in seeds:
            begun = time.perf_counter()
            try:
                found.n_refused += is_refused(door, random.Random(seed), valid, folder)
            except (Exception, TooSlowError) as error:
                found.faults.append(f"seed {seed}: {type(error).__name__}: {error!s:.300}")
                if kept is not None:
                    kept.mkdir(exist_ok=True)
                    name, _ = random.Random(seed).choice(valid)
                    shutil.copy(folder / name, kept / f"{seed}-{name}")
            found.n += 1
            found.slowest = max(found.slowest, time.perf_counter() - begun)
    return found


def main() -> int:
    """Attack all doors in turn until the time is over; return 1 if anything ended otherwise than it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--only", choices=DOORS)
    options = parser.parse_args()
    named = [options.only] if options.only else list(DOORS)
    end, seed, totals = time.monotonic() + options.seconds, options.seed, {name: Found() for name in named}
    kept = Path("fuzz-found").resolve()
    print(f"seed {seed}, {options.seconds:g} seconds")
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            for name in named:
                home = Path(folder, name.replace(" ", "-"))
                home.mkdir(exist_ok=True)
                found, total = attack(DOORS[name], range(seed, seed + 100), home, kept), totals[name]
                total.n += found.n
                total.n_refused += found.n_refused
                total.slowest = max(total.slowest, found.slowest)
                total.faults += found.faults
                for fault in found.faults:
                    print(f"{name}: {fault} (kept in {kept.name})", flush=True)
            seed += 100
    for name, total in totals.items():
        kinds = Counter(fault.split(": ")[1] for fault in total.faults)
        print(
            f"{name:14s} {total.n:8,} files, {total.n_refused:8,} refused, slowest {total.slowest:5.2f} s, "
            f"{len(total.faults)} faults {dict(kinds) or ''}"
        )
    print(f"{sum(total.n for total in totals.values()):,} files in all")
    return int(any(total.faults for total in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
