"""A host as a whole: generated streams, restarts, and the embedded broker."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge import topics
from dags import Kind
from engine.plan import Forward, Plan, Rated, ReplayedFile, Supply, Timed
from tests.integration.hosting import (
    HOST,
    QUICK,
    Hosting,
    bridged,
    counted,
    deliveries,
    delivery,
    hosting_in,
    numbers,
    raw,
    slot,
)

pytestmark = pytest.mark.spark


def generated(hosting: Hosting, supply: Supply) -> Plan:
    """A job that delivers the events of a generator."""
    source, sink = hosting.fresh(), hosting.fresh()
    slots = (slot(sink, "output", source),)
    ingress = replace(raw("unused", source), stream=f"generated/{source}", supply=supply)
    return Plan(
        job=f"generated{source}",
        host=HOST,
        version=0,
        slots=slots,
        ingress=(ingress,),
        deliveries=deliveries(slots),
        pace=QUICK,
    )


@pytest.mark.parametrize(
    ("supply", "field"), [(Rated(per_second=200.0), "number"), (Timed(seconds=0.05), "tick")], ids=["rate", "timer"]
)
def test_generated_numbers_come_completely_and_in_order(hosting: Hosting, supply: Supply, field: str) -> None:
    """The events of a generator are delivered once and in order, from where the job began."""
    plan = hosting.run(generated(hosting, supply))
    found = hosting.until_delivered(plan.deliveries[0], 40)
    assert list(range(found[0][field], found[0][field] + len(found))) == [event[field] for event in found]
    hosting.stop_job(plan.job)


def test_a_file_is_replayed(hosting: Hosting, tmp_path: Path) -> None:
    """The events of a file come as they are in the file."""
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in numbers(0, 50)))
    supply = ReplayedFile(path=str(path), fields={"n": Kind.INTEGER, "k": Kind.STRING}, per_second=1_000.0)
    plan = hosting.run(generated(hosting, supply))
    assert numbers(0, 50) == hosting.until_delivered(plan.deliveries[0], 50)


def test_a_missing_file_is_reported_in_the_state_of_its_stream(hosting: Hosting, tmp_path: Path) -> None:
    """The host reports why nothing comes, and everything else goes on."""
    supply = ReplayedFile(path=str(tmp_path / "missing.jsonl"), fields={"n": Kind.INTEGER}, per_second=10.0)
    plan = hosting.run(generated(hosting, supply))
    [stream] = plan.streams
    hosting.until(lambda: "missing.jsonl" in hosting.host_status()["spools"].get(stream, ""), "the trouble is reported")


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL], ids=["term", "kill"]
)
def test_a_restarted_host_goes_on(hosting: Hosting, number: signal.Signals) -> None:
    """Jobs resume by themselves, with their states, numbers, and the stream between them; no event is lost."""
    source, count, below, sink = (hosting.fresh() for _ in range(4))
    topic = f"street-{source}"
    upper = Plan(
        job=f"upper{source}",
        host=HOST,
        version=0,
        slots=(slot(count, "count", source, by=["k"]),),
        ingress=(raw(topic, source),),
        forwards=(Forward(instance=count),),
        pace=QUICK,
    )
    slots = (slot(below, "count", count, by=["k"]), slot(sink, "output", below))
    lower = replace(
        upper, job=f"lower{source}", slots=slots, ingress=(bridged(count),), forwards=(), deliveries=deliveries(slots)
    )
    stopped = hosting.run(generated(hosting, Rated(per_second=10.0)))
    hosting.stop_job(stopped.job)
    hosting.run(lower)
    hosting.run(upper)
    hosting.publish(topic, numbers(0, 30))
    hosting.until_delivered(delivery(sink), 30)
    # In the middle of the work.
    hosting.publish(topic, numbers(30, 60))
    hosting.restart(number)
    hosting.publish(topic, numbers(60, 90))
    assert counted(numbers(0, 90)) == hosting.until_delivered(delivery(sink), 90)
    assert 0 == hosting.host_status()["counts"][f"bridge/{count}:out"]["gaps"]
    assert {"upper", "lower"} <= {name.rstrip("0123456789") for name in hosting.host_status()["jobs"]}
    assert stopped.job not in hosting.host_status()["jobs"]
    # Each start of a job raises the epoch of what it delivers.
    outputs = hosting.heard(topics.output("ann", "d", f"s{sink}"))
    assert sorted(each["epoch"] for each in outputs) == [each["epoch"] for each in outputs]
    assert outputs[0]["epoch"] < outputs[-1]["epoch"]


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Hosting]:
    """A host over the embedded broker."""
    with hosting_in(tmp_path, kind="embedded") as made:
        yield made


def test_the_embedded_broker_suffices(embedded: Hosting) -> None:
    """A job starts and delivers over the broker that is used if mosquitto is not installed."""
    source, count, sink = (embedded.fresh() for _ in range(3))
    slots = (slot(count, "count", source, by=["k"]), slot(sink, "output", count))
    topic = f"street-{source}"
    embedded.run(
        Plan(
            job="j",
            host=HOST,
            version=0,
            slots=slots,
            ingress=(raw(topic, source),),
            deliveries=deliveries(slots),
            pace=QUICK,
        )
    )
    embedded.publish(topic, numbers(0, 20))
    assert counted(numbers(0, 20)) == embedded.until_delivered(delivery(sink), 20)
