"""Metered usage for the console's town: half an hour in which the tenants ann and poor share tasks."""

import time

from manager.savings.ledger import MINUTE, Minute, write
from manager.savings.settlement import CpuEstimate, Settlement, Share, Work
from manager.use_case import Pricing
from tests.console.conftest import ConsoleService
from tests.manager.rest.real_service import NAME

SECOND = 10**9
MINUTES = 30


def metered(town: ConsoleService) -> None:
    """Write it down, and have a core hour cost something."""
    town.equip(pricing=Pricing(per_core_hour=6.0, currency="EUR"))
    now = int(time.time()) // MINUTE * MINUTE
    with town.tools.store.write() as session:
        # The tenth was not metered.
        ago = [each for each in range(MINUTES, 0, -1) if each != 10]
        assert write(session, NAME, [_minute(now - each * MINUTE, town) for each in ago])


def _minute(at: int, town: ConsoleService) -> Minute:
    alone, most = _estimate(20), _estimate(40)
    shares = {
        town.places["running"]: Share(
            tenant="ann",
            cpu=10 * SECOND,
            alone=alone,
            saving=_estimate(10),
            work=Work(done=4 * SECOND, alone=8 * SECOND),
        ),
        # It is removed by now.
        town.places["removed"]: Share(tenant="ann", cpu=5 * SECOND, alone=alone, saving=_estimate(15)),
        town.places["poors"]: Share(tenant="poor", cpu=10 * SECOND, alone=most, saving=_estimate(30)),
    }
    settled = Settlement(
        seconds=60.0,
        cpu={"driver": 15 * SECOND, "jvm": 30 * SECOND, "worker": 15 * SECOND},
        shares=shares,
        overhead=35 * SECOND,
        launched=_estimate(240),
        packed=_estimate(120),
        work=Work(done=9 * SECOND, alone=15 * SECOND),
    )
    return Minute(at=at, settled=settled)


def _estimate(seconds: int) -> CpuEstimate:
    return CpuEstimate(low=seconds * SECOND // 2, likely=seconds * SECOND, high=2 * seconds * SECOND)
