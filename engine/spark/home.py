"""The home that Spark's programs are started from: what is installed, without the archive of PySpark that lies in it.

Every Python process of Spark would import from that archive first, and compile all of it anew.
"""

import hashlib
import os
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

import pyspark

from engine.spark.java import caches


def find_spark(environment: MutableMapping[str, str]) -> None:
    """Change an environment so that it names such a home, unless it names one already."""
    installed = Path(pyspark.__file__).parent
    if "SPARK_HOME" in environment or not (installed / "jars").is_dir():
        return
    home = caches(environment) / "braid" / f"spark-{hashlib.sha256(bytes(installed)).hexdigest()[:16]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars", "sbin"):
            # Made by an earlier start, or by another process just now.
            with suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    except OSError:
        # Whoever may not write there starts a little slower.
        return
    environment["SPARK_HOME"] = str(home)


def jars_to_find_first(environment: Mapping[str, str]) -> str:
    """Those of Spark that it looks for classes in at every batch, as a class path.

    To see what a function needs it reads its class again, from the first of its hundreds of archives that has it.
    """
    home = environment.get("SPARK_HOME", Path(pyspark.__file__).parent)
    found = (each for name in ("core", "sql", "catalyst") for each in Path(home, "jars").glob(f"spark-{name}_*.jar"))
    return os.pathsep.join(map(str, found))
