"""Keeping the pace: the host's answer to a job that asks where its next batch ends.

Spark asks from a process of its own, see `engine/spark/source.py`, and waits for the answer. That is what paces a job: the
answer comes when there is something to do and its time has come, and at once for a plan or a marker of a bridge.
"""

import json
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from engine.job.pace import NextBatch, ReadableSpool, Rhythm, next_batch
from engine.offset import Offset
from engine.plan import Entry, Plan

_PATIENCE = 5.0
"""Seconds after which an answer is given although there is nothing to do, so that nobody waits on a dead host."""
ALIGNING = 30.0
"""Seconds for which a part waits for a marker that some of its streams have brought."""
_POLL_SECONDS = 0.25
"""Seconds between two looks where nobody tells when there is something to do."""


class Spools(Protocol):
    """The spools that a job reads."""

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """Their indexes, as new as can be."""

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the keeper hears of all that comes into them from now on."""


class PaceKeeper:
    """Answers for one job; made with it."""

    def __init__(  # noqa: PLR0913 - what is read, by which plans, and whom to tell are six things
        self,
        *,
        run: int,
        entries: Callable[[int], Sequence[Entry]],
        spools: Spools,
        recorded: Callable[[Offset], Offset | None],
        on_ask: Callable[[Offset], None],
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_ask` is told of each question, `on_answer` of each answer that begins a batch."""
        self._run = run
        self._entries = entries
        self._spools = spools
        self._recorded = recorded
        self._on_ask = on_ask
        self._on_answer = on_answer
        self._news = threading.Condition()
        self._heard = 0
        self._stopped = False
        self._timed = frozenset[str]()
        """The streams of which events only wait for the time of their batch."""
        self._rhythm = Rhythm()
        self._eager = False
        self._waiting_since: dict[str, float] = {}
        self.deciding = threading.Lock()
        """Held while an end is decided, so that whoever logs a plan knows what is past already."""
        self.decided: Offset | None = None
        """The last end that was decided, or asked about; None before the first question."""
        self.is_asked = False
        """Whether Spark waits for an answer right now."""
        self.cuts = set[str]()
        """The cuts that were decided since it was made."""
        self.given_up = frozenset[str]()
        """The cuts for which a part has waited in vain."""
        self._unwanted = frozenset[str]()
        """The cuts that nobody wants any more."""

    def wake(self) -> None:
        """Tell it that a plan was logged, or that a marker came."""
        with self._news:
            self._heard += 1
            self._news.notify_all()

    def grown(self, stream: str, *, bridged: bool) -> None:
        """Tell it that events came: where some wait for their time already, more of them change nothing.

        But those that come over a bridge may begin a batch before others would.
        """
        if not self._timed or (bridged and stream not in self._timed):
            self.wake()

    def pass_over(self, cut: str) -> None:
        """Wait for a cut no longer, because nobody wants it any more; from any thread."""
        self._unwanted |= {cut}
        self.given_up -= {cut}
        self.wake()

    def is_passed_over(self, cut: str) -> bool:
        """Whether nobody wants a cut any more."""
        return cut in self._unwanted

    def stop(self) -> None:
        """Give every question its answer at once."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def end_after(self, start: Offset) -> Offset:
        """Where the batch after an offset ends; the offset itself after a while without anything to do."""
        self.is_asked = True
        try:
            return self._end_after(start)
        finally:
            self.is_asked = False

    def _end_after(self, start: Offset) -> Offset:
        self._on_ask(start)
        if (known := self._recorded(start)) is not None:
            self._note(known)
            self._on_answer()
            return known
        self._note(start)
        until = time.monotonic() + _PATIENCE
        while True:
            with self._news:
                heard, stopped = self._heard, self._stopped
            if stopped:
                return start
            with self.deciding:
                entries = self._entries(start.entry)
                streams = sorted({stream for entry in entries for stream in entry.plan.streams})
                # Asked first: what came before this host began to fill a spool is seen then.
                told = self._spools.all_notify(streams)
                step = self._step(start, entries, streams)
                now = time.monotonic()
                found = step.end != start
                when = step.when(self._due(start, entries, step), now=now, latest=until) if found else until
                if found and now >= when:
                    self._begin(start, step, entries, now)
                    self._note(step.end)
                    self._on_answer()
                    return step.end
            if now >= until:
                return start
            with self._news:
                if not self._stopped and self._heard == heard:
                    self._timed = _moved(start, step) if found else frozenset()
                    # Nobody tells when what a plan waits for has come, nor when a marker has been waited for in vain.
                    alone = told and len(entries) == 1 and not start.held
                    self._news.wait(max(0.0, min(when - now, until - now if alone else _POLL_SECONDS)))
                self._timed = frozenset()

    def _note(self, end: Offset) -> None:
        self.decided = end
        self.cuts.update(end.cuts)

    def _step(self, start: Offset, entries: Sequence[Entry], streams: Sequence[str]) -> NextBatch:
        return next_batch(
            start,
            run=self._run,
            entries=entries,
            spools=self._spools.readable(streams),
            given_up=self._given_up(start),
        )

    def _given_up(self, start: Offset) -> frozenset[str]:
        now, names = time.monotonic(), set(start.held.values())
        self._waiting_since = {name: self._waiting_since.get(name, now) for name in names}
        late = (name for name, since in self._waiting_since.items() if now - since > ALIGNING)
        # For good: whoever brings the marker later would hold up the rest of its part once more.
        self.given_up = (self.given_up | frozenset(late)) - self._unwanted
        return self.given_up | self._unwanted

    def _due(self, start: Offset, entries: Sequence[Entry], step: NextBatch) -> float:
        # The first events after a new plan are what somebody waits for.
        if self._eager and step.end.at != start.at:
            return 0.0
        return self._rhythm.due(_plan(entries, step), _moved(start, step))

    def _begin(self, start: Offset, step: NextBatch, entries: Sequence[Entry], now: float) -> None:
        self._eager = step.end.entry != start.entry or step.end.run != start.run
        if step.end.at != start.at:
            self._rhythm = self._rhythm.after(now, pace=_plan(entries, step).pace)


def _plan(entries: Sequence[Entry], step: NextBatch) -> Plan:
    """The plan that a batch runs."""
    return next(entry.plan for entry in entries if entry.number == step.end.entry)


def _moved(start: Offset, step: NextBatch) -> frozenset[str]:
    """The streams that a batch reads on."""
    return frozenset(stream for stream, end in step.end.at.items() if start.at.get(stream) != end)


class PaceServer:
    """Where the processes of Spark that plan batches ask, and those that run them tell; one for each host."""

    def __init__(self, address: Path, *, on_record: Callable[[str], None] = lambda _job: None) -> None:
        """`on_record` is told of each job that has recorded a batch, from any thread."""
        self.address = address
        self._on_record = on_record
        self._keepers: dict[str, PaceKeeper] = {}
        self._server = _Server(str(address), self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pace", daemon=True)
        self._thread.start()

    def add(self, job: str, keeper: PaceKeeper) -> None:
        """Answer for a job."""
        self._keepers[job] = keeper

    def remove(self, job: str) -> None:
        """Answer for a job no longer."""
        if (keeper := self._keepers.pop(job, None)) is not None:
            keeper.stop()

    def close(self) -> None:
        """Answer nobody any more."""
        for job in list(self._keepers):
            self.remove(job)
        self._server.shutdown()
        self._server.server_close()
        self.address.unlink(missing_ok=True)

    def _answer(self, line: bytes) -> bytes:
        told = json.loads(line)
        if told.get("recorded"):
            self._on_record(told["job"])
            return b""
        keeper = self._keepers.get(told["job"])
        start = Offset.of_json(told["start"])
        try:
            end = start if keeper is None else keeper.end_after(start)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job must hear of it
            return _line({"trouble": f"{type(error).__name__}: {error}"})
        return _line({"end": end.as_json()})


def _line(told: Mapping[str, object]) -> bytes:
    return json.dumps(told).encode() + b"\n"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: str, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer
        super().__init__(address, _Asker)


class _Asker(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)  # noqa: S101 - tells the type checker what the base class cannot
        try:
            for line in self.rfile:
                self.wfile.write(self.server.answer(line))
        except ConnectionError:
            # The job was stopped while it waited.
            return
