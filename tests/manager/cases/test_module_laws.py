"""Laws of the repository of modules, after every step of what operators and tenants do in any order."""

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from manager.answers.tenants import PublishingForm
from manager.documents.canonical import modules_of
from manager.problem import Conflict, Forbidden, NotFound
from manager.store.database import sqlite_url
from tests.manager.cases.pages import every
from tests.manager.managers import OPERATOR, Manager, caller

TENANTS = ("ann", "bob")
CALLERS = {"": OPERATOR} | {tenant: caller(tenant) for tenant in TENANTS}
"""Callers by what they own; an operator's owner is empty."""
NAMES, VERSIONS = st.sampled_from(["clean", "smooth"]), st.integers(1, 2)
OWNERS, TENANT = st.sampled_from(["", *TENANTS]), st.sampled_from(TENANTS)
Place = tuple[str, str, int]
"""Owner, name and version."""


class Repository(RuleBasedStateMachine):
    """The repository beside a model of it: dictionaries and sets that follow the definitions."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="braid-modules-"))
        shutil.copy(self.template, self.folder / "braid.db")
        self.manager = Manager(sqlite_url(self.folder / "braid.db")).lead()
        self.manager.admit(*TENANTS)
        self.modules = self.manager.service.modules
        self.published: dict[Place, bytes] = {}
        """The text of each version, in the order of publication."""
        self.deprecated: set[Place] = set()
        self.vouched: set[Place] = set()
        self.allowed: set[str] = set()

    def teardown(self) -> None:
        """Remove the database."""
        self.manager.close()
        shutil.rmtree(self.folder)

    @rule(owner=OWNERS, name=NAMES, version=VERSIONS, cost=st.integers(0, 1), is_code=st.booleans())
    def publish(self, owner: str, name: str, version: int, cost: int, *, is_code: bool) -> None:
        """The first text of a version is taken, if its owner may publish it, and no other one ever after."""
        place = (owner, name, version)
        how = {"code": {"source": "process = print"}} if is_code else {"installed": {"type": "map"}}
        form = {"name": name, "version": version, "shape": "one-to-one", "cost": cost} | how
        text = json.dumps(form).encode()
        refused: type[Exception] | None = None
        if place in self.published:
            refused = None if self.published[place] == text else Conflict
        elif owner and is_code and owner not in self.allowed:
            refused = Forbidden
        elif owner and any(each[:2] == ("", name) for each in self.published):
            refused = Conflict
        if refused is None:
            assert form == self.modules.publish(CALLERS[owner], text).form
            self.published.setdefault(place, text)
        else:
            with pytest.raises(refused):
                self.modules.publish(CALLERS[owner], text)

    @rule(who=OWNERS, owner=OWNERS, name=NAMES, version=VERSIONS)
    def deprecate(self, who: str, owner: str, name: str, version: int) -> None:
        """An operator deprecates any version, a tenant its own; what it may not know of is not there."""
        tenant = owner if not who and owner else None
        place = self._meant(who, owner, name, version)
        refused = NotFound if place is None else Forbidden if who and place[0] != who else None
        if place is not None and refused is None:
            self.modules.deprecate(CALLERS[who], name, version, tenant=tenant)
            self.deprecated.add(place)
        else:
            with pytest.raises(refused or NotFound):
                self.modules.deprecate(CALLERS[who], name, version, tenant=tenant)

    @rule(who=OWNERS, owner=TENANT, name=NAMES, version=VERSIONS, withdraws=st.booleans())
    def vouch(self, who: str, owner: str, name: str, version: int, *, withdraws: bool) -> None:
        """An operator vouches for a tenant's code, and for nothing else."""
        change = self.modules.withdraw if withdraws else self.modules.vouch
        place = (owner, name, version)
        is_code = b"source" in self.published.get(place, b"")
        refused = Forbidden if who else NotFound if place not in self.published else None if is_code else Conflict
        if refused is None:
            change(OPERATOR, name, version, tenant=owner)
            self.vouched = self.vouched - {place} if withdraws else self.vouched | {place}
        else:
            with pytest.raises(refused):
                change(CALLERS[who], name, version, tenant=None if who else owner)

    @rule(tenant=TENANT, code=st.booleans())
    def allow(self, tenant: str, *, code: bool) -> None:
        """An operator says whether a tenant may publish code; what it has published stays."""
        self.manager.service.administration.set_publishing(OPERATOR, tenant, PublishingForm(code=code))
        self.allowed = self.allowed | {tenant} if code else self.allowed - {tenant}

    @invariant()
    def everybody_sees_what_they_may_use(self) -> None:
        """Lists have it once, in the order of publication, each version as it was first published."""
        for owner, who in CALLERS.items():
            expected = [place for place in self.published if not owner or place == self._meant(owner, *place)]
            found = every(partial(self.modules.page, who), 3)
            assert expected == [(each.owner or "", each.name, each.version) for each in found]
            for each, place in zip(found, expected, strict=True):
                shown = self.modules.get(who, each.name, each.version, tenant=place[0] or None if not owner else None)
                assert json.loads(self.published[place]) == shown.form
                assert dict(each) == {name: value for name, value in dict(shown).items() if name != "form"}
                assert (place in self.deprecated) == (each.deprecated is not None)
                assert (not place[0] or place in self.vouched) == each.vouched

    @invariant()
    def tenants_plan_with_what_they_see(self) -> None:
        """Less what is deprecated, unless they hold it."""
        for tenant in TENANTS:
            visible = [place for place in self.published if place == self._meant(tenant, *place)]
            for held in (None, ("clean", 1)):
                with self.manager.store.read() as session:
                    found = modules_of(session, tenant, {f"{held[0]}@{held[1]}"} if held else ())
                expected = [each for each in visible if each not in self.deprecated or each[1:] == held]
                assert expected == [(each.owner, each.form.name, each.form.version) for each in found]

    def _meant(self, who: str, owner: str, name: str, version: int) -> Place | None:
        """What somebody means by a version: a tenant its own or else an operator's, an operator the one it names."""
        owners = (who, "") if who else (owner,)
        return next((each for each in ((one, name, version) for one in owners) if each in self.published), None)


def test_versions_stay_and_are_seen_by_those_who_may_use_them(migrated: Path) -> None:
    """A version keeps its text whatever follows, and a tenant sees, shows and plans with the same versions."""
    machine: type[Repository] = type("Machine", (Repository,), {"template": migrated})
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=20))
