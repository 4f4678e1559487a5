"""The program that Spark is given as Python, which has its processes forked; see `fork_server`."""

import logging
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from itertools import count
from pathlib import Path

from bridge.machine import BackOff
from engine.spark import fork_client

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
    """Start a server again whenever it has ended."""
    for deaths in count(1):
        code = server.wait()
        log.warning("the server that forks Spark's Python processes ended with %d, and is started again", code)
        time.sleep(_BACK_OFF.after(deaths))
        server = _server(python, folder, place)
