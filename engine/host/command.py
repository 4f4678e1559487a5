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

from bridge.broker import BrokerDown, start_broker
from bridge.machine import allow_many_descriptors
from bridge.transport.address import Address
from engine.host.keeper import CopyAddress, HostKeeper, MachineOptions
from engine.log_lines import begin_log, named, problem
from engine.replicas.store_copy import request_restoration
from engine.replicas.store_objects import StoreObjects

_BROKER_USER = "braid"
"""The user as which a host connects to a broker of its own."""
_REFUSED = 1
"""The exit code if it cannot begin; the same as that of any command whose arguments have problems."""
_MOST_HOSTS = 64
"""The most hosts of a machine; each costs some threads and a connection."""
log = logging.getLogger("braid.host")


def host(  # noqa: PLR0913, PLR0917 - one for each argument and option
    name: Annotated[str, typer.Argument(help="The name that plans call it by. No two hosts share a name.")],
    root: Annotated[Path, typer.Option(help="The folder for spools and records; hosts without copies share one.")],
    broker: Annotated[
        str | None,
        typer.Option(
            envvar="BRAID_BROKER",
            help="The broker, as mqtt://user:password@host:port. Without one, a broker is started here, and its URL is "
            "written to broker.url in the folder, for its owner only.",
        ),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; by default all cores of this machine.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="An offer to tasks that need it, such as gpu; may be given again.")
    ] = None,
    image: Annotated[
        str, typer.Option(help="The registered image that it was made from; it offers the tags of that, too.")
    ] = "",
    zone: Annotated[
        str, typer.Option(help="The failure zone: machines of one zone may be lost together, so copies go to others.")
    ] = "",
    hosts: Annotated[
        int,
        typer.Option(
            min=1,
            max=_MOST_HOSTS,
            help="How many hosts this machine begins with: NAME, NAME.2, and so on. With several, a machine with too "
            "much to do hands some to others.",
        ),
    ] = 1,
    copies_at: Annotated[
        str,
        typer.Option(
            help="The address, as host:port, at which this machine keeps copies of others' hosts. Then its root is its "
            "own, on its own disk."
        ),
    ] = "",
    copies_listen: Annotated[
        str,
        typer.Option(
            help="Where it listens for copies, as host:port, if that is not --copies-at: behind a forwarded port."
        ),
    ] = "",
    copies_certificate: Annotated[
        Path | None,
        typer.Option(
            help="This machine's certificate, for copies over TLS alone; with --copies-key and --copies-ca, on all "
            "machines. Renewed files count without a restart."
        ),
    ] = None,
    copies_key: Annotated[Path | None, typer.Option(help="The key of this machine's certificate.")] = None,
    copies_ca: Annotated[
        Path | None, typer.Option(help="The authority that has signed the certificates of all machines.")
    ] = None,
    common: Annotated[
        Path | None,
        typer.Option(
            help="A folder that all machines reach, with code, secrets and files; else code and secrets are sent."
        ),
    ] = None,
    store: Annotated[
        str,
        typer.Option(
            envvar="BRAID_STORE",
            help="The URL of object storage that also keeps the files of this machine's hosts, such as "
            "s3://bucket/folder. Then its root is its own. Credentials come from where the storage's clients look.",
        ),
    ] = "",
    *,
    restore: Annotated[
        bool, typer.Option("--restore", help="Begin on an empty folder, with the host's files from the store.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="With --restore: even if the store may lack something that others have seen."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events as JSON on standard output, one object on each line.")
    ] = False,
) -> None:
    """Run a host until it is stopped: a Spark application that runs the jobs whose plans name it."""
    begin_log(as_json=as_json)
    allow_many_descriptors()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    with ExitStack() as stack:
        code = "no-copies"
        try:
            copies = CopyAddress.parse(
                copies_at, copies_listen, certificate=copies_certificate, key=copies_key, authority=copies_ca
            )
            if copies is not None:
                copies.check()
            code = "no-store"
            stored = look_at_store(name, root, store, restore=restore, accept_loss=accept_loss)
            code = "no-broker"
            address = Address.parse(broker) if broker else _own_broker(root, stack)
        except (ValueError, BrokerDown) as error:
            if as_json:
                log.error("%s", error, extra=problem(code, error))  # noqa: TRY400 - the message says all
            else:
                sys.stderr.write(f"{error}\n")
            raise typer.Exit(_REFUSED) from None
        options = MachineOptions(
            master=master,
            tags=tuple(tag or ()),
            image=image,
            zone=zone,
            hosts=hosts,
            copies=copies,
            common=common.absolute() if common else None,
            store=store,
        )
        keeper = stack.enter_context(HostKeeper(name, root, address, options))
        line = f"host {name} runs over {address}, and writes to {keeper.log_path}; stop it with Ctrl-C"
        if as_json:
            log.info(line, extra=named("runs", host=name, broker=str(address), log=str(keeper.log_path)))
        else:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        if stored:
            log.info(
                "host %s is restored as soon as nobody carries it: %s", name, stored, extra=named("restores", host=name)
            )
        stopped.wait()
    log.info("host %s has ended", name, extra=named("ended", host=name))


def look_at_store(name: str, root: Path, url: str, *, restore: bool, accept_loss: bool) -> str:
    """Check the options of a store; what will be restored, in words. Raises ValueError if they cannot be used."""
    if not url:
        if restore or accept_loss:
            raise ValueError("--restore and --accept-loss are about a store; give --store as well")
        return ""
    if accept_loss and not restore:
        raise ValueError("--accept-loss is for --restore; give both or none")
    StoreObjects(url, name)
    return request_restoration(root, name, url, accepts_loss=accept_loss) if restore else ""


def _own_broker(root: Path, stack: ExitStack) -> Address:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    url_file = root / "broker.url"
    # The same password as before, because the names of clients depend on it.
    before = Address.parse(url_file.read_text().strip()).password if url_file.exists() else None
    started = stack.enter_context(start_broker(root / "broker", {_BROKER_USER: before or secrets.token_urlsafe()}))
    address = started.address(_BROKER_USER)
    url_file.unlink(missing_ok=True)
    # No other user may read it, not even for a moment.
    url_file.touch(mode=0o600)
    url_file.write_text(f"{address.url}\n")
    return address
