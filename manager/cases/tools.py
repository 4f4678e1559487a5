"""The tools of the use cases: all that they work with, made once for a manager."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from bridge.transport.address import Address
from dags import Catalogue
from engine.code.wheel_store import WheelStore
from engine.vault import Vault
from manager.carriages.admission import Admission
from manager.carriages.committed import CommittedCarriages
from manager.cases.adaptive.adapted_dataflow import AdaptationBoard
from manager.committer.changes import Changes
from manager.committer.committer import Committer
from manager.defragmentation.choice import Chooser
from manager.event_flow.output_watcher import OutputWatcher
from manager.event_flow.sender import EventSender
from manager.observations.reports import Observations
from manager.reconciler.activity import ReconcilerActivity
from manager.store.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The price of CPU, as an operator has set it."""

    per_core_hour: float | None = None
    currency: str = ""

    @property
    def exactly(self) -> Decimal | None:
        """The price as it is written."""
        return None if self.per_core_hour is None else Decimal(str(self.per_core_hour))


def _no_access_to_change() -> None:
    """Nobody keeps access lists."""


def _no_activity() -> ReconcilerActivity | None:
    """Nobody drives hosts."""
    return None


def _no_broker() -> Address | None:
    """There is no broker that tenants reach."""
    return None


def _no_vouchers_to_keep() -> None:
    """No worker looks vouchers up."""


def _no_hosts_to_keep_for(_digest: str, _source: str) -> None:
    """No host runs published code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """All that use cases work with. What a manager does not have is None, and asking for it is refused."""

    store: Store
    catalogue: Catalogue
    """The task types that documents may name."""
    committer: Committer
    changes: Changes
    carriages: CommittedCarriages
    seeing: Observations
    chooser: Chooser
    """The judge of where tasks should run."""
    access_changed: Callable[[], None] = _no_access_to_change
    """Called when what tenants may do on the broker has changed."""
    activity: Callable[[], ReconcilerActivity | None] = _no_activity
    """The activity of the reconciler, while it drives hosts."""
    broker: Callable[[], Address | None] = _no_broker
    """The address at which tenants reach the broker, once that is known."""
    keep_source: Callable[[str, str], None] = _no_hosts_to_keep_for
    """Called with the digest and text of published code, before it is committed, so that hosts find it. Idempotent."""
    vouchers_changed: Callable[[], None] = _no_vouchers_to_keep
    """Called when operators have vouched for code, or do no longer; workers know once it returns. Idempotent."""
    vault: Vault | None = None
    wheels: WheelStore | None = None
    outputs: OutputWatcher | None = None
    sender: EventSender | None = None
    admission: Admission = field(default_factory=Admission)
    adaptations: AdaptationBoard = field(default_factory=AdaptationBoard)
    replicas: int = 0
    """The machines that are to keep copies of each host."""
    deploying_seconds: float = 15.0
    """The seconds that sent events wait for dataflows that were submitted before them and do not run yet."""
    jobs_root: Path | None = None
    """The folder below which jobs record what leaves."""
    pricing: Pricing = Pricing()
