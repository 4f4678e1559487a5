"""Webhooks: tasks that post events to a receiver of the tenant's over HTTP.

**Once.** A request that was sent may have been taken though nobody answered, and a batch may run again. So each event
has an idempotency key made of its name, which is the same whenever it is sent, and a receiver that honours it takes an
event once.

**Order.** The events of a key are posted one after the other, those of several keys at once. An event that is refused,
or given up, is parked, and the following ones of its key go on.

**Time.** While a receiver is waited for, the batch waits, and everything else in its job. So the waiting counts as the
task's CPU: the batch ends early and other events wait in their streams, as with any task that takes long. All events of
a batch have a few seconds together, retries included; what is left then is parked without a try. So is what is left if
the receiver cannot be reached. A task that can post nothing in batch after batch is failed, and tried again later, ever
more rarely.

**Addresses.** The name of the receiver is looked up once for a call, and its addresses are checked. A checked address
is what is connected to, while certificate and header `Host` are those of the name. Redirects are not followed.
"""

import asyncio
import base64
import hashlib
import hmac
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import NamedTuple

import httpx
import numpy as np
import pyarrow as pa

from bridge.machine import BackOff
from bridge.output_messages import event_texts
from dags import Secret
from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission, Refusal, count_elsewhere, task_cpu_ns
from engine.implementations.values import events_by_key, keyed, with_receipts
from engine.outside import HostBarred
from engine.records.state import Staged
from engine.side_effect import ActingBehaviour, EventNames, Origins, PartlyWritten
from engine.tasks import outside as described

MOST_SECONDS = 2.5
"""The seconds that a receiver has for all events of a batch. A task that takes 3 s of CPU may count as greedy."""
MOST_POST_TRIES = 5
"""How often an event is sent at most, in one batch."""
_BACK_OFF = BackOff((0.1, 0.2, 0.4, 0.8))
_LEAST_JITTER = 0.5
"""The part of a wait that is not random."""
MOST_POSTS_AT_ONCE = 8
"""The requests of one task that are under way at once."""
_TRANSIENT = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_READ = 4_096
"""Bytes of an answer that are read. Of one that is longer the connection is closed."""
_SHOWN = 150
"""Characters of an answer that a dead letter shows."""
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_SIGNING_PREFIX = "whsec_"


def idempotency_key(writer: str, name: str) -> str:
    """The key of an event; no other event of any task has the same.

    >>> idempotency_key("a1b2/7", "s:40.0")
    '5fc90b104fa5a1b811f36d5d9da313c8'
    """
    return hashlib.sha256(f"{writer} {name}".encode()).hexdigest()[:32]


def signature_headers(key: bytes, message: str, body: bytes, now: float) -> dict[str, str]:
    """The headers that sign a message as Standard Webhooks say.

    >>> key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> message, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    >>> signature_headers(key, message, body, 1614265330.0)["webhook-signature"]
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    at = str(int(now))
    signature = hmac.digest(key, f"{message}.{at}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": message,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def seconds_to_wait(header: str | None, now: float) -> float:
    """The seconds that a header `Retry-After` asks to wait; 0 if there is none, or it cannot be read.

    >>> [seconds_to_wait(header, 60.0) for header in ("7", "Thu, 01 Jan 1970 00:01:30 GMT", "soon", None)]
    [7.0, 30.0, 0.0, 0.0]
    """
    if header is None:
        return 0.0
    if header.isascii() and header.isdecimal():
        return float(header[:9])
    with suppress(ValueError, TypeError, OverflowError):
        at = parsedate_to_datetime(header)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
    return 0.0


class _Posting(NamedTuple):
    """An event that is to be posted."""

    at: int
    """Its index in the call."""
    key: str
    """Its idempotency key."""
    body: bytes


class _Answer(NamedTuple):
    """What came of one try."""

    why: str = ""
    """Why it was not taken; empty if it was."""
    is_final: bool = True
    """Whether another try is of no use."""
    is_away: bool = False
    """Whether the receiver cannot be reached, so that no event is to blame."""
    is_late: bool = False
    """Whether the batch had no more time for it."""
    wait: float = 0.0
    """The seconds that the receiver asks to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookReceiver:
    """Where a task posts to, and how; made from its config."""

    url: httpx.URL
    label: str
    """Its name in errors, which reveals no secret."""
    method: str
    headers: Mapping[str, str]
    signing: bytes | None
    """The key that requests are signed with."""
    timeout: float
    addresses: Callable[[str], Sequence[str]]
    """Looks the addresses of a host up. Raises `HostBarred` if tasks may not connect to them."""

    def request(self, posting: _Posting, address: str) -> httpx.Request:
        """The request for an event, to one of the receiver's addresses."""
        signed = {} if self.signing is None else signature_headers(self.signing, posting.key, posting.body, time.time())
        own = {"Host": self.url.netloc.decode(), "Content-Type": "application/json", "Idempotency-Key": posting.key}
        return httpx.Request(
            self.method,
            self.url.copy_with(host=address),
            headers={"User-Agent": _user_agent(), **self.headers, **own, **signed},
            content=posting.body,
            extensions={"sni_hostname": self.url.host},
        )


class WebhookCall:
    """The posts of one call of a task, within so many seconds."""

    def __init__(self, receiver: WebhookReceiver, addresses: Sequence[str], seconds: float) -> None:
        self.away = ""
        """Why no more events are tried; empty if they are."""
        self.refused: dict[int, str] = {}
        """Why events were not taken, by their indexes."""
        self._receiver = receiver
        self._addresses = addresses
        self._ends = time.monotonic() + seconds
        self._free = asyncio.Semaphore(MOST_POSTS_AT_ONCE)

    async def post(self, chains: Sequence[Sequence[_Posting]]) -> None:
        """Post all events; those of a chain one after the other."""
        limits = httpx.Limits(max_connections=MOST_POSTS_AT_ONCE)
        verify = _trusted() if self._receiver.url.scheme == "https" else False
        async with (
            httpx.AsyncClient(trust_env=False, timeout=None, limits=limits, verify=verify) as client,  # noqa: S113 - there is one for the whole try
            asyncio.TaskGroup() as group,
        ):
            for chain in chains:
                group.create_task(self._post_chain(client, chain))

    async def _post_chain(self, client: httpx.AsyncClient, chain: Sequence[_Posting]) -> None:
        for posting in chain:
            async with self._free:
                if why := self.away or await self._post(client, posting):
                    self.refused[posting.at] = why

    async def _post(self, client: httpx.AsyncClient, posting: _Posting) -> str:
        """Post an event, again if need be; returns why it was not taken."""
        tries, answer = 0, _Answer(why=self._late, is_away=True)
        while (left := self._ends - time.monotonic()) > 0:
            address = self._addresses[tries % len(self._addresses)]
            before, answer = answer, await self._tried(client, posting, address, left)
            if answer.is_final:
                return answer.why
            if answer.is_late:
                # What the tries before it came to says more.
                answer = before if tries else answer
                break
            tries += 1
            jitter = random.uniform(_LEAST_JITTER, 1.0)  # noqa: S311 - it spreads load, and is no secret
            wait = max(_BACK_OFF.after(tries) * jitter, answer.wait)
            if tries == MOST_POST_TRIES or wait >= self._ends - time.monotonic():
                break
            await asyncio.sleep(wait)
        why = f"{answer.why}, after {tries} tries" if tries > 1 else answer.why
        self.away = self.away or (why if answer.is_away else "")
        return why

    @property
    def _late(self) -> str:
        return (
            f"{self._receiver.label!r} did not take all events of a batch within {MOST_SECONDS:g} s; it has to answer "
            "sooner, or get fewer events"
        )

    async def _tried(self, client: httpx.AsyncClient, posting: _Posting, address: str, left: float) -> _Answer:
        label, seconds = self._receiver.label, min(self._receiver.timeout, left)
        try:
            async with asyncio.timeout(seconds):
                response = await client.send(self._receiver.request(posting, address), stream=True)
                try:
                    beginning = await _beginning(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            if seconds < self._receiver.timeout:
                return _Answer(self._late, is_final=False, is_away=True, is_late=True)
            return _Answer(f"{label!r} does not answer within {seconds:g} s", is_final=False, is_away=True)
        except httpx.HTTPError as error:
            # The message may have the address.
            return _Answer(f"{label!r} cannot be reached: {type(error).__name__}", is_final=False, is_away=True)
        return _judged(label, response, beginning)


def _judged(label: str, response: httpx.Response, beginning: str) -> _Answer:
    """What an answer means."""
    if response.is_success:
        return _Answer()
    why = f"{label!r} answers {response.status_code}"
    if response.is_redirect:
        return _Answer(f"{why}, a redirect, which is not followed; correct the URL")
    if response.is_server_error or response.status_code in _TRANSIENT:
        return _Answer(why, is_final=False, wait=seconds_to_wait(response.headers.get("retry-after"), time.time()))
    return _Answer(f"{why}: {beginning}" if beginning else why)


async def _beginning(response: httpx.Response) -> str:
    """The beginning of an answer, in one line. A short one is read whole, so that the connection serves again."""
    read = b""
    async for part in response.aiter_raw():
        read += part
        if len(read) > _READ:
            break
    return " ".join(read.decode("utf-8", "replace").split())[:_SHOWN]


def _looked_up(receiver: WebhookReceiver, seconds: float) -> Sequence[str]:
    """The addresses of a receiver. Raises `HostBarred` if tasks may not connect to them, or none is found in time."""
    answers = SimpleQueue[Sequence[str] | HostBarred]()

    def look_up() -> None:
        try:
            answers.put(receiver.addresses(receiver.url.host))
        except HostBarred as barred:
            answers.put(barred)

    # A look-up cannot be ended, and may take as long as the servers of names like.
    threading.Thread(target=look_up, daemon=True, name="looks a receiver up").start()
    try:
        found = answers.get(timeout=max(0.0, seconds))
    except Empty:
        found = HostBarred("its host was not found in time")
    if isinstance(found, HostBarred):
        raise found
    return found


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


@cache
def _user_agent() -> str:
    return f"braid/{version('braid')}"


class WebhookPoster:
    """The behaviour of one task; it knows how much time its batch has left."""

    def __init__(self, receiver: WebhookReceiver, order_by: Sequence[str]) -> None:
        self._receiver = receiver
        self._order_by = order_by
        self._batch: Origins | None = None
        self._left = MOST_SECONDS
        self._away = ""
        """Why no more events of the batch are tried."""

    def post(self, _port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> PartlyWritten:
        """Post the events of a call."""
        if self._batch is not names.origins:
            self._batch, self._left, self._away = names.origins, MOST_SECONDS, ""
        keys = [idempotency_key(names.writer, name) for name in names.texts()]
        refused: Mapping[int, str] = {}
        if keys:
            postings = [_Posting(*each) for each in zip(range(len(keys)), keys, event_texts(events), strict=True)]
            chains = [[postings[at] for at in places] for _, places in events_by_key(keyed(events, self._order_by))]
            refused = self._posted(chains) if not self._away else dict.fromkeys(range(len(keys)), self._away)
        taken = np.array([at for at in range(len(keys)) if at not in refused], np.int64)
        rows = with_receipts(events.take(pa.array(taken)), [keys[at] for at in taken])
        return PartlyWritten({"out": PortEmission(rows, taken)}, [Refusal(at, refused[at]) for at in sorted(refused)])

    def _posted(self, chains: Sequence[Sequence[_Posting]]) -> Mapping[int, str]:
        """Post events; returns why some were not taken."""
        begun, cpu = time.monotonic_ns(), task_cpu_ns()
        try:
            addresses = _looked_up(self._receiver, self._left)
        except HostBarred as barred:
            self._away = f"{self._receiver.label!r} cannot be used: {barred}"
            refused: Mapping[int, str] = {posting.at: self._away for chain in chains for posting in chain}
        else:
            call = WebhookCall(self._receiver, addresses, self._left - (time.monotonic_ns() - begun) / 1e9)
            asyncio.run(call.post(chains))
            self._away, refused = call.away, call.refused
        took = time.monotonic_ns() - begun
        count_elsewhere(max(0, took - (task_cpu_ns() - cpu)))
        self._left -= took / 1e9
        return refused


def _webhook(config: described.WebhookConfig) -> Behaviour:
    """Posts the JSON of each event, with an `Idempotency-Key` that is the same whenever the event is sent again.

    An answer 2xx takes the event, which passes on; the receipt is its key. After 408, 425, 429 and 5xx, and if the
    receiver cannot be reached, it is sent up to five times, with growing waits, or after what `Retry-After` asks for.
    Any other answer, the last try, and 2.5 s for all events of a batch make it a dead letter with the reason. While the
    receiver is waited for, other events of the task wait in their streams; the time counts as the task's CPU.

    With `signing` a request has the headers of Standard Webhooks, and `webhook-id` is the key. The receiver has to be
    on the internet, unless an operator lists it.

    >>> from threading import Thread
    >>> from wsgiref.simple_server import demo_app, make_server
    >>> server = make_server("127.0.0.1", 0, demo_app)
    >>> Thread(target=server.handle_request, daemon=True).start()
    >>> folder = TemporaryDirectory()
    >>> listed = Path(folder.name, "reachable").write_text("127.0.0.1")
    >>> outside, url = HostOutside(Path(folder.name)), f"http://127.0.0.1:{server.server_port}/hook"
    >>> try_out("webhook", {"url": url}, [{"t": 21.5}], outside=outside)["out"][0]["t"]
    21.5
    >>> server.server_close()
    >>> folder.cleanup()
    """
    return ActingBehaviour(act=WebhookPoster(_receiver(config), config.order_by).post)


def _receiver(config: described.WebhookConfig) -> WebhookReceiver:
    named = config.url
    try:
        url = httpx.URL(named.revealed.strip() if isinstance(named, Secret) else named)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        what = f"the URL in the secret {named.secret!r}" if isinstance(named, Secret) else "the URL"
        raise NoBehaviour(f"{what} is not one of http or https with a host; correct it")
    return WebhookReceiver(
        url=url,
        label=named.secret if isinstance(named, Secret) else url.host,
        method=config.method,
        headers=dict(_header_texts(config.headers)),
        signing=None if config.signing is None else _signing_key(config.signing.revealed.strip()),
        timeout=config.timeout,
        addresses=config.in_host.addresses,
    )


def _header_texts(headers: Mapping[str, str | Secret]) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        text = value.revealed.strip() if isinstance(value, Secret) else value
        if not _PRINTABLE.fullmatch(text):
            raise NoBehaviour(f"the secret for the header {name!r} has characters that no header has; correct it")
        yield name, text


def _signing_key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_SIGNING_PREFIX), validate=True)
    except ValueError:
        return secret.encode()


webhook = Implementation(type=described.WEBHOOK, make=_webhook)
