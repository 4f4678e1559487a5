"""Look as Braid and its tests do for what a bare machine has not, and fail where any of it is found."""

import os
import shutil
import sys

from bridge import broker_setup
from engine.spark.programs import find_java
from tests import needs


def main() -> None:
    """Look, and say what is there."""
    found = {
        "mosquitto": broker_setup.mosquitto_program(),
        "java": shutil.which("java"),
        "PostgreSQL": needs.postgresql_programs(),
        "chromium": shutil.which("chromium"),
    }
    if any(found.values()):
        sys.exit(f"this machine is not bare: {found}")
    environment = dict(os.environ)
    find_java(environment)
    print(f"Nothing is found; Spark runs on {environment['JAVA_HOME']}")  # noqa: T201 - its result


if __name__ == "__main__":
    main()
