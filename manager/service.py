"""The service: every use case as one method, for one caller. REST calls nothing else.

What a caller may not know answers as if it did not exist.
"""

from manager.cases.administration import Administration
from manager.cases.base import Caller, Paging
from manager.cases.bills import Bills
from manager.cases.dataflows import Dataflows
from manager.cases.dead_letters import DeadLetters
from manager.cases.defragmenting import Defragmenting
from manager.cases.looking import Looking
from manager.cases.overview import Overview
from manager.cases.secrets import Secrets
from manager.cases.sending import SourceEvents
from manager.cases.sessions import Sessions
from manager.metrics.collecting import Metrics


class Service(
    Overview,
    Dataflows,
    SourceEvents,
    Administration,
    Sessions,
    Looking,
    DeadLetters,
    Secrets,
    Defragmenting,
    Bills,
    Metrics,
):
    """One manager's use cases; any thread may call it."""


__all__ = ["Caller", "Paging", "Service"]
