"""A host on a Spark standalone cluster whose workers do not have Braid: the same plans, the same outputs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge import topics
from engine.plan import Plan
from engine.records.files import RecordFile
from engine.records.store import RecordStore
from tests.chaos.scenes import first_difference_by_key
from tests.integration import telling
from tests.integration.clusters import Cluster, bare_python, cluster_in, offering
from tests.integration.hosting import HOST, QUICK, Hosting, counted, deliveries, delivery, numbers, raw, slot

pytestmark = [pytest.mark.full, pytest.mark.spark]

STARTING = 240.0
"""Seconds for the Java processes of the workers to start, one after the other, on a busy machine."""
ROUNDS = 30
"""Enough batches to reach both workers: Spark gives each batch to either by chance."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the workers."""
    return bare_python(tmp_path_factory.mktemp("python") / "bare")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests here."""
    with cluster_in(tmp_path_factory.mktemp("cluster") / "spark", workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def hosting(cluster: Cluster, python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A host on the cluster, with two packages: one that the workers have too, and one that they do not."""
    folder = tmp_path_factory.mktemp("host")
    offered = offering(
        folder / "offered", {"tell": "telling:tell", "absent": "missing_there:task"}, {"tell": "telling:tell.type"}
    )
    # The host reads what a task type says of itself, to divide its work.
    shutil.copy(telling.__file__, offered)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(offered),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    made = Hosting(folder, master=cluster.url, environment=environment)
    try:
        yield made
    finally:
        made.close()


class Job:
    """A job that reports where it runs, and counts its events."""

    def __init__(self, hosting: Hosting, **config: object) -> None:
        source, tell, reports, count, counts = (hosting.fresh() for _ in range(5))
        self.hosting = hosting
        # With a space, because names become the names of files.
        self.name = f"job {source}"
        self.topic = f"street/{source}"
        self.reports, self.counts = delivery(reports), delivery(counts)
        self.sent = 0
        running = (
            slot(tell, "tell", source, **config),
            slot(reports, "output", tell),
            slot(count, "count", source, by=["k"]),
            slot(counts, "output", count),
        )
        self.source = source
        self.plan = Plan(
            job=self.name,
            host=HOST,
            version=1,
            ingress=(raw(self.topic, source),),
            slots=running,
            deliveries=deliveries(running),
            pace=QUICK,
        )
        hosting.send(self.plan)

    def begin(self) -> None:
        """Wait until it runs."""
        self.hosting.until(
            lambda: self.hosting.status(self.name).get("in_effect"), f"{self.name} in effect", bound=STARTING
        )

    def publish(self, many: int = 3) -> None:
        """Send it more events."""
        self.hosting.publish(self.topic, numbers(self.sent, self.sent + many))
        self.sent += many

    def settle(self) -> None:
        """Wait until everything that was sent came out, and check it."""
        leaving = (self.reports, self.counts)
        self.hosting.until(
            lambda: min(map(self.hosting.count, leaving)) >= self.sent, f"all outputs of {self.name}", bound=STARTING
        )
        reports = self.hosting.delivered(self.reports)
        assert list(range(self.sent)) == [event["n"] for event in reports]
        assert counted(numbers(0, self.sent)) == self.hosting.delivered(self.counts)

    def seen(self, what: str) -> set[str]:
        """The places that its events report."""
        return {event[what] for event in self.hosting.delivered(self.reports)}


class ShardedJob(Job):
    """A job of that kind with many keys, and with shards."""

    KEYS = 16

    def divide(self, shards: int) -> None:
        """Give it another number of shards."""
        self.plan = self.hosting.run(replace(self.plan, shards=shards))

    def publish(self, many: int = 64) -> None:
        """Send it more events."""
        self.hosting.publish(self.topic, numbers(self.sent, self.sent + many, keys=self.KEYS))
        self.sent += many

    def settle(self) -> None:
        """Wait until everything that was sent came out, and check that each key has its own in order."""
        leaving = (self.reports, self.counts)
        self.hosting.until(
            lambda: min(map(self.hosting.count, leaving)) >= self.sent, f"all outputs of {self.name}", bound=STARTING
        )
        expected = counted(numbers(0, self.sent, keys=self.KEYS))
        assert "" == first_difference_by_key(expected, self.hosting.delivered(self.counts))
        assert list(range(self.sent)) == sorted(event["n"] for event in self.hosting.delivered(self.reports))

    def side_by_side(self) -> set[str]:
        """The workers that ran shards of one of the last batches, the most there were."""
        store = RecordStore(self.hosting.folder(self.name).records)
        # Older ones may be pruned meanwhile.
        return max((self._workers_of(store.file(batch)) for batch in store.batches()[-2:]), key=len)

    def _workers_of(self, record: RecordFile) -> set[str]:
        reports = (each for each in record.emitted() if each.origin.instance == self.reports.instance)
        return {worker for each in reports if each.events for worker in each.events.column("worker").to_pylist()}


def test_the_workers_do_not_have_braid(python: Path, tmp_path: Path) -> None:
    """The other tests depend on it: the Python of the workers cannot import the engine by itself."""
    ended = subprocess.run(  # noqa: S603 - a Python that the test made
        [python, "-c", "import engine"], cwd=tmp_path, env={}, capture_output=True, check=False
    )
    assert b"No module named 'engine'" in ended.stderr


@pytest.mark.slow
def test_jobs_spread_over_the_workers(hosting: Hosting, cluster: Cluster) -> None:
    """Each of three jobs runs on both workers, with the code from the host's archive; outputs and states are right."""
    jobs = [Job(hosting) for _ in range(3)]
    for job in jobs:
        job.begin()
    workers = {str(worker.folder) for worker in cluster.workers}
    for _ in range(ROUNDS):
        for job in jobs:
            job.publish()
        for job in jobs:
            job.settle()
        if all(job.seen("worker") == workers for job in jobs):
            break
    for job in jobs:
        assert workers == job.seen("worker")
        assert all("/braid-" in path and path.endswith(".zip/engine/__init__.py") for path in job.seen("code"))


@pytest.mark.slow
def test_shards_of_one_batch_run_on_several_workers(hosting: Hosting, cluster: Cluster) -> None:
    """A job that grows and shrinks counts right, also if an executor is killed with the shard that it runs."""
    job = ShardedJob(hosting)
    job.begin()
    job.publish()
    job.settle()
    job.divide(2)
    workers = {str(worker.folder) for worker in cluster.workers}
    for _ in range(ROUNDS):
        job.publish()
        job.settle()
        if job.side_by_side() == workers:
            break
    assert workers == job.side_by_side()
    job.publish()
    cluster.workers[0].kill_executors()
    job.publish()
    job.divide(3)
    job.publish()
    job.settle()
    job.divide(1)
    job.publish()
    job.settle()
    assert 0 == hosting.keeper.deaths


@pytest.mark.slow
def test_a_package_that_a_worker_lacks_hurts_its_task_alone(hosting: Hosting) -> None:
    """Its events are parked, with a reason that says what to install where; the other tasks of the job go on."""
    absent = hosting.fresh()
    job = Job(hosting)
    job.begin()
    job.plan = hosting.run(
        Plan(
            job=job.name,
            host=HOST,
            version=1,
            ingress=job.plan.ingress,
            slots=(*job.plan.slots, slot(absent, "absent", job.source)),
            deliveries=job.plan.deliveries,
            pace=QUICK,
        )
    )
    job.publish()
    job.settle()
    parked = hosting.until(lambda: hosting.heard(topics.dead(absent)), "dead letters")
    assert "missing_there" in parked[0]["reason"]
    assert "install its package with all dependencies on every worker" in parked[0]["reason"]


@pytest.mark.slow
def test_a_task_that_waits_holds_up_no_other_job(hosting: Hosting, tmp_path: Path) -> None:
    """While a batch of one job takes long, another job goes on where a core is free."""
    gate = tmp_path / "gate"
    waits, runs = Job(hosting, until=str(gate)), Job(hosting)
    waits.begin()
    runs.begin()
    waits.publish()
    for _ in range(3):
        runs.publish()
        runs.settle()
    assert hosting.count(waits.reports) == 0
    gate.touch()
    waits.settle()


def test_jobs_go_on_when_a_worker_is_lost(hosting: Hosting, cluster: Cluster) -> None:
    """After a worker was killed with all that it ran, the other runs every batch; nothing is lost or doubled.

    The host reports the cores that it has left, and those of the worker that joins instead.
    """

    def has_cores(many: int) -> None:
        hosting.until(lambda: hosting.host_status().get("cores") == many, f"{many} cores", bound=STARTING)

    has_cores(2)
    jobs = [Job(hosting) for _ in range(2)]
    for job in jobs:
        job.begin()
        job.publish()
    for job in jobs:
        job.settle()
    lost = cluster.workers.pop()
    lost.kill()
    try:
        for _ in range(3):
            for job in jobs:
                job.publish()
            for job in jobs:
                job.settle()
        assert 0 == hosting.keeper.deaths
        has_cores(1)
    finally:
        cluster.workers.append(cluster.start_worker())
    has_cores(2)
