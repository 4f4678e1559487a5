"""Dataflows that part and come together again: each has the outputs that it would have alone."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from manager.answers.reconfigurations import ReconfigurationForm
from manager.kernel.transitions import TransitionEvent
from manager.store.database import sqlite_url
from merge import Instance
from tests.interpreter import Event, Machine, Raw, as_merged
from tests.manager.committer.pictures import hold
from tests.manager.managers import OPERATOR, Manager, caller, take

TENANTS = ("ann", "bob")
CHAIN = "s:source > a:map{'add': 1} > b:map{'add': 10} > c:count{'by': 'value'} > k:sink b > l:sink"
Switch: TypeAlias = tuple[tuple[str, ...], str, int]
"""Whose map gets which number to add."""
Outputs: TypeAlias = dict[str, list[tuple[int, Event]]]


class Sharing:
    """Dataflows of these tenants in one running graph, fed with an event after each step."""

    def __init__(self, template: Path, folder: Path, tenants: Sequence[str]) -> None:
        database = shutil.copy(template, folder / f"{'-'.join(tenants)}.db")
        self.manager = Manager(sqlite_url(Path(database))).lead()
        self.manager.admit(*TENANTS)
        self.manager.register("weather")
        self.flows = {tenant: self.manager.submit(tenant, CHAIN) for tenant in tenants}
        self.outputs: dict[str, Outputs] = {tenant: {"k": [], "l": []} for tenant in tenants}
        self.machine: Machine[int] = Machine({})
        self.position = count()
        self.feed({})

    def places(self, tenant: str) -> Mapping[str, int]:
        detail = self.manager.service.dataflows.get(OPERATOR, self.flows[tenant])
        return {task.id: task.instance for task in detail.tasks}

    def feed(self, copies: Mapping[int, int]) -> None:
        """Run what is committed, and work off some events."""
        with self.manager.committer.looking() as state:
            self.machine.become(as_merged(state.running.tasks.items()), copies)
        for value in (1, 2, 1):
            position = next(self.position)
            taken = self.machine.take(position, Raw("weather", Event("north", value)))
            for tenant, outputs in self.outputs.items():
                places = self.places(tenant)
                for sink, found in outputs.items():
                    found += [(position, event) for event in taken[places[sink]]]

    def switch(self, tenants: Sequence[str], task: str, add: int) -> None:
        """Reconfigure a task of some dataflows together, unless it is so already in all of them."""
        flows = [self.flows[tenant] for tenant in tenants if tenant in self.flows]
        now = {self._adds(tenant, task) for tenant in tenants if tenant in self.flows}
        if not flows or now == {add}:
            self.feed({})
            return
        form = ReconfigurationForm(tasks={task: {"config": {"add": add}}}, dataflows=flows[1:])
        number = int(self.manager.service.reconfigurations.begin(OPERATOR, flows[0], form).id)
        with self.manager.committer.looking() as state:
            changes = [change for plan in state.plans.values() for change in plan.changes]
        self.feed({each.instance: each.source for each in changes if each.source is not None})
        take(self.manager.changes.reconfigurations, number, TransitionEvent.BEGUN)
        take(self.manager.changes.reconfigurations, number, TransitionEvent.PROVEN)
        hold(self.manager)

    def _adds(self, tenant: str, task: str) -> int:
        with self.manager.committer.looking() as state:
            added: int = state.running.tasks[Instance(self.places(tenant)[task])].config["add"]
            return added


@contextmanager
def sharing(template: Path, folder: Path, *tenants: str) -> Iterator[Sharing]:
    made = Sharing(template, folder, tenants)
    try:
        yield made
    finally:
        made.manager.close()


def test_what_was_forked_is_one_again(migrated: Path, tmp_path: Path) -> None:
    """Once both want the same, the tasks without state run once; the count goes on apart, with what it counted."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        before = both.places("ann")
        both.switch(["ann"], "a", 5)
        assert before["a"] != both.places("ann")["a"]
        assert before == both.places("bob")
        both.switch(["ann"], "a", 1)
        after = both.places("ann")
        assert {task: before[task] for task in "sab"} == {task: after[task] for task in "sab"}
        assert all(before[task] != after[task] for task in "ckl")
        assert before == both.places("bob")


def test_two_that_moved_on_apart_meet_elsewhere(migrated: Path, tmp_path: Path) -> None:
    """Ann and then bob switch to the same: he joins what runs for her since, and nothing of the first is left."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        both.switch(["ann"], "a", 5)
        both.switch(["bob"], "a", 5)
        ann, bob = both.places("ann"), both.places("bob")
        assert [ann[task] for task in "sab"] == [bob[task] for task in "sab"]


def test_a_newcomer_joins_what_was_reconfigured(migrated: Path, tmp_path: Path) -> None:
    """What has no state is shared with who submits the same later."""
    with sharing(migrated, tmp_path, "ann") as one:
        one.switch(["ann"], "a", 5)
        flow = one.manager.submit("bob", CHAIN.replace("{'add': 1}", "{'add': 5}"))
        detail = one.manager.service.dataflows.get(caller("bob"), flow)
        bob = {task.id: task.instance for task in detail.tasks}
        assert [one.places("ann")[task] for task in "sab"] == [bob[task] for task in "sab"]
        assert one.places("ann")["c"] != bob["c"]


def test_a_preview_says_what_would_be_joined(migrated: Path, tmp_path: Path) -> None:
    """The task is listed as one that others use, and not in place."""
    with sharing(migrated, tmp_path, *TENANTS) as both:
        both.switch(["ann"], "a", 5)
        form = ReconfigurationForm(tasks={"a": {"config": {"add": 1}}})
        scope = both.manager.service.reconfigurations.preview(caller("ann"), both.flows["ann"], form).scope
        assert scope is not None
        (found,) = (each for each in scope.tasks if each.task == "a")
        assert (False, True, True, "kept") == (found.in_place, found.shared, found.changed, found.state)


def test_across_jobs_nothing_is_joined(sqlite: str) -> None:
    """A job cannot begin to read another's stream at a place that nobody knows beforehand, so each keeps its own."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit(*TENANTS)
    manager.register("weather")
    flows = [manager.submit("ann", CHAIN), manager.submit("bob", CHAIN.replace("{'add': 1}", "{'add': 5}"))]
    form = ReconfigurationForm(tasks={"a": {"config": {"add": 5}}})
    manager.service.reconfigurations.begin(OPERATOR, flows[0], form)
    hold(manager)
    one, other = (manager.service.dataflows.get(OPERATOR, flow) for flow in flows)
    assert not {each.instance for each in one.tasks if each.id == "a"} & {each.instance for each in other.tasks}
    manager.close()


switches = st.tuples(
    st.sampled_from([("ann",), ("bob",), ("ann", "bob")]), st.sampled_from("ab"), st.sampled_from([1, 5, 10])
)


@example(steps=[(("ann",), "a", 5), (("bob",), "a", 10), (("ann", "bob"), "a", 1), (("ann",), "b", 1)])
@example(
    steps=[(("ann",), "a", 5), (("ann",), "b", 5), (("bob",), "b", 5), (("bob",), "a", 5), (("ann", "bob"), "a", 10)]
)
@settings(max_examples=8)
@given(steps=st.lists(switches, min_size=1, max_size=5))
def test_outputs_are_those_of_each_alone(migrated: Path, steps: list[Switch]) -> None:
    """However two switch apart and together, each gets what it would get if it were alone and did the same."""
    with TemporaryDirectory() as at, ExitStack() as stack:
        graphs = (TENANTS, ("ann",), ("bob",))
        both, ann, bob = (stack.enter_context(sharing(migrated, Path(at), *tenants)) for tenants in graphs)
        for tenants, task, add in steps:
            for each in (both, ann, bob):
                each.switch(tenants, task, add)
        assert both.outputs == {**ann.outputs, **bob.outputs}
