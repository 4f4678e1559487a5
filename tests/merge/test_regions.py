"""Regions by example: what moves together, and what leaves a job that goes on."""

from merge import Instance, JobId, Region, consolidate, regions
from tests.merge.floor import Floor

WEATHER = "s!:source > a:map > k:sink"
TRAFFIC = "s!:source{'source': 'traffic'} > c:map > m:sink"


def regions_of(floor: Floor, most: int) -> list[Region]:
    return list(regions(floor.running, floor.jobs, floor.hosts, floor.costs(), most=most))


def test_what_reads_one_source_is_one_body() -> None:
    """Also where no task is shared: its raw stream is cut for all of them."""
    floor = Floor(strategy="launch")
    for name, text in (("x", WEATHER), ("y", TRAFFIC), ("z", WEATHER)):
        floor.submit(text, name)
    found = {frozenset(region.running.tasks) for region in regions_of(floor, 1)}
    assert {frozenset(map(Instance, (1, 2, 3, 7, 8, 9))), frozenset(map(Instance, (4, 5, 6)))} == found


def test_regions_are_no_larger_than_they_may_be() -> None:
    """As many jobs are emptied together as that allows."""
    floor = Floor(strategy="launch")
    for name, text in (("x", WEATHER), ("y", TRAFFIC)):
        floor.submit(text, name)
    assert [3, 3] == [len(region.running.tasks) for region in regions_of(floor, 5)]
    assert [6] == [len(region.running.tasks) for region in regions_of(floor, 6)]


def test_all_of_a_region_leaves_a_job_that_runs_something_else_as_well() -> None:
    """That one goes on with it; else streams of both might lead in a circle between jobs."""
    floor = Floor(bridge=1 / 8)
    floor.submit("s!:source > a:lab:four > b:lab:four > k:sink", "x")
    floor.submit(TRAFFIC, "y")
    assert {1: [1, 2, 5, 6, 7], 2: [3, 4]} == floor.layout()
    region = next(each for each in regions_of(floor, 1) if Instance(1) in each.running.tasks)
    assert {JobId(1)} == region.shared
    target = consolidate(region.running, region.jobs, region.hosts, floor.costs(), shared=region.shared)
    assert () == target.stops
    floor.jobs = floor.jobs.apply(target)
    assert {1: [5, 6, 7], 2: [3, 4], 3: [1, 2]} == floor.layout()
