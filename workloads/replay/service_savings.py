"""The savings and shares that a service reports, added to the results of a step. Pure.

A service meters whole minutes, which are longer than windows and may begin before them.
"""

from dataclasses import replace

from manager.answers.savings import SavingsAnswer
from workloads.replay.results_folder import StepResult
from workloads.results import TenantCoresRow


def with_savings(found: StepResult, savings: SavingsAnswer) -> StepResult:
    """A measured step with the estimated cores of separate execution and each tenant's share.

    Both are from the minutes around its windows; without a metered minute the step stays as it is.
    """
    whole = savings.whole
    if whole is None or not savings.metered_seconds or not found.windows:
        return found
    shares = {share.tenant: share.share.cores for share in savings.shares}
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
