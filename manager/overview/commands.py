"""The commands that say whether all is well, and who did what: `braid status`, `braid audit`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer
from pydantic import BaseModel

from braid_client.answers.dataflows import DataflowAnswer, DataflowState
from braid_client.answers.dead_letters import DeadLetterGroupAnswer
from braid_client.answers.jobs import HostAnswer, MachineAnswer
from braid_client.answers.overview import OverviewAnswer
from braid_client.answers.sources import SourceAnswer
from braid_client.answers.tenants import TenantAnswer
from braid_client.client import Client
from manager.cli import Shown, ShownLine, client_command, counted, fields, lines, listing, moment, table
from manager.exit_codes import ExitCode
from manager.savings.commands import TIME_FORMAT, time_in

_NEW = timedelta(hours=1)
"""For so long, what happened counts as new."""
_NEARLY = 0.9
"""The part of a limit above which it is nearly used up."""
_MOST = 20
"""The most things that are shown on one screen."""


class Urgency(StrEnum):
    """How bad something is that needs attention."""

    ERROR = "error"
    WARNING = "warning"


class Concern(BaseModel):
    """Something that needs attention."""

    urgency: Urgency
    what: str
    remedy: str
    """What to do, as a command where there is one."""


class StatusReport(BaseModel):
    """Whether all is well for the caller, and what there is."""

    well: bool
    attention: tuple[Concern, ...]
    overview: OverviewAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """What the service answered; hosts and machines are for operators."""

    overview: OverviewAnswer
    degraded: Sequence[DataflowAnswer]
    dead: Sequence[DeadLetterGroupAnswer]
    sources: Sequence[SourceAnswer]
    tenants: Sequence[TenantAnswer]
    hosts: Sequence[HostAnswer]
    machines: Sequence[MachineAnswer]


@client_command
def status(client: Client) -> Iterator[Shown]:
    """Show on one screen whether all is well, what needs attention, and what to do about it.

    It ends with 9 if something is wrong, and with 0 if there are only warnings.
    """
    overview = client.overview()
    is_operator = overview.jobs is not None
    observed = _Observed(
        overview=overview,
        degraded=tuple(client.dataflows(state=DataflowState.DEGRADED)) if _degraded(overview) else (),
        dead=tuple(client.dead_letter_groups()),
        sources=tuple(client.sources()),
        tenants=tuple(client.tenants()),
        hosts=tuple(client.hosts()) if is_operator else (),
        machines=tuple(client.machines()) if is_operator else (),
    )
    attention = sorted(_attention(observed, datetime.now(UTC)), key=lambda concern: concern.urgency)
    well = all(concern.urgency is not Urgency.ERROR for concern in attention)
    rows = [(concern.urgency, concern.what, concern.remedy) for concern in attention[:_MOST]]
    yield Shown(
        data=StatusReport(well=well, attention=tuple(attention), overview=overview),
        text=lines(
            _sentence(overview, len(attention)),
            table("", "needs attention", "what to do", rows=rows, empty=""),
            f"and {len(attention) - _MOST:,} more; all of them: braid status --json" if attention[_MOST:] else None,
            *_counts(overview),
        ),
    )
    if not well:
        raise typer.Exit(ExitCode.UNWELL)


def _degraded(overview: OverviewAnswer) -> int:
    return overview.dataflows.get(DataflowState.DEGRADED, 0)


def _sentence(overview: OverviewAnswer, wrong: int) -> str:
    counts = [(overview.dataflows.get(state, 0), state) for state in DataflowState]
    dataflows = ", ".join(f"{counted(count, 'dataflow')} {state}" for count, state in counts if count)
    if wrong:
        return f"{counted(wrong, 'thing')} need{'s' if wrong == 1 else ''} attention; {dataflows or 'no dataflows'}"
    return f"all is well: {dataflows}" if dataflows else "nothing runs yet, and nothing is wrong"


def _counts(overview: OverviewAnswer) -> Iterator[str]:
    """What runs, for whom it is known."""
    if overview.tasks_submitted:
        yield f"{overview.tasks_running:,} tasks run for {overview.tasks_submitted:,} that were submitted"
    if (jobs := overview.jobs) is not None and jobs.states:
        states = ", ".join(f"{count:,} {state}" for state, count in jobs.states.items())
        oldest = f", the oldest for {jobs.lag_seconds:.1f} s" if jobs.lag_events and jobs.lag_seconds else ""
        yield f"jobs: {states}; {counted(jobs.lag_events or 0, 'event')} waiting{oldest}"


def _attention(observed: _Observed, now: datetime) -> Iterator[Concern]:
    """What needs attention, by its kind. The console makes its list itself, with links instead of commands."""
    yield from _away(observed)
    yield from _dataflows(observed.degraded)
    yield from _sources(observed.sources, now)
    for group in observed.dead:
        if now - group.last < _NEW:
            what = f"{counted(group.dead_letters, 'dead letter')}, the last at {moment(group.last)}: {group.reason}"
            yield _warning(what, f"braid dead-letters replay {group.newest} --alike, or discard instead of replay")
    yield from _quotas(observed.tenants, is_operator=observed.overview.jobs is not None)


def _away(observed: _Observed) -> Iterator[Concern]:
    """Hosts that are away, jobs in trouble, machines that wait."""
    for host in observed.hosts:
        if not host.alive:
            yield _error(f"host {host.name} is away", "start it again; what it ran: braid jobs")
    if observed.overview.jobs is not None:
        for job in observed.overview.jobs.troubled:
            yield _error(f"job {job.job} is {job.state}: {job.trouble}", f"braid logs --job {job.job}")
    for machine in observed.machines:
        if machine.waits:
            yield _warning(f"machine {machine.name} waits: {machine.waits}", f"braid machines admit {machine.name}")


def _dataflows(degraded: Iterable[DataflowAnswer]) -> Iterator[Concern]:
    """Degraded dataflows by their reason, which many may have in common."""
    reasons: defaultdict[str, list[DataflowAnswer]] = defaultdict(list)
    for dataflow in degraded:
        reasons[dataflow.reason].append(dataflow)
    for reason, (first, *others) in reasons.items():
        if others:
            yield _error(f"{1 + len(others):,} dataflows are degraded: {reason}", "braid list --state degraded")
        else:
            yield _error(f"{first.name} ({first.id}) is degraded: {reason}", f"braid show {first.id}")


def _sources(sources: Iterable[SourceAnswer], now: datetime) -> Iterator[Concern]:
    """Sources without a connection, and those that reject events."""
    for source in sources:
        if (received := source.received) is None:
            continue
        name = source.name
        if received.link and not received.link.connected:
            what = f"source {name} has no connection since {moment(received.link.since)}: {received.link.error}"
            yield _error(what, f"braid sources show {name}")
        if received.newest and now - received.newest[0].at < _NEW:
            last = received.newest[0]
            what = f"source {name} rejects events, the last at {moment(last.at)}: {last.reason}"
            yield _warning(what, f"braid sources show {name}")


def _quotas(tenants: Iterable[TenantAnswer], *, is_operator: bool) -> Iterator[Concern]:
    for tenant in tenants:
        most = tenant.quota.model_dump()
        for limit, used in tenant.uses.model_dump().items():
            if used and used >= _NEARLY * most[limit]:
                raising = f"braid tenants quota {tenant.name} --{limit.replace('_', '-')} {2 * max(1, most[limit])}"
                yield _warning(
                    f"tenant {tenant.name} uses {used:,} of {most[limit]:,} {limit.replace('_', ' ')}",
                    raising if is_operator else "remove what you need no more, or ask an operator for more",
                )


def _error(what: str, remedy: str) -> Concern:
    return Concern(urgency=Urgency.ERROR, what=what, remedy=remedy)


def _warning(what: str, remedy: str) -> Concern:
    return Concern(urgency=Urgency.WARNING, what=what, remedy=remedy)


@client_command
def audit(
    client: Client,
    *,
    by: Annotated[str | None, typer.Option(help="Only of this API key, or this subject at the provider.")] = None,
    since: Annotated[str | None, typer.Option("--from", help=f"Only from a time on, {TIME_FORMAT}")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only before a time.")] = None,
    as_lines: Annotated[bool, typer.Option("--lines", help="Print each as JSON on a line of its own.")] = False,
) -> Iterator[Shown]:
    """List who did what, from where, and what was refused, newest first."""
    entries = client.audit(by=by, since=time_in("--from", since), until=time_in("--to", until))
    if as_lines:
        yield from (ShownLine(data=entry, text=entry.model_dump_json()) for entry in entries)
        return
    columns = ("at", "who", "caller", "caller_name", "address", "kind", "subject", "outcome", "note")
    yield listing(entries, "nothing", lambda entry: fields(entry, *columns), wide=("caller name", "address", "note"))
