"""Machines that are lost, held up and emptied while dataflows run, on the real parts: nothing is lost or doubled."""

import random
from pathlib import Path

import pytest

from manager.answers import DataflowState
from tests.integration.machines import ManyMachines, Publisher, check_counts, whole
from tests.integration.serving import counting, street

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.mosquitto]


def test_a_lost_machine_s_host_goes_on_from_its_copy(tmp_path: Path) -> None:
    """Its disk is gone too, and every event counts once; a new machine gets a copy, and takes over from the next."""
    with ManyMachines(tmp_path, replicas=1) as served:
        for name in ("ash", "elm"):
            served.add(name)
        served.until(served.ready, "the service to be ready")
        served.until_carried("ash", "ash", kept_by=1)
        served.until_carried("elm", "elm", kept_by=1)
        with served.admit("ann") as ann:
            ann.register_source(street())
            answer = ann.submit(counting("street"))
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            publisher = Publisher(served)
            served.until_delivered(answer, "out", 20)
            host = served.only_host()
            other = next(name for name in served.machines if name != host)
            served.machines[host].kill(with_disk=True)
            served.until_carried(host, other)
            served.until_delivered(answer, "out", publisher.sent)
            served.add("oak")
            served.until_carried(host, other, kept_by=1)
            served.machines[other].kill(with_disk=True)
            served.until_carried(host, "oak")
            sent = publisher.stop()
            check_counts(whole(served, answer, sent), sent)


def test_a_machine_that_was_held_up_does_nothing_more_as_its_host(tmp_path: Path) -> None:
    """It is taken over while it stands still; once it goes on it neither publishes nor takes events as that host."""
    with ManyMachines(tmp_path, replicas=1) as served:
        for name in ("ash", "elm"):
            served.add(name)
        served.until(served.ready, "the service to be ready")
        served.until_carried("ash", "ash", kept_by=1)
        served.until_carried("elm", "elm", kept_by=1)
        with served.admit("ann") as ann:
            ann.register_source(street())
            answer = ann.submit(counting("street"))
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            publisher = Publisher(served)
            served.until_delivered(answer, "out", 20)
            host = served.only_host()
            other = next(name for name in served.machines if name != host)
            served.machines[host].pause()
            served.until_carried(host, other)
            before = publisher.sent
            served.until_delivered(answer, "out", before)
            served.machines[host].resume()
            # It starts anew, and keeps copies for the other.
            served.until_carried(host, other, kept_by=1)
            served.until_delivered(answer, "out", publisher.sent)
            sent = publisher.stop()
            check_counts(whole(served, answer, sent), sent)


def test_all_machines_are_replaced_one_after_another(tmp_path: Path) -> None:
    """Each is drained, stopped, started anew and let back, while events come all the time: every event counts once."""
    with ManyMachines(tmp_path, replicas=1) as served:
        for name in ("ash", "elm"):
            served.add(name)
        served.until(served.ready, "the service to be ready")
        served.until_kept(["ash", "elm"])
        with served.admit("ann") as ann, served.client() as operator:
            ann.register_source(street())
            answer = ann.submit(counting("street"))
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            publisher = Publisher(served)
            served.until_delivered(answer, "out", 20)
            for name, other in (("ash", "elm"), ("elm", "ash")):
                operator.drain_machine(name)
                served.until_carried("ash", other)
                served.until_carried("elm", other)
                served.machines[name].stop()
                served.until_delivered(answer, "out", publisher.sent)
                served.add(name)
                operator.undrain_machine(name)
                served.until_kept(["ash", "elm"])
            sent = publisher.stop()
            check_counts(whole(served, answer, sent), sent)


def test_machines_that_share_a_root_take_over_without_copies(tmp_path: Path) -> None:
    """What a killed machine left in the shared folder, another one goes on from at once."""
    with ManyMachines(tmp_path, replicas=0, copies=False) as served:
        for name in ("ash", "elm"):
            served.add(name)
        served.until(served.ready, "the service to be ready")
        served.until_carried("ash", "ash")
        served.until_carried("elm", "elm")
        with served.admit("ann") as ann:
            ann.register_source(street())
            answer = ann.submit(counting("street"))
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            publisher = Publisher(served)
            served.until_delivered(answer, "out", 20)
            host = served.only_host()
            other = next(name for name in served.machines if name != host)
            served.machines[host].kill()
            served.until_carried(host, other)
            sent = publisher.stop()
            check_counts(whole(served, answer, sent), sent)


@pytest.mark.chaos
def test_fifty_machines_are_lost_one_after_another(tmp_path: Path) -> None:
    """Each with its disk, at any moment, and each comes back with an empty one: every event is counted once."""
    names, draw = ["ash", "elm", "oak"], random.Random(5)
    with ManyMachines(tmp_path, replicas=1) as served:
        for name in names:
            served.add(name)
        served.until(served.ready, "the service to be ready")
        with served.admit("ann") as ann:
            served.until_kept(names)
            ann.register_source(street())
            answer = ann.submit(counting("street"))
            served.until_state(ann, answer.id, DataflowState.RUNNING)
            publisher = Publisher(served)
            for _ in range(50):
                served.until_kept(names)
                served.until_delivered(answer, "out", publisher.sent + draw.randrange(40))
                lost = draw.choice(names)
                served.machines[lost].kill(with_disk=True)
                served.until_delivered(answer, "out", publisher.sent)
                served.add(lost)
            sent = publisher.stop()
            check_counts(whole(served, answer, sent), sent)
