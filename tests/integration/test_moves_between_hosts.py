"""Tasks that move from host to host, on the real parts: what one host read and kept, another goes on from."""

from pathlib import Path

import pytest

from bridge.transport.address import Address
from engine.host.keeper import HostKeeper, MachineOptions
from manager.kernel.transitions import Chosen
from manager.process.keeper_process import read_record
from merge import Assignment, Home
from tests.integration.moving import Scattered, Within, scatter

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto]

HERE, AWAY = "local", "away"


def move(served: Within, town: Scattered, host: str, *types: str) -> None:
    """Move tasks of some types, or all, to a new job on a host."""
    with served.committer.looking() as state:
        homes, following = state.jobs.homes, state.jobs.next_job
        tasks = [task for task in state.running.tasks.values() if not types or task.type.name in types]
        places = tuple((task.instance, Home(following, homes[task.instance].busy)) for task in tasks)
        there = Assignment(base=state.jobs.version, opens=((following, host),), places=places)
    served.changes.moves.begin(lambda _state, _ground: Chosen(there, "a test"), who="operator")
    hold(town, "a test")


def hold(town: Scattered, why: str) -> None:
    """See that a move comes off that was begun for some reason, and that outputs are whole."""
    town.until_settled()
    note = next(each.note for each in town.operator.operations() if each.kind == "move tasks")
    assert note.startswith(why)
    assert "; outputs stood still for at most" in note
    assert "went back" not in note
    town.check()


def test_tasks_move_between_hosts_that_share_a_root(tmp_path: Path) -> None:
    """From two hosts to one, away from who fills their spool, and in part over a bridge; counts go on all the while."""
    with Within(tmp_path, placement="launch") as served:
        record = read_record(served.root)
        assert record is not None
        town = Scattered(served, seed=7)

        def hosts() -> list[str]:
            """The hosts of all jobs."""
            return sorted(job.host for job in town.operator.jobs())

        try:
            town.submit()
            town.publish()
            with HostKeeper(AWAY, served.root, Address.parse(record.broker), MachineOptions(master="local[2,8]")):
                served.until(
                    lambda: [AWAY, HERE] == sorted(each.name for each in town.operator.hosts() if each.alive),
                    "both hosts",
                )
                scatter(town)
                assert [AWAY, HERE] == sorted(set(hosts()))
                assert town.defragment()
                hold(town, "it was asked for. ")
                (host,) = hosts()
                other = HERE if host == AWAY else AWAY
                move(served, town, other)
                assert [other] == hosts()
                move(served, town, host, "count", "output")
                assert [AWAY, HERE] == hosts()
        finally:
            town.close()
