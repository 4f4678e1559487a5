"""Documents of a tenant: what they may run and publish, and what of them is not shared."""

import json
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid_client.answers.dataflows import DataflowState, Start, Stop, SubmitAnswer
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.sources import SourceForm, VisibilityForm
from braid_client.answers.tenants import PublishingForm
from dags import Catalogue, Scope, Visibility
from dags.canonical import confine
from engine.code.store import digest_of
from engine.plan import Plan
from engine.tasks import TYPES
from manager.documents.canonical import modules_of
from manager.kernel.registered_sources import Grants
from manager.problem import Conflict, InvalidDataflow
from tests.manager.managers import ANN, BOB, HOSTS, OPERATOR, Manager, caller, leading, raw
from tests.notation import document, flow

SOURCE = "def process(event):\n    return event\n\ndef other(event):\n    return None\n"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    for who, name in ((ANN, "street"), (ANN, "models"), (BOB, "street"), (BOB, "models")):
        form = {"name": name, "connection": {"kind": "topic", "topic": f"{who.tenant}/{name}"}, "schema": {}}
        made.service.sources.register(who, SourceForm.model_validate(form))
    yield made
    made.close()


def publish(manager: Manager, who: str) -> None:
    """Have a tenant publish the source."""
    manager.service.administration.set_publishing(OPERATOR, who, PublishingForm(code=True))
    form = {"name": "script", "version": 1, "shape": "filter", "code": {"source": SOURCE}}
    manager.service.modules.publish(caller(who), json.dumps(form).encode())


def runs(manager: Manager, who: str, *, owner: str = "ann", entry: str = "process") -> bool:
    """Whether a tenant's document may run the source, as it says."""
    config = f"{{'digest': '{digest_of(SOURCE)}', 'entry': '{entry}', 'owner': '{owner}'}}"
    try:
        manager.submit(who, f"s:source{{'source': 'street'}} > c:code{config} > k:output")
    except InvalidDataflow as refused:
        (problem,) = refused.errors
        assert ("/tasks/1/config", "code-not-published") == (problem.pointer, problem.code)
        return False
    return True


def test_nobody_runs_what_was_not_published(manager: Manager) -> None:
    """No matter whom a document names as its owner: least of all an operator, whose code would be vouched for."""
    assert [False] * 2 == [runs(manager, "ann"), runs(manager, "ann", owner="")]


def test_a_tenant_runs_what_it_published_as_it_did(manager: Manager) -> None:
    """Nobody else does, and no other function of the source is called."""
    publish(manager, "ann")
    assert [True, False, False, False, False] == [
        runs(manager, "ann"),
        runs(manager, "ann", owner=""),
        runs(manager, "bob"),
        runs(manager, "bob", owner="bob"),
        runs(manager, "ann", entry="other"),
    ]


def test_code_connects_to_what_its_module_names(manager: Manager) -> None:
    """To nothing else, and not as code that reaches no network; each dataflow has a task of its own."""
    manager.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=True))
    code = {"source": SOURCE, "connects": ["Example.org.:443", "[2001:DB8:0::1]:80", "example.org:443"]}
    form = {"name": "script", "version": 1, "shape": "filter", "code": code}
    made = manager.service.modules.publish(ANN, json.dumps(form).encode())
    assert "connecting_code" == made.type
    with manager.store.read() as session:
        (module,) = modules_of(session, "ann")
    config = module.config({}, {})
    assert ["[2001:db8::1]:80", "example.org:443"] == config["connects"]

    def accepted(type_: str, **changes: object) -> bool:
        # What is an object there has its defaults.
        given = {name: each for name, each in (config | changes).items() if isinstance(each, str | list)}
        try:
            manager.submit("ann", f"s:source{{'source': 'street'}} > c:{type_}{given!r} > k:output")
        except InvalidDataflow:
            return False
        return True

    found = [accepted("connecting_code"), accepted("connecting_code", connects=["example.org:443"])]
    found += [accepted("connecting_code", connects=[*config["connects"], "example.org:80"])]
    assert [True, False, False, False] == [*found, accepted("code", connects=None)]
    assert accepted("connecting_code")
    with manager.committer.looking() as state:
        assert 2 == len([each for each in state.running.tasks.values() if each.type.name == "connecting_code"])


KEEPING = "def process(event, kept, config):\n    return {}, (kept or 0) + 1\n"


def keeping(config: Mapping[str, object]) -> dict[str, object]:
    """A document with a task of the type."""
    made = document("s:source{'source': 'street'} > c:noop > k:output")
    tasks = [
        task | ({"type": "stateful_code", "config": config} if task["id"] == "c" else {}) for task in made["tasks"]
    ]
    return made | {"tasks": tasks}


def test_code_keeps_what_its_module_says(manager: Manager) -> None:
    """With a config of its tenant's own; by no other key, under no other module, and for nobody else."""
    for tenant in ("ann", "bob"):
        manager.service.administration.set_publishing(OPERATOR, tenant, PublishingForm(code=True))
    state = {"migrate": "migrate", "most_keys": 5, "config": {"over": 3, "by": 1}}
    form = {"name": "tally", "version": 1, "shape": "pair-to-one", "code": {"source": KEEPING, "state": state}}
    made = manager.service.modules.publish(ANN, json.dumps(form).encode())
    assert "stateful_code" == made.type
    with manager.store.read() as session:
        (module,) = modules_of(session, "ann")
        assert () == modules_of(session, "bob")
    config = module.config({"over": 9}, {})
    assert ({"over": 9, "by": 1}, "tally") == (config["config"], config["module"])

    def accepted(tenant: str = "ann", **changes: object) -> bool:
        try:
            manager.submit(tenant, keeping(config | changes))
        except InvalidDataflow:
            return False
        return True

    assert [True, True] == [accepted(), accepted(config={"over": 1})]
    changes = ({"most_keys": 6}, {"most_bytes": 7}, {"migrate": "process"}, {"module": "other"}, {"owner": ""})
    assert [False] * 5 == [accepted(**change) for change in changes]
    assert [False, False] == [accepted("bob"), accepted("bob", owner="bob")]


def test_another_config_of_code_is_migrated_and_another_module_begins_anew(manager: Manager) -> None:
    """A task without a function that migrates is refused another config, unless its tenant gives up what is kept."""
    manager.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=True))
    for name, migrate in (("tally", "migrate"), ("plain", "")):
        code = {"source": KEEPING, "state": {"migrate": migrate}}
        form = {"name": name, "version": 1, "shape": "one-to-one", "code": code}
        manager.service.modules.publish(ANN, json.dumps(form).encode())
    with manager.store.read() as session:
        tally, plain = (module.config({}, {}) for module in modules_of(session, "ann"))

    def changed(config: Mapping[str, object], change: Mapping[str, object]) -> list[str]:
        made = manager.submit("ann", keeping(config))
        form = ReconfigurationForm.model_validate({"tasks": {"c": {"config": change}}})
        try:
            answer = manager.service.reconfigurations.preview(ANN, made, form)
        except InvalidDataflow as refused:
            return [problem.code for problem in refused.errors]
        assert answer.scope is not None
        return [task.state for task in answer.scope.tasks if task.task == "c"]

    assert ["transformed"] == changed(tally, {"config": {"over": 1}})
    assert [["undeclared-state"]] * 2 == [changed(plain, {"config": {"over": 1}}), changed(tally, dict(plain))]


def test_code_is_not_brought_to_that_of_another_owner(manager: Manager) -> None:
    """A task that would become its tenant's code in a job with another's is refused; once it is alone it is not."""
    form = {"name": "square", "connection": {"kind": "topic", "topic": "ann/square"}, "schema": {}}
    manager.service.sources.register(ANN, SourceForm.model_validate(form | {"visibility": "public"}))
    for tenant in ("ann", "bob"):
        publish(manager, tenant)
    config = {"digest": digest_of(SOURCE), "entry": "process"}
    source = "s:source{'source': 'ann:square'}"
    mine = manager.submit("ann", f"{source} > c:noop > k:output")
    other = manager.submit("bob", f"{source} > c:code{config | {'owner': 'bob'}} > k:output")
    with manager.committer.looking() as state:
        assert 1 == len(state.plans)
    becomes = ReconfigurationForm(tasks={"c": {"type": "code", "config": config | {"owner": "ann"}}})
    with pytest.raises(InvalidDataflow) as refused:
        manager.service.reconfigurations.begin(ANN, mine, becomes)
    assert [("/tasks/c/type", "other-code")] == [(each.pointer, each.code) for each in refused.value.errors]
    manager.service.dataflows.remove(BOB, other, Stop.NOW)
    manager.service.reconfigurations.begin(ANN, mine, becomes)


def test_a_voucher_is_no_part_of_a_document(manager: Manager) -> None:
    """What a document says of one is refused, and the same document runs before an operator vouches, and after."""
    publish(manager, "ann")
    config = f"{{'digest': '{digest_of(SOURCE)}', 'entry': 'process', 'owner': 'ann', 'vouched': True}}"
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", f"s:source{{'source': 'street'}} > c:code{config} > k:output")
    assert ["unknown-field"] == [each.code for each in refused.value.errors]
    found = [runs(manager, "ann")]
    manager.service.modules.vouch(OPERATOR, "script", 1, tenant="ann")
    assert [True, True] == [*found, runs(manager, "ann")]


NAMES = ("a", "b", "c", "d")


@pytest.fixture
def in_public(sqlite: str) -> Iterator[Manager]:
    """A service where everybody may read all sources, of which one is bob's."""
    with_sources = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    with_sources.admit("ann", "bob")
    for who, names in ((ANN, NAMES), (BOB, ("x",))):
        for name in names:
            form = {"name": name, "connection": {"kind": "topic", "topic": f"{who.tenant}/{name}"}, "schema": {}}
            with_sources.service.sources.register(who, SourceForm.model_validate({**form, "visibility": "public"}))
    yield with_sources
    with_sources.close()


def way(read: str, topic: str) -> str:
    """A dataflow that publishes what it reads of a source."""
    return f"s:source{{'source': '{read}'}} > n:noop > p:mqtt_publish{{'topic': '{topic}'}} > k:output"


def refused(manager: Manager, tenant: str, line: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataflow) as raised:
        manager.submit(tenant, line)
    return [(each.code, each.pointer) for each in raised.value.errors]


def test_a_dataflow_that_publishes_into_its_own_source_is_refused(in_public: Manager) -> None:
    """With the place in the document; a part that reads another source may publish there."""
    loop = refused(in_public, "ann", way("a", "ann/a"))
    assert [("publish-loop", "/tasks/2/config/topic")] == loop
    in_public.submit("ann", way("b", "ann/a") + "; t:source{'source': 'a'} > l:output")


def test_dataflows_that_feed_each_other_are_refused_no_matter_whose_they_are(in_public: Manager) -> None:
    """The last one that would close the loop; once another one is gone it may run."""
    first = in_public.submit("ann", way("bob:x", "ann/a"))
    in_public.submit("bob", way("ann:b", "bob/x"))
    assert [("publish-loop", "/tasks/2/config/topic")] == refused(in_public, "bob", way("ann:a", "bob/x"))
    in_public.service.dataflows.remove(ANN, first, Stop.NOW)
    in_public.submit("bob", way("ann:a", "bob/x"))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ways=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=8))
def test_just_what_would_lead_back_is_refused(in_public: Manager, ways: list[tuple[str, str]]) -> None:
    """Over any number of dataflows that run."""
    run = dict[str, tuple[str, str]]()
    for read, into in ways:
        reached, more = {into}, {into}
        while more:
            more = {to for begin, to in run.values() if begin in more} - reached
            reached |= more
        if read in reached:
            assert ["publish-loop"] == [code for code, _ in refused(in_public, "ann", way(read, f"ann/{into}"))]
        else:
            run[in_public.submit("ann", way(read, f"ann/{into}"))] = (read, into)
    for each in run:
        in_public.service.dataflows.remove(ANN, each, Stop.NOW)


def line(*topics: str) -> str:
    published = "; ".join(
        f"s > p{at}:mqtt_publish{{'topic': '{topic}'}} > k{at}:output" for at, topic in enumerate(topics)
    )
    return f"s:source{{'source': 'street'}} > k:output; {published}"


def test_a_tenant_publishes_into_its_own_sources_only(manager: Manager) -> None:
    """Neither into another's nor where nobody reads; each place in the document is reported."""
    manager.submit("ann", line("ann/models"))
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", line("bob/models", "ann/models", "nobody/there"))
    assert {("foreign-topic", "bob/models"), ("foreign-topic", "nobody/there")} == {
        (each.code, each.message.split("'")[1]) for each in refused.value.errors
    }
    assert all(each.pointer.endswith("/config/topic") for each in refused.value.errors)


def test_a_source_that_is_revoked_takes_along_what_publishes_into_it(manager: Manager) -> None:
    """Else it would publish into the source of the next tenant that registers the topic."""
    publishes, reads = manager.submit("ann", line("ann/models")), manager.submit("ann", line())
    assert 1 == manager.service.sources.revoke(ANN, "models").dataflows
    states = [manager.service.dataflows.get(ANN, each).state for each in (publishes, reads)]
    assert DataflowState.REMOVED == states[0] != states[1]


DIARY = "s:source{'source': 'diary'} > "
LINE = DIARY + "m:map{'add': 1} > w:window > k:sink"
"""A task without state, and behind it one with state."""


@pytest.fixture
def with_diary(sqlite: str) -> Iterator[Manager]:
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


def test_state_from_before_a_grant_is_not_shared(with_diary: Manager) -> None:
    """In its task's place there is a younger one, with all that follows; that, and what holds no state, is shared."""
    _, mine = placed(with_diary, "ann")
    opened(with_diary, "bob", "cat")
    _, first = placed(with_diary, "bob")
    assert (mine["s"], mine["m"]) == (first["s"], first["m"])
    assert not {mine["w"], mine["k"]} & set(first.values())
    assert first == placed(with_diary, "bob")[1] == placed(with_diary, "cat")[1]
    assert mine == placed(with_diary, "ann")[1]


def test_state_that_is_younger_than_a_grant_is_shared(with_diary: Manager) -> None:
    """No matter who started it; one who was granted later than that gets a younger one of its own."""
    opened(with_diary, "bob")
    _, mine = placed(with_diary, "ann")
    assert mine == placed(with_diary, "bob")[1]
    opened(with_diary, "bob", "cat")
    assert mine == placed(with_diary, "bob")[1]
    _, other = placed(with_diary, "cat")
    assert {"s", "m"} == {task for task in mine if mine[task] == other[task]}


def test_what_is_public_from_the_beginning_is_shared_with_everybody(with_diary: Manager) -> None:
    """The source was never hidden, so there is no state from before."""
    text = "s:source > w:window > k:sink"
    assert placed(with_diary, "ann", text)[1] == placed(with_diary, "bob", text)[1]


def test_a_break_in_what_a_tenant_may_read_is_a_new_grant(with_diary: Manager) -> None:
    """What ran while it was closed to the tenant is from before; widening whom it is open to is no break."""
    opened(with_diary, "bob")
    _, mine = placed(with_diary, "ann")
    opened(with_diary, visibility=Visibility.PUBLIC)
    assert mine == placed(with_diary, "bob")[1]
    opened(with_diary, "bob")
    assert mine == placed(with_diary, "bob")[1]
    opened(with_diary, visibility=Visibility.PRIVATE)
    opened(with_diary, "bob")
    assert mine["w"] != placed(with_diary, "bob")[1]["w"]


def test_a_younger_task_outlives_what_it_was_made_beside(with_diary: Manager) -> None:
    """Once the older task is gone the younger is still the tenant's, for another manager and in a next revision too."""
    gone, _ = placed(with_diary, "ann")
    opened(with_diary, "bob")
    name, first = placed(with_diary, "bob")
    with_diary.changes.dataflows.remove(gone, who="ann")
    placed(with_diary, "ann")
    other = Manager(with_diary.url, "two").lead()
    assert first == placed(other, "bob")[1]
    edited = other.service.dataflows.replace(caller("bob"), name, raw(LINE + " w > l:sink"))
    assert first == {task: instance for task, instance in instances(edited).items() if task != "l"}
    other.close()


def test_explaining_tells_that_older_state_is_not_reused(with_diary: Manager) -> None:
    """As a submission would do."""
    placed(with_diary, "ann")
    opened(with_diary, "bob")
    assert {"s", "m"} == {each.id for each in with_diary.service.dataflows.explain(caller("bob"), raw(LINE)).reused}


def test_a_join_of_a_younger_task_and_what_is_shared_is_ones_own(with_diary: Manager) -> None:
    """It follows both, and another dataflow's join of the same could follow others."""
    text = DIARY + "w:window > j:join.left > k:sink s > j.right"
    placed(with_diary, "ann", text)
    opened(with_diary, "bob")
    first, second = placed(with_diary, "bob", text)[1], placed(with_diary, "bob", text)[1]
    assert {"s", "w"} == {task for task in first if first[task] == second[task]}


def test_who_begins_at_the_earliest_shares_nothing(with_diary: Manager) -> None:
    """Neither before nor behind it, in jobs of its own, whose plans say from when; the answer says so too."""
    _, others = placed(with_diary, "ann", "s:source > m:map{'add': 1} > k:sink")
    name, mine = placed(with_diary, "bob", "s:source > m:map{'add': 1} > k:sink", start=Start.EARLIEST)
    assert not set(others.values()) & set(mine.values())
    assert Start.EARLIEST is with_diary.service.dataflows.get(caller("bob"), name).start
    _, third = placed(with_diary, "bob", "s:source > m:map{'add': 2} > k:sink")
    assert others["s"] == third["s"]
    homes = {slot.instance: job for job, plan in plans(with_diary).items() for slot in plan.slots}
    assert homes[others["m"]] == homes[third["m"]] != homes[mine["m"]]
    (since,) = {each.since for each in plans(with_diary)[homes[mine["m"]]].ingress}
    assert since
    assert [None] == [each.since for each in plans(with_diary)[homes[others["m"]]].ingress]


def test_an_explanation_of_a_start_at_the_earliest_foretells_that(with_diary: Manager) -> None:
    """Nothing would be reused although all of it runs, and neither tasks nor batches are saved; then it is so."""
    placed(with_diary, "ann")
    explanation = with_diary.service.dataflows.explain(ANN, raw(LINE), start=Start.EARLIEST)
    saving = explanation.saving
    assert ((), ("k", "m", "s", "w"), Start.EARLIEST) == (explanation.reused, explanation.started, explanation.start)
    assert (0, None, 0.0) == (saving.tasks, saving.cores_by_sharing, saving.cores_by_packing)
    assert 4 == len(with_diary.service.dataflows.explain(ANN, raw(LINE)).reused)
    done = with_diary.service.dataflows.submit(ANN, raw(LINE), start=Start.EARLIEST)
    assert explanation.started == tuple(task.id for task in done.started)


def test_a_job_that_began_elsewhere_takes_nothing_else(with_diary: Manager) -> None:
    """Not while it is the only one, nor after another manager took over; its own next revision begins there too."""
    name, mine = placed(with_diary, "ann", LINE, start=Start.EARLIEST)
    (job,) = plans(with_diary)
    other = Manager(with_diary.url, "two", hosts=HOSTS).lead()
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


def test_the_earliest_is_not_from_before_a_grant(with_diary: Manager) -> None:
    """What a source brought before a tenant might read it is not the tenant's, though it is kept."""
    opened(with_diary, "bob")
    _, mine = placed(with_diary, "bob", start=Start.EARLIEST)
    with with_diary.committer.looking() as state:
        granted = state.sources["ann:diary"].grants.of("bob")
    (plan,) = plans(with_diary).values()
    assert granted
    assert [(mine["s"], granted)] == [(each.instance, each.since) for each in plan.ingress]


def test_where_to_begin_belongs_to_what_an_idempotency_key_stands_for(with_diary: Manager) -> None:
    """The same document from elsewhere is another submission."""
    with_diary.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x", start=Start.EARLIEST)
    again = with_diary.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x", start=Start.EARLIEST)
    assert Start.EARLIEST is again.start
    with pytest.raises(Conflict, match="was used for another document"):
        with_diary.service.dataflows.submit(ANN, raw(LINE), idempotency_key="x")


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
