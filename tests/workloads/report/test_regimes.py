"""A report says how near cores come to the work, and in which regime a trace was."""

import pytest

from merge import BATCH_SECONDS
from tests.workloads.report.sample_runs import DEFAULT_TASKS, results, runs
from tests.workloads.rows import window_row as window
from workloads.report.findings import cores_against_work, measured_savings, regime_of, regime_sentence
from workloads.report.runs import Runs
from workloads.report.summary import summary_of
from workloads.results import WindowRow
from workloads.traces import DEFAULT, DEFAULT_PACKED, REUSE


def windows(*cores: float) -> list[WindowRow]:
    return [window(step, 0, each) for step, each in enumerate(cores)]


def measured(*shared: float) -> Runs:
    """Two steps, at which the default takes 1 and 2 cores in one and in three jobs; each batch takes 0.25 s."""
    return runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, jobs=(1, 3, 1, 0), windows=windows(1.0, 2.0)),
        results(DEFAULT_PACKED, tasks=DEFAULT_TASKS, jobs=(1, 1, 1, 0), windows=windows(1.0, 1.5)),
        results(REUSE, windows=windows(*shared)),
    )


def test_cores_follow_the_work_where_both_are_saved_alike() -> None:
    """At the steps that were measured; with what the default takes at most, by which the rates are judged."""
    found = measured(0.9, 1.4)
    work = summary_of([found]).workloads["toy"]["SEQ"]["reuse"].work_saved_where_measured
    assert work is not None
    sentences = [each for each in cores_against_work([found], summary_of([found])) if ", reuse:" in each]
    assert 1 == len(sentences)
    assert f"23.3 % of the cores are saved, and {100 * work:.1f} % of the work at the same steps" in sentences[0]
    assert sentences[0].endswith("default takes at most 2.00 cores.")


def test_a_batch_costs_what_the_same_tasks_take_less_in_fewer_jobs() -> None:
    """The rest is the tasks' work, and dots lie where it was measured."""
    found = measured(0.9, 1.4)
    regime = regime_of(found)
    assert regime is not None
    assert [2.0, 0.25] == pytest.approx([regime.dataflows, regime.batch])
    assert 1.5 - 0.03 - 2 * 0.25 == pytest.approx(regime.work)
    spots = measured_savings(found)
    assert spots is not None
    assert [0.7 / 3, 0.5 / 3] == pytest.approx([spots.sharing, spots.packing])
    assert None is spots.defragmenting


def test_what_was_only_counted_has_a_crossover_and_no_regime() -> None:
    """Nothing is said of work in seconds that nobody measured."""
    sentence = regime_sentence(runs(results(DEFAULT, tasks=DEFAULT_TASKS, jobs=(1, 2, 1, 0)), results(REUSE)))
    assert sentence is not None
    assert f"a batch costs {1000 * BATCH_SECONDS:g} ms." in sentence
    assert "holds" not in sentence
    assert None is regime_sentence(runs(results(REUSE)))
