"""Savings, their intervals and regimes, against what was worked out by hand."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge import BATCH_SECONDS
from tests.workloads.rows import DEFAULT_TASKS, results, runs
from tests.workloads.rows import window_row as window
from workloads.report.findings import cores_against_work, measured_savings, regime_of, regime_sentence
from workloads.report.runs import (
    IntervalEstimate,
    Pair,
    Run,
    Runs,
    cores_by_packing_and_sharing,
    grouped,
    job_cores,
    means,
    quantile,
    saved,
    saved_at_peak,
    saving_of,
    shares_by_users,
    tenant_cores,
    weights,
)
from workloads.report.summary import markdown_of, part_of, summary_of
from workloads.results import TenantCoresRow, WindowRow, WrongResults
from workloads.traces import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED

PARTS = st.floats(0.1, 10.0)


def close(expected: float, actual: float | None) -> bool:
    return actual is not None and math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1e-12)


def test_a_saving_is_given_over_all_steps_and_at_the_peak() -> None:
    """14 tasks and steps instead of 20; at the peak 6 instead of 10."""
    lasting = (1.0, 1.0, 1.0, 1.0)
    assert close(1 - 14 / 20, saved(DEFAULT_TASKS, (4, 6, 4, 0), lasting))
    assert close(0.4, saved_at_peak(DEFAULT_TASKS, (4, 6, 4, 0)))
    assert None is saved((0, 0), (0, 0), (1, 1))
    assert None is saved_at_peak((0, 0), (0, 0))
    assert None is saved_at_peak((), ())


def test_a_step_weighs_what_it_lasts() -> None:
    """The second step lasts nine times as long as the first, and nothing comes after the third."""
    lasting = weights({"steps": [{"at": 0.0}, {"at": 1.0}, {"at": 10.0}]})
    assert (1.0, 9.0, 0.0) == lasting
    assert close(1 - (1 + 9) / (2 + 90), saved((2, 10, 5), (1, 1, 5), lasting))


def test_the_interval_of_a_saving_is_the_one_worked_out_by_hand() -> None:
    """Two steps of two pairs, of which the second lasts three times as long; the pairs depart by 0.1 and by 0.2."""
    pairs = [
        Pair(step=0, without=1.0, shared=0.4),
        Pair(step=0, without=1.0, shared=0.6),
        Pair(step=3, without=2.0, shared=0.8),
        Pair(step=3, without=2.0, shared=1.2),
    ]
    found = saving_of(pairs, {0: 1.0, 3: 3.0})
    scatter = (0.1**2 * 2 + 0.2**2 * 2) / 2
    width = 4.30265 * math.sqrt(scatter / 2 + 3**2 * scatter / 2) / (1.0 + 3 * 2.0)
    assert found is not None
    assert close(0.5, found.value)
    assert found.low is not None
    assert found.high is not None
    assert math.isclose(0.5 - width, found.low, rel_tol=1e-5)
    assert math.isclose(0.5 + width, found.high, rel_tol=1e-5)


def test_without_repeated_windows_there_is_no_interval() -> None:
    """Nor is there a saving where nothing was measured, or nothing used."""
    assert IntervalEstimate(value=0.75) == saving_of([Pair(step=0, without=4.0, shared=1.0)], {0: 1.0})
    assert None is saving_of([], {})
    assert None is saving_of([Pair(step=0, without=0.0, shared=0.0)], {0: 1.0})
    assert {3: IntervalEstimate(value=2.0)} == means({3: [2.0]})


def test_the_interval_of_a_step_takes_the_scatter_of_all() -> None:
    """Of two steps one does not scatter at all; with two degrees of freedom both get half of what the other has."""
    found = means({0: [1.0, 1.0], 1: [2.0, 2.4]})
    width = 4.30265 * math.sqrt((2 * 0.2**2) / 2 / 2)
    for step, middle in ((0, 1.0), (1, 2.2)):
        low, high = found[step].low, found[step].high
        assert low is not None
        assert high is not None
        assert math.isclose(middle - width, low, rel_tol=1e-5)
        assert math.isclose(middle + width, high, rel_tol=1e-5)


def test_what_disturbs_both_alike_leaves_no_scatter() -> None:
    """Windows differ by half, but always by the same factor in both ways: the saving is sure."""
    pairs = [Pair(step=0, without=each, shared=0.6 * each) for each in (1.0, 1.5, 0.7)]
    found = saving_of(pairs, {0: 1.0})
    assert found is not None
    assert close(0.4, found.low)
    assert close(0.4, found.high)


def test_nineteen_of_twenty_intervals_hold_what_is_true() -> None:
    """Of 400 seeded experiments of 3 steps and 3 windows with noise, between 92 and 98 in a hundred do."""
    draw = random.Random(11)

    def holds() -> bool:
        pairs = [
            Pair(step=step, without=level + draw.gauss(0, 0.05), shared=0.7 * level + draw.gauss(0, 0.05))
            for step, level in enumerate((1.0, 2.0, 1.5))
            for _ in range(3)
        ]
        found = saving_of(pairs, dict.fromkeys(range(3), 1.0))
        return found is not None and found.low is not None and found.high is not None and found.low <= 0.3 <= found.high

    assert 0.92 * 400 <= sum(holds() for _ in range(400)) <= 0.98 * 400


def test_quantiles_are_those_of_the_tables() -> None:
    """Of the two-sided 95 % of Student's distribution."""
    known = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 6: 2.4469, 12: 2.1788, 60: 2.0003}
    for freedom, expected in known.items():
        assert math.isclose(expected, quantile(freedom), rel_tol=2e-3), freedom


@given(values=st.lists(st.tuples(PARTS, PARTS), min_size=1, max_size=6), factor=PARTS)
def test_a_saving_does_not_hang_on_the_unit(values: list[tuple[float, float]], factor: float) -> None:
    """Millicores instead of cores change neither the saving nor its interval."""
    pairs = [Pair(step=at % 2, without=one, shared=other) for at, (one, other) in enumerate(values)]
    scaled = [Pair(step=each.step, without=factor * each.without, shared=factor * each.shared) for each in pairs]
    lasting = {0: 1.0, 1: 2.0}
    one, other = saving_of(pairs, lasting), saving_of(scaled, lasting)
    assert one is not None
    assert other is not None
    for left, right in ((one.value, other.value), (one.low, other.low), (one.high, other.high)):
        assert (left is None) is (right is None)
        assert left is None or right is None or math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-6)


def test_a_summary_has_each_way_against_its_own_baseline() -> None:
    """Packed reuse is set against packed default, and the counts of the dry run are taken where there is one."""
    summary = summary_of(
        [
            runs(
                results(DEFAULT, tasks=DEFAULT_TASKS, work=(2.0, 8.0, 6.0, 0.0)),
                results(REUSE),
                results(DEFAULT, tasks=DEFAULT_TASKS, windows=[window(1, 0, 2.0), window(2, 0, 1.0)]),
                results(
                    REUSE,
                    windows=[
                        window(1, 0, 1.2, latency_p50=0.5, latency_p99=1.0, alone_launched=2.2),
                        window(2, 0, 0.9),
                    ],
                ),
                results(DEFAULT_PACKED, tasks=DEFAULT_TASKS, windows=[window(1, 0, 1.0)]),
                results(REUSE_PACKED, windows=[window(1, 0, 0.9)]),
            )
        ]
    )
    ways = summary.workloads["toy"]["SEQ"]
    shared = ways["reuse"]
    assert ["default", "default-packed", "reuse", "reuse-packed"] == sorted(ways)
    assert ("default", 4, 2, 2) == (shared.against, shared.steps, shared.measured_steps, shared.windows)
    assert close(0.3, shared.tasks_saved)
    assert close(1 - 14 / 18, shared.tasks_saved_between)
    assert close(0.4, shared.tasks_saved_at_peak)
    assert close(1 - 11 / 16, shared.work_saved)
    assert close(1 - 5 / 8, shared.work_saved_at_peak)
    assert close(1 - 11 / 12, shared.work_saved_between)
    assert close(1 - 7 / 13, shared.steps_saved)
    assert close(1 - 2.1 / 3.0, shared.cores_saved)
    assert close(0.4, shared.cores_saved_at_peak)
    assert (0.5, 1.0) == (shared.latency_p50, shared.latency_p99)
    assert close(0.1, shared.estimate_error)
    assert "default-packed" == ways["reuse-packed"].against
    assert close(0.1, ways["reuse-packed"].cores_saved)
    assert (0.0, None) == (ways["default"].tasks_saved, ways["default"].latency_p50)


def test_what_was_not_run_both_ways_saves_nothing_that_is_known() -> None:
    """The summary says null, and the table a dash."""
    summary = summary_of([runs(results(REUSE))])
    figures = summary.as_json()["toy"]["SEQ"]["reuse"]
    assert [None, None, None] == [figures["tasks_saved"], figures["cores_saved"], figures["cores_mean"]]
    assert (
        "| toy | SEQ | reuse | 3.5 (0.8 + 1.8 + 1.0) | - | - | - | - | - | - | - | - |\n"
        == markdown_of(summary).splitlines(keepends=True)[-1]
    )
    assert "30.0 % (20.0 to 40.0)" == part_of(IntervalEstimate(value=0.3, low=0.2, high=0.4))


def test_hostile_names_keep_the_markdown_table_whole() -> None:
    """A bar or a line's end within a name opens no cell and no row."""
    way = results(REUSE)
    trace = {**way.manifest.trace, "workload": "a|b\nc"}
    table = markdown_of(summary_of([runs(results(REUSE, trace=trace))]))
    assert [13] * 3 == [line.replace("\\|", "").count("|") for line in table.splitlines()]


def test_reuse_is_weighed_by_time_over_all_running_tasks() -> None:
    """Of ten tasks and steps four are used by two dataflows; tenants' shares are means over the measured steps."""
    compared = runs(
        results(REUSE),
        results(
            REUSE,
            windows=[window(0, 0, 1.0), window(1, 0, 1.0)],
            tenants=[
                TenantCoresRow(step=0, tenant="ann", cores=1.0),
                TenantCoresRow(step=1, tenant="ann", cores=2.0),
                TenantCoresRow(step=1, tenant=None, cores=3.0),
            ],
        ),
    )
    assert {2: 0.4} == shares_by_users(compared)
    assert {"ann": 1.5, None: 1.5} == tenant_cores(compared, REUSE)


def test_what_a_job_takes_is_learnt_from_packing_alone() -> None:
    """The same tasks in one job instead of three take 0.4 cores less: 0.2 a job, and of 1.0 all three take 0.6."""
    compared = runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, jobs=(1, 3, 1, 0), windows=[window(1, 0, 1.0)]),
        results(DEFAULT_PACKED, tasks=DEFAULT_TASKS, jobs=(1, 1, 1, 0), windows=[window(1, 0, 0.6)]),
        results(DEFRAGMENTED, windows=[window(1, 0, 0.5)]),
    )
    found = job_cores(compared)
    assert found is not None
    assert close(0.2, found[0])
    assert close(0.6, found[1])
    assert {DEFAULT: 1.0, DEFAULT_PACKED: 0.6} == cores_by_packing_and_sharing(compared)


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ({}, {}, r"results/1: is the same replay as results/0; report on one of them"),
        ({}, {"trace": {"name": "SEQ"}}, r"results/1: its manifest has no valid trace"),
        (
            {},
            {"trace": {"name": "SEQ", "workload": "toy", "seed": 1, "steps": [{}]}, "mode": "default"},
            r"results/1: lacks steps of its trace",
        ),
        ({}, {"windows": [window(9, 0, 1.0)]}, r"results/1: has windows of unknown steps"),
    ],
)
def test_what_cannot_be_compared_is_refused(one: dict[str, object], other: dict[str, object], reason: str) -> None:
    """The same replay twice, no trace, missing steps, and windows of steps that are not there."""
    made = [results(REUSE, **each) for each in (one, other)]  # type: ignore[arg-type]  # each case names its own
    with pytest.raises(WrongResults, match=reason):
        runs(*made)
    with pytest.raises(WrongResults, match=r"there are no results"):
        grouped([])


def test_traces_of_different_seeds_stay_apart() -> None:
    """Two of one name are shown with their seeds."""
    first = results(REUSE)
    second = results(REUSE, trace={**first.manifest.trace, "seed": 2})
    found = grouped([Run(folder=Path(name), results=each) for name, each in (("a", first), ("b", second))])
    assert ["SEQ (seed 1)", "SEQ (seed 2)"] == [each.trace for each in found]


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
