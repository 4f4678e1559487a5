"""The program that Spark starts as Python: has the process forked that Spark asks for, and stands for it until it ends.

    python -IS fork_client.py SOCKET PYTHON -m MODULE ARGUMENT...

It loads nothing but what it needs, and becomes `cat` in the end, which waits with less memory than any Python: the
connection ends with the fork, and the fork with the connection. Where no server answers, it becomes PYTHON itself.
"""

import marshal
import os
import socket
import sys

_PATIENCE = 8.0
"""Seconds that the server may take, which loads its modules at first; Spark waits for ten."""


def asked(place: str, arguments: list[str]) -> "socket.socket | None":
    """A connection whose end is that of the fork; None if there is no server."""
    # Without `pathlib`, which would take longer to load than everything else.
    request = marshal.dumps((os.getcwd(), arguments, dict(os.environb)))  # noqa: PTH109 - the same
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE)
    try:
        connection.connect(place)
        socket.send_fds(connection, [len(request).to_bytes(8)], [0, 1, 2])
        connection.sendall(request)
        answer = connection.recv(1)
    except OSError:
        answer = b""
    if answer:
        connection.settimeout(None)
        return connection
    connection.close()
    return None


def main() -> None:
    """Become what stands for the fork, or else Python."""
    place, python, flag, *arguments = sys.argv[1:]
    connection = asked(place, arguments) if flag == "-m" else None
    if connection is None:
        os.execv(python, [python, flag, *arguments])  # noqa: S606 - what Spark asked for
    os.dup2(connection.fileno(), 0)
    os.execvp("cat", ["cat"])  # noqa: S606, S607 - any `cat` reads until the end


if __name__ == "__main__":
    main()
