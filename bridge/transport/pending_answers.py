"""The broker's answers to published messages, matched to the callbacks that wait for them."""

import threading
from collections.abc import Callable
from functools import partial

from bridge.transport.dispatch import guarded


class PendingAnswers:
    """Callbacks by message id. Callbacks and answers come from two threads, in either order."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._callbacks: dict[int, Callable[[str], None]] = {}
        self._early: dict[int, str] = {}
        """Refusals, or empty texts, that came before the publishing thread knew the message's id."""

    def expect(self, mid: int, answered: Callable[[str], None]) -> None:
        """Call back once a message is answered; at once if it is already. Called by the publishing thread."""
        with self._guard:
            refusal = self._early.pop(mid, None)
            if refusal is None:
                self._callbacks[mid] = answered
        if refusal is not None:
            answered(refusal)

    def answer(self, mid: int, refusal: str) -> None:
        """Pass an answer on; called by the client's thread."""
        with self._guard:
            answered = self._callbacks.pop(mid, None)
            if answered is None:
                self._early[mid] = refusal
        if answered is not None:
            guarded("a broker's answer", partial(answered, refusal))
