"""Webhooks of a running service: what is posted to it goes through real Spark, and is posted on, once each."""

import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.sources import NewWebhookAnswer, WebhookForm, WebhookScheme
from braid_client.answers.tenants import SecretForm
from manager.sources.signatures import accepted_delivery
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street
from tests.tasks.receivers import Got, Reply, receiving
from tests.tasks.worksite import allow

pytestmark = pytest.mark.spark
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service whose operator lets tasks connect to this machine."""
    (tmp_path / "root").mkdir()
    allow(tmp_path / "root", "127.0.0.1")
    with serving(Served(tmp_path, pace=0.2)) as service:
        yield service


def posting(source: str, **config: Any) -> dict[str, Any]:
    """A document that posts what a source sends."""
    return {
        "version": 1,
        "name": f"{source}, posted",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "post", "type": "webhook", "config": config},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "post"}, {"from": "post", "to": "out"}],
    }


def post(made: NewWebhookAnswer, event: object, delivery: str) -> httpx.Response:
    """Post an event as GitHub does."""
    body = json.dumps(event).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Hub-Signature-256": f"sha256={hmac.digest(made.secret.encode(), body, 'sha256').hex()}",
        "X-GitHub-Delivery": delivery,
    }
    return httpx.post(made.url, content=body, headers=headers, timeout=60.0, trust_env=False)


def test_what_services_post_is_posted_on_and_a_receiver_that_hangs_holds_up_nobody(served: Served) -> None:
    """Two deliveries of each event, and a receiver that takes each event at the second try."""

    def answer(got: Got, times: int) -> Reply:
        if got.path == "/hangs":
            time.sleep(10.0)
        return Reply(200 if times > 1 else 503)

    events = numbers(0, 6)
    with receiving(answer) as receiver, served.admit("ann") as ann, served.admit("bob") as bob:
        for name, secret in (("hook", receiver.url), ("signing", SIGNING)):
            ann.put_secret(name, SecretForm(secret=secret))
        ann.register_source(street())
        made = ann.make_webhook("street", WebhookForm(scheme=WebhookScheme.GITHUB))
        assert made.url.startswith(f"http://127.0.0.1:{served.port}/v1/hooks/")
        hooks = {"url": {"secret": "hook"}, "signing": {"secret": "signing"}, "order_by": ["k"]}
        flow = ann.submit(posting("street", **hooks))
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        connection = {"kind": "topic", "topic": "bob/other"}
        bob.register_source(street("other", connection=connection))
        hanging = bob.submit(posting("other", url=f"http://127.0.0.1:{receiver.port}/hangs"))
        served.until_state(bob, hanging.id, DataflowState.RUNNING)
        served.publish("bob/other", numbers(0, 100))
        answers = [post(made, event, f"d{event['n']}") for event in events for _ in range(2)]
        assert [False, True] * 6 == [answer.json()["repeated"] for answer in answers]
        delivered = served.until_delivered(flow, "out", len(events))
        got = [each for each in receiver.got if each.path != "/hangs"]
        assert events == [{"n": each["n"], "k": each["k"]} for each in delivered]
        assert [each["n"] for each in events for _ in range(2)] == sorted(each.event["n"] for each in got)
        assert {each.key for each in got} == {each["receipt"] for each in delivered}
        for each in got:
            assert accepted_delivery(WebhookForm(), [SIGNING], each.headers, each.body, time.time()) is not None

        def parked() -> bool:
            reasons = {letter.reason for letter in bob.dead_letters()}
            return any("'127.0.0.1' does not answer within 2 s" in reason for reason in reasons)

        served.until(lambda: parked() or None, "dead letters of the receiver that hangs")
        assert [] == [letter.reason for letter in ann.dead_letters()]
