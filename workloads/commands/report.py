"""The command `braid report`, which writes a report."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from manager.cli import Shown, WrongUsage, printed
from workloads.report.summary import markdown_of
from workloads.report.web_page import page_in, write_report
from workloads.results import WrongResults


@printed
def report(
    results: Annotated[list[Path], typer.Argument(help="Folders written by braid replay.")],
    *,
    into: Annotated[Path, typer.Option(help="A folder, or a file whose name ends in .html.")] = Path("report"),
) -> Shown:
    """Write a page on what sharing saved in replays, with figures and a summary beside it."""
    try:
        summary = write_report(results, into)
    except WrongResults as error:
        raise WrongUsage(str(error)) from None
    except OSError as error:
        raise WrongUsage(f"{error.filename or into}: {error.strerror}; choose a file that can be written") from None
    return Shown(data=summary.as_json(), text=Text(f"{markdown_of(summary)}\n{page_in(into)}"))
