"""The service: every use case as one method, for one caller. REST calls nothing else.

What a caller may not know answers as if it did not exist.
"""

from manager.cases.administration import Administration
from manager.cases.base import Caller, Paging
from manager.cases.dataflows import Dataflows
from manager.cases.dead_letters import DeadLetters
from manager.cases.defragmenting import Defragmenting
from manager.cases.looking import Looking
from manager.cases.savings import Savings
from manager.cases.secrets import Secrets
from manager.cases.sources import Sources


class Service(Dataflows, Sources, Administration, Looking, DeadLetters, Secrets, Defragmenting, Savings):
    """One manager's use cases; any thread may call it."""


__all__ = ["Caller", "Paging", "Service"]
