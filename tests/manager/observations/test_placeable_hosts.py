"""The hosts that jobs can be placed on."""

from dataclasses import replace
from datetime import UTC, datetime

from manager.observations.figures import placeable
from manager.observations.reports import HostSeen
from merge import Host

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def seen(
    name: str, *, alive: bool = True, cores: float | None = None, tags: str = "", types: frozenset[str] | None = None
) -> HostSeen:
    return HostSeen(host=name, alive=alive, cores=cores, tags=frozenset(tags.split()), types=types, seen=NOW)


def test_live_hosts_have_their_reported_cores_and_tags() -> None:
    """They are ordered by name, and a host that is away is left out."""
    found = placeable([seen("b", cores=8.0, tags="gpu big"), seen("c", alive=False), seen("a", cores=2.0)], None)
    assert (
        Host(name="a", cores=2.0),
        Host(name="b", cores=8.0, tags=frozenset({"gpu", "big"})),
    ) == found
    assert () == placeable([seen("c", alive=False)], None)
    # Its workers have left; that is not the same as if it did not say.
    assert [0.0, 1.0] == [host.cores for host in placeable([seen("a", cores=0.0), seen("b")], None)]


def test_the_local_host_is_placeable_before_it_runs() -> None:
    """It has its configured tags, and its own cores once it reports them."""
    here = Host(name="local", cores=4.0, tags=frozenset({"gpu"}))
    assert (here,) == placeable([], here)
    assert (here,) == placeable([seen("local", alive=False, cores=2.0)], here)
    assert [("a", 4.0), ("local", 2.0)] == [
        (host.name, host.cores) for host in placeable([seen("local", cores=2.0, tags="old"), seen("a")], here)
    ]
    assert here.tags == placeable([seen("local", tags="old")], here)[0].tags


def test_hosts_say_which_machine_carries_them() -> None:
    """So that its cores are counted once."""
    found = placeable([replace(seen(name, cores=1.0), machine="m") for name in ("a", "b")], Host(name="b", cores=4.0))
    assert [("a", 1.0, "m"), ("b", 1.0, "m")] == [(each.name, each.cores, each.machine) for each in found]


def test_hosts_that_are_away_keep_their_root() -> None:
    """They are listed as away, so that what their jobs run is not taken to another root."""
    here = Host(name="local", cores=4.0)
    away = replace(seen("a", alive=False), root="x")
    assert (Host(name="a", cores=4.0, root="x", away=True), here) == placeable([away], here)
    assert replace(here, root="y") == placeable([replace(seen("local"), root="y")], here)[0]
    assert replace(here, root="y") == placeable([replace(seen("local", alive=False), root="y")], here)[0]


def test_hosts_have_the_task_types_that_they_report() -> None:
    """Before a host has reported them it may have any."""
    some = frozenset({"map"})
    here = Host(name="local", cores=4.0)
    assert [None, some, some] == [
        host.types for host in placeable([seen("a"), seen("b", types=some), seen("local", types=some)], here)
    ]
