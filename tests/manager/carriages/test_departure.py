"""Departures of machines: which hosts end with them, and what still needs them."""

from dataclasses import replace
from typing import Any

import pytest

from manager.machines.admission import Departure, departure
from manager.machines.carriages import CommittedFleet
from ring.fleet import STORE, Carriage, MachineSeen


def fleet(*carriages: Carriage) -> CommittedFleet:
    return CommittedFleet(carriages={each.host: each for each in carriages})


def carried(host: str, machine: str, kept_by: str = "", **fields: Any) -> Carriage:
    """A host, with complete copies at these peers."""
    return Carriage(
        host=host,
        machine=machine,
        root=f"root of {machine}",
        peers=tuple(kept_by),
        roots=tuple(f"root of {peer}" for peer in kept_by),
        kept_by=frozenset(kept_by),
        **fields,
    )


def seen(*alive: str, gone: str = "") -> dict[str, MachineSeen]:
    return {
        name: MachineSeen(name=name, alive=name in alive, root=f"root of {name}") for name in sorted({*alive, *gone})
    }


def test_a_machine_that_is_alive_is_not_forgotten() -> None:
    """The refusal says how to end it."""
    refusal = departure("a", fleet(), seen("a"), {}).refusal
    assert refusal == ("machine a is alive; empty it with: braid machines drain a --wait, stop it, and forget it then")


def test_hosts_without_jobs_end_with_their_machine() -> None:
    """Its own, and that of another machine that it had taken over; what others carry stays as it is."""
    committed = fleet(carried("a", "a", "b"), carried("c", "a"), carried("b", "b", "a"))
    assert departure("a", committed, seen("b", gone="ac"), {"b": ["1"]}) == Departure(ending=frozenset("ac"))


def test_a_host_that_another_machine_carries_stays() -> None:
    """With jobs or without, as long as that machine is there; without jobs it ends if that is gone too."""
    committed = fleet(carried("a", "b"))
    assert departure("a", committed, seen("b"), {"a": ["1"]}) == Departure()
    assert departure("a", committed, seen("b"), {}) == Departure()
    assert departure("a", committed, seen(gone="b"), {}) == Departure(ending=frozenset("a"))


def test_all_own_hosts_of_a_machine_end_with_it() -> None:
    """If nobody who is there carries them, and they run no jobs."""
    machines = seen("b", gone="cd") | {"a": MachineSeen(name="a", alive=False, own=("a", "a.2", "a.3"))}
    committed = fleet(carried("a.2", "c"), carried("a.3", "b"), carried("d", "c"))
    assert departure("a", committed, machines, {}) == Departure(ending=frozenset({"a.2"}))


def test_a_machine_whose_host_is_in_the_store_is_needed_until_that_is_restored() -> None:
    """Its peer is not, since the store has everything too."""
    stored = replace(carried("h", "a", "b"), kept_by=frozenset({"b", STORE}))
    refusal = departure("a", fleet(stored), seen(gone="ab"), {"h": ["3"]}).refusal
    assert "start a machine that has a copy: b, or restore the host on an empty folder with: braid host h" in refusal
    assert departure("b", fleet(stored), seen(gone="ab"), {"h": ["3"]}) == Departure()


@pytest.mark.parametrize(
    ("kept_by", "alive", "reason"),
    [
        ("", "b", "no machine that is there has its files; start a again, or remove the dataflows of jobs 3, 4"),
        ("c", "b", "no machine that is there has its files; start a machine that has a copy: c, or remove the data"),
        ("b", "b", "machine a still carries host h, which goes on elsewhere in a moment; ask again then"),
    ],
)
def test_a_machine_that_carries_jobs_is_refused(kept_by: str, alive: str, reason: str) -> None:
    """The refusal names the host, and who could go on with it."""
    found = departure("a", fleet(carried("h", "a", kept_by)), seen(*alive, gone="ac"), {"h": ["4", "3"]})
    assert (found.ending, "machine a still carries host h" in found.refusal) == (frozenset(), True)
    assert reason in found.refusal


@pytest.mark.parametrize(
    ("kept_by", "alive", "refused"),
    [("a", "", True), ("a", "m", False), ("ab", "b", False), ("ab", "", False), ("b", "", False)],
)
def test_the_only_copy_of_a_lost_host_is_kept(kept_by: str, alive: str, refused: bool) -> None:  # noqa: FBT001 - a case
    """Not if the host's machine is there, or another one has a copy."""
    found = departure("a", fleet(carried("h", "m", kept_by)), seen(*alive, gone="abm"), {"h": ["1"]})
    refusal = (
        "machine a has the only copy of host h, whose machine m is away too; start one of them, or remove the "
        "dataflows of job 1"
    )
    assert found.refusal == (refusal if refused else "")


def test_the_only_copy_of_a_host_without_jobs_is_not_needed() -> None:
    """The machine that carried it is not forgotten, so its host is there when it returns."""
    assert departure("a", fleet(carried("h", "m", "a")), seen(gone="am"), {}) == Departure()
