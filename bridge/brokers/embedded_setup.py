"""The command of the embedded broker: the package `embedded` as a process that loads nothing else of Braid.

It runs if mosquitto is not installed. It keeps sessions and messages in memory, so undelivered messages are lost when
it ends. Streams between jobs are numbered and sent again. Raw sources lose the messages that the host had not fetched:
those of the last moment, or everything that waits for a host that is away.
"""

import sys
from pathlib import Path

from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS, Entrance, most_connections
from bridge.message_bounds import LARGEST_PACKET

# As `bridge.embedded` it would load all of `bridge`, which takes four times the memory. The folder comes last on the
# path, so that its modules hide no others.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """The command that runs the embedded broker."""
    entrance_arguments = []
    if entrance is not None:
        files = [str(entrance.folder / name) for name in (PASSWORDS, ACCESS_LIST)]
        limit = ["--most-connections", str(most_connections())]
        entrance_arguments = ["--entrance", entrance.host, str(entrance.port), *files, *limit]
    listener = ["--listener", host, str(port), str(folder / PASSWORDS)]
    limits = ["--most-waiting", str(max_queued_messages), "--largest-packet", str(LARGEST_PACKET)]
    return [*start(), *listener, *entrance_arguments, *limits]


def start(module: str = "embedded") -> list[str]:
    """The command without its arguments, of the broker or of another module of its package."""
    return [sys.executable, "-I", "-c", _START, str(Path(__file__).parents[1]), module]
