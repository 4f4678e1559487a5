"""The command `braid opmw`, which imports published templates as a workload in a folder."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from engine import BrokenTaskTypes, installed_catalogue
from manager.cli import AsJson, Shown, WrongUsage, complain, exit_on_error, lines, table
from manager.exit_codes import ExitCode
from workloads.opmw.document_encoder import ITERATIONS, Inputs, SourcesBy
from workloads.opmw.sharing_counts import SharingCounts, count_sharing
from workloads.opmw.template_import import TemplateImport, import_files, workload_file
from workloads.opmw.templates import FindingOutcome, ImportFinding

_FIELDS_SHOWN = ("file", "template", "outcome", "reason")
_NAMED = 3
"""The number of places that are listed for each cause."""


def opmw(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path], typer.Argument(help="Workflow templates: OPMW or WINGS, in Turtle or RDF/XML.")],
    into: Annotated[Path, typer.Option(help="The folder to write; it must not hold a workload yet.")],
    sources: Annotated[SourcesBy, typer.Option(help="The variables that share one source.")] = SourcesBy.TYPE,
    inputs: Annotated[
        Inputs, typer.Option(help="A step with several inputs takes events as they come, or joins them.")
    ] = Inputs.INTERLEAVE,
    sinks: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--sinks", help="An output for each output variable, instead of one for each dataflow.")
    ] = False,
    details: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--details", help="Show each finding, instead of each cause once.")
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Turn published workflow templates into a workload: a document for each, and the sources that they read.

    Every document passes the checks of `braid check`. Skipped and repaired templates are listed with the reasons.
    """
    with exit_on_error(as_json=as_json):
        try:
            catalogue = installed_catalogue()
        except BrokenTaskTypes as error:
            raise WrongUsage(str(error)) from None
        if (into / "workload.json").exists():
            raise WrongUsage(f"{into}: already holds a workload; choose another folder, or remove that one")
        found = import_files(files, catalogue, sources=sources, inputs=inputs, sinks=sinks)
        counts = count_sharing([each.dataflow for each in found.imported])
        if found.imported:
            _write(found, into, {"made by": _made_by(files, sources, inputs, sinks=sinks), **_about(found, counts)})
        text = _shown(found, counts, into, details=details)
        Shown(data=_data(found, counts), text=text).print(as_json=as_json)
        if not found.imported:
            complain("no file contains a template that can run; nothing was written")
            raise typer.Exit(ExitCode.PROBLEMS)


def _made_by(files: list[Path], sources: SourcesBy, inputs: Inputs, *, sinks: bool) -> str:
    options = f"--sources {sources} --inputs {inputs}{' --sinks' if sinks else ''}"
    return f"braid opmw {' '.join(file.name for file in files)} {options}"


def _about(found: TemplateImport, counts: SharingCounts) -> dict[str, object]:
    outcomes = Counter(finding.outcome.value for finding in found.findings)
    return {
        "templates": len(found.imported),
        "iterations": ITERATIONS,
        "shared": counts.as_json(),
        "findings": dict(sorted(outcomes.items())),
    }


def _write(found: TemplateImport, into: Path, about: dict[str, object]) -> None:
    try:
        (into / "dataflows").mkdir(parents=True, exist_ok=True)
        for each in found.imported:
            _put(into / "dataflows" / f"{each.name}.json", each.document)
        # Last, so that a folder with this file is complete.
        _put(into / "workload.json", workload_file(found, about))
    except OSError as error:
        raise WrongUsage(f"{error.filename}: {error.strerror}; choose a folder that can be written") from None


def _put(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _data(found: TemplateImport, counts: SharingCounts) -> dict[str, object]:
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
        "shared": counts.as_json(),
        "findings": [{name: getattr(finding, name) for name in _FIELDS_SHOWN} for finding in found.findings],
    }


def _shown(found: TemplateImport, counts: SharingCounts, into: Path, *, details: bool) -> RenderableType:
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
    if details:
        findings = table(
            *_FIELDS_SHOWN, rows=[[getattr(each, name) for name in _FIELDS_SHOWN] for each in found.findings], empty=""
        )
    else:
        findings = table("outcome", "times", "finding", "where", rows=list(_causes(found.findings)), empty="")
    parts = [templates, findings if found.findings else None]
    if found.imported:
        kinds = {"steps": counts.steps, "sources": counts.sources, "outputs": counts.outputs}
        shared = [(name, each.total, each.distinct, f"{each.share:.1%}") for name, each in kinds.items()]
        skipped = sum(finding.outcome is FindingOutcome.SKIPPED for finding in found.findings)
        work = (
            ""
            if counts.work_saved is None
            else f" When all run, sharing saves {counts.work_saved:.1%} of the steps' work."
        )
        parts += [
            table("all templates", "tasks", "distinct", "shared", rows=shared, empty=""),
            f"{len(found.imported)} dataflows in {into}, {skipped} skipped.{work}",
        ]
    return lines(*parts)


def _causes(findings: Sequence[ImportFinding]) -> Iterator[tuple[str, int, str, str]]:
    """Each cause once, with the number of findings and the first places."""
    found: dict[tuple[FindingOutcome, str], list[ImportFinding]] = {}
    for each in findings:
        found.setdefault((each.outcome, each.cause or each.reason), []).append(each)
    for (outcome, cause), of_it in found.items():
        places = list(dict.fromkeys(map(_place, of_it)))
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        # A single finding has its own reason.
        text = of_it[0].reason if len(of_it) == 1 else cause
        yield outcome, len(of_it), text, f"{', '.join(places[:_NAMED])}{more}"


def _place(finding: ImportFinding) -> str:
    template = finding.template or finding.file
    return f"{template}: {finding.name}" if finding.name else template
