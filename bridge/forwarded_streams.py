"""The streams that a sender forwards: the epoch of each opening, and the records that each stream still needs."""

import threading

from bridge.emitted import Stream

NO_RECORD_NEEDED = 2**63 - 1
"""The first record that a stream needs if it needs none: larger than any number."""
OPENINGS = 1 << 16
"""The number of times that a stream may open in one epoch of its host: each opening has its own epoch on the wire."""


class ForwardedStreams:
    """Openings and needs of a sender's streams; any thread may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._openings: dict[Stream, tuple[int, int]] = {}
        """The host's epoch, and the openings in it."""
        self._opening: dict[Stream, int] = {}
        """The first numbers of streams that the sender was asked to open, and has not opened."""
        self._confirmed: dict[Stream, int] = {}
        """The first numbers that the consumers' spools are not known to have."""

    def open(self, stream: Stream, epoch: int, first: int) -> int:
        """Note that a stream is to open at a number; returns the epoch of this opening on the wire.

        Each opening has its own epoch, so that the end of the one before, delivered twice, cannot end this one.
        """
        with self._guard:
            before, openings = self._openings.get(stream, (epoch, -1))
            if epoch < before:
                raise ValueError(
                    f"port {stream.port!r} of instance {stream.instance} was forwarded in epoch {before}; "
                    f"forward it in that or a higher one, not in {epoch}"
                )
            openings = openings + 1 if epoch == before else 0
            self._openings[stream] = epoch, openings
            self._opening.setdefault(stream, first)
            return epoch * OPENINGS + openings

    def confirm(self, stream: Stream, number: int, *, opened: bool = False) -> None:
        """Note that records before a number are not needed; `opened` if the sender has just opened the stream."""
        with self._guard:
            self._confirmed[stream] = number
            if opened:
                self._opening.pop(stream, None)

    def finish(self, stream: Stream) -> None:
        """Note that no records are needed: the consumer's spool has all of the stream."""
        with self._guard:
            self._confirmed.pop(stream, None)

    def needed(self, stream: Stream) -> int:
        """The first number that the consumer's spool is not known to have."""
        with self._guard:
            return min(each.get(stream, NO_RECORD_NEEDED) for each in (self._confirmed, self._opening))
