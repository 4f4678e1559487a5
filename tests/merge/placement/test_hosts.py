"""Placement on hosts by example: who takes a new job and who cannot, also where not all files are shared."""

from dataclasses import replace
from itertools import pairwise

import pytest

from merge import Bridge, Host, Instance, JobId, NoHost, RootsApart
from merge.placement.hosts import Roots
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


X, Y = Host(name="x", cores=2.0, root="x"), Host(name="y", cores=1.0, root="y")
WEATHER, TRAFFIC = "w:source{'source': 'weather'}", "t:source{'source': 'traffic'}"
CHEAP = {"lab:one": 1 / 8, "lab:two": 2 / 8, "lab:three": 3 / 8}


def floor(strategy: str = "pack") -> Floor:
    """On root x a task `a` that reads the weather, and `d` below it; on root y `b` reads the traffic, `c` is below."""
    made = Floor(strategy="launch", hosts=(X, replace(Y, away=True)), work=CHEAP)
    made.submit(f"{WEATHER} > a:map > k:sink a > d:scale > l:sink", "on x")
    made.hosts = (replace(X, away=True), Y)
    made.submit(f"{TRAFFIC} > b:map > k:sink b > c:scale > l:sink", "on y")
    made.hosts, made.strategy = (X, Y), strategy
    return made


def hosts(made: Floor) -> list[str]:
    """The host of each job, in order."""
    return [made.jobs.jobs[job].host for job in sorted(made.jobs.jobs)]


A, B = f"{WEATHER} > a:map", f"{TRAFFIC} > b:map"
C, D = f"{B} > c:scale", f"{A} > d:scale"


def joined(*streams: str, last: str = "last:lab:still") -> str:
    """Chains that all lead into one task."""
    pairs = (pair for each in streams for pair in pairwise((*each.split(" > "), last)))
    return " ".join(dict.fromkeys(" > ".join(pair) for pair in pairs)) + " last > k:sink"


@pytest.mark.parametrize("strategy", ["launch", "graft", "pack"])
def test_what_reads_running_tasks_is_on_their_root(strategy: str) -> None:
    """However many cores another root has to spare."""
    made = floor(strategy)
    made.submit(f"{B} > c:lab:two > k:sink", "1")
    made.submit(f"{B} > d:lab:two > k:sink", "2")
    made.submit(f"{B} > e:lab:two > k:sink", "3")
    assert ["x", *"y" * (len(made.jobs.jobs) - 1)] == hosts(made)


def test_what_reads_nothing_that_runs_is_on_any_root() -> None:
    """It goes to the host with most cores to spare, and fills a job of any root."""
    made = floor("launch")
    power = "p:source{'source': 'power'}"
    assert ((JobId(3), "x"),) == made.submit(f"{power} > c:map > k:sink", "1").opens
    made = floor()
    assert () == made.submit(f"{power} > c:map > k:sink", "1").opens


def test_a_join_goes_to_the_root_with_most_of_its_streams() -> None:
    """The others cross; of equals that is better where more raw streams are."""
    made = floor()
    made.submit(joined(A, B, C), "1")
    assert 2 == made.job("1", "last")
    assert [1] == [made.jobs.homes[bridge.parent].job for bridge in made.jobs.bridges]
    other = floor()
    other.submit(joined(A, TRAFFIC), "1")
    assert 2 == other.job("1", "last")


def test_a_stream_that_crossed_is_read_where_it_is_made_or_sent() -> None:
    """Its own job needs no bridge; any other reads it where it is sent, and not on its own root."""
    made = floor()
    made.submit(joined(A, B, C), "1")
    made.submit(f"{A} > e:lab:two > k:sink", "2")
    assert 1 == made.job("2", "e")
    made.submit(f"{A} > f:lab:three > k:sink", "3")
    assert 2 == made.job("3", "f")
    made.strategy = "launch"
    made.submit(f"{A} > g:lab:one > k:sink", "4")
    assert ["x", "y", "y"] == hosts(made)


def test_no_other_job_on_its_root_reads_a_stream_that_is_sent_away() -> None:
    """Not one that has room either, where the job that makes it has none."""
    made = floor("launch")
    made.submit("p:source{'source': 'power'} > k:sink", "roomy")
    made.strategy = "pack"
    made.submit(joined(A, B, C), "1")
    made.submit(f"{A} > e:lab:two > k:sink", "2")
    made.submit(f"{A} > f:lab:three > k:sink", "3")
    assert ["x", "y", "x"] == hosts(made)
    assert (1, 2) == (made.job("2", "e"), made.job("3", "f"))
    made.remove("1")
    made.remove("3")
    made.submit(f"{A} > f:lab:three > k:sink", "3")
    assert 3 == made.job("3", "f")


def test_parts_of_one_residue_do_not_tear_a_stream_either() -> None:
    """What one part has read on a root the next one reads there too, or where it is made."""
    made = floor("launch")
    made.submit(joined(A, B, C) + " a > e:map{'add': 3} > l:sink", "1")
    roots = {made.jobs.jobs[bridge.to].host for bridge in made.jobs.leaving[made.instance("1", "a")]}
    assert 1 == len(roots)


def test_parts_on_several_roots_get_jobs_of_their_own() -> None:
    """A residue that is not connected goes to several roots, and nothing crosses."""
    made = floor("launch")
    placed = made.submit(f"{A} > c:map{{'add': 1}} > k:sink {B} > d:map{{'add': 2}} > l:sink", "1")
    assert [(JobId(3), "x"), (JobId(4), "y")] == list(placed.opens)


def test_streams_that_are_sent_to_several_roots_come_to_no_task() -> None:
    """The task that would read both is named, and nothing has changed; where it is fed anew it can be placed."""
    made = floor()
    made.submit(joined(A, B, C), "1")
    made.submit(joined(D, WEATHER, B, last="last:lab:one"), "2")
    assert ["x", "y", "x"] == hosts(made)
    jobs, made.strategy = made.jobs, "launch"
    with pytest.raises(RootsApart, match=r"'lab:five': .* can be sent to; feed it from fresh tasks") as refused:
        made.submit(joined(A, B, last="last:lab:five"), "3")
    assert 1 == len(refused.value.keys)
    assert jobs is made.jobs
    made.submit(joined(A.replace("a:", "a!:"), B, last="last:lab:five"), "3")
    assert "x" == hosts(made)[-1]


def test_what_joins_nothing_makes_no_stream_cross() -> None:
    """Where one of its streams is sent away and another is not, there is no root for a new job."""
    made = floor()
    made.submit(joined(A, B, C), "1")
    made.strategy = "launch"
    with pytest.raises(RootsApart):
        made.submit(joined(A, D, last="last:lab:five"), "2")


def test_no_host_of_a_root_is_there() -> None:
    """What reads running tasks waits for a host that shares their files, which the refusal names."""
    made = floor("launch")
    made.hosts = (replace(X, away=True), Y)
    with pytest.raises(NoHost) as refused:
        made.submit(f"{A} > e:window > k:sink", "1")
    assert str(refused.value) == (
        "no host can run a task of type 'window': it needs a host that shares its files with x; "
        "add a host that offers that"
    )


def test_tags_are_offered_on_another_root_only() -> None:
    """They are of no use there."""
    made = floor()
    made.hosts = (X, replace(Y, tags=frozenset({"gpu", "fpga"})))
    with pytest.raises(NoHost, match="'gpu': it needs gpu on a host that shares its files with x; add"):
        made.submit(f"{A} > e:scale > f:gpu > k:sink", "1")
    made.hosts = (replace(X, tags=frozenset({"gpu"})), replace(Y, tags=frozenset({"fpga"})))
    with pytest.raises(NoHost, match="it needs fpga, gpu on hosts that share their files; add"):
        made.submit("p:source{'source': 'power'} > c:gpu > d:fpga > k:sink", "2")


def test_a_residue_goes_whole_to_the_root_where_fewest_jobs_run_it() -> None:
    """A root where one host offers all its tags is better than one where two do, whatever they have to spare."""
    made = Floor(
        hosts=(
            Host(name="a", cores=9.0, root="x", tags=frozenset({"gpu"})),
            Host(name="b", cores=9.0, root="x", tags=frozenset({"fpga"})),
            Host(name="c", cores=1.0, root="y", tags=frozenset({"gpu", "fpga"})),
        )
    )
    assert ((JobId(1), "c"),) == made.submit("s:source > a:gpu > b:fpga > k:sink", "1").opens


def test_jobs_are_consolidated_within_each_root() -> None:
    """Three jobs on two roots become two, and no task changes its root."""
    made = floor("launch")
    made.submit("p:source{'source': 'power'} > c:map > k:sink", "1")
    assert ["x", "y", "x"] == hosts(made)
    made.consolidate()
    assert ["x", "y"] == sorted(hosts(made))
    assert made.job("on x", "a") == made.job("1", "c") != made.job("on y", "b")


def test_jobs_of_a_root_without_hosts_are_left_alone() -> None:
    """The others are consolidated all the same."""
    made = floor("launch")
    for number, source in enumerate((WEATHER, TRAFFIC)):
        made.submit(f"{source} > c:map{{'add': 1}} > k:sink", str(number))
    made.hosts = (X, replace(Y, away=True))
    made.consolidate()
    assert ["x", "y", "y"] == sorted(hosts(made))


def crossed() -> Floor:
    """The stream of a task with a reader in its own job is sent to another root as well."""
    made = floor()
    made.submit(f"{WEATHER} > one:lab:one > two:lab:two > k:sink", "inside")
    made.submit(joined(f"{WEATHER} > one:lab:one", B, C), "outside")
    assert 1 == made.job("inside", "one") == made.job("inside", "two")
    assert 2 == made.job("outside", "last")
    made.work, made.hosts = {"lab:one": 3 / 8, "lab:two": 3 / 8}, (replace(X, cores=1.0), Y)
    return made


def test_neither_consolidation_nor_isolation_tears_a_stream() -> None:
    """A job that should be cut where a stream leaves for another root stays as it is."""
    made = crossed()
    assert () == made.consolidate().places
    assert made.isolate({1: 0.9}) is None
    made.remove("outside")
    assert made.isolate({1: 0.9}) is not None
    assert ["x", "x", "y"] == sorted(hosts(made))


def test_consolidation_makes_no_cycle_over_roots() -> None:
    """What leads to another root and back is not brought into one job."""
    made = floor("launch")
    made.submit(joined(A, B, C), "1")
    there = joined(A, B, C).replace(" last > k:sink", "")
    made.submit(
        f"{there} last > end:lab:one > k:sink {WEATHER} > u:map{{'add': 2}} > end {WEATHER} > v:map{{'add': 3}} > end",
        "2",
    )
    assert "x" == made.jobs.jobs[made.job("2", "end")].host
    jobs = made.jobs
    assert () == made.consolidate().places
    assert jobs.jobs == made.jobs.jobs


def test_who_shares_files_with_what_is_read_is_named() -> None:
    """The refusal names the hosts that could offer what lacks, or says that none of them is known any more."""
    text = "s:source > a:map > b:gpu > k:sink"
    floor = Floor(hosts=(Host(name="b", cores=1.0, root="r"), Host(name="a", cores=0.5, root="r")))
    floor.submit("s:source > a:map > k:sink", "x")
    far = Host(name="far", cores=1.0, root="q", tags=frozenset({"gpu"}))
    floor.hosts = (*floor.hosts, far)
    with pytest.raises(NoHost, match=r"a host that shares its files with a, b\b"):
        floor.submit(text, "y")
    floor.hosts = (far, Host(name="further", cores=1.0, root="p"))
    with pytest.raises(NoHost, match="a host that shares its files with those that run what it reads"):
        floor.submit(text, "y")


def test_a_refusal_has_the_tags_that_no_host_offers() -> None:
    """Of the first task that lacks some."""
    floor = Floor(hosts=(Host(name="a", cores=1.0, root="r"), Host(name="b", cores=1.0, root="q")))
    with pytest.raises(NoHost) as refused:
        floor.submit("s:source > a:gpu > b:fpga > k:sink", "x")
    assert frozenset({"gpu"}) == refused.value.tags


def test_a_host_that_is_not_known_is_on_the_only_root() -> None:
    """On one without a name if there are several roots, or none."""
    on_r, on_q = Host(name="a", cores=1.0, root="r"), Host(name="b", cores=1.0, root="q")
    assert ["r", "", ""] == [Roots(hosts).of("gone") for hosts in ([on_r], [on_r, on_q], [])]
