"""Spans: nothing where nobody asks for traces, and OTLP by the standard variables where somebody does."""

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from bridge import traces
from bridge.traces import (
    ENDPOINT_VARIABLE,
    TRACED_BATCHES_VARIABLE,
    begin_traces,
    end_traces,
    is_batch_sampled,
    is_tracing,
    record_span,
    span,
    trace_ids,
    traceparent,
)
from tests.bridge.otlp import CALLER, spans_of
from tests.tasks.receivers import Got, Receiving, Reply, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiving]:
    """Who gets the traces of this process, once they are begun."""
    with receiving() as made:
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"http://127.0.0.1:{made.port}")
        yield made
        end_traces()


@pytest.mark.parametrize(
    ("module", "unloaded"),
    # FastAPI loads a part of it, wherever that is installed.
    [("engine.machines.process", "opentelemetry"), ("manager.process.manager", "opentelemetry.sdk")],
)
def test_without_traces_nothing_of_opentelemetry_is_loaded(module: str, unloaded: str) -> None:
    """Neither by the manager nor by a host, also where spans are made."""
    program = (
        f"import sys, {module}\n"
        "from bridge import traces\n"
        "assert not traces.begin_traces('host', 'h')\n"
        "with traces.span('a', {'b': 1}) as made: made.note({'c': 2}, name='d', error='e')\n"
        "assert not traces.is_batch_sampled() and '' == traces.traceparent() == traces.record_span('a', 0, 1)\n"
        f"print([name for name in sys.modules if name.startswith({unloaded!r})])"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env={}, capture_output=True, text=True, check=True
    )
    assert "[]" == done.stdout.strip()


def test_a_span_follows_that_of_another_process(receiver: Receiving) -> None:
    """One inside another follows that, and one of the past is followed by what was found out with it."""
    assert begin_traces("host", "h-1")
    with span("outer", {"braid.job": "7"}, parent=CALLER, kind="consumer") as outer:
        outer.note({"braid.plan": 3}, name="outer, after all")
        with span("inner"):
            ids, inner = trace_ids(), traceparent()
    past = record_span("past", 1_000, 2_000, parent=inner)
    record_span("of the past", 1_200, 1_100, parent=past)
    end_traces()
    made = {each.name: each for each in spans_of(receiver)}
    assert {"0af7651916cd43dd8448eb211c80319c"} == {each.trace for each in made.values()}
    assert "b7ad6b7169203331" == made["outer, after all"].parent
    assert {"braid.job": "7", "braid.plan": 3} == made["outer, after all"].attributes
    assert made["outer, after all"].id == made["inner"].parent
    assert {"trace_id": made["inner"].trace, "span_id": made["inner"].id} == ids
    assert [made["inner"].id, made["past"].id] == [made["past"].parent, made["of the past"].parent]
    assert (1_000, 2_000, 1_200) == (made["past"].began, made["past"].ended, made["of the past"].ended)


def test_a_span_has_the_kind_of_an_error_alone(receiver: Receiving) -> None:
    """Its message may quote what is a tenant's, and the caller gets it anyway."""
    assert begin_traces("manager", "m")
    with pytest.raises(LookupError, match="hush"), span("a"):
        raise LookupError("hush")
    end_traces()
    (made,) = spans_of(receiver)
    assert "LookupError" == made.error
    assert not any(b"hush" in got.body for got in receiver.got)


def test_a_receiver_that_is_away_is_complained_of_once_and_holds_up_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However many spans there are, the process ends."""
    away = threading.Event()

    def answer(_got: Got, _times: int) -> Reply:
        away.wait()
        return Reply(400)

    with receiving(answer) as receiver:
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"http://127.0.0.1:{receiver.port}")
        monkeypatch.setattr(traces, "_END_SECONDS", 0.1)
        assert begin_traces("host", "h")
        with span("a"):
            pass
        end_traces()
        assert not is_tracing()
        exporting = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        for _ in range(3):
            exporting.error("no answer")
        away.set()
        # What goes on in the background draws random numbers, which other tests would notice.
        for thread in threading.enumerate():
            if thread.name == "ends traces":
                thread.join()
    assert 1 == caplog.text.count("no answer")


def test_a_caller_who_is_not_traced_is_not_traced_here(receiver: Receiving) -> None:
    """Nor is what others do for it, as messages name no trace."""
    assert begin_traces("manager", "m")
    with span("a", parent=CALLER.removesuffix("01") + "00"):
        assert "" == traceparent()
        assert {} == trace_ids()
    with span("b", parent="nonsense"):
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", traceparent())
    end_traces()
    assert ["b"] == [each.name for each in spans_of(receiver)]


def test_standard_variables_have_the_effect_that_users_expect(
    receiver: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers, the name of the service and the sampler; and each of three ways to switch it off."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    assert begin_traces("host", "h")
    with span("a"):
        pass
    end_traces()
    assert ["ours"] == [each.service for each in spans_of(receiver)]
    assert "abc" == receiver.got[0].headers["x-token"]
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert begin_traces("host", "h")
    with span("b"):
        pass
    end_traces()
    assert ["a"] == [each.name for each in spans_of(receiver)]
    for variable, value in (
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        (ENDPOINT_VARIABLE, ""),
    ):
        with monkeypatch.context() as changed:
            changed.setenv(variable, value)
            assert not begin_traces("host", "h")
            assert not is_tracing()


@pytest.mark.parametrize(("given", "sampled"), [("0", 0), ("1", 100), ("much", None)])
def test_the_part_of_batches_that_is_traced_can_be_chosen(
    receiver: Receiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    given: str,
    sampled: int | None,
) -> None:
    """None, all, or one in a hundred where what is given is no number, which is logged."""
    assert not is_batch_sampled()
    monkeypatch.setenv(TRACED_BATCHES_VARIABLE, given)
    assert begin_traces("host", str(receiver.port))
    if sampled is None:
        assert "is no number" in caplog.text
    else:
        assert sampled == sum(is_batch_sampled() for _ in range(100))


@pytest.mark.usefixtures("receiver")
def test_traces_that_are_asked_for_and_cannot_be_had_are_missed_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what to install, and everything else goes on."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.ERROR):
        assert not begin_traces("host", "h")
    assert "pip install 'braid[traces]'" in caplog.text
