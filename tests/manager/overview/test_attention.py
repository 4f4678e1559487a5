"""What needs attention: what is listed, for whom, and with which remedy."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowAnswer, DataflowState
from braid_client.answers.dead_letters import DeadLetterGroupAnswer
from braid_client.answers.overview import ConcernKind, TroubledJobAnswer, Urgency
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import TenantAnswer
from bridge.connectors.connector_run import LinkState
from engine.host.spools import Received
from manager.observations.reports import HostSeen, JobSeen
from manager.overview.attention import ConcernSources, concerns
from manager.store.dead_letters import Letter, keep
from tests.braid_client.samples import DATAFLOW, DEAD_LETTER_GROUP, QUOTA, TENANT
from tests.manager.managers import ANN, BOB, OPERATOR, PLENTY, Manager

NOW = datetime(2026, 1, 2, 3, tzinfo=UTC)
AT = NOW.timestamp()
LONG_AGO = AT - 86_400
UNUSED = dict.fromkeys(QUOTA, 0)
RECEIVED = Received(since=LONG_AGO, accepted=7)
REJECTING = RECEIVED.rejecting("{}", "f is no float", count=2, at=AT)
LOST = replace(RECEIVED, link=LinkState(since=AT, error="refused"))


def degraded(name: str, reason: str = "no host") -> DataflowAnswer:
    return DataflowAnswer.model_validate(DATAFLOW | {"id": name, "state": "degraded", "reason": reason})


def dead(last: datetime = NOW) -> DeadLetterGroupAnswer:
    return DeadLetterGroupAnswer.model_validate(DEAD_LETTER_GROUP | {"last": last})


def tenant(**uses: float) -> TenantAnswer:
    return TenantAnswer.model_validate(TENANT | {"uses": UNUSED | uses})


@pytest.mark.parametrize(
    ("known", "kind", "subject", "what", "reason", "remedy"),
    [
        ({"away": ["local"]}, "host", "local", "Host local is away", "", "start it again; what it ran: braid jobs"),
        (
            {"waiting": {"north": "nobody has admitted it"}},
            *("machine", "north", "Machine north waits", "nobody has admitted it", "braid machines admit north"),
        ),
        (
            {"troubled": [TroubledJobAnswer(job="7", state="failed", trouble="it died")]},
            *("job", "7", "Job 7 is failed", "it died", "braid logs --job 7"),
        ),
        ({"in_trouble": 2}, "job", "", "2 more jobs in trouble", "", "braid jobs"),
        (
            {"degraded": [degraded("d1")]},
            *("dataflow", "d1", "Dataflow Schools (d1) is degraded", "no host", "braid show d1"),
        ),
        (
            {"degraded": [degraded("d1"), degraded("d2")]},
            *("dataflow", "", "2 dataflows are degraded", "no host", "braid list --state degraded"),
        ),
        ({"all_degraded": 1}, "dataflow", "", "1 more dataflow degraded", "", "braid list --state degraded"),
        (
            {"received": {"city": LOST}},
            *("source", "city", "Source city lost its connection", "refused", "braid sources show city"),
        ),
        (
            {"received": {"city": REJECTING}},
            *("source", "city", "Source city rejected 2 events, the last", "f is no float", "braid sources show city"),
        ),
        (
            {"dead": [dead()]},
            *("dead letters", "d1", "12 dead letters, the last", "no number"),
            "braid dead-letters replay 3 --alike, or discard instead of replay",
        ),
        (
            {"tenants": [tenant(tasks=2)]},
            *("quota", "school", "Tenant school uses 2 of 2 tasks", ""),
            "remove what you need no more, or ask an operator for more",
        ),
        (
            {"tenants": [tenant(budget=12.75)]},
            *("quota", "school", "Tenant school uses 12.75 of 13 units of money a day", ""),
            "remove what you need no more, or ask an operator for more",
        ),
        (
            {"tenants": [tenant(streams=3)], "is_operator": True},
            *("quota", "school", "Tenant school uses 3 of 3 streams between tasks", ""),
            "braid tenants quota school --streams 6",
        ),
    ],
)
def test_each_concern_says_what_is_wrong_and_what_to_do(  # noqa: PLR0913, PLR0917 - what is known, and each part
    known: Mapping[str, Any], kind: str, subject: str, what: str, reason: str, remedy: str
) -> None:
    """Hosts, jobs, dataflows and connections are errors; what else needs attention is a warning."""
    (concern,) = concerns(ConcernSources(**{"now": AT, "is_operator": False, **known}))
    said = (concern.kind, concern.subject, concern.what, concern.reason, concern.remedy)
    assert (kind, subject, what, reason, remedy) == said
    is_error = concern.kind in {"host", "job", "dataflow"} or "connection" in what
    assert (Urgency.ERROR if is_error else Urgency.WARNING) == concern.urgency
    assert (NOW if {"received", "dead"} & known.keys() else None) == concern.at


def test_what_is_old_or_has_room_needs_no_attention() -> None:
    """Rejected events and dead letters of yesterday, a quota that is hardly used, and a first connection."""
    old = RECEIVED.rejecting("{}", "f is no float", count=2, at=LONG_AGO)
    connecting = replace(RECEIVED, link=LinkState(since=AT))
    known = ConcernSources(
        now=AT,
        is_operator=True,
        received={"old": old, "connecting": connecting},
        dead=[dead(datetime.fromtimestamp(LONG_AGO, UTC))],
        tenants=[tenant(tasks=1)],
    )
    assert () == concerns(known)


def test_errors_come_before_warnings() -> None:
    """Whatever they are about."""
    known = ConcernSources(
        now=AT, is_operator=True, waiting={"north": "it is new"}, dead=[dead()], degraded=[degraded("d1")]
    )
    assert [ConcernKind.DATAFLOW, ConcernKind.MACHINE, ConcernKind.DEAD_LETTERS] == [
        concern.kind for concern in concerns(known)
    ]


def test_a_tenant_sees_only_what_concerns_its_own(manager: Manager) -> None:
    """Of its sources, dead letters, dataflows and quota; an operator of everybody's, of hosts and of jobs."""
    now = datetime.now(UTC)
    flow = manager.submit("ann", "s:source > k:sink")
    manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    connection = {"kind": "topic", "topic": "bob/bobs"}
    manager.service.sources.register(BOB, SourceForm.model_validate({"name": "bobs", "connection": connection}))
    manager.service.administration.set_quota(OPERATOR, "bob", PLENTY.model_copy(update={"sources": 1}))
    with manager.committer.looking() as state:
        (job,) = map(str, state.jobs_of(flow))
        stream = state.sources["bob:bobs"].supplied.stream
        instance = state.running.dataflows[flow].places["s"]
    rejecting = Received(since=AT).rejecting("{}", "f is no float", count=1, at=now.timestamp())
    manager.seen.every_host = (
        HostSeen(host="north", alive=True, sources={stream: rejecting}, seen=now),
        HostSeen(host="south", alive=False, seen=now),
    )
    manager.seen.jobs[job] = JobSeen(job=job, host="north", state="died", trouble="disk full", seen=now)
    letter = Letter(instance=instance, port="in", batch=1, reason="too warm", events=[{}])
    with manager.store.write() as session:
        keep(session, [letter], {instance: {"ann": [flow]}}, at=now.timestamp())
    whole, anns, bobs = map(manager.service.overview.counts, (OPERATOR, ANN, BOB))
    assert {("dataflow", flow), ("dead letters", flow)} == {(each.kind, each.subject) for each in anns.attention}
    assert {("source", "bob:bobs"), ("quota", "bob")} == {(each.kind, each.subject) for each in bobs.attention}
    assert (False, True) == (anns.well, bobs.well)
    operators = {("host", "south"), ("job", job)}
    assert operators == {(each.kind, each.subject) for each in whole.attention} - {
        (each.kind, each.subject) for each in (*anns.attention, *bobs.attention)
    }
    assert (len(whole.attention), False) == (whole.concerns, whole.well)


def test_what_is_listed_is_bounded(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is counted, also what is degraded and not listed."""
    monkeypatch.setattr("manager.overview.use_cases.MOST_CONCERNS", 1)
    for number in range(4):
        manager.submit("ann", f"s:source > a:map{{'add': {number}}} > k:sink")
    with manager.committer.looking() as state:
        jobs = map(str, state.plans)
    for number, job in enumerate(jobs):
        manager.seen.jobs[job] = JobSeen(job=job, host="north", state="died", trouble=f"{number}", seen=NOW)
    own = manager.service.overview.counts(ANN)
    assert (1, 2) == (len(own.attention), own.concerns)
    assert 4 == own.dataflows[DataflowState.DEGRADED]
