"""Laws of paces: nobody waits longer than its policy allows."""

from hypothesis import given
from hypothesis import strategies as st

from merge import JobId
from merge.paces import LONGEST_PACE, repaced
from tests.merge.floor import Floor

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
