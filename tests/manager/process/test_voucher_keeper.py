"""The keeper of vouchers: what workers find is what the database has, even if another manager wrote it last."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.code.store import VOUCHERS, Voucher, VoucherFile, digest_of
from manager.answers.tenants import PublishingForm
from manager.tenants.secrets import VoucherKeeper
from tests.manager.managers import OPERATOR, Manager, caller

SOURCES = [f"def process(event): return {{'m': {at}}}" for at in range(8)]


def published(url: str) -> Manager:
    """A manager with a tenant's code, an operator's, and a module that is none."""
    made = Manager(url).lead()
    made.admit("ann")
    made.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=True))
    for at, source in enumerate(SOURCES):
        form = {"name": f"code{at}", "version": 1, "shape": "one-to-one", "code": {"source": source}}
        made.service.modules.publish(caller("ann"), json.dumps(form).encode())
    form = {"name": "everybodys", "version": 1, "shape": "one-to-one", "code": {"source": SOURCES[0]}}
    made.service.modules.publish(OPERATOR, json.dumps(form).encode())
    form = {"name": "plain", "version": 1, "shape": "one-to-one", "installed": {"type": "map"}}
    made.service.modules.publish(caller("ann"), json.dumps(form).encode())
    return made


def voucher(at: int) -> Voucher:
    """The voucher for one of the sources."""
    return Voucher(owner="ann", digest=digest_of(SOURCES[at]), entry="process", per="event")


def found(root: Path) -> list[int]:
    """The sources that a worker finds vouched for."""
    return [at for at in range(len(SOURCES)) if VoucherFile(root).has(voucher(at))]


def test_a_lost_or_outdated_file_is_written_anew(sqlite: str, tmp_path: Path) -> None:
    """When a manager begins: after a restoration, say, or after one that died between its commit and the file."""
    manager = published(sqlite)
    keeper = VoucherKeeper(manager.store, tmp_path)
    for at in (1, 2):
        manager.service.modules.vouch(OPERATOR, f"code{at}", 1, tenant="ann")
    keeper.keep()
    seen = [found(tmp_path)]
    for outdated in ([voucher(0), voucher(1)], []):
        VoucherFile(tmp_path).keep(outdated)
        keeper.keep()
        seen.append(found(tmp_path))
    (tmp_path / VOUCHERS).unlink()
    keeper.keep()
    assert [[1, 2]] * 4 == [*seen, found(tmp_path)]
    manager.close()


def test_two_managers_leave_what_was_committed(sqlite: str, tmp_path: Path) -> None:
    """In whatever order they write, no voucher that was withdrawn comes back."""
    managers = [published(sqlite), Manager(sqlite, "two")]
    for each in managers:
        each.equip(vouchers_changed=VoucherKeeper(each.store, tmp_path).keep)

    def change(at: int) -> None:
        modules = managers[at % 2].service.modules
        modules.vouch(OPERATOR, f"code{at}", 1, tenant="ann")
        if at % 3:
            modules.withdraw(OPERATOR, f"code{at}", 1, tenant="ann")

    with ThreadPoolExecutor(len(SOURCES)) as pool:
        list(pool.map(change, range(len(SOURCES))))
    assert [0, 3, 6] == found(tmp_path)
    for each in managers:
        each.close()
