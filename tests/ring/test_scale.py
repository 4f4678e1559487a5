"""How many machines there should be: what is decided by load and history comes to rest, and keeps its bounds."""

from dataclasses import dataclass, field, replace

from hypothesis import example, given
from hypothesis import strategies as st

from ring.balance import joined
from ring.decision import decide, wanted
from ring.fleet import Carriage, Fleet, MachineSeen
from ring.scale import CROWDED, SPARE, FleetUse, HostScale, ScaleAct, ScaleState, fits_without, scaled
from ring.tokens import Ring

HOLD = 60.0
LOOK = 20.0
MOST = 3


@dataclass
class Town:
    """Machines that come and go as is decided, and the hosts that they carry, in one shared root."""

    cores: dict[str, float]
    """The machines of operators."""
    loads: dict[str, float]
    """The load of each host; `spread` divides what changes."""
    new_cores: float = 2.0
    most: int = MOST
    replicas: int = 0
    by_workers: bool = False
    """Whether what is added are workers, whose cores the first machine has."""
    strain: float | None = None
    """The part of all cores from which on a job falls behind; by default a test says so."""
    now: float = 0.0
    state: ScaleState = field(default_factory=ScaleState)
    added: dict[str, float] = field(default_factory=dict)
    behind: tuple[str, ...] = ()
    carriages: dict[str, Carriage] = field(default_factory=dict)
    ring: Ring = field(default_factory=Ring)
    done: list[tuple[float, HostScale]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._machines = dict(self.cores)
        self._settle()

    def fleet(self) -> Fleet:
        first = next(iter(self.cores))
        extra = {first: self.new_cores * len(self.added)} if self.by_workers else {}
        return Fleet(
            machines={
                name: MachineSeen(name=name, alive=True, root="shared", cores=cores + extra.get(name, 0.0))
                for name, cores in self._machines.items()
            },
            ring=self.ring,
            replicas=self.replicas,
            draining=frozenset(),
            now=self.now,
            lost_since={},
            alive_since=dict.fromkeys(self._machines, -1e9),
            settled_after=HOLD,
            loads=self.loads,
        )

    def use(self) -> FleetUse:
        return FleetUse(
            carriages=self.carriages, fleet=self.fleet(), added=dict(self.added), most=self.most, behind=self.behind
        )

    def look(self) -> HostScale | None:
        """Decide, and do it at once."""
        self.now += LOOK
        if self.strain is not None:
            use = self.use()
            self.behind = ("7",) if use.taken > self.strain * use.cores else ()
        self.state, found = scaled(self.state, self.use())
        if found is not None:
            self.done.append((self.now, found))
            if found.act is ScaleAct.ADD:
                self.added[found.machine] = self.now
                if not self.by_workers:
                    self._machines[found.machine] = self.new_cores
            else:
                del self.added[found.machine]
                self._leave(found.machine)
            self._settle()
        return found

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / LOOK)):
            self.look()

    def spread(self, load: float) -> None:
        """Have all hosts take so many cores together, each an equal part."""
        self.loads = dict.fromkeys(self.carriages, load / len(self.carriages))

    def _leave(self, name: str) -> None:
        fleet = replace(self.fleet(), draining=frozenset({name}))
        for host, each in self.carriages.items():
            if each.machine == name:
                self.carriages[host] = replace(each, machine=wanted(each, fleet))
        self._machines.pop(name, None)
        self.ring = self.ring.left(name)

    def _settle(self) -> None:
        for name in self._machines:
            if name not in self.ring.tokens:
                self.ring = joined(name, self.ring, self.carriages, self.loads)
        for turn in decide(self.carriages, self.fleet()):
            self.carriages[turn.carriage.host] = replace(turn.carriage, heir="")
        for host, each in self.carriages.items():
            home = self.ring.owner(each.point)
            self.carriages[host] = replace(each, machine=home)


towns = st.builds(
    Town,
    cores=st.dictionaries(st.sampled_from("abc"), st.sampled_from([1.0, 2.0, 8.0]), min_size=1),
    loads=st.dictionaries(st.sampled_from([*"abc", "added-1", "added-2"]), st.floats(0.0, 6.0)),
    new_cores=st.sampled_from([1.0, 2.0, 8.0]),
    most=st.integers(0, 3),
    by_workers=st.booleans(),
    strain=st.sampled_from([None, 0.3, 0.45, 0.55]),
    behind=st.sampled_from([(), ("7",)]),
)
# Loads for the cores of the machines of operators, since what matters is beside the bounds.
waves = st.lists(
    st.tuples(st.integers(0, 40).map(lambda part: part / 20), st.sampled_from([(), ("7",)]), st.integers(1, 60)),
    max_size=6,
)


@example(Town(cores={"a": 2.0}, loads={}, most=1, strain=0.45), [(0.55, (), 60)])
@given(towns, waves)
def test_it_comes_to_rest_under_a_constant_load(town: Town, before: list[tuple[float, tuple[str, ...], int]]) -> None:
    """Whatever came before, no machine is added after one was removed, and after a while nothing changes any more."""
    for part, town.behind, looks in before:
        town.spread(part * sum(town.cores.values()))
        town.run(looks * LOOK)
    town.done.clear()
    # What runs may have been about to go; from here on everything is decided at this load.
    town.run(8 * 6 * HOLD)
    acts = [found.act for _, found in town.done]
    assert acts == sorted(acts, key=[ScaleAct.ADD, ScaleAct.REMOVE].index)
    town.done.clear()
    town.run(20 * HOLD)
    assert [] == town.done


@given(towns, waves)
def test_bounds_reasons_and_rests_are_kept(town: Town, wave: list[tuple[float, tuple[str, ...], int]]) -> None:
    """Never more machines than allowed, only added ones go, each with a reason, and none soon after another."""
    for part, town.behind, looks in wave:
        town.spread(part * sum(town.cores.values()))
        for _ in range(looks):
            there = set(town.added)
            found = town.look()
            assert len(town.added) <= town.most
            if found is not None:
                assert found.why
                assert (found.act is ScaleAct.REMOVE) is (found.machine in there)
    times = [at for at, _ in town.done]
    assert all(after - before >= 5 * HOLD for before, after in zip([0.0, *times], times, strict=False))


@given(towns, waves)
def test_what_goes_leaves_room(town: Town, wave: list[tuple[float, tuple[str, ...], int]]) -> None:
    """Without a machine that goes, jobs take two fifths of the cores at most, and its hosts fill no other one."""
    for part, town.behind, looks in wave:
        town.spread(part * sum(town.cores.values()))
        for _ in range(looks):
            before = town.use()
            found = town.look()
            if found is not None and found.act is ScaleAct.REMOVE:
                after = town.use()
                assert not before.behind
                assert after.taken <= SPARE * after.cores + 1e-9
                gained = {each for each in after.staying if after.load_of(each) > before.load_of(each)}
                assert all(after.load_of(each) <= CROWDED * after.cores_of(each) + 1e-9 for each in gained)


def town(**facts: object) -> Town:
    return Town(**{"cores": {"a": 2.0}, "loads": {"a": 1.8}, **facts})  # type: ignore[arg-type]  # facts are its fields


def test_a_machine_is_added_once_cores_have_been_short_for_a_while() -> None:
    """Not at once, and not while a leader that has just begun rests; the reason has the figures."""
    crowded = town()
    crowded.run(5 * HOLD)
    assert [] == crowded.done
    crowded.look()
    (_, found), *_ = crowded.done
    assert ScaleAct.ADD == found.act
    assert "added-1" == found.machine
    assert "jobs take 1.80 of 2 cores, 70% or more, for 60 s" == found.why


def test_a_moment_of_load_adds_nothing() -> None:
    """A burst that is over before the while is up is forgotten."""
    wavering = town()
    for _ in range(40):
        wavering.spread(1.8)
        wavering.run(HOLD - LOOK)
        wavering.spread(0.2)
        wavering.look()
    assert [] == wavering.done


def test_jobs_that_fall_behind_add_a_machine_only_if_cores_are_to_blame() -> None:
    """A job that one core is too slow for falls behind on an idle machine too, where another one would not help."""
    slow = town(loads={"a": 1.3}, behind=("7", "9"))
    slow.run(10 * HOLD)
    assert ["jobs 7, 9 have fallen behind, and jobs take 1.30 of 2 cores, 50% or more, for 60 s"] == [
        found.why for _, found in slow.done
    ]
    idle = town(loads={"a": 0.9}, behind=("7",))
    idle.run(10 * HOLD)
    assert [] == idle.done


def test_copies_need_machines() -> None:
    """With two copies of each host there are three machines at least, and none of three is removed."""
    few = town(loads={"a": 0.0}, replicas=2)
    few.run(30 * HOLD)
    assert ["there are 1 machines, and 2 copies of each host need 3, for 60 s"] == [few.done[0][1].why]
    assert [ScaleAct.ADD] * 2 == [found.act for _, found in few.done]


def test_the_emptiest_and_newest_goes_first() -> None:
    """Of two with nothing to do the one that was added last; then the other one."""
    ebbing = town(loads={"a": 1.9})
    ebbing.run(6 * HOLD)
    ebbing.spread(3.9)
    ebbing.run(6 * HOLD)
    assert ["added-1", "added-2"] == list(ebbing.added)
    ebbing.loads = {"a": 0.3}
    ebbing.run(20 * HOLD)
    assert ["added-2", "added-1"] == [found.machine for _, found in ebbing.done if found.act is ScaleAct.REMOVE]
    assert "jobs take 0.30 cores, no more than 40% of the 2 that are left without added-1" in ebbing.done[-1][1].why


def test_a_machine_that_nobody_is_like_goes_once_it_has_no_jobs() -> None:
    """Nobody else offers what it does, so a host with jobs stays there, and one without keeps nobody."""
    gpu = frozenset({"gpu"})
    machines = {
        "a": MachineSeen(name="a", alive=True, root="shared", cores=2.0),
        "card": MachineSeen(name="card", alive=True, root="shared", cores=2.0, tags=gpu),
    }
    carriages = {name: Carriage(host=name, machine=name, point=at, root="shared") for at, name in enumerate(machines)}
    idle = town(loads={"a": 0.1})
    ring = Ring(dict(zip(machines, (0, 1), strict=True)))
    for loads, goes in (({"a": 0.1, "card": 0.1}, False), ({"a": 0.1}, True)):
        fleet = replace(idle.fleet(), machines=machines, ring=ring, loads=loads)
        assert goes is fits_without("card", FleetUse(carriages=carriages, fleet=fleet, added={"card": 0.0}, most=1))


def test_a_machine_whose_host_fits_nowhere_stays() -> None:
    """It has a host for which the small machine beside it has no room, although all together have plenty."""
    wide = town(cores={"a": 1.0, "b": 16.0}, loads={"a": 0.1, "b": 14.0}, new_cores=8.0)
    wide.run(6 * HOLD)
    assert ["added-1"] == list(wide.added)
    before = wide.ring
    heavy = next(name for name in ("a", "b") if before.neighbour("added-1") == name)
    wide.loads = {"added-1": 0.9 if heavy == "a" else 14.0}
    wide.run(20 * HOLD)
    assert ["added-1"] == list(wide.added)


def test_a_second_wave_gets_its_host_back() -> None:
    """A machine that comes again has its name, and its host goes home to it; nothing else moves."""
    tides = town()
    homes = []
    for _ in range(3):
        tides.spread(1.9)
        tides.run(6 * HOLD)
        homes.append({host: each.machine for host, each in tides.carriages.items()})
        tides.spread(0.1)
        tides.run(12 * HOLD)
        assert {"a": "a", "added-1": "a"} == {host: each.machine for host, each in tides.carriages.items()}
    assert [{"a": "a", "added-1": "added-1"}] * 3 == homes


def test_a_wave_of_load_is_followed_up_and_down() -> None:
    """Over two days with a peak each, machines come and go, and jobs never take all cores for long."""
    tide = town(most=4)
    short = 0.0
    counts = []
    for minute in range(2 * 24 * 60):
        tide.spread(0.5 + 7.0 * max(0.0, 1 - abs(minute % 1_440 - 720) / 360))
        tide.run(60.0)
        counts.append(len(tide.added))
        short += 60.0 if tide.use().taken > tide.use().cores else 0.0
    assert (0, 4, 0) == (counts[300], counts[740], counts[-1])
    assert 2 * 4 == sum(found.act is ScaleAct.ADD for _, found in tide.done)
    assert 2 * 4 == sum(found.act is ScaleAct.REMOVE for _, found in tide.done)
    assert 0.0 == short


def test_nothing_is_done_where_nothing_may_be_added() -> None:
    """Without a bound above zero, a crowded service stays as it is."""
    alone = town(most=0)
    alone.run(50 * HOLD)
    assert [] == alone.done
