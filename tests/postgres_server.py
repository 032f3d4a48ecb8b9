"""A PostgreSQL of the tests' own, in a folder of its own, reached by a socket there; no network, no password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _programs() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs: Debian's are not on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    paths = [*found, *([Path(on_path).resolve()] if on_path else [])]
    return paths[-1].parent if paths else None


def _owner() -> pwd.struct_passwd | None:
    """Return who runs the server where this process is root's, whom it refuses: Debian's postgres, or nobody."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres", known.get("nobody"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """Give a connection to a new server, which is stopped and removed in the end."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="calibrant-pg-"))  # short: a socket's path has at most 107 bytes
    owner, who = _owner(), {}
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        with (folder / "log").open("ab") as log:
            subprocess.run(command, check=True, cwd=folder, env={"PATH": os.defpath}, stdout=log, stderr=log, **who)

    try:
        run("initdb", "-U", "calibrant", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c autovacuum=off -c jit=off"
        run("pg_ctl", "-w", "-o", options, "start")
        try:
            address = f"host={folder} user=calibrant dbname=postgres"
            with psycopg.connect(address, autocommit=True) as connection:
                yield connection
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
