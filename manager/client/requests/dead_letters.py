"""The requests about dead letters."""

from manager.answers import DeadLetterAnswer, DeadLetterGroupAnswer, Discarded, Page, Replayed
from manager.client.requests.request import Request, given, list_request, path_to


def dead_letters(*, dataflow: str | None) -> Request[Page[DeadLetterAnswer]]:
    """The dead letters of the caller's dataflows."""
    return list_request("/v1/dead-letters", Page[DeadLetterAnswer], given(dataflow=dataflow))


def dead_letter_groups(*, dataflow: str | None) -> Request[Page[DeadLetterGroupAnswer]]:
    """The same by task and reason."""
    return list_request("/v1/dead-letters/groups", Page[DeadLetterGroupAnswer], given(dataflow=dataflow))


def replay_dead_letter(letter: int, *, alike: bool) -> Request[Replayed]:
    """Replay one dead letter."""
    return Request(
        method="POST",
        path=path_to("dead-letters", str(letter), "replay"),
        answer=Replayed,
        query=given(alike="true" if alike else None),
    )


def replay_dead_letters(dataflow: str) -> Request[Replayed]:
    """Replay the dead letters of a dataflow."""
    return Request(method="POST", path="/v1/dead-letters/replay", answer=Replayed, query=given(dataflow=dataflow))


def discard_dead_letter(letter: int, *, alike: bool) -> Request[Discarded]:
    """Discard one dead letter."""
    return Request(
        method="DELETE",
        path=path_to("dead-letters", str(letter)),
        answer=Discarded,
        query=given(alike="true" if alike else None),
    )


def discard_dead_letters(dataflow: str) -> Request[Discarded]:
    """Discard the dead letters of a dataflow."""
    return Request(method="DELETE", path="/v1/dead-letters", answer=Discarded, query=given(dataflow=dataflow))
