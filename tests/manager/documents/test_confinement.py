"""What is not shared although its tasks could be: with those who begin elsewhere, and from before a grant."""

from collections.abc import Iterator

import pytest

from dags import Scope, Visibility, confine
from engine.plan import Plan
from manager.answers.dataflows import Start, SubmitAnswer
from manager.answers.sources import VisibilityForm
from manager.kernel.registered_sources import Grants
from manager.problem import Conflict
from tests.manager.managers import ANN, HOSTS, Manager, caller, leading, raw
from tests.notation import flow

DIARY = "s:source{'source': 'diary'} > "
LINE = DIARY + "m:map{'add': 1} > w:window > k:sink"
"""A task without state, and behind it one with state."""


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob", "cat"), sources=("diary", "weather"))


def opened(manager: Manager, *readers: str, name: str = "diary", visibility: Visibility = Visibility.NAMED) -> None:
    """Say who may read ann's diary besides her."""
    manager.service.sources.set_visibility(ANN, name, VisibilityForm(visibility=visibility, readers=readers))


def placed(manager: Manager, tenant: str, text: str = LINE, **options: Start) -> tuple[str, dict[str, int]]:
    """Submit a line: the dataflow, and the instance of each task."""
    answer = manager.service.dataflows.submit(caller(tenant), raw(text), **options)
    return answer.id, instances(answer)


def instances(answer: SubmitAnswer) -> dict[str, int]:
    return {task.id: task.instance for task in (*answer.reused, *answer.started)}


def plans(manager: Manager) -> dict[str, Plan]:
    return {job: wanted.plan for job, wanted in manager.changes.jobs.wanted().items() if wanted.plan is not None}


def test_state_from_before_a_grant_is_not_shared(manager: Manager) -> None:
    """In its task's place there is a younger one, with all that follows; that, and what holds no state, is shared."""
    _, mine = placed(manager, "ann")
    opened(manager, "bob", "cat")
    _, first = placed(manager, "bob")
    assert (mine["s"], mine["m"]) == (first["s"], first["m"])
    assert not {mine["w"], mine["k"]} & set(first.values())
    assert first == placed(manager, "bob")[1] == placed(manager, "cat")[1]
    assert mine == placed(manager, "ann")[1]


def test_state_that_is_younger_than_a_grant_is_shared(manager: Manager) -> None:
    """No matter who started it; one who was granted later than that gets a younger one of its own."""
    opened(manager, "bob")
    _, mine = placed(manager, "ann")
    assert mine == placed(manager, "bob")[1]
    opened(manager, "bob", "cat")
    assert mine == placed(manager, "bob")[1]
    _, other = placed(manager, "cat")
    assert {"s", "m"} == {task for task in mine if mine[task] == other[task]}


def test_what_is_public_from_the_beginning_is_shared_with_everybody(manager: Manager) -> None:
    """The source was never hidden, so there is no state from before."""
    text = "s:source > w:window > k:sink"
    assert placed(manager, "ann", text)[1] == placed(manager, "bob", text)[1]


def test_a_break_in_what_a_tenant_may_read_is_a_new_grant(manager: Manager) -> None:
    """What ran while it was closed to the tenant is from before; widening whom it is open to is no break."""
    opened(manager, "bob")
    _, mine = placed(manager, "ann")
    opened(manager, visibility=Visibility.PUBLIC)
    assert mine == placed(manager, "bob")[1]
    opened(manager, "bob")
    assert mine == placed(manager, "bob")[1]
    opened(manager, visibility=Visibility.PRIVATE)
    opened(manager, "bob")
    assert mine["w"] != placed(manager, "bob")[1]["w"]


def test_a_younger_task_outlives_what_it_was_made_beside(manager: Manager) -> None:
    """Once the older task is gone the younger is still the tenant's, for another manager and in a next revision too."""
    gone, _ = placed(manager, "ann")
    opened(manager, "bob")
    name, first = placed(manager, "bob")
    manager.changes.dataflows.remove(gone, who="ann")
    placed(manager, "ann")
    other = Manager(manager.url, "two").lead()
    assert first == placed(other, "bob")[1]
    edited = other.service.dataflows.replace(caller("bob"), name, raw(LINE + " w > l:sink"))
    assert first == {task: instance for task, instance in instances(edited).items() if task != "l"}
    other.close()


def test_explaining_tells_that_older_state_is_not_reused(manager: Manager) -> None:
    """As a submission would do."""
    placed(manager, "ann")
    opened(manager, "bob")
    assert {"s", "m"} == {each.id for each in manager.service.dataflows.explain(caller("bob"), raw(LINE)).reused}


def test_a_join_of_a_younger_task_and_what_is_shared_is_ones_own(manager: Manager) -> None:
    """It follows both, and another dataflow's join of the same could follow others."""
    text = DIARY + "w:window > j:join.left > k:sink s > j.right"
    placed(manager, "ann", text)
    opened(manager, "bob")
    first, second = placed(manager, "bob", text)[1], placed(manager, "bob", text)[1]
    assert {"s", "w"} == {task for task in first if first[task] == second[task]}


def test_who_begins_at_the_earliest_shares_nothing(manager: Manager) -> None:
    """Neither before nor behind it, in jobs of its own, whose plans say from when; the answer says so too."""
    _, others = placed(manager, "ann", "s:source > m:map{'add': 1} > k:sink")
    name, mine = placed(manager, "bob", "s:source > m:map{'add': 1} > k:sink", start=Start.EARLIEST)
    assert not set(others.values()) & set(mine.values())
    assert Start.EARLIEST is manager.service.dataflows.get(caller("bob"), name).start
    _, third = placed(manager, "bob", "s:source > m:map{'add': 2} > k:sink")
    assert others["s"] == third["s"]
    homes = {slot.instance: job for job, plan in plans(manager).items() for slot in plan.slots}
    assert homes[others["m"]] == homes[third["m"]] != homes[mine["m"]]
    (since,) = {each.since for each in plans(manager)[homes[mine["m"]]].ingress}
    assert since
    assert [None] == [each.since for each in plans(manager)[homes[others["m"]]].ingress]


def test_an_explanation_of_a_start_at_the_earliest_foretells_that(manager: Manager) -> None:
    """Nothing would be reused although all of it runs, and neither tasks nor batches are saved; then it is so."""
    placed(manager, "ann")
    explanation = manager.service.dataflows.explain(ANN, raw(LINE), start=Start.EARLIEST)
    saving = explanation.saving
    assert ((), ("k", "m", "s", "w"), Start.EARLIEST) == (explanation.reused, explanation.started, explanation.start)
    assert (0, None, 0.0) == (saving.tasks, saving.cores_by_sharing, saving.cores_by_packing)
    assert 4 == len(manager.service.dataflows.explain(ANN, raw(LINE)).reused)
    done = manager.service.dataflows.submit(ANN, raw(LINE), start=Start.EARLIEST)
    assert explanation.started == tuple(task.id for task in done.started)


def test_a_job_that_began_elsewhere_takes_nothing_else(manager: Manager) -> None:
    """Not while it is the only one, nor after another manager took over; its own next revision begins there too."""
    name, mine = placed(manager, "ann", LINE, start=Start.EARLIEST)
    (job,) = plans(manager)
    other = Manager(manager.url, "two", hosts=HOSTS).lead()
    placed(other, "ann", "t:source > k:sink")
    assert mine.keys() - {"s"} == {
        task for task, instance in mine.items() if instance in {slot.instance for slot in plans(other)[job].slots}
    }
    assert 2 == len(plans(other))
    edited = instances(other.service.dataflows.replace(ANN, name, raw(LINE + " s > l:sink")))
    assert mine == {task: instance for task, instance in edited.items() if task != "l"}
    begun = {each.instance: each.since for plan in plans(other).values() for each in plan.ingress}
    assert 0.0 == begun[mine["s"]]
    other.changes.dataflows.remove(name, who="ann")
    assert 1 == len(plans(other))
    other.close()


def test_the_earliest_is_not_from_before_a_grant(manager: Manager) -> None:
    """What a source brought before a tenant might read it is not the tenant's, though it is kept."""
    opened(manager, "bob")
    _, mine = placed(manager, "bob", start=Start.EARLIEST)
    with manager.committer.looking() as state:
        granted = state.sources["ann:diary"].grants.of("bob")
    (plan,) = plans(manager).values()
    assert granted
    assert [(mine["s"], granted)] == [(each.instance, each.since) for each in plan.ingress]


def test_where_to_begin_belongs_to_what_an_idempotency_key_stands_for(manager: Manager) -> None:
    """The same document from elsewhere is another submission."""
    manager.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x", start=Start.EARLIEST)
    again = manager.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x", start=Start.EARLIEST)
    assert Start.EARLIEST is again.start
    with pytest.raises(Conflict, match="was used for another document"):
        manager.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x")


def test_grants_begin_when_a_tenant_may_read_and_end_when_it_may_not() -> None:
    """A tenant that keeps it, under whatever name, keeps its time."""
    named = Grants().then(Visibility.NAMED, ["bob"], 1.0)
    public = named.then(Visibility.PUBLIC, [], 2.0)
    assert [1.0, 2.0, 1.0, 2.0] == [public.of("bob"), public.of("cat"), named.of("bob"), public.of("dan")]
    assert public == public.then(Visibility.PUBLIC, [], 3.0)
    again = public.then(Visibility.NAMED, ["cat", "bob"], 4.0)
    assert [1.0, 2.0, None] == [again.of(tenant) for tenant in ("bob", "cat", "dan")]
    assert [None, 5.0] == [
        again.then(Visibility.PRIVATE, [], 5.0).then(Visibility.PUBLIC, [], 5.0).named.get("bob"),
        5.0,
    ]


def test_confining_asks_only_of_what_is_not_confined_yet() -> None:
    """Tasks in a scope keep it, what follows one inherits it, and what follows two has one of its own."""
    dataflow = flow("s:source > a:map > r:random > k:sink a > w:window > j:join.left > l:sink a > j.right")
    asked = []

    def scope_of(at: int) -> Scope | None:
        asked.append(dataflow.tasks[at].type.name)
        return Scope("", "younger") if dataflow.tasks[at].type.name == "window" else None

    found = confine(dataflow, scope_of)
    assert ["source", "map", "window"] == asked
    assert {"s": None, "a": None, "r": "r", "k": "r", "w": "younger", "j": "j", "l": "j"} == {
        task: (scope := found.tasks[place].key.scope) and scope.task for task, place in found.places.items()
    }
