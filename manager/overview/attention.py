"""What needs attention: one list, which the console and the command line show. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from braid_client.answers.dataflows import DataflowAnswer
from braid_client.answers.dead_letters import DeadLetterGroupAnswer
from braid_client.answers.overview import ConcernAnswer, ConcernKind, TroubledJobAnswer, Urgency
from braid_client.answers.tenants import TenantAnswer
from engine.host.spools import Received
from manager.cli import counted
from manager.use_case import moment

_NEW = 60 * 60.0
"""The seconds for which what happened counts as new."""
_NEARLY = 0.9
"""The part of a limit above which it is nearly used up."""
_LIMITS = {
    "streams": "streams between tasks",
    "submits_per_minute": "submissions in the last minute",
    "modules": "versions of modules",
    "keys": "API keys",
    "wheel_bytes": "bytes of wheels",
    "from_earliest": "dataflows from the earliest events",
    "state_mb": "MB of states",
    "budget": "units of money a day",
}
"""What limits are of, where their names do not say it."""


_error, _warning = (partial(ConcernAnswer, urgency=urgency) for urgency in (Urgency.ERROR, Urgency.WARNING))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcernSources:
    """What is known that may need attention, as far as the caller may know it."""

    now: float
    is_operator: bool
    away: Sequence[str] = ()
    """Hosts that are away."""
    troubled: Sequence[TroubledJobAnswer] = ()
    in_trouble: int = 0
    """The number of all troubled jobs."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Machines that wait, each with the reason."""
    degraded: Sequence[DataflowAnswer] = ()
    all_degraded: int = 0
    """The number of all degraded dataflows."""
    received: Mapping[str, Received] = field(default_factory=dict)
    """What was received of the caller's sources, by name."""
    dead: Sequence[DeadLetterGroupAnswer] = ()
    tenants: Sequence[TenantAnswer] = ()


def concerns(known: ConcernSources) -> tuple[ConcernAnswer, ...]:
    """What needs attention, errors first."""
    every = (*_hosts(known), *_jobs(known), *_dataflows(known), *_sources(known), *_dead(known), *_quotas(known))
    return tuple(sorted(every, key=lambda concern: concern.urgency))


def _hosts(known: ConcernSources) -> Iterator[ConcernAnswer]:
    for host in known.away:
        remedy = "start it again; what it ran: braid jobs"
        yield _error(kind=ConcernKind.HOST, subject=host, what=f"Host {host} is away", remedy=remedy)
    for machine, why in known.waiting.items():
        what, remedy = f"Machine {machine} waits", f"braid machines admit {machine}"
        yield _warning(kind=ConcernKind.MACHINE, subject=machine, what=what, reason=why, remedy=remedy)


def _jobs(known: ConcernSources) -> Iterator[ConcernAnswer]:
    for job in known.troubled:
        what, remedy = f"Job {job.job} is {job.state}", f"braid logs --job {job.job}"
        yield _error(kind=ConcernKind.JOB, subject=job.job, what=what, reason=job.trouble, remedy=remedy)
    if (more := known.in_trouble - len(known.troubled)) > 0:
        yield _error(kind=ConcernKind.JOB, what=f"{counted(more, 'more job')} in trouble", remedy="braid jobs")


def _dataflows(known: ConcernSources) -> Iterator[ConcernAnswer]:
    """Degraded dataflows by their reason, which many may have in common."""
    reasons: defaultdict[str, list[DataflowAnswer]] = defaultdict(list)
    for dataflow in known.degraded:
        reasons[dataflow.reason].append(dataflow)
    several = partial(_error, kind=ConcernKind.DATAFLOW, remedy="braid list --state degraded")
    for reason, (first, *others) in reasons.items():
        if others:
            yield several(what=f"{1 + len(others):,} dataflows are degraded", reason=reason)
        else:
            what, remedy = f"Dataflow {first.name} ({first.id}) is degraded", f"braid show {first.id}"
            yield _error(kind=ConcernKind.DATAFLOW, subject=first.id, what=what, reason=reason, remedy=remedy)
    if (more := known.all_degraded - len(known.degraded)) > 0:
        yield several(what=f"{counted(more, 'more dataflow')} degraded")


def _sources(known: ConcernSources) -> Iterator[ConcernAnswer]:
    """Sources without a connection, and those that reject events."""
    for name, received in known.received.items():
        about = {"kind": ConcernKind.SOURCE, "subject": name, "remedy": f"braid sources show {name}"}
        link = received.link
        # Without an error it connects for the first time.
        if link is not None and not link.connected and link.error:
            yield _error(**about, what=f"Source {name} lost its connection", at=moment(link.since), reason=link.error)
        if received.newest and known.now - received.newest[0].at < _NEW:
            last = received.newest[0]
            what = f"Source {name} rejected {counted(received.rejected, 'event')}, the last"
            yield _warning(**about, what=what, at=moment(last.at), reason=last.reason)


def _dead(known: ConcernSources) -> Iterator[ConcernAnswer]:
    for group in known.dead:
        if known.now - group.last.timestamp() < _NEW:
            yield _warning(
                kind=ConcernKind.DEAD_LETTERS,
                subject=next(iter(group.dataflows), ""),
                what=f"{counted(group.dead_letters, 'dead letter')}, the last",
                at=group.last,
                reason=group.reason,
                remedy=f"braid dead-letters replay {group.newest} --alike, or discard instead of replay",
            )


def _quotas(known: ConcernSources) -> Iterator[ConcernAnswer]:
    for tenant in known.tenants:
        most = tenant.quota.model_dump()
        for limit, used in tenant.uses.model_dump().items():
            if used and used >= _NEARLY * most[limit]:
                what = f"Tenant {tenant.name} uses {used:,} of {most[limit]:,} {_LIMITS.get(limit, limit)}"
                raising = f"braid tenants quota {tenant.name} --{limit.replace('_', '-')} {2 * max(1, most[limit])}"
                remedy = raising if known.is_operator else "remove what you need no more, or ask an operator for more"
                yield _warning(kind=ConcernKind.QUOTA, subject=tenant.name, what=what, remedy=remedy, limit=limit)
