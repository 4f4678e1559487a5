"""Modules: what is refused, who may do what, lists in parts, and laws of their repository."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import ModuleAnswer
from braid_client.answers.tenants import PublishingForm
from dags.vocabulary import ModuleShape
from engine.code.store import Voucher, VoucherFile
from manager.documents.canonical import modules_of
from manager.problem import Conflict, Forbidden, InvalidModule, InvalidRequest, NotFound
from manager.store.database import sqlite_url
from manager.store.tables import ModuleRow
from manager.tenants.secrets import VoucherKeeper
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, caller, every, leading

SOURCE = "def process(event):\n    return event\n"


@pytest.fixture
def manager(empty_url: str) -> Iterator[Manager]:
    yield from leading(empty_url, tenants=("ann", "bob"))


def text(name: str = "clean", version: int = 1, **more: Any) -> bytes:
    """The form of a module of an installed type."""
    form = {"name": name, "version": version, "shape": "one-to-one", "installed": {"type": "map"}}
    return json.dumps(form | more).encode()


def code(name: str = "script", source: str = SOURCE) -> bytes:
    """The form of a module that is code."""
    return json.dumps({"name": name, "version": 1, "shape": "filter", "code": {"source": source}}).encode()


def allow(manager: Manager, tenant: str) -> None:
    """Let a tenant publish code."""
    manager.service.administration.set_publishing(OPERATOR, tenant, PublishingForm(code=True))


def named(modules: list[ModuleAnswer]) -> list[tuple[str | None, str]]:
    """Owners and versions of modules."""
    return [(each.owner, f"{each.name}@{each.version}") for each in modules]


def journal(manager: Manager) -> list[tuple[str, str, str, str]]:
    """What the journal has of modules, oldest first: kind, who, subject and note."""
    kinds = {OperationKind.PUBLISH, OperationKind.DEPRECATE, OperationKind.VOUCH, OperationKind.WITHDRAW}
    entries = every(partial(manager.service.operations.page, OPERATOR), 100)
    return [(str(each.kind), each.who, each.subject, each.note) for each in reversed(entries) if each.kind in kinds]


def test_a_module_is_shown_as_it_was_published(manager: Manager) -> None:
    """With what its form says of it, and with the form as it was written."""
    form = text(tags=["fast"], cost=0.5, quality=2.0, summary="Cleans.")
    made = manager.service.modules.publish(ANN, form)
    assert ("clean", 1, "ann", "Cleans.", "one-to-one", "map") == (
        *(made.name, made.version, made.owner, made.summary),
        *(made.shape, made.type),
    )
    assert (("fast",), 0.5, 2.0, None, False) == (made.tags, made.cost, made.quality, made.deprecated, made.vouched)
    assert json.loads(form) == made.form
    assert made == manager.service.modules.get(ANN, "clean", 1)
    assert made == manager.service.modules.get(OPERATOR, "clean", 1, tenant="ann")
    assert made.published.year > 2_000


def test_a_version_never_changes(manager: Manager) -> None:
    """The same form again, however it is written, changes nothing; another one is refused, and what to do is said."""
    first = manager.service.modules.publish(ANN, text(cost=1))
    assert first == manager.service.modules.publish(ANN, text(cost=1.0, summary="") + b"\n")
    with pytest.raises(Conflict, match="clean@1 is published with another text, and a version never changes; raise it"):
        manager.service.modules.publish(ANN, text(cost=2))
    assert first == manager.service.modules.get(ANN, "clean", 1)
    manager.service.modules.publish(ANN, text(version=2, cost=2))
    assert [("publish module", "ann", f"clean@{version}", "") for version in (1, 2)] == journal(manager)


def test_of_several_texts_at_once_one_is_published(manager: Manager) -> None:
    """All others are refused, whichever came first, and it stays."""

    def publish(cost: int) -> int | None:
        with suppress(Conflict):
            return int(manager.service.modules.publish(ANN, text(cost=cost)).form["cost"])
        return None

    with ThreadPoolExecutor(8) as pool:
        found = [each for each in pool.map(publish, range(8)) if each is not None]
    assert [manager.service.modules.get(ANN, "clean", 1).cost] == found
    assert 1 == len(journal(manager))


def test_values_that_python_holds_equal_are_other_values(manager: Manager) -> None:
    """A variable that may be true is not one that may be 1."""
    manager.service.modules.publish(ANN, text(variables={"clean": [True]}))
    with pytest.raises(Conflict):
        manager.service.modules.publish(ANN, text(variables={"clean": [1]}))


def test_every_problem_of_a_form_is_named_at_once(manager: Manager) -> None:
    """Each at its place, with a remedy; nothing is published."""
    wrong = text(installed={"type": "mpa"}, ensure={"claen": True}, variables={"clean": [True]})
    with pytest.raises(InvalidModule) as refused:
        manager.service.modules.publish(ANN, wrong)
    found = [(each.pointer, each.code) for each in refused.value.errors]
    assert [("/ensure/claen", "unknown-variable"), ("/installed/type", "unknown-type")] == found
    assert all(each.remedy for each in refused.value.errors)
    for raw in (b"", b"[]", b"\xff", b"{"):
        with pytest.raises(InvalidModule):
            manager.service.modules.publish(ANN, raw)
    assert [] == every(partial(manager.service.modules.page, OPERATOR), 10)


def test_code_is_published_by_those_who_may(manager: Manager) -> None:
    """Operators, and tenants while an operator allows them; what was published meanwhile stays."""
    refused = "code is published by operators, and by tenants that an operator allows"
    with pytest.raises(Forbidden, match=refused):
        manager.service.modules.publish(ANN, code())
    assert manager.service.modules.publish(OPERATOR, code("everybodys")).vouched
    allow(manager, "ann")
    tenants = manager.service.administration.tenants(OPERATOR, Paging()).items
    assert [True, False] == [each.publishes_code for each in tenants]
    made = manager.service.modules.publish(ANN, code())
    assert ("code", False) == (made.type, made.vouched)
    with pytest.raises(Forbidden, match=refused):
        manager.service.modules.publish(BOB, code())
    manager.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=False))
    with pytest.raises(Forbidden, match=refused):
        manager.service.modules.publish(ANN, code("other"))
    assert made == manager.service.modules.publish(ANN, code())


def test_what_a_tenant_may_publish_is_set_by_operators(manager: Manager) -> None:
    """It is in the journal; no tenant sets it, nor is it set for one that there is not."""
    with pytest.raises(Forbidden):
        manager.service.administration.set_publishing(ANN, "ann", PublishingForm(code=True))
    with pytest.raises(NotFound, match="no tenant 'zoe'"):
        allow(manager, "zoe")
    allow(manager, "ann")
    manager.service.administration.set_publishing(OPERATOR, "ann", PublishingForm(code=False))
    entries = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.PUBLISHING).items
    assert [("ann", "may not publish code"), ("ann", "may publish code")] == [
        (each.subject, each.note) for each in entries
    ]


def test_a_source_is_kept_for_hosts_before_it_is_committed(manager: Manager) -> None:
    """Under its digest, and again if it is published again; a refused one is not kept."""
    kept: list[tuple[str, str, bool]] = []

    def keep(digest: str, source: str) -> None:
        kept.append((digest, source, bool(manager.service.modules.page(ANN, Paging(), name="script").items)))

    manager.equip(keep_source=keep)
    with pytest.raises(Forbidden):
        manager.service.modules.publish(ANN, code())
    manager.service.modules.publish(OPERATOR, text())
    assert [] == kept
    allow(manager, "ann")
    for _ in range(2):
        manager.service.modules.publish(ANN, code())
    digest = sha256(SOURCE.encode()).hexdigest()
    assert [(digest, SOURCE, False), (digest, SOURCE, True)] == kept
    with manager.store.read() as session:
        assert digest == session.get_one(ModuleRow, 2).digest


def test_a_source_that_cannot_be_kept_is_not_published(manager: Manager) -> None:
    """No plan could run it."""

    def full(_digest: str, _source: str) -> None:
        raise OSError("no space left")

    manager.equip(keep_source=full)
    with pytest.raises(OSError, match="no space left"):
        manager.service.modules.publish(OPERATOR, code())
    assert [] == every(partial(manager.service.modules.page, OPERATOR), 10)


def test_an_operators_name_is_taken_for_tenants(manager: Manager) -> None:
    """Whatever the version; a name that only another tenant has is not, for nobody learns of it."""
    manager.service.modules.publish(OPERATOR, text())
    with pytest.raises(Conflict, match="operators publish a module 'clean'; choose another name"):
        manager.service.modules.publish(ANN, text(version=7))
    for who in (ANN, BOB):
        manager.service.modules.publish(who, text("mine"))
    assert [(None, "clean@1"), ("ann", "mine@1")] == named(every(partial(manager.service.modules.page, ANN), 10))


def test_a_tenants_version_goes_before_an_operators(manager: Manager) -> None:
    """Where the operator came later; deprecated or not, so that a name means one thing to who holds it."""
    manager.service.modules.publish(ANN, text())
    for version in (1, 2):
        manager.service.modules.publish(OPERATOR, text(version=version))
    anns, bobs = [("ann", "clean@1"), (None, "clean@2")], [(None, "clean@1"), (None, "clean@2")]
    for _ in range(2):
        for who, expected in ((ANN, anns), (BOB, bobs)):
            assert expected == named(every(partial(manager.service.modules.versions, who, "clean"), 1))
        assert "ann" == manager.service.modules.get(ANN, "clean", 1).owner
        manager.service.modules.deprecate(ANN, "clean", 1)
    assert manager.service.modules.get(BOB, "clean", 1).deprecated is None
    with manager.store.read() as session:
        held = {each.name: each.owner for each in modules_of(session, "ann", {"clean@1"})}
    assert {"clean@1": "ann", "clean@2": ""} == held


def test_others_modules_answer_as_if_there_were_none(manager: Manager) -> None:
    """Showing and deprecating another tenant's module is answered as for one that never was."""
    manager.service.modules.publish(ANN, text("clean"))
    modules = manager.service.modules
    answers = set()
    for name in ("clean", "never"):
        for ask in (modules.get, modules.deprecate):
            with pytest.raises(NotFound) as refused:
                ask(BOB, name, 1)
            answers.add(refused.value.detail.replace(name, "?"))
    assert len(answers) == 1
    for name in ("clean", "never"):
        with pytest.raises(NotFound, match=f"no module '{name}'"):
            modules.versions(BOB, name, Paging())
    for wanted in (modules.page, partial(modules.versions, name="clean")):
        with pytest.raises(NotFound, match="no tenant 'ann'"):
            wanted(BOB, paging=Paging(), tenant="ann")
    assert [] == every(partial(modules.page, BOB), 10)


def test_a_module_is_deprecated_by_its_owner_or_an_operator(manager: Manager) -> None:
    """Once, however often it is asked; a tenant that may use an operator's module learns whose it is."""
    modules = manager.service.modules
    for version in (1, 2):
        modules.publish(ANN, text(version=version))
    modules.publish(OPERATOR, text("shared"))
    first = modules.deprecate(ANN, "clean", 1)
    assert first.deprecated is not None
    assert first == modules.deprecate(ANN, "clean", 1) == modules.deprecate(OPERATOR, "clean", 1, tenant="ann")
    modules.deprecate(OPERATOR, "clean", 2, tenant="ann")
    with pytest.raises(Forbidden, match="the module 'shared' is an operator's; ask one"):
        modules.deprecate(ANN, "shared", 1)
    modules.deprecate(OPERATOR, "shared", 1)
    assert [
        ("deprecate module", "ann", "clean@1", ""),
        ("deprecate module", "operator", "clean@2", "of ann"),
        ("deprecate module", "operator", "shared@1", ""),
    ] == [entry for entry in journal(manager) if entry[0] == "deprecate module"]


def test_operators_vouch_for_a_tenants_code(manager: Manager, tmp_path: Path) -> None:
    """Each change is in the journal once; workers know of it when it is answered, even if it was answered before."""
    manager.equip(vouchers_changed=VoucherKeeper(manager.store, tmp_path).keep)
    modules = manager.service.modules
    allow(manager, "ann")
    modules.publish(ANN, code())
    voucher = Voucher(owner="ann", digest=sha256(SOURCE.encode()).hexdigest(), entry="process", per="event")
    worker = VoucherFile(tmp_path)

    def is_vouched() -> bool:
        assert worker.has(voucher) == modules.get(ANN, "script", 1).vouched
        return worker.has(voucher)

    seen = [is_vouched()]
    for change in (modules.vouch, modules.vouch, modules.withdraw, modules.withdraw):
        change(OPERATOR, "script", 1, tenant="ann")
        seen.append(is_vouched())
    assert [False, True, True, False, False] == seen
    expected = [
        ("vouch for module", "operator", "script@1", "of ann"),
        ("withdraw vouch", "operator", "script@1", "of ann"),
    ]
    assert expected == journal(manager)[1:]


VOUCHING: dict[str, Callable[..., object]] = {
    "vouch": lambda manager, *given, **more: manager.service.modules.vouch(*given, **more),
    "withdraw": lambda manager, *given, **more: manager.service.modules.withdraw(*given, **more),
}


@pytest.mark.parametrize("change", VOUCHING.values(), ids=VOUCHING)
def test_nobody_vouches_for_anything_else(manager: Manager, change: Callable[..., object]) -> None:
    """A tenant for nothing; an operator for no installed type, and for nobody whom it does not name."""
    manager.service.modules.publish(ANN, text())
    with pytest.raises(Forbidden):
        change(manager, ANN, "clean", 1)
    with pytest.raises(Conflict, match="clean@1 is no code, so there is nothing to vouch for"):
        change(manager, OPERATOR, "clean", 1, tenant="ann")
    with pytest.raises(InvalidRequest) as refused:
        change(manager, OPERATOR, "clean", 1)
    assert ["/query/tenant"] == [each.pointer for each in refused.value.errors]
    with pytest.raises(NotFound):
        change(manager, OPERATOR, "clean", 2, tenant="ann")


def test_lists_of_modules_have_each_once(manager: Manager) -> None:
    """In the order of publication, in parts of any size, by any filter."""
    modules = manager.service.modules
    published: list[tuple[Caller, bytes]] = [
        (ANN, text("one", tags=["fast", "small"])),
        (OPERATOR, text("two", shape="filter", tags=["fast"])),
        (BOB, text("three")),
        (ANN, text("one", 2, shape="filter")),
        (OPERATOR, text("two", 2, tags=["small"])),
    ]
    for who, form in published:
        modules.publish(who, form)
    modules.deprecate(ANN, "one", 1)
    wanted: list[tuple[Caller, dict[str, Any], list[str]]] = [
        (ANN, {}, ["one@1", "two@1", "one@2", "two@2"]),
        (BOB, {}, ["two@1", "three@1", "two@2"]),
        (OPERATOR, {}, ["one@1", "two@1", "three@1", "one@2", "two@2"]),
        (OPERATOR, {"tenant": "ann"}, ["one@1", "one@2"]),
        (ANN, {"tenant": "ann"}, ["one@1", "one@2"]),
        (ANN, {"name": "two"}, ["two@1", "two@2"]),
        (ANN, {"shape": ModuleShape.FILTER}, ["two@1", "one@2"]),
        (ANN, {"tag": "fast"}, ["one@1", "two@1"]),
        (ANN, {"tag": "fast", "shape": ModuleShape.FILTER}, ["two@1"]),
        (ANN, {"deprecated": True}, ["one@1"]),
        (ANN, {"deprecated": False}, ["two@1", "one@2", "two@2"]),
        (BOB, {"deprecated": True}, []),
    ]
    for limit in (1, 2, 10):
        for who, filters, expected in wanted:
            found = every(partial(modules.page, who, **filters), limit)
            assert expected == [f"{each.name}@{each.version}" for each in found]
        for who, tenant in ((ANN, None), (OPERATOR, "ann")):
            assert ["one@1", "one@2"] == [
                f"{each.name}@{each.version}"
                for each in every(partial(modules.versions, who, "one", tenant=tenant), limit)
            ]


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
