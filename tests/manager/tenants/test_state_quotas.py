"""Quotas of states: where a tenant keeps as much as it may, its tasks keep hardly more."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from braid_client.answers.overview import OperationKind
from braid_client.answers.tenants import Quota
from manager.observations.reports import JobSeen, Measured
from manager.tenants.state_quotas import StateQuotas
from manager.use_case import Paging
from merge import Instance
from tests.manager.kernel.pictures import loaded, pictured
from tests.manager.managers import OPERATOR, PLENTY, Manager

MB = 1_000_000


class States:
    """The states of tasks whose sizes a test reports, of tenants that may have 10 MB each."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.now = 0.0
        self.quotas = StateQuotas(manager.committer, manager.store, manager.seen, clock=lambda: self.now)

    def report(self, sizes: Mapping[Instance, int]) -> None:
        """Have every job report the sizes of its states, and look."""
        with self.manager.committer.looking() as state:
            for job, placed in state.jobs.jobs.items():
                states = {int(each): size for each, size in sizes.items() if each in placed.active}
                self.manager.seen.jobs[str(job)] = JobSeen(
                    job=str(job),
                    host="north",
                    state="running",
                    measured=(Measured(states=states),),
                    seen=datetime(2026, 1, 2, tzinfo=UTC),
                )
        self.look()

    def look(self) -> None:
        self.now += 1.0
        self.quotas.look()

    @property
    def bounds(self) -> dict[int, int]:
        """The tasks whose states are bounded by the plans, and by how much."""
        with self.manager.committer.looking() as state:
            return {each: most for plan in state.plans.values() for each, most in plan.state_bounds.items()}

    @property
    def full(self) -> set[int]:
        return set(self.bounds)

    def uses(self, tenant: str) -> int | None:
        tenants = self.manager.service.administration.tenants(OPERATOR, Paging()).items
        return next(each.uses.state_mb for each in tenants if each.name == tenant)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager with two tenants that share a task that counts, and have one each; both may have 10 MB."""
    made = Manager(sqlite).lead()
    made.admit("ann", "eve", quota=PLENTY.model_copy(update={"state_mb": 10}))
    made.register("weather")
    made.submit("ann", "s:source > a:count > k:sink")
    made.submit("eve", "s:source > a:count > k:sink")
    made.submit("ann", "s:source > m:map{'add': 1} > b:count > k:sink")
    made.submit("eve", "s:source > m:map{'add': 2} > b:count > k:sink")
    yield made
    made.close()


@pytest.fixture
def states(manager: Manager) -> States:
    return States(manager)


def counts(manager: Manager) -> tuple[Instance, Instance, Instance]:
    """The shared task, ann's and eve's."""
    with manager.committer.looking() as state:
        found = sorted(each.instance for each in state.running.tasks.values() if each.type.name == "count")
        tenants = [state.running.tenants_of(each) for each in found]
    assert [{"ann", "eve"}, {"ann"}, {"eve"}] == tenants
    shared, ann, eve = found
    return shared, ann, eve


def only_of(manager: Manager, tenant: str) -> set[int]:
    """The tasks that nobody but this tenant needs."""
    with manager.committer.looking() as state:
        running = state.running
        return {each for each in running.tasks if running.tenants_of(each) == {tenant} and running.tasks[each].inputs}


def test_what_only_a_tenant_with_too_much_needs_grows_no_further(manager: Manager, states: States) -> None:
    """What others need too goes on. Below nine tenths of the quota, or with more of it, all grows again."""
    shared, ann, eve = counts(manager)
    states.report({shared: 4 * MB, ann: 5 * MB, eve: 6 * MB})
    assert (set(), 9, 10) == (states.full, states.uses("ann"), states.uses("eve"))
    states.report({shared: 4 * MB, ann: 5 * MB, eve: 7 * MB})
    assert only_of(manager, "eve") == states.full
    bounds = states.bounds
    assert {7_700_000, 10_000} == set(bounds.values())
    for size in (7_500_000, 5 * MB + 1):
        states.report({shared: 4 * MB, ann: 5 * MB, eve: size})
        assert bounds == states.bounds
    assert pictured(manager) == loaded(manager.store)
    states.report({shared: 4 * MB, ann: 5 * MB, eve: 5 * MB})
    assert set() == states.full
    states.report({shared: 4 * MB, ann: 5 * MB, eve: 7 * MB})
    manager.service.administration.set_quota(OPERATOR, "eve", Quota(state_mb=20))
    states.look()
    assert set() == states.full
    noted = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.BOUND_STATES).items
    assert [("eve", "its states have 11,000,000 bytes")] * 2 == [(each.subject, each.note) for each in noted]


def test_what_all_its_tenants_have_too_much_of_grows_no_further(manager: Manager, states: States) -> None:
    """Until one of them has room."""
    shared, ann, eve = counts(manager)
    states.report({shared: 11 * MB})
    assert {shared, ann, eve} <= states.full
    manager.admit("zoe")
    manager.submit("zoe", "s:source > a:count > k:sink")
    states.look()
    assert shared not in states.full
    assert {ann, eve} <= states.full


def test_who_joins_a_bounded_task_is_not_bounded_with_it(manager: Manager, states: States) -> None:
    """Even with nearly as much as it may have; and the task may grow from then on."""
    _, ann, eve = counts(manager)
    states.report({ann: 9_500_000, eve: 11 * MB})
    assert eve in states.bounds
    manager.submit("ann", "s:source > m:map{'add': 2} > b:count > k:sink")
    states.report({ann: 9_500_000, eve: 100_000})
    assert {} == states.bounds


def test_new_tasks_of_such_a_tenant_are_bounded(manager: Manager, states: States) -> None:
    """From the next look on, wherever they are placed; so a new dataflow does not lead around the quota."""
    _, _, eve = counts(manager)
    states.report({eve: 11 * MB})
    manager.submit("eve", "s:source > m:map{'add': 3} > b:count > k:sink")
    states.look()
    assert only_of(manager, "eve") == states.full


def test_while_a_job_is_silent_what_is_bounded_stays_so(manager: Manager, states: States) -> None:
    """A manager that has just begun to lead knows no sizes, and a host that is away reports none."""
    _, _, eve = counts(manager)
    states.report({eve: 11 * MB})
    bounded = states.full
    (job, seen), *_ = manager.seen.jobs.items()
    manager.seen.jobs[job] = replace(seen, measured=())
    states.look()
    del manager.seen.jobs[job]
    states.look()
    assert bounded == states.full
    assert bounded
    states.report({})
    assert set() == states.full
