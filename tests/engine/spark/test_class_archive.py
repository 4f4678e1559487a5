"""The archive of Spark's classes: which one goes with what is installed, and that a JVM uses it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.machines import class_archiver
from engine.spark.programs import find_java
from engine.spark.session import archive_of, find_spark, using_archive

SCRIPT = """
import json
from engine.spark.session import start_session

session = start_session("archived", master="local[1]")
print(json.dumps(session.range(3).count()))
session.stop()
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment with a Java that prints its version, and a Spark with two archives of classes."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"'\n")
    java.chmod(0o755)
    jars = tmp_path / "my spark" / "jars"
    jars.mkdir(parents=True)
    for name in ("spark-core_2.13.jar", "netty.jar"):
        (jars / name).write_bytes(b"classes")
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "my spark")}


def test_an_archive_that_is_there_is_used(installed: dict[str, str]) -> None:
    """Also if its path has a blank; without one, the JVM gets no option."""
    assert not using_archive(installed)
    archive = archive_of(installed)
    assert archive is not None
    archive.write_bytes(b"")
    assert f'"-XX:SharedArchiveFile={archive}"' == using_archive(installed)


def test_what_is_installed_anew_has_another_archive(installed: dict[str, str], tmp_path: Path) -> None:
    """A JVM refuses one that was made of other files, or by another Java."""
    found = [archive_of(installed)]
    (tmp_path / "my spark" / "jars" / "netty.jar").write_bytes(b"other classes")
    found.append(archive_of(installed))
    other = tmp_path / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\necho 'openjdk version \"25\"'\n")
    other.chmod(0o755)
    found.append(archive_of(installed | {"JAVA_HOME": str(tmp_path / "other")}))
    assert 3 == len(set(found))


def test_where_java_or_spark_is_not_known_there_is_none(installed: dict[str, str]) -> None:
    """Then Spark starts as it would."""
    assert archive_of({"PATH": "/nowhere", "SPARK_HOME": installed["SPARK_HOME"]}) is None
    assert archive_of({"JAVA_HOME": installed["JAVA_HOME"]}) is None


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of caches for this process and those that it starts."""
    for name in ("JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path
    # What finds them changes the environment.
    for name in ("JAVA_HOME", "SPARK_HOME"):
        os.environ.pop(name, None)


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_loads_its_classes_from_the_archive(caches: Path) -> None:
    """Once that was made: all but those that are made as it runs, which are a fifth."""
    made = class_archiver.make_archive()
    assert made is not None
    assert [made] == list(caches.glob("braid/spark-*/classes-*.jsa"))
    log = caches / "loaded"
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        check=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={log}"},
    )
    assert 3 == json.loads(done.stdout)
    loaded = log.read_text().splitlines()
    assert 0.7 * len(loaded) < sum("shared objects file" in each for each in loaded)
    assert 5_000 < len(loaded)


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_that_stops_ends_what_archives(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of it is left, and no half an archive."""
    find_java(os.environ)
    find_spark(os.environ)
    monkeypatch.setattr(class_archiver, "ARCHIVED_AFTER", 0.0)
    stopping = threading.Event()
    archiving = threading.Thread(target=class_archiver.archive_classes, args=[stopping])
    archiving.start()
    while not (begun := [each for each in psutil.Process().children() if "class_archiver" in " ".join(each.cmdline())]):
        assert archiving.is_alive()
    stopping.set()
    archiving.join(60)
    assert not archiving.is_alive()
    assert not any(each.is_running() for each in begun)
    assert not list(caches.glob("braid/spark-*/classes-*.jsa"))
