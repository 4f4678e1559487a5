"""Databases for tests: files of SQLite, and a real PostgreSQL server that lives as long as the run."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, text

START = 60.0
USER = "braid"


class Server:
    """A PostgreSQL server on the loopback, made by `server`."""

    def __init__(self, command: Sequence[str | Path], user: str | None, port: int, password: str) -> None:
        """`command` runs it, as `user` if that is not None, in the folder that its log lies in as well."""
        self._command = command
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(command[2]).with_name("log")
        self.port = port
        self.password = password

    def start(self) -> None:
        """Run it, until it lets somebody in."""
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603 - the platform's own program
                self._command, user=self._user, cwd=self._log.parent, stdout=subprocess.DEVNULL, stderr=said
            )
        _wait(self._process, self._log)

    def stop(self) -> None:
        """End it, and what is open."""
        if self._process is not None:
            # Fast: it ends what is open.
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START)
            self._process = None

    def url(self, name: str = "postgres") -> str:
        """The URL of one of its databases."""
        made = URL.create(
            "postgresql", username=USER, password=self.password, host="127.0.0.1", port=self.port, database=name
        )
        return made.render_as_string(hide_password=False)

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{secrets.token_hex(4)}"
        engine = self._engine()
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)

    def _engine(self) -> Engine:
        url = self.url().replace("postgresql://", "postgresql+pg8000://")
        return create_engine(url, isolation_level="AUTOCOMMIT")


@contextmanager
def server(programs: Path) -> Iterator[Server]:
    """A server in a folder of its own, as another user where this is root, whom PostgreSQL refuses."""
    folder = Path(tempfile.mkdtemp(prefix="braid-postgresql-"))
    # The password is for this one run.
    password = secrets.token_hex(8)
    (folder / "password").write_text(password)
    user = _somebody()
    if user is not None:
        for each in (folder, folder / "password"):
            shutil.chown(each, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    made = subprocess.run(  # noqa: S603 - the platform's own program
        [
            *(programs / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", folder / "password"),
            *("--no-sync", "-E", "UTF8", "--locale", "C"),
        ],
        user=user,
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.decode(errors='replace')}")
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
    command: list[str | Path] = [
        programs / "postgres",
        "-D",
        data,
        *(f"--{name}={value}" for name, value in settings.items()),
    ]
    made_server = Server(command, user, port, password)
    try:
        made_server.start()
        yield made_server
    finally:
        made_server.stop()
        shutil.rmtree(folder)


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it lets somebody in."""
    deadline = time.monotonic() + START
    # Not by trying: the driver leaves the socket of each attempt that fails open.
    while b"ready to accept connections" not in (said := log.read_bytes()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {said.decode(errors='replace')}")
        time.sleep(0.02)


def _somebody() -> str | None:
    """Another user where this is root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
