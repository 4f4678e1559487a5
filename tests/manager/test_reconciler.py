"""The reconciler: when it acts, what it publishes and reports, and what it reads of what is committed."""

import json
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from braid_client.answers.overview import EventAnswer, OperationKind
from braid_client.answers.tenants import Role, TenantForm
from bridge import topics
from engine import installed_catalogue
from engine.plan import Feed, Plan
from engine.plan_messages import EndsQuestion, read_plan, read_question
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.jobs.changes import JobChanges
from manager.kernel.committer import Committer
from manager.kernel.dataflow_life import CommittedDataflowLookup, DataflowNeeds, Need
from manager.kernel.draft import DecisionGround
from manager.kernel.live_events import JournalTail, LiveEvents
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent, Turn
from manager.kernel.wanted import ReachedJob, Reconfiguring, WantedJob
from manager.machines.carriages import CommittedCarriages
from manager.observations.listener import Listener
from manager.planner import public_id
from manager.reconciler import Reconciler
from manager.reconfigurations.changes import ReconfigurationChanges
from manager.service import service_of
from manager.store.database import Store, sqlite_url
from manager.store.leadership import Candidate
from manager.use_case import Caller, Tools
from merge import Host, JobId
from tests.bridge.otlp import CALLER, tracing
from tests.integration.serving import counting, passing, street
from tests.manager.jobs.worlds import plan, wanting
from tests.manager.observations.listened_host import Hearing


class Flows(CommittedDataflowLookup):
    """The dataflows, as a test sets them."""

    def __init__(self) -> None:
        self.flows: dict[str, tuple[Need, ...]] = {}
        self.drains: set[str] = set()

    def every(self) -> frozenset[str]:
        return frozenset(self.flows)

    def draining(self) -> frozenset[str]:
        return frozenset(self.drains)

    def in_jobs(self, jobs: Collection[str]) -> frozenset[str]:
        return frozenset(name for name, needs in self.flows.items() if any(need.job in jobs for need in needs))

    def needs(self, dataflows: Collection[str]) -> Mapping[str, DataflowNeeds]:
        return {
            name: DataflowNeeds(
                dataflow=public_id(name), tenant="ann", needs=self.flows[name], drains=name in self.drains
            )
            for name in dataflows
            if name in self.flows
        }


class Committed(JobChanges):
    """The wanted jobs, as a test sets them, and what was reported of them."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.taken: list[tuple[str, int]] = []
        self.jobs: Mapping[str, WantedJob] = {}
        self.callbacks: list[Callable[[], None]] = []

    def wanted(self) -> Mapping[str, WantedJob]:
        return self.jobs

    def on_change(self, listener: Callable[[], None]) -> None:
        self.callbacks.append(listener)

    def ended(self, job: str) -> None:
        self.gone.append(job)

    def fed(self, job: str, version: int) -> None:
        self.taken.append((job, version))

    def commit(self, *plans: Plan, stopped: Collection[str] = ()) -> None:
        """Change the wanted plans."""
        self.jobs = wanting(*plans, stopped=stopped)
        for notify in self.callbacks:
            notify()


class Driven:
    """A reconciler over a broker in memory. It looks only when a test says so, unless it is started."""

    def __init__(self) -> None:
        self.hearing = Hearing()
        self.committed, self.lookup = Committed(), Flows()
        self.events = LiveEvents(last=0)
        self.leads = True
        self.published: list[tuple[str, int | None]] = []
        self.looked = threading.Event()
        self.hearing.broker.swallows = self._note
        self.reconciler = Reconciler(
            self.committed,
            self.hearing.listener,
            self.events,
            dataflows=self.lookup,
            belongs=lambda job: job != "99",
            leads=lambda: self.leads,
            clock=lambda: self.hearing.clock,
        )

    def _note(self, topic: str, payload: bytes) -> bool:
        if topic.endswith("/plan"):
            job = topic.split("/")[-2]
            self.published.append((job, read_plan(payload).version if payload else None))
        return False

    def look(self) -> list[tuple[str, int | None]]:
        """Process all messages, look once, and return what was published."""
        self.hearing.settle()
        before = len(self.published)
        self.reconciler.look()
        self.hearing.settle()
        return self.published[before:]

    def events_of(self, kind: str) -> list[EventAnswer]:
        """Return the events of a kind."""
        return [event for event in self.events.since(0) if event.kind == kind]


@pytest.fixture
def driven() -> Iterator[Driven]:
    made = Driven()
    made.hearing.say(topics.host("h", "status"), {"alive": True})
    made.hearing.listener.start()
    made.hearing.until_complete()
    yield made
    made.reconciler.stop()
    made.hearing.listener.stop()


def test_a_committed_plan_is_published_retained(driven: Driven) -> None:
    """It is published whole, so that a host that was away finds it."""
    driven.committed.commit(plan("1", 4))
    assert [("1", 4)] == driven.look()
    assert [plan("1", 4)] == [read_plan(payload) for _, payload in driven.hearing.broker.retained(["+/+/+/+/plan"])]


def test_nothing_is_published_before_the_sight_is_complete() -> None:
    """Nor is anything while this manager does not lead."""
    made = Driven()
    made.committed.commit(plan("1"))
    made.reconciler.look()
    made.hearing.listener.start()
    made.hearing.until_complete()
    made.leads = False
    assert [] == made.look()
    made.leads = True
    assert [("1", 1)] == made.look()
    made.hearing.listener.stop()


def test_losing_the_lead_during_a_look_stops_no_job(driven: Driven) -> None:
    """The manager then wants no jobs, but this does not mean that they are to stop."""
    driven.hearing.say_status("1")
    driven.leads = True

    def wanted() -> Mapping[str, WantedJob]:
        driven.leads = False
        return {}

    driven.committed.wanted = wanted  # type: ignore[method-assign]  # the moment that matters
    assert [] == driven.look()


def test_after_a_reconnect_only_plans_not_taken_up_are_published(driven: Driven) -> None:
    """Plans that hosts have logged are not published again."""
    driven.committed.commit(plan("1"), plan("2"))
    assert [("1", 1), ("2", 1)] == driven.look()
    driven.hearing.say_status("1", version=1, term=1)
    assert [] == driven.look()
    assert driven.hearing.client is not None
    driven.hearing.client.stop()
    driven.hearing.say(topics.job("2", "plan"), b"")
    driven.published.clear()
    driven.hearing.client.start()
    driven.hearing.until(lambda: driven.hearing.listener.sight().connection == 2, "another connection")
    driven.hearing.until_complete()
    assert [("2", 1)] == driven.look()


def test_a_refused_plan_is_published_again_after_a_while(driven: Driven) -> None:
    """The reason for the refusal is reported."""
    driven.committed.commit(plan("1"))
    assert [("1", 1)] == driven.look()
    driven.hearing.refuse("1", "no such type")
    assert [[], []] == [driven.look(), driven.look()]
    assert ["no such type"] == [event.told["trouble"] for event in driven.events_of("job")]
    driven.hearing.clock += 5.0
    assert [("1", 1)] == driven.look()


def test_a_job_that_is_gone_is_cleaned_and_forgotten(driven: Driven) -> None:
    """Its status is no longer retained, and the callback reports that it has stopped."""
    driven.committed.commit(plan("1"))
    driven.look()
    driven.hearing.say_status("1", version=1, term=1)
    driven.committed.commit(stopped=["1"])
    assert [("1", None)] == driven.look()
    driven.hearing.say_status("1", version=1, term=1, state="stopped")
    driven.look()
    assert ["1"] == driven.committed.gone
    assert [] == driven.hearing.broker.retained(["braid/1/jobs/#"])


def test_an_unwanted_job_of_this_service_is_stopped(driven: Driven) -> None:
    """Its old status does not count as a new job."""
    driven.hearing.say_status("5", version=1, term=1)
    driven.hearing.say_status("99", version=1, term=1, state="stopped")
    assert [("5", None)] == driven.look()
    assert 2 == len(driven.hearing.broker.retained(["braid/1/jobs/+/status"]))


def test_changes_of_jobs_and_states_of_dataflows_are_reported(driven: Driven) -> None:
    """States found at the first look are not reported."""
    driven.hearing.say_status("1", version=1, term=1, in_effect=1)
    driven.lookup.flows = {"a": (Need(job="1", host="h", version=1, instances=frozenset({7})),)}
    driven.committed.commit(plan("1"))
    driven.look()
    assert () == driven.events.since(0)
    driven.lookup.flows["b"] = (Need(job="1", host="h", version=2),)
    driven.committed.commit(plan("1", 2))
    driven.look()
    driven.hearing.say_status("1", version=2, term=1, in_effect=2)
    driven.look()
    driven.hearing.say_status("1", version=2, term=1, in_effect=2, failed={"7": {"reason": "no"}})
    driven.look()
    driven.hearing.say_status("1", version=2, term=1, in_effect=2)
    driven.look()
    driven.hearing.say(topics.host("h", "status"), {"alive": False})
    driven.look()
    assert [
        ("b", "deploying"),
        ("b", "running"),
        ("a", "degraded"),
        ("a", "running"),
        ("a", "degraded"),
        ("b", "degraded"),
    ] == [(event.told["dataflow"], event.told["state"]) for event in driven.events_of("dataflow")]
    assert {"ann"} == {event.told["tenant"] for event in driven.events_of("dataflow")}
    assert [2, 2, 2] == [event.told["in_effect"] for event in driven.events_of("job")]


def test_a_dataflow_whose_stream_is_not_received_is_degraded(driven: Driven) -> None:
    """It is reported as soon as the host says so; other dataflows of the host are none the worse."""

    def say(**spools: str) -> None:
        driven.hearing.say(topics.host("h", "status"), {"alive": True, "spools": {"p": "ready", "q": "full", **spools}})
        driven.look()

    say()
    for job, stream in (("1", "p"), ("2", "q")):
        driven.hearing.say_status(job, version=1, term=1, in_effect=1, positions={stream: 4})
        driven.lookup.flows[job] = (Need(job=job, host="h", version=1),)
    driven.committed.commit(plan("1"), plan("2"))
    driven.look()
    for state in ("unsubscribed", "ready", "no room", "ready"):
        say(p=state)
    assert [("1", "degraded"), ("1", "running")] * 2 == states(driven, "dataflow")[-4:]
    assert ("2", "degraded") not in states(driven, "dataflow")


def states(driven: Driven, kind: str) -> list[tuple[str, str]]:
    """Return the reported states with their subjects, in order."""
    return [(event.told[kind], event.told["state"]) for event in driven.events_of(kind)]


def test_every_state_of_a_dataflow_is_reported(driven: Driven) -> None:
    """States between two looks and without a new plan are reported too, and a replaced dataflow stays the same one."""
    driven.hearing.say_status("1", version=1, term=1, in_effect=1)
    driven.look()
    need = Need(job="1", host="h", version=1)
    driven.lookup.flows = {"a": (need,), "b": (need,), "c": (need,)}
    driven.look()
    driven.lookup.drains = {"a"}
    del driven.lookup.flows["b"]
    driven.lookup.flows["c~2"] = driven.lookup.flows.pop("c")
    driven.look()
    driven.look()
    assert ["what its sources had sent is being worked off"] == [
        event.told["reason"] for event in driven.events_of("dataflow") if event.told["state"] == "draining"
    ]
    driven.lookup.drains, driven.lookup.flows = set(), {}
    driven.look()
    reported = states(driven, "dataflow")
    assert [
        ["deploying", "running", "draining", "removed"],
        ["deploying", "running", "removed"],
        ["deploying", "running", "deploying", "running", "removed"],
    ] == [[state for name, state in reported if name == flow] for flow in "abc"]
    assert {"ann"} == {event.told["tenant"] for event in driven.events_of("dataflow")}


def test_every_state_of_a_job_is_reported(driven: Driven) -> None:
    """States between two looks are reported too, with the reason and the time of the next attempt."""
    driven.look()
    for status in (
        {"state": "starting"},
        {"state": "running"},
        {"state": "died", "trouble": "disk full", "back_off": 5.0},
        {"state": "starting"},
        {"state": "running"},
    ):
        driven.hearing.say_status("99", **status)
    driven.look()
    driven.hearing.say_status("99", state="stopping")
    driven.look()
    driven.hearing.say_status("99", state="stopped")
    driven.look()
    driven.hearing.say(topics.job("99", "status"), b"")
    driven.look()
    assert ["starting", "running", "died", "starting", "running", "stopping", "stopped"] == [
        state for _, state in states(driven, "job")
    ]
    assert [("disk full", 5.0)] == [
        (event.told["trouble"], event.told["back_off"]) for event in driven.events_of("job") if "back_off" in event.told
    ]


def test_it_is_settled_once_all_plans_are_taken_up(driven: Driven) -> None:
    """Jobs that cannot take up their plan do not count, and later commits do not undo it."""
    driven.committed.commit(plan("1"), plan("2", host="away"))
    driven.look()
    settled = [driven.reconciler.settled]
    driven.hearing.say_status("1", version=1, term=1)
    driven.look()
    settled.append(driven.reconciler.settled)
    driven.committed.commit(plan("1", 2))
    driven.look()
    settled.append(driven.reconciler.settled)
    assert [False, True, True] == settled


def test_the_reason_why_a_job_waits_is_available(driven: Driven) -> None:
    """Callers can ask why a job is not there yet."""
    driven.committed.commit(plan("1", forwards=[7]), plan("2", reads=[7]))
    assert [("2", 1)] == driven.look()
    assert {"1": "job 2 is to read 'out' of instance 7 first"} == driven.reconciler.waits


def test_the_thread_acts_on_a_commit_and_on_news_and_outlives_an_error(
    driven: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage of the database does not end it."""
    driven.reconciler.start()
    driven.committed.commit(plan("1"))
    driven.hearing.until(lambda: ("1", 1) in driven.published, "the plan")

    def wanted() -> Mapping[str, WantedJob]:
        driven.committed.wanted = lambda: driven.committed.jobs  # type: ignore[method-assign]  # away only once
        raise RuntimeError("away")

    driven.committed.wanted = wanted  # type: ignore[method-assign]  # as above
    driven.committed.commit(plan("1", 2))
    driven.hearing.until(lambda: ("1", 2) in driven.published, "the next plan")
    assert ["hosts and jobs stay as they are until the next look"] == [
        record.getMessage() for record in caplog.records if record.name == "braid.reconciler" and record.exc_info
    ]
    assert 1 == driven.reconciler.driven.failures < driven.reconciler.driven.looks


def test_activity_is_counted(driven: Driven) -> None:
    """Counts cover each kind of step, unreadable messages, and dataflows by their last reported state."""
    need = Need(job="1", host="h", version=1, instances=frozenset({7}))
    driven.lookup.flows = {"a": (need,), "b": (need, replace(need, job="2"))}
    driven.committed.commit(plan("1"), plan("2"))
    driven.look()
    driven.hearing.say(topics.job("2", "status"), b"no JSON", retain=False)
    driven.hearing.say_status("1", version=1, term=1, in_effect=1)
    driven.committed.commit(plan("1"), stopped=["2"])
    driven.look()
    done = driven.reconciler.driven
    assert {"run": 2, "stop": 1, "clean": 0} == done.steps
    assert (True, 1, 0) == (done.connected, done.unread, done.failures)
    assert {"deploying": 1, "running": 1, "degraded": 0, "draining": 0} == done.dataflows


def test_feeds_are_taken_once_the_newest_plan_has_run(driven: Driven) -> None:
    """They are not taken if the host has only logged the plan, or if the plan has no feeds."""
    fed = replace(plan("1", 4), feeds=(Feed(id=7, instance=2, port="in", events="[{}]"),))
    driven.committed.commit(fed, plan("2", 4))
    driven.look()
    assert [] == driven.committed.taken
    for in_effect, expected in ((3, []), (4, [("1", 4)])):
        for job in ("1", "2"):
            driven.hearing.say_status(job, version=4, term=1, in_effect=in_effect)
        driven.look()
        assert expected == driven.committed.taken


class Proving(ReconfigurationChanges):
    """One reconfiguration that has switched long ago, and what became of it."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.going = Reconfiguring(
            reconfiguration=Reconfiguration(
                id=7,
                phase=Phase.PROVING,
                since=0.0,
                begun=0.0,
                dataflows=("d",),
                jobs=frozenset({JobId(1)}),
                awaiting=frozenset(),
                instances=frozenset(),
                changed=frozenset(),
                watched=frozenset(),
            ),
            plans={},
            streams=frozenset(),
            below=frozenset({JobId(1)}),
            reached=tuple(ReachedJob(job=JobId(job), version=1, raw=frozenset({"p"})) for job in (1, 2)),
        )

    def under_way(self) -> tuple[Reconfiguring, ...]:
        return () if self.ended else (self.going,)

    def take(self, turn: Turn) -> None:
        assert turn.event is TransitionEvent.PROVEN
        self.ended.append(turn.transition.id)


def test_a_reconfiguration_is_over_once_hosts_have_answered_and_all_jobs_are_past(driven: Driven) -> None:
    """A manager that has just begun knows nothing, and what a host reported before it was away is too little."""
    hearing, questions = driven.hearing, list[EndsQuestion]()

    def note(topic: str, payload: bytes) -> bool:
        if topic == topics.host("h", "ask"):
            questions.append(read_question(payload))
        return False

    hearing.broker.swallows = note
    proving = Proving()
    driven.reconciler = Reconciler(driven.committed, hearing.listener, driven.events, reconfigurations=proving)
    hearing.say(topics.host("h", "status"), {"alive": True, "spools": {"p": "ready", "q": "ready"}})
    hearing.say(topics.host("i", "status"), {"alive": False})
    hearing.say_status("1", in_effect=1, positions={"p": 12}, batch=3, handed_on=4)
    driven.look()
    assert [("p",)] == [each.streams for each in questions]
    answer = {"asker": questions[0].asker, "number": questions[0].number, "ends": {"p": 10}}
    hearing.say(topics.host("h", "ends"), answer, retain=False)
    driven.look()
    hearing.say_status("2", host="i", in_effect=1, positions={"p": 4}, batch=3, handed_on=4)
    driven.look()
    assert [] == proving.ended
    hearing.say_status("2", host="i", in_effect=1, positions={"p": 10}, batch=9, handed_on=4)
    driven.look()
    assert [7] == proving.ended


def test_plans_and_phases_are_traced_with_what_they_are_for(driven: Driven) -> None:
    """A plan that is sent names the span of its sending; one that nobody traces has none."""
    proving, sent = Proving(), list[Plan]()
    proving.going = replace(proving.going, reconfiguration=replace(proving.going.reconfiguration, trace=CALLER))
    driven.reconciler = Reconciler(driven.committed, driven.hearing.listener, driven.events, reconfigurations=proving)

    def note(topic: str, payload: bytes) -> bool:
        if topic.endswith("/plan"):
            sent.append(read_plan(payload))
        return False

    driven.hearing.broker.swallows = note
    with tracing() as sent_spans:
        driven.committed.commit(replace(plan("1"), trace=CALLER), plan("2"))
        driven.look()
        driven.reconciler._go_on(Turn(proving.going.reconfiguration, TransitionEvent.PROVEN))
        made = sent_spans()
    assert {"publish plan", "reconfiguration proving"} == made.keys()
    assert {CALLER.split("-")[2]} == {span.parent for span in made.values()}
    traced, untraced = (one.trace for one in sorted(sent, key=lambda one: one.job))
    assert ("", made["publish plan"].id) == (untraced, traced.split("-")[2])
    assert TransitionEvent.PROVEN == made["reconfiguration proving"].attributes["braid.event"]


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
