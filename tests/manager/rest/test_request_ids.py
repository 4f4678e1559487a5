"""Every request has an id, the caller's or a new one, by which answers and log lines find each other."""

import json
import logging

import httpx
import pytest

from engine.log_lines import _Lines
from manager.rest import examples


@pytest.mark.parametrize("given", ["4f9a", "a.B_c-9", "x" * 64])
def test_an_id_that_was_sent_comes_back(ann: httpx.Client, given: str) -> None:
    """So a caller's log and the service's fit together."""
    assert given == ann.get("/v1/keys", headers={"X-Request-Id": given}).headers["X-Request-Id"]


@pytest.mark.parametrize("given", ["", "x" * 65, "two words", "a;b", "\u00e9"])
def test_what_is_no_id_is_replaced(ann: httpx.Client, given: str) -> None:
    """It would come back in a header and stand in the log, so it cannot be just anything."""
    answer = ann.get("/v1/keys", headers={b"X-Request-Id": given.encode()})
    assert (200, 16) == (answer.status_code, len(answer.headers["X-Request-Id"]))


def test_a_change_is_logged_with_its_request_and_its_dataflow(
    ann: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """By fields, and by the form of its path; what only looks is logged for those who want all."""
    kept = _KeptLines()
    logging.getLogger("manager.rest.problems").addHandler(kept)
    try:
        with caplog.at_level(logging.INFO):
            answer = ann.post("/v1/dataflows", json=examples.DOCUMENT, headers={"X-Request-Id": "mine"})
            made = answer.raise_for_status().json()["id"]
            ann.get(f"/v1/dataflows/{made}")
            ann.delete(f"/v1/dataflows/{made}%0ahostile")
            ann.delete(f"/v1/dataflows/{made}")
    finally:
        logging.getLogger("manager.rest.problems").removeHandler(kept)
    lines = [{name: line.get(name) for name in ("method", "route", "status", "dataflow")} for line in kept.lines]
    route = "/v1/dataflows/{id}"
    assert [
        {"method": "POST", "route": "/v1/dataflows", "status": 201, "dataflow": made},
        {"method": "DELETE", "route": route, "status": 422, "dataflow": None},
        {"method": "DELETE", "route": route, "status": 200, "dataflow": made},
    ] == lines
    assert "mine" == kept.lines[0]["request"]


class _KeptLines(logging.Handler):
    """Keeps lines as programs read them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Lines())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))
