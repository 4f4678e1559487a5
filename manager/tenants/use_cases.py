"""Administration: tenants, API keys, sessions, quotas, and with what tenants connect to the broker."""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, Row, bindparam, delete, func, or_, select, update
from sqlmodel import Session, col

from braid_client.answers.base import Page
from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import (
    BrokerCredentials,
    BrokerLogin,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    PublishingForm,
    Quota,
    QuotaUse,
    Role,
    TenantAnswer,
    TenantForm,
)
from bridge.embedded import hashed
from bridge.formats.sparkplug_decoder import command_filters
from bridge.output_topics import node_topic, own_filter
from dags.outputs import OutputSettings, SparkplugOutput
from dags.source_topics import source_topic
from manager.kernel.draft import OPERATOR
from manager.kernel.registered_sources import topic_in
from manager.observations.figures import tenant_states
from manager.problem import Conflict, DatabaseAway, Forbidden, NotFound, StateNotReady, Unauthenticated, invalid
from manager.provider import Person, Provider, SignIn, is_token
from manager.store.requester import requester
from manager.store.tables import CredentialRow, DataflowRow, KeyRow, SessionRow, SourceRow, TenantRow, table_of
from manager.tenants.broker_access import Grant, OwnedTopic, grant, user_of
from manager.tenants.quotas import Holding, check_another, quota_counts
from manager.use_case import Base, Caller, Paging, Tools, moment, note, operators_only, paged, tenant_row

_ID_BYTES = 8
_SECRET_BYTES = 32
"""256 bits."""
# The id is hexadecimal, so the first underscore behind it ends it; the secret may hold underscores.
_FORM = re.compile(r"braid_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class NewKey(NamedTuple):
    """An API key when it is made; the text is shown once and kept nowhere."""

    id: str
    """The id of the key, which is no secret."""
    text: str
    """What the caller sends."""
    hash: str
    """What is kept of the secret."""


def new_key() -> NewKey:
    """Make an API key."""
    id = secrets.token_hex(_ID_BYTES)  # noqa: A001 - the word that callers know it by
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(id=id, text=f"braid_{id}_{secret}", hash=hash_secret(secret))


def parse_key(text: str) -> tuple[str, str] | None:
    """The id and the secret of what a caller sent; None if it is no API key.

    >>> parse_key("braid_00112233aabbccdd_" + "s" * 43) == ("00112233aabbccdd", "s" * 43)
    True
    >>> parse_key("braid_00112233aabbccdd_short"), parse_key("")
    (None, None)
    """
    parts = _FORM.fullmatch(text)
    return (parts[1], parts[2]) if parts else None


def matches(secret: str, hash: str) -> bool:  # noqa: A002 - the field's name
    """Compare a secret with a hash, in a time that reveals nothing about it.

    >>> key = new_key()
    >>> [matches(secret, key.hash) for secret in (parse_key(key.text)[1], "another")]
    [True, False]
    """
    return hmac.compare_digest(hash_secret(secret).encode(), hash.encode())


def hash_secret(secret: str) -> str:
    """The hash that is kept of a secret."""
    # Slow, salted hashes are for passwords, which can be guessed. Nobody guesses 256 random bits, however fast the
    # hash, and each request pays for it.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


LINK_SECONDS = 60.0
"""The seconds for which a link signs in."""
MOST_SESSIONS = 100
"""Sessions of one key; with one more, the oldest ends."""
_KEYS, _TENANTS = table_of(KeyRow).c, table_of(TenantRow).c


def _valid() -> tuple[ColumnElement[bool], ...]:
    """What holds of a key that is valid `now`."""
    return _KEYS.revoked.is_(None), or_(_KEYS.expires.is_(None), _KEYS.expires > bindparam("now"))


_SESSIONS = table_of(SessionRow).c
_DATAFLOWS = table_of(DataflowRow).c
_DELIVERED = select(_DATAFLOWS.tenant, _DATAFLOWS.outputs).where(
    _DATAFLOWS.removed.is_(None), _DATAFLOWS.outputs.is_not(None)
)
"""How the outputs of the dataflows that run are delivered, where that is set, with the tenant of each."""
_SESSION = (
    select(*_SESSIONS, _KEYS.role, _KEYS.tenant, _KEYS.note, _KEYS.expires, _TENANTS.requests_per_minute)
    .join_from(table_of(SessionRow), table_of(KeyRow), _SESSIONS.key == _KEYS.id, isouter=True)
    .outerjoin(table_of(TenantRow), _KEYS.tenant == _TENANTS.name)
    .where(_SESSIONS.hash == bindparam("hash"), _SESSIONS.until > bindparam("now"))
    .where(or_(_SESSIONS.key == "", _KEYS.id.is_not(None)), *_valid())
)
"""Asked for at every request by a cookie, with the key if it is of one, so that a session ends with it."""
_FORGET_SESSIONS = delete(SessionRow).where(_SESSIONS.until <= bindparam("now"))
"""Those that are over, and links."""
_RATE = select(_TENANTS.requests_per_minute).where(_TENANTS.name == bindparam("name"))


def _asking(caller: Caller) -> Caller:
    """The caller, whom the journal names from now on as who asks for what is done."""
    asked = requester()
    asked.caller, asked.name, asked.who = caller.id, caller.name, caller.who
    return caller


def _holder(key: str, row: Row[Any]) -> Caller:
    """The caller with an API key, as a row with the columns of the key and of its tenant has it."""
    caller = Caller(
        key=key,
        role=Role(row.role),
        tenant=row.tenant,
        name=row.note,
        requests_per_minute=row.requests_per_minute,
    )
    return _asking(caller)


def _known_to(tools: Tools, person: Person) -> Caller:
    """The caller that a person is by the settings; `Forbidden` where they let nobody of the person's groups in."""
    # Known before it is refused, since refusals are in the journal.
    requester().caller, requester().name = person.subject, person.name
    if (provider := tools.provider) is None:
        raise Unauthenticated("this service asks no provider who people are any more; send an API key")
    granted, most = provider.granted(person), None
    if granted.tenant is not None:
        with tools.store.read() as session:
            most = session.scalar(_RATE, {"name": granted.tenant})
        if most is None:
            raise Forbidden(
                f"{person.name} is of the tenant {granted.tenant!r}, which is not admitted; ask an operator to admit it"
            )
    caller = Caller(
        key="",
        role=granted.role,
        tenant=granted.tenant,
        name=person.name,
        person=person,
        requests_per_minute=most,
    )
    return _asking(caller)


class Sessions(Base):
    """Sessions of the console."""

    def begin(self, caller: Caller, seconds: float) -> tuple[str, Caller]:
        """A token that stands for a caller for so long, which is kept as a hash; and the caller with it."""
        token, now, begun = secrets.token_urlsafe(_SECRET_BYTES), time.time(), time.monotonic()
        with self._store.write() as session:
            session.execute(_FORGET_SESSIONS, {"now": now})
            row = SessionRow(hash=hash_secret(token), key=caller.key, until=now + seconds)
            if (person := caller.person) is not None:
                row.subject, row.name, row.groups = person.subject, person.name, list(person.groups)
            own = select(col(SessionRow.hash)).where(_SESSIONS.key == row.key, _SESSIONS.subject == row.subject)
            older = own.order_by(col(SessionRow.until).desc()).offset(MOST_SESSIONS - 1)
            session.execute(delete(SessionRow).where(col(SessionRow.hash).in_(session.scalars(older).all())))
            session.add(row)
            note(session, OperationKind.SIGN_IN, caller, caller.id, begun)
        return token, self.caller(token)

    def link(self, caller: Caller) -> tuple[str, float]:
        """A token that lets a caller with an API key sign in once, kept as a hash; and until when."""
        if not caller.key:
            raise Unauthenticated("a link stands for an API key; send one")
        token, now = secrets.token_urlsafe(_SECRET_BYTES), time.time()
        with self._store.write() as session:
            session.execute(_FORGET_SESSIONS, {"now": now})
            session.add(SessionRow(hash=_hash_link(token), key=caller.key, until=now + LINK_SECONDS))
        return token, now + LINK_SECONDS

    def follow(self, token: str) -> Caller:
        """Whose a link is, which is used up then; `Unauthenticated` where it was used before, or is over."""
        asked = {"hash": _hash_link(token), "now": time.time()}
        with self._store.write() as session:
            row = session.execute(_SESSION, asked).one_or_none()
            used = session.execute(delete(SessionRow).where(col(SessionRow.hash) == asked["hash"]))
        # Of two that follow it at the same time, one deletes it.
        if row is None or getattr(used, "rowcount") != 1:  # noqa: B009 - a type of what is deleted does not have it
            raise Unauthenticated("the link was used before, or is older than a minute; make another one")
        return _holder(row.key, row)

    def caller(self, token: str) -> Caller:
        """Whose a session is; `Unauthenticated` where there is none, it is over, or its key is not valid any more."""
        with self._store.read() as session:
            row = session.execute(_SESSION, {"hash": hash_secret(token), "now": time.time()}).one_or_none()
        if row is not None and row.key == "":
            person = Person(subject=row.subject, name=row.name, groups=tuple(row.groups or ()))
            try:
                return replace(_known_to(self._tools, person), until=moment(row.until))
            except Forbidden as error:
                raise Unauthenticated(error.detail) from None
        if row is None:
            raise Unauthenticated("the session is over, or its API key is not valid any more; sign in again")
        until = moment(row.until if row.expires is None else min(row.until, row.expires))
        return replace(_holder(row.key, row), until=until)

    @property
    def provider(self) -> Provider:
        """The provider to sign in with."""
        if (provider := self._tools.provider) is None:
            raise NotFound("sign-in", "with a provider")
        return provider

    @property
    def offered(self) -> str | None:
        """The host of the provider to sign in with, if there is one."""
        return None if self._tools.provider is None else urlsplit(self._tools.provider.issuer).netloc

    def sign_in(self, sign_in: SignIn, code: str, page: str, seconds: float) -> tuple[str, Caller]:
        """A session of the person who has signed in with the provider.

        The person's other sessions get the groups of now, and end where none of them is named any more.
        """
        person = self.provider.signed_in(sign_in, code, page)
        with self._store.write() as session:
            own = (_SESSIONS.key == "", _SESSIONS.subject == person.subject)
            if person.groups:
                renewed = update(table_of(SessionRow)).where(*own)
                session.execute(renewed.values(groups=list(person.groups), name=person.name))
            else:
                session.execute(delete(SessionRow).where(*own))
        return self.begin(_known_to(self._tools, person), seconds)

    def end(self, caller: Caller, token: str) -> None:
        """Have a caller's token let nobody in any more."""
        with self._noted(OperationKind.SIGN_OUT, caller, caller.id) as session:
            session.execute(delete(SessionRow).where(col(SessionRow.hash) == hash_secret(token)))


def _hash_link(token: str) -> str:
    """The hash that is kept of a link's token; no cookie has it, so the link lets nobody in but by signing in."""
    return f"link:{hash_secret(token)}"


_KEY = (
    select(*_KEYS, _TENANTS.requests_per_minute)
    .join_from(table_of(KeyRow), table_of(TenantRow), _KEYS.tenant == _TENANTS.name, isouter=True)
    .where(_KEYS.id == bindparam("id"))
)
"""Asked for at every request."""
_SET_USED = (
    update(table_of(KeyRow))
    .where(_KEYS.id == bindparam("of"), or_(_KEYS.used.is_(None), _KEYS.used < bindparam("at")))
    .values(used=bindparam("at"))
)


class Administration(Base):
    """Tenants, their API keys and their credentials."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._uses: dict[str, float] = {}
        """When keys were last used that the database does not know of yet."""

    def caller(self, sent: str) -> Caller:
        """The caller with an API key, or with a token of the provider; `Unauthenticated` where it lets nobody in."""
        if self._tools.provider is not None and is_token(sent):
            return _known_to(self._tools, self._tools.provider.bearer(sent))
        return self.holder(sent)

    def holder(self, key: str) -> Caller:
        """The caller with an API key; `Unauthenticated` where it lets nobody in."""
        if (parsed := parse_key(key)) is None:
            raise Unauthenticated
        with self._store.read() as session:
            row = session.execute(_KEY, {"id": parsed[0]}).one_or_none()
        if row is None or not matches(parsed[1], row.hash) or row.revoked is not None:
            raise Unauthenticated
        now = time.time()
        if row.expires is not None and row.expires <= now:
            raise Unauthenticated(f"the API key {row.id} expired on {moment(row.expires):%Y-%m-%d}; send another one")
        self._uses[row.id] = now
        return _holder(row.id, row)

    def keep_uses(self) -> None:
        """Write down when keys were last used; not part of each request, which would wait for it."""
        uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            with self._store.write() as session:
                session.connection().execute(_SET_USED, [{"of": key, "at": at} for key, at in list(uses.items())])
        except DatabaseAway:
            self._uses = uses | self._uses
            raise

    def first_key(self) -> str | None:
        """An operator's key where there is none at all, so that somebody can begin; else nothing."""
        with self._store.write() as session:
            if session.scalar(select(func.count()).select_from(KeyRow)):
                return None
            return self._made_key(session, KeyForm(note="the first")).text

    def admit(self, caller: Caller, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        operators_only(caller)
        if form.name == OPERATOR:
            raise Conflict(f"the journal calls operators {OPERATOR!r}; choose another name")
        with self._noted(OperationKind.ADMIT, caller, form.name) as session:
            if session.get(TenantRow, form.name) is not None:
                raise Conflict(f"there is a tenant {form.name!r} already; choose another name")
            _check_topics(session, form.name)
            session.add(TenantRow(name=form.name, **form.quota.model_dump(), created=time.time()))
        self._tools.access_changed()
        return self._tenant(form.name)

    def tenants(self, caller: Caller, paging: Paging) -> Page[TenantAnswer]:
        """Every tenant for an operator, itself for a tenant."""
        wanted = select(TenantRow).order_by(col(TenantRow.name)).where(col(TenantRow.name) > (paging.after or ""))
        if caller.tenant is not None:
            wanted = wanted.where(col(TenantRow.name) == caller.tenant)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
            answer = self._answering(session, rows)
            return paged(rows, paging.limit, cursor=lambda row: row.name, answer=answer)

    def set_quota(self, caller: Caller, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return self._set(caller, tenant, OperationKind.QUOTA, **quota.model_dump())

    def set_publishing(self, caller: Caller, tenant: str, form: PublishingForm) -> TenantAnswer:
        """Set whether a tenant may publish code; operators only. What it has published stays."""
        why = "may publish code" if form.code else "may not publish code"
        return self._set(caller, tenant, OperationKind.PUBLISHING, why, publishes=form.code)

    def _set(self, caller: Caller, tenant: str, kind: OperationKind, why: str = "", **columns: int) -> TenantAnswer:
        operators_only(caller)
        with self._noted(kind, caller, tenant, why) as session:
            row = tenant_row(session, tenant)
            for name, value in columns.items():
                setattr(row, name, value)
            session.add(row)
        return self._tenant(tenant)

    def make_key(self, caller: Caller, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anybody, a tenant for itself."""
        if caller.tenant is not None and form.tenant not in {None, caller.tenant}:
            raise Forbidden("a tenant makes keys for itself only; leave the tenant out")
        tenant = caller.tenant or form.tenant
        if form.read_only and tenant is None:
            remedy = "name the tenant that it is to see, or leave this out"
            raise invalid("/read_only", "no-tenant", "an operator's key may change everything", remedy)
        if form.expires is not None and form.expires <= datetime.now(UTC):
            raise invalid("/expires", "past", "it would have expired already", "name a time to come")
        begun = time.monotonic()
        with self._store.write() as session:
            if tenant is not None:
                tenant_row(session, tenant)
                check_another(session, tenant, Holding.KEYS, _valid_keys(session, tenant))
            made = self._made_key(session, form.model_copy(update={"tenant": tenant}))
            note(session, OperationKind.MAKE_KEY, caller, made.id, begun)
            session.flush()
            answer = _key(session.get_one(KeyRow, made.id))
        return NewKeyAnswer(**answer.model_dump(), key=made.text)

    def keys(self, caller: Caller, paging: Paging) -> Page[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        wanted = select(KeyRow).order_by(col(KeyRow.id)).where(col(KeyRow.id) > (paging.after or ""))
        if caller.tenant is not None:
            wanted = wanted.where(col(KeyRow.tenant) == caller.tenant)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.id, answer=_key)

    def revoke_key(self, caller: Caller, key: str) -> KeyAnswer:
        """Have an API key let nobody in any more."""
        begun = time.monotonic()
        with self._store.write() as session:
            row = session.get(KeyRow, key)
            if row is None or caller.tenant not in {None, row.tenant}:
                raise NotFound("API key", key)
            if row.revoked is None:
                if row.role == Role.OPERATOR and row.expires is None and _valid_keys(session, None, _LASTING) == 1:
                    raise Conflict("this is the last key of an operator that does not expire; make another one first")
                row.revoked = time.time()
                session.add(row)
                note(session, OperationKind.REVOKE_KEY, caller, key, begun)
        return _key(row)

    def make_credentials(self, caller: Caller, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; those it had before let nobody in any more."""
        self._check_own(caller, tenant)
        password, made = secrets.token_urlsafe(32), time.time()
        with self._noted(OperationKind.CREDENTIALS, caller, tenant) as session:
            tenant_row(session, tenant)
            session.merge(CredentialRow(tenant=tenant, hash=hashed(password), created=made))
        self._tools.access_changed()
        return BrokerCredentials(**self._login(tenant, made).model_dump(), password=password)

    def broker_login(self, caller: Caller, tenant: str) -> BrokerLogin:
        """Where and as whom a tenant connects to the broker, without the password."""
        self._check_own(caller, tenant)
        with self._store.read() as session:
            tenant_row(session, tenant)
            row = session.get(CredentialRow, tenant)
        return self._login(tenant, None if row is None else row.created)

    def _login(self, tenant: str, made: float | None) -> BrokerLogin:
        granted = self.grants()[tenant]
        return BrokerLogin(
            url=str(self._tools.broker() or ""),
            user=granted.user,
            reads=granted.reads,
            writes=granted.writes,
            made=None if made is None else moment(made),
        )

    @staticmethod
    def _check_own(caller: Caller, tenant: str) -> None:
        if caller.tenant not in {None, tenant}:
            raise NotFound("tenant", tenant)

    def grants(self) -> dict[str, Grant]:
        """The grants of each tenant on the broker."""
        with self._store.read() as session:
            tenants = session.scalars(select(col(TenantRow.name))).all()
            sources = [
                (row, source_topic(topic).filter)
                for row in session.scalars(select(SourceRow))
                if (topic := topic_in(row.connection)) is not None
            ]
            topics = [OwnedTopic(owner=row.owner, topic=topic) for row, topic in sources]
            # Else its devices could not be asked for what they said before anybody listened.
            commands = [
                OwnedTopic(owner=row.owner, topic=command_topic)
                for row, topic in sources
                if row.connection.get("format", {}).get("kind") == "sparkplug"
                for command_topic in command_filters(topic)
            ]
            delivered = [
                (tenant, OutputSettings.model_validate(settings, strict=False))
                for tenant, outputs_set in session.execute(_DELIVERED)
                for settings in outputs_set.values()
            ]
        outputs = [
            OwnedTopic(owner=tenant, topic=own)
            for tenant, settings in delivered
            if (own := own_filter(settings)) is not None
        ]
        topics += [
            OwnedTopic(owner=tenant, topic=node_topic(settings.format, "NCMD"))
            for tenant, settings in delivered
            if isinstance(settings.format, SparkplugOutput)
        ]
        return grant(tenants, topics, [*outputs, *commands])

    def broker_hashes(self) -> dict[str, str]:
        """The hashes of the tenants' broker passwords, by user."""
        with self._store.read() as session:
            return {user_of(row.tenant): row.hash for row in session.scalars(select(CredentialRow))}

    def _tenant(self, name: str) -> TenantAnswer:
        with self._store.read() as session:
            row = session.get_one(TenantRow, name)
            return self._answering(session, (row,))(row)

    def _answering(self, session: Session, rows: Iterable[TenantRow]) -> Callable[[TenantRow], TenantAnswer]:
        """What answers on some tenants."""
        counts = quota_counts(session, (row.name for row in rows), datetime.now(UTC))
        return partial(self._answer, counts, self._state_sizes())

    def _answer(
        self, counts: Mapping[str, Mapping[str, int]], states: Mapping[str, int] | None, row: TenantRow
    ) -> TenantAnswer:
        until = row.quarantined_until
        state_mb = None if states is None else states.get(row.name, 0) // 1_000_000
        kept = 0 if self._tools.vault is None else len(self._tools.vault.names(row.name))
        return TenantAnswer(
            name=row.name,
            quota=Quota.model_validate(row, from_attributes=True),
            uses=QuotaUse(secrets=kept, state_mb=state_mb, budget=self._cost_of(row.name), **counts[row.name]),
            created=moment(row.created),
            publishes_code=row.publishes,
            quarantined_until=moment(until) if until is not None and time.time() < until else None,
        )

    def _cost_of(self, tenant: str) -> float | None:
        """What a tenant's dataflows with alternates cost a day, where this manager knows."""
        costs = self._tools.adaptations.costs
        return None if costs is None else round(costs.get(tenant, 0.0), 2)

    def _state_sizes(self) -> Mapping[str, int] | None:
        """The sizes of the states of tenants, where this manager knows what runs for whom."""
        with suppress(StateNotReady), self._committer.looking() as state:
            return tenant_states(state.running, state.plans, self._seeing).by_tenant
        return None

    @staticmethod
    def _made_key(session: Session, form: KeyForm) -> NewKey:
        made = new_key()
        tenants = Role.READ_ONLY if form.read_only else Role.TENANT
        row = KeyRow(
            id=made.id,
            hash=made.hash,
            role=Role.OPERATOR if form.tenant is None else tenants,
            tenant=form.tenant,
            note=form.note,
            created=time.time(),
            expires=None if form.expires is None else form.expires.timestamp(),
        )
        session.add(row)
        return made


def _key(row: KeyRow) -> KeyAnswer:
    return KeyAnswer.model_validate(row, from_attributes=True)


def _check_topics(session: Session, tenant: str) -> None:
    """Refuse a tenant by whose name a topic begins that feeds a source of another."""
    columns = table_of(SourceRow).c
    for source, connection in session.execute(select(columns.name, columns.connection)):
        topic = topic_in(connection) or ""
        if topic.partition("/")[0] == tenant:
            raise Conflict(
                f"the topic {topic!r} of the source {source!r} would be this tenant's; choose another name, or revoke "
                "that source first"
            )


_LASTING = (_KEYS.expires.is_(None),)


def _valid_keys(session: Session, tenant: str | None, more: tuple[ColumnElement[bool], ...] = ()) -> int:
    """The number of a tenant's keys, or of the operators', that are valid, and of which more holds."""
    counting = select(func.count()).where(_KEYS.tenant == tenant, *_valid(), *more)
    return session.scalar(counting, {"now": time.time()}) or 0
