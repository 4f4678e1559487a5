"""The pace server of a host: passes questions of Spark's processes to the jobs' pace keepers, and reports records."""

import json
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.job.pace_keeper import PaceKeeper
from engine.offset import Offset


class PaceServer:
    """Answers the processes that plan batches, and hears from those that run them; one for each host."""

    def __init__(self, address: Path, *, on_record: Callable[[str], None] = lambda _job: None) -> None:
        """`on_record` is called with the name of each job that has recorded a batch, from any thread."""
        self.address = address
        self._on_record = on_record
        self._keepers: dict[str, PaceKeeper] = {}
        self._server = _Server(str(address), self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pace", daemon=True)
        self._thread.start()

    def add(self, job: str, keeper: PaceKeeper) -> None:
        """Pass a job's questions to its keeper from now on."""
        self._keepers[job] = keeper

    def remove(self, job: str) -> None:
        """Answer a job's questions at once from now on."""
        if (keeper := self._keepers.pop(job, None)) is not None:
            keeper.stop()

    def note_growth(self, stream: str, marked: bool) -> None:  # noqa: FBT001 - a spool passes it by position
        """Notify the keepers that a stream has grown, perhaps by a marker; from any thread."""
        for keeper in list(self._keepers.values()):
            keeper.note_growth(stream, marked=marked)

    def close(self) -> None:
        """Stop answering."""
        for job in list(self._keepers):
            self.remove(job)
        self._server.shutdown()
        self._server.server_close()
        self.address.unlink(missing_ok=True)

    def _answer(self, line: bytes) -> bytes:
        question = json.loads(line)
        if question.get("recorded"):
            self._on_record(question["job"])
            return b""
        keeper = self._keepers.get(question["job"])
        start = Offset.of_json(question["start"])
        try:
            end = start if keeper is None else keeper.end_after(start)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query has to fail with it
            return _line({"trouble": f"{type(error).__name__}: {error}"})
        return _line({"end": end.as_json()})


def _line(answer: Mapping[str, object]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: str, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer
        super().__init__(address, _Connection)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)  # noqa: S101 - for the type checker; the base class has the general type
        try:
            for line in self.rfile:
                self.wfile.write(self.server.answer(line))
        except ConnectionError:
            # The query was stopped while it waited.
            return
