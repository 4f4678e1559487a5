"""The commands that need no service: `braid check`, which asks one for its sources, `braid schema`, `braid version`."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from adaptation.document_reader import dynamic_in, read_dynamic
from adaptation.documents import resolve
from braid_client.answers.base import FieldProblem
from braid_client.errors import Unreachable
from dags import Catalogue, Dataflow, Document, InvalidDocument, Kind, Schema, Source, Visibility
from dags.canonical import canonicalise
from engine import BrokenTaskTypes, installed_catalogue
from manager.cli import (
    MissingKey,
    SettingsFile,
    Shown,
    Url,
    WrongUsage,
    complain,
    counted,
    lines,
    printed,
    service,
)
from manager.exit_codes import ExitCode
from merge import RunningGraph, explain, merge


class _SourceForm(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: Annotated[str, Field(min_length=1)]
    fields: Annotated[dict[str, Kind], Field(alias="schema")]
    visibility: Visibility = Visibility.PRIVATE
    readers: frozenset[str] = frozenset()


_SOURCE_FILE = TypeAdapter(dict[str, _SourceForm])
"""Sources by name."""


class UnreadableSources(ValueError):
    """A file of sources is wrong; the message says where and why."""


def read_sources(path: Path) -> dict[str, Source]:
    """Read sources from a JSON file: `{"name": {"owner": …, "schema": {field: kind}, "visibility": …}}`."""
    try:
        forms = _SOURCE_FILE.validate_json(path.read_bytes())
    except OSError as error:
        raise UnreadableSources(f"{path}: {error.strerror}; name a file of sources") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(map(str, first["loc"]))
        raise UnreadableSources(f"{path}: at /{place}: {first['msg']}; correct the file there") from error
    return {
        name: Source(name=name, schema=Schema.of(form.fields), **form.model_dump(exclude={"fields"}))
        for name, form in forms.items()
    }


_UNREADABLE = "unreadable"
_NOBODY = "me"
"""The tenant of documents of which it is not known."""


class CheckedFile(BaseModel):
    """The result of checking a document."""

    file: str
    good: bool
    distinct: int = 0
    """The number of its tasks, counting equivalent ones once."""
    shared: int = 0
    """The number of those that an earlier document has too."""
    problems: tuple[FieldProblem, ...] = ()


@printed
def check(  # noqa: PLR0913, PLR0917 - each is an argument or option
    files: Annotated[list[Path], typer.Argument(help="Documents, each with one dataflow.")],
    sources: Annotated[
        Path | None, typer.Option(help="A JSON file that describes the sources. Default: those of the service.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant that submits them. Default: the caller, or me.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            help="A Python file or module with more task types, such as tasks.py or tasks:NAME; without a NAME it is "
            "TYPES. May be repeated."
        ),
    ] = None,
    url: Url = None,
    settings: SettingsFile = None,
) -> Iterator[Shown]:
    """Check documents, and count the tasks that each would share with earlier ones."""
    try:
        if types:
            # Modules are looked for in the current folder too, as by `python -m`.
            sys.path.insert(0, str(Path.cwd()))
        catalogue = installed_catalogue(types or ())
        if sources is not None:
            whose, registered = tenant or _NOBODY, read_sources(sources)
        else:
            whose, registered = _served(tenant, url, settings)
    except (UnreadableSources, BrokenTaskTypes) as error:
        raise WrongUsage(str(error)) from None
    results = list(_checked(files, registered, catalogue, whose))
    for checked in results:
        for problem in checked.problems:
            place = "" if problem.code == _UNREADABLE else f"{problem.pointer or '(document)'}: "
            complain(f"{checked.file}: {place}{problem.message}; {problem.remedy}")
    yield Shown(data=results, text=lines(*(_valid(checked) for checked in results if checked.good)))
    if not all(checked.good for checked in results):
        raise typer.Exit(ExitCode.PROBLEMS)


def _served(tenant: str | None, url: str | None, settings: Path | None) -> tuple[str, dict[str, Source]]:
    """The tenant that submits, which is the caller if that is one, and the sources that the service shows it."""
    try:
        with service(url, settings) as client:
            known = [known.name for known in client.tenants()] if tenant is None else [tenant]
            whose = known[0] if len(known) == 1 else _NOBODY
            return whose, {
                source.name: Source(
                    name=source.name,
                    owner=source.owner,
                    schema=Schema.of(source.fields),
                    visibility=source.visibility,
                    # Those who may read it are shown to its owner alone, and the source to those who may.
                    readers=frozenset((whose,) if source.readers is None else source.readers),
                )
                for source in client.sources()
            }
    except (Unreachable, MissingKey) as error:
        raise WrongUsage(f"{error}; or describe the sources in a file, and name it with --sources") from None


def _valid(checked: CheckedFile) -> str:
    shared = f", {checked.shared} shared with earlier documents" if checked.shared else ""
    return f"{checked.file}: valid; {counted(checked.distinct, 'distinct task')}{shared}"


def schema() -> None:
    """Print the JSON Schema of documents."""
    typer.echo(json.dumps(Document.model_json_schema(), indent=2, ensure_ascii=False))


@printed
def show_version() -> Shown:
    """Print the version of Braid."""
    installed = version("braid")
    return Shown(data={"version": installed}, text=installed)


def _checked(files: list[Path], sources: dict[str, Source], catalogue: Catalogue, tenant: str) -> Iterator[CheckedFile]:
    running = RunningGraph()
    now = datetime.now(UTC)
    for number, file in enumerate(files):
        try:
            canonical = partial(canonicalise, dataflow=f"{number}", tenant=tenant, catalogue=catalogue, sources=sources)
            dataflow = canonical(_plain(file.read_bytes(), canonical))
        except OSError as error:
            unreadable = FieldProblem(
                pointer="", code=_UNREADABLE, message=error.strerror or "", remedy="name a readable file"
            )
            yield CheckedFile(file=str(file), good=False, problems=(unreadable,))
        except InvalidDocument as error:
            problems = tuple(FieldProblem.model_validate(problem, from_attributes=True) for problem in error.problems)
            yield CheckedFile(file=str(file), good=False, problems=problems)
        else:
            explanation = explain(running, dataflow, now)
            running.advance(merge(running, dataflow, now))
            shared = explanation.distinct - explanation.residue
            yield CheckedFile(file=str(file), good=True, distinct=explanation.distinct, shared=shared)


def _plain(raw: bytes, canonical: Callable[[bytes], Dataflow]) -> bytes:
    """The document that runs: a dynamic one as it begins, once all that it may become is checked."""
    if not dynamic_in(raw):
        return raw
    dynamic = read_dynamic(raw, canonical=canonical)
    return json.dumps(resolve(dynamic, dynamic.first), ensure_ascii=False).encode()
