"""Planning: the plans that follow from what runs for whom, and where."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from dags import Kind
from dags.outputs import CsvOutput, OutputSettings
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Plan, Slot, SlotState, Subscribed
from engine.plan_messages import read_plan, written_plan
from manager.planner import Planner, Supplied
from merge import Costs, Host, JobId, Jobs, RunningGraph, merge, place, release, unmerge
from tests.catalogue import SOURCES
from tests.notation import flow

SUPPLY = Subscribed(topic="raw", fields={"place": Kind.STRING, "value": Kind.INTEGER})
HOSTS = [Host(name="h", cores=8.0)]


class Service:
    """Merges and places dataflows, as a service does."""

    def __init__(self, strategy: str) -> None:
        self.running, self.jobs, self._strategy = RunningGraph(), Jobs(), strategy

    def submit(self, name: str, text: str) -> None:
        change = merge(self.running, flow(text, name), datetime.now(UTC))
        self.running.advance(change)
        costs = Costs(pace=1.0, batch=0.06, busy=dict.fromkeys(self.running.tasks, 0.01))
        self.jobs = self.jobs.apply(
            place(
                self._strategy,
                residue=change.residue,
                running=self.running.tasks,
                jobs=self.jobs,
                hosts=HOSTS,
                costs=costs,
            )
        )

    def remove(self, name: str) -> None:
        change = unmerge(self.running, name)
        self.jobs = self.jobs.apply(release(change.stops, self.jobs))
        self.running.advance(change)

    def plan(self, job: int, version: int = 1, before: Plan | None = None) -> Plan:
        sources = {name: Supplied(f"source/{name}", SUPPLY) for name in SOURCES}
        return Planner(self.running, self.jobs, sources.__getitem__).plan(JobId(job), version=version, before=before)


def test_a_dataflow_becomes_slots_an_ingress_and_a_delivery() -> None:
    """A source is an ingress and no slot, every other task a slot, and a sink is delivered to its dataflow."""
    service = Service("pack")
    service.submit("one", "s:source > a:map{'add': 1} > k:sink")
    assert service.plan(1) == Plan(
        job="1",
        host="h",
        version=1,
        slots=(
            Slot(instance=2, type="map", config='{"add":1}', inputs=(Edge(parent=1),)),
            Slot(instance=3, type="sink", config="{}", inputs=(Edge(parent=2),)),
        ),
        ingress=(Ingress(stream="source/weather", instance=1, supply=SUPPLY),),
        deliveries=(Delivery(instance=3, tenant="ann", dataflow="one", sink="k"),),
    )


def test_a_plan_survives_its_message() -> None:
    """What a host reads of a plan is what was planned."""
    service = Service("pack")
    service.submit("one", "s:source > a:split..odd > j:join.left > k:sink a.even > j.right")
    plan = service.plan(1, version=7)
    assert read_plan(written_plan(plan)) == plan


def test_a_host_understands_plans_of_a_newer_manager() -> None:
    """It runs what it knows of a plan whose parts have more fields; an untraced plan says nothing of traces."""
    service = Service("pack")
    service.submit("one", "s:source > a:split..odd > j:join.left > k:sink a.even > j.right")
    plan = service.plan(1, version=7)
    written = json.loads(written_plan(plan))
    assert "trace" not in written
    parts = [written, *written["slots"], *written["ingress"], *written["deliveries"], written["limits"]]
    for part in (*parts, *(edge for slot in written["slots"] for edge in slot["inputs"])):
        part["newer"] = {"than": ["this"]}
    assert plan == read_plan(json.dumps(written).encode())


def test_an_output_that_is_delivered_as_always_is_written_as_ever() -> None:
    """A plan names settings of deliveries only where there are some."""
    service = Service("pack")
    service.submit("one", "s:source > k:sink")
    plan = service.plan(1)
    assert b'"deliveries":[{"instance":2,"tenant":"ann","dataflow":"one","sink":"k","epoch":1}]' in written_plan(plan)
    settings = OutputSettings(format=CsvOutput(columns=("value",)), retain=True, topic="ann/values")
    plan = replace(plan, deliveries=tuple(replace(delivery, output=settings) for delivery in plan.deliveries))
    assert plan == read_plan(written_plan(plan))


def test_a_shared_sink_is_delivered_to_every_dataflow() -> None:
    """Two dataflows that are one in all their tasks get deliveries of their own from the same instance."""
    service = Service("pack")
    service.submit("one", "s:source > k:sink")
    service.submit("two", "x:source > y:sink")
    assert [(each.instance, each.dataflow, each.sink) for each in service.plan(1).deliveries] == [
        (2, "one", "k"),
        (2, "two", "y"),
    ]


def test_a_stream_between_jobs_is_forwarded_and_bridged() -> None:
    """Where a residue gets a job of its own, the job that feeds it forwards, and the new one enters by a bridge."""
    service = Service("launch")
    service.submit("one", "s:source > a:map{'add': 1} > k:sink")
    service.submit("two", "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink")
    assert service.plan(1).forwards == (Forward(instance=2),)
    assert service.plan(2).ingress == (Ingress(stream="bridge/2:out", instance=2, supply=Bridged()),)
    assert service.plan(2).forwards == ()


def test_a_raw_stream_is_read_from_its_spool_by_every_job() -> None:
    """A source is never forwarded: another job that needs it reads the same spool."""
    service = Service("launch")
    service.submit("one", "s:source > a:map{'add': 1} > k:sink")
    service.submit("two", "s:source > b:map{'add': 2} > k:sink")
    assert service.plan(1).forwards == ()
    assert service.plan(2).ingress == (Ingress(stream="source/weather", instance=1, supply=SUPPLY),)


def test_what_is_paused_keeps_its_slot() -> None:
    """A removed dataflow's tasks are paused in the next plan, and deliver nothing; what others use runs on."""
    service = Service("pack")
    service.submit("one", "s:source > a:map{'add': 1} > k:sink")
    service.submit("two", "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink")
    before = service.plan(1)
    service.remove("two")
    after = service.plan(1, version=2, before=before)
    assert {slot.instance: slot.state for slot in after.slots} == {
        2: SlotState.ACTIVE,
        3: SlotState.ACTIVE,
        4: SlotState.PAUSED,
        5: SlotState.PAUSED,
    }
    assert [each.dataflow for each in after.deliveries] == ["one"]


def test_edges_stand_in_an_order_that_only_the_computation_decides() -> None:
    """A task's edges are the same in order whichever of its parents was started first."""
    orders = []
    for first, second in ("12", "21"):
        service = Service("pack")
        service.submit("one", f"s:source > a:map{{'add': {first}}} > k:sink")
        service.submit("two", f"s:source > a:map{{'add': {second}}} > k:sink")
        service.submit("both", "s:source > a:map{'add': 1} > j:map{'add': 5} > k:sink s > b:map{'add': 2} > j")
        plan = service.plan(1)
        configs = {slot.instance: slot.config for slot in plan.slots}
        joined = next(slot for slot in plan.slots if slot.config == '{"add":5}')
        orders.append([configs[edge.parent] for edge in joined.inputs])
    assert orders[0] == orders[1]
