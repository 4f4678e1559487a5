"""Watching the JVM: a host whose JVM died or hangs can do nothing but end, and be started anew."""

import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 5.0
"""Seconds between two looks."""
_ENDING = 2.0
"""Seconds that a JVM may take to be gone once its connections are."""
HANGS_AFTER = 12
"""So many looks without an answer; they are counted, so that a host that was itself held up blames nobody."""


def has_ended(session: "SparkSession") -> bool:
    """Whether the JVM of a session is gone; what fails because of that may fail a moment earlier."""
    try:
        session.sparkContext._gateway.proc.wait(_ENDING)  # type: ignore[union-attr]  # noqa: SLF001 - nothing public tells
    except subprocess.TimeoutExpired:
        return False
    return True


def await_end(session: "SparkSession") -> str:
    """Wait until the JVM of a session works no more; what has become of it."""
    context = session.sparkContext
    process = context._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001 - nothing public tells that it died
    clock = context._jvm.System  # type: ignore[union-attr]  # noqa: SLF001 - nor that it hangs
    answered, ended = threading.Event(), threading.Event()

    def bury() -> None:
        # For as long as it takes: who waits for a process for a time only looks at it twenty times a second meanwhile.
        process.wait()
        ended.set()

    def ask() -> None:
        while True:
            # Where it cannot be asked it died, which its process shows.
            with suppress(Py4JError, OSError):
                clock.nanoTime()
                answered.set()
            time.sleep(_POLL_SECONDS)

    for target, name in ((ask, "asks the JVM"), (bury, "buries the JVM")):
        threading.Thread(target=target, name=name, daemon=True).start()
    silent = 0
    while silent < HANGS_AFTER:
        if ended.wait(_POLL_SECONDS):
            return "died"
        silent = 0 if answered.is_set() else silent + 1
        answered.clear()
    return "hangs"
