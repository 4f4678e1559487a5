"""What a service says of savings and shares, put beside what was measured in windows. Pure.

A service meters in whole minutes, which are longer than windows and may have begun before them.
"""

from dataclasses import replace

from manager.answers import SavingsAnswer
from workloads.replay.results_folder import StepResult
from workloads.results import TenantCoresRow


def with_savings(found: StepResult, told: SavingsAnswer) -> StepResult:
    """A measured step with what separate execution is estimated to take, and with each tenant's share.

    Both as they were metered in the minutes around its windows; where no minute was metered yet there are none.
    """
    whole = told.whole
    if whole is None or not told.metered_seconds or not found.windows:
        return found
    shares = {share.tenant: share.share.cores for share in told.shares}
    return replace(
        found,
        windows=tuple(
            replace(
                window,
                alone_launched=whole.alone_launched.likely,
                alone_packed=whole.alone_packed.likely,
            )
            for window in found.windows
        ),
        tenants=tuple(
            TenantCoresRow(step=found.step.step, tenant=tenant, cores=cores)
            for tenant, cores in (*sorted(shares.items()), (None, whole.overhead.cores + whole.others.cores))
        ),
    )
