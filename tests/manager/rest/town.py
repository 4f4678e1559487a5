"""A town on the real service: tenants with dataflows, sources, keys and dead letters, so that every id leads somewhere.

It is the service itself, over a database in SQLite and with a committer that leads. Only nobody runs what it commits.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from bridge.transport.memory_broker import MemoryBroker
from engine.vault import Vault
from manager.answers import KeyForm, Quota, SourceForm, Stop, TenantForm
from manager.cases.api_keys import parse_key
from manager.event_flow.output_watcher import MOST_LOOKS_OF_ONE, OutputWatcher
from manager.event_flow.sender import MOST_REQUESTS_OF_ONE, EventSender
from manager.reconciler.live_events import LiveEvents
from manager.rest import make_app
from manager.rest.openapi_examples import resources
from manager.savings.cpu_estimate import CpuEstimate
from manager.savings.ledger import MINUTE, Minute, write
from manager.savings.settlement import Settlement, Share, Work
from manager.service import Caller, Service
from manager.store.dead_letters import Letter, keep
from tests.manager.memory_outputs import Spools, connecting
from tests.manager.rest.real_service import NAME, in_folder, real_service

TENANTS = ("ann", "bob", "city", "poor")
USED = "used-once"
"""An idempotency key of ann's that was used for another document than the example."""
OTHER: dict[str, Any] = resources.DOCUMENT | {"name": "another"}
OWN: dict[str, Any] = resources.DOCUMENT | {
    "tasks": [each | {"fresh": True} if each["type"] != "source" else each for each in resources.DOCUMENT["tasks"]]
}
"""The example with tasks that nobody else has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """The service with all that lives in it; made by `town`."""

    service: Service
    app: FastAPI
    keys: dict[str, str]
    """The API keys of the operator and of each tenant."""
    places: dict[str, str]
    """Ids by what they stand for; requests name them in braces."""


@contextmanager
def town(folder: Path) -> Iterator[Town]:
    """A town in a folder of its own."""
    with real_service(in_folder(folder)) as (service, key), ExitStack() as looks:
        operator = service.caller(key)
        keys = {"operator": key}
        for tenant in TENANTS:
            service.admit(operator, TenantForm(name=tenant))
            keys[tenant] = service.make_key(operator, KeyForm(tenant=tenant)).key
        callers = {name: service.caller(each) for name, each in keys.items()}
        for name in ("street", "spare"):
            form = resources.BODY_EXAMPLES[SourceForm] | {"name": name, "readers": ["ann", "bob", "poor"]}
            connection = {"kind": "topic", "topic": f"city/{name}"}
            service.register_source(callers["city"], SourceForm.model_validate(form | {"connection": connection}))
        quiet = resources.BODY_EXAMPLES[SourceForm] | {"name": "quiet", "readers": []}
        quiet["connection"] = {"kind": "topic", "topic": "bob/quiet"}
        service.register_source(callers["bob"], SourceForm.model_validate(quiet))
        service.vault = Vault(folder / "root")
        service.vault.put("ann", "warehouse", "hush")
        places = _dataflows(service, callers)
        service.set_quota(operator, "poor", Quota(dataflows=1, tasks=4, submits_per_minute=0))
        broker = MemoryBroker()
        service.watching = OutputWatcher(connecting(broker))
        service.watching.start()
        service.sending, service.deploying = EventSender(connecting(broker), patience=0.05), 0.0
        service.sending.start()
        looks.callback(service.sending.stop)
        with service._committer.looking() as state:
            Spools(broker, state.sources["city:street"].supplied.stream)
        for _ in range(MOST_REQUESTS_OF_ONE):
            looks.enter_context(service.sending.admitted("operator"))
        for _ in range(MOST_LOOKS_OF_ONE):
            looks.enter_context(service.look(callers["poor"], places["poors"], "averages"))
        places["operators_key"] = _id(key)
        places["spare_key"] = _id(service.make_key(callers["ann"], KeyForm()).key)
        places |= _dead_letters(service, callers["ann"], places)
        _metered(service, places)
        with service._committer.looking() as state:
            places["job"] = str(next(iter(state.plans)))
        events = LiveEvents(last=0)
        # A stream that lasts is never answered whole.
        events.close()
        app = make_app(service, events, lambda: None if service._committer.leads else "another manager leads")
        yield Town(service=service, app=app, keys=keys, places=places)


def _dataflows(service: Service, callers: dict[str, Caller]) -> dict[str, str]:
    raw, other, own = (json.dumps(each).encode() for each in (resources.DOCUMENT, OTHER, OWN))
    ann = callers["ann"]
    places = {name: service.submit(ann, raw).id for name in ("running", "edited", "drained")}
    places |= {name: service.submit(ann, own).id for name in ("alone", "removed")}
    places["poors"] = service.submit(callers["poor"], raw).id
    service.submit(callers["bob"], raw)
    service.submit(callers["bob"], raw.replace(b"city:street", b"bob:quiet"))
    service.submit(ann, other, idempotency_key=USED)
    service.remove(ann, places["removed"], Stop.NOW)
    service.remove(ann, places["drained"], Stop.DRAIN)
    return places


def _dead_letters(service: Service, ann: Caller, places: dict[str, str]) -> dict[str, str]:
    """Dead letters of ann's, as if they had come over the broker; by what can be done with them."""

    def instance(dataflow: str, task: str) -> int:
        (found,) = (each.instance for each in service.dataflow(ann, places[dataflow]).tasks if each.id == task)
        return found

    came = {
        "letter": ("drained", instance("drained", "average")),
        "sources_letter": ("running", instance("running", "street")),
        "shared_letter": ("edited", instance("edited", "plausible")),
        "own_letter": ("alone", instance("alone", "plausible")),
    }
    with service._store.write() as session:
        for number, (dataflow, at) in enumerate(came.values()):
            letter = Letter(instance=at, port="in", batch=number, reason="no number", events=[{"temperature": "warm"}])
            keep(session, [letter], {at: {"ann": [places[dataflow]]}}, at=0.0)
    # Numbered as they came.
    return {name: str(number) for number, name in enumerate(came, 1)}


def _metered(service: Service, places: dict[str, str]) -> None:
    """What the last whole minute cost ann and the poor."""
    alone = CpuEstimate(low=3, likely=4, high=5)
    shares = {places["running"]: Share(tenant="ann", cpu=2, alone=alone, saving=alone, work=Work(done=1, alone=2))}
    shares[places["poors"]] = Share(tenant="poor", cpu=3, alone=alone, saving=alone, work=Work(done=2, alone=3))
    settled = Settlement(
        seconds=60.0,
        cpu={"jvm": 9},
        shares=shares,
        overhead=4,
        launched=alone,
        packed=alone,
        work=Work(done=3, alone=5),
    )
    with service._store.write() as session:
        assert write(session, NAME, [Minute(at=(int(time.time()) // MINUTE - 1) * MINUTE, settled=settled)])


def _id(key: str) -> str:
    told = parse_key(key)
    assert told is not None
    return told[0]
