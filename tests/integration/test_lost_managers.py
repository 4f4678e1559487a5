"""The leading manager is lost together with a machine, on the real parts: nothing is lost or doubled."""

from contextlib import closing
from pathlib import Path

import pytest

from braid_client.answers.tenants import KeyForm
from bridge.broker import start_broker
from tests import needs
from tests.integration.machines import ManyMachines, counted_on
from tests.integration.serving import Served
from tests.manager.databases import server

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto, pytest.mark.postgresql]


def test_a_new_leader_has_the_host_taken_over_that_was_lost_with_the_old_one(tmp_path: Path) -> None:
    """Both are killed at once, one with its disk; the other manager has all it needs in the database."""
    with server(needs.postgresql()) as database, start_broker(tmp_path / "broker", {"braid": "secret"}) as broker:
        settings = {
            "BRAID_BROKER": broker.address("braid").url,
            "BRAID_DATABASE": database.new_database(),
            "BRAID_REPLICAS": "1",
            "BRAID_ADMISSION": "open",
        }
        served = ManyMachines(tmp_path, replicas=1, settings=settings)
        (tmp_path / "second").mkdir()
        second = Served(tmp_path / "second", host="none", settings=settings)
        with counted_on(served, "ash", "elm") as flow, closing(second):
            with served.client() as operator:
                key = operator.make_key(KeyForm(tenant="ann")).key
            second.begin()
            second.until(second.answers, "the second manager to answer")
            assert not second.ready()
            served.kill()
            served.machines[flow.host].kill(with_disk=True)
            with second.client(key) as ann:
                flow.send_by(ann)
                served.until_carried(flow.host, served.other_than(flow.host))
                assert second.ready()
                flow.goes_on(20)
                # The new leader has the copies made again as well.
                served.add(flow.host)
                served.until_kept(["ash", "elm"])
                flow.check()
