"""Placement on hosts by example: who takes a new job, and who cannot."""

import pytest

from merge import Bridge, Host, Instance, JobId, NoHost
from tests.merge.floor import Floor

ONE, TWO = JobId(1), JobId(2)


def test_least_loaded_host() -> None:
    """A new job goes to the host with most cores to spare: what it has, less what its jobs take."""
    small, large = Host(name="a", cores=1.0), Host(name="b", cores=1.5)
    floor = Floor(strategy="launch", hosts=(small, large))
    opened: list[str] = []
    for number, work in enumerate(("three", "three", "one", "two", "one")):
        opened += [
            host
            for _, host in floor.submit(
                f"s:source > a:lab:{work}{{'add': {number}}} > k:file", work * 2 + str(number)
            ).opens
        ]
    assert ["b", "b", "a", "a", "b"] == opened


def test_hosts_of_one_machine_share_its_cores() -> None:
    """What one of them takes the others have not; of equals on a machine the one with least to do takes a job."""
    hosts = (
        Host(name="a", cores=1.0, machine="m"),
        Host(name="b", cores=1.0, machine="m"),
        Host(name="c", cores=1.6),
    )
    floor = Floor(strategy="launch", hosts=hosts)
    for number in range(5):
        floor.submit(f"s:source > a:lab:one{{'add': {number}}} > k:sink", str(number))
    assert ["a", "b", "a", "b", "c"] == [floor.jobs.jobs[JobId(number)].host for number in range(1, 6)]


def test_each_batch_loads_its_host() -> None:
    """Idle jobs take their batches of a host, so that new ones spread."""
    hosts = (Host(name="a", cores=1.0), Host(name="b", cores=0.9))
    floor = Floor(strategy="launch", hosts=hosts, pace=2.0, batch=0.25)
    for number in range(4):
        floor.submit(f"s:source > a:map{{'add': {number}}} > k:sink", str(number))
    assert ["a", "b", "a", "b"] == [floor.jobs.jobs[JobId(number)].host for number in range(1, 5)]


def test_hosts_equally_loaded() -> None:
    """Of hosts with as many cores to spare the first by name is taken, in whichever order they are given."""
    hosts = (Host(name="b", cores=1.0), Host(name="a", cores=1.0), Host(name="c", cores=1.0))
    assert ((ONE, "a"),) == Floor(hosts=hosts).submit("s:source > k:sink", "x").opens


def test_overloaded_hosts_take_jobs_all_the_same() -> None:
    """With no core to spare anywhere the least overloaded host takes a job."""
    hosts = (Host(name="a", cores=0.1), Host(name="b", cores=0.2))
    floor = Floor(strategy="launch", hosts=hosts)
    for number in range(3):
        floor.submit(f"s:source > a:lab:four{{'add': {number}}} > k:sink", str(number))
    assert ["b", "a", "b"] == [floor.jobs.jobs[JobId(number)].host for number in range(1, 4)]


PLAIN, GPU, FPGA = (
    Host(name="plain", cores=1.75),
    Host(name="gpu", cores=1.5, tags=frozenset({"gpu"})),
    Host(name="fpga", cores=1.0, tags=frozenset({"fpga"})),
)


def test_only_a_host_with_the_tags_takes_a_job() -> None:
    """A job is opened where all its tasks' tags are offered, however loaded that host is."""
    floor = Floor(strategy="launch", hosts=(PLAIN, GPU))
    assert ((ONE, "gpu"),) == floor.submit("s:source > a:gpu > k:sink", "x").opens


def test_residue_is_cut_where_no_host_offers_its_tags() -> None:
    """Tasks whose tags no one host offers run in several jobs; those without tags go along."""
    floor = Floor(hosts=(PLAIN, GPU, FPGA))
    placed = floor.submit("s:source > a:gpu > b:map > c:fpga > d:window > k:sink", "x")
    assert ((ONE, "gpu"), (TWO, "fpga")) == placed.opens
    assert {1: [1, 2, 3], 2: [4, 5, 6]} == floor.layout()
    assert ((Bridge(Instance(3), "out", TWO), 1),) == placed.crossings


def test_residue_stays_whole_where_a_host_offers_everything() -> None:
    """A host that offers all tags takes all."""
    every = Host(name="every", cores=0.5, tags=frozenset({"gpu", "fpga"}))
    floor = Floor(hosts=(PLAIN, GPU, FPGA, every))
    assert ((ONE, "every"),) == floor.submit("s:source > a:gpu > b:map > c:fpga > k:sink", "x").opens


@pytest.mark.parametrize("strategy", ["graft", "pack"])
def test_job_whose_host_lacks_a_tag_takes_nothing_that_needs_it(strategy: str) -> None:
    """A part whose tags its inputs' host does not offer gets a new job elsewhere."""
    floor = Floor(strategy=strategy, hosts=(PLAIN, GPU))
    floor.submit("s:source > k:sink", "x")
    placed = floor.submit("s:source > a:gpu > k:sink", "y")
    assert ((TWO, "gpu"),) == placed.opens
    assert () == floor.submit("s:source > a:gpu > l:file", "z").opens
    assert TWO == floor.job("z", "l")


@pytest.mark.parametrize("strategy", ["graft", "pack"])
def test_job_on_a_host_that_went_away_takes_nothing(strategy: str) -> None:
    """What would join a job on a host that is no longer there gets a new one."""
    floor = Floor(strategy=strategy)
    floor.submit("s:source > k:sink", "x")
    floor.hosts = (PLAIN,)
    assert ((TWO, "plain"),) == floor.submit("s:source > a:map > l:sink", "y").opens


def test_no_host_offers_a_tag() -> None:
    """A task that no host can run is refused with its type, what it needs, and what to do; nothing has changed."""
    floor = Floor(hosts=(PLAIN, FPGA))
    floor.submit("s:source > k:sink", "x")
    jobs = floor.jobs
    with pytest.raises(NoHost) as refused:
        floor.submit("s:source > b:map > a:gpu > c:fpga > k:sink", "y")
    message = "no host can run a task of type 'gpu': it needs gpu; add a host that offers that"
    assert (message, frozenset({"gpu"})) == (str(refused.value), refused.value.tags)
    assert jobs is floor.jobs


def test_no_host_at_all() -> None:
    """Without hosts nothing can be placed."""
    with pytest.raises(NoHost) as refused:
        Floor(hosts=()).submit("s:source > k:sink", "x")
    message = "no host can run a task of type 'source': it needs a host; add a host that offers that"
    assert (message, frozenset()) == (str(refused.value), refused.value.tags)


def test_everything_that_no_host_offers_is_named() -> None:
    """A refusal lists the tags that are needed in order."""
    message = "no host can run a task of type 'both': it needs fpga, gpu; add a host that offers that"
    assert message == str(NoHost("both", frozenset({"gpu", "fpga"})))
