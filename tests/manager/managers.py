"""Managers for tests: a service over a database, with hosts that offer everything, of which nothing is seen."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from braid_client.answers.base import Page
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import Quota, Role, TenantForm
from dags import Catalogue, Kind, Visibility
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.kernel.draft import DecisionGround
from manager.kernel.transitions import Move, Reconfiguration, TransitionEvent, Turn
from manager.kernel.wanted import Moving
from manager.machines.carriages import CommittedCarriages
from manager.moves.changes import MoveChanges
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, MachineStatus, Measured
from manager.problem import Conflict
from manager.reconfigurations.changes import ReconfigurationChanges
from manager.service import service_of
from manager.store.database import Store
from manager.store.leadership import Candidate
from manager.store.tables import Leadership
from manager.use_case import Caller, Paging, Tools
from merge import Host, Instance, JobId
from tests.catalogue import CATALOGUE
from tests.catalogue import SOURCES as REGISTERED
from tests.notation import document

HOSTS = (Host(name="north", cores=64.0, tags=frozenset({"gpu", "fpga"})),)
OPERATOR = Caller(key="0", role=Role.OPERATOR, tenant=None)
PLENTY = Quota(**dict.fromkeys(Quota.model_fields, 1_000_000_000))
FIELDS = {"place": Kind.STRING, "value": Kind.INTEGER}


def caller(tenant: str) -> Caller:
    """A tenant that asks."""
    return Caller(key=tenant, role=Role.TENANT, tenant=tenant)


ANN, BOB, EVE = caller("ann"), caller("bob"), caller("eve")


class Seen:
    """What was seen of hosts and jobs; a test fills it."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobSeen] = {}
        self.every_host: tuple[HostSeen, ...] = ()
        self.every_machine: dict[str, MachineStatus] = {}
        self.just_began = False

    def job(self, job: str) -> JobSeen | None:
        return self.jobs.get(job)

    def hosts(self) -> tuple[HostSeen, ...]:
        return self.every_host

    def misses_machines(self) -> bool:
        return self.just_began

    def machines(self) -> Mapping[str, tuple[MachineStatus, ...]]:
        return {name: (status,) for name, status in self.every_machine.items()}


class Manager:
    """One manager of a database."""

    def __init__(
        self,
        url: str,
        name: str = "one",
        *,
        strategy: str = "pack",
        hosts: tuple[Host, ...] = HOSTS,
        catalogue: Catalogue = CATALOGUE,
    ) -> None:
        self.url = url
        self.store = Store(url)
        self.hosts = hosts
        self.seen = Seen()
        ground = DecisionGround(hosts=lambda: self.hosts, strategy=strategy)
        self.committer = Committer(self.store, catalogue, ground, name=name)
        self.changes = changes_of(self.committer, self.store, catalogue)
        self.candidate = Candidate(self.store, name, won=self.committer.lead, lost=self.committer.step_down)
        self.tools = Tools(
            store=self.store,
            catalogue=catalogue,
            committer=self.committer,
            changes=self.changes,
            carriages=CommittedCarriages(self.committer, self.store),
            seeing=self.seen,
            chooser=Chooser(self.seen),
        )
        self.service = service_of(self.tools)

    def equip(self, **tools: Any) -> None:
        """Make the service anew, with other tools."""
        self.tools = replace(self.tools, **tools)
        self.service = service_of(self.tools)

    def lead(self) -> "Manager":
        """Take the lead, no matter who has it."""
        with self.store.write() as session:
            session.get_one(Leadership, 1).until = 0.0
        self.candidate.look()
        return self

    def close(self) -> None:
        self.store.close()

    def admit(self, *tenants: str, quota: Quota = PLENTY) -> None:
        for tenant in tenants:
            self.service.administration.admit(OPERATOR, TenantForm(name=tenant, quota=quota))

    def register(self, *sources: str) -> None:
        """Register sources of the test catalogue, with their owners and readers."""
        for name in sources:
            self.service.sources.register(OPERATOR, form(name))

    def submit(self, tenant: str, text: str | dict[str, Any], key: str | None = None) -> str:
        """Submit a line or a document; the dataflow's id."""
        return self.service.dataflows.submit(caller(tenant), raw(text), idempotency_key=key).id


def leading(
    url: str,
    *,
    tenants: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    submitted: Iterable[tuple[str, str]] = (),
    tools: Mapping[str, Any] = MappingProxyType({}),
    **made: Any,
) -> Iterator[Manager]:
    """A manager that leads, until a fixture ends; with tenants, sources of the test catalogue, and their dataflows."""
    manager = Manager(url, **made).lead()
    if tools:
        manager.equip(**tools)
    manager.admit(*tenants)
    manager.register(*sources)
    for tenant, text in submitted:
        manager.submit(tenant, text)
    yield manager
    manager.close()


def form(name: str) -> SourceForm:
    """The form of a source of the test catalogue."""
    source = REGISTERED[name]
    return SourceForm.model_validate(
        {
            "name": name,
            "owner": source.owner,
            "connection": {"kind": "topic", "topic": f"raw/{source.owner}/{name}"},
            "schema": dict(FIELDS),
            "visibility": source.visibility,
            "readers": source.readers if source.visibility is Visibility.NAMED else (),
        }
    )


def raw(text: str | dict[str, Any]) -> bytes:
    """A document as it is sent, with the sources' names as everybody has them."""
    written: dict[str, Any] = json.loads(json.dumps(document(text) if isinstance(text, str) else text))
    for task in written["tasks"]:
        name = task["config"].get("source")
        if task["type"] == "source" and name in REGISTERED:
            task["config"]["source"] = f"{REGISTERED[name].owner}:{name}"
    return json.dumps(written).encode()


def take(
    changes: MoveChanges | ReconfigurationChanges,
    number: int,
    event: TransitionEvent,
    *,
    why: str = "",
    passed: Mapping[JobId, Mapping[str, int]] = MappingProxyType({}),
) -> None:
    """Take a transition on by an event, as the reconciler does that observes it."""
    known: dict[int, Move | Reconfiguration] = {}
    for each in changes.under_way():
        transition = each.move if isinstance(each, Moving) else each.reconfiguration
        known[transition.id] = transition
    if number not in known:
        raise Conflict("it is over")
    changes.take(Turn(known[number], event, why, passed))


T = TypeVar("T")
MOST = 1_000


def parts(read: Callable[[Paging], Page[T]], limit: int) -> Iterator[tuple[T, ...]]:
    """Each part of a list, one after the other, as a reader asks for them."""
    after = None
    for _ in range(MOST):
        page = read(Paging(after=after, limit=limit))
        yield page.items
        if page.next is None:
            return
        # One that says that there is more is not empty, or a reader might never come to an end.
        assert page.items
        after = page.next
    raise AssertionError("the list has no end")


def every(read: Callable[[Paging], Page[T]], limit: int) -> list[T]:
    """A whole list, read in parts of so many at most."""
    found: list[T] = []
    for part in parts(read, limit):
        assert len(part) <= limit
        found += part
    return found


def report(manager: Manager, job: str, busy: Mapping[Instance, float], now: float) -> None:
    """Let a job report these loads of its tasks since its start, and this duration of its batches."""
    done: dict[int, InstanceMeasured] = {
        instance: InstanceMeasured(cpu_ns=round(part * now * 1e9)) for instance, part in busy.items()
    }
    newest = Measured(at=now, batch=50, instances=done, batch_seconds={"p50": sum(busy.values())})
    manager.seen.jobs[job] = JobSeen(
        job=job,
        host="north",
        state="running",
        measured=(Measured(), newest),
        seen=datetime(2026, 1, 2, tzinfo=UTC),
    )


def instance_of(manager: Manager, type_name: str) -> Instance:
    """Return the first running task of a type."""
    with manager.committer.looking() as state:
        return next(each.instance for each in state.running.tasks.values() if each.type.name == type_name)
