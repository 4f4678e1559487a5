"""Machines whose ways to each other and to the broker break and are healed: nothing is lost or doubled."""

import random
import time
from pathlib import Path

import pytest

from tests.faulty_way import Fault
from tests.integration.machines import Counted, ManyMachines, counted_on

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]
BREAKS = (Fault.CUT, Fault.HELD, Fault.HALF_OPEN)


@pytest.mark.full
def test_outputs_go_on_while_ways_are_slow_or_half_open_or_cut(tmp_path: Path) -> None:
    """Slow ways change nothing; a peer beyond reach is done without, a machine beyond reach is done without too."""
    served = ManyMachines(tmp_path, replicas=1, faulty=True)
    with counted_on(served, "ash", "elm") as flow:
        other, before = served.other_than(flow.host), served.orders[flow.host]
        served.ways[other].to_copies.delays(0.1)
        flow.goes_on(20)
        assert before == served.orders[flow.host]
        served.ways[other].to_copies.delays(0.0)
        half_open(served, flow, other)
        broker = served.ways[flow.host].to_broker
        broker.breaks(Fault.HELD)
        served.until_carried(flow.host, other)
        flow.goes_on()
        # What it sent meanwhile arrives now, and it finds that it was superseded.
        broker.heals()
        served.until_carried(flow.host, other, kept_by=1)
        flow.goes_on()
        flow.check()


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
def test_ways_break_and_are_healed_at_random(tmp_path: Path, seed: int) -> None:
    """One way at a time, for long enough that others take over or not: every event is counted once."""
    names, draw = ["ash", "elm", "oak"], random.Random(seed)
    served = ManyMachines(tmp_path, replicas=1, faulty=True)
    with counted_on(served, *names) as flow:
        for _ in range(12):
            served.until_kept(names)
            ways = served.ways[draw.choice(names)]
            way = draw.choice([ways.to_broker, ways.to_copies])
            way.delays(draw.choice([0.0, 0.0, 0.05, 0.3]))
            flow.goes_on(draw.randrange(40))
            way.breaks(draw.choice(BREAKS))
            if draw.random() < 0.5:
                # Whatever it is, it ends without being healed.
                flow.goes_on()
            else:
                until = time.monotonic() + draw.uniform(0.0, 20.0)
                served.until(lambda until=until: time.monotonic() > until, "the time to heal it")  # type: ignore[misc]
            way.heals()
            flow.goes_on(draw.randrange(40))
            way.delays(0.0)
        flow.check()


def half_open(served: ManyMachines, flow: Counted, peer: str) -> None:
    """What is sent to a peer vanishes: it stops to count, outputs go on, and its copy is made again afterwards."""
    way = served.ways[peer].to_copies
    way.breaks(Fault.HALF_OPEN)
    served.until(lambda: not served.orders[flow.host]["kept_by"], "the peer to be done without")
    flow.goes_on()
    assert way.lost
    way.heals()
    served.until_carried(flow.host, flow.host, kept_by=1)
    flow.goes_on()
