"""Tasks that kill their worker, hang or take all memory: found by name, and parked for good.

A worker is a process of its own, forked by one that has everything imported, as Spark's are. There are attempts at one
batch until one comes through.
"""

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.kernel.watchdog import Attempt, Death, TaskVerdict, judge, verdicts
from engine.plan import Limits

MOST_ATTEMPTS = 8
"""So many Spark makes before it ends the query."""
WORKER = """
import json, os, signal, sys, time
import numpy as np
from pathlib import Path
from engine.behaviour import PortEmission
from engine.plan import Limits
from engine.kernel.watchdog import Attempt
from tests.engine.kernels import Machine, arrived, behaviours, dead, entry, left, slot

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
bad = {(int(instance), b): what for instance, b, what in settings["bad"]}
seen = []

def fall(what):
    if what == "exit":
        os._exit(3)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        while True:
            pass
    if what == "sleep":
        time.sleep(3600)
    if what == "hog":
        kept = np.empty(3_000_000_000, np.uint8)
    if what == "raise":
        raise ValueError("no")

def wild(instance):
    def behave(port, rows, state):
        for b in rows.column("b").to_pylist():
            fall(bad.get((instance, b)))
        if not len(rows):
            fall(bad.get((instance, "empty")))
        state.put((), (state.get(()) or 0) + len(rows))
        return {"out": PortEmission(rows)}
    return behave

def work():
    slots = [slot(2, "output", 1), slot(3, "output", 2), slot(4, "output", 1)]
    machine = Machine(entry=entry(slots), made={**behaviours(slots), 2: wild(2), 3: wild(3)})
    limits = Limits(hang=settings["hang"], memory=settings["memory"])
    with Attempt(folder, settings["batch"], limits) as attempt:
        running = attempt.running
        def watched(instance, event=None):
            running(instance, event)
            # Like a process that kills workers at random.
            if [instance, event and list(event)] in settings["mine"]:
                fall("kill")
        attempt.running = watched
        if settings["raises"]:
            attempt.running(2, (0, 0))
            raise RuntimeError("the kernel's own")
        items = [arrived([{"b": b} for b in range(settings["events"])])]
        record = machine.run(items, watch=attempt)
        print(json.dumps({
            "dead": [[instance, reason, b] for instance, _, reason, b in dead(record)],
            "left": [[row["b"] for row in left(record, instance)] for instance in (2, 3, 4)],
            "counted": machine.state.of(2).get(()),
        }), flush=True)

for number in range(settings["attempts"]):
    child = os.fork()
    if not child:
        try:
            work()
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps(ended), flush=True)
    if not ended:
        break
"""


class Worked(NamedTuple):
    """What a series of attempts came to."""

    attempts: int
    report: Mapping[str, Any]

    @property
    def dead(self) -> list[tuple[int, str, int]]:
        return [(instance, reason, b) for instance, reason, b in self.report["dead"]]


def attempts(folder: Path, most: int, **settings: Any) -> list[Any]:
    """What the attempts said, and with what each ended."""
    words = {"batch": 5, "events": 6, "bad": [], "mine": [], "raises": False, "hang": 60.0, "memory": 8_000_000_000}
    worker = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", WORKER, str(folder), json.dumps({**words, "attempts": most, **settings})],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in worker.stdout.splitlines()]


def work_off(folder: Path, bad: Sequence[tuple[int, Any, str]], **settings: Any) -> Worked:
    """Attempts at one batch until one comes through."""
    *ended, said, last = attempts(folder, MOST_ATTEMPTS, bad=bad, **settings)
    assert 0 == last
    return Worked(len(ended) + 1, said)


def test_a_task_that_does_no_harm_is_not_suspected(tmp_path: Path) -> None:
    """One attempt is enough, and leaves no files."""
    worked = work_off(tmp_path, [])
    assert (1, []) == (worked.attempts, worked.dead)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("what", [pytest.param("exit", marks=pytest.mark.slow), "kill"])
def test_an_event_that_kills_the_worker_is_parked(tmp_path: Path, what: str) -> None:
    """After three deaths. All other events pass, with the state that they make."""
    worked = work_off(tmp_path, [(2, 3, what)])
    assert (4, [(2, "killed its worker", 3)]) == (worked.attempts, worked.dead)
    good = [0, 1, 2, 4, 5]
    assert {"left": [good, good, [*range(6)]], "counted": 5} == {key: worked.report[key] for key in ("left", "counted")}


@pytest.mark.parametrize("what", ["hang", pytest.param("sleep", marks=pytest.mark.slow)])
def test_an_event_that_hangs_is_parked(tmp_path: Path, what: str) -> None:
    """After two deaths, because there is no doubt. The verdict names the place, and holds until the next batch."""
    worked = work_off(tmp_path, [(2, 3, what)], hang=1.0)
    assert (3, [(2, "hung for over 1 s", 3)]) == (worked.attempts, worked.dead)
    [verdict] = verdicts(tmp_path, 5)
    assert (2, (3, 0)) == (verdict.instance, verdict.event)
    assert "in fall" in verdict.traceback
    work_off(tmp_path, [], batch=6)
    assert ([], ["tmp"]) == (verdicts(tmp_path, 5), [path.name for path in tmp_path.iterdir()])


def test_a_task_that_takes_all_memory_is_parked(tmp_path: Path) -> None:
    """Its own process refuses the memory, so that nothing dies."""
    worked = work_off(tmp_path, [(2, 3, "hog")], memory=2_000_000_000)
    [(instance, reason, b)] = worked.dead
    assert (1, 2, 3, 5) == (worked.attempts, instance, b, worked.report["counted"])
    assert "Unable to allocate 2.79 GiB" in reason


def test_a_task_with_many_deadly_events_is_parked_from_the_third_on(tmp_path: Path) -> None:
    """This limits the attempts. Events before them pass."""
    worked = work_off(tmp_path, [(2, b, "kill") for b in range(2, 9)], events=10)
    assert MOST_ATTEMPTS == worked.attempts
    rest = "3 earlier events of the batch were parked: killed its worker"
    assert [
        *((2, "killed its worker", b) for b in (2, 3, 4)),
        *((2, rest, b) for b in range(5, 10)),
    ] == worked.dead
    assert [0, 1] == worked.report["left"][0]


def test_two_deadly_tasks_are_distinguished(tmp_path: Path) -> None:
    """Each loses its own event. Parking one upstream does not convict another event downstream."""
    worked = work_off(tmp_path, [(3, 4, "kill"), (2, 1, "hang")], hang=1.0)
    assert [(2, "hung for over 1 s", 1), (3, "killed its worker", 4)] == worked.dead
    assert [[0, 2, 3, 4, 5], [0, 2, 3, 5], [*range(6)]] == worked.report["left"]
    assert 6 == worked.attempts


def test_what_raises_and_what_kills_are_parked_each_for_its_reason(tmp_path: Path) -> None:
    """Even if the suspect runs event by event."""
    worked = work_off(tmp_path, [(2, 1, "raise"), (2, 3, "kill"), (2, 5, "raise")])
    assert [(2, "ValueError: no", 1), (2, "killed its worker", 3), (2, "ValueError: no", 5)] == worked.dead


def test_a_task_that_is_deadly_without_events_is_parked_whole(tmp_path: Path) -> None:
    """Even an empty batch kills the worker."""
    worked = work_off(tmp_path, [(2, "empty", "exit")])
    assert (4, [(2, "killed its worker", b) for b in range(6)]) == (worked.attempts, worked.dead)
    assert [*range(6)] == worked.report["left"][2]


@pytest.mark.full
@pytest.mark.parametrize(
    "mine",
    [
        pytest.param([[2, None]], marks=pytest.mark.slow),
        [[2, None], [2, [3, 0]]],
        pytest.param([[3, None], [4, None]], marks=pytest.mark.slow),
    ],
)
def test_workers_killed_at_random_cost_no_event(tmp_path: Path, mine: list[Any]) -> None:
    """Not even if the same innocent task ran twice."""
    for place in mine:
        assert [-signal.SIGKILL] == attempts(tmp_path, 1, mine=[place])
    worked = work_off(tmp_path, [])
    assert (1, []) == (worked.attempts, worked.dead)
    assert [[*range(6)]] * 3 == worked.report["left"]
    assert [] == list(tmp_path.iterdir())


def test_an_attempt_that_ends_by_itself_accuses_nobody(tmp_path: Path) -> None:
    """An error of the kernel or the store is not a task's death."""
    assert [1] * 4 == attempts(tmp_path, 4, raises=True)
    assert [] == list(tmp_path.iterdir())


def test_an_attempt_that_still_lives_accuses_nobody(tmp_path: Path) -> None:
    """An orphan may run beside a newer attempt. Its file counts only after its death."""
    child = (
        "import sys, time; from pathlib import Path; from engine.plan import Limits\n"
        "from engine.kernel.watchdog import Attempt\n"
        "with Attempt(Path(sys.argv[1]), 5, Limits()) as attempt:\n"
        "    attempt.running(2, (3, 0))\n"
        "    print('runs', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", child, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as orphan:
        assert orphan.stdout is not None
        assert b"runs\n" == orphan.stdout.readline()
        with Attempt(tmp_path, 5, Limits()) as beside:
            assert not beside.alone(2)
        [left_alone] = tmp_path.iterdir()
        orphan.kill()
    assert left_alone.exists()
    with Attempt(tmp_path, 5, Limits()) as after:
        assert after.alone(2)
        assert "" == after.parked(2, (3, 0))
    assert not left_alone.exists()


def test_deaths_count_for_their_batch_alone(tmp_path: Path) -> None:
    """Deaths at another batch do not count, and are removed once a later one is recorded."""
    attempts(tmp_path, 1, bad=[(2, 3, "kill")])
    with Attempt(tmp_path, 4, Limits()) as earlier:
        assert not earlier.alone(2)
    assert 1 == len([path for path in tmp_path.iterdir() if re.match(f"{5:020d}-", path.name)])
    with Attempt(tmp_path, 6, Limits()) as later:
        assert not later.alone(2)
    assert [] == list(tmp_path.iterdir())


def test_a_file_that_was_never_begun_accuses_nobody(tmp_path: Path) -> None:
    """An attempt may die before it writes anything."""
    (tmp_path / f"{5:020d}-{1:020d}-abcdef01").touch()
    with Attempt(tmp_path, 5, Limits()):
        pass
    assert [] == list(tmp_path.iterdir())


def test_a_verdict_is_kept_although_the_deaths_are_forgotten(tmp_path: Path) -> None:
    """It is durable, so that a repeated batch obeys it."""
    attempts(tmp_path, 3, bad=[(2, 3, "kill")])
    with pytest.raises(ZeroDivisionError), Attempt(tmp_path, 5, Limits()):
        raise ZeroDivisionError
    for path in tmp_path.glob(f"{5:020d}-*"):
        path.unlink()
    worked = work_off(tmp_path, [(2, 3, "kill")])
    assert (1, [(2, "killed its worker", 3)]) == (worked.attempts, worked.dead)
    assert [TaskVerdict(batch=5, instance=2, event=(3, 0), reason="killed its worker")] == verdicts(tmp_path, 5)


AT, ANYWHERE = Death(2, (3, 0), hung=False, traceback=""), Death(2, None, hung=False, traceback="")
HUNG, HUNG_ANYWHERE = AT._replace(hung=True), ANYWHERE._replace(hung=True)
OTHER = AT._replace(event=(3, 1))


@pytest.mark.parametrize(
    ("deaths", "convicted"),
    [
        ([ANYWHERE], []),
        ([ANYWHERE, AT], []),
        ([ANYWHERE, AT, AT], [(3, 0)]),
        ([AT, AT], []),
        ([ANYWHERE, AT, OTHER], []),
        ([ANYWHERE, AT, OTHER, OTHER], [(3, 1)]),
        ([ANYWHERE, AT, AT, OTHER], [(3, 0)]),
        ([ANYWHERE, ANYWHERE], []),
        ([ANYWHERE, ANYWHERE, ANYWHERE], [None]),
        ([HUNG_ANYWHERE], []),
        ([HUNG_ANYWHERE, HUNG_ANYWHERE], [None]),
        ([HUNG_ANYWHERE, HUNG], [(3, 0)]),
        ([AT, AT._replace(instance=7), ANYWHERE], []),
    ],
)
def test_convictions(deaths: list[Death], convicted: list[Any]) -> None:
    """After three deaths in an instance, two of them at one event, or one certain hang at an event."""
    assert convicted == [verdict.event for verdict in judge(5, deaths, 60)]


def test_memory_is_limited_for_the_batch_alone(tmp_path: Path) -> None:
    """The worker serves other jobs afterwards."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with Attempt(tmp_path, 5, Limits(memory=64_000_000_000)):
        assert (64_000_000_000, before[1]) == resource.getrlimit(resource.RLIMIT_DATA)
    assert before == resource.getrlimit(resource.RLIMIT_DATA)
