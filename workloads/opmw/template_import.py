"""The import of template files as checked documents, with the findings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dags import Catalogue, Dataflow, InvalidDocument
from workloads.opmw.document_encoder import (
    EVENTS_PER_SECOND,
    OPMW_SCHEMA,
    Inputs,
    SourcesBy,
    encode,
    registered,
    sources_of,
)
from workloads.opmw.sharing_counts import canonical
from workloads.opmw.template_reader import read_templates
from workloads.opmw.templates import FindingOutcome, ImportFinding, Template
from workloads.workload import Document

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A template that became a dataflow."""

    file: str
    template: Template
    name: str
    """The name of the document and its file; unique in the import, even without regard to case."""
    document: Document
    dataflow: Dataflow


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateImport:
    """The imported templates of some files, and the findings."""

    imported: tuple[Imported, ...]
    findings: tuple[ImportFinding, ...]
    """By file and template, in the order of the files."""

    def sources(self) -> tuple[str, ...]:
        """The sources that the dataflows read, by name."""
        return tuple(sorted({source for each in self.imported for source in sources_of(each.document)}))


def import_files(
    files: Iterable[Path],
    catalogue: Catalogue,
    *,
    sources: SourcesBy = SourcesBy.TYPE,
    inputs: Inputs = Inputs.INTERLEAVE,
    sinks: bool = True,
) -> TemplateImport:
    """Import the templates of files as documents, each checked as by `braid check`."""
    findings, imported, names = list[ImportFinding](), list[Imported](), set[str]()
    # The same template is published under several names and versions.
    known: dict[frozenset[bytes], str] = {}
    # A file that is named twice is read once.
    for file in dict.fromkeys(files):
        templates, found = read_templates(file)
        findings += found
        for template in templates:
            name = _file_name(template.name, names)
            document = encode(template, name=name, sources=sources, inputs=inputs, sinks=sinks)
            try:
                dataflow = _checked(document, name, catalogue)
            except InvalidDocument as error:
                reason = f"its document is refused: {error.problems[0]}"
                findings.append(
                    ImportFinding(file=str(file), template=template.name, outcome=FindingOutcome.SKIPPED, reason=reason)
                )
                continue
            names.add(name.lower())
            same = known.setdefault(frozenset(task.key.signature for task in dataflow.tasks), name)
            if same != name:
                findings.append(
                    ImportFinding(
                        file=str(file),
                        template=template.name,
                        outcome=FindingOutcome.NOTED,
                        reason=f"it computes what {same!r} does",
                        cause="templates compute what others do",
                    )
                )
            imported.append(
                Imported(file=str(file), template=template, name=name, document=document, dataflow=dataflow)
            )
    return TemplateImport(imported=tuple(imported), findings=tuple(findings))


def _checked(document: Document, name: str, catalogue: Catalogue) -> Dataflow:
    (found,) = canonical([(name, document)], catalogue, registered(sources_of(document)))
    return found


def _file_name(name: str, taken: set[str]) -> str:
    """A file name that is not taken yet.

    >>> _file_name("Word count / v2", set()), _file_name("sort", {"sort"})
    ('Word-count-v2', 'sort-2')
    """
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in name).split()
    plain = "-".join(word for word in words if word.strip("-")).strip(".-")[:_LONGEST_NAME] or "template"
    found, number = plain, 1
    while found.lower() in taken:
        number += 1
        found = f"{plain}-{number}"
    return found


def workload_file(found: TemplateImport, about: Mapping[str, object]) -> dict[str, object]:
    """The content of `workload.json` for an import."""
    schema = {name: OPMW_SCHEMA.fields[name].value for name in OPMW_SCHEMA.names()}
    return {
        "version": 1,
        "about": about,
        "sources": [{"name": name, "schema": schema, "per_second": EVENTS_PER_SECOND} for name in found.sources()],
    }
