"""Reconfigurations under random schedules: what every scheduler but the naive one promises.

`BRAID_SIMULATION_SEED` plays one seed, as the message of a failure says.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from manager.kernel.transitions import Phase
from tests.simulation.managed import (
    Forgetful,
    Impatient,
    JobsBelowOnly,
    Managed,
    MissingCounts,
    OneToOne,
    Presuming,
    StaleCounts,
    Unaligned,
    Unmarked,
)
from tests.simulation.schedulers import Epoch, Fries, Naive, Planned, Scheduler, StopAndRestart, Versions
from tests.simulation.schedules import ANY, FORKED, LAGGING, Load, Schedule, played, trouble

CONSISTENT = [Epoch, Fries, StopAndRestart, Versions]
SEEN = pytest.mark.parametrize("load", [ANY, FORKED], ids=["any", "forked"])
"""Any graphs, and those in which the pieces of an event meet again."""
SEED = os.environ.get("BRAID_SIMULATION_SEED")
FEW = range(200) if SEED is None else [int(SEED)]
MANY = range(200, 10_000) if SEED is None else [int(SEED)]


def hold(make: type[Scheduler], seeds: Iterable[int], load: Load = ANY) -> None:
    for seed in seeds:
        if found := trouble(played(seed, make, load)):
            repeat = f"BRAID_SIMULATION_SEED={seed} .venv/bin/python -m pytest tests/simulation -k {make.__name__}"
            pytest.fail(f"seed {seed}: {found}\nto repeat it: {repeat}", pytrace=False)


@SEEN
@pytest.mark.parametrize("make", CONSISTENT)
def test_reconfigurations_are_consistent(make: type[Scheduler], load: Load) -> None:
    """They all end, lose and double nothing, and have a serial order, that of their requests."""
    hold(make, FEW, load)


@pytest.mark.slow
@SEEN
@pytest.mark.parametrize("make", CONSISTENT)
def test_reconfigurations_are_consistent_for_long(make: type[Scheduler], load: Load) -> None:
    """The same holds in ten thousand schedules."""
    hold(make, MANY, load)


def test_a_task_that_is_wrongly_called_unique_is_noticed() -> None:
    """What is below it then meets the pieces of one event before and after its switch."""
    with pytest.raises(pytest.fail.Exception, match=r"seed \d+: event \d+ met (\S+) before r\d and again after it"):
        hold(Presuming, range(50), FORKED)


LOADS = pytest.mark.parametrize("load", [ANY, LAGGING], ids=["any", "lagging"])


@LOADS
def test_reconfigurations_are_consistent_by_what_is_reported(load: Load) -> None:
    """The same, where a manager that dies concludes from late, lost and old reports that older events are gone."""
    hold(Managed, FEW, load)


@pytest.mark.slow
@LOADS
def test_reconfigurations_are_consistent_for_long_by_what_is_reported(load: Load) -> None:
    """The same holds in ten thousand schedules."""
    hold(Managed, MANY, load)


@pytest.mark.parametrize("make", [JobsBelowOnly, MissingCounts, StaleCounts])
def test_a_conclusion_from_lags_is_noticed(make: type[Scheduler]) -> None:
    """Whichever jobs or figures are passed over, an event of one of the first schedules meets two out of order."""
    with pytest.raises(pytest.fail.Exception, match=r"seed \d+: event \d+ met \S+ before r\d and \S+ after r\d"):
        hold(make, range(50), LAGGING)


@pytest.mark.parametrize(
    ("make", "schedules"), [(Naive, 50), (OneToOne, 50), (Unaligned, 50), (Unmarked, 50), (Forgetful, 200)]
)
def test_a_broken_scheduler_is_noticed(make: type[Scheduler], schedules: int) -> None:
    """Whichever rule is left out, one of the first schedules is inconsistent, and the message says how to repeat it."""
    with pytest.raises(
        pytest.fail.Exception, match=r"seed \d+: (.*) met \S+ before r\d(.|\n)*BRAID_SIMULATION_SEED=\d+"
    ):
        hold(make, range(schedules))


@pytest.mark.slow
def test_impatience_is_noticed() -> None:
    """Without waiting, a reconfiguration may overtake an earlier one in rare schedules."""
    with pytest.raises(pytest.fail.Exception, match=r"got r\d before r\d"):
        hold(Impatient, range(10_000))


def test_schedules_are_hard() -> None:
    """In many batches, reconfigurations are under way together, wait, span jobs, mark sources, and hold a stream."""
    seen: Counter[str] = Counter()

    class Observed(Fries):
        def between(self, job: str) -> None:
            super().between(job)
            left = [planned for planned in self.planned if planned.ended_before is None]
            spools = {spool: len(self.world.spools[spool]) for spool in self.world.inputs[job]}
            sources = set(self.world.graph.sources)
            seen.update(
                together=sum(planned.started for planned in left) > 1,
                waiting=any(not planned.started for planned in left),
                spanning=any(len(alignment.awaited) > 1 for alignment in self.under_way),
                marking=any(sources & alignment.marked() for alignment in self.under_way),
                holding=any(self.end(job, spool) < length for spool, length in spools.items()),
            )

    hold(Observed, range(200))
    assert [] == [thing for thing, count in seen.items() if count < 500]


def test_reports_are_hard() -> None:
    """Managers die while older events are under way, jobs beside lag, hosts are away, and bridges deliver late."""
    seen: Counter[str] = Counter()

    class Observed(Managed):
        def look(self) -> None:
            super().look()
            proving = [each for each in self.planned if self.phases.get(each.wanted.name) is Phase.PROVING]
            late = [each for each in proving if each.ended_before and self.world.oldest() < each.ended_before]
            seen.update(
                older=bool(late),
                unheard=bool(late) and len(self.knows.jobs) < len(self.world.jobs),
                away=bool(late) and bool(self.away),
                emitting=bool(late)
                and any(self.delivered[task] < len(self.world.spools[task]) for task in self.delivered),
                together=len(proving) > 1,
            )

    hold(Observed, range(50), LAGGING)
    assert [] == [thing for thing in ("older", "unheard", "away", "emitting", "together") if seen[thing] < 100]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda schedule: schedule.world.processed.pop(), r"event \d+ came to \S+ \d times, not \d"),
        (
            lambda schedule: schedule.world.processed.append(schedule.world.processed[0]),
            r"event \d+ came to \S+ \d times, not \d",
        ),
        (lambda schedule: schedule.world.applied["task1"].append("r9"), "task1 got the reconfigurations"),
    ],
    ids=["lost", "doubled", "applied"],
)
def test_damage_is_noticed(damage: Callable[[Schedule], object], expected: str) -> None:
    """Work that is missing or done twice, and a reconfiguration that nobody requested there, are troubles."""
    schedule = played(0, Epoch)
    assert trouble(schedule) is None
    damage(schedule)
    assert re.search(expected, trouble(schedule) or "")


def test_endlessness_is_noticed() -> None:
    """A scheduler that never ends a reconfiguration is in trouble."""

    class Endless(Fries):
        def blocked(self, _planned: Planned, _busy: set[str]) -> bool:
            return True

    assert re.search("still under way", trouble(played(0, Endless)) or "")
