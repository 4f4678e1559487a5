"""The committed dataflows and the journal, as the reconciler reads them, on a real store."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import installed_catalogue
from manager.answers.overview import OperationKind
from manager.answers.tenants import Role, TenantForm
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.kernel.dataflow_life import CommittedDataflowLookup
from manager.kernel.draft import DecisionGround
from manager.kernel.live_events import JournalTail, LiveEvents
from manager.machines.carriages import CommittedCarriages
from manager.observations.listener import Listener
from manager.service import service_of
from manager.store.database import Store, sqlite_url
from manager.store.leadership import Candidate
from manager.use_case import Caller, Tools
from merge import Host
from tests.integration.serving import counting, passing, street
from tests.manager.observations.listened_host import Hearing

OPERATOR = Caller(key="k", role=Role.OPERATOR, tenant=None)


class Stored:
    """A service that leads, without hosts."""

    def __init__(self, path: Path) -> None:
        self.store = Store(sqlite_url(path))
        ground = DecisionGround(hosts=lambda: (Host(name="h", cores=2.0),))
        self.committer = Committer(self.store, installed_catalogue(), ground, name="me")
        self.listener: Listener = Hearing().listener
        self.changes = changes_of(self.committer, self.store, installed_catalogue())
        self.service = service_of(
            Tools(
                store=self.store,
                catalogue=installed_catalogue(),
                committer=self.committer,
                changes=self.changes,
                carriages=CommittedCarriages(self.committer, self.store),
                seeing=self.listener,
                chooser=Chooser(self.listener),
            )
        )
        self.candidate = Candidate(self.store, "me", won=self.committer.lead, lost=self.committer.step_down)
        self.candidate.look()

    def submit(self, document: object, tenant: str = "ann") -> str:
        """Submit a document, and return the dataflow's id."""
        return self.service.dataflows.submit(OPERATOR, json.dumps(document).encode(), tenant=tenant).id


@pytest.fixture
def stored(migrated: Path, tmp_path: Path) -> Iterator[Stored]:
    made = Stored(Path(shutil.copy(migrated, tmp_path / "braid.db")))
    for tenant in ("ann", "bob"):
        made.service.administration.admit(OPERATOR, TenantForm(name=tenant))
    made.service.sources.register(OPERATOR, street(owner="ann", visibility="public"))
    yield made
    made.store.close()


def test_the_dataflows_of_a_job_are_found(stored: Stored) -> None:
    """Those with tasks in it are found, each with the version that brought its tasks and with its own instances."""
    first = stored.submit(counting("ann:street"))
    second = stored.submit(passing("ann:street", 5), "bob")
    committed = CommittedDataflowLookup(stored.committer)
    assert {first, second} == committed.every()
    assert [{first, second}, frozenset()] == [committed.in_jobs(["1", "x"]), committed.in_jobs(["2"])]
    found = committed.needs([first, second, "d-none"])
    assert {first: "ann", second: "bob"} == {name: each.tenant for name, each in found.items()}
    needs = [
        (need.job, need.host, need.version, len(need.instances))
        for name in (first, second)
        for need in found[name].needs
    ]
    assert [("1", "h", 1, 4), ("1", "h", 2, 4)] == needs


def test_a_removed_dataflow_is_in_no_job(stored: Stored) -> None:
    """It has no needs either."""
    name = stored.submit(counting("ann:street"))
    stored.changes.dataflows.remove(name, who="operator")
    committed = CommittedDataflowLookup(stored.committer)
    assert [frozenset(), frozenset()] == [committed.every(), committed.in_jobs(["1"])]
    assert {} == committed.needs([name])


def test_each_new_operation_is_added_once(stored: Stored) -> None:
    """They are in the order of the journal, and earlier ones are left out."""
    events = LiveEvents(last=0)
    tail = JournalTail(stored.store, events)
    assert not tail.follow()
    name = stored.submit(counting("ann:street"))
    stored.changes.dataflows.remove(name, who="operator")
    assert [{OperationKind.SUBMIT, OperationKind.REMOVE}, set()] == [tail.follow(), tail.follow()]
    added = [(event.kind, event.told["kind"], event.told["subject"]) for event in events.since(0)]
    assert [("operation", OperationKind.SUBMIT, name), ("operation", OperationKind.REMOVE, name)] == added
