"""A reader of outputs: its end, and the callback for its news. `OutputLook` and `Tail` are the two kinds."""

from collections.abc import Callable


class OutputReader:
    """A reader that is open until the watcher ends it."""

    def __init__(self) -> None:
        self._notify: Callable[[], object] = lambda: None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the reader has ended, so that nothing more comes."""
        return self._over

    def on_news(self, notify: Callable[[], object]) -> None:
        """Call back whenever there is something to take. Any thread may call back, so the callback must not block."""
        self._notify = notify
        notify()

    def end(self) -> None:
        """End the reader."""
        self._over = True
        self._notify()
