"""The live events."""

import threading

from manager.kernel.live_events import LiveEvents


def numbers(events: LiveEvents, after: int) -> list[int]:
    """Return the numbers of the events after one."""
    return [event.id for event in events.since(after)]


def test_a_reader_gets_the_events_since_its_last() -> None:
    """They are in order, each once."""
    events = LiveEvents(last=0)
    for number in range(3):
        events.add("job", {"n": number})
    assert ([1, 2, 3], [3], []) == (numbers(events, 0), numbers(events, 2), numbers(events, 3))
    assert [{"n": 2}] == [event.told for event in events.since(2)]


def test_only_the_newest_events_are_kept() -> None:
    """A reader that was away for long gets those that are left."""
    events = LiveEvents(most=2, last=0)
    for _ in range(5):
        events.add("job", {})
    assert ([4, 5], [5]) == (numbers(events, 0), numbers(events, 4))


def test_numbers_rise_from_one_manager_to_the_next() -> None:
    """A reader that reconnects to another process with its last number misses nothing."""
    before = LiveEvents()
    last = before.add("job", {}).id
    assert last > 1_700_000_000_000
    assert LiveEvents().last >= before.last - 1


def test_a_new_event_ends_the_wait() -> None:
    """A waiting reader gets it at once."""
    events = LiveEvents(last=0)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.extend(each.id for each in events.wait(0, 60.0)))
    waiting.start()
    events.add("job", {})
    waiting.join(60.0)
    assert [1] == found


def test_a_wait_ends_after_its_timeout() -> None:
    """It returns no events then."""
    assert () == LiveEvents(last=0).wait(0, 0.01)


def test_closing_releases_waiting_readers() -> None:
    """When the manager ends, every stream ends; earlier events can still be read."""
    events = LiveEvents(last=0)
    events.add("job", {})
    events.close()
    assert events.closed
    assert ([1], ()) == ([each.id for each in events.wait(0, 60.0)], events.wait(1, 60.0))
