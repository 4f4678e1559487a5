"""Events that come over REST and leave over REST: exactly once, whatever is killed meanwhile, and for nobody else."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState, OutputEvent
from braid_client.answers.sources import ProposalAnswer, ProposalForm
from braid_client.client import Client
from braid_client.errors import NotDone, Refused, Unreachable
from tests.integration.serving import BOUND, BRAID, Served, counting, passing, serving, street

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]
CHUNK = 50


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Served(tmp_path_factory.mktemp("sending"), pace=0.2)) as made:
        yield made


class Listener:
    """Gathers what a tail shows, in a thread of its own; it ends with the dataflow."""

    def __init__(self, served: Served, dataflow: str) -> None:
        self.served = served
        self.events: list[OutputEvent] = []
        threading.Thread(target=self._run, args=(dataflow,), daemon=True).start()

    def _run(self, dataflow: str) -> None:
        with suppress(NotDone), self.served.client() as operator:
            for event in operator.tail(dataflow, last=1_000):
                self.events.append(event)

    def until(self, many: int) -> list[Any]:
        """The events, once there are so many; none is missed, and each has the number after the one before."""
        self.served.until(lambda: len(self.events) >= many, f"{many} events, and not {len(self.events)}")
        assert list(range(many)) == [each.number for each in self.events]
        return [each.event for each in self.events]


def lines(first: int, end: int) -> bytes:
    """Numbered events, one a line."""
    return b"".join(b'{"n": %d, "k": "a"}\n' % number for number in range(first, end))


def sent(client: Client, source: str, first: int, *, producer: str) -> None:
    """Send a chunk, again as long as nobody knows whether it is there."""
    for _ in range(20):
        try:
            answer = client.send_events(source, lines(first, first + CHUNK), producer=producer, first=first)
        except (Refused, Unreachable) as error:
            if isinstance(error, Refused) and error.code not in {"not-taken", "not-ready", "quota-exceeded"}:
                raise
            continue
        assert first + CHUNK == answer.next
        return
    pytest.fail(f"the events from {first} on were never taken")


def test_each_event_leaves_once_whatever_is_killed_and_sent_again(served: Served) -> None:
    """A thousand events in chunks, each sent twice, while the host and then the broker are killed."""
    with served.admit("killer") as client:
        client.register_source(street("kills"))
        whole = client.submit(passing("kills", 1_000_000))
        counts = client.submit(counting("kills"))
        served.until_state(client, counts.id, DataflowState.RUNNING)
        heard, counted = Listener(served, whole.id), Listener(served, counts.id)
        for first in range(0, 500, CHUNK):
            sent(client, "kills", first, producer="p")
            sent(client, "kills", max(0, first - CHUNK), producer="p")
            if first == 200:
                served.below_keeper("engine.machines.process").kill()
        assert list(range(500)) == [each["n"] for each in heard.until(500)]
        for first in range(500, 1_000, CHUNK):
            sent(client, "kills", first, producer="p")
            sent(client, "kills", first, producer="p")
            if first == 700:
                # What the broker had of outputs may die with it, but nothing that was answered.
                counted.until(first + CHUNK)
                served.await_save()
                served.below_keeper("mosquitto").kill()
        served.until(lambda: counted.events[-1].event == {"k": "a", "count": 1_000}, "the last count to be a thousand")
        assert 1_000 == client.producer("kills", "p").next
        client.revoke_source("kills")


def braid(served: Served, *words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a command against the service."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BRAID_")},
        "BRAID_ROOT": str(served.root),
        "BRAID_PORT": str(served.port),
    }
    return subprocess.run(  # noqa: S603 - our own command
        [str(BRAID), *words], input=given, capture_output=True, env=environment, timeout=BOUND, check=False
    )


def test_what_is_sent_right_after_a_submission_is_seen_afterwards(served: Served, tmp_path: Path) -> None:
    """The commands of a first try, one after the other without any waiting between them."""
    with served.admit("first") as client:
        client.register_source(street("tries"))
        submitted = client.submit(passing("tries", 1_000_000))
        (tmp_path / "events").write_bytes(lines(0, 7))
        done = braid(served, "send", "first:tries", str(tmp_path / "events"))
        assert (0, b"sent 7 events to first:tries\n") == (done.returncode, done.stdout), done.stderr
        done = braid(served, "tail", "up to 1000000", "--count", "7")
        assert [{"n": number, "k": "a"} for number in range(7)] == [*map(json.loads, done.stdout.splitlines())]
        done = braid(served, "tail", submitted.id, "out", "--count", "2", "--last", "2", "--json")
        assert [5, 6] == [json.loads(line)["number"] for line in done.stdout.splitlines()]
        client.revoke_source("tries")


def test_a_file_goes_on_where_it_was_interrupted(served: Served, tmp_path: Path) -> None:
    """With a producer's name a file is sent once, however often; what was added to it goes on."""
    with served.admit("files") as client:
        client.register_source(street("files"))
        counts = client.submit(counting("files"))
        path = tmp_path / "events"
        path.write_bytes(lines(0, 20) + b'\n{"n": "many"}\n' + lines(20, 30))
        refused = braid(served, "send", "files:files", str(path), "--producer", "day")
        assert 1 <= refused.returncode <= 2
        assert (
            f"{path}, line 22: the field 'n' should be of kind integer; send a whole number" in refused.stderr.decode()
        )
        path.write_bytes(lines(0, 20))
        for expected in (
            b"sent 20 events to files:files\n",
            b"sent 0 events to files:files; the first 20 were there already\n",
        ):
            assert expected == braid(served, "send", "files:files", str(path), "--producer", "day").stdout
        with path.open("ab") as opened:
            opened.write(b"\n" + lines(20, 30))
        printed = braid(served, "send", "files:files", "-", "--producer", "day", given=path.read_bytes()).stdout
        assert b"sent 10 events to files:files; the first 20 were there already\n" == printed
        heard = Listener(served, counts.id)
        assert list(range(1, 31)) == [each["count"] for each in heard.until(30)]
        client.revoke_source("files")


def test_a_csv_file_is_resumed_after_it_was_killed(served: Served, tmp_path: Path) -> None:
    """Typed by its source's schema, and each event once: what was under way when it was killed is there or not."""
    with served.admit("tables") as client:
        client.register_source(street("tables"))
        counts = client.submit(counting("tables"))
        served.until_state(client, counts.id, DataflowState.RUNNING)
        path, many = tmp_path / "street.csv", 60_000
        path.write_text("n,k\n" + "".join(f"{number},a\n" for number in range(many)))
        note = tmp_path / "street.csv.sending"
        words = ["send", "tables:tables", str(path)]
        environment = {**os.environ, "BRAID_ROOT": str(served.root), "BRAID_PORT": str(served.port)}
        for _ in range(3):
            before = note.read_bytes() if note.exists() else b""
            with subprocess.Popen([str(BRAID), *words], env=environment) as sends:  # noqa: S603 - our own command
                served.until(lambda: note.exists() and note.read_bytes() != before, "some events to be acknowledged")  # noqa: B023 - called in this round
                sends.kill()
            if not note.exists():
                break
            words = ["send", "tables:tables", str(path), "--resume"]
        if note.exists():
            done = braid(served, *words)
            assert 0 == done.returncode, done.stderr
        assert not note.exists()
        heard = Listener(served, counts.id)
        served.until(lambda: heard.events and heard.events[-1].event["count"] >= many, f"{many} events")
        assert many == heard.events[-1].event["count"]
        client.revoke_source("tables")


def test_a_source_is_proposed_by_what_comes_on_its_topic(served: Served) -> None:
    """A tenant needs no more than its API key, and hears nothing of others."""
    with served.admit("ovens") as client:
        answers: list[ProposalAnswer] = []
        form = ProposalForm(topic="ovens/raw", seconds=3)
        listening = threading.Thread(target=lambda: answers.append(client.propose_source(form)))
        listening.start()
        while listening.is_alive():
            served.publish("ovens/raw", [{"t": 20.5, "n": 1}, {"at": "2026-03-01T12:00:00Z"}])
            listening.join(0.05)
        (answer,) = answers
        assert answer.events == answer.messages > 2
        proposed = answer.source.model_dump_json(by_alias=True, exclude_none=True).encode()
        assert {"at": "timestamp", "n": "integer", "t": "float"} == client.register_source(proposed).fields
        with pytest.raises(Refused, match="a tenant listens only below its own name"):
            client.propose_source(ProposalForm(topic="first/raw", seconds=1))
        client.revoke_source("raw")


def test_a_program_that_writes_now_and_then_is_not_waited_for(served: Served) -> None:
    """What comes over a pipe is sent as it comes, and a tail that is asked to end does."""
    with served.admit("pipes") as client:
        client.register_source(street("pipes"))
        submitted = client.submit(passing("pipes", 1_000_000))
        environment = {**os.environ, "BRAID_ROOT": str(served.root), "BRAID_PORT": str(served.port)}
        with subprocess.Popen(  # noqa: S603 - our own command
            [str(BRAID), "send", "pipes:pipes"], stdin=subprocess.PIPE, env=environment
        ) as sends:
            assert sends.stdin is not None
            heard = Listener(served, submitted.id)
            for number in range(3):
                sends.stdin.write(lines(number, number + 1))
                sends.stdin.flush()
                assert number == heard.until(number + 1)[-1]["n"]
            sends.stdin.close()
            assert 0 == sends.wait(BOUND)
        with subprocess.Popen(  # noqa: S603 - our own command
            [str(BRAID), "tail", submitted.id], stdout=subprocess.PIPE, env=environment
        ) as tails:
            assert tails.stdout is not None
            assert {"n": 0, "k": "a"} == json.loads(tails.stdout.readline())
            tails.terminate()
            assert tails.wait(BOUND) != 0
        client.revoke_source("pipes")
