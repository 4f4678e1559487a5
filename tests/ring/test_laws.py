"""Laws of decisions, whatever is seen and whatever was committed before."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from ring.decision import CarriageState, state_of
from ring.fleet import Carriage, CarriageTurn, HostReport, MachineSeen
from ring.tokens import RING_SIZE, Ring
from tests.ring.scenes import NAMES, NOW, Scene, carriage, machine

some = st.sets(st.sampled_from(NAMES))
times = st.sampled_from([0.0, NOW - 30, NOW])


@st.composite
def machines(draw: st.DrawFn, name: str) -> MachineSeen:
    """Any machine; it may be back with a new disk, work on one with another, or take no copies."""
    root = draw(st.sampled_from([f"root-{name}"] * 4 + ["new disk", "root-a", ""]))
    at = draw(st.sampled_from(["somewhere"] * 4 + [""]))
    tags = frozenset(draw(st.sampled_from(["", "t"])))
    zone = draw(st.sampled_from("xyz"))
    full = draw(st.sampled_from(["", "", "", "its disk is nearly full"]))
    alive = draw(st.sampled_from([True, True, False]))
    return MachineSeen(name=name, alive=alive, root=root, at=at, tags=tags, zone=zone, full=full)


@st.composite
def carriages(draw: st.DrawFn, host: str) -> Carriage:
    """Any carriage that may have been committed, by the roots that machines have by default."""
    at = draw(st.sampled_from(NAMES))
    peers = tuple(name for name in draw(st.permutations(NAMES)) if name != at)[: draw(st.integers(0, 3))]
    kept_by = frozenset(name for name in peers if draw(st.booleans()))
    heir = draw(st.sampled_from(["", "", *sorted(kept_by)]))
    return carriage(host, at, peers, kept_by, heir=heir)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Anything that may be committed and seen."""
    hosts = draw(st.lists(st.sampled_from([*NAMES, "gone"]), unique=True))
    scene = Scene.of(*(draw(carriages(host)) for host in hosts))
    scene.machines = {name: draw(machines(name)) for name in NAMES if draw(st.integers(0, 5))}
    for one in scene.carriages.values():
        if one.machine in scene.machines and draw(st.booleans()):
            version = draw(st.sampled_from([one.version, one.version, one.version - 1]))
            reached = frozenset(draw(some))
            report = HostReport(
                version=version, in_sync=frozenset(draw(some)), broken=reached, released=draw(st.booleans())
            )
            seen = scene.machines[one.machine]
            scene.machines[one.machine] = replace(seen, hosts={**seen.hosts, one.host: report})
    scene.replicas = draw(st.integers(0, 3))
    scene.draining = draw(some)
    gone = [name for name in NAMES if name not in scene.machines or not scene.machines[name].alive]
    scene.lost_since = {name: draw(times) for name in gone if draw(st.booleans())}
    scene.alive_since = {name: draw(times) for name in NAMES if name not in gone}
    places = draw(st.lists(st.integers(0, RING_SIZE - 1), min_size=4, max_size=4, unique=True))
    scene.ring = Ring(dict(zip(NAMES, places, strict=True)))
    return scene


@given(scenes())
def test_versions_and_terms_only_grow(scene: Scene) -> None:
    """A version by one with each change, a term by one with each carrier, or with each root of one."""
    for turn in scene.decided():
        after = turn.carriage
        if (before := scene.carriages.get(after.host)) is not None:
            assert before.version + 1 == after.version
            moved = (before.machine, before.root) != (after.machine, after.root)
            assert before.term + moved == after.term
            assert turn.why


@given(scenes())
def test_who_is_counted_is_a_peer_with_a_root_of_its_own(scene: Scene) -> None:
    """Peers are distinct, none is the carrier or shares its disk, and the root of each is known."""
    scene.settle()
    for one in scene.carriages.values():
        assert one.kept_by <= set(one.peers)
        assert len(set(one.peers)) == len(one.peers) == len(one.roots)
        assert one.machine not in one.peers


@given(scenes())
def test_nobody_carries_or_inherits_what_it_has_not_got(scene: Scene) -> None:
    """A new carrier or heir is there, was counted upon or works on the same disk, and that disk is still the same."""
    for turn in scene.decided():
        after = turn.carriage
        if (before := scene.carriages.get(after.host)) is None:
            continue
        roots = {before.root_of(name) for name in before.kept_by} | {before.root}
        for name in {after.machine, after.heir} - {before.machine, before.heir, ""}:
            seen = scene.machines[name]
            assert seen.alive
            assert (name in before.kept_by and seen.root == before.root_of(name)) or seen.root in roots - {""}


@given(scenes())
def test_only_the_carrier_makes_somebody_counted(scene: Scene) -> None:
    """By its report on the very version, or by releasing the host itself."""
    for turn in scene.decided():
        after = turn.carriage
        if (before := scene.carriages.get(after.host)) is None:
            continue
        seen = scene.machines.get(before.machine)
        report = seen.hosts.get(before.host, HostReport()) if seen else HostReport()
        on_this = report.version == before.version
        in_sync = report.in_sync if on_this else frozenset()
        released = {before.machine} if on_this and report.released and after.machine == before.heir else set()
        assert after.kept_by - before.kept_by <= in_sync | released


@given(scenes())
def test_nobody_stops_to_count_while_the_carrier_is_away(scene: Scene) -> None:
    """A peer that has everything when a carrier is lost still counts until somebody carries the host."""
    seen = scene.fleet()
    for turn in scene.decided():
        before = scene.carriages.get(turn.carriage.host)
        if before and state_of(before, seen) in {CarriageState.LOST, CarriageState.UNSEEN}:
            same_disk = {name for name in before.kept_by if before.root_of(name) == turn.carriage.root}
            lost = before.kept_by - turn.carriage.kept_by
            assert lost <= same_disk | {turn.carriage.machine}


@given(scenes())
def test_decisions_settle(scene: Scene) -> None:
    """Decided again on the same sight, nothing comes back to what it was, so it soon ends."""
    been = {host: [one] for host, one in scene.carriages.items()}
    for turn in scene.settle():
        one = replace(turn.carriage, version=0, term=0)
        earlier = [replace(each, version=0, term=0) for each in been.get(one.host, [])]
        bumped = been.get(one.host, []) and one == earlier[-1]
        assert bumped or one not in earlier
        been.setdefault(one.host, []).append(turn.carriage)
    assert all(len(each) < 12 for each in been.values())


@given(scenes())
def test_one_host_at_a_time_is_begun_to_be_handed_over(scene: Scene) -> None:
    """And none while another one is under way."""
    seen = scene.fleet()
    under_way = [one for one in scene.carriages.values() if one.heir and state_of(one, seen) is not CarriageState.LOST]
    begun = [
        turn
        for turn in scene.decided()
        if turn.carriage.heir
        and not (turn.carriage.host in scene.carriages and scene.carriages[turn.carriage.host].heir)
    ]
    assert len(begun) <= (0 if under_way else 1)


@given(st.integers(1, 3), st.data())
def test_hosts_survive_as_many_losses_as_they_have_copies(replicas: int, data: st.DataObject) -> None:
    """If all copies are complete, at most r machines that are lost at once leave every host a carrier."""
    names = [*NAMES, "e", "f"]
    scene = Scene.of(machines={name: machine(name) for name in names}, ring=Ring().including(names), replicas=replicas)
    _run(scene, names)
    assert all(len(one.kept_by) == replicas for one in scene.carriages.values())
    lost = data.draw(st.lists(st.sampled_from(names), max_size=replicas, unique=True))
    scene.lose(*lost)
    _run(scene, names)
    assert set(names) == set(scene.carriages)
    assert not {one.machine for one in scene.carriages.values()} & {*lost}
    left = len(names) - len(lost)
    assert all(len(one.kept_by) == min(replicas, left - 1) for one in scene.carriages.values())


@given(st.integers(0, 2), st.data())
def test_machines_that_drain_are_left(replicas: int, data: st.DataObject) -> None:
    """If others can take their hosts; and copies are elsewhere in the end."""
    names = [*NAMES, "e", "f"]
    scene = Scene.of(machines={name: machine(name) for name in names}, ring=Ring().including(names), replicas=replicas)
    _run(scene, names)
    scene.draining = set(data.draw(st.lists(st.sampled_from(names), max_size=len(names) - 1, unique=True)))
    assume(scene.draining)
    turns = _run(scene, names)
    assert not {one.machine for one in scene.carriages.values()} & scene.draining
    if len(names) - len(scene.draining) > replicas:
        assert not {peer for one in scene.carriages.values() for peer in one.peers} & scene.draining
    assert 1 >= max(sum(bool(one.heir) for one in state.values()) for state in _states(turns))


def _run(scene: Scene, names: list[str]) -> list[CarriageTurn]:
    """Carriers do at once what is asked of them, until nothing changes."""
    turns: list[CarriageTurn] = []
    while step := scene.decided():
        turns += step
        assert len(turns) < 500
        scene.carriages |= {turn.carriage.host: turn.carriage for turn in step}
        for name in names:
            mine = [one for one in scene.carriages.values() if one.machine == name]
            hosts = {
                one.host: HostReport(version=one.version, in_sync=frozenset(one.peers), released=bool(one.heir))
                for one in mine
            }
            scene.machines[name] = replace(scene.machines[name], hosts=hosts)
    return turns


def _states(turns: list[CarriageTurn]) -> list[dict[str, Carriage]]:
    """What was committed after each change."""
    states: list[dict[str, Carriage]] = [{}]
    for turn in turns:
        states.append({**states[-1], turn.carriage.host: turn.carriage})
    return states
