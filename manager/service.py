"""The service: every use case as one method, for one caller. REST calls nothing else.

What a caller may not know answers as if it did not exist.
"""

from manager.cases.administration import Administration
from manager.cases.base import Caller, Paging
from manager.cases.bills import Bills
from manager.cases.dataflows import Dataflows
from manager.cases.dead_letters import DeadLetters
from manager.cases.defragmentation import Defragmentation
from manager.cases.jobs import RunningJobs
from manager.cases.overview import Overview
from manager.cases.sessions import Sessions
from manager.cases.source_events import SourceEvents
from manager.cases.tenant_secrets import Secrets
from manager.metrics.collector import Metrics


class Service(
    Overview,
    Dataflows,
    SourceEvents,
    Administration,
    Sessions,
    RunningJobs,
    DeadLetters,
    Secrets,
    Defragmentation,
    Bills,
    Metrics,
):
    """One manager's use cases; any thread may call it."""


__all__ = ["Caller", "Paging", "Service"]
