"""What all use cases share: the caller, paging, and the tools that they work with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from bridge.transport.address import Address
from dags import Catalogue, Problem
from engine.code.store import WheelStore
from engine.outside import Vault
from manager.adaptation.measurement import AdaptationBoard
from manager.answers.base import Page
from manager.answers.tenants import Role
from manager.changes import Changes
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.kernel.draft import OPERATOR, SERVICE
from manager.kernel.live_events import ReconcilerActivity
from manager.machines.admission import Admission
from manager.machines.carriages import CommittedCarriages
from manager.observations.reports import Observations
from manager.outputs.readers import OutputWatcher
from manager.problem import Forbidden, InvalidRequest, NotFound
from manager.sources.events import EventSender
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


T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a use case; made by `Administration.caller` or `Sessions.caller`."""

    key: str
    """The id of the key."""
    role: Role
    tenant: str | None
    until: datetime | None = None
    """When its session ends; None where it came with the key itself."""
    requests_per_minute: int | None = None
    """How often its tenant may ask; None without bound."""
    is_service: bool = False
    """Whether it is the service itself, which acts as an operator would."""

    @property
    def who(self) -> str:
        """Its name in the journal."""
        if self.is_service:
            return SERVICE
        return OPERATOR if self.tenant is None else self.tenant

    @property
    def is_operator(self) -> bool:
        """Whether it may do everything."""
        return self.role is Role.OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """The part of a list that is wanted."""

    after: str | None = None
    """The cursor that the part before it ended with."""
    limit: int = 100

    @property
    def after_number(self) -> int:
        """The cursor of a list that is in the order of numbers; 0 at its beginning."""
        if self.after is None:
            return 0
        # Longer ones are beyond what databases count to.
        if (number := number_in(self.after)) is None:
            raise InvalidRequest(
                [
                    Problem(
                        pointer="/query/after",
                        code="bad-cursor",
                        message="the cursor is none of this list",
                        remedy="use `next` of the part before, as it is",
                    )
                ]
            )
        return number


def number_in(text: str) -> int | None:
    """The number that a cursor or an id is, if it is one.

    >>> number_in("12"), number_in("a"), number_in("9" * 19)
    (12, None, None)
    """
    # Longer ones are beyond what databases count to.
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS else None


_DIGITS = 18


class Base:
    """The base of each family of use cases; any thread may call them."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @property
    def _store(self) -> Store:
        return self._tools.store

    @property
    def _committer(self) -> Committer:
        return self._tools.committer

    @property
    def _changes(self) -> Changes:
        return self._tools.changes

    @property
    def _seeing(self) -> Observations:
        return self._tools.seeing


def paged(rows: Sequence[T], limit: int, *, cursor: Callable[[T], object], answer: Callable[[T], A]) -> Page[A]:
    """A part of a list, from rows of which one more was asked for than it may have."""
    shown = rows[:limit]
    following = str(cursor(shown[-1])) if len(rows) > limit and shown else None
    return Page(items=tuple(map(answer, shown)), next=following)


def operators_only(caller: Caller) -> None:
    """Refuse a caller that is no operator."""
    if not caller.is_operator:
        raise Forbidden("this is for operators only; ask one")


def tenant_of(caller: Caller, tenant: str | None) -> str:
    """For whom a caller acts: a tenant for itself, an operator for whom it names."""
    if caller.tenant is not None:
        if tenant is not None and tenant != caller.tenant:
            raise NotFound("tenant", tenant)
        return caller.tenant
    if tenant is None:
        raise InvalidRequest(
            [
                Problem(
                    pointer="/query/tenant",
                    code="missing",
                    message="an operator acts for no tenant of its own",
                    remedy="say for which tenant",
                )
            ]
        )
    return tenant


def moment(seconds: float) -> datetime:
    """A time in a row."""
    return datetime.fromtimestamp(seconds, UTC)


def hour(seconds: datetime) -> datetime:
    """A moment to the hour: tenants learn no more of when something of others began."""
    return seconds.replace(minute=0, second=0, microsecond=0)
