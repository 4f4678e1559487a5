"""The process that Spark's Python processes are forked from, with the modules that they need loaded already.

    python -m engine.spark.fork_server DESCRIPTOR FOLDER

A host starts it before the JVM. Spark starts a Python process for each query, and some for each session; each would
load PySpark and Arrow anew, which takes most of a second. Instead `fork_client` runs in its place, and asks for a fork
at the listening socket DESCRIPTOR. The server ends with its host, when its standard input closes, and removes FOLDER.
"""

import gc
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import traceback
import warnings
from contextlib import suppress
from typing import NoReturn

# Otherwise numeric libraries start threads, which would not survive a fork.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.create_data_source
import pyspark.sql.worker.lookup_data_sources
import pyspark.sql.worker.plan_data_source_read  # noqa: F401 - these are loaded for the forks
from setproctitle import getproctitle, setproctitle

import engine.spark.source
import engine.spark.worker_daemon  # noqa: F401 - the same

_HEADER = 8
"""The bytes of the length of a request."""
_STREAMS = 3
"""Standard input, output and error, which come with a request."""
_FORKED = b"f"
"""What a client gets once its fork goes on."""


class ForkServer:
    """Forks a process for each connection, and ends it once that connection is closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._poll = select.poll()
        self._running: dict[int, socket.socket] = {}
        self._woken, self._wakes = socket.socketpair()
        os.set_blocking(self._wakes.fileno(), False)
        signal.set_wakeup_fd(self._wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._poll.register(sys.stdin.fileno(), 0)
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def run(self) -> None:
        """Serve until standard input is closed; then no fork is left."""
        while True:
            ready = {number for number, _event in self._poll.poll()}
            if sys.stdin.fileno() in ready:
                break
            if self._woken.fileno() in ready:
                self._woken.recv(64)
                self._bury()
            for process, connection in self._running.items():
                if connection.fileno() in ready:
                    _end(process)
                    # Else it would be ready again and again until the process has ended.
                    self._poll.unregister(connection)
            if self._listener.fileno() in ready:
                self._fork()
        for process in self._running:
            _end(process)

    def _fork(self) -> None:
        connection, _ = self._listener.accept()
        try:
            process = os.fork()
        except OSError:
            # The client starts its process by itself, or cannot either.
            connection.close()
            return
        if not process:
            self._listener.close()
            self._woken.close()
            self._wakes.close()
            for other in self._running.values():
                other.close()
            become(connection)
        self._running[process] = connection
        # The fork reads what is sent; here only the end counts.
        self._poll.register(connection, 0)

    def _bury(self) -> None:
        with suppress(ChildProcessError):
            while (process := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                connection = self._running.pop(process)
                with suppress(KeyError):
                    self._poll.unregister(connection)
                connection.close()


def become(connection: socket.socket) -> NoReturn:
    """Run what a client asks for, in this process, and end it."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with connection:
            arguments = _receive(connection)
            # A client that waited too long has started its process by itself, and does not listen any more.
            connection.sendall(_FORKED)
        setproctitle(" ".join((sys.executable, "-m", *arguments)))
        sys.argv = arguments
        # Modules that were loaded before they are run are as good as new: none of these keeps anything.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - what the interpreter would do with it
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _receive(connection: socket.socket) -> list[str]:
    """The module and the arguments that a client asks for; this process has its environment and streams from now on."""
    header, streams, _, _ = socket.recv_fds(connection, _HEADER, _STREAMS)
    request = b""
    while len(request) < int.from_bytes(header):
        more = connection.recv(1 << 20)
        if not more:
            sys.exit("the process that asked for a fork is gone")
        request += more
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    folder, arguments, environment = marshal.loads(request)  # noqa: S302 - the socket is in a folder of this user alone
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in places if place and place not in sys.path]
    return list(arguments)


def _end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)


if __name__ == "__main__":
    # Objects that no collection scans stay shared between the forks.
    gc.collect()
    gc.freeze()
    # It has to find its place before the environment changes.
    getproctitle()
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).run()
    # After an error the host starts another server there.
    shutil.rmtree(sys.argv[2], ignore_errors=True)
