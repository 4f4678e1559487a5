"""The base of all use cases: the caller, paging, and the tools."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from dags import Problem
from manager.answers import Page, Role
from manager.cases.tools import Tools
from manager.committer.changes import Changes
from manager.committer.committer import Committer
from manager.committer.rows import OPERATOR, SERVICE
from manager.observations.reports import Observations
from manager.problem import Forbidden, InvalidRequest, NotFound
from manager.store.database import Store

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
