"""A host's process and those below it: if one dies or hangs the jobs go on, and at the end none is left."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bridge import Spool, topics
from engine.kernel import watchdog
from engine.machines import process
from engine.plan import Plan
from engine.spark import session
from tests.integration import telling
from tests.integration.clusters import offering
from tests.integration.hosting import HOST, QUICK, Hosting, counted, delivery, numbers, raw, slot

pytestmark = pytest.mark.spark

KEEPER = """
import sys
from pathlib import Path
from bridge.transport.address import Address
from engine.host.keeper import HostKeeper, MachineOptions
with HostKeeper(sys.argv[1], Path(sys.argv[2]), Address.parse(sys.argv[3]), MachineOptions(master="local[1]")):
    sys.stdin.read()
"""
BOUND = 180.0
"""Seconds that a busy machine may take to start Spark, and for anything else."""
HANGING = BOUND + 2 * session._LOOK_SECONDS * session._HANGS_AFTER


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A host for all tests here; each test leaves it running."""
    folder = tmp_path_factory.mktemp("host")
    offered = offering(folder / "offered", {"tell": "telling:tell"})
    shutil.copy(telling.__file__, offered)
    made = Hosting(folder, environment={**os.environ, "PYTHONPATH": str(offered)})
    try:
        yield made
    finally:
        made.close()


class Counting:
    """A job that counts, alone or beside a task that hangs."""

    def __init__(self, hosting: Hosting, *, stuck: bool = False) -> None:
        self.source, self.count, self.end, self.tell = (hosting.fresh() for _ in range(4))
        self.hosting = hosting
        self.name = f"j{self.source}"
        self.topic = f"street/{self.source}"
        self.counts = delivery(self.end)
        self.sent = 0
        self.run(stuck=stuck)

    def run(self, *, stuck: bool) -> None:
        """Run a new plan, and wait for it."""
        slots = (slot(self.count, "count", self.source, by=["k"]), slot(self.end, "output", self.count))
        sent = self.hosting.send(
            Plan(
                job=self.name,
                host=HOST,
                version=1,
                ingress=(raw(self.topic, self.source),),
                slots=(*slots, slot(self.tell, "tell", self.source, stuck=True)) if stuck else slots,
                deliveries=(self.counts,),
                pace=QUICK,
            )
        )
        self.hosting.until(lambda: self.hosting.in_effect(sent), f"{self.name} in effect", bound=BOUND)

    def publish(self, many: int) -> None:
        """Send it more events."""
        self.hosting.publish(self.topic, numbers(self.sent, self.sent + many))
        self.sent += many

    def settle(self) -> None:
        """Wait until everything that was sent is counted, and check the counts."""
        self.hosting.until(lambda: self.hosting.count(self.counts) >= self.sent, "all counts", bound=BOUND)
        assert counted(numbers(0, self.sent)) == self.hosting.delivered(self.counts)


def below(process: int) -> list[psutil.Process]:
    """A process and all its descendants."""
    found = psutil.Process(process)
    return [found, *found.children(recursive=True)]


def ended(process: psutil.Process) -> bool:
    """Whether a process has ended, even if it was not reaped yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def opens_in_vain(process: psutil.Process) -> bool:
    """Whether one of its threads is opening a pipe that nobody writes to."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if (task / "wchan").read_text() == "wait_for_partner":
                return True
    return False


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {BOUND:g} s: {what}")
        time.sleep(0.05)


@pytest.mark.full
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)], ids=["dies", "hangs"]
)
def test_a_host_comes_back_whose_jvm(
    hosting: Hosting, caplog: pytest.LogCaptureFixture, number: signal.Signals
) -> None:
    """It ends with a code for that and is started again; its jobs go on with nothing lost or doubled."""
    job = Counting(hosting)
    job.publish(5)
    job.settle()
    before = hosting.keeper.pid
    with caplog.at_level(logging.WARNING, "braid.keeper"):
        java = next(each for each in below(before) if each.name() == "java")
        java.send_signal(number)
        job.publish(5)
        hosting.until(lambda: hosting.keeper.pid != before, "another host process", bound=HANGING)
    job.settle()
    assert [f"host {HOST} ended with {process.JVM_DIED}"] == [each.split(";")[0] for each in caplog.messages]
    assert ended(java)


@pytest.mark.slow
def test_a_host_that_was_stopped_misses_nothing(hosting: Hosting) -> None:
    """Events that are published between its end and its next start wait at the broker, and are counted then."""
    job = Counting(hosting)
    job.publish(5)
    job.settle()
    before = hosting.keeper.pid
    psutil.Process(before).terminate()
    hosting.until(lambda: hosting.host_status().get("alive") is False, "the host to end")
    job.publish(5)
    hosting.until(lambda: hosting.keeper.pid != before, "another host process", bound=BOUND)
    job.settle()


def test_a_task_that_hangs_in_c_does_not_keep_its_job_from_stopping(hosting: Hosting) -> None:
    """It handles no signal in Python and lets no thread run; it is killed with its job, and the host stays.

    The job runs that batch again without the events that were removed meanwhile, and goes on.
    """
    before = hosting.keeper.pid
    job = Counting(hosting, stuck=True)
    job.publish(1)
    attempts = hosting.folder(job.name).attempts
    hung = hosting.until(lambda: [path for path in attempts.iterdir() if path.is_file()], "the task to hang")
    hosting.stop_job(job.name)
    # A try of the batch holds a lock on its file as long as it lives.
    hosting.until(lambda: all(watchdog._left(path) is not None for path in hung), "the end of what hung")
    stream = f"raw/{job.topic}"
    hosting.until(lambda: stream not in hosting.host_status()["spools"], "nobody supplies the spool")
    spool = Spool(hosting.spool(stream), most_bytes=1 << 20)
    spool.prune()
    assert 1 == spool.first
    spool.close()
    job.run(stuck=False)
    job.publish(2)
    hosting.until(lambda: hosting.count(job.counts) >= 2, "what came since", bound=BOUND)
    assert counted(numbers(1, 3)) == hosting.delivered(job.counts)
    assert before == hosting.keeper.pid


@pytest.mark.slow
def test_a_query_that_does_not_stop_restarts_its_host(hosting: Hosting, caplog: pytest.LogCaptureFixture) -> None:
    """After a while the host ends with a code for that, and its other jobs go on in the next process."""
    stays, hangs = Counting(hosting), Counting(hosting)
    for job in (stays, hangs):
        job.publish(5)
        job.settle()
    before = hosting.keeper.pid
    java = next(each for each in below(before) if each.name() == "java")
    # Opening it blocks for ever, like a file system that is gone.
    log = hosting.folder(hangs.name).spark / "offsets"
    os.mkfifo(log / str(1 + max(int(path.name) for path in log.iterdir() if path.name.isdigit())))
    hangs.publish(1)
    until(lambda: opens_in_vain(java), "the query to hang")
    with caplog.at_level(logging.WARNING, "braid.keeper"):
        hosting.client.publish(topics.job(hangs.name, "plan"), b"", retain=True)
        hosting.until(lambda: hosting.keeper.pid != before, "another host process", bound=BOUND)
    stays.publish(5)
    stays.settle()
    assert [f"host {HOST} ended with {process.STUCK}"] == [each.split(";")[0] for each in caplog.messages]


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True], ids=["stopped", "killed"])
def test_no_process_of_a_host_is_left(hosting: Hosting, tmp_path: Path, *, killed: bool) -> None:
    """No process of its tree outlives it, whether its keeper stops it or is killed itself."""
    name = f"host{hosting.fresh()}"
    arguments = [name, str(tmp_path / "root"), hosting.broker.address("braid").url]
    command = [sys.executable, "-c", KEEPER, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as keeper:  # noqa: S603 - our own module
        try:
            status = topics.host(name, "status")
            hosting.until(lambda: any(each["alive"] for each in hosting.heard(status)), "the host to start")
            tree = below(keeper.pid)
            assert any(each.name() == "java" for each in tree)
            if not killed:
                keeper.communicate(timeout=BOUND)
                assert 0 == keeper.returncode
        finally:
            keeper.kill()
    until(lambda: all(map(ended, tree)), f"the end of {tree}")
