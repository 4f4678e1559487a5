"""Carriages over a real broker and a real service: machines, played by a test, are lost, and a manager too."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.overview import OperationKind
from bridge import topics
from tests.integration.serving import Served

pytestmark = pytest.mark.full
REPLICATED = {"BRAID_REPLICAS": "1", "BRAID_ADMISSION": "open"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, host="none", settings=REPLICATED)
    made.start()
    made.line.subscribe([topics.host("+", "carrier")])
    yield made
    made.close()


def say(served: Served, machine: str, *, alive: bool = True, **report: object) -> None:
    """Publish the status of a machine, with a report on its own host."""
    status = {"machine": machine, "alive": alive, "root": f"root of {machine}", "at": f"{machine}:1", "secret": machine}
    served.line.publish(
        topics.machine(machine, "status"), json.dumps(status | {"hosts": {machine: report}}).encode(), retain=True
    )


def carrier(served: Served, host: str) -> dict[str, Any]:
    """The latest message on who carries a host."""
    heard: list[dict[str, Any]] = served.heard(topics.host(host, "carrier"))
    return heard[-1] if heard else {}


def test_a_lost_machine_is_replaced_also_while_another_manager_leads(served: Served, tmp_path: Path) -> None:
    """The peer that has everything is ordered to carry the host, and REST, the journal and the broker agree on it."""

    def latest(host: str) -> dict[str, Any]:
        """The latest message on a host, after south said again that it lives: silent machines count as lost."""
        say(served, "south")
        return carrier(served, host)

    say(served, "north")
    served.until(lambda: latest("north").get("peers"), "peers of north")
    peered = carrier(served, "north")
    assert peered["peers"] == [{"machine": "south", "at": "south:1", "secret": "south"}]
    say(served, "north", version=peered["version"], in_sync=["south"])
    served.until(lambda: latest("north")["kept_by"] == ["south"], "the copy to be counted")
    second = Served(tmp_path, host="none", settings=REPLICATED)
    second.begin()
    try:
        second.until(second.answers, "the second manager to answer")
        served.kill()
        say(served, "north", alive=False)
        second.until(lambda: latest("north")["machine"] == "south", "the take-over")
        with second.client() as operator:
            (south,) = [each for each in operator.machines() if each.name == "south"]
            assert {"north", "south"} == {host.name for host in south.hosts}
            (noted,) = operator.operations(kind=OperationKind.TAKE_OVER)
        assert (noted.subject, noted.note.partition(":")[0]) == ("north", "from north to south")
        assert carrier(served, "north")["term"] == 2
    finally:
        second.close()
