"""Tasks that move from job to job on the real parts, while tenants come and go: outputs are as of each alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manager.kernel.draft import DecisionGround
from manager.kernel.state import CommittedState
from manager.kernel.transitions import Chosen
from merge import Assignment, Home
from tests.integration.hosting import QUICK
from tests.integration.moving import Scattered, Within
from tests.integration.serving import BROKER, Served, serving

pytestmark = [pytest.mark.full, pytest.mark.spark]


_WORDS = {"host": "engine.machines.process", "broker": BROKER}
"""What the command lines of processes are recognised by."""


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that scatters."""
    with serving(Served(tmp_path_factory.mktemp("moves"), pace=QUICK, placement="launch")) as made:
        yield made


def chosen(assignment: Assignment) -> Callable[[CommittedState, DecisionGround], Chosen]:
    return lambda _state, _ground: Chosen(assignment, "a test")


@contextmanager
def scattered(served: Served, seed: int) -> Iterator[Scattered]:
    town = Scattered(served, seed)
    try:
        yield town
    finally:
        town.close()


def scatter_and_consolidate(town: Scattered, defragmentations: int) -> None:
    done = 0
    for _ in range(20 * defragmentations):
        if done == defragmentations:
            break
        town.change()
        town.publish()
        if town.draw.random() < 0.7 and town.defragment():
            done += 1
            # Some changes come while tasks are moved.
            if town.draw.random() < 0.5:
                town.change()
            town.until_settled()
    assert done == defragmentations
    town.check()
    jobs = {job.job for job in town.operator.jobs()}
    town.served.until(lambda: {job for host in town.operator.hosts() for job in host.jobs} == jobs, "idle jobs to stop")
    reasons = [each.note for each in town.operator.operations() if each.kind == "move tasks"]
    assert any("outputs stood still" in note for note in reasons)
    assert not any("went back" in note for note in reasons), reasons


@pytest.mark.slow
def test_outputs_are_those_of_dataflows_that_run_alone(served: Served) -> None:
    """However often jobs are consolidated: nothing is lost, doubled, or computed from a fresh state."""
    with scattered(served, seed=1) as town:
        scatter_and_consolidate(town, 4)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", [2, 3])
def test_outputs_are_right_after_many_defragmentations(served: Served, seed: int) -> None:
    """So it is after fifty of them."""
    with scattered(served, seed) as town:
        scatter_and_consolidate(town, 50)


@pytest.mark.slow
def test_a_running_dag_is_split_and_joined_again(tmp_path: Path) -> None:
    """A part of it goes to a job of its own, over a bridge, and comes back; its counts go on all the while."""
    with Within(tmp_path) as served, scattered(served, seed=7) as town:
        town.submit()
        town.publish(30)
        (flow,) = town.flows
        for _ in range(2):
            with served.committer.looking() as state:
                homes, following = state.jobs.homes, state.jobs.next_job
                tasks = [task for task in state.running.tasks.values() if task.type.name in {"count", "output"}]
                places = tuple((task.instance, Home(following, homes[task.instance].busy)) for task in tasks)
                split = Assignment(base=state.jobs.version, opens=((following, "local"),), places=places)
            served.changes.moves.begin(chosen(split), who="operator")
            town.until_settled()
            assert 2 == len(list(town.operator.jobs()))
            town.check()
            assert town.defragment()
            town.until_settled()
            assert 1 == len(list(town.operator.jobs()))
            town.check()
        assert flow.counter is not None


@pytest.mark.parametrize(
    ("phase", "killed"),
    [
        pytest.param(phase, killed, marks=() if (phase, killed) == ("cutting", "manager") else pytest.mark.slow)
        for phase in ("preparing", "cutting", "taking")
        for killed in ("manager", "host", "broker")
    ],
)
def test_a_process_killed_amid_a_move_takes_nothing_with_it(served: Served, phase: str, killed: str) -> None:
    """Once it is back it takes the move on where it was, or the move goes back; outputs are whole either way."""
    with scattered(served, seed=5) as town:
        for _ in range(3):
            town.submit()
        # Raw events that are under way when a broker is killed may come twice, as the documentation says.
        town.check()
        victim = None if killed == "manager" else served.below_keeper(_WORDS[killed])
        assert town.defragment()
        served.until(lambda: town.phase() in {phase, None}, f"the move to be {phase}")
        if victim is None:
            served.kill()
            town.publish()
            served.start()
        else:
            victim.kill()
            # What is sent to a broker that is away waits in the sender's client.
            served.until(served.ready, "the service to be ready again")
        town.until_settled()
        town.check()
