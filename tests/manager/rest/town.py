"""A town on the real service: tenants with dataflows, sources, keys and dead letters, so that every id leads somewhere.

It is the service itself, over a database in SQLite and with a committer that leads. Only nobody runs what it commits.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from braid_client.answers.dataflows import Stop
from braid_client.answers.jobs import ImageForm
from braid_client.answers.machines import MachineClassForm, SupplyKind
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.sources import SourceForm, WebhookForm
from braid_client.answers.tenants import KeyForm, PublishingForm, Quota, TenantForm
from engine.code.store import WheelStore
from engine.outside import Vault
from manager.kernel.live_events import LiveEvents
from manager.kernel.transitions import Phase, TransitionEvent
from manager.observations.looks import MOST_LOOKED_AT, LookedAt, TaskLooks
from manager.outputs.readers import MOST_LOOKS_OF_ONE, OutputWatcher
from manager.rest import examples
from manager.rest.app import make_app
from manager.rest.examples import MODULE_FORM
from manager.savings.ledger import MINUTE, Minute, write
from manager.savings.settlement import CpuEstimate, Settlement, Share, Work
from manager.service import Service
from manager.sources.events import MOST_REQUESTS_OF_ONE, EventSender
from manager.store.database import Store
from manager.store.dead_letters import Letter, keep
from manager.store.tables import ReconfigurationRow, ReconfiguredRow
from manager.tenants.use_cases import parse_key
from manager.use_case import Caller, Tools
from ring.fleet import Carriage, CarriageTurn
from tests.engine.code.publication import wheel
from tests.manager.managers import take
from tests.manager.memory_outputs import Spools, connecting
from tests.manager.rest.real_service import NAME, in_folder, real_service
from tests.twins.memory_broker import MemoryBroker

TENANTS = ("ann", "bob", "city", "poor", "hasty")
USED = "used-once"
"""An idempotency key of ann's that was used for another document than the example."""
OTHER: dict[str, Any] = examples.DOCUMENT | {"name": "another"}
OWN: dict[str, Any] = examples.DOCUMENT | {
    "tasks": [each | {"fresh": True} if each["type"] != "source" else each for each in examples.DOCUMENT["tasks"]]
}
"""The example with tasks that nobody else has."""

SCRIPT = "def process(event):\n    return event if event['temperature'] > 0 else None\n"
"""The code that the city has published, as version 1 of the module `script`."""
POOR = Quota(dataflows=1, tasks=4, submits_per_minute=0, wheel_bytes=0)
HOOK_HEADER, HOOK_SECRET = "X-Signature", "a-secret-of-the-town"
"""How services sign that post to its webhooks."""
NEEDED, UNNEEDED = wheel("needed"), wheel("unneeded")
"""The wheels that the city has sent; its module `needy` requires the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """The service with all that lives in it; made by `town`."""

    service: Service
    tools: Tools
    app: FastAPI
    keys: dict[str, str]
    """The API keys of the operator and of each tenant, and one of ann's that is read-only, as `reader`.

    Where it has a provider, a test adds the token of an `outsider`, who is in no group.
    """
    places: dict[str, str]
    """Ids by what they stand for; requests name them in braces."""


@contextmanager
def town(folder: Path, **more: Any) -> Iterator[Town]:
    """A town in a folder of its own; `more` are tools of the service besides those that the town gives it."""
    vault, broker = Vault(folder / "root"), MemoryBroker()
    vault.put("ann", "warehouse", "hush")
    outputs = OutputWatcher(connecting(broker), longest_sample=0.05)
    # By its clock no look ends.
    task_looks = TaskLooks(lambda _topic, _payload: None, clock=lambda: 0.0)
    sender = EventSender(connecting(broker), patience=0.05)
    given = {
        "vault": vault,
        "wheels": WheelStore(folder / "root"),
        "looks": task_looks,
        "outputs": outputs,
        "sender": sender,
        "deploying_seconds": 0.0,
    } | more
    with real_service(in_folder(folder), **given) as made, ExitStack() as looks:
        service, committer = made.service, made.tools.committer
        operator = service.administration.caller(made.key)
        keys = {"operator": made.key} | _keys(service, operator)
        callers = {name: service.administration.caller(each) for name, each in keys.items()}
        for name in ("street", "spare", "hookless"):
            form = examples.BODIES["SourceForm"] | {"name": name, "readers": ["ann", "bob", "poor"]}
            connection = {"kind": "topic", "topic": f"city/{name}"}
            service.sources.register(callers["city"], SourceForm.model_validate(form | {"connection": connection}))
        quiet = examples.BODIES["SourceForm"] | {"name": "quiet", "readers": []}
        quiet["connection"] = {"kind": "topic", "topic": "bob/quiet"}
        service.sources.register(callers["bob"], SourceForm.model_validate(quiet))
        for name in ("poor", "hasty"):
            posted = {
                "name": "posted",
                "connection": {"kind": "topic", "topic": f"{name}/posted"},
                "visibility": "public",
            }
            service.sources.register(callers[name], SourceForm.model_validate(posted | {"schema": quiet["schema"]}))
        ticks = {"name": "ticks", "connection": {"kind": "timer", "seconds": 60.0}}
        service.sources.register(callers["city"], SourceForm.model_validate(ticks))
        service.images.put(operator, "gpu", ImageForm(tags=frozenset({"gpu"})))
        for name in ("large", "rented"):
            service.machine_classes.put(
                operator, name, MachineClassForm(cores=8, supply=SupplyKind.COMMAND, command="start")
            )
        made.tools.carriages.add("added-1", made.tools.carriages.fleet().classes["rented"], "a test says so")
        _modules(service, callers)
        places = _dataflows(service, callers) | _webhooks(service, callers)
        places |= _reconfigurations(service, made.tools, callers, places)
        service.administration.set_quota(
            operator, "poor", Quota(dataflows=1, tasks=4, submits_per_minute=0, wheel_bytes=0)
        )
        service.administration.set_quota(operator, "hasty", Quota(requests_per_minute=0))
        outputs.start()
        sender.start()
        looks.callback(sender.stop)
        with committer.looking() as state:
            Spools(broker, state.sources["city:street"].supplied.stream)
        for who in ("operator", "poor") * MOST_REQUESTS_OF_ONE:
            looks.enter_context(sender.admitted(who))
        for _ in range(MOST_LOOKS_OF_ONE):
            looks.enter_context(service.dataflows.look(callers["poor"], places["poors"], "averages"))
        for number in range(MOST_LOOKED_AT):
            task_looks.renew("poor", LookedAt("0", number), host=None)
        looks.enter_context(made.tools.trials.admitted("poor"))
        places["operators_key"] = _id(made.key)
        places["spare_key"] = _id(service.administration.make_key(callers["ann"], KeyForm()).key)
        places |= _dead_letters(service, made.tools.store, callers["ann"], places)
        _metered(made.tools.store, places)
        _carried(made.tools)
        with committer.looking() as state:
            places["job"] = str(next(iter(state.plans)))
        events = LiveEvents(last=0)
        # A stream that lasts is never answered whole.
        events.close()
        app = make_app(service, events, lambda: None if committer.leads else "another manager leads")
        yield Town(service=service, tools=made.tools, app=app, keys=keys, places=places)


def _keys(service: Service, operator: Caller) -> dict[str, str]:
    """The keys of the tenants, which are admitted, and one of ann's that is read-only."""
    administration = service.administration
    for tenant in TENANTS:
        administration.admit(operator, TenantForm(name=tenant))
    keys = {tenant: administration.make_key(operator, KeyForm(tenant=tenant)).key for tenant in TENANTS}
    return keys | {"reader": administration.make_key(operator, KeyForm(tenant="ann", read_only=True)).key}


def _carried(tools: Tools) -> None:
    north = Carriage(host="north", machine="north", peers=("south",))
    turn = CarriageTurn(carriage=north, why="the town has machines")
    tools.carriages.commit(tools.carriages.fleet(), (turn,), {"north": 0, "south": 1})


def _dataflows(service: Service, callers: dict[str, Caller]) -> dict[str, str]:
    raw, other, own = (json.dumps(each).encode() for each in (examples.DOCUMENT, OTHER, OWN))
    ann = callers["ann"]
    places = {name: service.dataflows.submit(ann, raw).id for name in ("running", "edited", "drained")}
    places |= {name: service.dataflows.submit(ann, own).id for name in ("alone", "removed")}
    planned = json.dumps(examples.DOCUMENT | {"goals": []}).encode()
    places["adaptive"] = service.dataflows.submit(ann, json.dumps(OWN | {"policy": {}}).encode()).id
    places["poors"] = service.dataflows.submit(callers["poor"], planned).id
    service.dataflows.submit(callers["bob"], raw)
    service.dataflows.submit(callers["bob"], raw.replace(b"city:street", b"bob:quiet"))
    service.dataflows.submit(callers["bob"], raw.replace(b"city:street", b"poor:posted"))
    service.dataflows.submit(ann, other, idempotency_key=USED)
    (bundleed,) = service.bundles.submit(ann, b'{"documents": [%b]}' % other, idempotency_key=USED).dataflows
    service.dataflows.remove(ann, bundleed.id, Stop.NOW)
    service.dataflows.remove(ann, places["removed"], Stop.NOW)
    service.dataflows.remove(ann, places["drained"], Stop.DRAIN)
    return places


def _webhooks(service: Service, callers: dict[str, Caller]) -> dict[str, str]:
    """Webhooks of sources that are read, of one that nobody reads, and of one without a spool."""
    form = WebhookForm.model_validate({"scheme": "hex", "header": HOOK_HEADER, "secret": HOOK_SECRET})
    hooked = {
        "streets_hook": ("city", "street"),
        "spares_hook": ("city", "spare"),
        "bobs_hook": ("bob", "quiet"),
        "poors_hook": ("poor", "posted"),
        "hastys_hook": ("hasty", "posted"),
    }
    return {
        place: service.webhooks.make(callers[owner], source, form, base="").url.rpartition("/")[2]
        for place, (owner, source) in hooked.items()
    }


def _modules(service: Service, callers: dict[str, Caller]) -> None:
    """One of ann's, one of an operator's for everybody, and code of the city's."""
    service.modules.publish(callers["ann"], json.dumps(MODULE_FORM).encode())
    service.modules.publish(callers["operator"], json.dumps(MODULE_FORM | {"name": "everybodys"}).encode())
    service.administration.set_publishing(callers["operator"], "city", PublishingForm(code=True))
    code = {"name": "script", "version": 1, "shape": "filter", "code": {"source": SCRIPT}}
    service.modules.publish(callers["city"], json.dumps(code).encode())
    for content in (NEEDED, UNNEEDED):
        service.wheels.put(callers["city"], sha256(content).hexdigest(), content)
    needy = code | {"name": "needy", "code": {"source": SCRIPT, "requirements": ["needed==1.0"]}}
    service.modules.publish(callers["city"], json.dumps(needy).encode())
    service.administration.set_publishing(callers["operator"], "poor", PublishingForm(code=True))


def _reconfigurations(
    service: Service, tools: Tools, callers: dict[str, Caller], places: dict[str, str]
) -> dict[str, str]:
    """Reconfigurations that are over: one of ann's, one that ann gave up, and one of the poor's."""
    form = ReconfigurationForm(tasks={"plausible": {"config": {"max": 60.0}}})
    changed = int(service.reconfigurations.begin(callers["ann"], places["alone"], form).id)
    take(tools.changes.reconfigurations, changed, TransitionEvent.BEGUN)
    take(tools.changes.reconfigurations, changed, TransitionEvent.PROVEN)
    with tools.store.write() as session:
        row = session.get_one(ReconfigurationRow, changed).model_dump(exclude={"id"})
        known = session.get_one(ReconfiguredRow, (changed, places["alone"])).model_dump()
        found = {"changed": str(changed)}
        for name, phase, dataflow, revision in (
            ("abandoned", Phase.ABANDONED, "alone", 99),
            ("poors_change", Phase.DONE, "poors", 1),
        ):
            like = ReconfigurationRow(**row | {"phase": phase})
            session.add(like)
            session.flush()
            of = {"reconfiguration": like.id, "dataflow": places[dataflow], "revision": revision}
            session.add(ReconfiguredRow(**known | of | {"before": known["after"]}))
            found[name] = str(like.id)
    return found


def _dead_letters(service: Service, store: Store, ann: Caller, places: dict[str, str]) -> dict[str, str]:
    """Dead letters of ann's, as if they had come over the broker; by what can be done with them."""

    def instance(dataflow: str, task: str) -> int:
        (found,) = (each.instance for each in service.dataflows.get(ann, places[dataflow]).tasks if each.id == task)
        return found

    came = {
        "letter": ("drained", instance("drained", "average")),
        "sources_letter": ("running", instance("running", "street")),
        "shared_letter": ("edited", instance("edited", "plausible")),
        "own_letter": ("alone", instance("alone", "plausible")),
    }
    with store.write() as session:
        for number, (dataflow, at) in enumerate(came.values()):
            letter = Letter(
                instance=at,
                port="in",
                batch=number,
                reason="no number",
                events=[{"temperature": "warm"}],
                owner="ann",
                traceback="a line of ann's code",
            )
            keep(session, [letter], {at: {"ann": [places[dataflow]]}}, at=0.0)
    # Numbered as they came.
    return {name: str(number) for number, name in enumerate(came, 1)}


def _metered(store: Store, places: dict[str, str]) -> None:
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
    with store.write() as session:
        assert write(session, NAME, [Minute(at=(int(time.time()) // MINUTE - 1) * MINUTE, settled=settled)])


def _id(key: str) -> str:
    parsed = parse_key(key)
    assert parsed is not None
    return parsed[0]
