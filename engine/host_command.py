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

from bridge.address import Address
from bridge.broker import BrokerDown, start_broker
from engine.host_keeper import HostKeeper

USER = "braid"
"""As whom a host connects to a broker of its own."""


def host(
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
) -> None:
    """Run a host: a Spark application that runs the jobs whose plans name it, until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    with ExitStack() as running:
        try:
            address = Address.parse(broker) if broker else _own_broker(root, running)
        except (ValueError, BrokerDown) as error:
            sys.stderr.write(f"{error}\n")
            raise typer.Exit(1) from None
        keeper = running.enter_context(HostKeeper(name, root, address, master=master))
        sys.stdout.write(f"host {name} runs over {address}, and writes to {keeper.log_path}; stop it with Ctrl-C\n")
        sys.stdout.flush()
        stopped.wait()


def _own_broker(root: Path, running: ExitStack) -> Address:
    root.mkdir(parents=True, exist_ok=True)
    kept = root / "broker.url"
    # The same as before, because clients are known to a broker by names that hang on it.
    before = Address.parse(kept.read_text().strip()).password if kept.exists() else None
    started = running.enter_context(start_broker(root / "broker", {USER: before or secrets.token_urlsafe()}))
    address = started.address(USER)
    kept.unlink(missing_ok=True)
    # Nobody else may read it, not even for a moment.
    kept.touch(mode=0o600)
    kept.write_text(f"{address.url}\n")
    return address
