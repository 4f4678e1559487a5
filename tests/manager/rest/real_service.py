"""The real service over a database of its own, with nobody to run what it commits."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlmodel import Session

from engine import installed_catalogue
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.kernel.committer import Committer
from manager.kernel.draft import DecisionGround
from manager.machines.carriages import CommittedCarriages
from manager.observations.reports import HostSeen, JobSeen, MachineStatus
from manager.service import Service, service_of
from manager.store.database import Store, sqlite_url
from manager.store.tables import Leadership
from manager.tenants.use_cases import parse_key
from manager.use_case import Tools
from merge import Host
from ring.fleet import MachineSeen

NAME = "only"


class Nobody:
    """Hears of no job and no host, and of one machine."""

    def job(self, job: str) -> JobSeen | None:
        """Nothing."""

    def hosts(self) -> tuple[HostSeen, ...]:
        return ()

    def misses_machines(self) -> bool:
        return False

    def machines(self) -> Mapping[str, tuple[MachineStatus, ...]]:
        return {"north": (MachineStatus(seen=MachineSeen(name="north", alive=True)),)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RealService:
    """A service that leads, with its tools and an operator's key; made by `real_service`."""

    service: Service
    tools: Tools
    key: str


@contextmanager
def real_service(url: str, **more: Any) -> Iterator[RealService]:
    """A service that leads, over a database; `more` are tools besides those that it cannot do without."""
    store = Store(url)
    try:
        with store.write() as session:
            _lead(session)
        ground = DecisionGround(hosts=lambda: (Host(name="main", cores=4.0),))
        catalogue = installed_catalogue()
        committer = Committer(store, catalogue, ground, name=NAME)
        committer.lead(1)
        changes = changes_of(committer, store, catalogue)
        plain = Tools(
            store=store,
            catalogue=catalogue,
            committer=committer,
            changes=changes,
            carriages=CommittedCarriages(committer, store),
            seeing=Nobody(),
            chooser=Chooser(Nobody()),
        )
        tools = replace(plain, **more)
        service = service_of(tools)
        key = service.administration.first_key()
        assert key is not None
        assert parse_key(key) is not None
        yield RealService(service=service, tools=tools, key=key)
    finally:
        store.close()


def in_folder(folder: Path) -> str:
    """The URL of a database in a folder."""
    return sqlite_url(folder / "braid.db")


def _lead(session: Session) -> None:
    row = session.get(Leadership, 1) or Leadership(id=1)
    row.leader, row.term, row.until = NAME, 1, 1e12
    session.add(row)
