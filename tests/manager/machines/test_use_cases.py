"""Use cases of machines and images: what operators see, drains, what is forgotten, and what images offer."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import kairos
import pytest
from pydantic import ValidationError

from braid_client.answers.jobs import (
    CarriedHostAnswer,
    ImageForm,
    MachineAnswer,
    PlacementPddlAnswer,
    PlacementPlanForm,
)
from braid_client.answers.machines import MachineClassForm
from braid_client.answers.overview import OperationKind
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, MachineStatus, Measured
from manager.problem import Conflict, Forbidden, InvalidDataflow, InvalidRequest, NotFound, StateNotReady
from manager.use_case import Paging
from merge import Host
from ring.fleet import STORE, HostReport, MachineSeen
from ring.tokens import RING_SIZE
from tests.manager.machines.carriages import commit, turn
from tests.manager.managers import ANN, OPERATOR, Manager, caller, leading, raw


@pytest.fixture
def with_copies(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tools={"replicas": 1})


def see(manager: Manager, name: str, **fields: Any) -> None:
    """Have a machine with an address and a root of its own reported."""
    given: dict[str, Any] = {"alive": True, "at": f"10.9.8.7:{len(name)}", "root": f"root of {name}"} | fields
    seen = MachineSeen(name=name, **given)
    manager.seen.every_machine[name] = MachineStatus(seen=seen, secret=f"hush {name}")


def machines(manager: Manager) -> dict[str, MachineAnswer]:
    return {each.name: each for each in manager.service.machines.page(OPERATOR, Paging()).items}


def carried(manager: Manager, host: str) -> CarriedHostAnswer:
    return next(each for machine in machines(manager).values() for each in machine.hosts if each.name == host)


def commits(manager: Manager, host: str, machine: str, **fields: Any) -> None:
    commit(manager.tools.carriages, turn(host, machine, root=f"root of {machine}", **fields))


def test_a_machine_is_shown_with_what_it_carries_and_keeps(with_copies: Manager) -> None:
    """Each host is where it is carried, with its copies and what is not copied yet."""
    see(with_copies, "a", zone="z", cores=2.0, tags=frozenset({"gpu"}), hosts={"a": HostReport(behind_bytes=7)})
    see(with_copies, "b", at="")
    commits(with_copies, "a", "a", peers=("b",), roots=("root of b",), kept_by=frozenset({"b"}))
    found = machines(with_copies)
    a, b = found["a"], found["b"]
    assert (a.alive, a.zone, a.cores, a.tags, a.takes_copies, a.keeps) == (True, "z", 2.0, ("gpu",), True, ())
    assert (b.hosts, b.keeps, b.takes_copies) == ((), ("a",), False)
    (host,) = a.hosts
    assert host == CarriedHostAnswer(name="a", peers=("b",), kept_by=("b",), standby=("b",), behind_bytes=7)


def test_loads_and_places_are_shown(with_copies: Manager) -> None:
    """Each machine has its part of the ring and what its hosts take; a host says where its home is."""
    see(with_copies, "a")
    see(with_copies, "b")
    turns = [turn(host, "a", root="root of a", point=point) for host, point in (("a", 0), ("a.2", RING_SIZE - 1))]
    commit(with_copies.tools.carriages, *turns, tokens={"a": 0, "b": 3 * RING_SIZE // 4})
    with_copies.admit("ann")
    with_copies.register("weather")
    with_copies.submit("ann", "s:source > k:sink")
    now = time.monotonic()
    measured = tuple(
        Measured(at=now - ago, batch=0, instances={1: InstanceMeasured(cpu_ns=cpu)})
        for ago, cpu in ((10, 0), (0, 5 * 10**9))
    )
    with_copies.seen.jobs["1"] = JobSeen(
        job="1", host="a.2", state="running", measured=measured, seen=datetime.now(UTC)
    )
    found = machines(with_copies)
    assert (found["a"].share, found["b"].share, found["b"].load) == (0.75, 0.25, None)
    assert found["a"].load == pytest.approx(0.5, rel=0.1)
    assert [(each.name, each.home, each.load) for each in found["a"].hosts] == [
        ("a", "a", None),
        ("a.2", "b", found["a"].load),
    ]


def test_secrets_are_shown_to_nobody_and_addresses_to_operators(with_copies: Manager) -> None:
    """Neither is in the journal."""
    see(with_copies, "a")
    commits(with_copies, "a", "a")
    answers = [
        with_copies.service.machines.page(OPERATOR, Paging()),
        with_copies.service.machines.drain(OPERATOR, "a"),
        with_copies.service.machines.undrain(OPERATOR, "a"),
    ]
    shown = json.dumps([each.model_dump(mode="json") for each in answers])
    assert ("hush" in shown, shown.count("10.9.8.7:1")) == (False, len(answers))
    noted = with_copies.service.operations.page(OPERATOR, Paging()).model_dump_json()
    assert ("drain" in noted, "hush" in noted, "10.9.8.7" in noted) == (True, False, False)


def test_a_host_with_too_few_copies_is_marked(with_copies: Manager) -> None:
    """A copy counts while its machine is there with the disk that it lies on."""
    see(with_copies, "a")
    see(with_copies, "b")
    commits(with_copies, "a", "a", peers=("b",), roots=("root of b",))
    assert carried(with_copies, "a").under_replicated
    commits(with_copies, "a", "a", version=2, peers=("b",), roots=("root of b",), kept_by=frozenset({"b"}))
    assert not carried(with_copies, "a").under_replicated
    see(with_copies, "b", alive=False)
    assert (carried(with_copies, "a").under_replicated, carried(with_copies, "a").standby) == (True, ())
    see(with_copies, "b", root="a new disk")
    assert (carried(with_copies, "a").under_replicated, carried(with_copies, "a").standby) == (True, ())


def test_machines_of_one_root_stand_by_for_each_other(with_copies: Manager) -> None:
    """They are shown together. Their shared disk is no copy."""
    see(with_copies, "a", root="shared")
    see(with_copies, "b", root="shared")
    commit(with_copies.tools.carriages, turn("a", "a", root="shared"))
    found = machines(with_copies)
    assert (found["a"].shares_root_with, found["b"].shares_root_with) == (("b",), ("a",))
    host = carried(with_copies, "a")
    assert (host.standby, host.under_replicated) == (("b",), True)


def test_a_machine_that_was_never_heard_is_shown_as_away(with_copies: Manager) -> None:
    """What it carries waits for it, and says so."""
    commits(with_copies, "a", "a", kept_by=frozenset({"b"}), peers=("b",), roots=("root of b",))
    found = machines(with_copies)
    assert [(each.name, each.alive) for each in found.values()] == [("a", False), ("b", False)]
    assert "start a again with its root, or a machine that has a copy: b" in carried(with_copies, "a").stays
    see(with_copies, "b")
    assert carried(with_copies, "a").stays == ""


def test_a_host_that_only_a_store_has_says_how_it_comes_back(with_copies: Manager) -> None:
    """Once an empty machine offers to restore it, and the leader may not take that, what would let it."""
    commit(with_copies.tools.carriages, turn("a", "a", root="lost", kept_by=frozenset({STORE})))
    see(with_copies, "a")
    assert "or restore it on an empty folder with: braid host a --restore" in carried(with_copies, "a").stays
    see(with_copies, "a", restores="older")
    assert carried(with_copies, "a").stays.endswith("with: braid host a --restore --accept-loss")


def test_a_drain_says_why_a_host_stays(with_copies: Manager) -> None:
    """As long as nobody else can have it, with the remedy."""
    see(with_copies, "a")
    commits(with_copies, "a", "a")
    assert carried(with_copies, "a").stays == ""
    drained = with_copies.service.machines.drain(OPERATOR, "a")
    assert drained.draining
    assert drained.hosts[0].stays == (
        "no other machine takes copies of host a or shares its root; start another machine with: braid host NAME, or "
        "keep this one with: braid machines undrain a"
    )
    see(with_copies, "b")
    assert carried(with_copies, "a").stays == ""
    with_copies.service.machines.drain(OPERATOR, "b")
    assert "; b could, but drains too; start another" in carried(with_copies, "a").stays
    assert not with_copies.service.machines.undrain(OPERATOR, "a").draining
    assert carried(with_copies, "a").stays == ""


def test_drains_are_in_the_journal(with_copies: Manager) -> None:
    """Once each, however often they are asked for."""
    see(with_copies, "a")
    for _ in range(2):
        with_copies.service.machines.drain(OPERATOR, "a")
    for _ in range(2):
        with_copies.service.machines.undrain(OPERATOR, "a")
    entries = with_copies.service.operations.page(OPERATOR, Paging()).items
    assert [(each.kind, each.who, each.subject) for each in entries] == [
        (OperationKind.UNDRAIN_MACHINE, "operator", "a"),
        (OperationKind.DRAIN_MACHINE, "operator", "a"),
    ]


def test_only_operators_drain_machines_that_are_there(with_copies: Manager) -> None:
    """A tenant is refused; an unknown machine is named; a manager that does not lead asks to ask again."""
    see(with_copies, "a")
    with pytest.raises(Forbidden, match="operators only"):
        with_copies.service.machines.drain(caller("ann"), "a")
    with pytest.raises(NotFound, match="no machine 'b'"):
        with_copies.service.machines.undrain(OPERATOR, "b")
    with_copies.committer.step_down()
    with pytest.raises(StateNotReady, match="does not lead"):
        with_copies.service.machines.drain(OPERATOR, "a")


def test_a_machine_that_is_gone_is_forgotten(with_copies: Manager) -> None:
    """With its host, which runs no job; what it was is answered, and the journal has it."""
    see(with_copies, "a", alive=False)
    commits(with_copies, "a", "a")
    assert [each.name for each in with_copies.service.machines.forget(OPERATOR, "a").hosts] == ["a"]
    del with_copies.seen.every_machine["a"]
    assert machines(with_copies) == {}
    (entry,) = with_copies.service.operations.page(OPERATOR, Paging()).items
    assert (entry.kind, entry.subject, entry.note) == (OperationKind.FORGET_MACHINE, "a", "host a ended with it")
    with pytest.raises(NotFound, match="no machine 'a'"):
        with_copies.service.machines.forget(OPERATOR, "a")


def test_a_machine_that_is_needed_is_not_forgotten(with_copies: Manager) -> None:
    """While it is alive, or may be, or has a host whose jobs nobody else can run; nothing has changed then."""
    with_copies.admit("ann")
    with_copies.register("weather")
    with_copies.submit("ann", "s:source > k:sink")
    see(with_copies, "north")
    commits(with_copies, "north", "north")
    with pytest.raises(Conflict, match="machine north is alive"):
        with_copies.service.machines.forget(OPERATOR, "north")
    see(with_copies, "north", alive=False)
    with_copies.seen.just_began = True
    with pytest.raises(StateNotReady, match="not all machines have been heard"):
        with_copies.service.machines.forget(OPERATOR, "north")
    with_copies.seen.just_began = False
    with pytest.raises(Conflict, match="remove the dataflows of job 1"):
        with_copies.service.machines.forget(OPERATOR, "north")
    with pytest.raises(Forbidden, match="operators only"):
        with_copies.service.machines.forget(caller("ann"), "north")
    assert carried(with_copies, "north").name == "north"


def test_machines_are_listed_in_pages(with_copies: Manager) -> None:
    """By name, each once."""
    for name in ("c", "a", "b"):
        see(with_copies, name)
    first = with_copies.service.machines.page(OPERATOR, Paging(limit=2))
    last = with_copies.service.machines.page(OPERATOR, Paging(limit=2, after=first.next))
    assert ([each.name for each in (*first.items, *last.items)], last.next) == (["a", "b", "c"], None)


GPU = ImageForm(tags=frozenset({"gpu"}), cores=8.0, start=90.0, price=2.4, most=4)
_ENGINE_SECONDS = 10
NEEDY = "s:source > a:map[gpu] > k:sink"


def test_classes_of_machines_are_set_changed_and_removed(manager: Manager) -> None:
    """What its machines are stays while there is one, its price does not; the journal has who did it."""
    classes = manager.service.machine_classes
    small = classes.put(OPERATOR, "small", MachineClassForm(cores=2, price=0.1, tags=frozenset({"b", "a"})))
    assert (("a", "b"), None, 60.0, False) == (small.tags, small.speed, small.start_seconds, small.measured)
    manager.tools.carriages.add("added-1", manager.tools.carriages.fleet().classes["small"], "a test says so")
    with pytest.raises(Conflict, match="there are machines of class small: added-1; leave cores as it was"):
        classes.put(OPERATOR, "small", MachineClassForm(cores=4, tags=frozenset({"a", "b"})))
    with pytest.raises(Conflict, match="set its `most` to 0"):
        classes.remove(OPERATOR, "small")
    dearer = classes.put(OPERATOR, "small", MachineClassForm(cores=2, price=0.3, tags=frozenset({"a", "b"})))
    assert (0.3, ("added-1",)) == (dearer.price, dearer.machines)
    fleet = manager.tools.carriages.fleet()
    assert (0.3, 0.1) == (fleet.classes["small"].price, fleet.rentals["added-1"].machine_class.price)
    manager.service.machines.leave("added-1", who="a test")
    assert {} == manager.tools.carriages.fleet().rentals
    assert 0.3 == classes.remove(OPERATOR, "small").price
    with pytest.raises(NotFound):
        classes.remove(OPERATOR, "small")
    kinds = [each.kind for each in manager.service.operations.page(OPERATOR, Paging()).items]
    assert [OperationKind.REMOVE_MACHINE_CLASS, OperationKind.FORGET_MACHINE] == kinds[:2]
    assert 2 == kinds.count(OperationKind.PUT_MACHINE_CLASS)


def test_classes_of_machines_are_for_operators_and_fit(with_copies: Manager) -> None:
    """Tenants neither see nor set them; an image must be there, and machines with copies are no processes here."""
    classes = with_copies.service.machine_classes
    with pytest.raises(Forbidden):
        classes.page(ANN, Paging())
    with pytest.raises(Forbidden):
        classes.put(ANN, "small", MachineClassForm())
    with pytest.raises(Forbidden):
        classes.remove(ANN, "small")
    with pytest.raises(InvalidRequest) as raised:
        classes.put(OPERATOR, "small", MachineClassForm(image="nothing"))
    assert ["unknown-image"] == [each.code for each in raised.value.errors]
    with pytest.raises(InvalidRequest) as raised:
        classes.put(OPERATOR, "small", MachineClassForm())
    assert ["no-copies"] == [each.code for each in raised.value.errors]
    for wrong in ({"least": 2}, {"supply": "command"}, {"command": "../sh", "supply": "command"}):
        with pytest.raises(ValidationError):
            MachineClassForm(**wrong)


def hosts_of(manager: Manager) -> dict[str, str]:
    """The host of each running task."""
    with manager.committer.looking() as state:
        return {
            task.type.name: state.jobs.jobs[state.jobs.homes[instance].job].host
            for instance, task in state.running.tasks.items()
        }


def test_images_are_registered_changed_and_removed(manager: Manager) -> None:
    """Each with its hosts that are alive, also by a manager that starts later; the journal says who did it."""
    images = manager.service.images
    manager.seen.every_host = tuple(
        HostSeen(host=name, alive=name != "c", image="gpu", seen=datetime(2026, 1, 1, tzinfo=UTC)) for name in "abc"
    )
    made = images.put(OPERATOR, "gpu", GPU)
    assert (("gpu",), 8.0, 90.0, 2.4, 4, ("a", "b")) == (
        *(made.tags, made.cores, made.start, made.price, made.most),
        made.hosts,
    )
    images.put(OPERATOR, "cpu", ImageForm())
    changed = images.put(OPERATOR, "gpu", GPU.model_copy(update={"cores": 4.0}))
    later = Manager(manager.url, "two")
    try:
        assert 4.0 == changed.cores
        assert ["cpu", "gpu"] == [each.name for each in images.page(OPERATOR, Paging()).items]
        assert images.page(OPERATOR, Paging()) == images.page(OPERATOR, Paging())
        later.seen.every_host = manager.seen.every_host
        assert images.page(OPERATOR, Paging()) == later.service.images.page(OPERATOR, Paging())
    finally:
        later.close()
    assert changed == images.remove(OPERATOR, "gpu")
    with pytest.raises(NotFound):
        images.remove(OPERATOR, "gpu")
    done = [each.kind for each in manager.service.operations.page(OPERATOR, Paging()).items]
    assert [OperationKind.REMOVE_IMAGE, *[OperationKind.PUT_IMAGE] * 3] == done[:4]


def test_images_are_for_operators(manager: Manager) -> None:
    """Tenants neither see nor change them."""
    for ask in (
        lambda: manager.service.images.page(ANN, Paging()),
        lambda: manager.service.images.put(ANN, "gpu", GPU),
        lambda: manager.service.images.remove(ANN, "gpu"),
    ):
        with pytest.raises(Forbidden):
            ask()


def test_a_host_offers_the_tags_of_its_image(manager: Manager) -> None:
    """Beside its own, from the moment when the image is registered, and no longer than that."""
    manager.hosts = (Host(name="plain", cores=64.0), Host(name="made", cores=1.0, image="gpu"))
    with pytest.raises(InvalidDataflow, match="needs a host that offers 'gpu', and no host does"):
        manager.submit("ann", NEEDY)
    manager.service.images.put(OPERATOR, "gpu", GPU)
    dataflow = manager.submit("ann", NEEDY)
    assert "made" == hosts_of(manager)["map"]
    manager.service.images.remove(OPERATOR, "gpu")
    assert "made" == hosts_of(manager)["map"]
    with pytest.raises(InvalidDataflow, match="no host does"):
        manager.service.dataflows.replace(ANN, dataflow, raw("s:source > a:map[gpu]{'add': 7} > k:sink"))


def test_a_refusal_names_the_image_that_would_help(manager: Manager) -> None:
    """For each task that no host can run, at the field that asks for it; the image is one that offers all it needs."""
    manager.hosts = (Host(name="plain", cores=8.0), Host(name="fpga", cores=8.0, tags=frozenset({"fpga"})))
    manager.service.images.put(OPERATOR, "small", ImageForm(tags=frozenset({"gpu"})))
    manager.service.images.put(OPERATOR, "large", ImageForm(tags=frozenset({"gpu", "fpga"})))
    text = "s:source > a:gpu > b:map[fpga] > c:map[gpu,fpga]{'add': 1} > d:map[big]{'add': 2} > k:sink"
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", text)
    tasks = json.loads(raw(text))["tasks"]
    found = {tasks[int(each.pointer.split("/")[2])]["id"]: each for each in refused.value.errors}
    assert {"a": "type", "c": "tags", "d": "tags"} == {name: each.pointer.split("/")[3] for name, each in found.items()}
    assert "`braid host --image large`" in found["a"].remedy
    assert "`braid host --image large`" in found["c"].remedy
    assert "of a registered image" in found["d"].remedy
    assert "offers 'fpga', 'gpu', and no host offers 'gpu'" in found["c"].message


def test_tags_that_no_host_offers_together_are_named(manager: Manager) -> None:
    """Each of them is offered, but not by one host."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag})) for tag in ("fpga", "gpu"))
    with pytest.raises(InvalidDataflow, match="'fpga', 'gpu', and no host offers all of it"):
        manager.submit("ann", "s:source > a:map[gpu,fpga] > k:sink")


def test_a_dataflow_is_cut_where_no_host_offers_all_its_tags(manager: Manager) -> None:
    """Its author names tags only; each task runs where they are offered."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag})) for tag in ("fpga", "gpu"))
    manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    assert {"map": "gpu", "count": "fpga"}.items() <= hosts_of(manager).items()


def test_a_running_task_keeps_the_tags_that_it_was_started_with(manager: Manager) -> None:
    """It runs where it is even if others share it; a manager that starts anew knows its tags."""
    manager.hosts = (
        Host(name="gpu", cores=1.0, tags=frozenset({"gpu"})),
        Host(name="fpga", cores=64.0, tags=frozenset({"fpga"})),
    )
    manager.submit("ann", NEEDY)
    manager.submit("ann", "s:source > a:map[fpga] > k:sink")
    assert "gpu" == hosts_of(manager)["map"]
    later = Manager(manager.url, "two").lead()
    try:
        with later.committer.looking() as state:
            assert {"map": {"gpu"}, "source": set(), "sink": set()} == {
                task.type.name: set(task.tags) for task in state.running.tasks.values()
            }
    finally:
        later.close()


def test_hosts_show_their_image_and_what_is_wrong_with_it(manager: Manager) -> None:
    """A host of an image that is not registered offers its own tags, and says what to do."""
    seen = HostSeen(host="a", alive=True, tags=frozenset({"big"}), image="gpu", seen=datetime(2026, 1, 1, tzinfo=UTC))
    manager.seen.every_host = (seen, replace(seen, host="b", image=""))
    one, two = manager.service.running.hosts(OPERATOR, Paging()).items
    assert ("gpu", ("big",)) == (one.image, one.tags)
    assert "its image 'gpu' is not registered" in one.trouble
    assert "`braid images add gpu`" in one.trouble
    assert ("", ("big",), "") == (two.image, two.tags, two.trouble)
    manager.service.images.put(OPERATOR, "gpu", GPU)
    one, _ = manager.service.running.hosts(OPERATOR, Paging()).items
    assert ("gpu", ("big", "gpu"), "") == (one.image, one.tags, one.trouble)


def test_a_placement_says_where_tasks_run_and_what_that_costs(manager: Manager) -> None:
    """Of what a dataflow uses alone; of an image without a host, what one would save; for operators only."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag}), image=tag) for tag in ("fpga", "gpu"))
    dataflow = manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    found = manager.service.placements.explain(OPERATOR, dataflow)
    tasks = {each.task: each for each in found.tasks}
    assert ("gpu", "gpu", ("gpu",), True) == (*(tasks["a"].host, tasks["a"].image), tasks["a"].tags, tasks["a"].own)
    assert f"its host offers fpga; bridges bring what feeds it, from job {tasks['a'].job}" == tasks["b"].why
    assert "it is with what feeds it" == tasks["k"].why
    assert found.second is not None
    assert found.second >= found.cost == found.cheapest > 0.0
    assert {} == found.saves
    manager.service.images.put(OPERATOR, "both", ImageForm(tags=frozenset({"gpu", "fpga"})))
    saving = manager.service.placements.explain(OPERATOR, dataflow).saves["both"]
    assert 0.0 < saving < found.cost
    with pytest.raises(Forbidden):
        manager.service.placements.explain(ANN, dataflow)
    with pytest.raises(NotFound):
        manager.service.placements.explain(OPERATOR, "nothing")


def test_a_placement_says_what_one_more_host_or_core_would_save(manager: Manager) -> None:
    """Of a registered image whose hosts are too small for what runs there; its price counts, and its start."""
    manager.hosts = (
        Host(name="small", cores=0.02, tags=frozenset({"gpu"}), image="gpu"),
        Host(name="plain", cores=8.0),
    )
    dataflow = manager.submit("ann", NEEDY)
    assert () == manager.service.placements.explain(OPERATOR, dataflow).more
    manager.service.images.put(OPERATOR, "gpu", ImageForm(cores=0.02, start=60.0, price=1.0))
    (more,) = manager.service.placements.explain(OPERATOR, dataflow).more
    assert "gpu" == more.tags
    assert pytest.approx(0.02 + 60 / 3600, abs=1e-4) == more.host == more.core


def test_a_placement_says_where_else_a_task_could_be(manager: Manager) -> None:
    """The cheapest first, and why not elsewhere; only of tasks that no other dataflow uses."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag})) for tag in ("fpga", "gpu"))
    dataflow = manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    explain = manager.service.placements.explain
    assert () == explain(OPERATOR, dataflow).elsewhere
    possible = [each for each in explain(OPERATOR, dataflow, "k").elsewhere if each.more is not None]
    assert ("a" in possible[0].joins, "gpu") == (True, possible[0].tags) or not possible[0].joins
    assert sorted(each.more or 0.0 for each in possible) == [each.more for each in possible]
    refused = [each for each in explain(OPERATOR, dataflow, "a").elsewhere if each.tags == "fpga"]
    assert all("lacks gpu" in each.why_not[0] for each in refused)
    assert refused
    manager.submit("ann", "s:source > a:map[gpu] > c:map{'add': 3} > k:sink")
    with pytest.raises(Conflict, match="shared"):
        explain(OPERATOR, dataflow, "a")
    with pytest.raises(NotFound):
        explain(OPERATOR, dataflow, "nothing")


def test_an_image_may_be_called_like_the_tag_of_other_hosts(manager: Manager) -> None:
    """What a host of it would save is said all the same."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag})) for tag in ("fpga", "gpu"))
    dataflow = manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    manager.service.images.put(OPERATOR, "gpu", ImageForm(tags=frozenset({"gpu", "fpga"})))
    assert {"gpu"} == manager.service.placements.explain(OPERATOR, dataflow).saves.keys()


def test_another_planner_may_plan_a_placement(manager: Manager) -> None:
    """What it answers is compared with what runs, a plan that cannot be carried out is refused, and nothing moves."""
    manager.hosts = tuple(Host(name=tag, cores=8.0, tags=frozenset({tag}), image=tag) for tag in ("fpga", "gpu"))
    dataflow = manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    before = hosts_of(manager)
    pddl = manager.service.placements.export(OPERATOR, dataflow)
    checked = manager.service.placements.check_plan(OPERATOR, dataflow, PlacementPlanForm(plan=_by_kairos(pddl)))
    assert {"s", "a", "b", "k"} == {task for group in checked.groups for task in group.tasks}
    assert [True, True] == [
        any(tags in group.tags and task in group.tasks for group in checked.groups)
        for task, tags in (("a", "gpu"), ("b", "fpga"))
    ]
    assert checked.cost <= checked.now
    assert before == hosts_of(manager)
    with pytest.raises(InvalidRequest, match="nowhere"):
        manager.service.placements.check_plan(OPERATOR, dataflow, PlacementPlanForm(plan="(put__nowhere group0)"))
    for ask in (
        lambda: manager.service.placements.export(ANN, dataflow),
        lambda: manager.service.placements.check_plan(ANN, dataflow, PlacementPlanForm(plan=";")),
    ):
        with pytest.raises(Forbidden):
            ask()


def _by_kairos(pddl: PlacementPddlAnswer) -> str:
    """The plan of an engine that knows nothing but the two texts."""
    task = kairos.parse_problem(pddl.problem, kairos.parse_domain(pddl.domain, "domain"), "problem")
    options = kairos.SearchOptions()
    options.timeout = _ENGINE_SECONDS
    found = kairos.Planner().solve(task, options)  # type: ignore[no-untyped-call]  # the library leaves it out
    assert kairos.Status.SOLVED is found.status
    return str(found.plan)
