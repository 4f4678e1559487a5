"""The home of Spark's programs: the installed one, but without its archive of PySpark.

Every Python process of Spark would import from that archive first, and compile all of it again.
"""

import hashlib
import os
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

import pyspark

from engine.spark.java import caches


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
    """The archives in which Spark looks for classes at every batch, as a class path.

    To find out what a function needs, Spark reads its class again, from the first of hundreds of archives that has it.
    """
    home = environment.get("SPARK_HOME", Path(pyspark.__file__).parent)
    found = (each for name in ("core", "sql", "catalyst") for each in Path(home, "jars").glob(f"spark-{name}_*.jar"))
    return os.pathsep.join(map(str, found))
