"""The command `braid riotbench`, which converts the benchmark's files to events that a source can replay."""

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from manager.cli import Shown, WrongUsage, printed
from workloads.riotbench.datasets import DATA_SETS
from workloads.riotbench.rows import WrongFile, read_rows

SetName = Literal["urban", "taxi", "grid", "fitness"]


@printed
def riotbench(
    files: Annotated[list[Path], typer.Argument(help="The benchmark's files: rows of SenML, or CSV with a header.")],
    *,
    data: Annotated[SetName, typer.Option("--set", help="The data set of the files.")],
    into: Annotated[Path, typer.Option(help="The file to write: JSON lines, one event for each row.")],
) -> Shown:
    """Convert files of RIoTBench to events that a source can replay."""
    try:
        written = _write(chain.from_iterable(read_rows(path, DATA_SETS[data]) for path in files), into)
    except WrongFile as error:
        raise WrongUsage(str(error)) from None
    except OSError as error:
        raise WrongUsage(f"{into}: {error.strerror}; choose a file that can be written") from None
    return Shown(
        data={"set": data, "rows": written, "into": str(into)},
        text=f"{into}: {written:,} rows of the set {data}",
    )


def _write(rows: Iterable[str], into: Path) -> int:
    """Write the complete file or nothing; return the number of rows."""
    number = 0
    part = into.with_name(f"{into.name}.part")
    try:
        with part.open("w", encoding="utf-8") as output:
            for number, row in enumerate(rows, 1):
                output.write(json.dumps({"msg": number - 1, "row": row}, ensure_ascii=False) + "\n")
        part.replace(into)
    finally:
        part.unlink(missing_ok=True)
    return number
