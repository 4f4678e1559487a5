"""Quarantine by example: which tasks leave the jobs that they share with others, and where they go."""

from collections.abc import Mapping

from merge import Assignment, Bridge, Home, Host, Instance, JobId, separated
from merge.consolidation.isolation import in_quarantine
from tests.merge.floor import Floor

ONE, TWO, THREE = JobId(1), JobId(2), JobId(3)
SHARED = "s:source > a:map > k:sink"
BELOW = "s:source > a:map > b:window > k:sink"
FURTHER = "s:source > a:map > b:window > c:count > k:sink"


def floor(*submitted: tuple[str, str]) -> Floor:
    """Dataflows of tenants in one job."""
    made = Floor()
    for number, (text, tenant) in enumerate(submitted):
        made.submit(text, f"x{number}", tenant)
    return made


def separate(
    floor: Floor, *tenants: str, own: Mapping[JobId, str] | None = None, apart: frozenset[JobId] = frozenset()
) -> Assignment | None:
    """Take the tasks of tenants out of the next job that is not their own."""
    found = separated(
        floor.running,
        floor.jobs,
        floor.hosts,
        floor.costs(),
        quarantined=in_quarantine(floor.running, {*tenants}),
        own=own or {},
        apart=apart,
    )
    if found is not None:
        floor.jobs = floor.jobs.apply(found)
    return found


def test_what_others_use_stays() -> None:
    """The rest leaves for a job of its own, to which a bridge leads; there it stays."""
    here = floor((SHARED, "ann"), (BELOW, "eve"))
    expected = Assignment(
        base=2,
        opens=((TWO, "host"),),
        places=((Instance(4), Home(TWO, 0.0)), (Instance(5), Home(TWO, 0.0))),
        crossings=((Bridge(Instance(2), "out", TWO), 1),),
    )
    assert expected == separate(here, "eve")
    assert separate(here, "eve", own={TWO: "eve"}) is None
    assert {1: [1, 2, 3], 2: [4, 5]} == here.layout()


def test_each_tenant_in_quarantine_gets_a_job() -> None:
    """No two of them share one, also where one reads what the other makes."""
    here = floor((SHARED, "ann"), (BELOW, "eve"), (FURTHER, "mal"))
    separate(here, "eve", "mal")
    assert {1: [1, 2, 3], 2: [4, 5], 3: [6, 7]} == here.layout()
    assert separate(here, "eve", "mal", own={TWO: "eve", THREE: "mal"}) is None


def test_another_tenants_job_is_left() -> None:
    """A task in the own job of somebody else leaves that as any other."""
    here = floor((SHARED, "ann"), (BELOW, "eve"))
    separate(here, "eve")
    separate(here, "eve", own={TWO: "mal"})
    assert {1: [1, 2, 3], 3: [4, 5]} == here.layout()


def test_what_nobody_else_needs_goes_along() -> None:
    """A source that nobody else reads in the job leaves with the first tenant, so that the job stops."""
    here = floor(("s:source > b:window > k:sink", "eve"), ("s:source > c:count > k:sink", "mal"))
    found = separate(here, "eve", "mal")
    assert found is not None
    assert (ONE,) == found.stops
    assert {2: [1, 2, 3], 3: [4, 5]} == here.layout()


def test_a_source_that_others_read_elsewhere_goes_along() -> None:
    """Its stream is read from the spool wherever, so a job with nothing else does not stay for it."""
    here = Floor(strategy="launch")
    here.submit("s:source > b:window > k:sink", "x", "eve")
    here.submit("s:source > c:count > k:sink", "y", "ann")
    assert {1: [1, 2, 3], 2: [4, 5]} == here.layout()
    separate(here, "eve")
    assert {2: [4, 5], 3: [1, 2, 3]} == here.layout()


def test_jobs_apart_are_left_alone() -> None:
    """They have to catch up first; the next job is looked at."""
    here = floor((SHARED, "ann"), (BELOW, "eve"))
    assert separate(here, "eve", apart=frozenset({ONE})) is None
    here.strategy = "launch"
    here.submit("t:source{'source': 'traffic'} > c:count > k:sink", "y", "eve")
    here.submit("t:source{'source': 'traffic'} > c:count > d:map > k:sink", "z", "ann")
    assert {1: [1, 2, 3, 4, 5], 2: [6, 7, 8], 3: [9, 10]} == here.layout()
    here.submit("t:source{'source': 'traffic'} > c:count > e:echo > k:sink", "u", "eve")
    separate(here, "eve", apart=frozenset({ONE}))
    assert {1: [1, 2, 3, 4, 5], 2: [6, 7], 3: [9, 10], 4: [11, 12], 5: [8]} == here.layout()


def test_several_disjoint_dataflows_of_a_tenant_share_its_job() -> None:
    """Of one tenant as many as fit go together, since each job costs its batches."""
    here = floor(
        (SHARED, "ann"),
        ("t:source{'source': 'traffic'} > c:count > k:sink", "eve"),
        ("s:source > a:map > w:window > l:sink", "eve"),
    )
    separate(here, "eve")
    assert 2 == len(here.layout())


def test_no_host_of_its_root_leaves_a_job_alone() -> None:
    """What shares no files with the job cannot take its tasks, so they stay."""
    here = floor((SHARED, "ann"), (BELOW, "eve"))
    here.hosts = (Host(name="host", cores=1.0, root="r", away=True), Host(name="other", cores=1.0, root="q"))
    assert separate(here, "eve") is None
    here.hosts = (*here.hosts, Host(name="near", cores=1.0, root="r"))
    found = separate(here, "eve")
    assert found is not None
    assert ((TWO, "near"),) == found.opens


def test_tenants_that_are_all_in_quarantine_share_a_task() -> None:
    """It runs in the job of the first of them; of nobody else's tasks any is in quarantine."""
    here = floor((SHARED, "ann"), (BELOW, "mal"), (BELOW, "eve"))
    assert {4: "eve", 5: "eve"} == in_quarantine(here.running, {"eve", "mal"})
    assert {} == in_quarantine(here.running, {"eve"})
