"""Minutes as they were metered: two core-minutes each."""

from collections.abc import Mapping
from functools import reduce

from manager.savings.ledger import Minute
from manager.savings.settlement import CpuEstimate, Settlement, Share, Work

CORE_MINUTE = 60 * 10**9


def minute(at: int, shares: Mapping[str, Share]) -> Minute:
    """A minute of which dataflows have shares, and nobody the rest."""
    settled = Settlement(
        seconds=60.0,
        cpu={"jvm": CORE_MINUTE, "worker": CORE_MINUTE},
        shares=shares,
        overhead=2 * CORE_MINUTE - sum(share.cpu for share in shares.values()),
        launched=CpuEstimate(low=3 * CORE_MINUTE, likely=4 * CORE_MINUTE, high=5 * CORE_MINUTE),
        packed=CpuEstimate(low=2 * CORE_MINUTE, likely=3 * CORE_MINUTE, high=4 * CORE_MINUTE),
        work=reduce(Work.plus, (share.work for share in shares.values()), Work()),
    )
    return Minute(at=at, settled=settled)
