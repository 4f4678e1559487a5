"""The command `braid opmw`: published templates as a workload in a folder."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from engine import BrokenTaskTypes, installed_catalogue
from manager.commands.asking import AsJson, NoUse, ending
from manager.commands.exit_codes import ExitCode
from manager.commands.showing import Shown, complain, lines, table
from workloads.opmw.counting import Shared, shared
from workloads.opmw.encoding import ITERATIONS, SourcesBy
from workloads.opmw.importing import Import, import_files, workload_file
from workloads.opmw.templates import Outcome

_TOLD = ("file", "template", "outcome", "reason")


def opmw(
    files: Annotated[list[Path], typer.Argument(help="Workflow templates: OPMW or WINGS, in Turtle or RDF/XML.")],
    into: Annotated[Path, typer.Option(help="The folder to write; it must not hold a workload yet.")],
    sources: Annotated[SourcesBy, typer.Option(help="What tells sources apart.")] = SourcesBy.TYPE,
    sinks: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--sinks", help="An output for each output variable, instead of one for each dataflow.")
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Turn published workflow templates into a workload: a document each, and the sources that they read.

    Every document is checked as `braid check` does it. What had to be skipped or repaired is told with its reason.
    """
    with ending(as_json=as_json):
        try:
            catalogue = installed_catalogue()
        except BrokenTaskTypes as error:
            raise NoUse(str(error)) from None
        if (into / "workload.json").exists():
            raise NoUse(f"{into}: holds a workload already; name another folder, or remove that one")
        found = import_files(files, catalogue, sources=sources, sinks=sinks)
        counted = shared((each.dataflow for each in found.imported), lambda name: name != "output")
        if found.imported:
            _write(found, into, {"made by": _made_by(files, sources, sinks=sinks), **_about(found, counted)})
        if as_json:
            Shown(data=_data(found, counted), text="").print(as_json=True)
        else:
            _show(found, counted, into)
        if not found.imported:
            complain("none of the files holds a template that can run; nothing was written")
            raise typer.Exit(ExitCode.PROBLEMS)


def _made_by(files: list[Path], sources: SourcesBy, *, sinks: bool) -> str:
    return f"braid opmw {' '.join(file.name for file in files)} --sources {sources}{' --sinks' if sinks else ''}"


def _about(found: Import, counted: Shared) -> dict[str, object]:
    outcomes = Counter(finding.outcome.value for finding in found.findings)
    return {
        "templates": len(found.imported),
        "iterations": ITERATIONS,
        "tasks without outputs": counted.told(),
        "findings": dict(sorted(outcomes.items())),
    }


def _write(found: Import, into: Path, about: dict[str, object]) -> None:
    try:
        (into / "dataflows").mkdir(parents=True, exist_ok=True)
        for each in found.imported:
            _put(into / "dataflows" / f"{each.name}.json", each.document)
        # Last, so that a folder with this file is complete.
        _put(into / "workload.json", workload_file(found, about))
    except OSError as error:
        raise NoUse(f"{error.filename}: {error.strerror}; name a folder that can be written") from None


def _put(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _data(found: Import, counted: Shared) -> dict[str, object]:
    return {
        "templates": [
            {
                "file": each.file,
                "template": each.template.name,
                "dataflow": each.name,
                "steps": len(each.template.steps),
                "tasks": len(each.document["tasks"]),
                "distinct": len(each.dataflow.tasks),
            }
            for each in found.imported
        ],
        "shared": counted.told(),
        "findings": [{name: getattr(finding, name) for name in _TOLD} for finding in found.findings],
    }


def _show(found: Import, counted: Shared, into: Path) -> None:
    templates = table(
        "template",
        "dataflow",
        "steps",
        "tasks",
        "distinct",
        rows=[
            (each.template.name, each.name, len(each.template.steps), len(each.document["tasks"]),
             len(each.dataflow.tasks))
            for each in found.imported
        ],
        empty="No template can run.",
    )  # fmt: skip
    findings = table(*_TOLD, rows=[[getattr(each, name) for name in _TOLD] for each in found.findings], empty="")
    skipped = sum(finding.outcome is Outcome.SKIPPED for finding in found.findings)
    summary = (
        f"{len(found.imported)} dataflows in {into}, {skipped} skipped. Of {counted.total} tasks without the outputs "
        f"{counted.distinct} are distinct: {counted.share:.1%} are shared when all run."
        if found.imported
        else None
    )
    Shown(data={}, text=lines(templates, findings if found.findings else None, summary)).print(as_json=False)
