"""Many tenants at once: every answer is one that some order gives, and the journal says which."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sqlmodel import select

from braid_client.answers.dataflows import Stop, SubmitAnswer
from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import Role
from manager.problem import StateNotReady
from manager.store.database import sqlite_url
from manager.store.tables import DataflowRow, Leadership, OperationRow
from manager.use_case import Caller, Paging
from tests.manager.kernel.pictures import hold
from tests.manager.managers import Manager, caller, raw

TENANTS = tuple(f"tenant-{number}" for number in range(50))
TEXTS = (
    "s:source > a:map{'add': 1} > k:sink",
    "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink a > l:sink",
    "s:source > a:map{'add': 1} > c:count > k:sink",
    "t:source{'source': 'traffic'} > a:window > k:sink",
    "s:source > j:join.left > k:sink t:source{'source': 'traffic'} > j.right",
    "s:source > a:map{'add': 1} > r:random > k:sink",
)
STEPS = 5
LOOKING = 16
"""More threads than a pool of connections has by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredChange:
    """What a tenant was answered about a change."""

    kind: OperationKind
    dataflow: str
    started: int = 0
    reused: int = 0


class Tenant:
    """One tenant that submits, replaces and removes, and keeps its answers."""

    def __init__(self, name: str, ask: Callable[[Callable[[Manager], object]], object]) -> None:
        self.caller: Caller = caller(name)
        self.answers: list[AnsweredChange] = []
        self._ask = ask
        self._chance = Random(name)
        self._mine: list[str] = []

    def work(self) -> list[AnsweredChange]:
        for _ in range(STEPS):
            text = raw(self._chance.choice(TEXTS))
            what = self._chance.random()
            if not self._mine or what < 0.55:
                answer = self._ask(lambda manager, text=text: manager.service.dataflows.submit(self.caller, text))  # type: ignore[misc]
                self._note(OperationKind.SUBMIT, answer)
                self._mine.append(self.answers[-1].dataflow)
            elif what < 0.75:
                name = self._chance.choice(self._mine)
                answer = self._ask(lambda m, name=name, text=text: m.service.dataflows.replace(self.caller, name, text))  # type: ignore[misc]
                self._note(OperationKind.REPLACE, answer)
            else:
                gone = self._mine.pop(self._chance.randrange(len(self._mine)))
                self._ask(lambda manager, gone=gone: manager.service.dataflows.remove(self.caller, gone, Stop.NOW))  # type: ignore[misc]
                self.answers.append(AnsweredChange(kind=OperationKind.REMOVE, dataflow=gone))
        return self.answers

    def _note(self, kind: OperationKind, answer: object) -> None:
        assert isinstance(answer, SubmitAnswer)
        self.answers.append(
            AnsweredChange(
                kind=kind,
                dataflow=answer.id,
                started=len({task.instance for task in answer.started}),
                reused=len({task.instance for task in answer.reused}),
            )
        )


def prepared(url: str, name: str = "one") -> Manager:
    manager = Manager(url, name).lead()
    manager.admit(*TENANTS)
    manager.admit("ann", "bob")
    manager.register("weather", "traffic")
    return manager


def journal(manager: Manager) -> list[OperationRow]:
    kinds = (OperationKind.SUBMIT, OperationKind.REPLACE, OperationKind.REMOVE)
    with manager.store.read() as session:
        every = session.scalars(select(OperationRow).order_by(OperationRow.id)).all()  # type: ignore[arg-type]
    return [row for row in every if row.kind in kinds]


def counts(rows: list[OperationRow]) -> list[tuple[str, str, int, int, int]]:
    return [(row.kind, row.who, row.started, row.reused, row.paused) for row in rows]


def hold_the_journal(answers: dict[str, list[AnsweredChange]], manager: Manager, anew: Manager) -> None:
    """Hold that the journal has what all were answered, and that doing it one after the other comes to the same."""
    rows = journal(manager)
    assert len(rows) == sum(map(len, answers.values()))
    for tenant, each in answers.items():
        # Nobody's operation is missing, doubled or out of its order.
        mine = [row for row in rows if row.who == tenant]
        assert [(one.kind, one.dataflow) for one in each] == [(row.kind, row.subject) for row in mine]
        for one, row in zip(each, mine, strict=True):
            if one.kind is not OperationKind.REMOVE:
                assert (one.started, one.reused) == (row.started, row.reused)
    # Documents of removed dataflows and of earlier revisions are drawn again, as the tenants did.
    texts = {tenant: drawn(tenant) for tenant in answers}
    names: dict[str, str] = {}
    for row in rows:
        who = Caller(key=row.who, role=Role.TENANT, tenant=row.who)
        match row.kind:
            case OperationKind.SUBMIT:
                names[row.subject] = anew.service.dataflows.submit(who, next(texts[row.who])).id
            case OperationKind.REPLACE:
                anew.service.dataflows.replace(who, names[row.subject], next(texts[row.who]))
            case _:
                next(texts[row.who])
                anew.service.dataflows.remove(who, names[row.subject], Stop.NOW)
    assert counts(rows) == counts(journal(anew))
    assert running(manager) == running(anew)
    hold(manager)


def drawn(tenant: str) -> Iterator[bytes]:
    """The documents of a tenant's steps, whether it sent them or not."""
    chance, mine = Random(tenant), 0
    for _ in range(STEPS):
        text = raw(chance.choice(TEXTS))
        what = chance.random()
        if not mine or what < 0.55:
            mine += 1
        elif what < 0.75:
            chance.choice(range(mine))
        else:
            chance.randrange(mine)
            mine -= 1
        yield text


def running(manager: Manager) -> Counter[tuple[bytes, bool, int]]:
    """What runs: each task's signature, whether it is confined, and how many dataflows it serves."""
    with manager.committer.looking() as state:
        graph = state.running
        return Counter(
            (task.key.signature, task.key.scope is not None, len(graph.users[instance]))
            for instance, task in graph.tasks.items()
        )


def test_fifty_tenants_at_once(empty_url: str, tmp_path: Path) -> None:
    """Whatever fifty tenants do at once, their answers are those of the journal's order, and no update is lost."""
    manager = prepared(empty_url)
    tenants = [Tenant(name, lambda ask: ask(manager)) for name in TENANTS]
    with ThreadPoolExecutor(len(TENANTS)) as threads:
        answers = dict(zip(TENANTS, threads.map(Tenant.work, tenants), strict=True))
    anew = prepared(sqlite_url(tmp_path / "anew.db"))
    hold_the_journal(answers, manager, anew)
    with manager.store.read() as session:
        rows = session.scalars(select(DataflowRow)).all()
    removed = {one.dataflow for each in answers.values() for one in each if one.kind is OperationKind.REMOVE}
    assert removed == {row.id for row in rows if row.removed is not None}
    manager.close()
    anew.close()


def test_the_lead_changes_in_the_middle(empty_url: str, tmp_path: Path) -> None:
    """While the lead goes to and fro between two managers, nothing is done twice, lost, or answered wrongly."""
    managers = [prepared(empty_url, "one"), Manager(empty_url, "two")]
    tenants = TENANTS[:12]
    done = threading.Semaphore(0)

    def ask(step: Callable[[Manager], object]) -> object:
        for turn in range(100_000):
            try:
                answer = step(managers[turn % 2])
            except StateNotReady:
                continue
            done.release()
            return answer
        raise AssertionError("neither manager leads")

    with ThreadPoolExecutor(len(tenants)) as threads:
        working = [threads.submit(Tenant(name, ask).work) for name in tenants]
        for turn in range(6):
            for _ in range(len(tenants) * STEPS // 8):
                assert done.acquire(timeout=60)
            # The one that leads is not asked.
            managers[(turn + 1) % 2].lead()
        answers = {name: each.result(120) for name, each in zip(tenants, working, strict=True)}
    leader = managers[0]
    assert leader.committer.leads
    with leader.store.read() as session:
        assert ("one", 7) == (session.get_one(Leadership, 1).leader, session.get_one(Leadership, 1).term)
    anew = prepared(sqlite_url(tmp_path / "anew.db"))
    hold_the_journal(answers, leader, anew)
    for each in (*managers, anew):
        each.close()


def test_looking_while_others_change(sqlite: str) -> None:
    """Lists, details and explanations are answered while others submit, with no error, and nobody waits for ever."""
    manager = prepared(sqlite)
    dataflow = manager.submit("ann", TEXTS[0])
    stop = threading.Event()

    def look() -> int:
        looks = 0
        while not stop.is_set():
            assert dataflow == manager.service.dataflows.page(caller("ann"), Paging(limit=1)).items[0].id
            assert dataflow == manager.service.dataflows.get(caller("ann"), dataflow).id
            manager.service.dataflows.explain(caller("bob"), raw(TEXTS[1]))
            looks += 1
        return looks

    with ThreadPoolExecutor(LOOKING + 4) as pool:
        looking = [pool.submit(look) for _ in range(LOOKING)]
        working = [pool.submit(Tenant(name, lambda ask: ask(manager)).work) for name in TENANTS[:4]]
        try:
            for each in working:
                each.result(120)
        finally:
            stop.set()
        assert all(each.result(60) > 0 for each in looking)
    hold(manager)
    manager.close()
