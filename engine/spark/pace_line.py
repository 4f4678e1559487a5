"""The line from Spark's processes to their host, which says what the next long batch and the next batch are.

Every job has a process that plans, so this imports next to nothing.
"""

import json
import socket
from typing import Any


class PaceLine:
    """The line of one process for one job; it connects at its first question."""

    def __init__(self, address: str, job: str) -> None:
        """`address` is that of a `PaceServer`."""
        self._address = address
        self._job = job
        self._connection: socket.socket | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question, for which it waits as long as the host does."""
        if self._connection is None:
            self._connection = _connected(self._address)
        self._connection.sendall(json.dumps({"job": self._job, **question}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            more = self._connection.recv(65_536)
            if not more:
                raise ConnectionError(f"the host of job {self._job} is gone; it starts the job again once it is back")
            line += more
        answer: dict[str, Any] = json.loads(line)
        if "trouble" in answer:
            raise RuntimeError(answer["trouble"])
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connected(address: str) -> socket.socket:
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        return connection
    machine, port, secret = address.rsplit(":", 2)
    connection = socket.create_connection((machine, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(f"{secret}\n".encode())
    return connection
