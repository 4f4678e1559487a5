"""The archiver of classes: makes the class archive once, so that later starts of Spark take half the time.

    python -m engine.machines.class_archiver

It takes a minute of CPU, at the lowest priority: a session without work of its own shows which classes there are, and
another JVM archives them. A machine that has run for a while starts it by itself.
"""

import fcntl
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from engine.log_lines import begin_log
from engine.machines.warm_up import warm_up
from engine.spark.programs import find_java
from engine.spark.session import archive_of, find_spark, making_archive, start_session

ARCHIVED_AFTER = 600.0
"""Seconds after which a machine has run long enough that it will be started again."""
_LOOK = 1.0
"""Seconds between two looks at the process that makes the archive."""
_LOWEST = 19
log = logging.getLogger("braid.host")


def make_archive() -> Path | None:
    """Make the archive for this Java and this Spark, unless it is there; None if it cannot be made here."""
    find_java(os.environ)
    find_spark(os.environ)
    archive = archive_of(os.environ)
    if archive is None or archive.exists():
        return archive
    try:
        locked = (archive.parent / "classes.lock").open("w")
    except OSError as error:
        log.warning("classes are not archived, so Spark starts slowly each time: %s", error)
        return None
    with locked, tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as name:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if archive.exists():
            return archive
        classes, made = Path(name) / "names", Path(name) / "archive"
        java, class_path = _recorded(classes)
        subprocess.run(  # noqa: S603 - the Java that runs Spark
            making_archive(java, class_path, classes, made), stdout=subprocess.DEVNULL, check=True
        )
        for old in archive.parent.glob("classes-*.jsa"):
            old.unlink()
        made.replace(archive)
    return archive


def archive_classes(stopping: threading.Event) -> None:
    """Have the archive made by another process, once this one has run for a while; until it stops."""
    archive = archive_of(os.environ)
    if archive is None or archive.exists() or stopping.wait(ARCHIVED_AFTER):
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.machines.class_archiver"], stdin=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and not stopping.wait(_LOOK):
        pass
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    elif process.returncode:
        log.warning("classes were not archived, so Spark starts slowly each time; exit code %d", process.returncode)


def _recorded(classes: Path) -> tuple[str, str]:
    """Start a session and warm it up, while the JVM writes which classes it loads; its Java, and its class path."""
    session = start_session("classes", master="local[1]", recording=classes)
    context: Any = session.sparkContext
    system, process = context._jvm.System, context._gateway.proc  # noqa: SLF001 - there is no public way to them
    home, class_path = str(system.getProperty("java.home")), str(system.getProperty("java.class.path"))
    warm_up(session, lambda: False)
    session.range(1).count()
    session.stop()
    context._gateway.shutdown()  # noqa: SLF001 - the JVM writes the last names when it ends
    process.stdin.close()
    process.wait()
    return str(Path(home) / "bin" / "java"), class_path


if __name__ == "__main__":
    begin_log()
    os.nice(_LOWEST)
    make_archive()
