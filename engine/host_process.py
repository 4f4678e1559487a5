"""The process of a host: `python -m engine.host_process NAME ROOT [MASTER]`, with the broker's URL on its input.

The URL may hold a password, which arguments would show to everybody on the machine. The process ends when its input
does, and at once if the JVM dies or hangs, so that whoever keeps it can start it anew.
"""

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from bridge.address import Address
from engine.behaviour import installed_behaviours
from engine.host import Host
from engine.jvm import await_end
from engine.shipping import packed
from engine.source import SpoolSource
from engine.spark import is_local, start_session

JVM_DIED, STUCK, THREAD_DIED = 3, 4, 5
"""The exit codes that say that the JVM died or hangs, that a query did not stop, and that a thread died of an error."""


def main() -> None:
    """Run a host until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    name, root, *master = sys.argv[1:]
    # Processes with other working directories look there.
    folder = Path(root).absolute()
    address = Address.parse(sys.stdin.readline().strip())
    session = start_session(f"braid {name}", master=master[0] if master else None)
    if master and not is_local(master[0]):
        session.sparkContext.addPyFile(str(packed(folder / "code")))
    session.dataSource.register(SpoolSource)
    host = Host(name, folder, address, session, behaviours=installed_behaviours())
    ending = threading.Event()

    def stop(_number: int, _frame: Any) -> None:
        ending.set()
        host.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def watch_jvm() -> None:
        found = await_end(session)
        if not ending.is_set() or found == "hangs":
            logging.getLogger("braid.host").error("the JVM %s; the host ends, to be started anew", found)
            os._exit(JVM_DIED)

    def end_with_thread(died: threading.ExceptHookArgs) -> None:
        # Whoever receives, generates or sends is missed by nobody else: the host would live on and do half its work.
        told = (died.exc_type, died.exc_value or died.exc_type(), died.exc_traceback)
        name = died.thread.name if died.thread else "a thread"
        logging.getLogger("braid.host").error("%s died; the host ends, to be started anew", name, exc_info=told)
        if not ending.is_set():
            os._exit(THREAD_DIED)

    threading.excepthook = end_with_thread

    def wait_for_keeper() -> None:
        # The input ends when whoever keeps this process is gone.
        sys.stdin.read()
        stop(signal.SIGTERM, None)

    for watching in (watch_jvm, wait_for_keeper):
        threading.Thread(target=watching, name=watching.__name__, daemon=True).start()
    try:
        stuck = host.run()
    finally:
        ending.set()
    if stuck:
        # What does not stop when it is asked would keep the session from stopping as well.
        os._exit(STUCK)
    session.stop()


if __name__ == "__main__":
    main()
