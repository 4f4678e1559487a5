"""Webhooks: what is posted, how often, in which order, where to, and for how long a receiver is waited for."""

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from braid_client.answers.sources import WebhookForm
from bridge.machine import BackOff
from dags import Kind
from engine.behaviour import Unwatched, task_cpu_ns
from engine.implementations.outside import webhooks
from engine.implementations.outside.webhooks import MOST_POST_TRIES, MOST_SECONDS
from engine.kernel.batch import BatchTime, run_batch
from engine.offset import Offset
from engine.outside import HostOutside
from engine.tasks.outside import WebhookConfig
from manager.sources.signatures import accepted_delivery
from tests.engine.kernels import arrived, dead, events, left
from tests.tasks.receivers import Answer, Got, Receiving, Reply, receiving, well
from tests.tasks.worksite import Worksite, allow, keep_secret

SLACK = 3.0
"""Seconds that a busy machine may add."""
FIELDS = {"n": Kind.INTEGER, "room": Kind.STRING}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root whose operator lets tasks connect to this machine."""
    allow(tmp_path, "127.0.0.1")
    return tmp_path


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


def posting(root: Path, url: str, **config: Any) -> Worksite:
    return Worksite(root, "webhook", FIELDS, url=url, **config)


def numbered(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "room": f"r{n % 3}"} for n in range(first, first + count)]


def with_status(status: int, times: int, **headers: str) -> Answer:
    """Answers each event with a status so many times, and then takes it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _got, time: Reply(status, named) if time <= times else Reply()


def test_each_event_is_posted_and_passes_on_with_its_key(root: Path, receiver: Receiving) -> None:
    """As JSON, in order, with headers of the tenant's."""
    key = keep_secret(root, "token", "Bearer sesame\n") | {"owner": "ann"}
    site = posting(root, receiver.url, headers={"Authorization": key, "X-Room": "all"}, method="PUT")
    passed = site.run(numbered(3))
    assert numbered(3) == receiver.events
    expected = [each | {"_rest": None, "receipt": got.key} for each, got in zip(numbered(3), receiver.got, strict=True)]
    assert expected == passed
    assert 3 == len({got.key for got in receiver.got})
    got = receiver.got[0]
    assert ("PUT", "/hook?of=ann", f"127.0.0.1:{receiver.port}") == (got.method, got.path, got.headers["host"])
    assert ("application/json", "Bearer sesame", "all") == tuple(
        got.headers[name] for name in ("content-type", "authorization", "x-room")
    )
    assert got.headers["user-agent"].startswith("braid/")
    assert "webhook-signature" not in got.headers


@pytest.mark.parametrize("secret", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "any other text of ann's", "Änne"])
def test_what_is_signed_a_webhook_of_a_source_accepts(root: Path, receiver: Receiving, secret: str) -> None:
    """As Standard Webhooks say; the id is the key of the event, and each try is signed anew."""
    receiver.answer = with_status(500, 1)
    url, signing = keep_secret(root, "hook", receiver.url), keep_secret(root, "signing", secret)
    site = Worksite(root, "webhook", FIELDS, url=url, signing=signing)
    assert 2 == len(site.run(numbered(2)))
    assert 4 == len(receiver.got)
    for got in receiver.got:
        delivery = accepted_delivery(WebhookForm(), [secret], got.headers, got.body, time.time())
        assert delivery is not None
        assert delivery.id == got.key.encode()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_an_event_is_sent_again_under_its_key_until_it_is_taken(root: Path, receiver: Receiving, status: int) -> None:
    """With growing waits. The next event waits for it."""
    receiver.answer = with_status(status, 2)
    assert 2 == len(posting(root, receiver.url).run(numbered(2)))
    assert [0, 0, 0, 1, 1, 1] == [each["n"] for each in receiver.events]
    assert 2 == len({got.key for got in receiver.got})
    first, second, third = (got.at for got in receiver.got[:3])
    assert (third - second, second - first) > (0.1, 0.05)


def test_a_receiver_says_when_to_try_again(root: Path, receiver: Receiving) -> None:
    """In seconds, or by a date. What takes too long for a batch is given up at once."""
    receiver.answer = with_status(429, 1, Retry_After="1")
    posting(root, receiver.url).run(numbered(1))
    first, second = receiver.got
    assert 1.0 <= second.at - first.at < 1.5
    receiver.got.clear()
    receiver.answer = with_status(503, 1, Retry_After=f"{datetime.now(UTC) + timedelta(hours=1):%a, %d %b %Y %T GMT}")
    assert ["'127.0.0.1' answers 503"] == posting(root, receiver.url).parked(numbered(1))
    assert 1 == len(receiver.got)


def test_an_event_that_is_refused_is_parked_with_the_answer_and_the_others_go_on(
    root: Path, receiver: Receiving
) -> None:
    """After one try."""

    def answer(got: Got, _times: int) -> Reply:
        return Reply(422, body=b'{"error":\n "n is odd"}') if got.event["n"] % 2 else Reply()

    receiver.answer = answer
    site = posting(root, receiver.url)
    record = site.batch(numbered(5))
    assert [0, 2, 4] == [each["n"] for each in left(record, 2)]
    assert [('\'127.0.0.1\' answers 422: {"error": "n is odd"}', n) for n in (1, 3)] == [
        (reason, event) for *_, reason, event in _parked(record)
    ]
    assert [0, 1, 2, 3, 4] == [each["n"] for each in receiver.events]


def _parked(record: Any) -> list[tuple[str, int]]:
    return [(letter.reason, row["n"]) for letter in record.dead for row in letter.events.to_pylist()]


def test_an_event_that_is_never_taken_is_parked_and_the_others_go_on(root: Path, receiver: Receiving) -> None:
    """After as many tries as there are."""
    receiver.answer = lambda got, _times: Reply(500 if got.event["n"] == 0 else 200)
    record = posting(root, receiver.url).batch(numbered(3))
    assert [(f"'127.0.0.1' answers 500, after {MOST_POST_TRIES} tries", 0)] == _parked(record)
    assert [1, 2] == [each["n"] for each in left(record, 2)]


def test_a_redirect_leads_nowhere(root: Path, receiver: Receiving) -> None:
    """To no other host, and to no other path."""
    with receiving(lambda _got, _times: Reply(307, {"Location": receiver.url})) as moved:
        expected = "'127.0.0.1' answers 307, a redirect, which is not followed; correct the URL"
        assert [expected] == posting(root, moved.url).parked(numbered(1))
    assert [] == receiver.got


def test_a_receiver_that_cannot_be_reached_is_given_up_once_a_batch(root: Path) -> None:
    """All events are parked with the same reason, and none but the first is tried. The URL is not shown."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    url = keep_secret(root, "hook", f"http://ann:sesame@127.0.0.1:{port}/sesame")
    site = Worksite(root, "webhook", FIELDS, url=url)
    begun = time.monotonic()
    reasons = site.parked(numbered(50))
    assert {f"'hook' cannot be reached: ConnectError, after {MOST_POST_TRIES} tries"} == set(reasons)
    assert time.monotonic() - begun < MOST_SECONDS + SLACK


def test_a_receiver_that_dies_is_given_up(root: Path) -> None:
    """In the middle of an answer. What it has taken is not posted again."""
    with receiving() as receiver:
        site = posting(root, receiver.url)

        def answer(got: Got, _times: int) -> Reply:
            return Reply() if got.event["n"] < 2 else Reply(200, {"Content-Length": "1000", "Connection": "close"})

        receiver.answer = answer
        record = site.batch(numbered(5))
    assert [0, 1] == [each["n"] for each in left(record, 2)]
    assert [2, 3, 4] == [n for _, n in _parked(record)]


def _hangs(_got: Got, _times: int) -> Reply:
    time.sleep(3.0)
    return Reply()


def test_a_receiver_that_does_not_answer_has_a_few_seconds(root: Path) -> None:
    """For all events of a batch together, and again in the next batch."""
    with receiving(_hangs) as receiver:
        site = posting(root, receiver.url, timeout=0.3)
        for _ in range(2):
            begun = time.monotonic()
            reasons = site.parked(numbered(50))
            assert time.monotonic() - begun < MOST_SECONDS + SLACK
            assert (1, 50) == (len(set(reasons)), len(reasons))
            assert reasons[0].startswith("'127.0.0.1' does not answer within 0.3 s, after ")


def test_a_receiver_that_answers_byte_by_byte_has_no_more_time(root: Path) -> None:
    """No matter how steadily they come."""
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        while not over.is_set():
            with suppress(OSError), server.accept()[0] as connection:
                while not over.wait(0.05):
                    connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        begun = time.monotonic()
        reasons = posting(root, f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.5).parked(numbered(2))
        assert time.monotonic() - begun < MOST_SECONDS + SLACK
        over.set()
        thread.join(20)
    assert 2 == len(reasons)
    assert all(reason.startswith("'127.0.0.1' does not answer within 0.5 s, after ") for reason in reasons)


def test_what_a_batch_has_no_time_for_is_parked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a batch cannot end early. The reason says what to do."""
    monkeypatch.setattr(webhooks, "MOST_SECONDS", 0.5)

    def slow(_got: Got, _times: int) -> Reply:
        time.sleep(0.15)
        return Reply()

    with receiving(slow) as receiver:
        record = posting(root, receiver.url).batch(numbered(12))
    assert 2 <= len(left(record, 2)) <= 4
    (reason,) = {reason.partition(" within ")[0] for reason, _ in _parked(record)[1:]}
    assert reason == "'127.0.0.1' did not take all events of a batch"


def test_the_time_that_a_receiver_takes_counts(root: Path, receiver: Receiving) -> None:
    """As CPU of the task, so that its events wait rather than its neighbours."""

    def slow(_got: Got, _times: int) -> Reply:
        time.sleep(0.1)
        return Reply()

    receiver.answer = slow
    before = task_cpu_ns()
    posting(root, receiver.url).run(numbered(3))
    assert 0.3e9 < task_cpu_ns() - before < 0.6e9


def test_the_events_of_a_slow_receiver_wait_in_their_stream(root: Path, receiver: Receiving) -> None:
    """A batch ends early for them, none is parked, and the next batches go on behind them."""

    def slow(_got: Got, _times: int) -> Reply:
        time.sleep(0.03)
        return Reply()

    receiver.answer = slow
    site = posting(root, receiver.url)
    timing, at, batches = BatchTime(), 0, 0
    while at < 20:
        timing.begin(0.2)
        record = run_batch(
            batches,
            site._entry,
            Offset(entry=min(batches, 1), at={"s": at}),
            Offset(entry=1, at={"s": 20}),
            [arrived(events(numbered(20 - at, at), FIELDS), first=at)],
            site._state,
            site.made,
            time=timing,
        )
        site._state.settle(record)
        assert [] == dead(record)
        assert record.end.at["s"] < at + 12
        at, batches = record.end.at["s"], batches + 1
    assert list(range(20)) == [each["n"] for each in receiver.events]
    assert batches > 2


class Alone(Unwatched):
    """Makes every event run alone, like those of a suspect."""

    def alone(self, instance: int) -> bool:
        return instance == 2


def test_a_key_is_the_same_after_a_death_and_in_no_other_task(root: Path, receiver: Receiving) -> None:
    """In whichever calls the events come the second time; another root has others."""
    site = posting(root, receiver.url)
    site.arrive(numbered(12), 5, 7)
    site.die()
    site.made = site.behaviours()
    site.die(Alone())
    site.run()
    keys = {n: {got.key for got in receiver.got if got.event["n"] == n} for n in range(12)}
    assert {1} == set(map(len, keys.values()))
    assert 12 == len(set.union(*keys.values()))
    with TemporaryDirectory() as folder:
        allow(Path(folder), "127.0.0.1")
        posting(Path(folder), receiver.url).run(numbered(1))
    assert receiver.got[-1].key not in set.union(*keys.values())


def test_a_process_that_is_killed_between_posting_and_noting_posts_the_same_keys(root: Path) -> None:
    """It is killed when the receiver has its third event; the next one posts all of the batch again."""
    processes = list[subprocess.Popen[str]]()

    def answer(got: Got, times: int) -> Reply:
        if got.event["n"] == 2 and times == 1:
            processes[0].kill()
            processes[0].wait(20)
        return Reply()

    with receiving(answer) as receiver:
        outputs = []
        for _ in range(2):
            command = [sys.executable, "-m", "tests.tasks.dying_poster", str(root), receiver.url]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))  # noqa: S603 - our own program
            outputs.append(processes[-1].communicate(timeout=60)[0])
    assert [-9, 0] == [process.returncode for process in processes]
    assert [0, 1, 2, 0, 1, 2, 3] == [each["n"] for each in receiver.events]
    first, second = receiver.got[:3], receiver.got[3:6]
    assert [got.key for got in first] == [got.key for got in second]
    assert "" == outputs[0]
    assert [got.key for got in receiver.got[3:]] == [each["receipt"] for each in json.loads(outputs[1])]


def test_the_other_keys_go_on_while_one_is_sent_again(root: Path, receiver: Receiving) -> None:
    """Its own following events wait for it."""
    receiver.answer = lambda got, times: Reply(503 if got.event["n"] == 0 and times < 3 else 200)
    posting(root, receiver.url, order_by=["room"]).run(numbered(8))
    by_room: dict[str, list[int]] = {}
    for each in receiver.events:
        by_room.setdefault(each["room"], []).append(each["n"])
    assert {"r0": [0, 0, 0, 3, 6], "r1": [1, 4, 7], "r2": [2, 5]} == by_room
    last = {n: at for at, n in enumerate(each["n"] for each in receiver.events)}
    assert last[7] < last[0]


@settings(max_examples=10, deadline=None)
@given(rooms=st.lists(st.sampled_from("abcd"), min_size=1, max_size=25), chance=st.randoms(use_true_random=False))
def test_each_event_is_taken_once_or_parked_and_each_key_keeps_its_order(rooms: list[str], chance: Random) -> None:
    """Whatever the receiver answers to whichever event, and however often."""
    script: Mapping[int, list[int]] = {
        n: [*chance.choices((500, 429), k=chance.choice((0, 0, 1, 2))), chance.choice((200, 200, 204, 400))]
        for n in range(len(rooms))
    }

    def answer(got: Got, times: int) -> Reply:
        return Reply(script[got.event["n"]][times - 1])

    with TemporaryDirectory() as folder, receiving(answer) as receiver, pytest.MonkeyPatch.context() as patched:
        patched.setattr(webhooks, "_BACK_OFF", BackOff((0.001,)))
        allow(Path(folder), "127.0.0.1")
        site = posting(Path(folder), receiver.url, order_by=["room"])
        record = site.batch([{"n": n, "room": room} for n, room in enumerate(rooms)])
    parked, passed = [n for _, n in _parked(record)], [each["n"] for each in left(record, 2)]
    assert [n for n in range(len(rooms)) if script[n][-1] == 400] == sorted(parked)
    assert [n for n in range(len(rooms)) if script[n][-1] != 400] == passed
    assert Counter({n: len(statuses) for n, statuses in script.items()}) == Counter(
        each["n"] for each in receiver.events
    )
    for room in "abcd":
        came = [each["n"] for each in receiver.events if each["room"] == room]
        assert came == sorted(came)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "[::1]", "169.254.169.254", "10.0.0.1"])
def test_a_receiver_of_the_operator_is_barred(tmp_path: Path, host: str) -> None:
    """In any notation of its address."""
    (reason,) = set(posting(tmp_path, f"http://{host}:1/hook").parked(numbered(2)))
    assert "cannot be used: its host is not on the internet" in reason


def test_a_name_that_changes_leads_to_the_address_that_was_checked(
    root: Path, receiver: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked up once for a call, and what is connected to was checked."""
    ask, asked = socket.getaddrinfo, list[str]()

    def answer(host: Any, *about: Any, **more: Any) -> Any:
        if host == "moves.example":
            asked.append(host)
            return ask("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *about, **more)
        return ask(host, *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    site = posting(root, f"http://moves.example:{receiver.port}/hook")
    assert 2 == len(site.run(numbered(2)))
    assert (1, f"moves.example:{receiver.port}") == (len(asked), receiver.got[0].headers["host"])
    assert all("is not on the internet" in reason for reason in site.parked(numbered(2)))
    assert 2 == len(receiver.got)


def test_a_name_that_is_not_found_in_time_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of names may be as slow as a receiver."""
    ask, over = socket.getaddrinfo, threading.Event()

    def answer(host: Any, *about: Any, **more: Any) -> Any:
        if host == "slow.example":
            over.wait(20)
        return ask("127.0.0.1", *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(webhooks, "MOST_SECONDS", 0.3)
    begun = time.monotonic()
    reasons = posting(root, "http://slow.example/hook").parked(numbered(20))
    over.set()
    assert time.monotonic() - begun < SLACK
    assert ["'slow.example' cannot be used: its host was not found in time"] * 20 == reasons


def _certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of that name shows, and what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))


def test_a_certificate_is_that_of_the_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although an address is connected to; one of another name, and one that nobody trusts, is none."""
    server, trusting = _certificate(root, "hooks.example")
    ask = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *about, **more: ask("127.0.0.1" if str(host).endswith(".example") else host, *about, **more),
    )
    with receiving(well, server) as receiver:
        at = f"example:{receiver.port}/"
        assert 1 == len(posting(root, f"https://hooks.{at}").parked(numbered(1)))
        monkeypatch.setattr(webhooks, "_trusted", lambda: trusting)
        assert [] == posting(root, f"https://hooks.{at}").parked(numbered(1))
        assert 1 == len(posting(root, f"https://other.{at}").parked(numbered(1)))
    assert 1 == len(receiver.got)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"url": "ftp://hooks.example/"}, "String should match pattern"),
        ({"url": {"place": "x"}}, "secret"),
        ({"url": "http://h.example", "headers": {"Content-Length": "7"}}, "'content-length' is set by the task"),
        ({"url": "http://h.example", "headers": {"idempotency-key": "7"}}, "'idempotency-key' is set by the task"),
        ({"url": "http://h.example", "headers": {"X-A": "1", "x-a": "2"}}, "'x-a' is set by the task, or twice"),
        ({"url": "http://h.example", "headers": {"X-A": "1\r\nX-B: 2"}}, "String should match pattern"),
        ({"url": "http://h.example", "timeout": 60.0}, "less than or equal to 2.5"),
        ({"url": "http://h.example", "method": "GET"}, "Input should be 'POST'"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(config: dict[str, Any], why: str) -> None:
    """At submission, where nobody runs it yet."""
    with pytest.raises(ValidationError, match=why):
        WebhookConfig.model_validate_json(json.dumps(config))


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("ftp://sesame.example/", "the URL in the secret 'hook' is not one of http or https with a host"),
        ("http:///sesame", "the URL in the secret 'hook' is not one of http or https with a host"),
    ],
)
def test_a_secret_that_is_no_url_is_not_shown(root: Path, secret: str, why: str) -> None:
    """Events are parked until it is put there anew."""
    site = Worksite(root, "webhook", FIELDS, url=keep_secret(root, "hook", secret))
    (reason,) = site.parked(numbered(1))
    assert reason.startswith(why)
    assert "sesame" not in reason


def test_a_secret_that_no_header_can_have_is_not_shown(root: Path) -> None:
    """It would make two headers of one."""
    key = keep_secret(root, "token", "sesame\r\nHost: elsewhere") | {"owner": "ann"}
    (reason,) = posting(root, "http://127.0.0.1:1/", headers={"X-Key": key}).parked(numbered(1))
    assert "the secret for the header 'X-Key' has characters that no header has" in reason
    assert "sesame" not in reason


def test_addresses_are_known_only_in_a_worker(tmp_path: Path) -> None:
    """Code that only reads a document cannot ask."""
    config = WebhookConfig.model_validate_json('{"url": "http://h.example"}')
    with pytest.raises(LookupError, match="only in a host's worker"):
        _ = config.in_host
    outside = HostOutside(tmp_path)
    read = WebhookConfig.model_validate_json('{"url": "http://h.example"}', context={"outside": outside})
    assert read.in_host is outside
