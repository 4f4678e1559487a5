"""What is sampled of a batch at the ports of instances that somebody looks at, and its bounds."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from bridge.raw_events import REST_COLUMN
from engine.kernel.batch import BatchTime
from engine.plan import Edge, SlotState
from engine.port_events import LONGEST_SHOWN, MOST_SHOWN_EVENTS, PortSample, PortSampling, SampledPort
from tests.engine.kernels import Machine, arrived, entry, slot

MANY = 30
JOIN = slot(3, "join", Edge(port="left", parent=2, parent_port="odd"))
PLAN = entry([slot(2, "split", 1), JOIN, slot(4, "output", 3)])


def sampled(instances: Sequence[int], *, batch_time: BatchTime | None = None) -> dict[SampledPort, PortSample]:
    sampling = PortSampling(instances)
    items = [arrived([{"b": at} for at in range(MANY)], "s", 0, 0)]
    Machine(entry=PLAN).run(items, sampling=sampling, batch_time=batch_time)
    return {sample.at: sample for sample in sampling.samples()}


def numbers(sample: PortSample, field: str = "b") -> list[Any]:
    return [json.loads(event)[field] for event in sample.newest]


def test_the_newest_events_at_each_port_are_sampled() -> None:
    """Those that enter a source, enter a task and leave it; in order, with how many there were."""
    samples = sampled([1, 2])
    assert {(1, "out", False), (2, "in", True), (2, "odd", False), (2, "even", False)} == samples.keys()
    entered, odd = samples[SampledPort(2, "in", is_input=True)], samples[SampledPort(2, "odd", is_input=False)]
    assert (MANY, [*range(MANY - MOST_SHOWN_EVENTS, MANY)]) == (entered.count, numbers(entered))
    assert entered.newest == samples[SampledPort(1, "out", is_input=False)].newest
    assert odd.count == sum(1 for _ in range(1, MANY, 2))
    assert [*range(1, MANY, 2)][-MOST_SHOWN_EVENTS:] == numbers(odd)


def test_a_batch_that_runs_in_chunks_is_sampled_as_a_whole() -> None:
    """However small the chunks are."""
    timed = BatchTime()
    timed.begin(60.0)
    assert sampled([2]) == sampled([2], batch_time=timed)


def test_a_failed_task_shows_what_enters_it() -> None:
    """Nothing leaves it."""
    sampling = PortSampling([2])
    failed = entry([slot(2, "count", 1, state=SlotState.FAILED), slot(3, "output", 2)])
    Machine(entry=failed).run([arrived([{"b": 1}], "s", 0, 0)], sampling=sampling)
    assert [(SampledPort(2, "in", is_input=True), 1)] == [(sample.at, sample.count) for sample in sampling.samples()]


def test_a_long_event_is_cut_and_one_beyond_all_bounds_only_mentioned() -> None:
    """So is one of few bytes with very long names of fields."""
    rows = [
        pa.record_batch({"t": [1]}),
        pa.record_batch({"t": ["x" * (LONGEST_SHOWN + 1)]}),
        pa.record_batch({"t": ["x" * 3_000_000]}),
        pa.record_batch({"n" * 3_000_000: [1]}),
    ]
    for port, batch in enumerate(rows):
        sampling = PortSampling([7])
        sampling.note(7, str(port), batch, is_input=True)
        (sample,) = sampling.samples()
        (event,) = sample.newest
        assert len(event) <= LONGEST_SHOWN + 1
        assert (port > 0) == ("…" in event)


def test_what_is_made_into_text_is_bounded_over_all_ports() -> None:
    """The most ports with the largest events take no more than one event may."""
    sampling = PortSampling([7])
    batch = pa.record_batch({"t": ["x" * 100_000] * MOST_SHOWN_EVENTS})
    for port in range(250):
        sampling.note(7, str(port), batch, is_input=True)
    samples = list(sampling.samples())
    assert 250 == len(samples)
    assert sum(len(event) for sample in samples for event in sample.newest) < 250 * MOST_SHOWN_EVENTS * 50


@pytest.mark.parametrize("depth", [10, 900, 100_000])
def test_an_event_of_any_depth_is_shown_or_said_to_be_no_json(depth: int) -> None:
    """It hurts neither the batch nor the worker."""
    sampling = PortSampling([7])
    sampling.note(7, "in", pa.record_batch({REST_COLUMN: [f'{{"deep":{"[" * depth}{"]" * depth}}}']}), is_input=True)
    ((event,),) = (sample.newest for sample in sampling.samples())
    assert len(event) <= LONGEST_SHOWN + 1
    assert depth > 10 or json.loads(event)
