"""A host in object storage, on the real parts: a machine is lost with the only disk, and nothing with it."""

from pathlib import Path

import pytest

from ring.fleet import STORE
from tests.integration.machines import Counted, ManyMachines, counted_on
from tests.s3 import serving_s3

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mosquitto]


def test_a_host_whose_only_machine_is_lost_goes_on_from_its_store(tmp_path: Path) -> None:
    """An empty machine takes its place only when it is said to; every event counts once."""
    with serving_s3() as url:
        served = ManyMachines(tmp_path, replicas=0, copies=False, store=url)
        with counted_on(served, "ash") as flow, served.client() as operator:
            served.until_carried("ash", "ash", kept_by=1)
            assert [STORE] == served.orders["ash"]["kept_by"]
            flow.goes_on(30)
            served.machines["ash"].kill(with_disk=True)
            served.add("ash")
            served.until(lambda: _trouble(operator.machines()), "the machine to wait")
            served.machines["ash"].kill(with_disk=True)
            served.add("ash", restore=True)
            served.until(lambda: served.orders["ash"]["term"] == 2, "the restored host")
            flow.goes_on(30)
            flow.check()


def test_each_host_of_a_lost_machine_is_restored_under_its_own_name(tmp_path: Path) -> None:
    """A machine of the name of the second one takes that; both go on, and are together again at the machine."""
    with serving_s3() as url:
        served = ManyMachines(tmp_path, replicas=0, store=url, settings={"BRAID_PLACEMENT": "launch"})
        with served:
            served.add("ash", hosts=2)
            served.until(served.ready, "the service to be ready")
            with served.admit("ann") as ann:
                flows = [Counted(served, ann, source) for source in ("street", "canal")]
                assert {"ash", "ash.2"} == {each.host for each in flows}
                for host in ("ash", "ash.2"):
                    served.until_carried(host, "ash", kept_by=1)
                served.machines["ash"].kill(with_disk=True)
                for host in ("ash", "ash.2"):
                    served.add(host, restore=True)
                served.until_carried("ash.2", "ash.2")
                for each in flows:
                    each.goes_on(30)
                    each.check()


def _trouble(machines: object) -> bool:
    return "--restore" in str(list(machines))  # type: ignore[call-overload]  # any iterable of answers
