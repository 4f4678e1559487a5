"""The command line: `braid`. Other packages add commands through the entry point group `braid.commands`.

Exit codes: 0 all well, 1 a document or a file has problems, 2 the command was called wrongly.
"""

import json
from datetime import UTC, datetime
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dags import Document, InvalidDocument, canonicalise
from engine import BrokenTaskTypes, installed_catalogue
from manager.source_file import UnreadableSources, read_sources
from merge import RunningGraph, explain, merge

GROUP = "braid.commands"
"""The entry point group: each entry names a function that becomes a command."""

app = typer.Typer(
    help="Run the streaming dataflows of many tenants as few jobs.", no_args_is_help=True, add_completion=False
)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Documents, one dataflow each.")],
    sources: Annotated[Path, typer.Option(help="A JSON file that describes the sources.")],
    tenant: Annotated[str, typer.Option(help="Who submits.")] = "me",
) -> None:
    """Check documents, and say what each would share with those before it."""
    out = Console(soft_wrap=True)
    running = RunningGraph()
    refused = False
    try:
        registered = read_sources(sources)
        catalogue = installed_catalogue()
    except (UnreadableSources, BrokenTaskTypes) as error:
        _complain(str(error))
        raise typer.Exit(1) from None
    now = datetime.now(UTC)
    for number, file in enumerate(files):
        try:
            dataflow = canonicalise(
                file.read_bytes(),
                dataflow=f"{number}",
                tenant=tenant,
                catalogue=catalogue,
                sources=registered,
            )
        except OSError as error:
            refused = True
            _complain(f"{file}: {error.strerror}; name a file that can be read")
        except InvalidDocument as error:
            refused = True
            for problem in error.problems:
                _complain(f"{file}: {problem}")
        else:
            explanation = explain(running, dataflow, now)
            shared = explanation.distinct - explanation.residue
            shares = f"shares {shared} with the documents before it" if shared else "shares none"
            out.print(escape(f"{file}: good; of {explanation.distinct} distinct tasks it {shares}"))
            running.advance(merge(running, dataflow, now))
    raise typer.Exit(1 if refused else 0)


@app.command()
def schema() -> None:
    """Print the JSON Schema of documents."""
    typer.echo(json.dumps(Document.model_json_schema(), indent=2, ensure_ascii=False))


@app.command("version")
def show_version() -> None:
    """Print the version of Braid."""
    typer.echo(version("braid"))


def _complain(message: str) -> None:
    Console(stderr=True, soft_wrap=True).print(escape(message))


for _entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
    app.command(_entry.name)(_entry.load())
