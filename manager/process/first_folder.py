"""The command that makes a folder to begin with: `braid init`."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from braid_client.answers.tenants import TenantForm
from manager.cli import Shown, WrongUsage, fill_form, lines, printed
from manager.rest.examples import DOCUMENT

_SOURCE = "street"
_SENSORS = {"sensor": "string", "temperature": "float"}
_TEMPERATURES = (21.5, 19.0, 99.0, 20.5, 22.0, 21.0)
"""One of which the dataflow drops, and whose others are a window of it."""


@printed
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make, or an empty one.")],
    tenant: Annotated[str, typer.Option(help="The tenant whose source and dataflow these are.")] = "me",
) -> Shown:
    """Make a folder with a source, a dataflow, events and the lines to run them."""
    fill_form(TenantForm, name=tenant)
    document: dict[str, Any] = json.loads(json.dumps(DOCUMENT).replace("city:", f"{tenant}:"))
    name, of_tenant = shlex.quote(f"{tenant}/{document['name']}"), f"--tenant {tenant}"
    source = {
        "name": _SOURCE,
        "owner": tenant,
        "connection": {"kind": "topic", "topic": f"{tenant}/{_SOURCE}"},
        "schema": _SENSORS,
    }
    commands = [
        f"cd {shlex.quote(str(folder))}",
        f"braid tenants admit {tenant}",
        "braid sources register source.json",
        f"braid submit dataflow.json {of_tenant} --wait --idempotency-key {tenant}-first",
        f"braid send {tenant}:{_SOURCE} events.jsonl",
        f"braid tail {name} --count 1",
    ]
    events = [json.dumps({"sensor": "s1", "temperature": temperature}) for temperature in _TEMPERATURES]
    files = {
        "source.json": json.dumps(source, indent=2),
        "dataflow.json": json.dumps(document, indent=2, ensure_ascii=False),
        "events.jsonl": "\n".join(events),
        "run.sh": "\n".join(["set -e", 'cd "$(dirname "$0")"', *commands[1:]]),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise WrongUsage(f"{folder}: it is not empty; name another folder")
        for file, content in files.items():
            (folder / file).write_text(f"{content}\n", encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{error.filename}: {error.strerror}; choose a folder that can be written") from None
    text = lines(
        f"{folder} has {', '.join(files)}. With `braid serve` in another terminal, run them, as an operator:",
        "",
        *(f"  {command}" for command in commands),
        "",
        f"or all at once: sh {shlex.quote(str(folder / 'run.sh'))}",
    )
    return Shown(data={"folder": str(folder), "files": [*files], "commands": commands}, text=text)
