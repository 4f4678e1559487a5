"""Paces by example: which jobs may beat slower, and how much."""

from merge import JobId
from merge.paces import LONGEST_PACE, repaced
from tests.merge.floor import Floor

ONE, TWO = JobId(1), JobId(2)


def floor(*texts: str, strategy: str = "pack") -> Floor:
    made = Floor(strategy=strategy, batch=0.125)
    for number, text in enumerate(texts):
        made.submit(text, str(number))
    return made


def paces(made: Floor, latencies: dict[str, float], present: dict[JobId, float] | None = None) -> dict[int, float]:
    """The jobs that change, each with its new pace."""
    found = repaced(made.running, made.jobs, latencies, made.costs(), present or {})
    return {each.job: each.pace for each in found}


def test_a_job_whose_only_reader_allows_it_beats_slower() -> None:
    """An event may wait one and a half paces for its batch, and that has to stay within what is allowed."""
    made = floor("s:source > a:map > k:sink")
    assert {ONE: 5.0} == paces(made, {"0": 10.0})
    assert {ONE: 3.0} == paces(made, {"0": 5.0})
    assert {} == paces(made, {"0": 2.0})


def test_a_reader_without_a_bound_keeps_the_usual_pace() -> None:
    """Even where it shares no task: the job is one."""
    made = floor("s:source > a:map > k:sink", "s:source > b:count > k:sink")
    assert [ONE] == list(made.jobs.jobs)
    assert {} == paces(made, {"0": 10.0})
    assert {ONE: 5.0} == paces(made, {"0": 10.0, "1": 30.0})


def test_who_only_reads_the_same_source_elsewhere_is_no_reader() -> None:
    """Each job reads the spool of a source for itself."""
    made = floor("s:source > a:map > k:sink", "s:source > b:count > k:sink", strategy="launch")
    assert [ONE, TWO] == sorted(made.jobs.jobs)
    assert {ONE: 5.0} == paces(made, {"0": 10.0})


def test_a_row_of_jobs_shares_what_its_dataflow_allows() -> None:
    """Events wait in each of them."""
    made = floor("s:source > a:map > k:sink", "s:source > a:map > b:count > k:sink", strategy="launch")
    assert [ONE, TWO] == sorted(made.jobs.jobs)
    assert {ONE: 5.0, TWO: 5.0} == paces(made, {"0": 30.0, "1": 20.0})


def test_a_slowed_job_is_quick_again_once_a_reader_demands_it() -> None:
    """And a job that has the right pace is left alone."""
    made = floor("s:source > a:map > k:sink")
    assert {ONE: 1.0} == paces(made, {}, {ONE: 5.0})
    assert {} == paces(made, {"0": 10.0}, {ONE: 5.0})


def test_a_busy_job_beats_less_slowly() -> None:
    """Its batches take longer the more events they hold."""
    assert {ONE: 5.0} == paces(floor("s:source > a:map > k:sink"), {"0": 8.0})
    assert {ONE: 3.0} == paces(floor("s:source > a:lab:two > k:sink"), {"0": 8.0})
    assert {ONE: LONGEST_PACE} == paces(floor("s:source > a:map > k:sink"), {"0": 1e6})
