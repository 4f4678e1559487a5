"""What all use cases share: the caller, paging, and the tools that they work with."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from sqlmodel import Session

from braid_client.answers.base import Page
from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import Role
from bridge.transport.address import Address
from dags import Catalogue, Dataflow
from engine.code.store import WheelStore
from engine.outside import Vault
from manager.adaptation.measurement import AdaptationBoard
from manager.changes import Changes
from manager.costs.choice import Chooser
from manager.documents.canonical import canonical, published_in
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import dataflow_of
from manager.kernel.draft import OPERATOR, SERVICE
from manager.kernel.live_events import ReconcilerActivity
from manager.kernel.registered_sources import Registered
from manager.lineage.sent import LineageCounts
from manager.machines.admission import Admission
from manager.machines.carriages import CommittedCarriages
from manager.observations.looks import TaskLooks
from manager.observations.reports import Observations
from manager.outputs.readers import OutputWatcher
from manager.problem import Forbidden, NotFound, invalid
from manager.provider import Person, Provider
from manager.sources.events import EventSender
from manager.store.database import Store
from manager.store.tables import DataflowRow, OperationRow, TenantRow
from manager.trials.processes import TrialProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The price of CPU, as an operator has set it."""

    per_core_hour: float | None = None
    currency: str = ""

    @property
    def exactly(self) -> Decimal | None:
        """The price as it is written."""
        return None if self.per_core_hour is None else Decimal(str(self.per_core_hour))


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
    access_changed: Callable[[], None] = lambda: None
    """Called when what tenants may do on the broker has changed."""
    activity: Callable[[], ReconcilerActivity | None] = lambda: None
    """The activity of the reconciler, while it drives hosts."""
    lineage: Callable[[], LineageCounts | None] = lambda: None
    """The events of lineage that were sent, where they are asked for."""
    broker: Callable[[], Address | None] = lambda: None
    """The address at which tenants reach the broker, once that is known."""
    keep_source: Callable[[str, str], None] = lambda _digest, _source: None
    """Called with the digest and text of published code, before it is committed, so that hosts find it. Idempotent."""
    vouchers_changed: Callable[[], None] = lambda: None
    """Called when operators have vouched for code, or do no longer; workers know once it returns. Idempotent."""
    vault: Vault | None = None
    wheels: WheelStore | None = None
    looks: TaskLooks | None = None
    outputs: OutputWatcher | None = None
    sender: EventSender | None = None
    admission: Admission = field(default_factory=Admission)
    adaptations: AdaptationBoard = field(default_factory=AdaptationBoard)
    trials: TrialProcesses = field(default_factory=TrialProcesses)
    provider: Provider | None = None
    """The provider that says who people are, besides API keys."""
    replicas: int = 0
    """The machines that are to keep copies of each host."""
    deploying_seconds: float = 15.0
    """The seconds that sent events wait for dataflows that were submitted before them and do not run yet."""
    jobs_root: Path | None = None
    """The folder below which jobs record what leaves."""
    pricing: Pricing = Pricing()

    def canonical(self, document: bytes, *, dataflow: str, tenant: str, sources: Mapping[str, Registered]) -> Dataflow:
        """The dataflow that a plain document describes by these sources; refused with all of its problems."""
        return canonical(
            document,
            dataflow=dataflow,
            tenant=tenant,
            catalogue=self.catalogue,
            sources=sources,
            published=published_in(self.store),
        )


T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a use case; made by `Administration.caller` or `Sessions.caller`."""

    key: str
    """The id of the key; empty for a person."""
    role: Role
    tenant: str | None
    name: str = ""
    """The note on the key, or what people call the person."""
    person: Person | None = None
    """Whom the provider knows, where it is no key that asks."""
    until: datetime | None = None
    """When its session ends; None where it came with the key itself."""
    requests_per_minute: int | None = None
    """How often its tenant may ask; None without bound."""
    is_service: bool = False
    """Whether it is the service itself, which acts as an operator would."""

    @property
    def id(self) -> str:
        """Return the id of its key, or the subject of the person."""
        return self.key if self.person is None else self.person.subject

    @property
    def who(self) -> str:
        """Return its name in the journal."""
        if self.is_service:
            return SERVICE
        return OPERATOR if self.tenant is None else self.tenant

    @property
    def is_operator(self) -> bool:
        """Tell whether it may do everything."""
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
        if (number := number_in(self.after)) is None:
            remedy = "use `next` of the part before, as it is"
            raise invalid("/query/after", "bad-cursor", "the cursor is none of this list", remedy)
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
        self._store = tools.store
        self._committer = tools.committer
        self._changes = tools.changes
        self._seeing = tools.seeing

    @contextmanager
    def _noted(self, kind: OperationKind, caller: Caller, subject: str, why: str = "") -> Iterator[Session]:
        """A session to write with; the journal notes what was done with it."""
        begun = time.monotonic()
        with self._store.write() as session:
            yield session
            note(session, kind, caller, subject, begun, why)

    def _own_dataflow(
        self, caller: Caller, dataflow: str, find: Callable[[Session, str], DataflowRow] = dataflow_of
    ) -> DataflowRow:
        """The row of the caller's dataflow, or of any where an operator asks."""
        with self._store.read() as session:
            row = find(session, dataflow)
        if caller.tenant not in {None, row.tenant}:
            raise NotFound("dataflow", dataflow)
        return row

    def _known_tenant(self, caller: Caller, tenant: str | None) -> str:
        """For whom a caller acts, as `tenant_of` says; refused where there is no such tenant."""
        owner = tenant_of(caller, tenant)
        with self._store.read() as session:
            tenant_row(session, owner)
        return owner


def paged(rows: Sequence[T], limit: int, *, cursor: Callable[[T], object], answer: Callable[[T], A]) -> Page[A]:
    """A part of a list, from rows of which one more was asked for than it may have."""
    shown = rows[:limit]
    following = str(cursor(shown[-1])) if len(rows) > limit and shown else None
    return Page(items=tuple(map(answer, shown)), next=following)


def by_name(names: Iterable[str], paging: Paging, answer: Callable[[str], A]) -> Page[A]:
    """A part of a list that is in the order of names."""
    following = sorted(name for name in names if name > (paging.after or ""))
    return paged(following, paging.limit, cursor=lambda name: name, answer=answer)


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
        raise invalid("/query/tenant", "missing", "an operator acts for no tenant of its own", "say for which tenant")
    return tenant


def tenant_row(session: Session, tenant: str) -> TenantRow:
    """The row of a tenant."""
    if (row := session.get(TenantRow, tenant)) is None:
        raise NotFound("tenant", tenant)
    return row


def note(  # noqa: PLR0913, PLR0917 - who did what, when, and what came of it
    session: Session, kind: OperationKind, caller: Caller, subject: str, begun: float, why: str = ""
) -> None:
    """Write what a caller did into the journal; `begun` is when the request came, by the monotonic clock."""
    seconds = time.monotonic() - begun
    session.add(OperationRow(at=time.time(), kind=kind, who=caller.who, subject=subject, seconds=seconds, note=why))


def moment(seconds: float) -> datetime:
    """A time in a row."""
    return datetime.fromtimestamp(seconds, UTC)


def hour(seconds: datetime) -> datetime:
    """A moment to the hour: tenants learn no more of when something of others began."""
    return seconds.replace(minute=0, second=0, microsecond=0)
