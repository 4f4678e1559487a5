"""Looks at the ports of running tasks: whose events are shown, and what a look costs whom."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from braid_client.answers.dataflows import Stop
from braid_client.answers.overview import OperationKind
from braid_client.answers.sources import VisibilityForm
from braid_client.answers.trials import SeenEvents
from bridge import topics
from dags import Visibility
from engine.port_events import LookRequest, SeenEvent, SeenInstance, SeenPort, read_look
from manager.observations.looks import LOOK_SECONDS, MOST_LOOKED_AT, LookedAt, TaskLooks
from manager.observations.reports import HostSeen
from manager.problem import Conflict, NotFound, QuotaExceeded, StateNotReady
from manager.use_case import Paging
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager, leading

LATER = 10**14
"""Milliseconds since 1970, long after any test."""
NORTH = HostSeen(host="north", alive=True, seen=datetime.now(UTC))
FLOW = "s:source > w:window > k:sink"


class Host:
    """What a host is asked, and a clock."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, LookRequest]] = []
        self.now = 0.0
        self.looks = TaskLooks(
            lambda topic, payload: self.asked.append((topic, read_look(payload))), clock=lambda: self.now
        )

    def report(self, *ports: SeenPort) -> None:
        """Report events of the instance that was asked for last."""
        _, request = self.asked[-1]
        seen = SeenInstance(instance=request.instance, ports=ports)
        self.looks.take(request.job, TypeAdapter(SeenInstance).dump_json(seen))


def port(name: str, *events: str, at: int = LATER, is_input: bool = True, count: int = 0) -> SeenPort:
    newest = tuple(SeenEvent(at, event) for event in events)
    return SeenPort(port=name, is_input=is_input, count=count or len(events), newest=newest)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def manager(sqlite: str, host: Host) -> Iterator[Manager]:
    tools = {"looks": host.looks}
    for made in leading(sqlite, tenants=("ann", "bob", "eve"), sources=("weather", "traffic"), tools=tools):
        made.seen.every_host = (NORTH,)
        yield made


def test_a_look_asks_the_host_and_shows_what_it_reports(manager: Manager, host: Host) -> None:
    """At every port of the task, and before anything is reported it says that it waits."""
    dataflow = manager.submit("ann", FLOW)
    nothing = SeenEvents(count=0)
    waiting = manager.service.port_events.newest(ANN, dataflow, "w")
    assert (True, {"in": nothing}, {"out": nothing}) == (waiting.waits, waiting.inputs, waiting.outputs)
    ((topic, request),) = host.asked
    assert (topics.host("north", "look"), "1", LOOK_SECONDS) == (topic, request.job, request.seconds)
    host.report(port("in", "1", "2", count=50))
    shown = manager.service.port_events.newest(ANN, dataflow, "w")
    assert ("w", "window", False, nothing) == (shown.id, shown.type, shown.waits, shown.outputs["out"])
    entered = shown.inputs["in"]
    assert (50, ("1", "2"), 2) == (entered.count, entered.newest, len(entered.seen))


def test_a_source_shows_what_leaves_it_and_a_sink_what_enters_it(manager: Manager, host: Host) -> None:
    """A source runs in no job of its own, so a job that reads it is asked."""
    dataflow = manager.submit("ann", FLOW)
    source = manager.service.port_events.newest(ANN, dataflow, "s")
    assert ({}, ["out"]) == (source.inputs, list(source.outputs))
    assert ["1"] == [request.job for _, request in host.asked]
    manager.service.port_events.newest(ANN, dataflow, "k")
    host.report(port("in", "1"), port("out", "1", is_input=False))
    sink = manager.service.port_events.newest(ANN, dataflow, "k")
    assert (["in"], {}) == (list(sink.inputs), sink.outputs)


def test_all_tenants_of_a_task_see_its_events_and_nobody_else_does(manager: Manager, host: Host) -> None:
    """By their own dataflows alone; another tenant's is as one that never was."""
    first, second = manager.submit("ann", FLOW), manager.submit("bob", FLOW)
    newest = manager.service.port_events.newest
    newest(ANN, first, "w")
    host.report(port("in", "1"))
    assert newest(ANN, first, "w") == newest(BOB, second, "w") == newest(OPERATOR, second, "w")
    # However many look, the host is asked once a second.
    assert 1 == len(host.asked)
    for who, dataflow in ((EVE, first), (BOB, first), (ANN, second), (EVE, "d-none")):
        with pytest.raises(NotFound, match=f"no dataflow '{dataflow}'"):
            newest(who, dataflow, "w")
    with pytest.raises(NotFound, match="no task 'x'"):
        newest(ANN, first, "x")
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    with pytest.raises(Conflict, match="was removed"):
        newest(ANN, first, "w")


def test_a_tenant_sees_no_event_from_before_it_might_read_a_source(manager: Manager, host: Host) -> None:
    """Even if another one has looked at the task all the time."""
    manager.service.sources.set_visibility(ANN, "weather", VisibilityForm(visibility=Visibility.PRIVATE))
    first = manager.submit("ann", FLOW)
    manager.service.port_events.newest(ANN, first, "w")
    host.report(port("in", "1", at=1))
    manager.service.sources.set_visibility(ANN, "weather", VisibilityForm(visibility=Visibility.PUBLIC))
    second = manager.submit("bob", FLOW)
    shown = [manager.service.port_events.newest(*at, "w") for at in ((ANN, first), (BOB, second))]
    assert [("1",), ()] == [answer.inputs["in"].newest for answer in shown]


def test_a_look_ends_by_itself_and_the_journal_has_its_beginning(manager: Manager, host: Host) -> None:
    """Not every request: a page asks every few seconds."""
    dataflow = manager.submit("ann", FLOW)
    newest = manager.service.port_events.newest
    for host.now in (0.0, 5.0, 12.0):
        newest(ANN, dataflow, "w")
    host.report(port("in", "1"))
    host.now = 12.0 + LOOK_SECONDS
    assert newest(ANN, dataflow, "w").waits
    noted = manager.service.operations.page(ANN, Paging(limit=3)).items
    kinds = [(operation.kind, operation.subject, operation.note) for operation in noted]
    assert [(OperationKind.LOOK, dataflow, "task: w")] * 2 == kinds[:2]
    assert OperationKind.SUBMIT is kinds[2][0]


def test_a_tenant_looks_at_a_few_tasks_at_once(manager: Manager, host: Host) -> None:
    """Another is not kept from it, and once its looks have ended it may look again."""
    first = manager.submit("ann", FLOW)
    looks = [LookedAt("9", instance) for instance in range(MOST_LOOKED_AT)]
    for at in looks:
        assert host.looks.renew("ann", at, host="north")
    assert not host.looks.renew("ann", looks[0], host="north")
    with pytest.raises(QuotaExceeded, match="ann looks at 8 tasks"):
        manager.service.port_events.newest(ANN, first, "w")
    assert host.looks.renew("bob", LookedAt("1", 2), host="north")
    host.now = LOOK_SECONDS
    manager.service.port_events.newest(ANN, first, "w")


def test_what_comes_after_a_look_is_dropped(host: Host) -> None:
    """It would stay for nobody."""
    at = LookedAt("1", 7)
    assert host.looks.renew("ann", at, host="north")
    host.report(port("in", "1"))
    assert host.looks.seen(at) is not None
    host.now = LOOK_SECONDS
    assert host.looks.renew("ann", LookedAt("1", 8), host="north")
    assert host.looks.seen(at) is None
    host.looks.take("1", TypeAdapter(SeenInstance).dump_json(SeenInstance(instance=7, ports=())))
    assert host.looks.seen(at) is None


def test_a_host_that_is_away_is_not_asked(manager: Manager, host: Host) -> None:
    """The broker would keep it all for that host, in place of its plans."""
    manager.seen.every_host = (replace(NORTH, alive=False),)
    dataflow = manager.submit("ann", FLOW)
    assert manager.service.port_events.newest(ANN, dataflow, "w").waits
    assert [] == host.asked
    manager.seen.every_host = (NORTH,)
    manager.service.port_events.newest(ANN, dataflow, "w")
    assert 1 == len(host.asked)


def test_a_manager_without_hosts_says_so(manager: Manager) -> None:
    """As for other looks."""
    manager.equip(looks=None)
    with pytest.raises(StateNotReady, match="ask that one"):
        manager.service.port_events.newest(ANN, manager.submit("ann", FLOW), "w")
