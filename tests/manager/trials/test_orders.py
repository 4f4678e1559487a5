"""The law of trials: what they say of a dataflow is what the kernel makes of the plan that a job would run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.output_messages import event_texts
from bridge.raw_events import rows_in
from dags import AnyTaskType, Schema
from dags.canonical import outline
from engine import installed_catalogue
from engine.behaviour import behaviours_of, installed_behaviours
from engine.dataflow_trial import run_trial
from engine.plan import Entry, Plan
from engine.tasks.code import CODE_TYPES
from manager.kernel.registered_sources import Readable
from manager.trials.orders import SHOWN, DraftTrial, TrialWishes, why_not_run
from tests.engine.kernels import Machine, arrived
from tests.manager.managers import ANN, Manager, leading
from tests.manager.trials.test_use_cases import FIELDS, register

SOURCE = {"id": "s", "type": "source", "config": {"source": "rooms"}}
RANGE = {"type": "range_filter", "config": {"field": "t", "min": 0, "max": 3}}
COUNT = {"type": "count", "config": {"by": ["room"]}}
AVERAGE = {"type": "block_window_average", "config": {"field": "t", "window": 3}}
FLOWS: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    "a chain": ({"a": RANGE, "b": AVERAGE}, "s-a a-b b-o"),
    "a fork": ({"a": RANGE, "b": COUNT}, "s-a s-b a-o b-p"),
    "a join of equal and unequal streams": ({"a": RANGE, "b": RANGE, "c": COUNT}, "s-a s-b a-c b-c s-c c-o"),
    "outputs that several streams enter": ({"a": RANGE, "b": COUNT}, "s-a s-b a-o b-o s-o"),
}
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"t": st.one_of(st.none(), st.integers(-2, 6).map(float)), "room": st.sampled_from(["a", "b"])},
        optional={"more": st.sampled_from([1, "x", [1, {"y": None}]])},
    ),
    max_size=SHOWN,
)


def flow(name: str) -> dict[str, Any]:
    tasks, lines = FLOWS[name]
    outputs = sorted({end for line in lines.split() if (end := line[-1]) in "op"})
    streams = [{"from": line[0], "to": line[-1]} for line in lines.split()]
    every = [SOURCE, *({"id": id_} | form for id_, form in tasks.items())]
    every += [{"id": id_, "type": "output"} for id_ in outputs]
    return {"version": 1, "name": name, "tasks": every, "streams": streams}


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    for made in leading(sqlite, tenants=("ann",), catalogue=installed_catalogue()):
        register(made, "ann", "rooms")
        yield made


def plan_of(manager: Manager, document: dict[str, Any]) -> Plan:
    """The plan of the job that runs a dataflow, the only one."""
    manager.service.dataflows.submit(ANN, json.dumps(document).encode())
    (wanted,) = manager.changes.jobs.wanted().values()
    assert wanted.plan is not None
    return wanted.plan


def delivered(plan: Plan, parts: list[list[dict[str, Any]]]) -> dict[str, list[bytes]]:
    """What leaves at each sink of a plan over batches of events."""
    machine = Machine(
        entry=Entry(number=1, plan=plan, starts={}), made=behaviours_of(plan.active, installed_behaviours())
    )
    (ingress,) = plan.ingress
    first = 0
    texts: dict[str, list[bytes]] = {delivery.sink: [] for delivery in plan.deliveries}
    for part in parts:
        rows = rows_in(part, Schema.of(FIELDS), on_unfit=lambda _at, error: pytest.fail(str(error)))
        record = machine.run([arrived(rows, stream=ingress.stream, first=first)])
        first += len(part)
        for emitted in record.emitted:
            for delivery in plan.deliveries:
                if delivery.origin == emitted.origin and emitted.events is not None:
                    texts[delivery.sink] += event_texts(emitted.events)
    return texts


@pytest.mark.parametrize("kind", CODE_TYPES, ids=lambda kind: kind.name)
def test_published_code_is_not_run(manager: Manager, kind: AnyTaskType) -> None:
    """Only hosts have the cells that it runs in; so not even that which operators vouch for."""
    with manager.committer.looking() as state:
        readable = Readable("ann", state.sources)
    raw = json.dumps(flow("a chain")).encode()
    drawn = outline(raw, dataflow="tried", tenant="ann", catalogue=installed_catalogue(), sources=readable)
    for task in drawn.sound.tasks:
        assert not why_not_run(task)
        assert "published code" in why_not_run(replace(task, type=kind))


@pytest.mark.parametrize("name", FLOWS)
def test_a_trial_says_what_the_job_would_emit(manager: Manager, name: str) -> None:
    """Whatever comes, and however the job cuts its batches."""
    document = flow(name)
    plan = plan_of(manager, document)

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(pasted=EVENTS, cut=st.integers(0, SHOWN))
    def check(pasted: list[dict[str, Any]], cut: int) -> None:
        wishes = TrialWishes(pasted={"s": [json.dumps(event) for event in pasted]}, newest=0, now=0.0)
        with manager.committer.looking() as state:
            sources = state.sources
        raw = json.dumps(document).encode()
        catalogue, readable = installed_catalogue(), Readable("ann", sources)
        drawn = outline(raw, dataflow="tried", tenant="ann", catalogue=catalogue, sources=readable)
        trial = DraftTrial(drawn.sound, sources, wishes)
        result = run_trial(trial.order(None, installed_behaviours()))
        answers = {one.id: one for one in trial.answers(result, [task.id for task in drawn.tasks])}
        expected = delivered(plan, [pasted[:cut], pasted[cut:]])
        for sink, texts in expected.items():
            entered = answers[sink].inputs["in"]
            assert len(texts) == entered.count
            assert [text.decode() for text in texts[-SHOWN:]] == list(entered.newest)

    check()
