"""The Spark session of a host: its programs and classes, settings by which a batch costs little, and its end.

- The home of Spark's programs is the installed one, but without its archive of PySpark: every Python process of Spark
  would import from that archive first, and compile all of it again.
- The class archive has Spark's classes as the JVM keeps them once they are loaded, in a file that it maps. With it a
  session starts in half the time, and with half the CPU: else the JVM finds, reads and checks some 14,000 classes
  again. An archive goes with one Java and one installation of Spark; if it does not fit, the JVM does without. It lies
  beside Spark's programs, in the user's caches. `engine.machines.class_archiver` makes it.
- With the archive of Braid's code the workers of a cluster run the same code as their host. Braid's dependencies, and
  packages with behaviours of third parties, have to be installed on every worker: they may hold compiled code, which
  cannot be loaded from an archive.
- Local files are created without a command for each. Hadoop runs `chmod` for every file that it creates, unless it
  finds a native library that Spark does not come with. Each batch creates two files, and the commands took a tenth of
  its CPU.
- Named workers are Python processes that only what was begun under the same name shares. Otherwise Spark lends a
  process, once it is idle, to whatever was begun with the same environment.
"""

import hashlib
import io
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import SparkSession

from bridge.files import link_whole, make_folder
from engine.spark.programs import caches, find_java, forking_python, version_output


def find_spark(environment: MutableMapping[str, str]) -> None:
    """Set `SPARK_HOME` in an environment to such a home, unless it is set already."""
    installed = Path(pyspark.__file__).parent
    if "SPARK_HOME" in environment or not (installed / "jars").is_dir():
        return
    home = caches(environment) / "braid" / f"spark-{hashlib.sha256(bytes(installed)).hexdigest()[:16]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars", "sbin"):
            # It was made by an earlier start, or by another process just now.
            with suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    except OSError:
        # Without it Spark only starts a little slower.
        return
    environment["SPARK_HOME"] = str(home)


def jars_to_find_first(environment: Mapping[str, str]) -> str:
    """The archives, of hundreds, in which Spark looks at every batch for the class of a function, as a class path."""
    home = environment.get("SPARK_HOME", Path(pyspark.__file__).parent)
    jars = (jar for name in ("core", "sql", "catalyst") for jar in Path(home, "jars").glob(f"spark-{name}_*.jar"))
    return os.pathsep.join(map(str, jars))


def archive_of(environment: Mapping[str, str]) -> Path | None:
    """Where the archive of the Java and the Spark that were found is, or would be; None if they are not known."""
    java, home = java_of(environment), environment.get("SPARK_HOME", "")
    if java is None or not home:
        return None
    # The JVM itself compares the archives of classes by their times.
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in Path(home, "jars").glob("*.jar"))
    key = repr((str(java), version_output(java), jars_to_find_first(environment), jars))
    return Path(home) / f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def java_of(environment: Mapping[str, str]) -> Path | None:
    """The Java that Spark runs on in an environment."""
    if home := environment.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    java = shutil.which("java", path=environment.get("PATH", os.defpath))
    return None if java is None else Path(java)


def using_archive(environment: Mapping[str, str]) -> str:
    """The option of a JVM that uses the archive; empty if there is none."""
    archive = archive_of(environment)
    return _jvm_option("SharedArchiveFile", archive) if archive is not None and archive.exists() else ""


def making_archive(java: str, class_path: str, classes: Path, archive: Path) -> list[str]:
    """The command that makes an archive of the classes in a file."""
    return [
        java,
        # As the driver has them: an archive goes with one kind of collector.
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}",
        "-cp",
        class_path,
    ]


def _jvm_option(name: str, path: Path) -> str:
    # Spark splits options at blanks.
    return f'"-XX:{name}={path}"'


WORKER_PACKAGES = ("bridge", "dags", "engine")
"""The packages of Braid that a worker imports."""
_FILE_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that the same code gets the same name."""


def pack_code(folder: Path) -> Path:
    """Make an archive of Braid's code, named by its content, which executors fetch whenever they start."""
    content = io.BytesIO()
    # Not compressed: it is read far more often than sent.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for package in WORKER_PACKAGES:
            for name, source in _packed_modules(package, resources.files(package)):
                archive.writestr(zipfile.ZipInfo(name, _FILE_TIME), source)
    archived = folder / f"braid-{hashlib.sha256(content.getvalue()).hexdigest()[:16]}.zip"
    if not archived.exists():
        make_folder(folder)
        link_whole(archived, content.getvalue())
    return archived


def _packed_modules(name: str, package: Traversable) -> Iterator[tuple[str, bytes]]:
    for file in sorted(package.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            yield from _packed_modules(f"{name}/{file.name}", file)
        elif file.name.endswith(".py"):
            yield f"{name}/{file.name}", file.read_bytes()


_NAME = "PlainFiles"
_SOURCE = f"""
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {_NAME} extends RawLocalFileSystem {{
    public void setPermission(Path path, FsPermission permission) throws IOException {{
        if (permission.getStickyBit()) {{
            // Java has no name for it.
            super.setPermission(path, permission);
        }} else {{
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }}
    }}
}}
"""


def use_plain_files(session: SparkSession) -> None:
    """Have Hadoop set permissions itself, by a class compiled with the compiler for Spark's generated code."""
    context: Any = session.sparkContext
    jvm, java = context._jvm, context._jsc  # noqa: SLF001 - there is no public way to them
    settings = java.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE)
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", _NAME)
    # Hadoop caches the first one that is made, so it has to be this.
    files = jvm.org.apache.hadoop.fs
    files.FileSystem.closeAll()
    files.Path("file:///").getFileSystem(settings)


_WORKERS_VARIABLE = "BRAID_WORKERS"
_naming = threading.Lock()


@contextmanager
def workers_named(session: SparkSession, name: str) -> Iterator[None]:
    """Have the functions that are given to Spark meanwhile run in the workers of a name; many share the empty one."""
    context: Any = session.sparkContext
    # Another thread's functions must not come in under this name.
    with _naming:
        if name:
            context.environment[_WORKERS_VARIABLE] = name
        try:
            yield
        finally:
            context.environment.pop(_WORKERS_VARIABLE, None)


_MOST_FAILURES = 8
"""The number of tries of a batch before its job is started again; a task to blame is found in fewer."""
LOCAL_SLOTS = 1_000
"""The shards of long batches that may run at once on one machine."""
_LOCAL_CORES = "spark.default.parallelism"
"""The setting that keeps how many cores a local session has; without it a query would have a task for each slot."""
_JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    # Otherwise it writes its state to a file twenty times a second, for tools that nobody uses here.
    "-XX:-UsePerfData "
    # Many objects of each batch ask for a logger, and by default each time the stack is searched for the caller.
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
)
_DRIVER_JVM = (
    "-Xss4m "
    # The heap is as small as what lives in it allows: batches leave little behind.
    "-Xms16m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # A row is passed on once it is written, and not only with others.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "64",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # A batch has few rows, however many events: generated code, and the search for it, would cost more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nobody reads the plan of a batch, or the places in the program that it comes from.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.task.maxFailures": str(_MOST_FAILURES),
    # The long batch that waited longest for a slot is next. Fair pools choose by name if all are idle: with more jobs
    # than slots, the last ones in the alphabet would never have a turn.
    "spark.scheduler.mode": "FIFO",
}
_LOCAL_SETTINGS = {
    # Nothing on the network has to reach a local application.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # It looks at dozens of figures of the JVM to tell another part of the same JVM that it lives.
    "spark.executor.heartbeatInterval": "60s",
    # Otherwise as many as there are slots.
    "spark.rpc.netty.dispatcher.numThreads": "2",
    # Only for files on this machine: the default manager starts some 40 processes for each batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Only on this machine: workers that are sent their code do not have the module before they have started.
    "spark.python.daemon.module": "engine.spark.worker_daemon",
}


def start_session(name: str, *, master: str | None = None, recording: Path | None = None) -> SparkSession:
    """Start the application, by default on all cores; `recording` gets the names of the classes that are loaded."""
    find_java(os.environ)
    find_spark(os.environ)
    master, cores = slotted_master(master or "local")
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        # It loads its modules while the JVM starts.
        python = forking_python(python)
    builder = SparkSession.builder.appName(name).master(master)
    builder = builder.config("spark.driver.extraClassPath", jars_to_find_first(os.environ))
    classes = using_archive(os.environ) if recording is None else _jvm_option("DumpLoadedClassList", recording)
    builder = builder.config("spark.driver.extraJavaOptions", f"{_JVM} {_DRIVER_JVM} {classes}".strip())
    local = _LOCAL_SETTINGS | {_LOCAL_CORES: str(cores)} if is_local(master) else {}
    for key, value in (_SETTINGS | local).items():
        builder = builder.config(key, value)
    # Each thread of the JVM would have memory of its own to allocate from.
    with _environment(PYSPARK_PYTHON=python, MALLOC_ARENA_MAX="2"):
        session = builder.getOrCreate()
    if is_local(master):
        use_plain_files(session)
    _keep_no_history(session)
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Start processes with some variables, which this one does not keep."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update({name: before[name] for name in variables.keys() & before.keys()})


def _keep_no_history(session: SparkSession) -> None:
    """Have Spark keep nothing of each batch for its web pages, which are off; there is no setting for that."""
    context: Any = session.sparkContext
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    pages = scala.statusStore(), session._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - or to this
    for page in pages:
        scala.listenerBus().removeListener(page.listener().get())


def is_local(master: str) -> bool:
    """Whether a master runs on this machine alone, with its code and files."""
    return master.startswith("local")


def slotted_master(master: str) -> tuple[str, int | None]:
    """A master with slots for many long batches, and the cores that its name says; None for those of a cluster.

    A local one also has to say how often a task is retried. What it calls cores are threads, and a thread that waits
    for the next batch takes no CPU.

    >>> slotted_master("local[2]"), slotted_master("spark://there:7077")
    (('local[1000,8]', 2), ('spark://there:7077', None))
    """
    if match := re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master):
        cores = match[1] if match[1] not in {None, "*"} else os.cpu_count()
        return f"local[{LOCAL_SLOTS},{_MOST_FAILURES}]", int(cores or 1)
    return master, None


_SLOTS_PER_CORE = "spark.braid.slotsPerCore"
"""The setting by which the operator of a cluster says how many of its workers' cores in name are one core."""


def cores_of(session: SparkSession) -> int:
    """The cores of this machine, or of a cluster's workers, which changes when workers join or leave."""
    context: Any = session.sparkContext
    if is_local(context.master or ""):
        return int(context.defaultParallelism)
    # `defaultParallelism` is 2 at least, whatever is there.
    scala = context._jsc.sc()  # noqa: SLF001 - there is no public way to it
    slots = int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    return math.ceil(slots / int(context.getConf().get(_SLOTS_PER_CORE, "16")))


_LOOK_SECONDS = 5.0
"""Seconds between two looks."""
_JVM_ENDING = 2.0
"""Seconds within which a JVM ends after its connections were closed."""
_HANGS_AFTER = 12
"""Looks without an answer until the JVM counts as hanging; counted, because the host itself may be held up."""


def has_ended(session: SparkSession) -> bool:
    """Whether the JVM of a session has ended, or ends within a moment: calls to it may fail before that."""
    try:
        session.sparkContext._gateway.proc.wait(_JVM_ENDING)  # type: ignore[union-attr]  # noqa: SLF001 - there is no public way
    except subprocess.TimeoutExpired:
        return False
    return True


def await_end(session: SparkSession) -> str:
    """Wait until the JVM of a session does not work any more; "died" or "hangs"."""
    context = session.sparkContext
    process = context._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001 - there is no public way to see that it died
    clock = context._jvm.System  # type: ignore[union-attr]  # noqa: SLF001 - or that it hangs
    answered, ended = threading.Event(), threading.Event()

    def await_process() -> None:
        # Without a timeout: with one, the process is looked at twenty times a second.
        process.wait()
        ended.set()

    def ask() -> None:
        while True:
            # If it cannot be asked it died, which the other thread notices.
            with suppress(Py4JError, OSError):
                clock.nanoTime()
                answered.set()
            time.sleep(_LOOK_SECONDS)

    for target, name in ((ask, "asks the JVM"), (await_process, "awaits the JVM")):
        threading.Thread(target=target, name=name, daemon=True).start()
    silent = 0
    while silent < _HANGS_AFTER:
        if ended.wait(_LOOK_SECONDS):
            return "died"
        silent = 0 if answered.is_set() else silent + 1
        answered.clear()
    return "hangs"
