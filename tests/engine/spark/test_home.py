"""The home of Spark, and the modules that its processes load: both are kept small, for a quick start."""

import os
import subprocess
import sys
from pathlib import Path

from engine.spark.session import find_spark, jars_to_find_first

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
