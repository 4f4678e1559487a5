"""Webhooks: what services post over HTTP is in the spool of the source once, and nobody else's post is taken."""

import gzip
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from braid_client.answers.sources import NewWebhookAnswer, SourceForm, WebhookForm, WebhookRotationForm, WebhookScheme
from engine.outside import VAULT_KEY, Vault
from manager.kernel.live_events import LiveEvents
from manager.problem import Conflict, Forbidden, InvalidRequest, NotFound, StateNotReady
from manager.rest.app import make_app
from manager.sources import webhooks
from manager.sources.events import EventSender
from manager.store.tables import WebhookDeliveryRow, WebhookRow
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager
from tests.manager.memory_outputs import Spools, connecting
from tests.manager.rest.socket_server import serving
from tests.twins.memory_broker import MemoryBroker

SHORT = "s:source > k:sink"
BODY = b'{"value": 1}'
BASE = "http://braid.example/"
SECRET = "a secret that ann has chosen"  # noqa: S105 - a test's


class Bench:
    """A service that answers over HTTP, whose sources of ann's have spools; bob reads `weather`, nobody `diary`."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.manager = Manager(url).lead()
        stack.callback(self.manager.close)
        self.manager.admit("ann", "bob", "eve")
        self.manager.register("weather", "diary")
        with self.manager.committer.looking() as state:
            self.streams = {name: each.supplied.stream for name, each in state.sources.items()}
        broker = MemoryBroker()
        self.spools = Spools(broker, *self.streams.values())
        self.sender = stack.enter_context(closing_sender(broker))
        self.folder = folder
        self.manager.equip(sender=self.sender, deploying_seconds=0.0, vault=Vault(folder))
        self.manager.submit("bob", SHORT)
        events = LiveEvents(last=0)
        stack.callback(events.close)
        self.app = make_app(self.manager.service, events, lambda: None)
        address = stack.enter_context(serving(self.app))
        self._client = stack.enter_context(httpx.Client(base_url=address, trust_env=False))

    @property
    def webhooks(self) -> webhooks.Webhooks:
        return self.manager.service.webhooks

    def make(self, name: str = "weather", who: Caller = ANN, **form: Any) -> NewWebhookAnswer:
        return self.webhooks.make(who, name, WebhookForm.model_validate({"scheme": "github"} | form), base=BASE)

    def post(
        self, made: NewWebhookAnswer, body: bytes = BODY, *, secret: str | None = None, **headers: str
    ) -> httpx.Response:
        """What GitHub posts; names of headers are written with underscores."""
        signature = hmac.digest((secret or made.secret).encode(), body, "sha256").hex()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        every = {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"} | named
        return self._client.post(httpx.URL(made.url).path, content=body, headers=every)

    def values(self, name: str = "ann:weather") -> list[int]:
        """What a source's spool holds."""
        return [each["value"] for each in self.spools.events(self.streams[name])]

    def count(self, table: type[WebhookRow] | type[WebhookDeliveryRow]) -> int:
        with self.manager.store.read() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0


@contextmanager
def closing_sender(broker: MemoryBroker) -> Iterator[EventSender]:
    sender = EventSender(connecting(broker), patience=0.2)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()


@pytest.fixture
def bench(sqlite: str, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(sqlite, tmp_path / "root", stack)


def test_what_a_service_posts_is_in_the_spool_when_it_is_answered(bench: Bench) -> None:
    """An object, an array, JSON lines, and what is compressed, over whose bytes the signature is."""
    made = bench.make()
    lines = {"Content_Type": "application/x-ndjson; charset=utf-8"}
    answers = [
        bench.post(made),
        bench.post(made, b'[{"value": 2}, {"value": 3}]'),
        bench.post(made, b'{"value": 4}\n{"value": 5}\n', **lines),
        bench.post(made, gzip.compress(b'{"value": 6}'), Content_Encoding="gzip"),
    ]
    assert [{"source": "ann:weather", "repeated": False}] * 4 == [answer.json() for answer in answers]
    assert [1, 2, 3, 4, 5, 6] == bench.values()


def test_a_wrong_signature_and_an_unknown_path_get_the_same_answer(bench: Bench) -> None:
    """Also a signature by the secret of another webhook, none at all, and one over another body. Nothing is taken."""
    made, other = bench.make(), bench.make("diary")
    unknown = made.model_copy(update={"url": f"{made.url}x"})
    answers = [
        bench.post(unknown),
        bench.post(made, secret=other.secret),
        bench.post(made, X_Hub_Signature_256=""),
        bench.post(made, X_Hub_Signature_256=bench.post(made, secret="x" * 16).request.headers["X-Hub-Signature-256"]),
        bench.post(made, b"not JSON", secret=other.secret, Content_Type="image/png"),
    ]
    assert [401] * 5 == [answer.status_code for answer in answers]
    assert 1 == len({json.dumps({**answer.json(), "instance": ""}) for answer in answers})
    assert [] == bench.values()


def test_wrong_signatures_of_an_address_are_bounded_and_right_ones_are_taken_from_it(bench: Bench) -> None:
    """As with keys: whoever tries them waits, and the service behind the same proxy does not."""
    made = bench.make()
    answers = {bench.post(made, secret="x" * 16).status_code for _ in range(70)}
    assert {401, 429} == answers
    assert 200 == bench.post(made).status_code


@pytest.mark.parametrize(("body", "status"), [(b"{", 422), (b'{"value": "high"}', 422), (b"[" + b" " * 1_000_000, 413)])
def test_what_does_not_fit_is_refused_as_a_whole(bench: Bench, body: bytes, status: int) -> None:
    """As over REST with a key. Compressed or not, it has a bound."""
    made = bench.make()
    assert status == bench.post(made, body).status_code
    assert 413 == bench.post(made, gzip.compress(b" " * 10_000_000), Content_Encoding="gzip").status_code
    assert 415 == bench.post(made, BODY, Content_Type="image/png").status_code
    assert [] == bench.values()


def test_a_delivery_that_is_repeated_adds_nothing(bench: Bench) -> None:
    """By its id, however much came meanwhile. What has none, or that of another webhook, is new each time."""
    made = bench.make()
    firsts = [bench.post(made, b'{"value": %d}' % at, X_GitHub_Delivery=f"d{at}") for at in range(40)]
    again = [bench.post(made, b'{"value": %d}' % at, X_GitHub_Delivery=f"d{at}") for at in (0, 39)]
    assert {False} == {answer.json()["repeated"] for answer in firsts}
    assert [True, True] == [answer.json()["repeated"] for answer in again]
    assert list(range(40)) == bench.values()
    for _ in range(2):
        bench.post(made, b'{"value": 99}')
    assert [99, 99] == bench.values()[40:]


def test_a_delivery_that_was_spooled_and_not_answered_adds_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager died before it noted it, and the service tries again."""
    made = bench.make()
    with monkeypatch.context() as dying:
        dying.setattr(webhooks.Webhooks, "_note_delivery", lambda *_about: None)
        bench.post(made, X_GitHub_Delivery="d1")
    assert not bench.post(made, X_GitHub_Delivery="d1").json()["repeated"]
    assert bench.post(made, X_GitHub_Delivery="d1").json()["repeated"]
    assert [1] == bench.values()


def test_a_replay_adds_nothing_and_is_refused_once_it_is_old(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that signs the time and sends no id."""
    made = bench.make(scheme="stripe")
    at = int(time.time())
    signature = hmac.digest(made.secret.encode(), b"%d." % at + BODY, "sha256").hex()
    answers = [bench.post(made, Stripe_Signature=f"t={at},v1={signature}") for _ in range(2)]
    assert [False, True] == [answer.json()["repeated"] for answer in answers]
    monkeypatch.setattr(time, "time", lambda: at + 301.0)
    assert 401 == bench.post(made, Stripe_Signature=f"t={at},v1={signature}").status_code
    assert [1] == bench.values()


def test_without_a_spool_the_service_is_to_try_again(bench: Bench) -> None:
    """The answer is 503 with the seconds to wait; so it is where another manager leads."""
    made = bench.make()
    with closing_sender(MemoryBroker()) as nobody_takes:
        bench.manager.equip(sender=nobody_takes)
        bench.app.state.service = bench.manager.service
        answers = [bench.post(made)]
    answers.append(bench.post(made))
    bench.manager.committer.step_down()
    answers.append(bench.post(made))
    assert [503] * 3 == [answer.status_code for answer in answers]
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)


def test_what_nobody_reads_is_refused(bench: Bench) -> None:
    """Nothing is dropped in silence."""
    assert 409 == bench.post(bench.make("diary")).status_code
    assert [] == bench.values("ann:diary")


def test_only_the_owner_of_a_source_and_operators_have_its_webhook(bench: Bench) -> None:
    """Who may read it gets the answer that it is another's; to everybody else it does not exist."""
    made = bench.make(who=OPERATOR, name="ann:weather")
    rotation = WebhookRotationForm()
    for who, trouble in ((BOB, Forbidden), (EVE, NotFound)):
        name = "ann:weather" if who is BOB else "ann:diary"
        with pytest.raises(trouble):
            bench.make(name, who)
        with pytest.raises(trouble):
            bench.webhooks.rotate(who, name, rotation, base=BASE)
        with pytest.raises(trouble):
            bench.webhooks.get(who, name, base=BASE)
        with pytest.raises(trouble):
            bench.webhooks.revoke(who, name, base=BASE)
    shown = bench.webhooks.get(ANN, "weather", base=BASE)
    assert made.url == shown.url
    assert made.secret not in shown.model_dump_json()
    with pytest.raises(NotFound):
        bench.webhooks.get(ANN, "diary", base=BASE)


def test_a_source_has_one_webhook_at_most_and_loses_it_with_itself(bench: Bench) -> None:
    """With what it remembers. Another one has another path."""
    made = bench.make()
    bench.post(made, X_GitHub_Delivery="d1")
    with pytest.raises(Conflict, match="has a webhook already"):
        bench.make()
    assert (1, 1) == (bench.count(WebhookRow), bench.count(WebhookDeliveryRow))
    bench.webhooks.revoke(ANN, "weather", base=BASE)
    assert (0, 0) == (bench.count(WebhookRow), bench.count(WebhookDeliveryRow))
    assert 401 == bench.post(made).status_code
    again = bench.make()
    assert made.url != again.url
    bench.manager.service.sources.revoke(ANN, "weather")
    assert 0 == bench.count(WebhookRow)
    assert 401 == bench.post(again).status_code


def test_a_rotated_secret_counts_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no delivery is lost while the service has the one before; or not at all, if it has leaked."""
    first = bench.make(secret=SECRET)
    assert first.secret == SECRET
    second = bench.webhooks.rotate(ANN, "weather", WebhookRotationForm(former_hours=1), base=BASE)
    assert (first.url, True) == (second.url, second.former_until is not None)
    assert [200, 200] == [bench.post(each).status_code for each in (first, second)]
    with monkeypatch.context() as later:
        now = time.time()
        later.setattr(time, "time", lambda: now + 3601.0)
        assert [401, 200] == [bench.post(each).status_code for each in (first, second)]
    third = bench.webhooks.rotate(ANN, "weather", WebhookRotationForm(former_hours=0), base=BASE)
    assert [401, 401, 200] == [bench.post(each).status_code for each in (first, second, third)]
    assert third.former_until is None


def test_a_secret_is_kept_only_encrypted(bench: Bench) -> None:
    """By the key of the root; without it nothing is taken, and the answer says what to do."""
    made = bench.make(secret=SECRET)
    with bench.manager.store.read() as session:
        row = session.get_one(WebhookRow, made.url.rpartition("/")[2])
    assert SECRET not in f"{row.secret}{row.form}"
    assert [] == Vault(bench.folder).names("ann")
    (bench.folder / VAULT_KEY).unlink()
    Vault(bench.folder).put("ann", "other", "makes another key")
    answer = bench.post(made)
    assert (503, True) == (answer.status_code, "rotate it" in answer.json()["detail"])


@pytest.mark.parametrize(
    ("form", "pointer"),
    [
        ({"scheme": "hex"}, "/header"),
        ({"scheme": "base64", "delivery": "X-Id"}, "/header"),
        ({"scheme": "github", "header": "X-Signature"}, "/header"),
        ({"scheme": "stripe", "delivery": "X-Id"}, "/delivery"),
        ({"scheme": "standard", "prefix": "v1="}, "/prefix"),
    ],
)
def test_headers_belong_to_their_schemes(bench: Bench, form: dict[str, Any], pointer: str) -> None:
    """What a scheme needs, and what it does not have."""
    with pytest.raises(InvalidRequest) as refused:
        bench.make(**form)
    assert [pointer] == [error.pointer for error in refused.value.errors]


@pytest.mark.parametrize("scheme", WebhookScheme)
def test_a_secret_is_made_where_none_is_chosen(bench: Bench, scheme: WebhookScheme) -> None:
    """As the services of the scheme expect it, and another one each time."""
    plain = scheme in {WebhookScheme.HEX, WebhookScheme.BASE64}
    made = bench.make(scheme=scheme, header="X-Signature" if plain else None)
    rotated = bench.webhooks.rotate(ANN, "weather", WebhookRotationForm(), base=BASE)
    assert made.secret != rotated.secret
    assert {scheme is WebhookScheme.STANDARD} == {each.secret.startswith("whsec_") for each in (made, rotated)}


def test_a_generated_source_has_no_webhook(bench: Bench) -> None:
    """It takes no events."""
    ticks = SourceForm.model_validate({"name": "ticks", "connection": {"kind": "timer", "seconds": 1.0}})
    bench.manager.service.sources.register(ANN, ticks)
    with pytest.raises(Conflict, match="generated"):
        bench.make("ticks")


def test_a_manager_without_a_root_keeps_no_secret(bench: Bench) -> None:
    """It says so."""
    bench.manager.equip(sender=bench.sender, vault=None)
    with pytest.raises(StateNotReady, match="no root to keep secrets in"):
        bench.make()


def test_the_journal_says_who_made_rotated_and_revoked_a_webhook(bench: Bench) -> None:
    """And nothing of what is posted, as with all events."""
    bench.post(bench.make())
    bench.webhooks.rotate(OPERATOR, "ann:weather", WebhookRotationForm(), base=BASE)
    bench.webhooks.revoke(ANN, "weather", base=BASE)
    journal = bench.manager.service.operations.page(OPERATOR, Paging(limit=3)).items
    assert [("revoke webhook", "ann"), ("rotate webhook", "operator"), ("make webhook", "ann")] == [
        (each.kind, each.who) for each in journal
    ]
    assert {"ann:weather"} == {each.subject for each in journal}


def test_a_webhook_remembers_its_newest_deliveries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that a service tries none again of those before."""
    monkeypatch.setattr(webhooks, "MOST_DELIVERIES", 5)
    monkeypatch.setattr(webhooks, "_FORGET_EVERY", 10)
    made = bench.make()
    for at in range(20):
        bench.post(made, X_GitHub_Delivery=f"d{at}")
    assert 5 == bench.count(WebhookDeliveryRow)
    assert bench.post(made, X_GitHub_Delivery="d19").json()["repeated"]
