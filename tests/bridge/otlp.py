"""The spans that a receiver of OTLP got, as the exporter of OpenTelemetry sends them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bridge.traces import ENDPOINT_VARIABLE, begin_traces, end_traces
from tests.tasks.receivers import Receiving, receiving

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""The traceparent of somebody who asks."""


class SentSpan(NamedTuple):
    """A span, as it was sent."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    """The id of the span that it follows; empty if there is none."""
    began: int
    ended: int
    attributes: Mapping[str, Any]
    error: str
    """Why it failed; empty if it did not."""


@contextmanager
def tracing(**variables: str) -> Iterator[Callable[[], dict[str, SentSpan]]]:
    """Traces of this process; what is called ends them, and returns their spans by name."""
    with receiving() as receiver, pytest.MonkeyPatch.context() as changed:
        for name, value in {ENDPOINT_VARIABLE: f"http://127.0.0.1:{receiver.port}", **variables}.items():
            changed.setenv(name, value)
        assert begin_traces("manager", "m")

        def sent_spans() -> dict[str, SentSpan]:
            end_traces()
            return {span.name: span for span in spans_of(receiver)}

        try:
            yield sent_spans
        finally:
            end_traces()


def spans_of(receiver: Receiving, trace: str = "") -> list[SentSpan]:
    """All spans that came so far, or those of a trace."""
    every = (span for got in list(receiver.got) if got.path == "/v1/traces" for span in _spans(got.body))
    return [span for span in every if trace in {"", span.trace}]


def _spans(body: bytes) -> Iterator[SentSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SentSpan(
                    service=service,
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                    error=span.status.message,
                )


def _attributes(given: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in given}
