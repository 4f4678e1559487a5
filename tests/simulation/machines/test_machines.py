"""Hosts survive their machines: what anybody outside has seen is never lost, whatever fails in whichever order.

`BRAID_SIMULATION_SEED` plays one seed, as the message of a failure says.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from ring.fleet import Carriage
from tests.simulation.machines import defects
from tests.simulation.machines.files import Files
from tests.simulation.machines.machine import Machine
from tests.simulation.machines.runs import Run, damage, played
from tests.simulation.machines.world import Trouble

SEED = os.environ.get("BRAID_SIMULATION_SEED")
# A hundred in which each situation comes about that the test counts.
FEW = range(100, 200) if SEED is None else [int(SEED)]
MANY = range(200, 10_100) if SEED is None else [int(SEED)]
UNSAFE = r"(lost acknowledged|has not got all|and now is|are missing|are lost)(.|\n)*BRAID_SIMULATION_SEED=\d+"


def hold(seeds: Iterable[int], make: type[Machine] = Machine) -> Iterator[Run]:
    for seed in seeds:
        run = played(seed, make)
        if found := run.trouble:
            repeat = f"BRAID_SIMULATION_SEED={seed} .venv/bin/python -m pytest tests/simulation/machines"
            pytest.fail(f"seed {seed}: {found}\nto repeat it: {repeat}", pytrace=False)
        yield run


@pytest.mark.slow
def test_hosts_survive_their_machines_for_long() -> None:
    """The same holds in ten thousand runs."""
    assert len(MANY) == sum(1 for _ in hold(MANY))


@pytest.mark.parametrize(
    ("make", "runs"),
    [
        (defects.Ungated, 20),
        (defects.Hasty, 20),
        (defects.Tentative, 20),
        (defects.Forgetful, 200),
        (defects.Lenient, 50),
        (defects.Trusting, 100),
        (defects.Eager, 100),
        (defects.Adding, 200),
        (defects.Restless, 20),
    ],
)
def test_a_broken_rule_is_noticed(make: type[Machine], runs: int) -> None:
    """Whichever rule is left out, one of the first runs goes wrong, and the message says how to repeat it."""
    with pytest.raises(pytest.fail.Exception, match=UNSAFE):
        assert runs == sum(1 for _ in hold(range(runs), make))


def test_hosts_survive_their_machines() -> None:
    """Nothing that was acknowledged is lost, no output differs or is missing, and all hosts run in the end.

    And the runs are hard: machines lose their disks, two at once too; hosts are taken over, handed over, fenced,
    brought home, balanced.
    """
    seen: Counter[str] = Counter()

    class Observed(Machine):
        def fenced(self, host: str, term: int) -> None:
            seen.update(fenced=host in self.carriers)
            super().fenced(host, term)

        def ordered(self, order: Carriage) -> None:
            known = self.disk.orders.get(order.host)
            seen.update(late=known is not None and known.version > order.version)
            super().ordered(order)

    for run in hold(FEW, Observed):
        seen.update(gone=len(run.world.gone), lost=sum(run.together), several=sum(each > 1 for each in run.together))
        seen.update(led_anew=run.world.database.leads - 1, balanced=len(run.world.balances))
        for _, turn in run.world.turns:
            words = ("is lost", "released", "can't take", "can't reach", "now has everything", "no copies")
            seen.update({word: word in turn.why for word in words})
            seen.update(home="released" in turn.why and turn.carriage.machine == turn.carriage.host)
    if SEED is None:
        assert {} == {thing: count for thing, count in seen.items() if count < 3}


def test_damage_is_noticed() -> None:
    """An output that is missing, and an event that is in none, are damage."""

    def found(change: Callable[[Run], object]) -> str:
        run = played(1)
        assert "" == run.trouble == damage(run.world)
        change(run)
        return damage(run.world)

    assert re.search("outputs of a are missing", found(lambda run: run.world.outputs["a"].pop(1)))
    assert re.search("acknowledged events of a are lost", found(lambda run: run.world.acks["a"].add(-1)))


def test_a_missing_copy_is_noticed() -> None:
    """At any moment each peer that is counted upon has everything."""
    world = played(0).world
    (host,) = [each for each in world.acks if world.acks[each]][:1]
    world.check(host)
    world.disks[world.database.carriages[host].machine].files[host] = Files()
    with pytest.raises(Trouble, match=f"counted upon, and lost acknowledged events of {host}"):
        world.check(host)
