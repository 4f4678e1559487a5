"""The users of tasks, jobs and bridges."""

from manager.savings.counters import running_snapshot, usage_of
from tests.manager.managers import Manager


def test_tasks_jobs_and_bridges_have_their_users(sqlite: str) -> None:
    """Sources have none, and a bridge is used by those whose events it carries into a job of theirs."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann", "bob")
    manager.register("weather")
    ann = manager.submit("ann", "s:source > a:map > k:sink")
    bob = manager.submit("bob", "s:source > a:map > b:map > k:sink")
    with manager.committer.looking() as state:
        use = usage_of(running_snapshot(state))
        shared = next(each for each, users in state.running.users.items() if len(users) == 2 and each in use.tasks)
        sources = {each for each, task in state.running.tasks.items() if not task.inputs}
    assert {ann: "ann", bob: "bob"} == use.tenants
    assert tuple(sorted((ann, bob))) == use.tasks[shared]
    assert sources.isdisjoint(use.tasks)
    assert {ann: frozenset({"1"}), bob: frozenset({"1", "2"})} == use.homes
    assert {"1": tuple(sorted((ann, bob))), "2": (bob,)} == use.jobs
    assert ((bob,),) == use.bridges
    assert use.streams[ann] == use.streams[bob]
    manager.close()
