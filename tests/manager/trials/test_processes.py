"""The process of a trial: its bounds hold whatever a task does."""

from dataclasses import replace

import pytest

from dags import Kind
from engine.dataflow_trial import TrialOrder, TrialStream, run_trial
from engine.plan import Edge, Forward, Ingress, Plan, Slot, Subscribed
from manager.trials import processes
from manager.trials.orders import TRIAL_LIMITS
from manager.trials.processes import TrialBounds, TrialEnded, TrialFailed, TrialProcesses

PATIENT = 120.0
BOUNDS = TrialBounds(cpu_seconds=2, seconds=PATIENT)


def order(behaviour: str, count: int = 1) -> TrialOrder:
    """A trial of one task on some events."""
    supply = Subscribed(topic="t", fields={"t": Kind.INTEGER})
    plan = Plan(
        job="trial",
        host="trial",
        version=1,
        slots=(Slot(instance=2, type="noop", inputs=(Edge(parent=1),)),),
        ingress=(Ingress(stream="s", instance=1, supply=supply),),
        forwards=(Forward(instance=2),),
        limits=TRIAL_LIMITS,
    )
    return TrialOrder(
        plan=plan,
        behaviours={"noop": behaviour},
        streams={"s": TrialStream(pasted=tuple(f'{{"t":{number}}}' for number in range(count)))},
        newest=0,
        now=0,
        shown=3,
        most_bytes=1_000,
    )


def hostile(name: str) -> str:
    return f"tests.manager.trials.hostile_tasks:{name}"


WELL = "engine.implementations.compute:noop"


def test_the_process_says_what_the_kernel_says_here() -> None:
    """Of many events the last ones are shown."""
    result = TrialProcesses(BOUNDS).run(order(WELL, count=50))
    assert run_trial(order(WELL, count=50)) == result
    left = result.left[2]["out"]
    assert (50, tuple(f'{{"t":{number}}}' for number in (47, 48, 49))) == (left.count, left.newest)


def test_an_endless_task_is_killed_by_its_cpu() -> None:
    """Who ran is known."""
    with pytest.raises(TrialEnded, match="used more than 2 s of CPU") as ended:
        TrialProcesses(BOUNDS).run(order(hostile("endless")))
    assert 2 == ended.value.instance


def test_a_sleeping_task_is_killed_by_its_time() -> None:
    """It takes no CPU."""
    with pytest.raises(TrialEnded, match="took more than 6 s") as ended:
        TrialProcesses(TrialBounds(seconds=6.0)).run(order(hostile("sleeping")))
    assert 2 == ended.value.instance


def test_a_task_gets_no_more_memory_than_there_is_for_it() -> None:
    """Its events are rejected for that, as in a job."""
    (rejected,) = TrialProcesses(BOUNDS).run(order(hostile("huge"))).rejected
    assert "MemoryError" in rejected.reason


def test_a_task_that_emits_very_much_is_bounded_as_in_a_job() -> None:
    """What is left of its events is rejected, and the answer is small."""
    result = TrialProcesses(TrialBounds(cpu_seconds=10, seconds=PATIENT)).run(order(hostile("flooding"), count=100))
    (rejected,) = result.rejected
    assert "64,000,000 bytes for what it emits" in rejected.reason
    left = result.left[2]["out"]
    assert (100, 3) == (result.taken[2], len(left.newest))
    assert left.count + 500_000 * rejected.events.count == 500_000 * 100


def test_a_task_writes_no_file_and_no_line_of_the_trial() -> None:
    """Though it tries."""
    (rejected,) = TrialProcesses(BOUNDS).run(order(hostile("writing"))).rejected
    assert "No usable temporary directory" in rejected.reason


def test_the_process_has_no_secret_of_the_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is made for it."""
    monkeypatch.setenv("BRAID_KEY", "secret")
    (rejected,) = TrialProcesses(BOUNDS).run(order(hostile("looking"))).rejected
    assert "KeyError" in rejected.reason


def test_a_trial_that_fails_by_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No document should cause that, so its tenant learns only that it failed."""
    sent = order(WELL)
    slot = replace(sent.plan.slots[0], inputs=(Edge(parent=2),))
    with pytest.raises(TrialFailed):
        TrialProcesses(BOUNDS).run(replace(sent, plan=replace(sent.plan, slots=(slot,))))
    assert "Traceback" in caplog.text


def test_a_trial_that_says_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager reads no more than it has room for."""
    monkeypatch.setattr(processes, "_MOST_OUTPUT", 3)
    with pytest.raises(TrialEnded, match="said too much"):
        TrialProcesses(BOUNDS).run(order(WELL))
