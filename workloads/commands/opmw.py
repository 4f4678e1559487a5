"""The command `braid opmw`, which imports published templates as a workload in a folder."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from engine import BrokenTaskTypes, installed_catalogue
from manager.cli import Shown, WrongUsage, complain, lines, printed, table
from manager.exit_codes import ExitCode
from workloads.opmw.document_encoder import ITERATIONS, Inputs, SourcesBy
from workloads.opmw.sharing_counts import SharingCounts, count_sharing
from workloads.opmw.template_import import TemplateImport, import_files, workload_file
from workloads.opmw.templates import FindingOutcome, ImportFinding

_FIELDS_SHOWN = ("file", "template", "outcome", "reason")
_NAMED = 3
"""The number of places that are listed for each cause."""


@printed
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
) -> Iterator[Shown]:
    """Turn published workflow templates into a workload: a document for each, and the sources that they read.

    Every document passes the checks of `braid check`. Skipped and repaired templates are listed with the reasons.
    """
    try:
        catalogue = installed_catalogue()
    except BrokenTaskTypes as error:
        raise WrongUsage(str(error)) from None
    if (into / "workload.json").exists():
        raise WrongUsage(f"{into}: already holds a workload; choose another folder, or remove that one")
    templates = import_files(files, catalogue, sources=sources, inputs=inputs, sinks=sinks)
    counts = count_sharing([template.dataflow for template in templates.imported])
    if templates.imported:
        options = f"--sources {sources} --inputs {inputs}{' --sinks' if sinks else ''}"
        outcomes = Counter(finding.outcome.value for finding in templates.findings)
        about = {
            "made by": f"braid opmw {' '.join(file.name for file in files)} {options}",
            "templates": len(templates.imported),
            "iterations": ITERATIONS,
            "shared": counts.as_json(),
            "findings": dict(sorted(outcomes.items())),
        }
        _write(templates, into, about)
    text = _shown(templates, counts, into, details=details)
    yield Shown(data=_data(templates, counts), text=text)
    if not templates.imported:
        complain("no file contains a template that can run; nothing was written")
        raise typer.Exit(ExitCode.PROBLEMS)


def _write(templates: TemplateImport, into: Path, about: dict[str, object]) -> None:
    try:
        (into / "dataflows").mkdir(parents=True, exist_ok=True)
        for template in templates.imported:
            _put(into / "dataflows" / f"{template.name}.json", template.document)
        # Last, so that a folder with this file is complete.
        _put(into / "workload.json", workload_file(templates, about))
    except OSError as error:
        raise WrongUsage(f"{error.filename}: {error.strerror}; choose a folder that can be written") from None


def _put(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _data(templates: TemplateImport, counts: SharingCounts) -> dict[str, object]:
    return {
        "templates": [
            {
                "file": template.file,
                "template": template.template.name,
                "dataflow": template.name,
                "steps": len(template.template.steps),
                "tasks": len(template.document["tasks"]),
                "distinct": len(template.dataflow.tasks),
            }
            for template in templates.imported
        ],
        "shared": counts.as_json(),
        "findings": [{name: getattr(finding, name) for name in _FIELDS_SHOWN} for finding in templates.findings],
    }


def _shown(imported: TemplateImport, counts: SharingCounts, into: Path, *, details: bool) -> RenderableType:
    templates = table(
        "template",
        "dataflow",
        "steps",
        "tasks",
        "distinct",
        rows=[
            (template.template.name, template.name, len(template.template.steps), len(template.document["tasks"]),
             len(template.dataflow.tasks))
            for template in imported.imported
        ],
        empty="No template can run.",
    )  # fmt: skip
    if details:
        findings = table(
            *_FIELDS_SHOWN,
            rows=[[getattr(finding, name) for name in _FIELDS_SHOWN] for finding in imported.findings],
            empty="",
        )
    else:
        findings = table("outcome", "times", "finding", "where", rows=list(_causes(imported.findings)), empty="")
    parts = [templates, findings if imported.findings else None]
    if imported.imported:
        kinds = {"steps": counts.steps, "sources": counts.sources, "outputs": counts.outputs}
        shared = [(name, kind.total, kind.distinct, f"{kind.share:.1%}") for name, kind in kinds.items()]
        skipped = sum(finding.outcome is FindingOutcome.SKIPPED for finding in imported.findings)
        work = (
            ""
            if counts.work_saved is None
            else f" When all run, sharing saves {counts.work_saved:.1%} of the steps' work."
        )
        parts += [
            table("all templates", "tasks", "distinct", "shared", rows=shared, empty=""),
            f"{len(imported.imported)} dataflows in {into}, {skipped} skipped.{work}",
        ]
    return lines(*parts)


def _causes(findings: Sequence[ImportFinding]) -> Iterator[tuple[str, int, str, str]]:
    """Each cause once, with the number of findings and the first places."""
    by_cause: dict[tuple[FindingOutcome, str], list[ImportFinding]] = {}
    for finding in findings:
        by_cause.setdefault((finding.outcome, finding.cause or finding.reason), []).append(finding)
    for (outcome, cause), of_it in by_cause.items():
        places = list(dict.fromkeys(map(_place, of_it)))
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        # A single finding has its own reason.
        text = of_it[0].reason if len(of_it) == 1 else cause
        yield outcome, len(of_it), text, f"{', '.join(places[:_NAMED])}{more}"


def _place(finding: ImportFinding) -> str:
    template = finding.template or finding.file
    return f"{template}: {finding.name}" if finding.name else template
