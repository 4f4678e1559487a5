"""The class archive: Spark's classes as the JVM keeps them once they are loaded, in a file that it maps.

With it a session starts in half the time, and with half the CPU: else the JVM finds, reads and checks some 14,000
classes again. An archive goes with one Java and one installation of Spark; if it does not fit, the JVM does without. It
lies beside Spark's programs, in the user's caches. `engine.machines.class_archiver` makes it.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from engine.spark.home import jars_to_find_first
from engine.spark.java import version_output


def archive_of(environment: Mapping[str, str]) -> Path | None:
    """Where the archive of an environment's Java and Spark is, or would be; None if they are not known.

    `find_java` and `find_spark` must have changed the environment.
    """
    java, home = java_of(environment), environment.get("SPARK_HOME", "")
    if java is None or not home:
        return None
    # The JVM itself compares the archives of classes by their times.
    jars = sorted(
        (each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in Path(home, "jars").glob("*.jar")
    )
    key = repr((str(java), version_output(java), jars_to_find_first(environment), jars))
    return Path(home) / f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def java_of(environment: Mapping[str, str]) -> Path | None:
    """The Java that Spark runs on in an environment."""
    if home := environment.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    return None if found is None else Path(found)


def using_archive(environment: Mapping[str, str]) -> str:
    """The option of a JVM that uses the archive; empty if there is none."""
    archive = archive_of(environment)
    return _option("SharedArchiveFile", archive) if archive is not None and archive.exists() else ""


def recording_classes(to: Path) -> str:
    """The option of a JVM that writes the names of the classes that it loads into a file."""
    return _option("DumpLoadedClassList", to)


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


def _option(name: str, path: Path) -> str:
    # Spark splits options at blanks.
    return f'"-XX:{name}={path}"'
