"""The watch over the JVM: a host whose JVM died or hangs has to end, and is started again."""

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
"""Seconds within which a JVM ends after its connections were closed."""
_HANGS_AFTER = 12
"""Looks without an answer until the JVM counts as hanging; counted, because the host itself may be held up."""


def has_ended(session: "SparkSession") -> bool:
    """Whether the JVM of a session has ended, or ends within a moment: calls to it may fail before that."""
    try:
        session.sparkContext._gateway.proc.wait(_ENDING)  # type: ignore[union-attr]  # noqa: SLF001 - there is no public way
    except subprocess.TimeoutExpired:
        return False
    return True


def await_end(session: "SparkSession") -> str:
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
            time.sleep(_POLL_SECONDS)

    for target, name in ((ask, "asks the JVM"), (await_process, "awaits the JVM")):
        threading.Thread(target=target, name=name, daemon=True).start()
    silent = 0
    while silent < _HANGS_AFTER:
        if ended.wait(_POLL_SECONDS):
            return "died"
        silent = 0 if answered.is_set() else silent + 1
        answered.clear()
    return "hangs"
