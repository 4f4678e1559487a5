"""The commands about modules, and the one that plans a running pipeline again: `braid modules`, `braid replan`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from braid_client.answers.pipelines import (
    FallbackAnswer,
    ModuleAnswer,
    PlanAnswer,
    ReplanForm,
    ReplanKind,
)
from braid_client.client import Client
from dags.vocabulary import ModuleShape
from manager.cli import (
    DryRun,
    File,
    Id,
    Shown,
    WrongUsage,
    client_command,
    fields,
    fill_form,
    group,
    lines,
    listing,
    moment,
    progress,
    read_file,
    read_json,
    table,
)
from manager.reconfigurations.commands import Until, exit_unless_done, heading, wait_for

app = group(help="Publish modules, list, show, deprecate and vouch for them; and their wheels.")
Version = Annotated[str, typer.Argument(help="A version of a module, such as clean@2.")]
OfTenant = Annotated[str | None, typer.Option(help="The tenant whose module it is; for operators.")]


@app.command()
@client_command
def publish(
    client: Client,
    file: File,
    wheels: Annotated[Path | None, typer.Option(help="A folder with the wheels that the module requires.")] = None,
) -> Shown:
    """Publish a version of a module from a JSON file; it never changes."""
    form = read_file(file)
    for wheel in _required(form, wheels):
        client.put_wheel(read_file(wheel))
    answer = client.publish_module(form)
    whom = f"{answer.owner} alone" if answer.owner else "everybody"
    return Shown(data=answer, text=f"{_named(answer)} is published, for {whom}")


@app.command("list")
@client_command
def list_modules(  # noqa: PLR0913 - each is a filter
    client: Client,
    *,
    name: Annotated[str | None, typer.Option(help="Only those with this name.")] = None,
    shape: Annotated[ModuleShape | None, typer.Option(help="Only those of this shape.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    deprecated: Annotated[
        bool | None, typer.Option("--deprecated/--current", help="Only those that are deprecated, or only the others.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's; for operators.")] = None,
) -> Shown:
    """List the versions of modules that you may use."""
    return _listed(client.modules(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated))


@app.command()
@client_command
def show(
    client: Client,
    module: Annotated[str, typer.Argument(help="A module, such as clean, or one of its versions, such as clean@2.")],
    tenant: OfTenant = None,
) -> Shown:
    """Show the versions of a module, or one version with its form."""
    if "@" not in module:
        return _listed(client.module_versions(module, tenant=tenant))
    answer = client.module(*_parsed(module), tenant=tenant)
    ended = f", deprecated {moment(answer.deprecated)}" if answer.deprecated else ""
    heading = f"{_named(answer)} of {answer.owner or 'an operator'}, published {moment(answer.published)}{ended}"
    return Shown(data=answer, text=lines(heading, json.dumps(answer.form, ensure_ascii=False, indent=2)))


@app.command()
@client_command
def deprecate(client: Client, version: Version, tenant: OfTenant = None) -> Shown:
    """Deprecate a version: from now on only pipelines that name it or hold it use it."""
    answer = client.deprecate_module(*_parsed(version), tenant=tenant)
    return Shown(data=answer, text=f"{_named(answer)} is deprecated since {moment(answer.deprecated)}")


@app.command()
@client_command
def wheels(client: Client, tenant: OfTenant = None) -> Shown:
    """List the wheels that were sent with modules."""
    return listing(
        client.wheels(tenant=tenant),
        "no wheels",
        lambda wheel: {
            "package": wheel.name,
            "version": wheel.version,
            "owner": wheel.owner or "operators",
            **fields(wheel, "bytes", "sent", "digest"),
        },
        wide=("owner", "bytes", "sent"),
    )


@app.command("remove-wheel")
@client_command
def remove_wheel(
    client: Client,
    digest: Annotated[str, typer.Argument(help="Its digest, as lists show it.")],
    tenant: OfTenant = None,
) -> Shown:
    """Remove a wheel that no module requires."""
    answer = client.remove_wheel(digest, tenant=tenant)
    return Shown(data=answer, text=f"{answer.name} {answer.version} is removed")


@app.command()
@client_command
def vouch(
    client: Client,
    version: Version,
    tenant: Annotated[str, typer.Option(help="The tenant whose code it is.")],
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Vouch for it no longer.")] = False,
) -> Shown:
    """Vouch for a version of a tenant's code, so that it may run beside other tasks; for operators."""
    change = client.withdraw_vouch if withdraw else client.vouch_for_module
    answer = change(*_parsed(version), tenant=tenant)
    trust = "an operator vouches" if answer.vouched else "no operator vouches"
    return Shown(data=answer, text=f"{trust} for {_named(answer)} of {answer.owner}")


def _parsed(module: str) -> tuple[str, int]:
    """Name and version in a text such as `clean@2`."""
    name, _, version = module.rpartition("@")
    if not name or not version.isdecimal() or not version.isascii():
        raise WrongUsage(f"{module}: this names no version; write it as in clean@2")
    return name, int(version)


def _required(form: bytes, folder: Path | None) -> Iterator[Path]:
    """The wheels in a folder that a form requires. What is not there may have been sent before."""
    from packaging.utils import parse_wheel_filename  # noqa: PLC0415 - one command alone needs it
    from packaging.version import Version as PackageVersion  # noqa: PLC0415 - likewise

    from planning.pipelines.module import pinned  # noqa: PLC0415 - likewise

    if folder is None:
        return
    if not folder.is_dir():
        raise WrongUsage(f"{folder}: this is no folder; name one with wheels")
    try:
        texts = json.loads(form)["code"]["requirements"]
        pins = {pinned(text) for text in texts}
    except (ValueError, KeyError, TypeError, AttributeError):
        # The service says what is wrong with the form.
        return
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except ValueError as error:
            raise WrongUsage(f"{path}: {error}; leave the name of a wheel as it was built") from None
        if any((name, version) == (wanted, PackageVersion(number)) for wanted, number in pins):
            yield path


def _named(module: ModuleAnswer) -> str:
    return f"{module.name}@{module.version}"


def _listed(modules: Iterable[ModuleAnswer]) -> Shown:
    from planning.pipelines.module import TYPES_OF_CODE  # noqa: PLC0415 - likewise

    columns = ("shape", "type", "tags", "cost", "quality", "published", "deprecated")
    return listing(
        modules,
        "no modules",
        lambda module: {
            "module": _named(module),
            "owner": module.owner or "operators",
            **fields(module, *columns),
            "vouched": module.vouched if module.type in TYPES_OF_CODE else None,
        },
        wide=("type", "vouched"),
    )


_HOW: Mapping[ReplanKind, tuple[str, str]] = {
    ReplanKind.NOTHING: ("nothing changes", "nothing would change"),
    ReplanKind.RECONFIGURATION: (
        "changed by one reconfiguration; tasks keep their states",
        "it would be one reconfiguration; tasks would keep their states",
    ),
    ReplanKind.REPLACEMENT: (
        "replaced by a new document; tasks below what changes start without state",
        "it would be a new document; tasks below what changes would start without state",
    ),
}


@client_command
def replan(  # noqa: PLR0913 - each is an option
    client: Client,
    dataflow: Id,
    file: Annotated[Path | None, typer.Argument(help="The pipeline with other goals; - is standard input.")] = None,
    *,
    prefer: Annotated[
        list[str] | None,
        typer.Option(metavar="CRITERION", help="What to optimise, the most important first; may be repeated."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="A module not to use, such as one that fails; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all jobs have switched, if it reconfigures.")
    ] = False,
) -> Iterator[Shown]:
    """Plan a running pipeline again, with the modules that there are now, and apply the difference."""
    pipeline = None if file is None else read_json(file, "with a pipeline")
    form = fill_form(ReplanForm, pipeline=pipeline, prefer=prefer, without=without)
    with progress("planning"):
        answer = client.replan(dataflow, form, dry_run=dry_run)
    waited_for = answer.reconfiguration if wait and not dry_run else None
    if waited_for is not None:
        waited_for = wait_for(client, answer.dataflow, waited_for, Until.SWITCHED)
        answer = answer.model_copy(update={"reconfiguration": waited_for})
    changed = f"{'would change' if dry_run else 'changed'}: {', '.join(answer.changed)}" if answer.changed else ""
    why = f", because {answer.why}" if answer.why else ""
    now = None if waited_for is None else heading(waited_for)
    text = lines(plan_text(answer.plan), f"{answer.dataflow}: {_HOW[answer.how][dry_run]}{why}", changed, now)
    yield Shown(data=answer, text=text)
    if waited_for is not None:
        exit_unless_done(waited_for, Until.SWITCHED)


def plan_text(plan: PlanAnswer) -> RenderableType:
    """A plan as a table of its places, and where it is known what would happen if a module failed."""
    rows: list[tuple[object, ...]] = [
        (place.id, place.module or "nothing", place.alternatives) for place in plan.places
    ]
    columns: tuple[str, ...] = ("place", "module", "as good")
    if not any(place.alternatives for place in plan.places):
        rows, columns = [row[:2] for row in rows], columns[:2]
    places = table(*columns, rows=rows, empty="The pipeline has no open places.")
    fallbacks = [(fallback.module, _instead(fallback)) for fallback in plan.fallbacks]
    return lines(places, table("if this fails", "then", rows=fallbacks, empty="") if fallbacks else None)


def _instead(fallback: FallbackAnswer) -> str:
    if fallback.no_plan:
        return f"everything stays: {fallback.no_plan}"
    return ", ".join(f"{place.id}: {place.module or 'nothing'}" for place in fallback.places)
