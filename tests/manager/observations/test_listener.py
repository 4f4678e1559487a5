"""The listener: which messages about hosts, jobs and machines it keeps, and when machines count as lost."""

from collections.abc import Iterator

import pytest
from pydantic import TypeAdapter

from bridge import topics
from engine.port_events import SeenInstance
from manager.observations.looks import LOOK_SECONDS, LookedAt
from manager.observations.messages import wiring
from manager.observations.reports import InstanceMeasured, MachineStatus, Measured, StreamMeasured, read_machine_status
from manager.observations.sight import HOST_SILENT_AFTER, MACHINE_SILENT_AFTER, SpoolEnd
from ring.fleet import HostReport
from tests.manager.jobs.worlds import plan
from tests.manager.observations.listened_host import Hearing


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    made = Hearing()
    yield made
    made.listener.stop()


def begun(hearing: Hearing) -> Hearing:
    hearing.listener.start()
    hearing.until_complete()
    return hearing


def test_nothing_is_kept_of_a_look_that_is_over(hearing: Hearing) -> None:
    """Even if nobody ever looks again."""
    begun(hearing)
    looks, at = hearing.listener.looks, LookedAt("1", 7)
    assert looks.renew("ann", at, host="h")
    seen = TypeAdapter(SeenInstance).dump_json(SeenInstance(instance=7, ports=()))
    hearing.say(topics.job("1", "events"), seen, retain=False)
    hearing.until(lambda: looks.seen(at) is not None, "what the host reports")
    hearing.clock = LOOK_SECONDS
    hearing.until(lambda: looks.seen(at) is None, "the end of the look")


def test_a_complete_sight_has_all_retained_messages(hearing: Hearing) -> None:
    """The statuses and plans that the broker retains arrive before the sight is complete."""
    hearing.say_status("1", version=3, term=2, in_effect=3, failed={"7": {"reason": "no", "retry": 1.0}})
    hearing.say_plan(plan("1", 3, reads=[4], forwards=[5]))
    hearing.say(
        topics.host("h", "status"),
        {
            "host": "h",
            "alive": True,
            "jobs": ["1"],
            "dropped": 4,
            "cores": 2,
            "tags": ["gpu"],
            "types": ["map"],
            "release": "9",
        },
    )
    begun(hearing)
    seen = hearing.listener.job("1")
    assert seen is not None
    assert ("h", "running", 3, 2, 3, {7: "no"}) == (
        seen.host,
        seen.state,
        seen.version,
        seen.term,
        seen.in_effect,
        seen.failed,
    )
    assert wiring(plan("1", 3, reads=[4], forwards=[5])) == hearing.job("1").planned
    (host,) = hearing.listener.hosts()
    assert ("h", True, ("1",), 4) == (host.host, host.alive, host.jobs, host.dropped)
    assert (2.0, frozenset({"gpu"}), frozenset({"map"}), "9") == (host.cores, host.tags, host.types, host.release)


def test_the_sight_is_incomplete_without_a_connection(hearing: Hearing) -> None:
    """It is complete again only after all retained messages have arrived again."""
    begun(hearing)
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(lambda: not hearing.listener.sight().complete, "it to be incomplete")
    hearing.client.start()
    hearing.until_complete()
    assert 2 == hearing.listener.sight().connection


def test_a_plan_that_the_broker_lost_is_forgotten(hearing: Hearing) -> None:
    """A plan that does not arrive again after a reconnect is no longer retained."""
    hearing.say_plan(plan("1"))
    begun(hearing)
    assert hearing.client is not None
    hearing.client.stop()
    hearing.say(topics.job("1", "plan"), b"")
    hearing.client.start()
    hearing.until(lambda: hearing.listener.sight().connection == 2, "another connection")
    hearing.until_complete()
    assert hearing.job("1").planned is None


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        (topics.job("1", "status"), b"{"),
        (topics.job("1", "status"), b"[]"),
        (topics.job("1", "status"), b'{"host": "h", "state": "running", "unconfirmed": {"x:out": 1}}'),
        (topics.job("1", "plan"), b"\xff"),
        (topics.job("1", "refused"), b"{}"),
        (topics.job("1", "metrics"), b"null"),
        (topics.job("1", "metrics"), b'{"streams": {"s": 1}}'),
        (topics.host("h", "status"), b"0"),
        (topics.host("h", "refused"), b"0"),
        (topics.machine("m", "status"), b"{"),
        (topics.machine("m", "status"), b'{"alive": true, "hosts": {"h": 1}}'),
    ],
)
def test_an_unreadable_message_is_passed_over(hearing: Hearing, topic: str, payload: bytes) -> None:
    """It is counted, and later messages are processed."""
    begun(hearing)
    hearing.say(topic, payload)
    hearing.say_status("2")
    hearing.until(lambda: hearing.listener.job("2"), "the next message")
    assert (1, None) == (hearing.listener.malformed, hearing.listener.job("1"))


def test_a_refusal_lasts_until_the_next_plan(hearing: Hearing) -> None:
    """It concerns the newest plan; another plan, or a logged version, ends it."""
    begun(hearing)
    hearing.say_plan(plan("1", 1))
    hearing.say_status("1", version=1, term=1)
    refusals = []
    for version in (2, 3):
        hearing.say_plan(plan("1", version))
        hearing.settle()
        refusals.append(getattr(hearing.listener.job("1"), "refused", None))
        hearing.refuse("1", f"not {version}")
        hearing.say_status("1", version=1, term=1)
        hearing.settle()
        refusals.append(getattr(hearing.listener.job("1"), "refused", None))
    hearing.say_status("1", version=3, term=1)
    hearing.settle()
    refusals.append(getattr(hearing.listener.job("1"), "refused", None))
    assert ["", "not 2", "", "not 3", ""] == refusals


def test_a_refusal_of_the_first_plan_is_kept_without_a_status(hearing: Hearing) -> None:
    """The reason is kept for the job, at the host that its plan names."""
    begun(hearing)
    hearing.say_plan(plan("1", host="i"))
    hearing.refuse("1", "no such type")
    hearing.settle()
    seen = hearing.listener.job("1")
    assert ("i", "", "no such type") == (seen and seen.host, seen and seen.state, seen and seen.refused)


def test_restarts_are_counted_by_the_host(hearing: Hearing) -> None:
    """The count outlives the manager, and is kept while the host does not report it."""
    begun(hearing)
    restarts = []
    for fields in ({"run": 1}, {"run": 3}, {"state": "died"}):
        hearing.say_status("1", **fields)
        hearing.settle()
        restarts.append(getattr(hearing.listener.job("1"), "restarts", None))
    assert [0, 2, 2] == restarts


def test_metrics_belong_to_their_job(hearing: Hearing) -> None:
    """They are kept when the next status arrives, and are no news; earlier samples are kept for a while."""
    begun(hearing)
    hearing.say_status("1")
    news: list[int] = []
    hearing.settle()
    hearing.listener.on_news(lambda: news.append(1))
    for at in (0.0, 7.0):
        hearing.clock = at
        counters = {
            "batch": 1,
            "run": 2,
            "instances": {"7": {"taken": 5, "cpu_ns": 9, "more": 1}},
            "streams": {"s": {"entered": 4, "lag_events": 2, "lag_seconds": 1.5}},
            "left": 3,
            "batch_seconds": {"p50": 0.1},
            "latency_seconds": {"p50": 0.5},
            "outputs": {"d": {"s": {"p50": 0.5}}},
        }
        hearing.say(topics.job("1", "metrics"), counters, retain=False)
        hearing.say(topics.job("2", "metrics"), {"batch": 1, "instances": {}}, retain=False)
        hearing.until(lambda: at in [each.at for each in measured(hearing)], "the metrics")  # noqa: B023 - awaited here
    assert [] == news
    hearing.say_status("1", batch=9)
    hearing.settle()
    seen = hearing.listener.job("1")
    assert 9 == (seen and seen.batch)
    assert [0.0, 7.0] == [each.at for each in measured(hearing)]
    assert (
        Measured(
            at=7.0,
            run=2,
            batch=1,
            instances={7: InstanceMeasured(taken=5, cpu_ns=9)},
            streams={"s": StreamMeasured(entered=4, lag_events=2, lag_seconds=1.5)},
            left=3,
            batch_seconds={"p50": 0.1},
            latency_seconds={"p50": 0.5},
            outputs={"d": {"s": {"p50": 0.5}}},
        )
        == measured(hearing)[-1]
    )
    assert hearing.listener.job("2") is None


def measured(hearing: Hearing) -> tuple[Measured, ...]:
    """Return the samples of the first job."""
    seen = hearing.listener.job("1")
    return seen.measured if seen else ()


def test_a_job_whose_messages_are_cleaned_is_forgotten(hearing: Hearing) -> None:
    """It is forgotten once the broker retains neither its plan nor its status."""
    begun(hearing)
    hearing.say_plan(plan("1"))
    hearing.say_status("1", state="stopped")
    hearing.say(topics.job("1", "plan"), b"")
    hearing.say(topics.job("1", "status"), b"")
    hearing.settle()
    assert {} == hearing.listener.sight().jobs


def test_a_host_that_is_silent_is_away(hearing: Hearing) -> None:
    """It is away even if the broker died with it and delivered no last will; a new report brings it back."""
    begun(hearing)
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    alive = []
    for clock in (HOST_SILENT_AFTER, HOST_SILENT_AFTER + 1):
        hearing.clock = clock
        alive += [host.alive for host in hearing.listener.hosts()]
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    alive += [host.alive for host in hearing.listener.hosts()]
    assert [True, False, True] == alive


def test_a_host_that_is_away_is_still_on_its_root(hearing: Hearing) -> None:
    """Its last will does not say where its files are, and they stay there; one that returns may be elsewhere."""
    begun(hearing)
    found = []
    for status in ({"alive": True, "root": "x"}, {"alive": False}, {"alive": True}, {"alive": False, "root": "y"}):
        hearing.say(topics.host("h", "status"), status)
        hearing.settle()
        found += [(host.alive, host.root) for host in hearing.listener.hosts()]
    assert [(True, "x"), (False, "x"), (True, ""), (False, "y")] == found


def test_no_host_is_silent_without_a_connection(hearing: Hearing) -> None:
    """Without a connection, and for a while after it begins, a host keeps its state."""
    begun(hearing)
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(lambda: not hearing.listener.sight().complete, "it to be incomplete")
    hearing.clock = 10 * HOST_SILENT_AFTER
    assert [True] == [host.alive for host in hearing.listener.hosts()]
    hearing.client.start()
    hearing.until_complete()
    assert [True] == [host.alive for host in hearing.listener.hosts()]
    hearing.clock += HOST_SILENT_AFTER + 1
    assert [False] == [host.alive for host in hearing.listener.hosts()]


def test_it_can_be_started_again(hearing: Hearing) -> None:
    """A manager that leads for the second time listens as it did the first time."""
    begun(hearing)
    hearing.listener.stop()
    assert not hearing.listener.sight().complete
    hearing.say_status("1")
    begun(hearing)
    assert hearing.listener.job("1") is not None


def test_answers_to_its_own_questions_are_kept(hearing: Hearing) -> None:
    """The newest for each host and stream; those to another manager, and those of long ago, are not."""
    begun(hearing)
    listener = hearing.listener

    def answer(host: str, number: int, asker: str = listener.name, **ends: int) -> None:
        content = {"asker": asker, "number": number, "ends": ends}
        hearing.say(topics.host(host, "ends"), content, retain=False)

    answer("h", 2, p=10, q=20)
    answer("h", 1, p=5)
    answer("i", 2, p=7)
    answer("h", 9, "another", p=99)
    answer("h", 3, q=21)
    hearing.until(lambda: ("h", "q") in listener.sight().ends, "the answers")
    hearing.until(lambda: SpoolEnd(3, 21) == listener.sight().ends["h", "q"], "the last answer")
    assert {
        ("h", "p"): SpoolEnd(2, 10),
        ("h", "q"): SpoolEnd(3, 21),
        ("i", "p"): SpoolEnd(2, 7),
    } == listener.sight().ends
    answer("i", 103, r=1)
    hearing.until(lambda: ("i", "r") in listener.sight().ends, "a later answer")
    assert {("i", "r"): SpoolEnd(103, 1)} == listener.sight().ends


STATUS = {"machine": "m", "alive": True, "boot": "1", "at": "10.0.0.1:7", "secret": "never shown"}


@pytest.fixture
def listening() -> Iterator[Hearing]:
    made = Hearing()
    made.listener.start()
    made.until_complete()
    yield made
    made.listener.stop()


def say(hearing: Hearing, **fields: object) -> MachineStatus:
    hearing.say(topics.machine("m", "status"), STATUS | fields)
    hearing.settle()
    return hearing.listener.machines()["m"][0]


def test_a_status_is_kept_whole(listening: Hearing) -> None:
    """Each field is what the machine reported, and unknown ones are passed over."""
    report = {"version": 2, "in_sync": ["b"], "behind_bytes": 7, "later": 1}
    status = say(listening, zone="z", tags=["gpu"], types=["map"], root="r", cores=2, hosts={"h": report}, later=1)
    seen = status.seen
    assert (status.boot, status.secret, seen.at, seen.zone, seen.root) == ("1", "never shown", "10.0.0.1:7", "z", "r")
    assert (seen.tags, seen.types, seen.cores) == (frozenset({"gpu"}), frozenset({"map"}), 2.0)
    assert dict(seen.hosts) == {"h": HostReport(version=2, in_sync=frozenset({"b"}), behind_bytes=7)}


def test_a_secret_is_not_written_into_logs(listening: Hearing) -> None:
    """The text of a status does not contain it."""
    assert "never shown" not in repr(say(listening))


def test_a_will_ends_a_machine_at_once(listening: Hearing) -> None:
    """What it reported last stays known, and its next status brings it back."""
    say(listening, zone="z", hosts={"h": {"version": 2}})
    listening.say(topics.machine("m", "status"), {"machine": "m", "alive": False})
    listening.settle()
    seen = listening.listener.machines()["m"][0].seen
    assert (seen.alive, seen.zone, seen.hosts["h"].version) == (False, "z", 2)
    assert say(listening, boot="2").seen.alive


def test_a_machine_says_which_hosts_are_its_own(listening: Hearing) -> None:
    """Also by its last will, and by default it is the one of its name."""
    assert say(listening).seen.own_hosts == ("m",)
    assert say(listening, own=["m", "m.2"]).seen.own_hosts == ("m", "m.2")
    assert say(listening, alive=False, own=["m", "m.2"]).seen.own_hosts == ("m", "m.2")


def test_machines_may_be_missed_until_silence_tells_something(listening: Hearing) -> None:
    """As long as a live machine may not have been heard over this connection, and while there is none."""
    assert listening.listener.misses_machines()
    listening.clock += MACHINE_SILENT_AFTER + 1.0
    assert not listening.listener.misses_machines()
    assert listening.client is not None
    listening.client.stop()
    listening.until(listening.listener.misses_machines, "the end of the connection")


def test_a_silent_machine_is_lost(listening: Hearing) -> None:
    """It counts as alive until it was silent for too long while the broker was connected."""
    say(listening)
    listening.clock += MACHINE_SILENT_AFTER
    assert listening.listener.machines()["m"][0].seen.alive
    listening.clock += 0.1
    assert not listening.listener.machines()["m"][0].seen.alive
    assert say(listening).seen.alive


def test_silence_is_counted_from_the_connection_on(listening: Hearing) -> None:
    """A machine is not lost because the manager could not hear it."""
    say(listening)
    assert listening.client is not None
    listening.client.stop()
    listening.until(lambda: not listening.listener.sight().complete, "the end of the connection")
    listening.broker.publish(topics.machine("m", "status"), b"", retain=True)
    listening.clock += 100.0
    assert listening.listener.machines()["m"][0].seen.alive
    listening.client.start()
    listening.until_complete()
    listening.clock += MACHINE_SILENT_AFTER
    assert listening.listener.machines()["m"][0].seen.alive
    listening.clock += 0.1
    assert not listening.listener.machines()["m"][0].seen.alive


def test_a_cleared_status_forgets_the_machine(listening: Hearing) -> None:
    """So an operator can remove one that will never come back."""
    say(listening)
    listening.say(topics.machine("m", "status"), b"")
    listening.settle()
    assert listening.listener.machines() == {}


@pytest.mark.parametrize(
    ("fields", "is_news"),
    [
        ({}, False),
        ({"hosts": {"h": {"version": 1, "behind_bytes": 5}}}, False),
        ({"hosts": {"h": {"version": 1, "in_sync": ["b"]}}}, True),
        ({"secret": "another"}, True),
        ({"alive": False}, True),
    ],
)
def test_only_some_changes_are_news(listening: Hearing, fields: dict[str, object], *, is_news: bool) -> None:
    """What changes all the time wakes nobody."""
    say(listening, hosts={"h": {"version": 1}})
    calls: list[int] = []
    listening.listener.on_news(lambda: calls.append(1))
    listening.say(topics.machine("m", "status"), {**STATUS, "hosts": {"h": {"version": 1}}, **fields})
    listening.settle()
    # Those of `settle` itself.
    assert len(calls) - 2 == int(is_news)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"at": "x"}', b'{"alive": true, "cores": "many"}'])
def test_an_unreadable_status_is_refused(payload: bytes) -> None:
    """The listener passes over what raises ValueError."""
    with pytest.raises(ValueError, match="validation error"):
        read_machine_status("m", payload)
