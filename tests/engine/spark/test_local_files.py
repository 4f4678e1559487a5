"""Local files: Spark creates them itself, just as commands would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
import psutil
from engine.spark.session import start_session

session = start_session("files", master="local[1]")
files, settings = session._jvm.org.apache.hadoop.fs, session.sparkContext._jsc.hadoopConfiguration()
kept = files.Path("file:///").getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
other = files.RawLocalFileSystem()
other.initialize(kept.getUri(), settings)
(java,) = (each for each in psutil.Process().children(recursive=True) if each.name() == "java")


def made(system, folder):
    before = java.cpu_times()
    for number in range(20):
        system.create(files.Path(f"{sys.argv[1]}/{folder}/{number}")).close()
    after = java.cpu_times()
    return after.children_user + after.children_system > before.children_user + before.children_system


print(json.dumps([made(kept, "kept"), made(other, "other")]))
session.stop()
"""


@pytest.mark.spark
def test_files_have_their_permissions_without_a_command(tmp_path: Path) -> None:
    """No process is run for the files of queries, and their permissions are the same."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    assert [False, True] == json.loads(output)
    kept, other = ({oct(path.stat().st_mode) for path in (tmp_path / name).rglob("*")} for name in ("kept", "other"))
    assert kept == other
