"""The process of a machine: `python -m engine.machines.process NAME ROOT`.

The first line of its input is the broker's URL, and the second has its options. The process ends when its input does,
and at once if the JVM dies or hangs. Then its keeper starts it again.
"""

import logging
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from bridge.traces import begin_traces, end_traces
from bridge.transport.address import Address
from engine.behaviour import installed_behaviours
from engine.host.keeper import MachineOptions
from engine.log_lines import begin_log
from engine.machines.class_archiver import archive_classes
from engine.machines.machine import CarriedElsewhere, Machine
from engine.spark.session import await_end, has_ended, is_local, pack_code, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_DIED, STUCK, THREAD_DIED, SUPERSEDED = 3, 4, 5, 6
"""The exit codes: the JVM died or hangs, a query did not stop, a thread died of an error, or others carry its host."""
_HANG_UP_SECONDS = 5.0
"""Seconds that a host which has to end may take to acknowledge what it has received."""
_SWITCH = 0.0005
"""Seconds after which a thread gives way to others. While one only reads a flooded topic, each of the others waits for
so long whenever it comes back from the system; with Python's 5 ms, batches waited for ten seconds."""
log = logging.getLogger("braid.host")


def main() -> None:
    """Run a host until it is stopped."""
    sys.setswitchinterval(_SWITCH)
    begin_log()
    name, root = sys.argv[1:]
    # Absolute, because processes with other working directories use it.
    folder = Path(root).absolute()
    address = Address.parse(sys.stdin.readline().strip())
    options = MachineOptions.read(sys.stdin.readline())
    begin_traces("host", name)
    session = start_session(f"braid {name}", master=options.master)
    if options.master and not is_local(options.master):
        session.sparkContext.addPyFile(str(pack_code(folder / "code")))
    machine = Machine(name, folder, address, session, options, behaviours=installed_behaviours())
    log.info("machine %s has the key %s", name, machine.key.public)
    ending = threading.Event()

    def stop(_number: int, _frame: Any) -> None:
        ending.set()
        machine.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def watch_jvm() -> None:
        fate = await_end(session)
        if not ending.is_set() or fate == "hangs":
            log.error("the JVM %s; the host ends, to be started again", fate)
            _give_up(machine, JVM_DIED)

    threading.excepthook = partial(_end_with_thread, machine, session, ending)

    def watch_keeper() -> None:
        # The input ends when the keeper is gone.
        sys.stdin.read()
        stop(signal.SIGTERM, None)

    for watch in (watch_jvm, watch_keeper, partial(archive_classes, ending)):
        threading.Thread(target=watch, daemon=True).start()
    if _run(machine, session, ending):
        # The query would keep the session from stopping as well.
        os._exit(STUCK)
    end_traces()
    session.stop()


def _run(machine: Machine, session: "SparkSession", ending: threading.Event) -> bool:
    """Run the machine until it ends; whether a query did not stop."""
    try:
        return machine.run()
    except CarriedElsewhere as error:
        log.warning("%s; this machine starts anew", error)
        _give_up(machine, SUPERSEDED)
    except Exception:
        if has_ended(session):
            # The main thread has noticed before the watch did.
            log.exception("the JVM died; the host ends, to be started again")
            _give_up(machine, JVM_DIED)
        raise
    finally:
        ending.set()


def _end_with_thread(
    machine: Machine, session: "SparkSession", ending: threading.Event, died: threading.ExceptHookArgs
) -> None:
    # No other thread notices that one that receives, generates or sends is missing: the host would do half its work.
    error = (died.exc_type, died.exc_value or died.exc_type(), died.exc_traceback)
    name = died.thread.name if died.thread else "a thread"
    log.error("%s died; the host ends, to be started again", name, exc_info=error)
    if not ending.is_set():
        _give_up(machine, JVM_DIED if has_ended(session) else THREAD_DIED)


def _give_up(machine: Machine, code: int) -> NoReturn:
    """End at once, after acknowledging raw events: with some brokers, they would count twice if they came again."""
    leaving = threading.Thread(target=machine.hang_up, name="hangs up", daemon=True)
    leaving.start()
    leaving.join(_HANG_UP_SECONDS)
    os._exit(code)


if __name__ == "__main__":
    main()
