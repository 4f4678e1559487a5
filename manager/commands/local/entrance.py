"""The command that lets tenants into a mosquitto that Braid does not run: `braid entrance`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from manager.commands.client_command import WrongUsage, exit_on_error


def entrance(  # noqa: PLR0913 - an option for each of its settings
    access: Annotated[Path, typer.Option(help="The folder of the access lists, which the manager keeps.")],
    socket: Annotated[Path, typer.Option(help="The socket at which mosquitto listens for it.")],
    listen: Annotated[str, typer.Option(help="Where tenants connect, as host:port.")],
    certificate: Annotated[Path | None, typer.Option(help="The certificate, for TLS; with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's key.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print why it cannot begin as JSON.")] = False,
) -> None:
    """Let tenants into a mosquitto of your own.

    It refuses what mosquitto does not: the client ids of other users, and subscriptions to their outputs.
    """
    with exit_on_error(as_json=as_json):
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise WrongUsage(f"--listen {listen}: give it as host:port, such as 0.0.0.0:8883")
        if (certificate is None) != (key is None):
            raise WrongUsage("--certificate and --key go together; give both, or neither")
        from bridge.brokers.entrance import Entrance  # noqa: PLC0415 - it imports much of the bridge
        from bridge.brokers.mosquitto_setup import relay_command  # noqa: PLC0415 - as above
        from bridge.machine.descriptors import allow_many_descriptors  # noqa: PLC0415 - as above

        tls = () if certificate is None or key is None else (certificate, key)
        command = relay_command(Entrance(folder=access, host=host.strip("[]"), port=int(port)), str(socket), *tls)
        allow_many_descriptors()
        os.execv(command[0], command)  # noqa: S606 - the command is our own
