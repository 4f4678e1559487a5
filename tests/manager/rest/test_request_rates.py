"""Rates of requests: what is taken, by a clock that the test sets."""

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from manager.problem import TooManyRequests
from manager.rest.dependencies import MOST_ALLOWANCES, RATE_SECONDS, WRONG_KEYS_PER_MINUTE, RequestRates
from tests.manager.rest.conftest import Asking


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(per_minute=st.integers(1, 20), waits=st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_tenant_asks_more_often_than_it_may(per_minute: int, waits: list[float]) -> None:
    """However requests come, those that are taken are no more than a minute's worth and what refilled meanwhile."""
    clock = _Clock()
    rates = RequestRates(clock)
    taken = 0
    for wait in waits:
        clock.now += wait
        taken += _takes(rates, "ann", per_minute)
        assert taken <= per_minute * (1.0 + clock.now / RATE_SECONDS) + 1e-6


def test_a_refusal_says_when_to_come_back() -> None:
    """After the seconds that it names a request is taken, and not before."""
    clock = _Clock()
    rates = RequestRates(clock)
    assert all(_takes(rates, "ann", 6) for _ in range(6))
    with pytest.raises(TooManyRequests) as refused:
        rates.take("ann", 6)
    assert refused.value.retry_after == pytest.approx(10.0)
    clock.now += 9.9
    assert not _takes(rates, "ann", 6)
    clock.now += 0.2
    assert _takes(rates, "ann", 6)


def test_one_tenant_takes_nothing_from_another() -> None:
    """A tenant that has used up its allowance leaves those of others as they were."""
    rates = RequestRates(_Clock())
    assert [True] * 3 + [False] == [_takes(rates, "ann", 3) for _ in range(4)]
    assert _takes(rates, "bob", 3)


def test_wrong_keys_are_counted_by_address() -> None:
    """An address may send so many wrong keys a minute, and another one as many."""
    rates = RequestRates(_Clock())
    for _ in range(WRONG_KEYS_PER_MINUTE):
        rates.count_wrong_key("10.0.0.1")
    with pytest.raises(TooManyRequests, match=r"10\.0\.0\.1"):
        rates.count_wrong_key("10.0.0.1")
    rates.count_wrong_key("10.0.0.2")


def test_a_right_key_is_taken_where_too_many_wrong_ones_come_from(ask: Asking, app: FastAPI, ann: httpx.Client) -> None:
    """Wrong keys from an address lock out nobody behind it; they themselves are answered with 429."""
    app.state.rates = RequestRates(_Clock())
    wrong = ask("wrong")
    statuses = [wrong.get("/v1/keys").status_code for _ in range(WRONG_KEYS_PER_MINUTE + 1)]
    assert [401] * WRONG_KEYS_PER_MINUTE + [429] == statuses
    assert 200 == ann.get("/v1/keys").status_code


def test_addresses_without_end_take_no_memory_without_end() -> None:
    """What is remembered is bounded, and who asked last is remembered."""
    rates = RequestRates(_Clock())
    for number in range(2 * MOST_ALLOWANCES):
        rates.count_wrong_key(str(number))
    assert MOST_ALLOWANCES == len(rates._left)
    assert [True] * 3 + [False] == [_takes(rates, "ann", 3) for _ in range(4)]


def _takes(rates: RequestRates, tenant: str, per_minute: int) -> bool:
    try:
        rates.take(tenant, per_minute)
    except TooManyRequests:
        return False
    return True
