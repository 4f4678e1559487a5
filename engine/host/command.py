"""The command that runs a host: `braid host`."""

import logging
import secrets
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bridge.brokers.broker import BrokerDown, start_broker
from bridge.transport.address import Address
from engine.host.keeper import HostKeeper
from engine.log_lines import begin_log, named, problem

_BROKER_USER = "braid"
"""As whom a host connects to a broker of its own."""
_NO_BROKER = 1
"""The exit code where it cannot begin; as of any command whose arguments have problems."""
log = logging.getLogger("braid.host")


def host(  # noqa: PLR0913 - one for each thing that a host may be told
    name: Annotated[str, typer.Argument(help="What plans call it. One host of a name, and one name for each host.")],
    root: Annotated[Path, typer.Option(help="The folder for spools, records and checkpoints; all hosts share one.")],
    broker: Annotated[
        str | None,
        typer.Option(
            envvar="BRAID_BROKER",
            help="The broker, as mqtt://user:password@host:port; else one is started here, and its URL is written to "
            "broker.url in the folder, for its owner only.",
        ),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; all cores of this machine if not given.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="What it offers to tasks that need it, such as gpu; may be given again.")
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what happens as JSON on standard output, an object on each line.")
    ] = False,
) -> None:
    """Run a host: a Spark application that runs the jobs whose plans name it, until it is told to stop."""
    begin_log(as_json=as_json)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    with ExitStack() as running:
        try:
            address = Address.parse(broker) if broker else _own_broker(root, running)
        except (ValueError, BrokerDown) as error:
            if as_json:
                log.error("%s", error, extra=problem("no-broker", error))  # noqa: TRY400 - it says what to do
            else:
                sys.stderr.write(f"{error}\n")
            raise typer.Exit(_NO_BROKER) from None
        keeper = running.enter_context(HostKeeper(name, root, address, master=master, tags=tag or ()))
        said = f"host {name} runs over {address}, and writes to {keeper.log_path}; stop it with Ctrl-C"
        if as_json:
            log.info(said, extra=named("runs", host=name, broker=str(address), log=str(keeper.log_path)))
        else:
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
        stopped.wait()
    log.info("host %s has ended", name, extra=named("ended", host=name))


def _own_broker(root: Path, running: ExitStack) -> Address:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = root / "broker.url"
    # The same as before, because clients are known to a broker by names that hang on it.
    before = Address.parse(kept.read_text().strip()).password if kept.exists() else None
    started = running.enter_context(start_broker(root / "broker", {_BROKER_USER: before or secrets.token_urlsafe()}))
    address = started.address(_BROKER_USER)
    kept.unlink(missing_ok=True)
    # Nobody else may read it, not even for a moment.
    kept.touch(mode=0o600)
    kept.write_text(f"{address.url}\n")
    return address
