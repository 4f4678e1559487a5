"""Sessions of the console: a token that stands for an API key for a while."""

import time

from sqlalchemy import bindparam, delete, select
from sqlmodel import col

from manager.answers import Role
from manager.cases.api_keys import hash_secret, new_token
from manager.cases.base import Base, Caller, moment
from manager.problem import Unauthenticated
from manager.store.tables import KeyRow, SessionRow, TenantRow, table_of

MOST_SESSIONS = 100
"""Sessions of one key; with one more, the oldest ends."""
_SESSIONS, _KEYS, _TENANTS = table_of(SessionRow).c, table_of(KeyRow).c, table_of(TenantRow).c
_SESSION = (
    select(_SESSIONS.key, _SESSIONS.until, _KEYS.role, _KEYS.tenant, _TENANTS.requests_per_minute)
    .join_from(table_of(SessionRow), table_of(KeyRow), _SESSIONS.key == _KEYS.id)
    .outerjoin(table_of(TenantRow), _KEYS.tenant == _TENANTS.name)
    .where(_SESSIONS.hash == bindparam("hash"), _SESSIONS.until > bindparam("now"), _KEYS.revoked.is_(None))
)
"""Asked for at every request by a cookie, with the key, so that a session ends with it."""


class Sessions(Base):
    """Sessions of the console."""

    def begin(self, caller: Caller, seconds: float) -> tuple[str, Caller]:
        """A token that stands for a caller's API key for so long, which is kept as a hash; and the caller with it."""
        token, now = new_token(), time.time()
        with self._store.write() as session:
            session.execute(delete(SessionRow).where(col(SessionRow.until) <= now))
            of_key = select(col(SessionRow.hash)).where(col(SessionRow.key) == caller.key)
            older = of_key.order_by(col(SessionRow.until).desc()).offset(MOST_SESSIONS - 1)
            session.execute(delete(SessionRow).where(col(SessionRow.hash).in_(session.scalars(older).all())))
            session.add(SessionRow(hash=hash_secret(token), key=caller.key, until=now + seconds))
        return token, self.caller(token)

    def caller(self, token: str) -> Caller:
        """Whose a session is; `Unauthenticated` where there is none, it is over, or its key was revoked."""
        with self._store.read() as session:
            row = session.execute(_SESSION, {"hash": hash_secret(token), "now": time.time()}).one_or_none()
        if row is None:
            raise Unauthenticated("the session is over, or its API key was revoked; sign in again")
        return Caller(
            key=row.key,
            role=Role(row.role),
            tenant=row.tenant,
            until=moment(row.until),
            requests_per_minute=row.requests_per_minute,
        )

    def end(self, token: str) -> None:
        """Have a token let nobody in any more."""
        with self._store.write() as session:
            session.execute(delete(SessionRow).where(col(SessionRow.hash) == hash_secret(token)))
