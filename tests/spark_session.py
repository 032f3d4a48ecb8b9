"""One Spark for all tests: two executors in processes of their own, each with Python workers beside it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # runs are too short for the better compiler
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than the few rows of a test do
    "spark.executor.memory": "768m",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": _QUICK_START,
    "spark.executor.extraJavaOptions": _QUICK_START,
}


def java_version() -> int:
    """Return the major version of the Java that Spark would start; 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def start(folder: Path, master: str) -> Any:
    """Start Spark, which leaves what it writes in the folder."""
    import pyspark
    from pyspark.sql import SparkSession

    home = folder / "home"  # in whose folder `work` executors keep their logs
    home.mkdir(parents=True)
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    os.environ.update(
        SPARK_HOME=str(home),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_DIRS=str(folder / "blocks"),
        PYSPARK_PYTHON=sys.executable,
    )

    builder = SparkSession.builder.master(master).appName("calibrant")
    settings = {**_SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "tables")}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give the session. Tests that use it say Spark in their file's name or a parameter: one process runs them."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if java_version() < 17:
        pytest.skip("Spark needs Java 17 or newer, and JAVA_HOME and the path have none")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for name in ("SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "PYSPARK_PYTHON"):
            patch.setenv(name, "")  # so that they are as before in the end
        warnings.simplefilter("ignore", ResourceWarning)
        session = start(tmp_path_factory.mktemp("spark"), "local-cluster[2,1,1024]")
        yield session
        session.stop()
