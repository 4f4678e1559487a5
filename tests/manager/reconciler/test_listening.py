"""What is heard of hosts and jobs, and kept."""

from collections.abc import Iterator

import pytest

from bridge import topics
from manager.reconciler.listening import SILENT
from manager.reconciler.saying import wiring
from tests.manager.reconciler.hearing import Hearing
from tests.manager.reconciler.worlds import plan


@pytest.fixture
def hearing() -> Iterator[Hearing]:
    made = Hearing()
    yield made
    made.listener.stop()


def begun(hearing: Hearing) -> Hearing:
    hearing.listener.start()
    hearing.until_complete()
    return hearing


def test_what_was_retained_is_known_before_anybody_acts(hearing: Hearing) -> None:
    """Once everything has come, the statuses and plans that the broker keeps are among it."""
    hearing.say_status("1", version=3, term=2, in_effect=3, failed={"7": {"reason": "no", "retry": 1.0}})
    hearing.say_plan(plan("1", 3, reads=[4], forwards=[5]))
    hearing.say(topics.host("h", "status"), {"host": "h", "alive": True, "jobs": ["1"], "dropped": 4})
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
    assert [("h", True, ("1",), 4)] == [(h.host, h.alive, h.jobs, h.dropped) for h in hearing.listener.hosts()]


def test_without_a_connection_nothing_is_complete(hearing: Hearing) -> None:
    """Whoever acts on what is missing has to wait until all has come again."""
    begun(hearing)
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(lambda: not hearing.listener.sight().complete, "it to be incomplete")
    hearing.client.start()
    hearing.until_complete()
    assert 2 == hearing.listener.sight().connection


def test_what_the_broker_lost_is_not_taken_for_kept(hearing: Hearing) -> None:
    """A plan that does not come again after a reconnect is not at the broker any more."""
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
        (topics.host("h", "status"), b"0"),
        (topics.host("h", "refused"), b"0"),
    ],
)
def test_a_message_that_cannot_be_read_hurts_nothing(hearing: Hearing, topic: str, payload: bytes) -> None:
    """It is counted, and what comes after it is heard."""
    begun(hearing)
    hearing.say(topic, payload)
    hearing.say_status("2")
    hearing.until(lambda: hearing.listener.job("2"), "the next message")
    assert (1, None) == (hearing.listener.malformed, hearing.listener.job("1"))


def test_a_refusal_stands_until_the_job_is_told_or_does_something_else(hearing: Hearing) -> None:
    """It is about the newest plan; another plan, or a version that is taken up, ends it."""
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


def test_a_refusal_of_the_first_plan_is_known_although_the_job_says_nothing(hearing: Hearing) -> None:
    """Its reason is kept for the job, at the host that its plan names."""
    begun(hearing)
    hearing.say_plan(plan("1", host="i"))
    hearing.refuse("1", "no such type")
    hearing.settle()
    seen = hearing.listener.job("1")
    assert ("i", "", "no such type") == (seen and seen.host, seen and seen.state, seen and seen.refused)


def test_how_often_a_job_died_is_counted(hearing: Hearing) -> None:
    """Each time that it is seen to have died, and not each time that its host says so."""
    begun(hearing)
    for state in ("running", "died", "died", "starting", "running", "died"):
        hearing.say_status("1", state=state)
    hearing.settle()
    seen = hearing.listener.job("1")
    assert 2 == (seen and seen.restarts)


def test_metrics_belong_to_their_job(hearing: Hearing) -> None:
    """They stay when its next status comes, and are no news."""
    begun(hearing)
    hearing.say_status("1")
    hearing.say(topics.job("1", "metrics"), {"batch": 1, "instances": {"7": {"taken": 5}}}, retain=False)
    hearing.say(topics.job("2", "metrics"), {"batch": 1, "instances": {}}, retain=False)
    hearing.say_status("1", batch=9)
    hearing.settle()
    seen = hearing.listener.job("1")
    assert ({7: {"taken": 5}}, 9) == (seen and seen.metrics, seen and seen.batch)
    assert hearing.listener.job("2") is None


def test_a_job_whose_messages_are_cleaned_is_forgotten(hearing: Hearing) -> None:
    """Once the broker keeps neither its plan nor its status."""
    begun(hearing)
    hearing.say_plan(plan("1"))
    hearing.say_status("1", state="stopped")
    hearing.say(topics.job("1", "plan"), b"")
    hearing.say(topics.job("1", "status"), b"")
    hearing.settle()
    assert {} == hearing.listener.sight().jobs


def test_a_host_that_is_silent_is_away(hearing: Hearing) -> None:
    """Also where a broker that died with it had no time to say so; who says something again is back."""
    begun(hearing)
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    told = []
    for clock in (SILENT, SILENT + 1):
        hearing.clock = clock
        told += [host.alive for host in hearing.listener.hosts()]
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    told += [host.alive for host in hearing.listener.hosts()]
    assert [True, False, True] == told


def test_nobody_is_silent_who_cannot_be_heard(hearing: Hearing) -> None:
    """While there is no connection, and for a while after it began, a host is what it was."""
    begun(hearing)
    hearing.say(topics.host("h", "status"), {"alive": True})
    hearing.settle()
    assert hearing.client is not None
    hearing.client.stop()
    hearing.until(lambda: not hearing.listener.sight().complete, "it to be incomplete")
    hearing.clock = 10 * SILENT
    assert [True] == [host.alive for host in hearing.listener.hosts()]
    hearing.client.start()
    hearing.until_complete()
    assert [True] == [host.alive for host in hearing.listener.hosts()]
    hearing.clock += SILENT + 1
    assert [False] == [host.alive for host in hearing.listener.hosts()]


def test_it_can_begin_again(hearing: Hearing) -> None:
    """A manager that leads for the second time hears hosts as for the first."""
    begun(hearing)
    hearing.listener.stop()
    assert not hearing.listener.sight().complete
    hearing.say_status("1")
    begun(hearing)
    assert hearing.listener.job("1") is not None
