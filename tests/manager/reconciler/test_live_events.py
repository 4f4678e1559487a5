"""The live stream of events."""

import threading

from manager.reconciler.live_events import LiveEvents


def numbers(events: LiveEvents, after: int) -> list[int]:
    """The numbers of what came after an event."""
    return [event.id for event in events.since(after)]


def test_who_listens_gets_what_came_since() -> None:
    """In order, each once, and nothing that it has."""
    events = LiveEvents(last=0)
    for number in range(3):
        events.add("job", {"n": number})
    assert ([1, 2, 3], [3], []) == (numbers(events, 0), numbers(events, 2), numbers(events, 3))
    assert [{"n": 2}] == [event.told for event in events.since(2)]


def test_only_the_newest_are_kept() -> None:
    """Who was away for long gets those that are left."""
    events = LiveEvents(most=2, last=0)
    for _ in range(5):
        events.add("job", {})
    assert ([4, 5], [5]) == (numbers(events, 0), numbers(events, 4))


def test_numbers_rise_from_one_manager_to_the_next() -> None:
    """Who comes back to another process with its last number misses nothing."""
    before = LiveEvents()
    last = before.add("job", {}).id
    assert last > 1_700_000_000_000
    assert LiveEvents().last >= before.last - 1


def test_who_waits_is_told_at_once() -> None:
    """What comes while somebody waits ends the waiting."""
    events = LiveEvents(last=0)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.extend(each.id for each in events.wait(0, 60.0)))
    waiting.start()
    events.add("job", {})
    waiting.join(60.0)
    assert [1] == found


def test_who_waits_goes_without_news_after_its_time() -> None:
    """It gets nothing then."""
    assert () == LiveEvents(last=0).wait(0, 0.01)


def test_a_feed_that_is_closed_keeps_nobody_waiting() -> None:
    """The manager ends, and with it every stream; what came before is still told."""
    events = LiveEvents(last=0)
    events.add("job", {})
    events.close()
    assert events.closed
    assert ([1], ()) == ([each.id for each in events.wait(0, 60.0)], events.wait(1, 60.0))
