"""What is asked of the report of savings over HTTP."""

import httpx
import pytest


@pytest.mark.parametrize("parameter", ["from", "to"])
@pytest.mark.parametrize("text", ["yesterday", "0.5", "2026-03-01", "2026-03-01T12:00:00", "2026-02-30T12:00:00Z"])
def test_a_time_is_written_with_its_zone(ann: httpx.Client, parameter: str, text: str) -> None:
    """Whatever is no time, or leaves open which one, is refused at its parameter, with a time as it should be."""
    answer = ann.get("/v1/reports/savings", params={parameter: text})
    assert 422 == answer.status_code
    (error,) = answer.json()["errors"]
    assert (f"/query/{parameter}", "no-time") == (error["pointer"], error["code"])
    assert text in error["message"]


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01t14:00:00.5+02:00"])
def test_a_time_may_be_of_any_zone(ann: httpx.Client, text: str) -> None:
    """As RFC 3339 writes it."""
    answer = ann.get("/v1/reports/savings", params={"from": text})
    assert (200, "2026-03-01T12:00:00") == (answer.status_code, answer.json()["since"][:19])
