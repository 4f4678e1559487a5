"""A service that looks after its jobs by itself, on the real parts: what is scattered, overloaded, or hindered."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from engine.trial import try_out
from merge import Instance
from tests.bridge.otlp import SentSpan, spans_of, tracing
from tests.integration.hosting import counted, numbers
from tests.integration.moving import Scattered, Within, scatter
from tests.integration.serving import counting, passing, street
from tests.tasks.receivers import Receiving, receiving

pytestmark = [pytest.mark.full, pytest.mark.spark]

AHEAD = 16
"""Events that tasks that are too slow may be behind: a second or two of their work, if they have a core to themselves.

Where they have less than a third of one their job is slow for another reason, and no job of their own would help.
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiving]:
    """Who gets the traces of the service."""
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, collector: Receiving) -> Iterator[Within]:
    """A service that scatters; one for all tests."""
    folder, place = tmp_path_factory.mktemp("looking after"), f"http://127.0.0.1:{collector.port}"
    traced = tracing(OTEL_EXPORTER_OTLP_ENDPOINT=place, OTEL_BSP_SCHEDULE_DELAY="200")
    with traced, Within(folder, pace=0.3, placement="launch") as made:
        yield made


@pytest.fixture(scope="module")
def town(served: Within) -> Iterator[Scattered]:
    """Its tenants."""
    made = Scattered(served, seed=11)
    try:
        yield made
    finally:
        made.close()


def notes(town: Scattered) -> list[str]:
    """What the journal says of moves, the latest first."""
    return [each.note for each in town.operator.operations() if each.kind == "move tasks"]


@pytest.mark.slow
def test_an_output_beyond_a_bridge_is_as_late_as_its_raw_events_are_old(served: Within) -> None:
    """It has been through both jobs, so it is later than what the first one sends; operators and tenants see it."""
    with served.admit("eve") as eve, served.client() as operator:
        # Before anything is delivered.
        _ = served.line
        eve.register_source(street("lane"))
        near, far = eve.submit(passing("lane", 1_000)), eve.submit(counting("lane"))
        for each in (near, far):
            served.until_state(eve, each.id, DataflowState.RUNNING)
        assert 2 == len(list(operator.jobs()))
        served.publish("city/lane", numbers(0, 20))
        for each in (near, far):
            served.until_delivered(each, "out", 20)

        def latencies(dataflow: SubmitAnswer) -> list[float | None]:
            (output,) = eve.dataflow(dataflow.id).outputs
            return [output.latency_seconds_p50, output.latency_seconds_p99]

        def later() -> bool:
            """Whether the second is reported as later, once both jobs have reported all that they sent."""
            both = latencies(near), latencies(far)
            if [job.latency_seconds_p50 for job in operator.jobs()] != [p50 for p50, _ in both]:
                return False
            return all(first and second and first < second for first, second in zip(*both, strict=True))

        served.until(later, "what is beyond the bridge to be reported as later")
        for each in (near, far):
            eve.remove(each.id)
        served.until(lambda: [] == list(operator.jobs()), "no job")


def test_what_a_new_job_refuses_goes_back(served: Within, town: Scattered, collector: Receiving) -> None:
    """When its plan cannot be written, the old jobs go on from the cut; the journal says why, and a trace how long."""
    scatter(town)
    before = {job.job for job in town.operator.jobs()}
    with served.committer.looking() as state:
        opened = str(state.jobs.next_job)
    # Where its second plan is to be written, with which it would take over, lies something else.
    (served.root / "jobs" / opened / "plans" / "tmp" / "00000002").mkdir(parents=True)
    assert town.defragment()
    town.until_settled()
    assert before == {job.job for job in town.operator.jobs()}
    (note, *_) = notes(town)
    assert f"went back: job {opened} refused: " in note
    assert "00000002" in note
    town.check()

    def traced() -> list[SentSpan]:
        """The trace of the move, once its last phase and the refusal of its host are there."""
        asked = next((span.trace for span in spans_of(collector) if span.name == "POST /v1/defragmentations"), "none")
        spans = spans_of(collector, asked)
        last = {("move returning", ""), ("take up plan", "IsADirectoryError")}
        return spans if last <= {(span.name, span.error) for span in spans} else []

    spans = served.until(traced, "the trace of the move")
    (commit,) = (span.id for span in spans if span.name == "commit")
    phases = sorted((span for span in spans if span.name.startswith("move ")), key=lambda span: span.began)
    assert {commit} == {phase.parent for phase in phases}
    assert [
        ("move preparing", "ready"),
        ("move cutting", "passed"),
        ("move taking", "hindered"),
        ("move returning", "begun"),
    ] == [(phase.name, phase.attributes["braid.event"]) for phase in phases]
    # Messages of errors may quote a tenant.
    assert "00000002" not in f"{spans}"


def test_scattered_jobs_are_consolidated_without_being_asked_for(served: Within, town: Scattered) -> None:
    """Once it has been worth it for a minute, by what batches cost; nothing is lost, doubled, or counted anew."""
    scatter(town)
    served.hasten(lambda: len(list(town.operator.jobs())) == 1, "the jobs to be consolidated")
    town.until_settled()
    (note, *_) = notes(town)
    assert note.startswith("it has been worth it for 60 s. It is worth it: ")
    town.check()


@pytest.mark.slow
def test_what_overloads_its_job_is_moved_out_of_it(served: Within, town: Scattered) -> None:
    """Once it has for a minute; what shared the job with it is in time from then on, and both get everything once."""
    town.ann.register_source(street("park"))
    document = counting("park", "counts and computes")
    document["tasks"] += [
        # A twentieth of a second for each event, each. One alone would be left where it is for longer.
        {"id": "pi", "type": "pi_viete", "config": {"iterations": 10_000}},
        {"id": "again", "type": "pi_viete", "config": {"iterations": 10_000}},
        {"id": "slow", "type": "output"},
        # Counted by two keys, so that no shards would help.
        {"id": "each", "type": "count", "config": {"by": ["n"]}},
        {"id": "ones", "type": "output"},
    ]
    document["streams"] += [
        {"from": "in", "to": "pi"},
        {"from": "pi", "to": "again"},
        {"from": "again", "to": "slow"},
        {"from": "in", "to": "each"},
        {"from": "each", "to": "ones"},
    ]
    answer = town.ann.submit(document)
    served.until_state(town.ann, answer.id, DataflowState.RUNNING)
    instances = {task.id: task.instance for task in town.ann.dataflow(answer.id).tasks}
    published = 0

    def homes() -> tuple[str, str]:
        """The jobs that count, and that compute."""
        with served.committer.looking() as state:
            count, pi = (state.jobs.homes[Instance(instances[task])].job for task in ("count", "pi"))
        return str(count), str(pi)

    def publishing(condition: Callable[[], bool]) -> Callable[[], bool]:
        """Publish as much as can be computed, and some more, whenever something is looked at."""

        def looked_at() -> bool:
            nonlocal published
            if published < len(served.numbered(answer, "slow")) + AHEAD:
                served.publish("city/park", numbers(published, published + 3))
                published += 3
            return condition()

        return looked_at

    def is_overloaded() -> bool:
        with served.committer.looking() as state:
            picture = served.chooser.snapshot(state, served.committer.ground)
        return picture.isolated is not None

    def is_in_time() -> bool:
        """Whether most batches that count, of the last minute, took less than the pace."""
        took = next(job.batch_seconds_p50 for job in town.operator.jobs() if job.job == homes()[0])
        return took is not None and took < served.pace

    assert homes()[0] == homes()[1]
    served.until(publishing(is_overloaded), "a job to be overloaded")
    assert not is_in_time()
    served.hasten(publishing(lambda: homes()[0] != homes()[1]), "what overloads it to move")
    served.until(publishing(is_in_time), "what counts to be in time")
    served.until_delivered(answer, "out", published)
    served.until_delivered(answer, "slow", published)
    assert counted(numbers(0, published)) == served.delivered(answer, "out")
    assert published == len(served.delivered(answer, "slow"))
    assert any(note.startswith("a job has been overloaded for 60 s; ") for note in notes(town))


@pytest.mark.slow
def test_a_job_that_is_too_busy_for_a_core_gets_another_shard(served: Within, town: Scattered) -> None:
    """Once it has been for a minute, by what was measured; every event is counted once, in order for its key."""
    town.ann.register_source(street("mile"))
    document = counting("mile", "counts and computes by key")
    document["tasks"] += [
        {"id": "pi", "type": "pi_viete", "config": {"iterations": _WORK}},
        {"id": "slow", "type": "output"},
    ]
    document["streams"] += [{"from": "in", "to": "pi"}, {"from": "pi", "to": "slow"}]
    answer = town.ann.submit(document)
    served.until_state(town.ann, answer.id, DataflowState.RUNNING)
    # More than one shard takes at this pace, and less than two do.
    per_second = 0.45 / _seconds_of_work()
    begun, published = time.monotonic(), 0

    def publishing(condition: Callable[[], bool]) -> Callable[[], bool]:
        """Publish what is due by now whenever something is looked at."""

        def looked_at() -> bool:
            nonlocal published
            due = int((time.monotonic() - begun) * per_second)
            served.publish("city/mile", numbers(published, due, keys=_KEYS))
            published = max(published, due)
            return condition()

        return looked_at

    def shards() -> int:
        with served.committer.looking() as state:
            return max(job.shards for job in state.jobs.jobs.values())

    def is_wanted() -> bool:
        with served.committer.looking() as state:
            return bool(served.chooser.snapshot(state, served.committer.ground).rescaled)

    assert 1 == shards()
    served.until(publishing(is_wanted), "another shard to be wanted")
    served.hasten(publishing(lambda: shards() == 2), "a job to get another shard")
    served.until(publishing(lambda: any(job.shards == 2 for job in town.operator.jobs())), "it to be shown")
    served.until_delivered(answer, "out", published)
    served.until_delivered(answer, "slow", published)
    assert by_key(counted(numbers(0, published, keys=_KEYS))) == by_key(served.delivered(answer, "out"))
    assert published == len(served.delivered(answer, "slow"))
    assert any(each.kind == "rescale job" for each in town.operator.operations())


_WORK, _KEYS = 5_000, 24


def _seconds_of_work() -> float:
    """The seconds that the task takes for an event here and now."""
    events = [{"n": number} for number in range(10)]
    begun = time.perf_counter()
    try_out("pi_viete", {"iterations": _WORK}, events)
    return (time.perf_counter() - begun) / len(events)


def by_key(counts: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The counts of each key, in the order in which they came."""
    found: dict[str, list[int]] = {}
    for each in counts:
        found.setdefault(each["k"], []).append(each["count"])
    return found
