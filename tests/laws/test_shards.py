"""Laws of shards, key groups and paces: how many a job gets, and nobody waits longer than allowed."""

import math

from hypothesis import assume, example, given
from hypothesis import strategies as st

from dags.dataflow import GROUPS, evenly
from merge import Costs, JobId
from merge.paces import LONGEST_PACE, repaced
from merge.shards import BETTER, CALM, UNEVEN, DividedWork, WholePart, balanced, loads_of, shards_for
from tests.merge.floor import Floor

LOADS = st.integers(0, 1024).map(lambda part: part / 128)
CORES = st.integers(1, 64).map(float)
PRESENT = st.integers(1, 64)


@st.composite
def works(draw: st.DrawFn) -> DividedWork:
    """Some that is spread, and some parts that are not."""
    loads = draw(st.lists(LOADS, max_size=4))
    whole = tuple(WholePart(frozenset({number}), load, load) for number, load in enumerate(loads, 7))
    return DividedWork(spread=draw(LOADS), whole=whole)


@st.composite
def terms(draw: st.DrawFn) -> Costs:
    """Costs of which a batch takes a part of its share."""
    pace = draw(st.sampled_from((0.25, 1.0, 4.0)))
    return Costs(pace=pace, batch=pace * draw(st.sampled_from((0.0, 0.0625, 0.25))), busy={})


def total(work: DividedWork) -> float:
    return work.spread + sum(part.busy for part in work.whole)


@given(work=works(), costs=terms(), cores=CORES, present=PRESENT)
def test_no_job_has_more_shards_than_cores_or_than_its_division_can_use(
    work: DividedWork, costs: Costs, cores: float, present: int
) -> None:
    """Nor more than the work leaves for the shards beside the largest part that is not divided."""
    shards = shards_for(work, costs, cores, present)
    largest = max((part.busy for part in work.whole), default=0.0)
    assert 1 <= shards <= min(cores, GROUPS)
    assert not largest or shards <= math.ceil(total(work) / largest)


@given(work=works(), costs=terms(), cores=CORES)
def test_one_shard_stays_where_it_is_enough(work: DividedWork, costs: Costs, cores: float) -> None:
    """Whatever the host has to offer, and however the work could be divided."""
    room = costs.pace / 2 - costs.batch
    part = min(1.0, room / costs.pace / total(work)) / 2 if total(work) else 1.0
    whole = tuple(WholePart(each.instances, each.busy * part, each.busiest * part) for each in work.whole)
    assert 1 == shards_for(DividedWork(spread=work.spread * part, whole=whole), costs, cores)


@given(work=works(), costs=terms(), cores=CORES, present=PRESENT)
@example(work=DividedWork(spread=1.0), costs=Costs(pace=1.0, batch=0.0, busy={}), cores=8.0, present=1)
def test_what_is_chosen_is_chosen_again(work: DividedWork, costs: Costs, cores: float, present: int) -> None:
    """Under the same load a job changes once at most."""
    shards = shards_for(work, costs, cores, present)
    assert shards == shards_for(work, costs, cores, shards)


@given(work=works(), costs=terms(), cores=CORES, present=PRESENT)
def test_a_job_is_within_its_share_wherever_some_number_of_shards_brings_that(
    work: DividedWork, costs: Costs, cores: float, present: int
) -> None:
    """And where none does, its fullest shard has at most a third more than with the best number."""
    shards = shards_for(work, costs, cores, present)
    fullest = [work.fullest(each) for each in range(1, work.most(cores) + 1)]
    if any(map(costs.fits, fullest)):
        assert costs.fits(work.fullest(shards))
    else:
        assert work.fullest(shards) * CALM <= min(fullest)


@given(load=st.floats(0.625, 8.0), costs=terms(), cores=st.integers(2, 64), less=st.floats(CALM + 0.01, 1.0))
def test_a_load_that_goes_up_and_down_a_little_changes_nothing(
    load: float, costs: Costs, cores: int, less: float
) -> None:
    """A job that has grown keeps its shards while its load falls by less than a quarter, and when it is back."""
    grown = shards_for(DividedWork(spread=load), costs, cores)
    assert grown > 1
    assert grown == shards_for(DividedWork(spread=load * less), costs, cores, grown)


@given(work=works(), costs=terms(), present=st.integers(2, 64))
def test_a_job_that_shrinks_has_room_to_spare(work: DividedWork, costs: Costs, present: int) -> None:
    """On the same cores it gives a shard up only if the rest would still be well within its share."""
    assume(present <= work.most(64.0))
    shards = shards_for(work, costs, 64.0, present)
    assume(shards < present)
    if costs.fits(work.fullest(present)):
        assert costs.fits(work.fullest(shards) / CALM)
    else:
        assert work.fullest(shards) <= work.fullest(present)


@st.composite
def situations(draw: st.DrawFn) -> tuple[tuple[int, ...], list[float], int]:
    """Any assignment, with some loads, of which a few may be much more than others."""
    shards = draw(st.integers(1, 16))
    groups = tuple(draw(st.lists(st.integers(0, shards - 1), min_size=GROUPS, max_size=GROUPS)))
    loads = [float(each) for each in draw(st.lists(st.integers(0, 20), min_size=GROUPS, max_size=GROUPS))]
    for hot in draw(st.lists(st.integers(0, GROUPS - 1), max_size=3)):
        loads[hot] += 1_000.0
    return draw(st.sampled_from((groups, evenly(shards)))), loads, shards


@given(situations())
def test_nothing_moves_for_little(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """Either all stays, or the fullest shard was too full and has less to do by a tenth at least."""
    groups, loads, shards = situation
    found = balanced(groups, loads, shards)
    before, after = (loads_of(each, loads, shards) for each in (groups, found))
    if found != groups:
        assert max(before) > UNEVEN * sum(before) / shards
        assert max(after) <= BETTER * max(before)


@given(situations())
def test_what_is_balanced_stays(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """Under the same load groups move once at most."""
    groups, loads, shards = situation
    found = balanced(groups, loads, shards)
    assert found == balanced(found, loads, shards)


@given(situations())
def test_only_groups_with_events_move(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """And they are in a shard that is there."""
    groups, loads, shards = situation
    for group, (before, after) in enumerate(zip(groups, balanced(groups, loads, shards), strict=True)):
        if before != after:
            assert loads[group] > 0.0
            assert after in range(shards)


@given(
    st.integers(2, 16), st.lists(st.integers(80, 100).map(float), min_size=GROUPS, max_size=GROUPS), st.integers(0, 99)
)
def test_a_skew_without_a_hot_group_is_evened_out(shards: int, loads: list[float], start: int) -> None:
    """Wherever all the groups are, even all in one shard."""
    crowded = tuple(0 if group % 100 <= start else shards - 1 for group in range(GROUPS))
    full = loads_of(balanced(crowded, loads, shards), loads, shards)
    assert max(full) <= UNEVEN * sum(full) / shards


def test_without_figures_nothing_moves() -> None:
    """No events, or none known of."""
    assert evenly(3) == balanced(evenly(3), (), 3) == balanced(evenly(3), [0.0] * GROUPS, 3)


TEXTS = (
    "s:source > a:map > k:sink",
    "s:source > a:map > b:count > k:sink",
    "s:source > a:lab:two > k:sink",
    "s:source > a:lab:two > c:window > k:sink",
    "t:source{'source': 'traffic'} > a:map > k:sink",
)


@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5),
    bounds=st.lists(st.none() | st.integers(1, 400).map(lambda part: part / 2), min_size=5, max_size=5),
    strategy=st.sampled_from(("launch", "graft", "pack")),
    before=st.sampled_from((1.0, 3.0)),
)
def test_no_event_waits_longer_than_its_dataflow_allows(
    texts: list[str], bounds: list[float | None], strategy: str, before: float
) -> None:
    """In the longest row of its jobs, each with the longest wait for a batch; or the jobs have the usual pace."""
    made = Floor(strategy=strategy, batch=0.0625)
    for number, text in enumerate(texts):
        made.submit(text, str(number))
    latencies = {str(number): bound for number, bound in enumerate(bounds[: len(texts)]) if bound is not None}
    paces = dict.fromkeys(made.jobs.jobs, before)
    paces |= {each.job: each.pace for each in repaced(made.running, made.jobs, latencies, made.costs(), paces)}
    for dataflow in made.running.dataflows:
        tasks = [made.running.tasks[each] for each in made.running.dataflow(dataflow).places.values()]
        own = {made.jobs.homes[task.instance].job for task in tasks if task.inputs}
        if any(paces[job] > 1.0 for job in own):
            slow = {job: 1.5 * paces[job] + 0.0625 + paces[job] * made.jobs.jobs[job].busy for job in own}
            assert max(paces[job] for job in own) <= LONGEST_PACE
            assert all(_longest(made, job, own, slow) <= latencies[dataflow] for job in own if paces[job] > 1.0)


def _longest(made: Floor, through: JobId, own: set[JobId], slow: dict[JobId, float]) -> float:
    """The longest wait in a row of jobs through one of them, where all are as slow as it is."""
    above = {job: made.jobs.feeding.get(job, frozenset()) & own for job in own}

    def depth(job: JobId, towards: dict[JobId, frozenset[JobId] | set[JobId]]) -> int:
        return 1 + max((depth(each, towards) for each in towards[job]), default=0)

    below = {job: {each for each in own if job in above[each]} for job in own}
    return slow[through] * (depth(through, {**above}) + depth(through, {**below}) - 1)
