"""An executor on Kubernetes: the program that its container runs, instead of the one in Spark's own image.

Spark's driver makes the pod, and gives in its environment what the executor has to know. So Braid's image serves for
drivers and for executors, and both have the same Python and the same packages.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.spark.programs import find_java
from engine.spark.session import find_spark

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTIONS: Mapping[str, str] = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The options of the backend, and the variables that hold their values."""
_MEMORY = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION = "SPARK_JAVA_OPT_"
"""Before the number of each option of the JVM."""


class NotOnKubernetes(RuntimeError):
    """Spark did not start this program."""


def executor_command(environment: Mapping[str, str], java: Path, spark: Path) -> list[str]:
    """The command line of an executor, from the environment of its container."""
    if missing := sorted({*OPTIONS.values(), _MEMORY} - environment.keys()):
        raise NotOnKubernetes(f"{', '.join(missing)} is not set; only Spark's driver starts an executor, in a pod")
    options = sorted(
        (int(name.removeprefix(_JAVA_OPTION)), value)
        for name, value in environment.items()
        if name.startswith(_JAVA_OPTION)
    )
    memory = environment[_MEMORY]
    places = (environment.get("SPARK_CONF_DIR", ""), environment.get("SPARK_CLASSPATH", ""), f"{spark}/jars/*")
    return [
        str(java),
        *(value for _, value in options),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(place for place in places if place),
        BACKEND,
        *(word for option, name in OPTIONS.items() for word in (option, environment[name])),
    ]


def main() -> None:
    """Become the executor."""
    find_java(os.environ)
    find_spark(os.environ)
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path("java")
    try:
        command = executor_command(os.environ, java, Path(os.environ["SPARK_HOME"]))
    except NotOnKubernetes as error:
        sys.exit(str(error))
    # In the place of this process, so that signals of Kubernetes reach it.
    os.execvp(command[0], command)  # noqa: S606 - no shell reads it


if __name__ == "__main__":
    main()
