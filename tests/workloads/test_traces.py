"""Laws of traces: whatever the dataflows and the seed, a trace can be replayed and is what its model says."""

import math
import statistics
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from manager.command import app
from workloads.traces import (
    Action,
    Trace,
    TracePhase,
    poisson,
    random_walk,
    read_trace,
    sequential,
    trace_json,
    trace_of,
    write_trace,
)

SEEDS = st.integers(0, 10_000)


def names(many: int) -> tuple[str, ...]:
    return tuple(f"d{number}" for number in range(many))


def running(trace: Trace) -> list[set[str]]:
    """What runs after each step; fails where a step is none."""
    runs: set[str] = set()
    found = []
    for step in trace.steps:
        assert (step.dataflow in runs) is (step.action is Action.REMOVE)
        runs ^= {step.dataflow}
        found.append(set(runs))
    return found


@given(many=st.integers(1, 40), seed=SEEDS)
def test_seq_submits_all_and_then_removes_all(many: int, seed: int) -> None:
    """Each once, and nothing is left."""
    trace = sequential("w", names(many), seed)
    assert [Action.SUBMIT] * many + [Action.REMOVE] * many == [step.action for step in trace.steps]
    assert [TracePhase.FILL] * many + [TracePhase.DRAIN] * many == [step.phase for step in trace.steps]
    after = running(trace)
    assert (set(names(many)), set()) == (after[many - 1], after[-1])


@given(many=st.integers(2, 40), seed=SEEDS, steps=st.integers(0, 120))
def test_a_walk_begins_with_half_stays_within_bounds_and_ends_with_none(many: int, seed: int, steps: int) -> None:
    """During the walk there is always one at least, and never one twice."""
    trace = random_walk("w", names(many), seed, steps=steps)
    counted = Counter(step.phase for step in trace.steps)
    after = running(trace)
    assert (many // 2, steps) == (counted[TracePhase.FILL], counted[TracePhase.WALK])
    assert all(1 <= len(each) <= many for each in after[: many // 2 + steps])
    assert set() == after[-1]
    assert {Action.REMOVE} >= {step.action for step in trace.steps if step.phase is TracePhase.DRAIN}


def test_a_walk_adds_as_often_as_it_removes() -> None:
    """Away from its bounds, with equal probability."""
    trace = random_walk("w", names(2_000), 1, steps=900)
    added = sum(step.action is Action.SUBMIT for step in trace.steps if step.phase is TracePhase.WALK)
    assert abs(added - 450) < 4 * math.sqrt(900) / 2


@given(many=st.integers(1, 20), seed=SEEDS, arrivals=st.integers(1, 60))
def test_arrivals_come_in_order_of_time_and_all_leave(many: int, seed: int, arrivals: int) -> None:
    """So many arrive as were asked for, the first at once, and times never fall."""
    trace = poisson("w", names(many), seed, arrivals=arrivals)
    times = [step.at for step in trace.steps]
    assert 0.0 == times[0]
    assert all(at is not None for at in times)
    assert times == sorted(times, key=lambda at: at or 0.0)
    assert arrivals == sum(step.action is Action.SUBMIT for step in trace.steps)
    assert set() == running(trace)[-1]


def test_arrivals_and_lifetimes_are_distributed_as_asked() -> None:
    """Where there are dataflows enough, arrivals come at the mean distance and stay for the median time."""
    trace = poisson("w", names(5_000), 3, arrivals=2_000, between=2.0, lifetime=30.0, spread=0.5)
    arrived: dict[str, float] = {}
    arrivals, lives = [], []
    for step in trace.steps:
        at = step.at or 0.0
        if step.action is Action.SUBMIT:
            arrived[step.dataflow] = at
            arrivals.append(at)
        else:
            lives.append(at - arrived.pop(step.dataflow))
    assert abs(arrivals[-1] / 1_999 - 2.0) < 0.2
    assert abs(statistics.median(lives) - 30.0) < 3.0


@given(many=st.integers(2, 20), seed=SEEDS)
def test_the_same_seed_draws_the_same_trace_and_a_file_keeps_it(many: int, seed: int) -> None:
    """What is written is what is read, times included."""
    for draw in (sequential, random_walk, poisson):
        trace = draw("w", names(many), seed)
        assert trace == draw("w", names(many), seed)
        assert trace == trace_of(trace_json(trace), "here")


def test_another_seed_draws_another_trace() -> None:
    """In every model."""
    for draw in (sequential, random_walk, poisson):
        assert draw("w", names(20), 1).steps != draw("w", names(20), 2).steps


def test_a_trace_that_was_written_is_read_again(tmp_path: Path) -> None:
    """From its file, a line for each step."""
    trace = poisson("w", names(5), 1, arrivals=4)
    write_trace(trace, tmp_path / "trace.json")
    assert trace == read_trace(tmp_path / "trace.json")
    assert 8 + 2 == len((tmp_path / "trace.json").read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "nowhere: there is no such workload"),
        (["riotbench", "--into", "{folder}"], "name a file that can be written"),
    ],
)
def test_a_trace_that_cannot_be_drawn_says_why(arguments: list[str], reason: str, tmp_path: Path) -> None:
    """In one line, with the exit code for what is of no use."""
    given_into = [each.format(folder=tmp_path) for each in arguments]
    if "--into" not in given_into:
        given_into += ["--into", str(tmp_path / "trace.json")]
    result = CliRunner().invoke(app, ["trace", *given_into])
    assert 1 == result.exit_code
    assert reason in result.stderr
