"""How the embedded broker is run: the package `embedded`, as a process of its own that loads nothing else of Braid.

It is there where mosquitto is not installed. It keeps sessions and messages in memory: nothing is lost while it lives,
and what it had not delivered is lost when it ends. Streams between jobs are numbered and sent again; raw sources lose
what the host had not fetched, which is what waits for a host that is away, or the last moment's.
"""

import sys
from pathlib import Path

from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS, Entrance

# Run as `bridge.embedded` it would load the whole of `bridge`, which takes four times the memory. The folder comes last
# on the path, so that its modules hide no others.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('embedded', run_name='__main__', alter_sys=True)"
)


def command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """Name the command that runs the embedded broker."""
    theirs = []
    if entrance is not None:
        files = [str(entrance.folder / name) for name in (PASSWORDS, ACCESS_LIST)]
        theirs = ["--entrance", entrance.host, str(entrance.port), *files]
    own = ["--listener", host, str(port), str(folder / PASSWORDS)]
    return [*start(), *own, *theirs, "--most-waiting", str(max_queued_messages)]


def start() -> list[str]:
    """Name the command that runs the embedded broker, without its arguments."""
    return [sys.executable, "-I", "-c", _START, str(Path(__file__).parents[1])]
