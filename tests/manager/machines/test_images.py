"""Images: registered, changed, removed, and what their hosts offer by them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import kairos
import pytest

from manager.answers.jobs import ImageForm, PlacementPddlAnswer, PlacementPlanForm
from manager.answers.overview import OperationKind
from manager.observations.reports import HostSeen
from manager.problem import Conflict, Forbidden, InvalidDataflow, InvalidRequest, NotFound
from manager.use_case import Paging
from merge import Host
from tests.manager.managers import ANN, OPERATOR, Manager, raw

GPU = ImageForm(tags=frozenset({"gpu"}), cores=8.0, start=90.0, price=2.4, most=4)
_ENGINE_SECONDS = 10
NEEDY = "s:source > a:map[gpu] > k:sink"


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
