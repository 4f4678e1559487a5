"""The hosts that jobs can be placed on."""

from datetime import UTC, datetime

from manager.observations.placeable_hosts import placeable
from manager.observations.reports import HostSeen
from merge import Host

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def seen(name: str, *, alive: bool = True, cores: float | None = None, tags: str = "") -> HostSeen:
    return HostSeen(host=name, alive=alive, cores=cores, tags=frozenset(tags.split()), seen=NOW)


def test_hosts_are_placed_on_by_what_they_tell() -> None:
    """In the order of their names; one that is away takes nothing new."""
    found = placeable([seen("b", cores=8.0, tags="gpu big"), seen("c", alive=False), seen("a", cores=2.0)], None)
    assert (
        Host(name="a", cores=2.0),
        Host(name="b", cores=8.0, tags=frozenset({"gpu", "big"})),
    ) == found
    assert () == placeable([seen("c", alive=False)], None)


def test_the_host_that_is_run_here_is_counted_on_before_it_is_there() -> None:
    """With the tags that it was given; its cores are its own once it tells them."""
    here = Host(name="local", cores=4.0, tags=frozenset({"gpu"}))
    assert (here,) == placeable([], here)
    assert (here,) == placeable([seen("local", alive=False, cores=2.0)], here)
    assert [("a", 4.0), ("local", 2.0)] == [
        (host.name, host.cores) for host in placeable([seen("local", cores=2.0, tags="old"), seen("a")], here)
    ]
    assert here.tags == placeable([seen("local", tags="old")], here)[0].tags
