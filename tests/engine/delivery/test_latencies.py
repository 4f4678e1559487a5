"""The latencies of outputs, as a host counts them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bridge.wire import UNKNOWN_BIRTH, Birth
from engine.delivery.latencies import _LEAST, _WINDOW, SPAN, DataflowOutput, Latencies
from engine.job.pace import percentile

NOW = 1_000_000_000.0
ONE, OTHER = DataflowOutput("d1", "s"), DataflowOutput("d2", "t")


def born(age: float, many: int = 1) -> Birth:
    """Some events of an age, in seconds."""
    return Birth(many, round((NOW - age) * 1000))


@given(st.lists(st.tuples(st.floats(_LEAST, 9_999), st.integers(1, 50)), min_size=1, max_size=30))
def test_percentiles_are_exact_to_a_twentieth(aged: list[tuple[float, int]]) -> None:
    """They are never too low, and at most a twentieth too high; each event counts."""
    latencies = Latencies()
    latencies.note(ONE, [born(age, many) for age, many in aged], NOW)
    exact = sorted(NOW - born(age).at / 1000 for age, many in aged for _ in range(many))
    reported = latencies.report(NOW).all
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        least = max(_LEAST, percentile(exact, part))
        # They are rounded to a tenth of a millisecond.
        assert least - 0.0001 <= reported[name] <= least * 1.0501 + 0.0001


def test_each_output_counts_for_itself_and_for_its_job() -> None:
    """Messages on a task's own topics count for the job alone."""
    latencies = Latencies()
    latencies.note(ONE, [born(1.0, 3)], NOW)
    latencies.note(OTHER, [born(4.0)], NOW)
    latencies.note(DataflowOutput(), [born(16.0)], NOW)
    report = latencies.report(NOW)
    assert {"d1": ["s"], "d2": ["t"]} == {dataflow: list(sinks) for dataflow, sinks in report.outputs.items()}
    found = [report.outputs["d1"]["s"]["p99"], report.outputs["d2"]["t"]["p50"], report.all["p50"], report.all["p99"]]
    assert [True] * 4 == [
        math.isclose(each, at, rel_tol=0.0501) for each, at in zip(found, (1.0, 4.0, 1.0, 16.0), strict=True)
    ]


def test_unknown_births_and_old_outputs_do_not_count() -> None:
    """Nor do outputs from a future that the clock was set back from."""
    latencies = Latencies()
    assert ({}, {}) == latencies.report(NOW)
    latencies.note(ONE, [Birth(5, UNKNOWN_BIRTH)], NOW)
    assert ({}, {}) == latencies.report(NOW)
    latencies.note(ONE, [born(1.0)], NOW)
    latencies.note(OTHER, [born(1.0)], NOW + _WINDOW / 2)
    latencies.note(OTHER, [born(1.0)], NOW + 10 * _WINDOW)
    assert {"d1", "d2"} == set(latencies.report(NOW + _WINDOW / 2).outputs)
    assert {"d2"} == set(latencies.report(NOW + _WINDOW + SPAN).outputs)
    assert ({}, {}) == latencies.report(NOW + 10 * _WINDOW)


def test_a_clock_that_is_behind_reports_the_least_latency() -> None:
    """An event that was born after its output, by another host's clock, counts with the least latency."""
    latencies = Latencies()
    latencies.note(ONE, [born(-5.0)], NOW)
    assert {"p50": _LEAST, "p99": _LEAST} == latencies.report(NOW).all
