"""Laws of shards: how many a job gets for its work."""

import math

from hypothesis import assume, example, given
from hypothesis import strategies as st

from dags.dataflow import GROUPS
from merge import Costs
from merge.shards import CALM, DividedWork, WholePart, shards_for

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
